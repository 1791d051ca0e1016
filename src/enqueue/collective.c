/* Ops in which all ranks do the same. */
#include "common/range.h"
#include "common/result.h"
#include "enqueue/check.h"
#include "enqueue/group.h"
#include "kernels/types.h"

#include <string.h>

/* A call's arguments, of whatever op. */
struct call {
    unsigned collective;
    const void *send;
    void *recv;
    size_t count; /* of one flow */
    int datatype, op, root;
    struct CUstream_st *stream;
};

static bool reduces(unsigned collective)
{
    return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE_SCATTER || collective == RONDO_REDUCE;
}
static bool has_root(unsigned collective)
{
    return collective == RONDO_REDUCE || collective == RONDO_BROADCAST;
}

/* Buffers that this rank uses; the others are NULL in the task. */
static rondoResult_t check_buffers(const struct rondoComm *comm, const struct call *call, struct rondo_task *task)
{
    const unsigned c = call->collective;
    const size_t ranks = (size_t)comm->ranks, sends = rondo_send_parts(c, ranks), recvs = rondo_recv_parts(c, ranks);
    if (c != RONDO_BROADCAST || call->root == comm->rank) {
        RONDO_TRY(rondo_check_buffer("sendbuff", call->send, sends, call->count, task->dtype));
        RONDO_TRY(rondo_check_reach(comm, "sendbuff", call->send));
        task->send = call->send;
    }
    if (c != RONDO_REDUCE || call->root == comm->rank) {
        RONDO_TRY(rondo_check_buffer("recvbuff", call->recv, recvs, call->count, task->dtype));
        RONDO_TRY(rondo_check_reach(comm, "recvbuff", call->recv));
        task->recv = call->recv;
    }
    if (!task->send || !task->recv)
        return rondoSuccess;
    return rondo_check_in_place(c, (size_t)comm->rank, ranks, task->send, task->recv,
                                call->count * rondo_dtype_bytes(task->dtype));
}

static rondoResult_t check(struct rondoComm *comm, const struct call *call, struct rondo_task *task)
{
    *task = (struct rondo_task){.collective = (uint8_t)call->collective, .count = call->count};
    if (call->collective == RONDO_BARRIER)
        return rondoSuccess;
    RONDO_TRY(rondo_check_type(call->datatype));
    task->dtype = (uint8_t)call->datatype;
    if (reduces(call->collective))
        RONDO_TRY(rondo_check_op(comm, call->op, call->datatype, task));
    if (has_root(call->collective))
        RONDO_TRY(rondo_check_rank(comm, "root", call->root));
    task->root = (uint16_t)call->root;
    return call->count ? check_buffers(comm, call, task) : rondoSuccess;
}

static rondoResult_t enqueue(rondoComm_t comm, const struct call *call)
{
    static const char *const names[] = {
        [RONDO_ALL_REDUCE] = "rondoAllReduce", [RONDO_REDUCE_SCATTER] = "rondoReduceScatter",
        [RONDO_REDUCE] = "rondoReduce",        [RONDO_ALL_GATHER] = "rondoAllGather",
        [RONDO_ALL_TO_ALL] = "rondoAllToAll",  [RONDO_BROADCAST] = "rondoBroadcast",
        [RONDO_BARRIER] = "rondoBarrier",
    };
    RONDO_RANGE(names[call->collective], (uint64_t)call->count * rondo_dtype_bytes((unsigned)call->datatype));
    struct rondo_task task;
    rondoResult_t result = rondo_comm_enter(comm);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    result = check(comm, call, &task);
    if (result == rondoSuccess && (call->count || call->collective == RONDO_BARRIER))
        result = rondo_group_add(comm, &task, call->stream);
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}

rondoResult_t rondoAllReduce(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                             rondoRedOp_t op, rondoComm_t comm, struct CUstream_st *stream)
{
    const struct call call = {RONDO_ALL_REDUCE, sendbuff, recvbuff, count, datatype, op, 0, stream};
    return enqueue(comm, &call);
}

rondoResult_t rondoReduce(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype, rondoRedOp_t op,
                          int root, rondoComm_t comm, struct CUstream_st *stream)
{
    const struct call call = {RONDO_REDUCE, sendbuff, recvbuff, count, datatype, op, root, stream};
    return enqueue(comm, &call);
}

rondoResult_t rondoBroadcast(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype, int root,
                             rondoComm_t comm, struct CUstream_st *stream)
{
    const struct call call = {RONDO_BROADCAST, sendbuff, recvbuff, count, datatype, rondoSum, root, stream};
    return enqueue(comm, &call);
}

rondoResult_t rondoBcast(void *buff, size_t count, rondoDataType_t datatype, int root, rondoComm_t comm,
                         struct CUstream_st *stream)
{
    return rondoBroadcast(buff, buff, count, datatype, root, comm, stream);
}

rondoResult_t rondoAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, rondoDataType_t datatype,
                             rondoComm_t comm, struct CUstream_st *stream)
{
    const struct call call = {RONDO_ALL_GATHER, sendbuff, recvbuff, sendcount, datatype, rondoSum, 0, stream};
    return enqueue(comm, &call);
}

rondoResult_t rondoReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, rondoDataType_t datatype,
                                 rondoRedOp_t op, rondoComm_t comm, struct CUstream_st *stream)
{
    const struct call call = {RONDO_REDUCE_SCATTER, sendbuff, recvbuff, recvcount, datatype, op, 0, stream};
    return enqueue(comm, &call);
}

rondoResult_t rondoAllToAll(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                            rondoComm_t comm, struct CUstream_st *stream)
{
    const struct call call = {RONDO_ALL_TO_ALL, sendbuff, recvbuff, count, datatype, rondoSum, 0, stream};
    return enqueue(comm, &call);
}

rondoResult_t rondoBarrier(rondoComm_t comm, struct CUstream_st *stream)
{
    const struct call call = {.collective = RONDO_BARRIER, .stream = stream};
    return enqueue(comm, &call);
}

/* ---- reductions of parts of different sizes: a reduce for each, together ---- */

static rondoResult_t check_parts(const struct rondoComm *comm, const size_t counts[], const size_t displs[],
                                 size_t recvcount)
{
    if (!counts || !displs)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", counts ? "displs" : "sendcounts");
    if (counts[comm->rank] != recvcount)
        return rondo_fail(rondoInvalidArgument, "recvcount is %zu, and sendcounts[%d] is %zu", recvcount, comm->rank,
                          counts[comm->rank]);
    return rondoSuccess;
}

/* The rank's result may lie where its own part does, and nowhere else in what is read. */
static rondoResult_t check_places(const struct rondoComm *comm, const char *send, const size_t counts[],
                                  const size_t displs[], void *recv, size_t element)
{
    for (int r = 0; r < comm->ranks && send && recv; r++) {
        const struct rondo_overlap overlap = {
            .send = send + displs[r] * element,
            .recv = recv,
            .send_bytes = counts[r] * element,
            .recv_bytes = counts[comm->rank] * element,
            .place = r == comm->rank ? send + displs[r] * element : NULL,
            .other = recv,
        };
        if (overlap.send_bytes && overlap.recv_bytes)
            RONDO_TRY(rondo_check_overlap(&overlap));
    }
    return rondoSuccess;
}

rondoResult_t rondoReduceScatterv(const void *sendbuff, const size_t sendcounts[], const size_t displs[],
                                  void *recvbuff, size_t recvcount, rondoDataType_t datatype, rondoRedOp_t op,
                                  rondoComm_t comm, struct CUstream_st *stream)
{
    RONDO_RANGE("rondoReduceScatterv", (uint64_t)recvcount * rondo_dtype_bytes((unsigned)datatype));
    rondoResult_t result = rondo_comm_enter(comm);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    const int ranks = comm->ranks;
    result = check_parts(comm, sendcounts, displs, recvcount);
    if (result == rondoSuccess)
        result = rondo_check_type(datatype);
    if (result == rondoSuccess && !sendbuff)
        for (int r = 0; r < ranks && result == rondoSuccess; r++)
            if (sendcounts[r])
                result =
                    rondo_fail(rondoInvalidArgument, "sendbuff is NULL and sendcounts[%d] is %zu", r, sendcounts[r]);
    const size_t element = rondo_dtype_bytes((unsigned)datatype);
    if (result == rondoSuccess)
        result = check_places(comm, sendbuff, sendcounts, displs, recvbuff, element);
    rondo_comm_leave(comm);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    rondoGroupStart();
    for (int r = 0; r < ranks && result == rondoSuccess; r++)
        result = rondoReduce(sendbuff ? (const char *)sendbuff + displs[r] * element : NULL, recvbuff, sendcounts[r],
                             datatype, op, r, comm, stream);
    const rondoResult_t end = rondoGroupEnd(); /* in the caller's group it knows of no error yet */
    return result == rondoSuccess ? end : result;
}

/* ---- operators ---- */

static rondoResult_t create_scaling(rondoRedOp_t *op, const void *scalar, int datatype, int residence,
                                    struct rondoComm *comm)
{
    struct rondo_redop_info info = {.datatype = (rondoDataType_t)datatype};
    if (!op || !scalar)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", op ? "scalar" : "op");
    RONDO_TRY(rondo_check_type(datatype));
    const unsigned bytes = rondo_dtype_bytes((unsigned)datatype);
    if (residence == rondoScalarHostImmediate) {
        memcpy(&info.scalar, scalar, bytes);
    } else if (residence == rondoScalarDevice) {
        if ((uintptr_t)scalar % bytes)
            return rondo_fail(rondoInvalidArgument, "scalar (%p) is not aligned to the type's %u bytes", scalar, bytes);
        info.by_address = true;
        info.scalar = (uintptr_t)scalar;
    } else {
        return rondo_fail(rondoInvalidArgument, "residence %d is not a rondoScalarResidence_t", residence);
    }
    return rondo_redops_add(&comm->redops, &info, op);
}

rondoResult_t rondoRedOpCreatePreMulSum(rondoRedOp_t *op, void *scalar, rondoDataType_t datatype,
                                        rondoScalarResidence_t residence, rondoComm_t comm)
{
    RONDO_TRY(rondo_comm_enter_alone(comm));
    rondoResult_t result = create_scaling(op, scalar, datatype, residence, comm);
    rondo_comm_leave(comm);
    return result;
}

rondoResult_t rondoRedOpDestroy(rondoRedOp_t op, rondoComm_t comm)
{
    if (op >= 0 && op < rondoNumOps)
        return rondo_fail(rondoInvalidArgument, "op %d is built in", (int)op);
    RONDO_TRY(rondo_comm_enter_ended(comm));
    rondoResult_t result = rondo_redops_remove(&comm->redops, op);
    rondo_comm_leave(comm);
    return result;
}
