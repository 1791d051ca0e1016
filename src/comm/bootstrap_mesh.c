/* Pairwise connections. Rank r connects to the ranks below it and accepts from those above; connecting to a Unix socket
 * needs no accept, every socket listens before its name is published, and all of it is one poll loop: so there is no
 * order in which threads or processes could wait for each other in a circle.
 *
 * A listener stays open until its rank is connected with all. So a refused connection means that its rank is gone,
 * and a rank that waits for a higher one knocks at that one's listener from time to time. */
#include "comm/bootstrap_host.h"
#include "comm/bootstrap_impl.h"
#include "comm/socket.h"
#include "common/clock.h"
#include "common/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PENDING = 64,       /* accepted connections that have not said who they are; the oldest goes first */
    GREETING_MS = 2000, /* they are dropped after this */
    KNOCK_MS = 50,
    QUEUE_MS = 1, /* until a full accept queue is tried again */
    ATTEMPTS = 5, /* to connect to a rank that drops us (it is under a flood) */
};

enum stage { CONNECT, AWAIT, GREETING, DONE };

struct pair {
    enum stage stage;
    int pidfd; /* of the process in the table; -1: none */
    int attempts;
    size_t have; /* bytes of the greeting in GREETING */
    struct rondo_greeting greeting;
};

struct pending {
    int fd;
    uint64_t deadline_ns;
    size_t have;
    struct rondo_greeting greeting;
};

struct mesh {
    struct rondo_bootstrap *bootstrap;
    const struct rondo_member *table;
    struct rondo_greeting own;
    int listener;
    int left; /* pairs not DONE */
    int queue_full;
    struct pair *pairs; /* nranks */
    struct pending pending[PENDING];
    size_t pending_count;
    struct pollfd *polls; /* 1 + PENDING + 2 * nranks */
};

static rondoResult_t lost(const struct mesh *mesh, int rank, const char *what)
{
    return rondo_fail(rondoRemoteError, "rank %d (process %d) ended or gave up while ranks connected: %s", rank,
                      mesh->table[rank].pid, what);
}

static int greeting_fits(const struct mesh *mesh, const struct rondo_greeting *greeting, int rank)
{
    return greeting->magic == RONDO_WIRE_MAGIC && greeting->rank == rank &&
           rondo_secret_equal(greeting->secret, mesh->own.secret, sizeof(greeting->secret)) &&
           memcmp(greeting->token, mesh->table[rank].token, sizeof(greeting->token)) == 0;
}

/* Sends our greeting; a fresh Unix socket always has room for it. */
static int greet(const struct mesh *mesh, int fd)
{
    return rondo_socket_send(fd, &mesh->own, sizeof(mesh->own)) == (ssize_t)sizeof(mesh->own);
}

static void pair_done(struct mesh *mesh, int rank, int fd)
{
    struct rondo_peer *peer = &mesh->bootstrap->peers[rank];
    struct ucred who = {0};
    socklen_t bytes = sizeof(who);
    peer->socket = fd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0)
        peer->pid = who.pid;
    peer->same_process =
        peer->pid == getpid() && memcmp(mesh->own.token, mesh->table[rank].token, sizeof(mesh->own.token)) == 0;
    /* The descriptor opened by the table's pid is older, so less likely of another process that got the same pid. */
    if (peer->pid == mesh->table[rank].pid && mesh->pairs[rank].pidfd >= 0) {
        peer->pidfd = mesh->pairs[rank].pidfd;
        mesh->pairs[rank].pidfd = -1;
    } else {
        peer->pidfd = rondo_pidfd_open(peer->pid);
    }
    mesh->pairs[rank].stage = DONE;
    mesh->left--;
}

static rondoResult_t connect_to(struct mesh *mesh, int rank)
{
    struct pair *pair = &mesh->pairs[rank];
    char text[64];
    int fd, error = rondo_socket_connect_unix(mesh->table[rank].socket, &fd);
    if (error == EAGAIN) {
        mesh->queue_full = 1;
        return rondoSuccess;
    }
    if (error == ECONNREFUSED)
        return lost(mesh, rank, "its socket is gone");
    if (error != 0)
        return rondo_fail(rondoSystemError, "cannot connect to rank %d over a Unix socket: %s%s", rank,
                          rondo_socket_error_text(error, text),
                          error == EMFILE ? " (a rank needs 2 per rank of the comm; see ulimit -n)" : "");
    mesh->bootstrap->peers[rank].socket = fd;
    pair->stage = GREETING;
    pair->have = 0;
    if (!greet(mesh, fd)) {
        rondo_close(&mesh->bootstrap->peers[rank].socket);
        pair->stage = CONNECT;
        if (++pair->attempts == ATTEMPTS)
            return lost(mesh, rank, "it closes our connections");
    }
    return rondoSuccess;
}

/* A lower rank answers. */
static rondoResult_t read_greeting(struct mesh *mesh, int rank)
{
    struct pair *pair = &mesh->pairs[rank];
    int *fd = &mesh->bootstrap->peers[rank].socket;
    ssize_t got = rondo_socket_recv(*fd, (uint8_t *)&pair->greeting + pair->have, sizeof(pair->greeting) - pair->have);
    if (got < 0) {
        rondo_close(fd);
        pair->stage = CONNECT;
        mesh->queue_full = 1; /* not at once */
        return ++pair->attempts == ATTEMPTS ? lost(mesh, rank, "it closes our connections") : rondoSuccess;
    }
    pair->have += (size_t)got;
    if (pair->have < sizeof(pair->greeting))
        return rondoSuccess;
    if (!greeting_fits(mesh, &pair->greeting, rank))
        return rondo_fail(rondoInternalError, "rank %d answers with a greeting that is not its own", rank);
    pair_done(mesh, rank, *fd);
    return rondoSuccess;
}

/* Somebody who connected says who he is; strangers are dropped. Returns whether the entry is to be forgotten. */
static int read_pending(struct mesh *mesh, struct pending *one)
{
    struct rondo_greeting *greeting = &one->greeting;
    ssize_t got = rondo_socket_recv(one->fd, (uint8_t *)greeting + one->have, sizeof(*greeting) - one->have);
    if (got > 0)
        one->have += (size_t)got;
    if (got >= 0 && one->have < sizeof(*greeting))
        return 0;
    int rank = greeting->rank;
    if (got >= 0 && rank > mesh->bootstrap->rank && rank < mesh->bootstrap->nranks &&
        mesh->pairs[rank].stage == AWAIT && greeting_fits(mesh, greeting, rank) && greet(mesh, one->fd)) {
        pair_done(mesh, rank, one->fd);
        return 1;
    }
    rondo_close(&one->fd);
    return 1;
}

static void forget_pending(struct mesh *mesh, size_t index)
{
    mesh->pending_count--;
    memmove(&mesh->pending[index], &mesh->pending[index + 1], (mesh->pending_count - index) * sizeof(mesh->pending[0]));
}

static rondoResult_t accept_some(struct mesh *mesh)
{
    for (int i = 0; i < PENDING && mesh->left > 0; i++) {
        char text[64];
        int fd, error = rondo_socket_accept(mesh->listener, &fd);
        if (error == EAGAIN)
            return rondoSuccess;
        if (error != 0)
            return rondo_fail(rondoSystemError, "cannot accept a connection of another rank: %s%s",
                              rondo_socket_error_text(error, text),
                              error == EMFILE ? " (a rank needs 2 per rank of the comm; see ulimit -n)" : "");
        if (mesh->pending_count == PENDING) {
            rondo_close(&mesh->pending[0].fd);
            forget_pending(mesh, 0);
        }
        struct pending *one = &mesh->pending[mesh->pending_count++];
        *one = (struct pending){.fd = fd, .deadline_ns = rondo_now_ns() + GREETING_MS * 1000000ull};
        if (read_pending(mesh, one)) /* a rank greets at once, so a flood cannot push it out */
            forget_pending(mesh, mesh->pending_count - 1);
    }
    return rondoSuccess;
}

static rondoResult_t knock(struct mesh *mesh)
{
    for (int rank = mesh->bootstrap->rank + 1; rank < mesh->bootstrap->nranks; rank++) {
        if (mesh->pairs[rank].stage != AWAIT)
            continue;
        int fd, error = rondo_socket_connect_unix(mesh->table[rank].socket, &fd);
        if (error == ECONNREFUSED)
            return lost(mesh, rank, "its socket is gone");
        rondo_close(&fd);
    }
    return rondoSuccess;
}

static size_t fill_polls(struct mesh *mesh)
{
    size_t n = 0;
    mesh->polls[n++] = (struct pollfd){mesh->listener, POLLIN, 0};
    for (size_t i = 0; i < mesh->pending_count; i++)
        mesh->polls[n++] = (struct pollfd){mesh->pending[i].fd, POLLIN, 0};
    for (int rank = 0; rank < mesh->bootstrap->nranks; rank++) {
        const struct pair *pair = &mesh->pairs[rank];
        mesh->polls[n++] = (struct pollfd){pair->stage == DONE ? -1 : pair->pidfd, POLLIN, 0};
        mesh->polls[n++] =
            (struct pollfd){pair->stage == GREETING ? mesh->bootstrap->peers[rank].socket : -1, POLLIN, 0};
    }
    return n;
}

static rondoResult_t serve(struct mesh *mesh)
{
    /* Read before the list of pending connections changes its order. */
    const struct pollfd *ranks = mesh->polls + 1 + mesh->pending_count;
    for (int rank = 0; rank < mesh->bootstrap->nranks; rank++) {
        if (mesh->pairs[rank].stage == GREETING && ranks[2 * rank + 1].revents)
            RONDO_TRY(read_greeting(mesh, rank));
    }
    uint64_t now = rondo_now_ns();
    for (size_t i = mesh->pending_count; i-- > 0;) {
        struct pending *one = &mesh->pending[i];
        if (mesh->polls[1 + i].revents) {
            if (read_pending(mesh, one))
                forget_pending(mesh, i);
        } else if (now >= one->deadline_ns) {
            rondo_close(&one->fd);
            forget_pending(mesh, i);
        }
    }
    RONDO_TRY(accept_some(mesh));
    for (int rank = 0; rank < mesh->bootstrap->nranks; rank++) {
        if (mesh->pairs[rank].stage != DONE && ranks[2 * rank].revents)
            return lost(mesh, rank, "its process ended");
    }
    return rondoSuccess;
}

static rondoResult_t timed_out(const struct mesh *mesh)
{
    unsigned char missing[RONDO_BOOTSTRAP_RANKS];
    char list[256];
    for (int rank = 0; rank < mesh->bootstrap->nranks; rank++)
        missing[rank] = mesh->pairs[rank].stage != DONE;
    rondo_rank_list(missing, mesh->bootstrap->nranks, list, sizeof(list));
    return rondo_fail(rondoTimeout, "timed out: rank %d joined but could not connect with %s within %d ms",
                      mesh->bootstrap->rank, list, mesh->bootstrap->timeout_ms);
}

static rondoResult_t mesh_run(struct mesh *mesh, const struct rondo_wait *wait)
{
    uint64_t knock_ns = rondo_now_ns() + KNOCK_MS * 1000000ull;
    while (mesh->left > 0) {
        mesh->queue_full = 0;
        for (int rank = 0; rank < mesh->bootstrap->rank; rank++) {
            if (mesh->pairs[rank].stage == CONNECT)
                RONDO_TRY(connect_to(mesh, rank));
        }
        int ready;
        size_t polled = fill_polls(mesh);
        rondoResult_t result =
            rondo_wait_poll(wait, mesh->polls, polled, mesh->queue_full ? QUEUE_MS : KNOCK_MS, &ready);
        if (result != rondoSuccess)
            return result == rondoTimeout ? timed_out(mesh) : result;
        RONDO_TRY(serve(mesh));
        if (mesh->left > 0 && rondo_now_ns() >= knock_ns) {
            RONDO_TRY(knock(mesh));
            knock_ns = rondo_now_ns() + KNOCK_MS * 1000000ull;
        }
    }
    return rondoSuccess;
}

rondoResult_t rondo_bootstrap_mesh(struct rondo_bootstrap *bootstrap, int listener, const struct rondo_member *table,
                                   const uint8_t secret[RONDO_SECRET_BYTES], const struct rondo_wait *wait)
{
    size_t nranks = (size_t)bootstrap->nranks;
    struct mesh *mesh = calloc(1, sizeof(*mesh));
    struct pair *pairs = calloc(nranks, sizeof(*pairs));
    struct pollfd *polls = calloc(1 + PENDING + 2 * nranks, sizeof(*polls));
    rondoResult_t result = rondoSuccess;
    if (!mesh || !pairs || !polls) {
        result = rondo_fail(rondoSystemError, "no memory to connect %zu ranks", nranks);
        goto out;
    }
    const struct rondo_member *self = &table[bootstrap->rank];
    *mesh = (struct mesh){.bootstrap = bootstrap, .table = table, .listener = listener, .pairs = pairs, .polls = polls};
    mesh->left = bootstrap->nranks - 1;
    mesh->own.magic = RONDO_WIRE_MAGIC;
    mesh->own.rank = bootstrap->rank;
    memcpy(mesh->own.secret, secret, sizeof(mesh->own.secret));
    memcpy(mesh->own.token, self->token, sizeof(mesh->own.token));
    for (int rank = 0; rank < bootstrap->nranks; rank++) {
        pairs[rank].stage = rank < bootstrap->rank ? CONNECT : rank == bootstrap->rank ? DONE : AWAIT;
        pairs[rank].pidfd = -1;
        if (rank != bootstrap->rank && rondo_host_same_pids(&table[rank].host, &self->host))
            pairs[rank].pidfd = rondo_pidfd_open(table[rank].pid);
        if (pairs[rank].pidfd == -2)
            RONDO_TRY_GOTO(result, out, lost(mesh, rank, "its process ended"));
    }
    result = mesh_run(mesh, wait);
out:
    for (size_t rank = 0; pairs && rank < nranks; rank++) {
        if (pairs[rank].pidfd > 0)
            rondo_close(&pairs[rank].pidfd);
    }
    for (size_t i = 0; mesh && i < mesh->pending_count; i++)
        rondo_close(&mesh->pending[i].fd);
    free(polls);
    free(pairs);
    free(mesh);
    return result;
}
