/* Calls that make buffers known to a comm. */
#include "comm/comm.h"
#include "common/result.h"

#include <stdint.h>

rondoResult_t rondoCommRegister(rondoComm_t comm, void *buff, size_t size, void **handle)
{
    if (!handle)
        return rondo_fail(rondoInvalidArgument, "handle is NULL");
    *handle = NULL;
    if (!buff || size == 0)
        return rondo_fail(rondoInvalidArgument, buff ? "size is 0" : "buff is NULL");
    if (size > UINTPTR_MAX - (uintptr_t)buff)
        return rondo_fail(rondoInvalidArgument, "size %zu: buff (%p) would end beyond the address space", size, buff);
    RONDO_TRY(rondo_comm_enter_alone(comm));
    rondoResult_t result = rondo_registry_add(&comm->registry, comm->exporter, buff, size, handle);
    rondo_comm_leave(comm);
    return result;
}

rondoResult_t rondoCommDeregister(rondoComm_t comm, void *handle)
{
    RONDO_TRY(rondo_comm_enter_ended(comm));
    rondoResult_t result = handle ? rondo_registry_remove(&comm->registry, handle) : rondoSuccess;
    rondo_comm_leave(comm);
    return result;
}
