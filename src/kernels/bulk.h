/* The bulk protocol: works of many lines. A step's lines lie in a bulk half of the mailbox, as they are; when a block has stored all
 * that it has for its peers in a phase of a step, it sends the same block of every peer a token, and when it has all of theirs, it
 * loads. So a line costs one store and one load, where one of mailbox.h costs a poll and a store more: over NVLink that is some
 * per cent, but where lines wait in memory that is far from their receiver (host memory, the sender's), half of the time.
 *
 * There are two phases to a step: pushes, and results (of a one-shot work: nothing, it says only that the pushes were taken).
 * Everyone sends tokens to everyone, whoever has something for whom.
 *
 * Publication: all threads' stores, a block barrier, one thread's fence, its store of the token; the receiver's load of the token,
 * its fence, a block barrier, the loads.
 *
 * Reuse: a block pushes step s + 1 when it has heard the results' tokens of step s - 1, which lay in the same half: its peers had
 * taken their pushes of s - 1 by then. It sends results of step s later than that: their tokens of s - 1 also say that results of
 * s - 2 were taken. From one launch to the next, mailbox.h's argument holds; the second step waits for the tokens of the begin. */
#ifndef RONDO_KERNELS_BULK_H
#define RONDO_KERNELS_BULK_H

#include "kernels/exchange.h"
#include "kernels/post.h"

/* Ends phases for this block, whose stores are all made: one fence for all of them, for it takes until what was stored has
 * arrived, some microseconds on a busy link. */
RONDO_FN void rondo_bulk_close(struct rondo_run *run)
{
    run->dead = rondo_barrier_any(run->dead);
    if (rondo_thread() < run->lane->ranks)
        rondo_fence();
}

/* Says so, of a phase of a step, to all peers. */
RONDO_FN void rondo_bulk_tell(struct rondo_run *run, enum rondo_token_kind kind, uint32_t step)
{
    rondo_run_step(run, step);
    rondo_tokens_send(run, kind);
    if (run->lane->posts)
        rondo_post_tokens(*run, kind, step, run->work->channels);
}

/* Waits for the end of a phase at all peers. */
RONDO_FN void rondo_bulk_hear(struct rondo_run *run, enum rondo_token_kind kind, uint32_t step)
{
    rondo_run_step(run, step);
    rondo_tokens_take(run, kind);
    if (rondo_thread() < run->lane->ranks)
        rondo_fence();
    run->dead = rondo_barrier_any(run->dead);
}

#endif
