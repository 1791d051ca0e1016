#include "common/result.h"
#include "enqueue/check.h"
#include "enqueue/group.h"

static rondoResult_t all_reduce(struct rondoComm *comm, const struct rondo_task *task, struct CUstream_st *stream)
{
    if (task->count == 0)
        return rondoSuccess;
    RONDO_TRY(rondo_check_buffer("sendbuff", task->send, task->count, task->dtype));
    RONDO_TRY(rondo_check_buffer("recvbuff", task->recv, task->count, task->dtype));
    RONDO_TRY(rondo_check_overlap(task->send, task->recv, task->count, task->dtype));
    return rondo_group_add(comm, task, stream);
}

rondoResult_t rondoAllReduce(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                             rondoRedOp_t op, rondoComm_t comm, struct CUstream_st *stream)
{
    rondoResult_t result = rondo_comm_enter(comm);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    result = rondo_check_enums(datatype, op);
    if (result == rondoSuccess) {
        const struct rondo_task task = {sendbuff, recvbuff, count, (uint8_t)datatype, (uint8_t)op};
        result = all_reduce(comm, &task, stream);
    }
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}
