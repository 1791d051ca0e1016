/* The watch: one thread per process that looks after all comms. It reads the control sockets (a peer died, aborted,
 * left, or sent a letter) and, every RONDO_WATCH_PERIOD_MS, asks each comm to look at what its kernels have reported.
 *
 * A peer's death shows as the end of its socket and, where the kernel has pidfds, as the end of its process: a
 * forked child that inherited the socket must not hide it. */
#ifndef RONDO_COMM_WATCH_H
#define RONDO_COMM_WATCH_H

#include "rondo/rondo.h"

#include "comm/bootstrap.h"

#include <stddef.h>

enum { RONDO_WATCH_PERIOD_MS = 20, RONDO_WATCH_TEXT_BYTES = 480 };

enum rondo_watch_event {
    RONDO_WATCH_DIED,    /* the peer's process ended, or its socket did, without a word */
    RONDO_WATCH_ABORTED, /* the peer said that it aborts or failed; `text` says why */
    RONDO_WATCH_LEFT,    /* the peer destroyed its comm in order */
};

struct rondo_watch_client {
    void *context;
    /* All are called from the watch thread, never after rondo_watch_remove has returned, and must not call
     * rondo_watch_add or rondo_watch_remove (rondo_watch_tell is fine). All comms of the process wait for them, so
     * they must not block. At most one event per peer; `text` is never NULL, at most RONDO_WATCH_TEXT_BYTES with its
     * end, and valid during the call. */
    void (*on_event)(void *context, int rank, enum rondo_watch_event event, const char *text);
    void (*on_tick)(void *context);
    /* A letter of rondo_watch_post, valid during the call; in the order in which the peer sent them. They may come after
     * the peer has aborted too. Last of all, and once, NULL: nothing more will come from this peer. The member itself may
     * be NULL: no letters are expected. */
    void (*on_post)(void *context, int rank, const void *bytes, size_t count);
    /* A letter of rondo_watch_post_export, and its descriptor, which is the client's to close; -1: none. May be NULL too. */
    void (*on_export)(void *context, int rank, const void *bytes, size_t count, int fd);
};

struct rondo_watch;

/* Starts to watch the peers of a bootstrap (not owned, must outlive the watch; its exchanges are over). The thread
 * starts with the process's first watch and ends with its last. What peers said or did before is not lost: it is
 * reported soon after. In a child after fork, watches that it inherited are dead (tell does nothing, remove frees),
 * while new ones get a thread of the child's own. *watch is set before the first callback. rondoSystemError: no
 * memory, no thread. */
rondoResult_t rondo_watch_add(struct rondo_bootstrap *bootstrap, int rank, int nranks,
                              const struct rondo_watch_client *client, struct rondo_watch **watch);

/* Tells all peers that this rank aborts (RONDO_WATCH_ABORTED, text: why) or leaves in order (RONDO_WATCH_LEFT, text
 * NULL). The first word counts, later ones are not sent. NULL is fine. Does not block; from any thread, also from
 * the client's functions. */
void rondo_watch_tell(struct rondo_watch *watch, enum rondo_watch_event event, const char *text);

/* Sends one peer a letter of at most RONDO_WATCH_TEXT_BYTES. Does not block; any thread. A peer that is gone is no error:
 * its watch says so. rondoSystemError: the peer has not read what it was sent before, for which there is much room.
 * rondoInvalidUsage: in a forked child. */
rondoResult_t rondo_watch_post(struct rondo_watch *watch, int rank, const void *bytes, size_t count);

/* The same for on_export, with a descriptor that stays the caller's; -1: none. */
rondoResult_t rondo_watch_post_export(struct rondo_watch *watch, int rank, const void *bytes, size_t count, int fd);

/* Stops watching; waits for a callback that is running, so it must not be called from one. NULL is fine. */
void rondo_watch_remove(struct rondo_watch *watch);

#endif
