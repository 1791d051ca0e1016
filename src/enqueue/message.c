/* Sends and receives, and the ops that are made of them. */
#include "common/range.h"
#include "common/result.h"
#include "enqueue/check.h"
#include "enqueue/group.h"
#include "kernels/types.h"

/* One message of a call. */
struct part {
    enum rondo_transfer_kind kind;
    void *buffer;
    const void *from; /* of a copy */
    size_t count;
    int peer;
};

static rondoResult_t add_part(struct rondoComm *comm, const struct part *part, int datatype, struct CUstream_st *stream)
{
    const unsigned element = rondo_dtype_bytes((unsigned)datatype);
    if (part->count == 0 || (part->kind == RONDO_COPY && part->from == part->buffer))
        return rondoSuccess;
    RONDO_TRY(rondo_check_buffer(part->kind == RONDO_SEND ? "sendbuff" : "recvbuff", part->buffer, 1, part->count,
                                 (unsigned)datatype));
    RONDO_TRY(rondo_check_reach(comm, part->kind == RONDO_SEND ? "sendbuff" : "recvbuff", part->buffer));
    if (part->kind == RONDO_COPY) {
        RONDO_TRY(rondo_check_buffer("sendbuff", part->from, 1, part->count, (unsigned)datatype));
        RONDO_TRY(rondo_check_reach(comm, "sendbuff", part->from));
    }
    const struct rondo_message message = {
        .buffer = part->buffer,
        .from = part->from,
        .bytes = (uint64_t)part->count * element,
        .kind = (uint8_t)part->kind,
        .element = (uint8_t)element,
        .peer = (uint16_t)part->peer,
    };
    return rondo_group_add_message(comm, &message, stream);
}

static rondoResult_t one(rondoComm_t comm, const struct part *part, int datatype, struct CUstream_st *stream)
{
    rondoResult_t result = rondo_comm_enter(comm);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    result = rondo_check_type(datatype);
    if (result == rondoSuccess)
        result = rondo_check_rank(comm, "peer", part->peer);
    if (result == rondoSuccess)
        result = add_part(comm, part, datatype, stream);
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}

rondoResult_t rondoSend(const void *sendbuff, size_t count, rondoDataType_t datatype, int peer, rondoComm_t comm,
                        struct CUstream_st *stream)
{
    RONDO_RANGE("rondoSend", (uint64_t)count * rondo_dtype_bytes((unsigned)datatype));
    const struct part part = {RONDO_SEND, (void *)(uintptr_t)sendbuff, NULL, count, peer};
    return one(comm, &part, datatype, stream);
}

rondoResult_t rondoRecv(void *recvbuff, size_t count, rondoDataType_t datatype, int peer, rondoComm_t comm,
                        struct CUstream_st *stream)
{
    RONDO_RANGE("rondoRecv", (uint64_t)count * rondo_dtype_bytes((unsigned)datatype));
    const struct part part = {RONDO_RECV, recvbuff, NULL, count, peer};
    return one(comm, &part, datatype, stream);
}

/* ---- ops of many messages ---- */

/* What a rank sends to and receives from each rank, in bytes and counts of elements; itself included. */
struct pattern {
    const char *send;
    char *recv;
    size_t element;
    const size_t *send_counts, *send_places; /* NULL: send_count each, and at r * send_count (`parts`) or 0 */
    const size_t *recv_counts, *recv_places;
    size_t send_count, recv_count;
    bool send_parts, recv_parts;
    int only_to, only_from; /* -1: to and from everyone */
};

static size_t place(const size_t *places, bool parts, size_t count, int rank)
{
    return places ? places[rank] : parts ? (size_t)rank * count : 0;
}

/* The message to one rank, or from it. Its buffer is NULL where the caller's is. */
static struct part part_of(const struct pattern *p, enum rondo_transfer_kind kind, int peer)
{
    struct part part = {.kind = kind, .peer = peer};
    if (kind == RONDO_SEND) {
        part.count = p->only_to >= 0 && p->only_to != peer ? 0 : p->send_counts ? p->send_counts[peer] : p->send_count;
        if (p->send)
            part.buffer =
                (void *)(uintptr_t)(p->send + place(p->send_places, p->send_parts, p->send_count, peer) * p->element);
    } else {
        part.count = p->only_from >= 0 && p->only_from != peer ? 0
                     : p->recv_counts                          ? p->recv_counts[peer]
                                                               : p->recv_count;
        if (p->recv)
            part.buffer = p->recv + place(p->recv_places, p->recv_parts, p->recv_count, peer) * p->element;
    }
    return part;
}

/* `in_place`: they may be the same. */
static rondoResult_t overlap_of(const struct part *send, const struct part *recv, size_t element, bool in_place)
{
    const uintptr_t s = (uintptr_t)send->buffer, r = (uintptr_t)recv->buffer;
    if (s == r && in_place)
        return rondoSuccess;
    if (send->count && recv->count && s < r + recv->count * element && r < s + send->count * element)
        return rondo_fail(
            rondoInvalidArgument,
            "what is sent to rank %d (%p, %zu elements) and received from rank %d (%p, %zu elements) overlap",
            send->peer, send->buffer, send->count, recv->peer, recv->buffer, recv->count);
    return rondoSuccess;
}

/* All of a pattern's messages are checked before the first is added. What a rank has for itself may lie where it belongs
 * already, even if it is the same as what it has for the others. */
static rondoResult_t check_pattern(const struct rondoComm *comm, const struct pattern *p, int datatype)
{
    for (int r = 0; r < comm->ranks; r++) {
        const struct part send = part_of(p, RONDO_SEND, r), recv = part_of(p, RONDO_RECV, r);
        if (send.count)
            RONDO_TRY(rondo_check_buffer("sendbuff", send.buffer, 1, send.count, (unsigned)datatype));
        if (recv.count)
            RONDO_TRY(rondo_check_buffer("recvbuff", recv.buffer, 1, recv.count, (unsigned)datatype));
        if (r == comm->rank && send.count != recv.count)
            return rondo_fail(rondoInvalidArgument, "rank %d sends itself %zu elements and receives %zu", r, send.count,
                              recv.count);
    }
    for (int s = 0; s < comm->ranks; s++)
        for (int r = 0; r < comm->ranks; r++) {
            const struct part send = part_of(p, RONDO_SEND, s), recv = part_of(p, RONDO_RECV, r);
            const bool same_for_all = !p->send_parts && !p->send_places;
            RONDO_TRY(overlap_of(&send, &recv, p->element, r == comm->rank && (s == comm->rank || same_for_all)));
        }
    return rondoSuccess;
}

static rondoResult_t add_pattern(struct rondoComm *comm, const struct pattern *p, int datatype,
                                 struct CUstream_st *stream)
{
    for (int d = 0; d < comm->ranks; d++) {
        const int to = (comm->rank + d) % comm->ranks, from = (comm->rank - d + comm->ranks) % comm->ranks;
        struct part send = part_of(p, RONDO_SEND, to);
        const struct part recv = part_of(p, RONDO_RECV, from);
        if (d == 0) {
            send.kind = RONDO_COPY;
            send.from = send.buffer;
            send.buffer = recv.buffer;
        }
        RONDO_TRY(add_part(comm, &send, datatype, stream));
        if (d > 0)
            RONDO_TRY(add_part(comm, &recv, datatype, stream));
    }
    return rondoSuccess;
}

static rondoResult_t many(struct rondoComm *comm, const struct pattern *pattern, int datatype,
                          struct CUstream_st *stream)
{
    rondoResult_t result = check_pattern(comm, pattern, datatype);
    if (result != rondoSuccess)
        return result;
    rondoGroupStart();
    rondo_group_error(add_pattern(comm, pattern, datatype, stream));
    return rondoGroupEnd();
}

/* A call on a live comm with a valid type; fills in what the pattern does not say. */
static rondoResult_t begin(rondoComm_t comm, int datatype, struct pattern *pattern)
{
    RONDO_TRY(rondo_comm_enter(comm));
    rondoResult_t result = rondo_check_type(datatype);
    if (result == rondoSuccess)
        pattern->element = rondo_dtype_bytes((unsigned)datatype);
    else
        rondo_comm_leave(comm);
    return result;
}

rondoResult_t rondoGather(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype, int root,
                          rondoComm_t comm, struct CUstream_st *stream)
{
    RONDO_RANGE("rondoGather", (uint64_t)count * rondo_dtype_bytes((unsigned)datatype));
    struct pattern pattern = {.send = sendbuff, .recv = recvbuff, .send_count = count, .recv_parts = true};
    rondoResult_t result = begin(comm, datatype, &pattern);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    pattern.recv_count = comm->rank == root ? count : 0;
    pattern.only_to = root;
    pattern.only_from = -1;
    result = rondo_check_rank(comm, "root", root);
    if (result == rondoSuccess)
        result = many(comm, &pattern, datatype, stream);
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}

rondoResult_t rondoScatter(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype, int root,
                           rondoComm_t comm, struct CUstream_st *stream)
{
    RONDO_RANGE("rondoScatter", (uint64_t)count * rondo_dtype_bytes((unsigned)datatype));
    struct pattern pattern = {.send = sendbuff, .recv = recvbuff, .recv_count = count, .send_parts = true};
    rondoResult_t result = begin(comm, datatype, &pattern);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    pattern.send_count = comm->rank == root ? count : 0;
    pattern.only_to = -1;
    pattern.only_from = root;
    result = rondo_check_rank(comm, "root", root);
    if (result == rondoSuccess)
        result = many(comm, &pattern, datatype, stream);
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}

rondoResult_t rondoAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[], void *recvbuff,
                             const size_t recvcounts[], const size_t rdispls[], rondoDataType_t datatype,
                             rondoComm_t comm, struct CUstream_st *stream)
{
    RONDO_RANGE("rondoAllToAllv", 0);
    struct pattern pattern = {.send = sendbuff,
                              .recv = recvbuff,
                              .send_counts = sendcounts,
                              .send_places = sdispls,
                              .recv_counts = recvcounts,
                              .recv_places = rdispls,
                              .only_to = -1,
                              .only_from = -1};
    rondoResult_t result = begin(comm, datatype, &pattern);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    if (!sendcounts || !sdispls || !recvcounts || !rdispls)
        result = rondo_fail(rondoInvalidArgument, "an array of counts or displacements is NULL");
    else
        result = many(comm, &pattern, datatype, stream);
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}

rondoResult_t rondoAllGatherv(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t recvcounts[],
                              const size_t displs[], rondoDataType_t datatype, rondoComm_t comm,
                              struct CUstream_st *stream)
{
    RONDO_RANGE("rondoAllGatherv", (uint64_t)sendcount * rondo_dtype_bytes((unsigned)datatype));
    struct pattern pattern = {.send = sendbuff,
                              .recv = recvbuff,
                              .send_count = sendcount,
                              .recv_counts = recvcounts,
                              .recv_places = displs,
                              .only_to = -1,
                              .only_from = -1};
    rondoResult_t result = begin(comm, datatype, &pattern);
    if (result != rondoSuccess)
        return rondo_group_error(result);
    if (!recvcounts || !displs)
        result = rondo_fail(rondoInvalidArgument, "%s is NULL", recvcounts ? "displs" : "recvcounts");
    else if (recvcounts[comm->rank] != sendcount)
        result = rondo_fail(rondoInvalidArgument, "sendcount is %zu, and recvcounts[%d] is %zu", sendcount, comm->rank,
                            recvcounts[comm->rank]);
    else
        result = many(comm, &pattern, datatype, stream);
    rondo_comm_leave(comm);
    return rondo_group_error(result);
}
