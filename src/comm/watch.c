#include "comm/watch.h"

#include "comm/bootstrap_wire.h"
#include "comm/socket.h"
#include "common/clock.h"
#include "common/result.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

_Static_assert((int)RONDO_WATCH_TEXT_BYTES == (int)RONDO_WIRE_TEXT_BYTES, "a frame holds the longest text");

/* The thread that watches, with all that it watches. A new one is made when the first watch comes, and the last
 * watch to go ends it; so a watch that comes while an old thread is still being joined simply gets a new one. */
struct watcher {
    pthread_t thread;            /* constant once started */
    int wake;                    /* eventfd; constant */
    int stop;                    /* under lock */
    int orphaned;                /* atomic: set once in a forked child, where there is no thread */
    unsigned generation;         /* under lock: grows whenever `watches` or what is to be polled changes */
    struct rondo_watch *watches; /* under lock */
    struct rondo_watch *running; /* under lock: its callbacks may be running; not to be removed now */
    struct pollfd *polls;        /* the thread's own */
    size_t polls_capacity;       /* the thread's own */
};

/* What is known of one peer. The watch thread's own. */
struct watched_peer {
    int socket, pidfd; /* owned by the bootstrap; -1: none, or done */
    int reported;      /* its event was */
    int done;          /* nothing more is read from it */
    int fds[4];        /* that came, for letters that are still to be read */
    unsigned fd_count;
    size_t have; /* bytes of the note */
    uint8_t note[RONDO_NOTE_BYTES];
};

struct rondo_watch {
    struct rondo_watch *next; /* under lock */
    struct watcher *watcher;  /* constant */
    int leaving;              /* under lock: is being removed, no callback starts any more */
    struct rondo_bootstrap *bootstrap;
    struct rondo_watch_client client;
    int rank, nranks;
    size_t first_poll; /* the thread's own: where its entries are in `polls` */
    pthread_mutex_t tell_lock;
    int told;                   /* under tell_lock */
    struct watched_peer *peers; /* nranks; the thread's own */
};

/* Lock order: `lock` and a watch's tell_lock are never held together, and no callback runs under either. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER; /* with lock: some watcher's `running` has changed */
static struct watcher *current;                           /* under lock; NULL: no watch, no thread */

static int is_orphaned(const struct watcher *watcher)
{
    return __atomic_load_n(&watcher->orphaned, __ATOMIC_ACQUIRE);
}

/* ---- one watch, in the watch thread ---- */

static void report(struct rondo_watch *watch, int rank, enum rondo_watch_event event, const char *text)
{
    struct watched_peer *peer = &watch->peers[rank];
    if (!peer->reported)
        watch->client.on_event(watch->client.context, rank, event, text);
    peer->reported = 1;
}

/* The peer's last event: nothing more is read from it. */
static void report_last(struct rondo_watch *watch, int rank, enum rondo_watch_event event, const char *text)
{
    struct watched_peer *peer = &watch->peers[rank];
    peer->done = 1;
    peer->socket = peer->pidfd = -1;
    report(watch, rank, event, text);
    if (watch->client.on_post)
        watch->client.on_post(watch->client.context, rank, NULL, 0);
}

/* A letter's descriptor. They come in the order of the letters. */
static int take_fd(struct watched_peer *peer)
{
    if (peer->fd_count == 0)
        return -1;
    const int fd = peer->fds[0];
    peer->fd_count--;
    memmove(peer->fds, peer->fds + 1, peer->fd_count * sizeof *peer->fds);
    return fd;
}

static void keep_fd(struct watched_peer *peer, int fd)
{
    if (peer->fd_count < sizeof peer->fds / sizeof *peer->fds)
        peer->fds[peer->fd_count++] = fd;
    else
        rondo_close(&fd);
}

/* Handles the note at the front of what was read; its bytes, or 0: it is not whole yet. */
static size_t take_note(struct rondo_watch *watch, int rank)
{
    struct watched_peer *peer = &watch->peers[rank];
    struct rondo_frame frame;
    if (peer->have < sizeof(frame))
        return 0;
    memcpy(&frame, peer->note, sizeof(frame));
    const int has_bytes =
        frame.type == RONDO_FRAME_ABORTED || frame.type == RONDO_FRAME_POST || frame.type == RONDO_FRAME_EXPORT;
    if (frame.magic != RONDO_FRAME_MAGIC || !(has_bytes || frame.type == RONDO_FRAME_LEFT) ||
        (has_bytes && (frame.bytes == 0 || frame.bytes > RONDO_WIRE_TEXT_BYTES))) {
        report_last(watch, rank, RONDO_WATCH_DIED, "it sent something that makes no sense");
        return 0;
    }
    if (!has_bytes) {
        report_last(watch, rank, RONDO_WATCH_LEFT, "");
        return 0;
    }
    if (peer->have < sizeof(frame) + frame.bytes)
        return 0;
    char *bytes = (char *)peer->note + sizeof(frame);
    if (frame.type == RONDO_FRAME_ABORTED) {
        bytes[frame.bytes - 1] = 0;
        report(watch, rank, RONDO_WATCH_ABORTED, bytes);
    } else if (frame.type == RONDO_FRAME_POST && watch->client.on_post) {
        watch->client.on_post(watch->client.context, rank, bytes, frame.bytes);
    } else if (frame.type == RONDO_FRAME_EXPORT) {
        int fd = frame.sequence ? take_fd(peer) : -1;
        if (watch->client.on_export)
            watch->client.on_export(watch->client.context, rank, bytes, frame.bytes, fd);
        else
            rondo_close(&fd);
    }
    return sizeof(frame) + frame.bytes;
}

/* Reads what the peer said. Returns the error that ended the socket, or 0. */
static int read_notes(struct rondo_watch *watch, int rank)
{
    struct watched_peer *peer = &watch->peers[rank];
    ssize_t got;
    int fd;
    while ((got = rondo_socket_recv_fd(peer->socket, peer->note + peer->have, sizeof(peer->note) - peer->have, &fd)) >
           0) {
        peer->have += (size_t)got;
        if (fd >= 0)
            keep_fd(peer, fd);
        for (size_t taken; (taken = take_note(watch, rank)) > 0;) {
            peer->have -= taken;
            memmove(peer->note, peer->note + taken, peer->have);
        }
        if (peer->done)
            return 0;
    }
    return (int)-got;
}

static void look_at_peer(struct rondo_watch *watch, int rank, int socket_ready, int process_ended)
{
    struct watched_peer *peer = &watch->peers[rank];
    char reason[64], text[RONDO_WATCH_TEXT_BYTES];
    int error = 0;
    if (peer->done || !(socket_ready || process_ended))
        return;
    /* Its last word comes before its end, also when the end is what woke us. */
    error = read_notes(watch, rank);
    if (peer->done || !(error || process_ended))
        return;
    pid_t pid = rondo_bootstrap_pid(watch->bootstrap, rank);
    if (process_ended)
        snprintf(text, sizeof(text), "its process %d ended", (int)pid);
    else
        snprintf(text, sizeof(text), "its connection (process %d) ended without a word: %s", (int)pid,
                 rondo_socket_error_text(error, reason));
    report_last(watch, rank, RONDO_WATCH_DIED, text);
}

static int look_at(struct rondo_watch *watch, const struct pollfd *polls, int tick)
{
    int changed = 0;
    for (int rank = 0; rank < watch->nranks; rank++) {
        const struct pollfd *pair = &polls[2 * (size_t)rank];
        if (watch->peers[rank].done)
            continue;
        /* Of a process that had ended before its descriptor could be had, -2 tells. */
        int ended = pair[1].revents != 0 || watch->peers[rank].pidfd == -2;
        look_at_peer(watch, rank, pair[0].revents != 0, ended);
        changed |= watch->peers[rank].done;
    }
    if (tick)
        watch->client.on_tick(watch->client.context);
    return changed;
}

/* ---- the thread ---- */

/* Fills `polls` from all watches; returns their number, 0 if there is no memory. Under lock. */
static size_t fill_polls(struct watcher *watcher)
{
    size_t needed = 1;
    for (const struct rondo_watch *watch = watcher->watches; watch; watch = watch->next)
        needed += 2 * (size_t)watch->nranks;
    if (needed > watcher->polls_capacity) {
        struct pollfd *larger = realloc(watcher->polls, 2 * needed * sizeof(*larger));
        if (!larger)
            return 0;
        watcher->polls = larger;
        watcher->polls_capacity = 2 * needed;
    }
    size_t n = 0;
    watcher->polls[n++] = (struct pollfd){watcher->wake, POLLIN, 0};
    for (struct rondo_watch *watch = watcher->watches; watch; watch = watch->next) {
        watch->first_poll = n;
        for (int rank = 0; rank < watch->nranks; rank++) {
            watcher->polls[n++] = (struct pollfd){watch->peers[rank].socket, POLLIN, 0};
            watcher->polls[n++] = (struct pollfd){watch->peers[rank].pidfd, POLLIN, 0};
        }
    }
    return n;
}

/* Serves all watches that were polled. Called and returns with the lock, lets go of it around callbacks. A watch that
 * is removed meanwhile is not the running one, so `next` is read after it has been unlinked; one that is added comes
 * first in the list, before where we are. */
static void serve_all(struct watcher *watcher, int tick)
{
    for (struct rondo_watch *watch = watcher->watches; watch; watch = watch->next) {
        if (watch->leaving)
            continue;
        watcher->running = watch;
        pthread_mutex_unlock(&lock);
        int changed = look_at(watch, watcher->polls + watch->first_poll, tick);
        pthread_mutex_lock(&lock);
        watcher->running = NULL;
        watcher->generation += (unsigned)changed;
        pthread_cond_broadcast(&settled);
    }
}

static void *watch_thread(void *argument)
{
    struct watcher *watcher = argument;
    uint64_t tick_ns = rondo_now_ns() + RONDO_WATCH_PERIOD_MS * 1000000ull;
    unsigned generation = 0;
    size_t polled = 0;
    pthread_mutex_lock(&lock);
    while (!watcher->stop) {
        if (polled == 0 || generation != watcher->generation) {
            generation = watcher->generation;
            polled = fill_polls(watcher);
        }
        pthread_mutex_unlock(&lock);
        /* Some of these may be removed, closed and used for something else by now: poll() does no harm to them, and
         * its answer is thrown away below because the generation has changed. */
        int wait_ms = rondo_wait_left_ms(tick_ns, RONDO_WATCH_PERIOD_MS);
        int ready = poll(watcher->polls, polled, wait_ms);
        if (ready > 0 && watcher->polls[0].revents) {
            eventfd_t value;
            eventfd_read(watcher->wake, &value);
        }
        uint64_t now = rondo_now_ns();
        int tick = now >= tick_ns;
        if (tick)
            tick_ns = now + RONDO_WATCH_PERIOD_MS * 1000000ull;
        pthread_mutex_lock(&lock);
        if (polled == 0 || generation != watcher->generation || watcher->stop) {
            if (tick)
                tick_ns = now; /* still owed */
            continue;
        }
        if (ready < 0)
            for (size_t i = 0; i < polled; i++)
                watcher->polls[i].revents = 0;
        serve_all(watcher, tick);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- adding and removing ---- */

static void watcher_free(struct watcher *watcher)
{
    rondo_close(&watcher->wake);
    free(watcher->polls);
    free(watcher);
}

/* Under lock. */
static rondoResult_t watcher_start(struct watcher **started)
{
    struct watcher *watcher = calloc(1, sizeof(*watcher));
    if (!watcher)
        return rondo_fail(rondoSystemError, "no memory for the watch");
    watcher->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watcher->wake < 0) {
        int error = errno;
        watcher_free(watcher);
        return rondo_fail(rondoSystemError, "eventfd: %s", strerror(error));
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its own threads */
    int error = pthread_create(&watcher->thread, NULL, watch_thread, watcher);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        watcher_free(watcher);
        return rondo_fail(rondoSystemError, "cannot start the watch thread: %s", strerror(error));
    }
    pthread_setname_np(watcher->thread, "rondo-watch");
    *started = watcher;
    return rondoSuccess;
}

static void fork_prepare(void)
{
    pthread_mutex_lock(&lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child has no watch thread, and must not speak for its parent. */
static void fork_child(void)
{
    if (current) {
        __atomic_store_n(&current->orphaned, 1, __ATOMIC_RELEASE);
        current->running = NULL;
        current = NULL;
    }
    pthread_cond_init(&settled, NULL); /* threads that waited are not here */
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void watch_free(struct rondo_watch *watch)
{
    if (!watch)
        return;
    for (int rank = 0; watch->peers && rank < watch->nranks; rank++)
        for (int fd; (fd = take_fd(&watch->peers[rank])) >= 0;)
            rondo_close(&fd);
    free(watch->peers);
    free(watch);
}

rondoResult_t rondo_watch_add(struct rondo_bootstrap *bootstrap, int rank, int nranks,
                              const struct rondo_watch_client *client, struct rondo_watch **watch)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    *watch = NULL;
    struct rondo_watch *made = calloc(1, sizeof(*made));
    if (made)
        made->peers = calloc((size_t)nranks, sizeof(*made->peers));
    if (!made || !made->peers) {
        watch_free(made);
        return rondo_fail(rondoSystemError, "no memory to watch %d ranks", nranks);
    }
    made->bootstrap = bootstrap;
    made->client = *client;
    made->rank = rank;
    made->nranks = nranks;
    pthread_mutex_init(&made->tell_lock, NULL);
    for (int peer = 0; peer < nranks; peer++) {
        made->peers[peer].socket = peer == rank ? -1 : rondo_bootstrap_socket(bootstrap, peer);
        made->peers[peer].pidfd = peer == rank ? -1 : rondo_bootstrap_pidfd(bootstrap, peer);
        made->peers[peer].done = peer == rank;
    }
    rondoResult_t result = rondoSuccess;
    pthread_mutex_lock(&lock);
    if (!current)
        result = watcher_start(&current);
    if (result == rondoSuccess) {
        made->watcher = current;
        made->next = current->watches;
        current->watches = made;
        current->generation++;
        eventfd_write(current->wake, 1);
        *watch = made;
    }
    pthread_mutex_unlock(&lock);
    if (result != rondoSuccess)
        watch_free(made);
    return result;
}

void rondo_watch_tell(struct rondo_watch *watch, enum rondo_watch_event event, const char *text)
{
    if (!watch || is_orphaned(watch->watcher))
        return;
    uint8_t note[RONDO_NOTE_BYTES];
    enum rondo_frame_type type = event == RONDO_WATCH_LEFT ? RONDO_FRAME_LEFT : RONDO_FRAME_ABORTED;
    size_t bytes = rondo_note_make(note, type, text);
    pthread_mutex_lock(&watch->tell_lock);
    /* Besides a few letters nothing has been sent since the exchanges, so the note finds room. */
    for (int peer = 0; peer < watch->nranks && !watch->told; peer++) {
        int socket = peer == watch->rank ? -1 : rondo_bootstrap_socket(watch->bootstrap, peer);
        if (socket >= 0)
            rondo_socket_send(socket, note, bytes);
    }
    watch->told = 1;
    pthread_mutex_unlock(&watch->tell_lock);
}

static rondoResult_t post(struct rondo_watch *watch, int rank, enum rondo_frame_type type, const void *bytes,
                          size_t count, int fd)
{
    uint8_t note[RONDO_NOTE_BYTES];
    char text[64];
    RONDO_ASSERT(count > 0 && count <= RONDO_WIRE_TEXT_BYTES);
    if (is_orphaned(watch->watcher))
        return rondo_fail(rondoInvalidUsage, "a forked child cannot speak for its parent's comm");
    const struct rondo_frame frame = {
        .magic = RONDO_FRAME_MAGIC, .type = (uint16_t)type, .sequence = fd >= 0, .bytes = count};
    memcpy(note, &frame, sizeof(frame));
    memcpy(note + sizeof(frame), bytes, count);
    pthread_mutex_lock(&watch->tell_lock); /* notes must not mix */
    ssize_t sent =
        rondo_socket_send_fd(rondo_bootstrap_socket(watch->bootstrap, rank), note, sizeof(frame) + count, fd);
    pthread_mutex_unlock(&watch->tell_lock);
    if (sent == -EPIPE || sent == -ECONNRESET || sent == (ssize_t)(sizeof(frame) + count))
        return rondoSuccess;
    return rondo_fail(rondoSystemError, "cannot send to rank %d: %s", rank,
                      sent < 0 ? rondo_socket_error_text((int)-sent, text) : "it does not read what it is sent");
}

rondoResult_t rondo_watch_post(struct rondo_watch *watch, int rank, const void *bytes, size_t count)
{
    return post(watch, rank, RONDO_FRAME_POST, bytes, count, -1);
}

rondoResult_t rondo_watch_post_export(struct rondo_watch *watch, int rank, const void *bytes, size_t count, int fd)
{
    return post(watch, rank, RONDO_FRAME_EXPORT, bytes, count, fd);
}

void rondo_watch_remove(struct rondo_watch *watch)
{
    if (!watch)
        return;
    struct watcher *watcher = watch->watcher;
    int orphaned = is_orphaned(watcher);
    RONDO_ASSERT(orphaned || !pthread_equal(pthread_self(), watcher->thread));
    pthread_mutex_lock(&lock);
    watch->leaving = 1; /* else a slow callback could start again before this thread gets the lock */
    while (watcher->running == watch)
        pthread_cond_wait(&settled, &lock);
    struct rondo_watch **place = &watcher->watches;
    while (*place != watch)
        place = &(*place)->next;
    *place = watch->next;
    watcher->generation++;
    int last = watcher->watches == NULL;
    if (last && !orphaned) {
        watcher->stop = 1;
        current = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (last && !orphaned) {
        eventfd_write(watcher->wake, 1);
        pthread_join(watcher->thread, NULL);
    }
    if (last)
        watcher_free(watcher);
    if (!orphaned) /* else a thread of the parent may have held it when this process was made */
        pthread_mutex_destroy(&watch->tell_lock);
    watch_free(watch);
}
