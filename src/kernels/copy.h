/* Copies, as kernels ask for them: see copies.h. All of it is out of line, for it belongs to launches that take long.
 *
 * Publication: the request's fields, a fence, its number; the thread's load of that, the copy, the engine's word that it is done, the
 * thread's store of `done`; the asking thread's load of that, its fence, and what tells the peers. What others have stored that
 * is to be copied, the asking thread has heard of before.
 *
 * A launch that dies withdraws what it has asked for, and waits until that is copied, or refused: once it has ended nothing is
 * written any more into buffers that may be someone else's by then. Only a copy that stands still for long is left alone. */
#ifndef RONDO_KERNELS_COPY_H
#define RONDO_KERNELS_COPY_H

#include "kernels/copies.h"
#include "kernels/mailbox.h"

enum {
    RONDO_COPY_GRACE_NS = 250000000
}; /* for all withdrawn copies of a launch. Who tears a comm down waits for its kernels twice as long */

/* One thread asks, on behalf of its block. The launch shows as busy: it will take as long as a copy, and who ends the comm must know. */
RONDO_CALL void rondo_copy_ask(const struct rondo_lane_args *lane, unsigned peer, void *to, const void *from,
                               uint64_t bytes)
{
    struct rondo_copies *copies = lane->copies;
    struct rondo_copy *copy = &copies->asked[peer];
    const uint32_t last = rondo_word_load(&copies->numbers[peer]), number = last == UINT32_MAX ? 1 : last + 1;
    if (rondo_block() < RONDO_MAX_CHANNELS)
        rondo_word_store(&rondo_own_channel(lane)->busy, rondo_mark(lane));
    rondo_word_store(&copies->numbers[peer], number);
    rondo_pair_store(&copy->to, (uintptr_t)to, (uintptr_t)from);
    rondo_wide_store(&copy->bytes, bytes);
    rondo_fence();
    rondo_word_store(&copy->number, number);
}

/* Waits until a withdrawn request has its end; `since`: when the launch died. The place of a block beyond the channels, which cannot show
 * that it is busy, might be freed meanwhile. */
RONDO_CALL void rondo_copy_let_go(const struct rondo_lane_args *lane, unsigned peer, uint64_t since)
{
    struct rondo_copies *copies = lane->copies;
    struct rondo_copy *copy = &copies->asked[peer];
    const uint32_t number = rondo_word_load(&copies->numbers[peer]);
    for (unsigned spins = 1;
         rondo_block() < RONDO_MAX_CHANNELS && rondo_word_load(&copy->done) != number &&
         rondo_word_load(&copy->refused) != number && rondo_clock_ns() - since < RONDO_COPY_GRACE_NS;
         spins++)
        rondo_pause(spins);
    rondo_fence();
}

/* The thread that asked waits for the end of its last request to a peer. Whether the launch is dead; then the request is withdrawn, if
 * it was before (`dead`) at once, and is to be let go. */
RONDO_CALL bool rondo_copy_await(const struct rondo_lane_args *lane, const struct rondo_work *work, uint32_t epoch,
                                 unsigned peer, bool dead)
{
    const uint32_t *done = &lane->copies->asked[peer].done, number = rondo_word_load(&lane->copies->numbers[peer]);
    uint64_t since = 0;
    for (unsigned spins = 1; rondo_word_load(done) != number && !dead; spins++) {
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK)
            continue;
        since = rondo_wait_look(lane, work, epoch, peer, since, spins);
        dead = since == RONDO_WAIT_OVER;
    }
    if (dead)
        rondo_word_store(&lane->copies->asked[peer].withdrawn, number);
    rondo_fence();
    return dead;
}

/* ---- from the first block to others of its launch ---- */

/* One thread waits until told[block] is, or is not, RONDO_COPIES_UNTOLD, and gives what it is; RONDO_COPIES_UNTOLD if the launch is
 * dead. It looks at nothing but the lane's stop word: what the first block waits for, that one reports. */
RONDO_CALL uint32_t rondo_copies_await(const struct rondo_lane_args *lane, const struct rondo_work *work,
                                       uint32_t epoch, unsigned block, bool untold)
{
    uint32_t *at = &lane->copies->told[block];
    for (unsigned spins = 1;; spins++) {
        const uint32_t word = rondo_word_load(at);
        if ((word == RONDO_COPIES_UNTOLD) == untold)
            return word;
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK == 0 &&
            rondo_wait_look(lane, work, epoch, lane->rank, 0, 1) == RONDO_WAIT_OVER)
            return RONDO_COPIES_UNTOLD;
    }
}

/* Tells a block, once that has heard what it was told before. */
RONDO_FN void rondo_copies_tell(const struct rondo_run *run, unsigned block, bool copied)
{
    rondo_copies_await(run->lane, run->work, run->epoch, block, true);
    rondo_word_store(&run->lane->copies->told[block], copied ? RONDO_COPIES_YES : RONDO_COPIES_NO);
}

/* What this block is told. Called by all its threads; may set run->dead. */
RONDO_FN bool rondo_copies_hear(struct rondo_run *run)
{
    uint32_t word = RONDO_COPIES_YES;
    if (rondo_thread() == 0) {
        word = run->dead ? RONDO_COPIES_UNTOLD
                         : rondo_copies_await(run->lane, run->work, run->epoch, rondo_block(), false);
        if (word != RONDO_COPIES_UNTOLD)
            rondo_word_store(&run->lane->copies->told[rondo_block()], RONDO_COPIES_UNTOLD);
    }
    run->dead = rondo_barrier_any(run->dead || word == RONDO_COPIES_UNTOLD);
    return !rondo_barrier_any(word == RONDO_COPIES_NO);
}

#endif
