/* Collectives over mailboxes, in phases that know nothing of launches. A phase handles one step of one work, for the calling
 * thread.
 *
 *  - One-shot: push, deliver. Each rank pushes what it has for others, then takes what others have for it; it reduces that or
 *    stores it.
 *  - Two-shot, for what is one message for all (all-reduce, reduce, broadcast): push, shards, gather. The message is cut
 *    into a shard for each rank, its owner. Shards are pushed to their owners, who reduce them (broadcast: take them from the
 *    root) and push the results to whom they concern, and everyone gathers.
 *
 * Who has something for whom is the same table for every phase (rondo_flows and its neighbours).
 *
 * Every rank reduces in rank order, starting from rank 0's value: all get the same bits, from either exchange.
 *
 * `how` (constants) says how a phase is compiled: for a fixed number of ranks everything is unrolled and all peers' lines
 * are looked at together; for any number it is loops, and one line ahead is looked at. */
#ifndef RONDO_KERNELS_EXCHANGE_H
#define RONDO_KERNELS_EXCHANGE_H

#include "kernels/mailbox.h"
#include "kernels/reduce.h"
#include "kernels/user.h"

enum { RONDO_MAX_CHUNK = 4 };

struct rondo_how {
    unsigned ranks; /* 0: as the lane says */
    unsigned chunk; /* lines that a thread has under way at once: their loads overlap, and large works fence once for
                        all of them. At most RONDO_MAX_CHUNK */
    bool generic;   /* the type is no constant, and the work may scale its input */
};

RONDO_FN unsigned rondo_ranks(struct rondo_how how, const struct rondo_run *run)
{
    return how.ranks ? how.ranks : run->lane->ranks;
}

/* ---- what the collectives are ---- */

RONDO_FN bool rondo_reduces(unsigned collective)
{
    return collective <= RONDO_REDUCE;
}
/* What is one message for all: two-shot works cut it into a shard for each rank. */
RONDO_FN bool rondo_owns_shards(unsigned collective)
{
    return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE || collective == RONDO_BROADCAST;
}
/* The send buffer holds a part for each rank, one after another; else one message for all. */
RONDO_FN bool rondo_sends_parts(unsigned collective)
{
    return collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_TO_ALL;
}
/* The receive buffer holds a part from each rank. */
RONDO_FN bool rondo_recvs_parts(unsigned collective)
{
    return collective == RONDO_ALL_GATHER || collective == RONDO_ALL_TO_ALL;
}
/* Whether rank s has something for rank r (r may be s). */
RONDO_FN bool rondo_flows(unsigned collective, unsigned root, unsigned s, unsigned r)
{
    return (collective != RONDO_BROADCAST || s == root) && (collective != RONDO_REDUCE || r == root);
}

/* Line i of what this rank has for rank r. */
RONDO_FN struct rondo_line rondo_input(struct rondo_how how, unsigned collective, unsigned element,
                                       const struct rondo_run *run, unsigned r, uint64_t i)
{
    const struct rondo_work *work = run->work;
    const char *from = (const char *)work->send + (rondo_sends_parts(collective) ? r * work->bytes : 0);
    const struct rondo_line line = rondo_user_load(work->words ? 4 : element, work->aligned, from, work->bytes, i);
    return how.generic && work->scaling ? rondo_scale(work, line) : line;
}

/* Line i of what comes from rank s, or of the result. */
RONDO_FN void rondo_output(unsigned collective, unsigned element, const struct rondo_run *run, unsigned s, uint64_t i,
                           struct rondo_line line)
{
    const struct rondo_work *work = run->work;
    char *to = (char *)work->recv + (rondo_recvs_parts(collective) ? s * work->bytes : 0);
    rondo_user_store(work->words ? 4 : element, work->aligned, to, work->bytes, i, line);
}

/* Whether what a rank has for itself lies where it belongs already. */
RONDO_FN bool rondo_in_place(unsigned collective, const struct rondo_run *run)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank;
    return (const char *)work->send + (rondo_sends_parts(collective) ? me * work->bytes : 0) ==
           (const char *)work->recv + (rondo_recvs_parts(collective) ? me * work->bytes : 0);
}

/* ---- shares ---- */

/* The lines of one step that the calling thread handles: first, first + stride, … below end, counted in the span; line i
 * has the number i - base in its slot. */
struct rondo_share {
    uint64_t base, first, end;
    uint32_t stride;
};

RONDO_FN struct rondo_share rondo_share_of_step(const struct rondo_work *work, uint32_t step)
{
    struct rondo_share share;
    share.base = (uint64_t)step * work->step_lines;
    share.stride = work->channels * rondo_threads();
    share.first = share.base + (rondo_block() - work->channel0) * rondo_threads() + rondo_thread();
    share.end = share.base + work->step_lines < work->span ? share.base + work->step_lines : work->span;
    return share;
}

/* Which half of the mailbox a step uses. */
RONDO_FN void rondo_run_step(struct rondo_run *run, uint32_t step)
{
    run->base = !((run->epoch + step) & 1) ? 0 : run->bulk ? run->lane->bulk_lines : run->lane->half_lines;
}

/* First line of `sender`'s slot in `receiver`'s mailbox. */
RONDO_FN uint32_t rondo_slot_line(const struct rondo_work *work, unsigned sender, unsigned receiver)
{
    return work->line0 + rondo_slot(sender, receiver) * work->step_lines;
}

/* ---- reduction of slots ---- */

/* Waits for the lines that were looked at and reduces them with `own`; line `at` of all slots. */
RONDO_FN struct rondo_line rondo_reduce_looked(enum rondo_dtype dtype, enum rondo_redop op, unsigned ranks,
                                               struct rondo_run *run, uint32_t at, struct rondo_line own,
                                               const struct rondo_line *looked)
{
    const unsigned me = run->lane->rank;
    struct rondo_accumulators acc;
    RONDO_UNROLL
    for (unsigned r = 0; r < ranks; r++) {
        struct rondo_line line = own;
        if (r != me)
            line = rondo_pull(run, ranks, r, rondo_slot_line(run->work, r, me) + at, looked[r]);
        if (r == 0)
            rondo_widen(dtype, &acc, line);
        else
            rondo_accumulate(dtype, op, &acc, line);
    }
    return rondo_accumulated(dtype, op, &acc, ranks);
}

/* The reduction of line `at` of all peers' slots with `own`, for a fixed number of ranks. */
RONDO_FN struct rondo_line rondo_reduce_fixed(enum rondo_dtype dtype, enum rondo_redop op, unsigned ranks,
                                              struct rondo_run *run, uint32_t at, struct rondo_line own)
{
    const unsigned me = run->lane->rank;
    struct rondo_line looked[RONDO_ARG_PEERS];
    RONDO_UNROLL
    for (unsigned r = 0; r < ranks; r++)
        if (r != me)
            looked[r] = rondo_look(run, ranks, r, rondo_slot_line(run->work, r, me) + at);
    return rondo_reduce_looked(dtype, op, ranks, run, at, own, looked);
}

/* The same for any number. */
RONDO_FN struct rondo_line rondo_reduce_any(enum rondo_dtype dtype, enum rondo_redop op, struct rondo_run *run,
                                            uint32_t at, struct rondo_line own)
{
    const unsigned me = run->lane->rank, ranks = run->lane->ranks;
    struct rondo_accumulators acc = {{0}};
    struct rondo_line ahead = own;
    if (me != 0)
        ahead = rondo_look(run, ranks, 0, rondo_slot_line(run->work, 0, me) + at);
    RONDO_ROLLED
    for (unsigned r = 0; r < ranks; r++) {
        const struct rondo_line looked = ahead;
        struct rondo_line line = own;
        if (r + 1 < ranks && r + 1 != me)
            ahead = rondo_look(run, ranks, r + 1, rondo_slot_line(run->work, r + 1, me) + at);
        if (r != me)
            line = rondo_pull(run, ranks, r, rondo_slot_line(run->work, r, me) + at, looked);
        if (r == 0)
            rondo_widen(dtype, &acc, line);
        else
            rondo_accumulate(dtype, op, &acc, line);
    }
    return rondo_accumulated(dtype, op, &acc, ranks);
}

/* For types that are known when the kernel runs only: one function for each. Their callers call them line by line, which costs
 * little beside a line's latency, and keeps the loops around them from being there a dozen times. */
struct rondo_reduced {
    struct rondo_line line;
    bool dead;
};

#define X(NAME, value, storage, accumulator)                                                                        \
    RONDO_CALL struct rondo_reduced rondo_reduce_##NAME(struct rondo_run run, uint32_t at, struct rondo_line own) { \
        struct rondo_reduced reduced;                                                                               \
        reduced.line = rondo_reduce_any(RONDO_##NAME, (enum rondo_redop)run.work->redop, &run, at, own);            \
        reduced.dead = run.dead;                                                                                    \
        return reduced;                                                                                             \
    }
RONDO_DTYPES(X)
#undef X

RONDO_FN struct rondo_line rondo_reduce_dispatch(unsigned dtype, struct rondo_run *run, uint32_t at,
                                                 struct rondo_line own)
{
    struct rondo_reduced reduced = {own, run->dead};
    switch (dtype) {
#define X(NAME, value, storage, accumulator)          \
    case RONDO_##NAME:                                \
        reduced = rondo_reduce_##NAME(*run, at, own); \
        break;
        RONDO_DTYPES(X)
#undef X
    default:
        break;
    }
    run->dead = reduced.dead;
    return reduced.line;
}

RONDO_FN struct rondo_line rondo_reduce_slots(struct rondo_how how, enum rondo_dtype dtype, enum rondo_redop op,
                                              struct rondo_run *run, uint32_t at, struct rondo_line own)
{
    return how.generic ? rondo_reduce_dispatch(dtype, run, at, own)
           : how.ranks ? rondo_reduce_fixed(dtype, op, how.ranks, run, at, own)
                       : rondo_reduce_any(dtype, op, run, at, own);
}

/* ---- one-shot ---- */

RONDO_FN void rondo_one_shot_push(struct rondo_how how, unsigned collective, unsigned element,
                                  const struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run);
    const bool parts = rondo_sends_parts(collective);
    if (collective == RONDO_BROADCAST && work->root != me)
        return;
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end && !run->dead; i0 += (uint64_t)how.chunk * share.stride) {
        struct rondo_line lines[RONDO_MAX_CHUNK];
        for (unsigned d = 1; d < ranks; d++) {
            const unsigned p = rondo_peer_after(me, d, ranks);
            if (d == 1 || parts) {
                RONDO_UNROLL
                for (unsigned u = 0; u < how.chunk; u++)
                    if (i0 + (uint64_t)u * share.stride < share.end)
                        lines[u] = rondo_input(how, collective, element, run, p, i0 + (uint64_t)u * share.stride);
            }
            if (run->dead)
                return;
            if (!rondo_flows(collective, work->root, me, p))
                continue;
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i < share.end)
                    rondo_push(run, ranks, p, rondo_slot_line(work, me, p) + (uint32_t)(i - share.base), lines[u]);
            }
        }
    }
}

/* Reduces what came. */
RONDO_FN void rondo_one_shot_reduce(struct rondo_how how, unsigned collective, enum rondo_dtype dtype,
                                    enum rondo_redop op, struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned element = rondo_dtype_bytes(dtype), me = run->lane->rank;
    if (collective == RONDO_REDUCE && work->root != me)
        return;
    RONDO_ROLLED
    for (uint64_t i = share.first; i < share.end && !run->dead; i += share.stride) {
        const struct rondo_line own = rondo_input(how, collective, element, run, me, i);
        const struct rondo_line sum = rondo_reduce_slots(how, dtype, op, run, (uint32_t)(i - share.base), own);
        if (!run->dead)
            rondo_output(collective, element, run, me, i, sum);
    }
}

/* Stores what came, and what this rank has for itself. */
RONDO_FN void rondo_one_shot_store(struct rondo_how how, unsigned collective, unsigned element, struct rondo_run *run,
                                   uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run), root = work->root;
    const bool copy = rondo_flows(collective, root, me, me) && !rondo_in_place(collective, run);
    RONDO_ROLLED
    for (uint64_t i = share.first; i < share.end && !run->dead; i += share.stride) {
        const uint32_t at = (uint32_t)(i - share.base);
        struct rondo_line own, looked[RONDO_ARG_PEERS];
        if (copy)
            own = rondo_input(how, collective, element, run, me, i);
        RONDO_UNROLL
        for (unsigned d = 1; d < how.ranks; d++) {
            const unsigned p = rondo_peer_after(me, d, how.ranks);
            if (rondo_flows(collective, root, p, me))
                looked[d] = rondo_look(run, ranks, p, rondo_slot_line(work, p, me) + at);
        }
        for (unsigned d = 1; d < ranks; d++) {
            const unsigned p = rondo_peer_after(me, d, ranks);
            const uint32_t line = rondo_slot_line(work, p, me) + at;
            if (!rondo_flows(collective, root, p, me))
                continue;
            const struct rondo_line came =
                rondo_pull(run, ranks, p, line, how.ranks ? looked[d] : rondo_look(run, ranks, p, line));
            if (!run->dead)
                rondo_output(collective, element, run, p, i, came);
        }
        if (copy && !run->dead)
            rondo_output(collective, element, run, me, i, own);
    }
}

/* ---- two-shot: shard p, lines p * span … of the message, is rank p's ---- */

/* Whether line i of shard p exists: the last shards may be short. */
RONDO_FN bool rondo_shard_has(const struct rondo_work *work, unsigned p, uint64_t i)
{
    return (p * work->span + i) * RONDO_LINE_BYTES < work->bytes;
}

/* First line of the slots for results: behind those for shards. */
RONDO_FN uint32_t rondo_result_line(const struct rondo_run *run, unsigned sender, unsigned receiver)
{
    return rondo_slot_line(run->work, sender, receiver) + (run->lane->ranks - 1) * run->work->step_lines;
}

/* Whether rank p's result concerns rank r, another one. */
RONDO_FN bool rondo_result_flows(unsigned collective, unsigned root, unsigned r)
{
    return (collective != RONDO_BROADCAST || r != root) && (collective != RONDO_REDUCE || r == root);
}

RONDO_FN void rondo_two_shot_push(struct rondo_how how, unsigned collective, unsigned element,
                                  const struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run);
    if (collective == RONDO_BROADCAST && work->root != me)
        return;
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end && !run->dead; i0 += (uint64_t)how.chunk * share.stride) {
        for (unsigned d = 1; d < ranks; d++) {
            const unsigned p = rondo_peer_after(me, d, ranks);
            struct rondo_line lines[RONDO_MAX_CHUNK];
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i < share.end && rondo_shard_has(work, p, i))
                    lines[u] = rondo_input(how, collective, element, run, p, p * work->span + i);
            }
            if (run->dead)
                return;
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i < share.end && rondo_shard_has(work, p, i))
                    rondo_push(run, ranks, p, rondo_slot_line(work, me, p) + (uint32_t)(i - share.base), lines[u]);
            }
        }
    }
}

/* One line of this rank's shard: what came from all, or from the root. `at`: its number in its slot. */
RONDO_FN struct rondo_line rondo_shard_result(struct rondo_how how, unsigned collective, enum rondo_dtype dtype,
                                              enum rondo_redop op, struct rondo_run *run, uint64_t i, uint32_t at)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run), element = rondo_dtype_bytes(dtype);
    if (collective == RONDO_BROADCAST && me != work->root) {
        const uint32_t line = rondo_slot_line(work, work->root, me) + at;
        return rondo_pull(run, ranks, work->root, line, rondo_look(run, ranks, work->root, line));
    }
    const struct rondo_line own = rondo_input(how, collective, element, run, me, me * work->span + i);
    return collective == RONDO_BROADCAST ? own : rondo_reduce_slots(how, dtype, op, run, at, own);
}

/* Makes this rank's shard and pushes it to whom it concerns. `fenced`: the work has more steps than one, see mailbox.h. */
RONDO_FN void rondo_two_shot_shards(struct rondo_how how, unsigned collective, enum rondo_dtype dtype,
                                    enum rondo_redop op, bool fenced, struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned element = rondo_dtype_bytes(dtype), me = run->lane->rank, ranks = rondo_ranks(how, run);
    const bool wanted = collective != RONDO_REDUCE || me == work->root;
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end && !run->dead; i0 += (uint64_t)how.chunk * share.stride) {
        struct rondo_line results[RONDO_MAX_CHUNK];
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++) {
            const uint64_t i = i0 + (uint64_t)u * share.stride;
            if (i < share.end && rondo_shard_has(work, me, i))
                results[u] = rondo_shard_result(how, collective, dtype, op, run, i, (uint32_t)(i - share.base));
        }
        if (run->dead)
            return;
        if (fenced)
            rondo_fence();
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++) {
            const uint64_t i = i0 + (uint64_t)u * share.stride;
            if (i >= share.end || !rondo_shard_has(work, me, i))
                continue;
            for (unsigned d = 1; d < ranks; d++) {
                const unsigned p = rondo_peer_after(me, d, ranks);
                if (rondo_result_flows(collective, work->root, p))
                    rondo_push(run, ranks, p, rondo_result_line(run, me, p) + (uint32_t)(i - share.base), results[u]);
            }
            if (wanted)
                rondo_output(collective, element, run, me, me * work->span + i, results[u]);
        }
    }
}

/* Takes the other shards' results. The root of a broadcast, which sent them, copies them if need be. */
RONDO_FN void rondo_two_shot_gather(struct rondo_how how, unsigned collective, unsigned element, struct rondo_run *run,
                                    uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run);
    const bool copies = collective == RONDO_BROADCAST && me == work->root;
    if (copies ? work->send == work->recv : !rondo_result_flows(collective, work->root, me))
        return;
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end && !run->dead; i0 += (uint64_t)how.chunk * share.stride) {
        for (unsigned d = 1; d < ranks; d++) {
            const unsigned p = rondo_peer_after(me, d, ranks);
            const uint32_t slot = rondo_result_line(run, p, me);
            struct rondo_line looked[RONDO_MAX_CHUNK];
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i < share.end && rondo_shard_has(work, p, i))
                    looked[u] = copies ? rondo_input(how, collective, element, run, p, p * work->span + i)
                                       : rondo_look(run, ranks, p, slot + (uint32_t)(i - share.base));
            }
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i >= share.end || !rondo_shard_has(work, p, i))
                    continue;
                const struct rondo_line line =
                    copies ? looked[u] : rondo_pull(run, ranks, p, slot + (uint32_t)(i - share.base), looked[u]);
                if (!run->dead)
                    rondo_output(collective, element, run, p, p * work->span + i, line);
            }
        }
    }
}

/* ---- a broadcast of several steps: the root hears from nobody, so its peers tell it, thread by thread ---- */

/* Each of the root's peers has a slot for shards in the root's mailbox, which nothing else uses. */
RONDO_FN void rondo_broadcast_tell(struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank;
    struct rondo_line token = rondo_line_empty();
    token.w[0] = 0;
    if (me != work->root && share.first < share.end && !run->dead)
        rondo_push(run, run->lane->ranks, work->root,
                   rondo_slot_line(work, me, work->root) + (uint32_t)(share.first - share.base), token);
}

RONDO_FN void rondo_broadcast_hear(struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = run->lane->ranks;
    if (me != work->root || share.first >= share.end)
        return;
    for (unsigned d = 1; d < ranks && !run->dead; d++) {
        const unsigned p = rondo_peer_after(me, d, ranks);
        const uint32_t line = rondo_slot_line(work, p, me) + (uint32_t)(share.first - share.base);
        rondo_pull(run, ranks, p, line, rondo_look(run, ranks, p, line));
    }
}

#endif
