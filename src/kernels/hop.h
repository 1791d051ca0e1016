/* Hops: how a block takes a chunk of lines from one rank, and passes it on to others.
 *
 * Streams. From one rank to another there is a stream of chunks for each kind and each block, whose chunks have RONDO_RING_DEPTH
 * places in the pair's slot of the mailbox half (the bulk half, by the bulk protocol), used in turn. Before chunk q + DEPTH is stored,
 * the receiver has told by a token that it took chunk q. By lines, these say themselves that they are there; by the bulk protocol a
 * token of the sender does. Tokens are lines in the same slot, of the half for lines, with as many places. Only what will be waited
 * for is sent, so that a launch leaves all lines empty, and there are no positions to keep.
 *
 * Publication: all threads' stores, a block barrier, one thread's fence, its store of the token; its peer's load of the token, its
 * fence, a block barrier, the loads, or the stores that use a place again. A token's own place is used again DEPTH chunks later: that
 * of "there", after the word that its chunk was taken; that of "taken", after the chunk that waited for it came.
 *
 * Reuse from launch to launch: a launch is one step of the lane, and its first block exchanges tokens with all ranks, as rooted works
 * do (mailbox.h). */
#ifndef RONDO_KERNELS_HOP_H
#define RONDO_KERNELS_HOP_H

#include "kernels/exchange.h"
#include "kernels/post.h"
#include "kernels/rings.h"

enum { RONDO_RING_NOBODY = 0xffff };

/* A stream's chunk at hand: its number, of so many. */
struct rondo_ring_end {
    unsigned peer, kind;
    uint32_t number, total;
};

/* What a block does with one chunk: lines first … end - 1 of a flow. */
struct rondo_hop {
    struct rondo_ring_end in, out[2]; /* peer RONDO_RING_NOBODY: none */
    uint64_t first, end;
    unsigned part; /* of a buffer that has parts */
    bool keeps;    /* what comes out is stored in the rank's own memory */
};

RONDO_FN bool rondo_ring_has(const struct rondo_ring_end *end)
{
    return end->peer != RONDO_RING_NOBODY;
}

RONDO_FN struct rondo_ring_end rondo_ring_none(void)
{
    const struct rondo_ring_end end = {RONDO_RING_NOBODY, RONDO_RING_MOVES, 0, 0};
    return end;
}

/* ---- places in the mailbox ---- */

/* Turns to the half for lines, where tokens are, or to the bulk half. */
RONDO_FN void rondo_ring_turn(struct rondo_run *run, bool bulk)
{
    run->bulk = bulk;
    rondo_run_step(run, 0);
}

RONDO_FN uint32_t rondo_ring_slot(const struct rondo_run *run, unsigned sender, unsigned receiver)
{
    const struct rondo_lane_args *lane = run->lane;
    return rondo_slot(sender, receiver) * ((run->bulk ? lane->bulk_lines : lane->half_lines) / (lane->ranks - 1u));
}

RONDO_FN uint32_t rondo_ring_place(const struct rondo_work *work, uint32_t row, uint32_t number)
{
    return (row * work->channels + rondo_block() - work->channel0) * RONDO_RING_DEPTH + number % RONDO_RING_DEPTH;
}

RONDO_FN uint32_t rondo_ring_width_of(const struct rondo_work *work)
{
    return rondo_ring_width(work->collective, work->dtype, work->redop);
}

/* The first line of a chunk, from `sender` to `receiver`, in the half that was turned to. */
RONDO_FN uint32_t rondo_ring_line(const struct rondo_run *run, const struct rondo_ring_end *end, unsigned sender,
                                  unsigned receiver)
{
    const struct rondo_work *work = run->work;
    return rondo_ring_slot(run, sender, receiver) +
           (run->bulk ? 0 : rondo_ring_token_lines(work->collective, work->channels)) +
           rondo_ring_place(work, end->kind, end->number) * work->step_lines * rondo_ring_width_of(work);
}

/* ---- tokens: one thread's ---- */

/* A stream's token goes from `sender` to `receiver`. */
RONDO_FN uint32_t rondo_ring_token_line(struct rondo_run *run, const struct rondo_ring_end *end, unsigned what,
                                        unsigned sender, unsigned receiver)
{
    rondo_ring_turn(run, false);
    return rondo_ring_slot(run, sender, receiver) +
           rondo_ring_place(run->work, end->kind * RONDO_RING_TOKENS + what, end->number);
}

RONDO_CALL void rondo_ring_tell(struct rondo_run run, const struct rondo_ring_end *end, unsigned what)
{
    const struct rondo_lane_args *lane = run.lane;
    const uint32_t line = rondo_ring_token_line(&run, end, what, lane->rank, end->peer);
    struct rondo_line token = rondo_line_empty();
    token.w[0] = 0;
    rondo_push(&run, lane->ranks, end->peer, line, token);
    if (lane->posts) {
        rondo_fence();
        rondo_post_range(&run, end->peer, rondo_run_line(&run, rondo_mailbox_to(lane, lane->ranks, end->peer), line),
                         RONDO_LINE_BYTES);
    }
}

/* Whether a wait was given up. */
RONDO_CALL bool rondo_ring_hear(struct rondo_run run, const struct rondo_ring_end *end, unsigned what)
{
    const unsigned ranks = run.lane->ranks;
    const uint32_t line = rondo_ring_token_line(&run, end, what, end->peer, run.lane->rank);
    rondo_pull(&run, ranks, end->peer, line, rondo_look(&run, ranks, end->peer, line));
    return run.dead;
}

/* ---- a chunk's begin and end ---- */

/* Waits until the chunk may be taken and passed on. Whether a wait was given up: all threads hear the same. */
RONDO_CALL bool rondo_hop_begin(const struct rondo_hop *hop, struct rondo_run run)
{
    const bool hears = run.work->bulk && rondo_ring_has(&hop->in);
    bool waits = hears;
    RONDO_UNROLL
    for (int k = 0; k < 2; k++)
        waits |= rondo_ring_has(&hop->out[k]) && hop->out[k].number >= RONDO_RING_DEPTH;
    if (!waits || run.dead)
        return run.dead;
    if (rondo_thread() == 0) {
        if (hears)
            run.dead = rondo_ring_hear(run, &hop->in, RONDO_RING_THERE);
        RONDO_UNROLL
        for (int k = 0; k < 2; k++)
            if (rondo_ring_has(&hop->out[k]) && hop->out[k].number >= RONDO_RING_DEPTH && !run.dead)
                run.dead = rondo_ring_hear(run, &hop->out[k], RONDO_RING_TAKEN);
        rondo_fence();
    }
    return rondo_barrier_any(run.dead);
}

/* Tells of what was taken and what is there: so many lines of each line. Whether a thread gave up. */
RONDO_CALL bool rondo_hop_end(const struct rondo_hop *hop, struct rondo_run run, uint32_t lines)
{
    const struct rondo_lane_args *lane = run.lane;
    const bool bulk = run.work->bulk,
               owes = rondo_ring_has(&hop->in) && hop->in.number + RONDO_RING_DEPTH < hop->in.total;
    run.dead = rondo_barrier_any(run.dead);
    if (run.dead || rondo_thread() != 0 || !(owes || bulk || lane->posts))
        return run.dead;
    rondo_fence();
    RONDO_UNROLL
    for (int k = 0; k < 2; k++) {
        const struct rondo_ring_end *out = &hop->out[k];
        if (!rondo_ring_has(out))
            continue;
        if (lane->posts) {
            rondo_ring_turn(&run, bulk);
            rondo_post_slot(&run, out->peer, rondo_ring_line(&run, out, lane->rank, out->peer),
                            (hop->end - hop->first) * lines);
        }
        if (bulk)
            rondo_ring_tell(run, out, RONDO_RING_THERE);
    }
    if (owes)
        rondo_ring_tell(run, &hop->in, RONDO_RING_TAKEN);
    return false;
}

/* Where a chunk's lines are, reckoned once: the first of them, by peer, in the half that was turned to. */
struct rondo_hop_lines {
    unsigned from, to[2]; /* RONDO_RING_NOBODY: none */
    uint32_t in, out[2];
};

RONDO_FN struct rondo_hop_lines rondo_hop_lines(const struct rondo_hop *hop, struct rondo_run *run)
{
    const unsigned me = run->lane->rank;
    struct rondo_hop_lines lines;
    rondo_ring_turn(run, run->work->bulk);
    lines.from = hop->in.peer;
    lines.in = rondo_ring_has(&hop->in) ? rondo_ring_line(run, &hop->in, hop->in.peer, me) : 0;
    RONDO_UNROLL
    for (int k = 0; k < 2; k++) {
        lines.to[k] = hop->out[k].peer;
        lines.out[k] = rondo_ring_has(&hop->out[k]) ? rondo_ring_line(run, &hop->out[k], me, hop->out[k].peer) : 0;
    }
    return lines;
}

RONDO_FN struct rondo_line rondo_hop_take(struct rondo_run *run, const struct rondo_hop_lines *lines, uint32_t at)
{
    const unsigned ranks = run->lane->ranks;
    const struct rondo_line looked = rondo_look(run, ranks, lines->from, lines->in + at);
    return rondo_pull(run, ranks, lines->from, lines->in + at, looked);
}

RONDO_FN void rondo_hop_pass(const struct rondo_run *run, const struct rondo_hop_lines *lines, uint32_t at,
                             struct rondo_line line)
{
    RONDO_UNROLL
    for (int k = 0; k < 2; k++)
        if (lines->to[k] != RONDO_RING_NOBODY)
            rondo_push(run, run->lane->ranks, lines->to[k], lines->out[k] + at, line);
}

/* ---- moves ---- */

/* Takes a chunk, or the rank's own input, passes it on and keeps it. Whether a wait was given up. */
RONDO_CALL bool rondo_hop_move(struct rondo_run run, const struct rondo_hop *hop)
{
    const struct rondo_how how = {0, 1, false};
    const unsigned collective = run.work->collective, element = rondo_dtype_bytes(run.work->dtype), part = hop->part;
    const bool keeps = hop->keeps;
    const uint64_t first = hop->first, end = hop->end;
    run.dead = rondo_hop_begin(hop, run);
    const struct rondo_hop_lines lines = rondo_hop_lines(hop, &run);
    RONDO_ROLLED
    for (uint64_t i = first + rondo_thread(); i < end && !run.dead; i += rondo_threads()) {
        const uint32_t at = (uint32_t)(i - first);
        const struct rondo_line line = lines.from != RONDO_RING_NOBODY
                                           ? rondo_hop_take(&run, &lines, at)
                                           : rondo_input(how, collective, element, &run, 0, i);
        if (run.dead)
            break;
        rondo_hop_pass(&run, &lines, at, line);
        if (keeps)
            rondo_output(collective, element, &run, part, i, line);
    }
    return rondo_hop_end(hop, run, 1);
}

/* ---- partial results ---- */

/* The accumulators of line `at` of `count`, with the rank's own line. `wide`: so many lines are what came; 1: a line of the type. */
RONDO_FN void rondo_hop_add(enum rondo_dtype dtype, unsigned wide, const struct rondo_hop_lines *lines,
                            struct rondo_run *run, uint32_t at, uint32_t count, struct rondo_line own,
                            struct rondo_accumulators *acc)
{
    if (lines->from == RONDO_RING_NOBODY) {
        rondo_widen(dtype, acc, own);
        return;
    }
    if (wide == 1) {
        rondo_widen(dtype, acc, rondo_hop_take(run, lines, at));
    } else {
        RONDO_UNROLL
        for (unsigned a = 0; a < wide; a++) {
            const struct rondo_line line = rondo_hop_take(run, lines, at + a * count);
            memcpy((char *)acc + a * sizeof line, &line, sizeof line);
        }
    }
    rondo_accumulate(dtype, (enum rondo_redop)run->work->redop, acc, own);
}

/* Passes them on. */
RONDO_FN void rondo_hop_give(enum rondo_dtype dtype, unsigned wide, const struct rondo_hop_lines *lines,
                             const struct rondo_run *run, uint32_t at, uint32_t count,
                             const struct rondo_accumulators *acc)
{
    if (wide == 1) {
        rondo_hop_pass(run, lines, at, rondo_accumulated(dtype, RONDO_SUM, acc, 1)); /* an average is not divided yet */
        return;
    }
    RONDO_UNROLL
    for (unsigned a = 0; a < wide; a++) {
        struct rondo_line line;
        memcpy(&line, (const char *)acc + a * sizeof line, sizeof line);
        rondo_hop_pass(run, lines, at + a * count, line);
    }
}

/* A chunk of a reduction. What the last rank has of it is the result; others pass on what all up to them come to. `wide`: lines of a
 * line's accumulators. */
RONDO_FN bool rondo_hop_reduce(enum rondo_dtype dtype, unsigned wide, struct rondo_run run, const struct rondo_hop *hop)
{
    const struct rondo_how how = {0, 1, true};
    const struct rondo_work *work = run.work;
    const unsigned element = rondo_dtype_bytes(dtype), ranks = run.lane->ranks, part = hop->part;
    const bool last = run.lane->rank == ranks - 1, narrow = rondo_ring_width_of(work) == 1, keeps = hop->keeps;
    const uint64_t first = hop->first, end = hop->end;
    run.dead = rondo_hop_begin(hop, run);
    const struct rondo_hop_lines lines = rondo_hop_lines(hop, &run);
    RONDO_ROLLED
    for (uint64_t i = first + rondo_thread(); i < end && !run.dead; i += rondo_threads()) {
        const uint32_t at = (uint32_t)(i - first), count = (uint32_t)(end - first);
        const struct rondo_line own = rondo_input(how, work->collective, element, &run, part, i);
        struct rondo_accumulators acc;
        if (narrow)
            rondo_hop_add(dtype, 1, &lines, &run, at, count, own, &acc);
        else
            rondo_hop_add(dtype, wide, &lines, &run, at, count, own, &acc);
        if (run.dead)
            break;
        if (last) {
            const struct rondo_line line = rondo_accumulated(dtype, (enum rondo_redop)work->redop, &acc, ranks);
            rondo_hop_pass(&run, &lines, at, line);
            if (keeps)
                rondo_output(work->collective, element, &run, part, i, line);
        } else if (narrow) {
            rondo_hop_give(dtype, 1, &lines, &run, at, count, &acc);
        } else {
            rondo_hop_give(dtype, wide, &lines, &run, at, count, &acc);
        }
    }
    return rondo_hop_end(hop, run, last || narrow ? 1 : wide);
}

/* One function for each type; see rondo_reduce_dispatch. */
#define X(NAME, value, storage, accumulator)                                                    \
    RONDO_CALL bool rondo_hop_reduce_##NAME(struct rondo_run run, const struct rondo_hop *hop)  \
    {                                                                                           \
        return rondo_hop_reduce(RONDO_##NAME, sizeof(accumulator) / sizeof(storage), run, hop); \
    }
RONDO_DTYPES(X)
#undef X

RONDO_FN bool rondo_hop_reduce_any(const struct rondo_run *run, const struct rondo_hop *hop)
{
    switch (run->work->dtype) {
#define X(NAME, value, storage, accumulator) \
    case RONDO_##NAME:                       \
        return rondo_hop_reduce_##NAME(*run, hop);
        RONDO_DTYPES(X)
#undef X
    default:
        return true;
    }
}

#endif
