#include "comm/bootstrap.h"

#include "comm/bootstrap_host.h"
#include "comm/bootstrap_impl.h"
#include "comm/root.h"
#include "comm/socket.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    UNREACHABLE_MS = 3000, /* a root that cannot be connected to for so long is not there */
    RETRY_MS = 5,          /* between attempts, growing */
    LONGEST_RETRY = 100,
    REFUSALS = 4,        /* connections that the root drops before we believe that it does not know the id */
    LAST_WORDS_MS = 500, /* for the root to say which ranks are missing, once our time is over */
};

/* One rank's talk with the root. */
struct errand {
    struct sockaddr_storage address;
    char address_text[RONDO_ADDRESS_TEXT_BYTES];
    struct rondo_hello hello;
    int rank, nranks, timeout_ms;
    struct rondo_wait wait;
    int fd;
    int answered;               /* the root's last word is here, and in the thread's text if it is a bad one */
    struct rondo_member *table; /* nranks */
};

rondoResult_t rondo_bootstrap_id(rondoUniqueId *id)
{
    struct rondo_id made;
    memset(id, 0, sizeof(*id));
    RONDO_TRY(rondo_root_start(&made));
    memcpy(id, &made, sizeof(made));
    return rondoSuccess;
}

void rondo_bootstrap_forget(const rondoUniqueId *id)
{
    struct rondo_id read;
    memcpy(&read, id, sizeof(read));
    rondo_root_stop(&read);
}

void rondo_bootstrap_refuse(const rondoUniqueId *id, int others, const char *text)
{
    struct rondo_id read;
    memcpy(&read, id, sizeof(read));
    rondo_root_fail(&read, others, rondoRemoteError, text);
}

static rondoResult_t no_answer(const struct errand *errand)
{
    return rondo_fail(rondoTimeout, "timed out: rank %d got no answer from the root of the id at %s within %d ms",
                      errand->rank, errand->address_text, errand->timeout_ms);
}

/* One attempt to connect; *error is 0 or an errno. */
static rondoResult_t connect_once(struct errand *errand, int *error)
{
    *error = rondo_socket_connect_tcp(&errand->address, &errand->fd);
    if (*error != 0)
        return rondoSuccess;
    struct pollfd poll = {errand->fd, POLLOUT, 0};
    int ready;
    rondoResult_t result = rondo_wait_poll(&errand->wait, &poll, 1, UNREACHABLE_MS, &ready);
    if (result != rondoSuccess)
        return result == rondoTimeout ? no_answer(errand) : result;
    *error = ready ? rondo_socket_connected(errand->fd) : ETIMEDOUT;
    if (*error != 0)
        rondo_close(&errand->fd);
    return rondoSuccess;
}

static rondoResult_t connect_root(struct errand *errand)
{
    uint64_t give_up_ns = rondo_now_ns() + UNREACHABLE_MS * 1000000ull;
    int pause_ms = RETRY_MS;
    for (;;) {
        int error, ready;
        char text[64];
        RONDO_TRY(connect_once(errand, &error));
        if (error == 0)
            return rondoSuccess;
        if (rondo_now_ns() >= give_up_ns || error == EMFILE || error == ENFILE || error == EAFNOSUPPORT)
            return rondo_fail(
                rondoSystemError,
                "rank %d cannot connect to the root of the id at %s: %s. Has the process that made the id "
                "ended, or the id been used before? An id holds a loopback address unless "
                "RONDO_SOCKET_IFNAME was set when it was made",
                errand->rank, errand->address_text, rondo_socket_error_text(error, text));
        rondoResult_t result = rondo_wait_poll(&errand->wait, NULL, 0, pause_ms, &ready);
        if (result != rondoSuccess)
            return result == rondoTimeout ? no_answer(errand) : result;
        pause_ms = pause_ms * 2 < LONGEST_RETRY ? pause_ms * 2 : LONGEST_RETRY;
    }
}

/* Sends or receives all `count` bytes. *error is 0, or why the connection is of no more use. */
static rondoResult_t transfer(const struct errand *errand, const struct rondo_wait *wait, short direction, void *bytes,
                              size_t count, int *error)
{
    *error = 0;
    for (size_t done = 0; done < count;) {
        uint8_t *place = (uint8_t *)bytes + done;
        ssize_t step = direction == POLLOUT ? rondo_socket_send(errand->fd, place, count - done)
                                            : rondo_socket_recv(errand->fd, place, count - done);
        if (step < 0) {
            *error = (int)-step;
            return rondoSuccess;
        }
        done += (size_t)step;
        if (step > 0)
            continue;
        struct pollfd poll = {errand->fd, direction, 0};
        int ready;
        RONDO_TRY(rondo_wait_poll(wait, &poll, 1, -1, &ready));
    }
    return rondoSuccess;
}

/* Says hello until the root takes it. */
static rondoResult_t report(struct errand *errand)
{
    for (int refusals = 0;;) {
        struct rondo_reply reply = {0};
        int error, ready;
        RONDO_TRY(connect_root(errand));
        rondoResult_t result = transfer(errand, &errand->wait, POLLOUT, &errand->hello, sizeof(errand->hello), &error);
        if (result == rondoSuccess && error == 0)
            result = transfer(errand, &errand->wait, POLLIN, &reply, sizeof(reply), &error);
        if (result != rondoSuccess)
            return result == rondoTimeout ? no_answer(errand) : result;
        if (error == 0 && reply.magic == RONDO_WIRE_MAGIC && reply.kind == RONDO_REPLY_JOINED)
            return rondoSuccess;
        rondo_close(&errand->fd);
        if (++refusals == REFUSALS || error == 0)
            return rondo_fail(rondoInvalidArgument,
                              "rank %d: who listens at %s does not know this id: it is of another comm, damaged, or "
                              "its root has ended",
                              errand->rank, errand->address_text);
        result = rondo_wait_poll(&errand->wait, NULL, 0, RETRY_MS << refusals, &ready);
        if (result != rondoSuccess)
            return result == rondoTimeout ? no_answer(errand) : result;
    }
}

static rondoResult_t root_lost(const struct errand *errand)
{
    return rondo_fail(rondoRemoteError,
                      "rank %d: the process that made the id (root at %s) ended before all ranks had joined",
                      errand->rank, errand->address_text);
}

/* Takes the root's last word: the table, or why there is none. */
static rondoResult_t take_answer(struct errand *errand, const struct rondo_wait *wait)
{
    struct rondo_reply reply;
    size_t table_bytes = (size_t)errand->nranks * sizeof(*errand->table);
    int error;
    RONDO_TRY(transfer(errand, wait, POLLIN, &reply, sizeof(reply), &error));
    if (error != 0)
        return root_lost(errand);
    if (reply.magic == RONDO_WIRE_MAGIC && reply.kind == RONDO_REPLY_TABLE && reply.bytes == table_bytes) {
        RONDO_TRY(transfer(errand, wait, POLLIN, errand->table, table_bytes, &error));
        errand->answered = error == 0;
        return error ? root_lost(errand) : rondoSuccess;
    }
    char text[RONDO_WIRE_TEXT_BYTES] = "";
    if (reply.magic != RONDO_WIRE_MAGIC || reply.kind != RONDO_REPLY_FAILED || reply.bytes > sizeof(text) ||
        reply.result <= rondoSuccess || reply.result >= rondoNumResults)
        return rondo_fail(rondoInternalError, "rank %d got an answer from the root that makes no sense", errand->rank);
    RONDO_TRY(transfer(errand, wait, POLLIN, text, reply.bytes, &error));
    errand->answered = error == 0;
    text[sizeof(text) - 1] = 0;
    return error ? root_lost(errand) : rondo_fail((rondoResult_t)reply.result, "%s", text);
}

static rondoResult_t await_answer(struct errand *errand)
{
    rondoResult_t result = take_answer(errand, &errand->wait);
    if (result != rondoTimeout || errand->answered)
        return result;
    /* Our time is over: ask who is missing. An answer that the deadline cut in two is rare enough to be lost. */
    char word = RONDO_GIVE_UP;
    struct rondo_wait last_words = {rondo_now_ns() + LAST_WORDS_MS * 1000000ull, NULL};
    if (rondo_socket_send(errand->fd, &word, 1) == 1)
        result = take_answer(errand, &last_words);
    if (errand->answered)
        return result;
    return rondo_fail(rondoTimeout, "timed out: rank %d waited %d ms for all %d ranks to join", errand->rank,
                      errand->timeout_ms, errand->nranks);
}

rondoResult_t rondo_bootstrap_listen(struct rondo_member *self, int *listener)
{
    memset(self, 0, sizeof(*self));
    rondo_host_read(&self->host);
    self->pid = getpid();
    RONDO_TRY(rondo_process_token(self->token));
    return rondo_socket_listen_unix(self->socket, listener);
}

/* An id with a loopback address is of no use elsewhere: what answers there is a stranger, or nobody. Otherwise the root looks
 * at the hosts, and tells everyone. */
static rondoResult_t check_host(const struct errand *errand, const struct rondo_id *id)
{
    const struct rondo_host *here = &errand->hello.member.host;
    struct rondo_host there = {.network = 0};
    memcpy(there.boot, id->boot, sizeof(there.boot));
    memcpy(there.name, id->host, sizeof(id->host));
    if (rondo_host_same(here, &there) || !rondo_socket_is_loopback(&errand->address))
        return rondoSuccess;
    return rondo_fail(
        rondoInvalidUsage,
        "rank %d is on host %s, and the id was made on host %s: this version joins ranks of one host only",
        errand->rank, here->name, there.name);
}

static rondoResult_t join_others(struct rondo_bootstrap *bootstrap, const struct rondo_id *id)
{
    struct errand errand = {.rank = bootstrap->rank, .nranks = bootstrap->nranks, .timeout_ms = bootstrap->timeout_ms};
    uint64_t start = rondo_now_ns();
    rondoResult_t result;
    int listener = -1;
    errand.fd = -1;
    errand.wait = (struct rondo_wait){start + (uint64_t)bootstrap->timeout_ms * 1000000, bootstrap->cancel};
    rondo_id_get_address(id, &errand.address);
    rondo_socket_address_text(&errand.address, errand.address_text);
    errand.hello.magic = RONDO_WIRE_MAGIC;
    errand.hello.version = RONDO_WIRE_VERSION;
    errand.hello.rank = bootstrap->rank;
    errand.hello.nranks = bootstrap->nranks;
    memcpy(errand.hello.secret, id->secret, sizeof(id->secret));
    RONDO_TRY_GOTO(result, out, rondo_bootstrap_listen(&errand.hello.member, &listener));
    RONDO_TRY_GOTO(result, out, check_host(&errand, id));
    errand.table = calloc((size_t)bootstrap->nranks, sizeof(*errand.table));
    if (!errand.table)
        RONDO_TRY_GOTO(result, out, rondo_fail(rondoSystemError, "no memory for %d ranks", bootstrap->nranks));
    RONDO_TRY_GOTO(result, out, report(&errand));
    RONDO_TRY_GOTO(result, out, await_answer(&errand));
    rondo_close(&errand.fd);
    RONDO_TRY_GOTO(result, out, rondo_bootstrap_mesh(bootstrap, listener, errand.table, id->secret, &errand.wait));
    rondo_log_info(RONDO_LOG_BOOTSTRAP, "rank %d of %d joined on %s (process %d) in %.2f ms", bootstrap->rank,
                   bootstrap->nranks, errand.hello.member.host.name, errand.hello.member.pid,
                   (double)(rondo_now_ns() - start) / 1e6);
out:
    rondo_close(&errand.fd);
    rondo_close(&listener);
    free(errand.table);
    return result;
}

/* Without any connection yet. */
static rondoResult_t create(int rank, int nranks, int timeout_ms, const volatile int *cancel,
                            struct rondo_bootstrap **bootstrap)
{
    struct rondo_bootstrap *made = calloc(1, sizeof(*made));
    struct rondo_peer *peers = calloc((size_t)nranks, sizeof(*peers));
    if (!made || !peers) {
        free(made);
        free(peers);
        return rondo_fail(rondoSystemError, "no memory for %d ranks", nranks);
    }
    *made = (struct rondo_bootstrap){.rank = rank,
                                     .nranks = nranks,
                                     .owner = getpid(),
                                     .timeout_ms = timeout_ms,
                                     .cancel = cancel,
                                     .sequence = 1,
                                     .peers = peers};
    for (int i = 0; i < nranks; i++)
        peers[i] = (struct rondo_peer){.socket = -1, .pidfd = -1};
    if (rank >= 0 && rank < nranks)
        peers[rank] = (struct rondo_peer){.socket = -1, .pidfd = -1, .pid = getpid(), .same_process = 1};
    *bootstrap = made;
    return rondoSuccess;
}

rondoResult_t rondo_bootstrap_meet(const struct rondo_meeting *meeting, struct rondo_bootstrap **bootstrap)
{
    struct rondo_bootstrap *made;
    const struct rondo_wait wait = {rondo_now_ns() + (uint64_t)meeting->timeout_ms * 1000000, meeting->cancel};
    *bootstrap = NULL;
    RONDO_TRY(create(meeting->rank, meeting->nranks, meeting->timeout_ms, meeting->cancel, &made));
    rondoResult_t result = rondoSuccess;
    if (meeting->nranks > 1)
        result = rondo_bootstrap_mesh(made, meeting->listener, meeting->table, meeting->secret, &wait);
    if (result == rondoSuccess)
        *bootstrap = made;
    else
        rondo_bootstrap_close(made);
    return result;
}

rondoResult_t rondo_bootstrap_join(const rondoUniqueId *id, int rank, int nranks, int timeout_ms,
                                   const volatile int *cancel, struct rondo_bootstrap **bootstrap)
{
    struct rondo_id read;
    *bootstrap = NULL;
    memcpy(&read, id, sizeof(read));
    if (!rondo_id_valid(&read))
        return rondo_fail(rondoInvalidArgument,
                          "the unique id of rank %d was not made by rondoGetUniqueId of this "
                          "version",
                          rank);
    if (nranks < 1 || nranks > RONDO_BOOTSTRAP_RANKS)
        return rondo_fail(rondoInvalidArgument, "nranks is %d, not within 1 and %d", nranks, RONDO_BOOTSTRAP_RANKS);
    int rank_fits = rank >= 0 && rank < nranks;
    if (nranks == 1 && !rank_fits)
        return rondo_fail(rondoInvalidArgument, "rank is %d, but there is 1 rank", rank);
    struct rondo_bootstrap *made;
    RONDO_TRY(create(rank, nranks, timeout_ms, cancel, &made));
    rondoResult_t result = rondoSuccess;
    /* A rank that cannot be is still reported, so that the others hear of it instead of waiting. */
    if (nranks > 1)
        result = join_others(made, &read);
    else
        rondo_root_stop(&read);
    if (!rank_fits)
        result = rondo_fail(rondoInvalidArgument, "rank is %d, not within 0 and %d", rank, nranks - 1);
    if (result == rondoSuccess)
        *bootstrap = made;
    else
        rondo_bootstrap_close(made);
    return result;
}

int rondo_bootstrap_socket(const struct rondo_bootstrap *bootstrap, int rank)
{
    return bootstrap->peers[rank].socket;
}

pid_t rondo_bootstrap_pid(const struct rondo_bootstrap *bootstrap, int rank)
{
    return bootstrap->peers[rank].pid;
}

int rondo_bootstrap_same_process(const struct rondo_bootstrap *bootstrap, int rank)
{
    return bootstrap->peers[rank].same_process;
}

int rondo_bootstrap_pidfd(const struct rondo_bootstrap *bootstrap, int rank)
{
    return bootstrap->peers[rank].pidfd;
}

/* Unlike a close, a shutdown reaches the peer also where a forked child has copies of the socket. */
void rondo_bootstrap_hush(struct rondo_bootstrap *bootstrap)
{
    for (int rank = 0; rank < bootstrap->nranks && bootstrap->owner == getpid(); rank++)
        if (bootstrap->peers[rank].socket >= 0)
            shutdown(bootstrap->peers[rank].socket, SHUT_WR);
}

static int peer_gone(const struct rondo_peer *peer)
{
    char words[256];
    ssize_t got;
    struct pollfd ended = {peer->pidfd, POLLIN, 0};
    if (peer->socket < 0 || peer->pidfd == -2 || (peer->pidfd >= 0 && poll(&ended, 1, 0) == 1))
        return 1;
    while ((got = rondo_socket_recv(peer->socket, words, sizeof(words))) > 0)
        continue;
    return got < 0;
}

int rondo_bootstrap_all_hushed(struct rondo_bootstrap *bootstrap, int own_process)
{
    int all = 1;
    for (int rank = 0; rank < bootstrap->nranks; rank++) {
        struct rondo_peer *peer = &bootstrap->peers[rank];
        peer->gone = peer->gone || rank == bootstrap->rank || (peer->same_process && !own_process) || peer_gone(peer);
        all &= peer->gone;
    }
    return all;
}

void rondo_bootstrap_close(struct rondo_bootstrap *bootstrap)
{
    if (!bootstrap)
        return;
    for (int rank = 0; rank < bootstrap->nranks; rank++) {
        rondo_close(&bootstrap->peers[rank].socket);
        rondo_close(&bootstrap->peers[rank].pidfd); /* leaves -2 be */
    }
    free(bootstrap->peers);
    free(bootstrap);
}
