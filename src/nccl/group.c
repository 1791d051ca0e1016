/* Groups. NCCL refuses what Rondo would do: ops of blocking and of non-blocking comms together. */
#include "enqueue/group.h"

#include "common/result.h"
#include "nccl/nccl.h"

#include <stddef.h>

ncclResult_t pncclGroupStart(void)
{
    return rondoGroupStart();
}

ncclResult_t pncclGroupEnd(void)
{
    if (rondo_group_mixes_blocking())
        rondo_group_error(rondo_fail(rondoInvalidArgument, "a group has ops of blocking and of non-blocking comms"));
    return rondoGroupEnd();
}

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    if (!info)
        return pncclGroupEnd();
    if (info->magic != NCCL_SIM_INFO_MAGIC || info->size < offsetof(ncclSimInfo_t, estimatedTime))
        rondo_group_error(rondo_fail(rondoInvalidArgument, "simInfo was not set up with NCCL_SIM_INFO_INITIALIZER"));
    else if (info->size >= offsetof(ncclSimInfo_t, estimatedTime) + sizeof info->estimatedTime)
        info->estimatedTime = NCCL_UNDEF_FLOAT;
    return rondo_group_discard();
}

NCCL_ALIAS(GroupStart);
NCCL_ALIAS(GroupEnd);
NCCL_ALIAS(GroupSimulateEnd);
