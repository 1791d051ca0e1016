/* The bootstrap from inside: shared by bootstrap.c (the life of one), bootstrap_mesh.c (pairwise connections) and
 * bootstrap_exchange.c (what runs over them). One thread at a time uses a bootstrap, so nothing here has a lock. */
#ifndef RONDO_COMM_BOOTSTRAP_IMPL_H
#define RONDO_COMM_BOOTSTRAP_IMPL_H

#include "rondo/rondo.h"

#include "comm/bootstrap.h"
#include "comm/bootstrap_wire.h"

#include <stdint.h>
#include <sys/types.h>

struct rondo_peer {
    int socket; /* -1: oneself, or not connected yet */
    int pidfd;  /* as rondo_pidfd_open gives it */
    pid_t pid;  /* as the kernel of this process sees it; 0: in another namespace */
    int same_process;
    int gone;      /* it said its last word (rondo_bootstrap_hush), or ended */
    int mid_frame; /* an exchange ended inside a frame to this peer: nothing more can be said to it */
};

struct rondo_bootstrap {
    int rank, nranks;
    pid_t owner;                /* the process that joined: a forked child must not speak for it */
    int timeout_ms;             /* of each exchange */
    const volatile int *cancel; /* not owned; may be NULL */
    uint32_t sequence;          /* of the next exchange */
    rondoResult_t failed; /* of the exchange that failed: later ones fail the same way, and nothing more is sent */
    char failure[RONDO_WIRE_TEXT_BYTES]; /* its text */
    struct rondo_peer *peers;            /* nranks */
};

/* Connects this rank with all others: to lower ranks by their names in `table`, from higher ones at `listener`.
 * Fills in peers. rondoTimeout and rondoRemoteError name the ranks. */
rondoResult_t rondo_bootstrap_mesh(struct rondo_bootstrap *bootstrap, int listener, const struct rondo_member *table,
                                   const uint8_t secret[RONDO_SECRET_BYTES], const struct rondo_wait *wait);

#endif
