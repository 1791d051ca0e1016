/* The bounds that a comm sets to its plans: agreed at init, the same on all its ranks, constant afterwards. */
#ifndef RONDO_COMM_LIMITS_H
#define RONDO_COMM_LIMITS_H

#include "kernels/rings.h"
#include "kernels/work.h"

#include <stdbool.h>
#include <stdint.h>

enum { RONDO_MAX_RANKS = 64, RONDO_SHAPE_RULES = 12 };

/* What a table (comm/tune.h) may set for a collective. */
enum rondo_tune_key {
    RONDO_TUNE_TWO_SHOT,
    RONDO_TUNE_BULK,
    RONDO_TUNE_DIRECT,
    RONDO_TUNE_RING,
    RONDO_TUNE_SHAPE,
    RONDO_TUNE_KEY_COUNT
};

_Static_assert((int)RONDO_MAX_RANKS == (int)RONDO_RING_RANKS, "the order of a ring has a place for every rank");

/* The shape of works whose flows have `from` bytes or more, up to the next rule. */
struct rondo_shape_rule {
    uint64_t from;
    uint16_t threads, channels; /* of a block; blocks at most. 0: as without rules */
};

struct rondo_limits {
    unsigned ranks;
    unsigned lanes; /* in all */
    unsigned line_bytes;
    unsigned min_channels, max_channels;
    unsigned max_threads;    /* of a block, unless somebody says otherwise */
    unsigned lean_threads;   /* the same in kernels that take half the registers */
    unsigned kernel_threads; /* of a block, whatever is said */
    unsigned room;  /* threads of a launch that leave room for another one like it on the device; 0: any number */
    unsigned large; /* a launch of more threads lets the next one in late: kernels/launch.h */
    unsigned max_per_thread; /* lines of a slot that one thread handles in one step */
    uint32_t half_lines;     /* of a mailbox half */
    uint32_t bulk_lines;     /* of a bulk half */
    uint64_t
        two_shot_from[RONDO_COLLECTIVE_COUNT];  /* bytes of a flow from which on a collective with shards is two-shot */
    uint64_t bulk_from[RONDO_COLLECTIVE_COUNT]; /* from which on it goes by the bulk protocol */
    uint64_t direct_from[RONDO_COLLECTIVE_COUNT]; /* and by the direct one, where buffers allow */
    uint64_t messages_direct_from;                /* the same for a message between two ranks */
    uint64_t copied_from[RONDO_COLLECTIVE_COUNT]; /* from which on what is direct is moved by copy engines, */
    uint64_t messages_copied_from;                /* and messages are, and what a rank has for itself */
    uint64_t ring_from[RONDO_COLLECTIVE_COUNT];   /* and round the ring, */
    uint8_t
        ring_widest[RONDO_COLLECTIVE_COUNT]; /* if its partial results take no more lines than this for one; 0: never */
    struct rondo_ring_order ring;
    struct rondo_shape_rule shapes[RONDO_COLLECTIVE_COUNT][RONDO_SHAPE_RULES]; /* by ascending size */
    uint8_t shape_count[RONDO_COLLECTIVE_COUNT];
    uint8_t tuned[RONDO_COLLECTIVE_COUNT]; /* which of these a table has set: bits by enum rondo_tune_key */
    uint32_t fifo_lines;                   /* of a FIFO for sends and receives: a power of two */
    unsigned fifo_channels;                /* FIFOs from one rank to another, at most */
    int forced_algo;                       /* enum rondo_algo, -1: by size */
    unsigned forced_threads;               /* 0: by size */
    unsigned check;                        /* 1: launches compare what their ranks run */
    unsigned posts;                        /* 1: progress threads copy between some of the ranks (kernels/posts.h) */
    unsigned copies;                       /* 1: and between buffers of the ranks (kernels/copies.h) */
};

/* Whether there are lean kernels for so many ranks. */
static inline bool rondo_limits_lean(unsigned ranks)
{
    return ranks == 2 || ranks == 4 || ranks == 8;
}

/* Sets two_shot_from to what is built in, for `ranks` ranks. */
void rondo_limits_preset(struct rondo_limits *limits);

/* From how many bytes of a part on an all-gather, all-to-all or reduce-scatter is direct: built in, for GPUs joined by NVLink. */
uint64_t rondo_limits_direct_parts(unsigned ranks);

/* Sets room, large and lean_threads, lowers max_threads, and raises max_per_thread as much, so that two launches of most blocks fit on a device
 * of so many multiprocessors together. */
void rondo_limits_share(struct rondo_limits *limits, unsigned processors);

/* Sets what depends on how large a mailbox is: `bytes` are those of one half of one lane's. All of a comm's mailboxes of the
 * default size are to stay below 64 MiB on up to 4 ranks. */
void rondo_limits_fit(struct rondo_limits *limits, uint64_t bytes);

#endif
