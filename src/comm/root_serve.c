#include "comm/bootstrap_host.h"
#include "comm/root_impl.h"
#include "comm/socket.h"
#include "common/clock.h"
#include "common/env.h"
#include "common/log.h"
#include "common/result.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

enum {
    STRANGERS = 128,  /* connections without a valid hello that are kept at a time; the oldest goes first */
    HELLO_MS = 5000,  /* a connection that has not said its hello by then is dropped */
    LEAVE_MS = 5000,  /* for a rank to take its answer and close */
    BACK_OFF_MS = 50, /* no accepting for so long when the process has run out of descriptors */
    BURST = 64,       /* connections accepted before those that are there are served */
    IDLE_MS = 3600000,
};

void rondo_root_free(struct rondo_root *root)
{
    for (size_t i = 0; i < root->count; i++) {
        rondo_close(&root->connections[i]->fd);
        rondo_close(&root->connections[i]->pidfd);
        free(root->connections[i]->out);
        free(root->connections[i]);
    }
    rondo_close(&root->listener);
    rondo_close(&root->wake);
    free(root->connections);
    free(root->members);
    free(root->polls);
    free(root);
}

int rondo_root_room(struct rondo_root *root)
{
    if (root->count < root->capacity)
        return 1;
    size_t capacity = root->capacity ? root->capacity * 2 : 16;
    struct rondo_root_connection **larger = realloc(root->connections, capacity * sizeof(*larger));
    if (!larger)
        return 0;
    root->connections = larger;
    struct pollfd *polls = realloc(root->polls, (2 + 2 * capacity) * sizeof(*polls));
    if (!polls)
        return 0;
    root->polls = polls;
    root->capacity = capacity;
    return 1;
}

static void flush(struct rondo_root_connection *connection)
{
    while (connection->out_sent < connection->out_bytes) {
        ssize_t sent = rondo_socket_send(connection->fd, connection->out + connection->out_sent,
                                         connection->out_bytes - connection->out_sent);
        if (sent < 0)
            rondo_close(&connection->fd);
        if (sent <= 0)
            return;
        connection->out_sent += (size_t)sent;
    }
    /* Not closed yet: a close with unread bytes would take the answer back. */
    if (connection->stage == RONDO_ROOT_LEAVING)
        shutdown(connection->fd, SHUT_WR);
}

static void queue(struct rondo_root_connection *connection, enum rondo_reply_kind kind, rondoResult_t result,
                  const void *bytes, size_t count)
{
    struct rondo_reply reply = {RONDO_WIRE_MAGIC, kind, result, (uint32_t)count};
    uint8_t *out = realloc(connection->out, connection->out_bytes + sizeof(reply) + count);
    if (!out) {
        rondo_close(&connection->fd); /* the rank sees the end of its root instead of a text */
        return;
    }
    memcpy(out + connection->out_bytes, &reply, sizeof(reply));
    if (count)
        memcpy(out + connection->out_bytes + sizeof(reply), bytes, count);
    connection->out = out;
    connection->out_bytes += sizeof(reply) + count;
}

/* The last word to one rank. */
static void dismiss(struct rondo_root_connection *connection, enum rondo_reply_kind kind, rondoResult_t result,
                    const void *bytes, size_t count)
{
    queue(connection, kind, result, bytes, count);
    connection->stage = RONDO_ROOT_LEAVING;
    connection->deadline_ns = rondo_now_ns() + LEAVE_MS * 1000000ull;
    rondo_close(&connection->pidfd);
    if (connection->fd >= 0)
        flush(connection);
}

/* The last word to all. Ranks of this process come last: once they know, the process may end, and the root with it. */
static void dismiss_all(struct rondo_root *root, enum rondo_reply_kind kind, rondoResult_t result, const void *bytes,
                        size_t count)
{
    for (int own = 0; own <= 1; own++) {
        for (size_t i = 0; i < root->count; i++) {
            struct rondo_root_connection *one = root->connections[i];
            int is_own = memcmp(one->hello.member.token, root->token, RONDO_TOKEN_BYTES) == 0;
            if (one->fd >= 0 && one->stage == RONDO_ROOT_MEMBER && is_own == own)
                dismiss(one, kind, result, bytes, count);
        }
    }
}

__attribute__((format(printf, 3, 4))) static void fail_all(struct rondo_root *root, rondoResult_t result,
                                                           const char *format, ...)
{
    if (root->failed != rondoSuccess || root->complete)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(root->failure, sizeof(root->failure), format, arguments);
    va_end(arguments);
    root->failed = result;
    root->failed_end_ns = rondo_now_ns() + (uint64_t)rondo_env()->init_timeout_ms * 1000000;
    rondo_log_info(RONDO_LOG_BOOTSTRAP, "root: %s", root->failure);
    dismiss_all(root, RONDO_REPLY_FAILED, result, root->failure, strlen(root->failure) + 1);
}

void rondo_root_give_up(struct rondo_root *root, int others, rondoResult_t result, const char *text)
{
    fail_all(root, result, "%s", text);
    if (root->expected < root->hellos + others)
        root->expected = root->hellos + others;
}

static void complete(struct rondo_root *root)
{
    size_t bytes = (size_t)root->nranks * sizeof(struct rondo_member);
    struct rondo_member *table = malloc(bytes);
    if (!table) {
        fail_all(root, rondoSystemError, "no memory for the table of %d ranks", root->nranks);
        return;
    }
    for (int rank = 0; rank < root->nranks; rank++)
        table[rank] = root->members[rank]->hello.member;
    root->complete = 1;
    rondo_close(&root->listener);
    dismiss_all(root, RONDO_REPLY_TABLE, rondoSuccess, table, bytes);
    free(table);
}

/* Whether two ranks can be of one comm in this version. */
static void check_hosts(struct rondo_root *root, const struct rondo_hello *hello)
{
    const struct rondo_host *host = &hello->member.host, *first = &root->members[root->first]->hello.member.host;
    if (!rondo_host_same(host, first))
        fail_all(root, rondoInvalidUsage,
                 "rank %d is on host %s and rank %d on host %s: this version joins ranks of one host only", hello->rank,
                 host->name, root->first, first->name);
    else if (host->network != first->network)
        fail_all(root, rondoInvalidUsage,
                 "rank %d (host name %s) and rank %d (host name %s) are in different network namespaces of one host: "
                 "give their containers the same network",
                 hello->rank, host->name, root->first, first->name);
}

/* A connection has proven that it knows the secret. */
static void admit(struct rondo_root *root, struct rondo_root_connection *connection)
{
    struct rondo_hello *hello = &connection->hello;
    int rank = hello->rank, nranks = hello->nranks;
    hello->member.host.name[sizeof(hello->member.host.name) - 1] = 0;
    hello->member.socket[sizeof(hello->member.socket) - 1] = 0;
    connection->stage = RONDO_ROOT_MEMBER;
    queue(connection, RONDO_REPLY_JOINED, rondoSuccess, NULL, 0);
    root->hellos++;
    if (nranks > root->expected)
        root->expected = nranks;
    if (root->failed != rondoSuccess) {
        dismiss(connection, RONDO_REPLY_FAILED, root->failed, root->failure, strlen(root->failure) + 1);
        return;
    }
    if (hello->version != RONDO_WIRE_VERSION) {
        fail_all(root, rondoInvalidUsage, "rank %d runs another version of Rondo than the process that made the id",
                 rank);
    } else if (nranks < 1 || nranks > RONDO_BOOTSTRAP_RANKS || rank < 0 || rank >= nranks) {
        fail_all(root, rondoInvalidArgument, "rank %d of %d ranks: no such rank", rank, nranks);
    } else if (root->nranks == 0) {
        root->members = calloc((size_t)nranks, sizeof(*root->members));
        if (!root->members)
            fail_all(root, rondoSystemError, "no memory for %d ranks", nranks);
        root->nranks = root->members ? nranks : 0;
        root->first = rank;
    } else if (nranks != root->nranks) {
        fail_all(root, rondoInvalidArgument, "rank %d says that there are %d ranks, rank %d says %d", rank, nranks,
                 root->first, root->nranks);
    } else if (root->members[rank]) {
        fail_all(root, rondoInvalidArgument, "rank %d joins twice (processes %d and %d)", rank,
                 root->members[rank]->hello.member.pid, hello->member.pid);
    } else {
        check_hosts(root, hello);
    }
    if (root->failed != rondoSuccess)
        return;
    root->members[rank] = connection;
    if (rondo_host_same_pids(&hello->member.host, &root->host))
        connection->pidfd = rondo_pidfd_open(hello->member.pid);
    if (connection->pidfd == -2) { /* gone already; its sockets may live on in a child */
        connection->pidfd = -1;
        rondo_close(&connection->fd);
        return;
    }
    flush(connection);
    if (++root->joined == root->nranks)
        complete(root);
}

/* A member's word after its hello, or its end. */
static void member_gone(struct rondo_root *root, struct rondo_root_connection *connection, int gave_up)
{
    if (connection->stage != RONDO_ROOT_MEMBER)
        return;
    int rank = connection->hello.rank;
    if (!gave_up) {
        fail_all(root, rondoRemoteError, "rank %d (process %d) ended or gave up before all ranks had joined", rank,
                 connection->hello.member.pid);
        return;
    }
    unsigned char missing[RONDO_BOOTSTRAP_RANKS];
    char list[256];
    for (int i = 0; i < root->nranks; i++)
        missing[i] = root->members[i] == NULL;
    rondo_rank_list(missing, root->nranks, list, sizeof(list));
    fail_all(root, rondoTimeout, "timed out: %s of %d did not join (rank %d waited longest)", list, root->nranks, rank);
}

static void read_hello(struct rondo_root *root, struct rondo_root_connection *connection)
{
    struct rondo_hello *hello = &connection->hello;
    ssize_t got =
        rondo_socket_recv(connection->fd, (uint8_t *)hello + connection->have, sizeof(*hello) - connection->have);
    if (got > 0)
        connection->have += (size_t)got;
    if (got < 0) {
        rondo_close(&connection->fd);
    } else if (connection->have == sizeof(*hello)) {
        if (hello->magic == RONDO_WIRE_MAGIC &&
            rondo_secret_equal(hello->secret, root->id.secret, sizeof(hello->secret)))
            admit(root, connection);
        else
            rondo_close(&connection->fd);
    }
}

static void read_member(struct rondo_root *root, struct rondo_root_connection *connection)
{
    char words[64];
    ssize_t got;
    while ((got = rondo_socket_recv(connection->fd, words, sizeof(words))) > 0)
        member_gone(root, connection, words[0] == RONDO_GIVE_UP);
    if (got < 0) {
        rondo_close(&connection->fd);
        member_gone(root, connection, 0);
    }
}

static void drop_oldest_stranger(struct rondo_root *root)
{
    for (size_t i = 0; i < root->count; i++) {
        if (root->connections[i]->stage == RONDO_ROOT_STRANGER && root->connections[i]->fd >= 0) {
            rondo_close(&root->connections[i]->fd);
            return;
        }
    }
}

static void accept_some(struct rondo_root *root)
{
    for (int i = 0; i < BURST && root->listener >= 0; i++) {
        struct rondo_root_connection *connection = rondo_root_room(root) ? calloc(1, sizeof(*connection)) : NULL;
        int fd = -1, error = connection ? rondo_socket_accept(root->listener, &fd) : ENOMEM;
        if (error != 0) {
            free(connection);
            if (error != EAGAIN) {
                root->accept_ns = rondo_now_ns() + BACK_OFF_MS * 1000000ull;
                drop_oldest_stranger(root);
            }
            return;
        }
        *connection = (struct rondo_root_connection){
            .fd = fd, .pidfd = -1, .stage = RONDO_ROOT_STRANGER, .deadline_ns = rondo_now_ns() + HELLO_MS * 1000000ull};
        root->connections[root->count++] = connection;
        read_hello(root, connection); /* a rank's hello is mostly there by now, so that no flood can push it out */
        size_t strangers = 0;
        for (size_t k = 0; k < root->count; k++)
            strangers += root->connections[k]->stage == RONDO_ROOT_STRANGER && root->connections[k]->fd >= 0;
        if (strangers > STRANGERS)
            drop_oldest_stranger(root);
    }
}

void rondo_root_sweep(struct rondo_root *root)
{
    uint64_t now = rondo_now_ns();
    for (size_t i = 0; i < root->count; i++) {
        struct rondo_root_connection *one = root->connections[i];
        if (one->fd >= 0 && one->stage != RONDO_ROOT_MEMBER && now >= one->deadline_ns)
            rondo_close(&one->fd);
        if (one->fd < 0)
            member_gone(root, one, 0);
    }
    size_t kept = 0;
    for (size_t i = 0; i < root->count; i++) {
        struct rondo_root_connection *one = root->connections[i];
        if (one->fd >= 0) {
            root->connections[kept++] = one;
            continue;
        }
        for (int rank = 0; rank < root->nranks; rank++) {
            if (root->members[rank] == one)
                root->members[rank] = NULL;
        }
        rondo_close(&one->pidfd);
        free(one->out);
        free(one);
    }
    root->count = kept;
}

int rondo_root_prepare(struct rondo_root *root, nfds_t *polled)
{
    uint64_t now = rondo_now_ns(), next = now + IDLE_MS * 1000000ull;
    size_t n = 0, waiting = 0;
    int shut = root->accept_ns > now; /* out of descriptors a moment ago */
    if (shut)
        next = root->accept_ns;
    root->polls[n++] = (struct pollfd){root->wake, POLLIN, 0};
    root->polls[n++] = (struct pollfd){shut ? -1 : root->listener, POLLIN, 0};
    for (size_t i = 0; i < root->count; i++) {
        struct rondo_root_connection *one = root->connections[i];
        short events = one->out_sent < one->out_bytes ? POLLIN | POLLOUT : POLLIN;
        waiting += one->stage != RONDO_ROOT_STRANGER;
        if (one->stage != RONDO_ROOT_MEMBER && one->deadline_ns < next)
            next = one->deadline_ns;
        root->polls[n++] = (struct pollfd){one->fd, events, 0};
        root->polls[n++] = (struct pollfd){one->pidfd, POLLIN, 0};
    }
    if (root->failed != rondoSuccess && root->failed_end_ns < next)
        next = root->failed_end_ns;
    *polled = n;
    int all_heard = root->hellos >= root->expected || now >= root->failed_end_ns;
    if (root->stop || (waiting == 0 && (root->complete || (root->failed != rondoSuccess && all_heard))))
        return -1;
    return rondo_wait_left_ms(next, IDLE_MS);
}

void rondo_root_serve(struct rondo_root *root)
{
    for (size_t i = 0; i < root->count; i++) {
        struct rondo_root_connection *one = root->connections[i];
        short ready = root->polls[2 + 2 * i].revents, ended = root->polls[3 + 2 * i].revents;
        if (one->fd >= 0 && ready & POLLOUT)
            flush(one);
        if (one->fd >= 0 && ready & ~POLLOUT) {
            if (one->stage == RONDO_ROOT_STRANGER)
                read_hello(root, one);
            else
                read_member(root, one);
        }
        if (one->stage == RONDO_ROOT_MEMBER && ended)
            rondo_close(&one->fd);
    }
    eventfd_t told;
    if (root->polls[0].revents)
        eventfd_read(root->wake, &told);
    if (root->polls[1].revents)
        accept_some(root);
    rondo_root_sweep(root);
}
