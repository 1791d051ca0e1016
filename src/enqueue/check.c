#include "enqueue/check.h"

#include "common/result.h"
#include "kernels/types.h"

rondoResult_t rondo_check_type(int datatype)
{
    if (datatype < 0 || datatype >= rondoNumTypes)
        return rondo_fail(rondoInvalidArgument, "datatype %d is not a rondoDataType_t", datatype);
    return rondoSuccess;
}

rondoResult_t rondo_check_op(struct rondoComm *comm, int op, int datatype, struct rondo_task *task)
{
    struct rondo_redop_info info;
    if (op >= 0 && op < rondoNumOps) {
        task->redop = (uint8_t)op;
        return rondoSuccess;
    }
    RONDO_TRY(rondo_redops_find(&comm->redops, (rondoRedOp_t)op, &info));
    if ((int)info.datatype != datatype)
        return rondo_fail(rondoInvalidArgument, "op %d was made for datatype %d, and datatype is %d", op,
                          (int)info.datatype, datatype);
    task->redop = RONDO_SUM;
    task->scaling = info.by_address ? RONDO_SCALED_BY : RONDO_SCALED;
    task->scalar = info.scalar;
    return rondoSuccess;
}

rondoResult_t rondo_check_rank(const struct rondoComm *comm, const char *name, int rank)
{
    if (rank < 0 || rank >= comm->ranks)
        return rondo_fail(rondoInvalidArgument, "%s is %d, must be 0 to %d", name, rank, comm->ranks - 1);
    return rondoSuccess;
}

rondoResult_t rondo_check_buffer(const char *name, const void *buffer, size_t parts, size_t count, unsigned datatype)
{
    const unsigned element = rondo_dtype_bytes(datatype);
    const uintptr_t address = (uintptr_t)buffer;
    if (!buffer)
        return rondo_fail(rondoInvalidArgument, "%s is NULL and count is %zu", name, count);
    if (address % element)
        return rondo_fail(rondoInvalidArgument, "%s (%p) is not aligned to the type's %u bytes", name, buffer, element);
    if (count > (UINTPTR_MAX - address) / element / parts)
        return rondo_fail(rondoInvalidArgument, "count %zu: %s (%p) would end beyond the address space", count, name,
                          buffer);
    return rondoSuccess;
}

rondoResult_t rondo_check_reach(const struct rondoComm *comm, const char *name, const void *buffer)
{
    return comm->config.check_pointers ? comm->ops->check_pointer(comm->device, name, buffer) : rondoSuccess;
}

rondoResult_t rondo_check_overlap(const struct rondo_overlap *o)
{
    const uintptr_t s = (uintptr_t)o->send, r = (uintptr_t)o->recv;
    if (o->place != o->other && s < r + o->recv_bytes && r < s + o->send_bytes)
        return rondo_fail(
            rondoInvalidArgument,
            "sendbuff (%p, %zu bytes) and recvbuff (%p, %zu bytes) overlap, and not as the op allows in place", o->send,
            o->send_bytes, o->recv, o->recv_bytes);
    return rondoSuccess;
}

rondoResult_t rondo_check_in_place(unsigned collective, size_t rank, size_t ranks, const void *send, const void *recv,
                                   size_t bytes)
{
    const size_t sends = rondo_send_parts(collective, ranks), recvs = rondo_recv_parts(collective, ranks);
    const struct rondo_overlap overlap = {
        .send = send,
        .recv = recv,
        .send_bytes = sends * bytes,
        .recv_bytes = recvs * bytes,
        .place = (const char *)send + (sends > 1 && recvs == 1 ? rank * bytes : 0),
        .other = (const char *)recv + (recvs > 1 && sends == 1 ? rank * bytes : 0),
    };
    return rondo_check_overlap(&overlap);
}
