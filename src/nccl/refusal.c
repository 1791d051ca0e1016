#include "nccl/refusal.h"

#include "common/result.h"
#include "enqueue/group.h"

ncclResult_t rondo_nccl_refuse(const char *function, const char *why)
{
    return rondo_group_error(rondo_fail(rondoInvalidUsage, "%s: %s", function, why));
}

ncclResult_t rondo_nccl_refuse_comm(ncclComm_t comm, const char *function, const char *why)
{
    int rank;
    const ncclResult_t result = rondoCommRank(comm, &rank);
    return result == rondoSuccess ? rondo_nccl_refuse(function, why) : rondo_group_error(result);
}
