/* The thread that does for a non-blocking comm what would block: its init, its finalize. One at a time. */
#ifndef RONDO_COMM_WORKER_H
#define RONDO_COMM_WORKER_H

#include "rondo/rondo.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct rondo_worker {
    int there;     /* atomic: there is a thread to be joined; who sets it to 0 joins */
    pid_t process; /* that has the thread: a forked child has not */
    pthread_t thread;
};

/* The worker has no thread. `worker` itself is not touched by the new thread. */
rondoResult_t rondo_worker_start(struct rondo_worker *worker, void *(*function)(void *), void *argument);

/* Takes the thread out of `worker`, for join below; of several callers one gets it. */
bool rondo_worker_take(struct rondo_worker *worker, struct rondo_worker *taken);

/* Waits for the end of the thread, if there is one. */
void rondo_worker_join(struct rondo_worker *worker);

/* Gives the thread up: it ends by itself. */
void rondo_worker_detach(struct rondo_worker *worker);

#endif
