/* Direct works whose bytes are copied by copy engines: works that only move data, of comms whose policy says so. The first block of
 * the launch agrees with those of the peers as offers.h says, and tells the others of its launch, for which nothing is left to do but
 * what the rank has for itself if the work can be direct: copies are asked for (copy.h) by the first block, which also tells the
 * peers when they are done, as those of direct.h do. If it cannot, all go by mailbox.
 *
 * A broadcast goes in two steps where there are more than two ranks: the root's copies bring each other rank a part, which that one
 * passes on to the others when the root has told it. So the root sends its message once, and not to each. */
#ifndef RONDO_KERNELS_COPIED_H
#define RONDO_KERNELS_COPIED_H

#include "kernels/bulk.h"
#include "kernels/copy.h"
#include "kernels/fifo.h"
#include "kernels/offers.h"

enum rondo_copied_end { RONDO_COPIED_DONE, RONDO_COPIED_NOT, RONDO_COPIED_DEAD };

struct rondo_copied_flow {
    char *to;
    const char *from;
    uint64_t bytes; /* 0: nothing is to be copied */
};

/* The part of a broadcast that rank p passes on: to where, from where, if both were the message's beginning. */
RONDO_FN struct rondo_copied_flow rondo_copied_part(const struct rondo_run *run, unsigned p, char *to, const char *from)
{
    const struct rondo_work *work = run->work;
    const unsigned parts = run->lane->ranks - 1;
    const uint64_t lines = (work->bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES;
    const uint64_t most = (lines + parts - 1) / parts * RONDO_LINE_BYTES, at = rondo_slot(p, work->root) * most;
    const uint64_t left = at < work->bytes ? work->bytes - at : 0;
    const struct rondo_copied_flow flow = {to + at, from + at, left < most ? left : most};
    return flow;
}

/* What this rank has for the d-th after it. `passing`: of what it got of a broadcast's root. */
RONDO_FN struct rondo_copied_flow rondo_copied_flow_of(const struct rondo_run *run, const struct rondo_reached *reached,
                                                       unsigned d, bool passing)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, p = rondo_peer_after(me, d, run->lane->ranks);
    struct rondo_copied_flow flow = {reached->recv[d], (const char *)work->send, work->bytes};
    if (passing) {
        flow = rondo_copied_part(run, me, reached->recv[d], (const char *)work->recv);
        if (p == work->root)
            flow.bytes = 0;
    } else if (work->collective == RONDO_BROADCAST) {
        flow = rondo_copied_part(run, p, reached->recv[d], (const char *)work->send);
        if (me != work->root)
            flow.bytes = 0;
    } else {
        flow.to += me * work->bytes;
        if (work->collective == RONDO_ALL_TO_ALL)
            flow.from += p * work->bytes;
    }
    return flow;
}

/* What this rank has for itself: this block's share. */
RONDO_CALL void rondo_copied_keep(const struct rondo_run *run)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank;
    const bool parts = work->collective != RONDO_BROADCAST;
    const char *from = (const char *)work->send + (work->collective == RONDO_ALL_TO_ALL ? me * work->bytes : 0);
    char *to = (char *)work->recv + (parts ? me * work->bytes : 0);
    const uint64_t lines = (work->bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES;
    const uintptr_t bits = (uintptr_t)to | (uintptr_t)from;
    const struct rondo_stream end = {0, 1, me, RONDO_COPY, rondo_block()};
    struct rondo_transfer t;
    if (from == to || (!parts && me != work->root))
        return;
    t.buffer = to;
    t.from = from;
    t.bytes = work->bytes;
    t.share = (lines + rondo_blocks() - 1) / rondo_blocks();
    t.element = (uint8_t)rondo_dtype_bytes(work->dtype);
    t.aligned = bits % RONDO_LINE_BYTES == 0;
    t.words = bits % 4 == 0;
    rondo_fifo_copy(run, &t, &end);
}

RONDO_FN void rondo_copied_token(const struct rondo_run *run, unsigned peer)
{
    const struct rondo_lane_args *lane = run->lane;
    struct rondo_line token = rondo_line_empty();
    token.w[0] = 0;
    rondo_line_store(rondo_token(run, RONDO_TOKENS_OF_PUSHES, rondo_mailbox_to(lane, lane->ranks, peer),
                                 rondo_slot(lane->rank, peer)),
                     token);
}

/* Copies of one step, all under way at once, and what the rank keeps meanwhile. `tells`: each peer learns of the end of its own. The
 * threads' run->dead may differ afterwards. */
RONDO_FN void rondo_copied_step(struct rondo_run *run, const struct rondo_reached *reached, bool passing, bool tells)
{
    const struct rondo_lane_args *lane = run->lane;
    uint32_t asked = 0;
    RONDO_ROLLED
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks && !run->dead; d += rondo_threads()) {
        const struct rondo_copied_flow flow = rondo_copied_flow_of(run, reached, d, passing);
        if (!flow.bytes)
            continue;
        rondo_copy_ask(lane, rondo_peer_after(lane->rank, d, lane->ranks), flow.to, flow.from, flow.bytes);
        asked |= 1u << d;
    }
    if (!passing)
        rondo_copied_keep(run);
    RONDO_ROLLED
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks; d += rondo_threads()) {
        const unsigned p = rondo_peer_after(lane->rank, d, lane->ranks);
        if (asked >> d & 1)
            run->dead = rondo_copy_await(lane, run->work, run->epoch, p, run->dead);
        if (tells && !run->dead)
            rondo_copied_token(run, p);
    }
    if (!run->dead)
        return;
    const uint64_t died = rondo_clock_ns(); /* all are withdrawn before any is waited for */
    RONDO_ROLLED
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks; d += rondo_threads())
        if (asked >> d & 1)
            rondo_copy_let_go(lane, rondo_peer_after(lane->rank, d, lane->ranks), died);
}

/* A broadcast's root says that this rank has its part. */
RONDO_FN void rondo_copied_hear(struct rondo_run *run)
{
    const struct rondo_lane_args *lane = run->lane;
    const unsigned root = run->work->root;
    if (rondo_thread() == 0 && !run->dead) {
        char *at = rondo_token(run, RONDO_TOKENS_OF_PUSHES, rondo_mailbox_from(lane, lane->ranks, root),
                               rondo_slot(root, lane->rank));
        rondo_line_take(run, at, NULL, root, rondo_line_load(at));
        rondo_fence();
    }
    run->dead = rondo_barrier_any(run->dead);
}

/* The others' part, if copies do the rest: of what the rank keeps. */
RONDO_FN enum rondo_copied_end rondo_copied_follow(struct rondo_run *run)
{
    rondo_launch_check(run);
    const bool copied = rondo_copies_hear(run);
    if (run->dead)
        return RONDO_COPIED_DEAD;
    rondo_launch_heard(run);
    if (copied)
        rondo_copied_keep(run);
    return copied ? RONDO_COPIED_DONE : RONDO_COPIED_NOT;
}

/* Runs the work by copies, if that can be; else nothing has been done. Out of line, and the run by value: what works of other sizes need
 * stays in registers. */
RONDO_CALL enum rondo_copied_end rondo_copied_run(const struct rondo_export_args *args, struct rondo_run run)
{
    const struct rondo_work *work = run.work;
    const unsigned ranks = run.lane->ranks;
    const bool two_steps = work->collective == RONDO_BROADCAST && ranks > 2;
    struct rondo_reached reached;
    if (rondo_block() != 0)
        return rondo_copied_follow(&run);
    const bool agreed = rondo_direct_agree(&run, args, work->collective, ranks, &reached);
    for (unsigned b = 1 + rondo_thread(); b < rondo_blocks() && !run.dead; b += rondo_threads())
        rondo_copies_tell(&run, b, agreed);
    if (!agreed || run.dead)
        return run.dead ? RONDO_COPIED_DEAD : RONDO_COPIED_NOT;
    rondo_copied_step(&run, &reached, false, two_steps && run.lane->rank == work->root);
    if (two_steps && run.lane->rank != work->root) {
        rondo_copied_hear(&run);
        rondo_copied_step(&run, &reached, true, false);
    }
    rondo_bulk_close(&run);
    rondo_bulk_tell(&run, RONDO_TOKENS_OF_RESULTS, 0);
    if (rondo_thread() == 0)
        rondo_word_add(&run.lane->exports->ran, 1);
    rondo_bulk_hear(&run, RONDO_TOKENS_OF_RESULTS, 0);
    return run.dead ? RONDO_COPIED_DEAD : RONDO_COPIED_DONE;
}

#endif
