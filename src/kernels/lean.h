/* One-shot exchanges in which each thread has one line at most: what latency is made of. All that does not depend on the
 * epoch is done before the wait for the preceding kernel, address translation included (the prefetches are for that: 0.05 to
 * 0.1 us on H200); behind it come two loads at once (epoch, payload), the sends, the waits, the stores. */
#ifndef RONDO_KERNELS_LEAN_H
#define RONDO_KERNELS_LEAN_H

#include "kernels/exchange.h"
#include "kernels/launch.h"

/* A thread's line: in the peers' mailboxes, and in its own, by sender. */
struct rondo_lean_places {
    char *to[RONDO_ARG_PEERS];   /* [d]: of the d-th rank after this one */
    char *from[RONDO_ARG_PEERS]; /* [r]: of rank r */
};

/* `line0`: the work's, a constant where that is 0. */
RONDO_FN struct rondo_lean_places rondo_lean_find(unsigned ranks, const struct rondo_lane_args *lane,
                                                  const struct rondo_work *work, uint32_t line0, uint32_t i, bool mine)
{
    const unsigned me = lane->rank;
    struct rondo_lean_places places;
    RONDO_UNROLL
    for (unsigned d = 1; d < ranks; d++) {
        const unsigned peer = rondo_peer_after(me, d, ranks);
        places.to[d] = rondo_mailbox_line(lane->to[peer], line0 + rondo_slot(me, peer) * work->step_lines + i);
    }
    RONDO_UNROLL
    for (unsigned r = 0; r < ranks; r++)
        places.from[r] = rondo_mailbox_line(lane->from[r], line0 + rondo_slot(r, me) * work->step_lines + i);
    if (rondo_thread() == 0)
        rondo_prefetch(&lane->channels[rondo_block()]);
    if (rondo_thread() % 32 == 0 && mine) {
        RONDO_UNROLL
        for (unsigned r = 0; r < ranks; r++)
            if (r != me) {
                rondo_prefetch(places.from[r]);
                rondo_prefetch(places.from[r] + (size_t)lane->half_lines * RONDO_LINE_BYTES);
            }
    }
    return places;
}

/* Line i to one peer, whose place for it in the half in use is `to`. */
RONDO_FN void rondo_lean_push(const struct rondo_run *run, unsigned ranks, unsigned peer, uint32_t i, char *to,
                              struct rondo_line line)
{
    if (rondo_line_is_special(line))
        rondo_push(run, ranks, peer, rondo_slot_line(run->work, run->lane->rank, peer) + i, line);
    else
        rondo_line_store(to, line);
}

/* Line i of a work in which everybody hears from everybody: all-reduce, reduce-scatter, all-gather, all-to-all. */
RONDO_FN void rondo_lean_line(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                              unsigned element, unsigned ranks, const struct rondo_lane_args *lane,
                              const struct rondo_work *work, uint32_t line0, uint32_t i, bool mine)
{
    const struct rondo_how how = {ranks, 1, false};
    const unsigned me = lane->rank;
    const bool parts = rondo_sends_parts(collective);
    const struct rondo_lean_places places = rondo_lean_find(ranks, lane, work, line0, i, mine);
    struct rondo_line own, part[RONDO_ARG_PEERS], looked[RONDO_ARG_PEERS];

    struct rondo_run run = rondo_launch_begin_any(lane, work);
    if (mine) {
        own = rondo_input(how, collective, element, &run, me, i);
        if (parts) {
            RONDO_UNROLL
            for (unsigned d = 1; d < ranks; d++)
                part[d] = rondo_input(how, collective, element, &run, rondo_peer_after(me, d, ranks), i);
        }
    }
    rondo_run_step(&run, 0);
    const size_t half = (size_t)run.base * RONDO_LINE_BYTES;
    if (mine && !run.dead) {
        if (parts) {
            RONDO_UNROLL
            for (unsigned d = 1; d < ranks; d++)
                rondo_lean_push(&run, ranks, rondo_peer_after(me, d, ranks), i, places.to[d] + half, part[d]);
        } else if (rondo_line_is_special(own)) {
            for (unsigned d = 1; d < ranks; d++)
                rondo_lean_push(&run, ranks, rondo_peer_after(me, d, ranks), i, places.to[d] + half, own);
        } else {
            RONDO_UNROLL
            for (unsigned d = 1; d < ranks; d++)
                rondo_line_store(places.to[d] + half, own);
        }
    }
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    if (mine && !run.dead) {
        RONDO_UNROLL
        for (unsigned r = 0; r < ranks; r++)
            if (r != me)
                looked[r] = rondo_line_load(places.from[r] + half);
        if (rondo_reduces(collective)) {
            const struct rondo_line sum = rondo_reduce_looked(dtype, op, ranks, &run, i, own, looked);
            if (!run.dead)
                rondo_output(collective, element, &run, me, i, sum);
        } else {
            RONDO_UNROLL
            for (unsigned r = 0; r < ranks; r++) {
                const struct rondo_line line =
                    r == me ? own : rondo_pull(&run, ranks, r, rondo_slot_line(work, r, me) + i, looked[r]);
                if (!run.dead)
                    rondo_output(collective, element, &run, r, i, line);
            }
        }
    }
    if (mine)
        rondo_launch_heard(&run);
    rondo_launch_end(&run, 1);
}

RONDO_FN void rondo_lean_all(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                             unsigned element, unsigned ranks, const struct rondo_single_args *args)
{
    const uint32_t i = rondo_block() * rondo_threads() + rondo_thread();
    rondo_lean_line(collective, dtype, op, element, ranks, &args->lane, &args->work, 0, i,
                    i < (uint32_t)args->work.span);
}

/* A group of such works, all of the same kind: each thread looks for the work that its line is of. */
RONDO_FN void rondo_lean_group(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                               unsigned ranks, const struct rondo_batch_head *head)
{
    const struct rondo_channel_works mine =
        ((const struct rondo_channel_works *)((const char *)head + head->channels_at))[rondo_block()];
    const struct rondo_work *work = (const struct rondo_work *)((const char *)head + head->works_at) + mine.first;
    uint32_t i = (rondo_block() - work->channel0) * rondo_threads() + rondo_thread();
    RONDO_ROLLED
    for (unsigned w = mine.first; w < mine.last && i >= (uint32_t)work->span; w++)
        i -= (uint32_t)work->span, work++;
    rondo_lean_line(collective, dtype, op, rondo_dtype_bytes(dtype), ranks, &head->lane, work, work->line0, i,
                    i < (uint32_t)work->span);
}

/* A reduce: the root hears from all, they from each other by tokens only. */
RONDO_FN void rondo_lean_reduce(enum rondo_dtype dtype, enum rondo_redop op, unsigned ranks,
                                const struct rondo_single_args *args)
{
    const struct rondo_lane_args *lane = &args->lane;
    const struct rondo_work *work = &args->work;
    const struct rondo_how how = {ranks, 1, false};
    const unsigned me = lane->rank, root = work->root, element = rondo_dtype_bytes(dtype);
    const uint32_t i = rondo_block() * rondo_threads() + rondo_thread();
    const bool mine = i < (uint32_t)work->span;
    const struct rondo_lean_places places = rondo_lean_find(ranks, lane, work, 0, i, mine);
    struct rondo_line own, looked[RONDO_ARG_PEERS];

    struct rondo_run run = rondo_launch_begin_any(lane, work);
    if (mine)
        own = rondo_input(how, RONDO_REDUCE, element, &run, me, i);
    rondo_run_step(&run, 0);
    const size_t half = (size_t)run.base * RONDO_LINE_BYTES;
    if (mine && !run.dead) {
        RONDO_UNROLL
        for (unsigned d = 1; d < ranks; d++)
            if (rondo_peer_after(me, d, ranks) == root)
                rondo_lean_push(&run, ranks, root, i, places.to[d] + half, own);
    }
    if (rondo_block() == 0)
        rondo_tokens_send(&run, RONDO_TOKENS_OF_HALF);
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    if (mine && !run.dead && me == root) {
        RONDO_UNROLL
        for (unsigned r = 0; r < ranks; r++)
            if (r != me)
                looked[r] = rondo_line_load(places.from[r] + half);
        const struct rondo_line sum = rondo_reduce_looked(dtype, op, ranks, &run, i, own, looked);
        if (!run.dead)
            rondo_output(RONDO_REDUCE, element, &run, me, i, sum);
    }
    if (rondo_block() == 0)
        rondo_tokens_take(&run, RONDO_TOKENS_OF_HALF);
    rondo_launch_heard_by_all(&run);
    rondo_launch_end(&run, 1);
}

/* A broadcast: the root hears from the others by tokens only, and they from each other. */
RONDO_FN void rondo_lean_broadcast(unsigned element, unsigned ranks, const struct rondo_single_args *args)
{
    const struct rondo_lane_args *lane = &args->lane;
    const struct rondo_work *work = &args->work;
    const struct rondo_how how = {ranks, 1, false};
    const unsigned me = lane->rank, root = work->root;
    const uint32_t i = rondo_block() * rondo_threads() + rondo_thread();
    const bool mine = i < (uint32_t)work->span;
    const struct rondo_lean_places places = rondo_lean_find(ranks, lane, work, 0, i, mine);
    struct rondo_line line;

    struct rondo_run run = rondo_launch_begin_any(lane, work);
    if (mine && me == root)
        line = rondo_input(how, RONDO_BROADCAST, element, &run, me, i);
    rondo_run_step(&run, 0);
    const size_t half = (size_t)run.base * RONDO_LINE_BYTES;
    if (mine && me == root && !run.dead) {
        RONDO_UNROLL
        for (unsigned d = 1; d < ranks; d++)
            rondo_lean_push(&run, ranks, rondo_peer_after(me, d, ranks), i, places.to[d] + half, line);
    }
    if (rondo_block() == 0)
        rondo_tokens_send(&run, RONDO_TOKENS_OF_HALF);
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    if (mine && !run.dead && me != root) {
        const uint32_t at = rondo_slot_line(work, root, me) + i;
        line = rondo_pull(&run, ranks, root, at, rondo_look(&run, ranks, root, at));
    }
    if (mine && !run.dead && !(me == root && work->send == work->recv))
        rondo_output(RONDO_BROADCAST, element, &run, root, i, line);
    if (rondo_block() == 0)
        rondo_tokens_take(&run, RONDO_TOKENS_OF_HALF);
    rondo_launch_heard_by_all(&run);
    rondo_launch_end(&run, 1);
}

#endif
