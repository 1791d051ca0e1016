/* Sends and receives. Unlike Rondo's, NCCL's of no elements pair too: they travel as one byte that nobody looks at. */
#include "comm/comm.h"
#include "enqueue/check.h"
#include "enqueue/group.h"
#include "nccl/nccl.h"
#include "nccl/refusal.h"

static ncclResult_t empty(ncclComm_t comm, enum rondo_transfer_kind kind, ncclDataType_t type, int peer,
                          ncclStream_t stream)
{
    ncclResult_t result = rondo_comm_enter(comm);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    result = rondo_check_type(type);
    if (result == rondoSuccess)
        result = rondo_check_rank(comm, "peer", peer);
    if (result == rondoSuccess) {
        const unsigned spare = kind == RONDO_SEND ? 0 : 1 + (unsigned)peer;
        const struct rondo_message message = {
            .buffer = rondo_lanes_spare(comm->anchor, (unsigned)comm->ranks, spare),
            .bytes = 1,
            .kind = (uint8_t)kind,
            .element = 1,
            .peer = (uint16_t)peer,
        };
        result = rondo_group_add_message(comm, &message, stream);
    }
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}

ncclResult_t pncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       ncclStream_t stream)
{
    return count ? rondoSend(buffer, count, type, peer, comm, stream) : empty(comm, RONDO_SEND, type, peer, stream);
}

ncclResult_t pncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, ncclStream_t stream)
{
    return count ? rondoRecv(buffer, count, type, peer, comm, stream) : empty(comm, RONDO_RECV, type, peer, stream);
}

/* ---- one-sided messages ---- */

static const char one_sided[] = "Rondo has no one-sided messages; ncclSend and ncclRecv are what there is";

ncclResult_t pncclPutSignal(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                            size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
                            ncclStream_t stream)
{
    (void)buffer, (void)count, (void)type, (void)peer, (void)window, (void)offset, (void)signal, (void)context;
    (void)flags, (void)stream;
    return rondo_nccl_refuse_comm(comm, "ncclPutSignal", one_sided);
}

ncclResult_t pncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm, ncclStream_t stream)
{
    (void)peer, (void)signal, (void)context, (void)flags, (void)stream;
    return rondo_nccl_refuse_comm(comm, "ncclSignal", one_sided);
}

ncclResult_t pncclWaitSignal(int count, ncclWaitSignalDesc_t *list, ncclComm_t comm, ncclStream_t stream)
{
    (void)count, (void)list, (void)stream;
    return rondo_nccl_refuse_comm(comm, "ncclWaitSignal", one_sided);
}

NCCL_ALIAS(Send);
NCCL_ALIAS(Recv);
NCCL_ALIAS(PutSignal);
NCCL_ALIAS(Signal);
NCCL_ALIAS(WaitSignal);
