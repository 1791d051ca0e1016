/* What the ranks exchange while a comm is made: every rank sends to all and receives from all in one poll loop, so that
 * no message size can fill the sockets into a standstill. A frame says which exchange it belongs to. */
#include "comm/bootstrap_host.h"
#include "comm/bootstrap_impl.h"
#include "comm/socket.h"
#include "common/clock.h"
#include "common/result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum { IN_FLIGHT_MS = 2 }; /* until a descriptor is sent again that the kernel did not take (too many in flight) */

struct flow {
    struct rondo_frame in;
    size_t sent, got; /* bytes with the frame */
    uint8_t flag;     /* FDS: the byte that came */
};

struct exchange {
    struct rondo_bootstrap *bootstrap;
    struct rondo_frame out;
    const uint8_t *mine;
    uint8_t *all; /* NULL in FDS */
    int my_fd;
    int *fds; /* FDS only */
    size_t bytes, total;
    struct rondo_wait wait;
    int too_many;         /* descriptors in flight: try again soon */
    struct flow *flows;   /* nranks */
    struct pollfd *polls; /* 2 * nranks */
};

static const char *frame_text(unsigned type)
{
    return type == RONDO_FRAME_GATHER ? "all_gather" : type == RONDO_FRAME_FDS ? "exchange_fds" : "something unknown";
}

static rondoResult_t peer_lost(const struct exchange *exchange, int rank, const char *why)
{
    return rondo_fail(rondoRemoteError, "rank %d (process %d) ended or gave up during %s %u: %s", rank,
                      exchange->bootstrap->peers[rank].pid, frame_text(exchange->out.type), exchange->out.sequence,
                      why);
}

/* sendmsg of what is left of frame and bytes; a descriptor goes with the first byte. As rondo_socket_send. */
static ssize_t send_step(struct exchange *exchange, int fd, size_t sent)
{
    struct iovec parts[2];
    size_t count = 0;
    if (sent < sizeof(exchange->out)) {
        parts[count++] = (struct iovec){(uint8_t *)&exchange->out + sent, sizeof(exchange->out) - sent};
        sent = sizeof(exchange->out);
    }
    size_t past = sent - sizeof(exchange->out);
    if (past < exchange->bytes)
        parts[count++] = (struct iovec){(uint8_t *)(uintptr_t)exchange->mine + past, exchange->bytes - past};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    if (exchange->my_fd >= 0 && count > 0 && parts[0].iov_base == &exchange->out) {
        memset(control, 0, sizeof(control));
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &exchange->my_fd, sizeof(int));
    }
    for (;;) {
        ssize_t done = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done >= 0)
            return done;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno == ETOOMANYREFS) {
            exchange->too_many = 1;
            return 0;
        }
        if (errno != EINTR)
            return -errno;
    }
}

static rondoResult_t pump_out(struct exchange *exchange, int rank)
{
    struct flow *flow = &exchange->flows[rank];
    char text[64];
    while (flow->sent < exchange->total) {
        ssize_t done = send_step(exchange, exchange->bootstrap->peers[rank].socket, flow->sent);
        if (done == -EPIPE || done == -ECONNRESET)
            return rondoSuccess; /* what it said before its end tells more: pump_in finds it */
        if (done < 0)
            return rondo_fail(rondoSystemError, "cannot send to rank %d during %s: %s", rank,
                              frame_text(exchange->out.type), rondo_socket_error_text((int)-done, text));
        if (done == 0)
            return rondoSuccess;
        flow->sent += (size_t)done;
    }
    return rondoSuccess;
}

/* recvmsg that keeps a descriptor for `rank` and closes what nobody asked for. As rondo_socket_recv. */
static ssize_t recv_step(struct exchange *exchange, int rank, void *bytes, size_t count)
{
    int socket = exchange->bootstrap->peers[rank].socket;
    if (!exchange->fds)
        return rondo_socket_recv(socket, bytes, count); /* the kernel drops descriptors by itself */
    struct iovec part = {bytes, count};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct msghdr message;
    ssize_t got;
    do {
        message = (struct msghdr){
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    if (got == 0)
        return -RONDO_SOCKET_CLOSED_ERROR;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int))) {
        rondo_close(&exchange->fds[rank]);
        memcpy(&exchange->fds[rank], CMSG_DATA(header), sizeof(int));
    }
    return got;
}

/* A frame that is not of this exchange. */
static rondoResult_t other_frame(const struct exchange *exchange, int rank, const struct rondo_frame *in)
{
    const struct rondo_frame *out = &exchange->out;
    char text[RONDO_WIRE_TEXT_BYTES] = "";
    if (in->magic != RONDO_FRAME_MAGIC)
        return rondo_fail(rondoInternalError, "rank %d sent bytes that are no frame during %s", rank,
                          frame_text(out->type));
    if (in->type == RONDO_FRAME_LEFT)
        return peer_lost(exchange, rank, "it destroyed its comm");
    if (in->type == RONDO_FRAME_ABORTED) {
        /* Sent in one piece, so it is all there. */
        if (in->bytes > 0 && in->bytes <= sizeof(text))
            rondo_socket_recv(exchange->bootstrap->peers[rank].socket, text, in->bytes);
        text[sizeof(text) - 1] = 0;
        return rondo_fail(rondoRemoteError, "rank %d gave up: %s", rank, text);
    }
    return rondo_fail(rondoInvalidUsage,
                      "ranks do different things at init (some call rondoCommInitRank and some rondoCommGrow, with the "
                      "same id?): rank %d is at step %u, %s of %llu bytes, rank %d at step %u, %s of %llu bytes",
                      exchange->bootstrap->rank, out->sequence, frame_text(out->type), (unsigned long long)out->bytes,
                      rank, in->sequence, frame_text(in->type), (unsigned long long)in->bytes);
}

static rondoResult_t pump_in(struct exchange *exchange, int rank)
{
    struct flow *flow = &exchange->flows[rank];
    char text[64];
    while (flow->got < exchange->total) {
        /* Never past the frame's end: what follows may be of the next exchange, or the watch's. */
        uint8_t *place = (uint8_t *)&flow->in + flow->got;
        size_t count = sizeof(flow->in) - flow->got;
        if (flow->got >= sizeof(flow->in)) {
            size_t past = flow->got - sizeof(flow->in);
            place = exchange->all ? exchange->all + (size_t)rank * exchange->bytes + past : &flow->flag;
            count = exchange->bytes - past;
        }
        ssize_t got = recv_step(exchange, rank, place, count);
        if (got < 0)
            return peer_lost(exchange, rank, rondo_socket_error_text((int)-got, text));
        if (got == 0)
            return rondoSuccess;
        flow->got += (size_t)got;
        if (flow->got == sizeof(flow->in) && memcmp(&flow->in, &exchange->out, sizeof(flow->in)) != 0)
            return other_frame(exchange, rank, &flow->in);
    }
    if (exchange->fds && flow->flag && exchange->fds[rank] < 0)
        return rondo_fail(rondoSystemError,
                          "the descriptor that rank %d sent did not arrive: the limit of open files is reached "
                          "(ulimit -n)",
                          rank);
    return rondoSuccess;
}

/* A peer sent all of its own, but closed before it took all of ours. */
static rondoResult_t closed_early(const struct exchange *exchange, int rank)
{
    struct rondo_frame in;
    ssize_t got = rondo_socket_recv(exchange->bootstrap->peers[rank].socket, &in, sizeof(in));
    if (got == (ssize_t)sizeof(in) && in.type == RONDO_FRAME_ABORTED)
        return other_frame(exchange, rank, &in);
    return peer_lost(exchange, rank, "connection closed");
}

static int flow_done(const struct exchange *exchange, int rank)
{
    const struct flow *flow = &exchange->flows[rank];
    return rank == exchange->bootstrap->rank || (flow->sent == exchange->total && flow->got == exchange->total);
}

static rondoResult_t timed_out(const struct exchange *exchange)
{
    unsigned char behind[RONDO_BOOTSTRAP_RANKS];
    char list[256];
    for (int rank = 0; rank < exchange->bootstrap->nranks; rank++)
        behind[rank] = !flow_done(exchange, rank);
    rondo_rank_list(behind, exchange->bootstrap->nranks, list, sizeof(list));
    return rondo_fail(rondoTimeout, "timed out: %s did not take part in %s %u within %d ms", list,
                      frame_text(exchange->out.type), exchange->out.sequence, exchange->bootstrap->timeout_ms);
}

static rondoResult_t exchange_run(struct exchange *exchange)
{
    struct rondo_bootstrap *bootstrap = exchange->bootstrap;
    memset(exchange->polls, 0, 2 * (size_t)bootstrap->nranks * sizeof(*exchange->polls));
    for (;;) {
        int left = 0;
        exchange->too_many = 0;
        for (int rank = 0; rank < bootstrap->nranks; rank++) {
            struct rondo_peer *peer = &bootstrap->peers[rank];
            struct flow *flow = &exchange->flows[rank];
            struct pollfd *polls = &exchange->polls[2 * rank];
            int ended = polls[1].revents != 0 || peer->pidfd == -2;
            polls[0] = (struct pollfd){-1, 0, 0};
            polls[1] = (struct pollfd){-1, 0, 0};
            if (flow_done(exchange, rank))
                continue;
            RONDO_TRY(pump_out(exchange, rank));
            RONDO_TRY(pump_in(exchange, rank));
            if (flow_done(exchange, rank))
                continue;
            if (ended) /* a child of it may hold its socket open */
                return peer_lost(exchange, rank, "its process ended");
            left++;
            /* A peer that has sent all and closed shows as POLLHUP, which also ends the wait for room to send. */
            short events = flow->got < exchange->total ? POLLIN : 0;
            if (flow->sent < exchange->total && !exchange->too_many)
                events |= POLLOUT;
            polls[0] = (struct pollfd){peer->socket, events, 0};
            polls[1] = (struct pollfd){peer->pidfd, POLLIN, 0};
        }
        if (left == 0)
            return rondoSuccess;
        int ready;
        rondoResult_t result = rondo_wait_poll(&exchange->wait, exchange->polls, 2 * (size_t)bootstrap->nranks,
                                               exchange->too_many ? IN_FLIGHT_MS : -1, &ready);
        if (result != rondoSuccess)
            return result == rondoTimeout ? timed_out(exchange) : result;
        for (int rank = 0; rank < bootstrap->nranks; rank++) {
            if (exchange->polls[2 * rank].revents & (POLLHUP | POLLERR) && exchange->flows[rank].got == exchange->total)
                return closed_early(exchange, rank);
        }
    }
}

static rondoResult_t run(struct rondo_bootstrap *bootstrap, struct exchange *exchange)
{
    size_t nranks = (size_t)bootstrap->nranks;
    if (bootstrap->failed != rondoSuccess)
        return rondo_repeat(bootstrap->failed, "%s", bootstrap->failure);
    exchange->bootstrap = bootstrap;
    exchange->out.magic = RONDO_FRAME_MAGIC;
    exchange->out.sequence = bootstrap->sequence++;
    exchange->out.bytes = exchange->bytes;
    exchange->total = sizeof(exchange->out) + exchange->bytes;
    exchange->wait = (struct rondo_wait){rondo_now_ns() + (uint64_t)bootstrap->timeout_ms * 1000000, bootstrap->cancel};
    exchange->flows = calloc(nranks, sizeof(*exchange->flows));
    exchange->polls = calloc(2 * nranks, sizeof(*exchange->polls));
    rondoResult_t result;
    if (exchange->flows && exchange->polls)
        result = exchange_run(exchange);
    else
        result = rondo_fail(rondoSystemError, "no memory for an exchange between %zu ranks", nranks);
    if (result != rondoSuccess) {
        for (size_t rank = 0; exchange->flows && rank < nranks; rank++)
            bootstrap->peers[rank].mid_frame =
                exchange->flows[rank].sent > 0 && exchange->flows[rank].sent < exchange->total;
        /* Who is told why closes for a reason that is known; else each would blame the one that closed first. */
        rondo_bootstrap_abort(bootstrap, rondo_last_error());
        bootstrap->failed = result;
        snprintf(bootstrap->failure, sizeof(bootstrap->failure), "%s", rondo_last_error());
    }
    free(exchange->flows);
    free(exchange->polls);
    return result;
}

rondoResult_t rondo_bootstrap_all_gather(struct rondo_bootstrap *bootstrap, const void *mine, void *all, size_t bytes)
{
    struct exchange exchange = {.mine = mine, .all = all, .my_fd = -1, .bytes = bytes};
    exchange.out.type = RONDO_FRAME_GATHER;
    if (bytes > 0)
        memmove((uint8_t *)all + (size_t)bootstrap->rank * bytes, mine, bytes);
    return run(bootstrap, &exchange);
}

rondoResult_t rondo_bootstrap_exchange_fds(struct rondo_bootstrap *bootstrap, int mine, int *fds)
{
    uint8_t has_one = mine >= 0;
    struct exchange exchange = {.mine = &has_one, .my_fd = mine, .fds = fds, .bytes = 1};
    exchange.out.type = RONDO_FRAME_FDS;
    for (int rank = 0; rank < bootstrap->nranks; rank++)
        fds[rank] = -1;
    rondoResult_t result = run(bootstrap, &exchange);
    for (int rank = 0; result != rondoSuccess && rank < bootstrap->nranks; rank++)
        rondo_close(&fds[rank]);
    return result;
}

void rondo_bootstrap_abort(struct rondo_bootstrap *bootstrap, const char *text)
{
    uint8_t note[RONDO_NOTE_BYTES];
    if (bootstrap->failed)
        return;
    size_t bytes = rondo_note_make(note, RONDO_FRAME_ABORTED, text);
    for (int rank = 0; rank < bootstrap->nranks; rank++) {
        if (bootstrap->peers[rank].socket >= 0 && !bootstrap->peers[rank].mid_frame)
            rondo_socket_send(bootstrap->peers[rank].socket, note, bytes);
    }
}
