/* What a comm says of itself. */
#include "comm/areas.h"
#include "comm/comm.h"
#include "common/result.h"
#include "nccl/nccl.h"

#include <string.h>

ncclResult_t pncclCommCount(ncclComm_t comm, int *count)
{
    return rondoCommCount(comm, count);
}

ncclResult_t pncclCommCuDevice(ncclComm_t comm, int *device)
{
    return rondoCommDevice(comm, device);
}

ncclResult_t pncclCommUserRank(ncclComm_t comm, int *rank)
{
    return rondoCommRank(comm, rank);
}

/* A revocation is no error to NCCL: it is in progress, and then the comm is well. */
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    RONDO_TRY(rondoCommGetAsyncError(comm, error));
    switch (__atomic_load_n(&comm->revoked, __ATOMIC_ACQUIRE)) { /* a struct's memory stays, see comm/retired.h */
    case RONDO_REVOKING:
        *error = rondoInProgress;
        break;
    case RONDO_REVOKED:
        *error = rondoSuccess;
        break;
    }
    return rondoSuccess;
}

ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
    if (!value || (int)stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal)
        return rondo_fail(rondoInvalidArgument, value ? "stat is %d" : "value is NULL", (int)stat);
    RONDO_TRY(rondo_comm_enter_ended(comm));
    const struct rondo_anchor *anchor = comm->anchor;
    const bool counted = stat == ncclStatGpuMemPersist || stat == ncclStatGpuMemTotal;
    *value = counted ? anchor->control.bytes : 0;
    for (int a = 0; counted && a < RONDO_AREA_COUNT; a++)
        *value += rondo_area_is_host((enum rondo_area)a) ? 0 : anchor->areas[a].bytes;
    rondo_comm_leave(comm);
    return rondoSuccess;
}

ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties)
{
    enum { LARGEST = 4096 }; /* a size beyond that is none */
    if (!properties)
        return rondo_fail(rondoInvalidArgument, "props is NULL");
    if (properties->magic != NCCL_MAGIC || properties->size < sizeof *properties || properties->size > LARGEST)
        return rondo_fail(rondoInvalidUsage, "props was not set up with NCCL_COMM_PROPERTIES_INITIALIZER");
    const size_t head = offsetof(ncclCommProperties_t, rank);
    int rank, ranks, device;
    RONDO_TRY(rondoCommRank(comm, &rank));
    RONDO_TRY(rondoCommCount(comm, &ranks));
    RONDO_TRY(rondoCommDevice(comm, &device));
    memset((char *)properties + head, 0, properties->size - head);
    properties->rank = rank;
    properties->nRanks = ranks;
    properties->cudaDev = device;
    properties->nvmlDev = -1; /* nobody asked NVML */
    return rondoSuccess;
}

NCCL_ALIAS(CommCount);
NCCL_ALIAS(CommCuDevice);
NCCL_ALIAS(CommUserRank);
NCCL_ALIAS(CommGetAsyncError);
NCCL_ALIAS(CommMemStats);
NCCL_ALIAS(CommQueryProperties);
