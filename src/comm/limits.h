/* The bounds that a comm sets to its plans: agreed at init, the same on all its ranks, constant afterwards. */
#ifndef RONDO_COMM_LIMITS_H
#define RONDO_COMM_LIMITS_H

#include "kernels/work.h"

#include <stdint.h>

enum { RONDO_MAX_RANKS = 64 };

struct rondo_limits {
    unsigned ranks;
    unsigned lanes; /* in all */
    unsigned line_bytes;
    unsigned min_channels, max_channels;
    unsigned max_threads;                         /* of a block */
    unsigned max_per_thread;                      /* lines of a slot that one thread handles in one step */
    uint32_t half_lines;                          /* of a mailbox half */
    uint32_t bulk_lines;                          /* of a bulk half */
    uint64_t bulk_from[RONDO_COLLECTIVE_COUNT];   /* bytes of a flow from which on it goes by the bulk protocol */
    uint64_t direct_from[RONDO_COLLECTIVE_COUNT]; /* and by the direct one, where buffers allow */
    uint32_t fifo_lines;                          /* of a FIFO for sends and receives: a power of two */
    unsigned fifo_channels;                       /* FIFOs from one rank to another, at most */
    int forced_algo;                              /* enum rondo_algo, -1: by size */
    unsigned forced_threads;                      /* 0: by size */
    unsigned check;                               /* 1: launches compare what their ranks run */
    unsigned posts; /* 1: progress threads copy between some of the ranks (kernels/posts.h) */
};

/* Sets what depends on how large a mailbox is: `bytes` are those of one half of one lane's. All of a comm's mailboxes of the
 * default size are to stay below 64 MiB on up to 4 ranks. */
void rondo_limits_fit(struct rondo_limits *limits, uint64_t bytes);

#endif
