/* Posts: how kernels tell a progress thread what to copy. Where a copy engine moves a pair's data, the sender's kernels fill a
 * mailbox of the sender's own, and post each range of it that is complete; the thread copies that range to where the
 * receiver's kernels look for it. To these, lines come as if the sender had stored them.
 *
 * What a post names is copied once and exactly: a line that the sender did not fill in this step holds an old payload, which must
 * not come again. Escape bytes go before their lines: a mark's code is there when the mark is. */
#ifndef RONDO_KERNELS_POSTS_H
#define RONDO_KERNELS_POSTS_H

#include "kernels/work.h"

enum { RONDO_POSTS = 4096 /* entries of a ring: a power of two */ };

/* A post: its range of the mailbox memory of all lanes, and in the top 16 bits of both words the ring's lap, from 1 on. One store
 * on GPUs; the host device's two are told to belong together by the lap. */
struct rondo_post {
    uint64_t offset, bytes;
};
enum { RONDO_POST_SHIFT = 48 };

/* Host memory. Filled by kernels, or by a progress thread that passes posts on to the receiver's; emptied by one thread. */
struct rondo_post_ring {
    uint32_t
        taken; /* posts that were taken so far, wraps. By the thread; an entry may be filled again RONDO_POSTS posts later */
    uint32_t unused[15]; /* keeps what the thread writes and what kernels write on lines of their own */
    struct rondo_post posts[RONDO_POSTS];
};

RONDO_BOTH uint64_t rondo_post_lap(uint32_t number)
{
    return (uint64_t)(number / RONDO_POSTS % 0xffffu + 1) << RONDO_POST_SHIFT;
}

/* What a rank's kernels know of a ring. Device memory, shared by all lanes. */
struct rondo_poster {
    struct rondo_post_ring *ring; /* NULL: what is sent to this peer needs no posts */
    char *base;                   /* of the mailbox memory that offsets count from */
    uint32_t made;                /* posts so far, wraps */
    uint32_t taken;               /* of these, at the last look */
};

/* Counters of blocks that have done their part of a work's step: the last posts for all of them. A block may be ahead of another by
 * a step, for a step's posts are what peers wait for before they send what it waits for, and by two if it has no lines in the last
 * step and so waits for none: there are sets for so many steps. */
enum rondo_post_counter {
    RONDO_POST_PUSHED,                                      /* + the work's number in its launch */
    RONDO_POST_RESULTS = RONDO_BATCH_WORKS,                 /* + the same */
    RONDO_POST_TOKENS = 2 * RONDO_BATCH_WORKS,              /* + enum rondo_token_kind */
    RONDO_POST_TOLD = RONDO_POST_TOKENS + RONDO_TOKEN_ROWS, /* of a broadcast's receivers */
    RONDO_POST_COUNTERS
};
enum { RONDO_POST_STEPS = 4 };

/* A lane's. Device memory. */
struct rondo_posts {
    uint32_t
        special; /* a special line was sent some time: posts of lines are preceded by posts of their escape bytes */
    uint32_t arrived[RONDO_POST_STEPS][RONDO_POST_COUNTERS];
    struct rondo_poster *peers; /* of all ranks */
};

#endif
