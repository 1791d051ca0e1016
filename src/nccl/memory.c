/* Memory, and making it known to a comm. No op needs registration; there are no windows yet. */
#include "comm/comm.h"
#include "common/result.h"
#include "nccl/nccl.h"

ncclResult_t pncclMemAlloc(void **pointer, size_t bytes)
{
    return rondoMemAlloc(pointer, bytes);
}

ncclResult_t pncclMemFree(void *pointer)
{
    return rondoMemFree(pointer);
}

ncclResult_t pncclCommRegister(ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
    return rondoCommRegister(comm, buffer, bytes, handle);
}

ncclResult_t pncclCommDeregister(ncclComm_t comm, void *handle)
{
    RONDO_TRY(rondo_comm_enter_ended(comm));
    ncclResult_t result = handle ? rondo_registry_remove(&comm->registry, handle) : rondoSuccess;
    rondo_comm_leave(comm);
    return result == rondoInvalidArgument ? rondoInvalidUsage : result; /* the text is right */
}

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags)
{
    (void)flags; /* they ask for more than a window */
    if (!window)
        return rondo_fail(rondoInvalidArgument, "win is NULL");
    *window = NULL;
    if (!buffer || bytes == 0)
        return rondo_fail(rondoInvalidArgument, buffer ? "size is 0" : "buff is NULL");
    if ((uintptr_t)buffer % NCCL_WIN_ALIGNMENT)
        return rondo_fail(rondoInvalidArgument, "buff (%p) is not aligned to %d bytes", buffer, NCCL_WIN_ALIGNMENT);
    RONDO_TRY(rondo_comm_enter_alone(comm));
    rondo_comm_leave(comm);
    return rondoSuccess;
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    if (window)
        return rondo_fail(rondoInvalidArgument, "win (%p) is not a window: Rondo has none", (void *)window);
    RONDO_TRY(rondo_comm_enter_ended(comm));
    rondo_comm_leave(comm);
    return rondoSuccess;
}

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **pointer)
{
    if (!pointer)
        return rondo_fail(rondoInvalidArgument, "outUserPtr is NULL");
    *pointer = NULL;
    RONDO_TRY(rondo_comm_enter_ended(comm));
    rondo_comm_leave(comm);
    return rondo_fail(rondoInvalidArgument, "win (%p) is not a window: Rondo has none", (void *)window);
}

NCCL_ALIAS(MemAlloc);
NCCL_ALIAS(MemFree);
NCCL_ALIAS(CommRegister);
NCCL_ALIAS(CommDeregister);
NCCL_ALIAS(CommWindowRegister);
NCCL_ALIAS(CommWindowDeregister);
NCCL_ALIAS(WinGetUserPtr);
