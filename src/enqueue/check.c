#include "enqueue/check.h"

#include "common/result.h"
#include "kernels/types.h"

rondoResult_t rondo_check_enums(int datatype, int op)
{
    if (datatype < 0 || datatype >= rondoNumTypes)
        return rondo_fail(rondoInvalidArgument, "datatype %d is not a rondoDataType_t", datatype);
    if (op < 0 || op >= rondoNumOps)
        return rondo_fail(rondoInvalidArgument, "op %d is not a rondoRedOp_t", op);
    return rondoSuccess;
}

rondoResult_t rondo_check_buffer(const char *name, const void *buffer, size_t count, unsigned datatype)
{
    const unsigned element = rondo_dtype_bytes(datatype);
    const uintptr_t address = (uintptr_t)buffer;
    if (!buffer)
        return rondo_fail(rondoInvalidArgument, "%s is NULL and count is %zu", name, count);
    if (address % element)
        return rondo_fail(rondoInvalidArgument, "%s (%p) is not aligned to the type's %u bytes", name, buffer, element);
    if (count > (UINTPTR_MAX - address) / element)
        return rondo_fail(rondoInvalidArgument, "count %zu: %s (%p) would end beyond the address space", count, name,
                          buffer);
    return rondoSuccess;
}

rondoResult_t rondo_check_overlap(const void *send, const void *recv, size_t count, unsigned datatype)
{
    const uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv, bytes = count * rondo_dtype_bytes(datatype);
    if (s != r && s < r + bytes && r < s + bytes)
        return rondo_fail(rondoInvalidArgument,
                          "sendbuff (%p) and recvbuff (%p) overlap without being the same (%zu bytes each)", send, recv,
                          (size_t)bytes);
    return rondoSuccess;
}
