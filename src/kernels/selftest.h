/* The self-test of comm init: whether what this rank's kernel stores for a peer is seen by the peer's kernel while both run. It
 * goes the way that the lines of a launch go, posts and copies included, in a row of token lines that nothing else uses.
 *
 * A test is over when a line came, or when the host says so: it does some time after all ranks' kernels have begun, which kernels
 * cannot know of each other. */
#ifndef RONDO_KERNELS_SELFTEST_H
#define RONDO_KERNELS_SELFTEST_H

#include "kernels/post.h"

/* The longest that it waits, whatever the host does. */
#define RONDO_SELFTEST_NS 20000000000ull

/* What a rank stores: neither what memory holds that was never written, nor what another rank stores. */
RONDO_FN uint32_t rondo_selftest_word(unsigned rank)
{
    return 0x7e570000u + rank;
}

RONDO_FN char *rondo_selftest_line(const struct rondo_lane_args *lane, char *mailbox, unsigned slot)
{
    const unsigned number = (RONDO_TOKENS_OF_SELFTEST * (lane->ranks - 1u) + slot) * RONDO_MAX_CHANNELS;
    return mailbox + rondo_mailbox_tokens_at(lane->half_lines, RONDO_LINE_BYTES) + (size_t)number * RONDO_LINE_BYTES;
}

RONDO_FN void rondo_selftest_send(const struct rondo_run *run, unsigned peer)
{
    const struct rondo_lane_args *lane = run->lane;
    char *at = rondo_selftest_line(lane, rondo_mailbox_to(lane, lane->ranks, peer), rondo_slot(lane->rank, peer));
    struct rondo_line line = rondo_line_empty();
    line.w[0] = rondo_selftest_word(lane->rank);
    rondo_line_store(at, line);
    if (lane->posts) {
        rondo_fence();
        rondo_post_range(run, peer, at, RONDO_LINE_BYTES);
    }
}

RONDO_FN bool rondo_selftest_is_over(const struct rondo_selftest_args *args)
{
    return rondo_word_load(&args->record->stop) >= args->number;
}

/* Looks once more after it was told to end: on the host device one thread hears all peers in turn. */
RONDO_FN uint32_t rondo_selftest_hear(const struct rondo_selftest_args *args, uint64_t begun, unsigned peer)
{
    const struct rondo_lane_args *lane = &args->lane;
    char *at = rondo_selftest_line(lane, rondo_mailbox_from(lane, lane->ranks, peer), rondo_slot(peer, lane->rank));
    struct rondo_line line = rondo_line_load(at);
    for (unsigned spins = 1; rondo_line_is_empty(line); spins++) {
        const bool over = spins % RONDO_SPINS_PER_LOOK == 0 &&
                          (rondo_selftest_is_over(args) || rondo_clock_ns() - begun > RONDO_SELFTEST_NS);
        rondo_pause(spins);
        line = rondo_line_load(at);
        if (over && rondo_line_is_empty(line))
            return RONDO_SELFTEST_UNHEARD;
    }
    rondo_line_store(at, rondo_line_empty());
    return line.w[0] == rondo_selftest_word(peer) ? RONDO_SELFTEST_HEARD : RONDO_SELFTEST_WRONG;
}

/* One block, a thread for each peer, or fewer. */
RONDO_FN void rondo_selftest_body(const struct rondo_selftest_args *args)
{
    const struct rondo_lane_args *lane = &args->lane;
    const struct rondo_run run = {.lane = lane};
    const uint64_t begun = rondo_clock_ns();
    if (rondo_barrier_any(rondo_selftest_is_over(args)))
        return; /* so late that the mailboxes may be gone, and the record another test's */
    if (rondo_thread() == 0)
        rondo_word_store(&args->record->begun, args->number);
    rondo_fence();
    rondo_barrier();
    if (rondo_selftest_is_over(args))
        return; /* the host may not have seen that it has begun */
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks; d += rondo_threads())
        rondo_selftest_send(&run, rondo_peer_after(lane->rank, d, lane->ranks));
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks; d += rondo_threads()) {
        const unsigned peer = rondo_peer_after(lane->rank, d, lane->ranks);
        rondo_word_store(&args->record->heard[peer], rondo_selftest_hear(args, begun, peer));
    }
}

#endif
