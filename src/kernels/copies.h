/* Copies: how kernels have copy engines move what direct works and messages would store (RONDO_CTA_POLICY_ZERO), so that no
 * multiprocessor does. One block of a launch asks for a copy from buffer to buffer, a progress thread gives it to a copy engine, and
 * says when it is done, for which that block waits. What a rank has for itself its kernels copy: a copy within a device is not
 * sure to begin while a kernel runs there that waits for it (docs/decisions/0010).
 *
 * A lane has one place to ask in for each peer: who asks has seen the end of the copy before. So there is no queue that could
 * overflow, and nothing of what a launch that died has asked for is in another's way: its lane is stopped. */
#ifndef RONDO_KERNELS_COPIES_H
#define RONDO_KERNELS_COPIES_H

#include "kernels/work.h"

/* What is asked for. Host memory. */
struct rondo_copy {
    uint64_t to, from; /* as kernels of the rank see them */
    uint64_t bytes;
    uint32_t number;     /* of the request, wraps to 1: what is above is valid once it has changed */
    uint32_t withdrawn;  /* number of a request of a launch that has died: not to be begun any more */
    uint32_t unused[24]; /* keeps what the thread writes and what kernels write on lines of their own */
    uint32_t taken;      /* by the thread: number of the last request that it has seen */
    uint32_t refused;    /* by the thread: number of one that is not copied, and will not be */
    uint32_t done;       /* by the thread: number of the last one that was copied; set once the engine has said so */
    uint32_t unused_[29];
};

/* What the first block of a launch, or of a message, tells the others: whether copies do their part, or they go by mailbox. */
enum rondo_copies_word { RONDO_COPIES_UNTOLD, RONDO_COPIES_NO, RONDO_COPIES_YES };

/* A lane's. Device memory. */
struct rondo_copies {
    struct rondo_copy *asked;              /* of all ranks */
    uint32_t numbers[RONDO_ARG_PEERS];     /* of the last requests, of who asks alone */
    uint32_t told[2 * RONDO_MAX_CHANNELS]; /* by block: enum rondo_copies_word, put back by who has heard it */
};

#endif
