/* All-reduce over mailboxes, in phases that know nothing of launches: one-shot is push, reduce; two-shot is push, reduce,
 * gather. A phase handles one step of one work, for the calling thread.
 *
 * Every rank reduces in rank order, starting from rank 0's value: all get the same bits, from either exchange.
 *
 * `how` (constants) says how a phase is compiled: for a fixed number of ranks everything is unrolled and all peers' lines
 * are looked at together; for any number it is loops, and one line ahead is looked at. */
#ifndef RONDO_KERNELS_ALL_REDUCE_H
#define RONDO_KERNELS_ALL_REDUCE_H

#include "kernels/mailbox.h"
#include "kernels/reduce.h"
#include "kernels/user.h"

enum { RONDO_MAX_CHUNK = 4 };

struct rondo_how {
    unsigned ranks; /* 0: as the lane says */
    unsigned chunk; /* lines that a thread has under way at once: their loads overlap, and large works fence once for
                       all of them. At most RONDO_MAX_CHUNK */
};

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
    run->base = (run->epoch + step) & 1 ? run->lane->half_lines : 0;
}

RONDO_FN unsigned rondo_ranks(struct rondo_how how, const struct rondo_run *run)
{
    return how.ranks ? how.ranks : run->lane->ranks;
}

/* The d-th rank after this one: everyone begins with another peer, so that no receiver is everyone's first. */
RONDO_FN unsigned rondo_peer_after(unsigned me, unsigned d, unsigned ranks)
{
    return me + d < ranks ? me + d : me + d - ranks;
}

/* Sends one line to every peer, into this rank's slots. */
RONDO_FN void rondo_push_to_all(struct rondo_how how, const struct rondo_run *run, uint32_t at, struct rondo_line line)
{
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run);
    for (unsigned d = 1; d < ranks; d++) {
        const unsigned peer = rondo_peer_after(me, d, ranks);
        rondo_push(run, ranks, peer, at + rondo_slot(me, peer) * run->work->step_lines, line);
    }
}

/* Waits for the lines that were looked at and reduces them with `own`; slot r is at `line` + r's slot * slot_lines. */
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
            line = rondo_pull(run, r, at + rondo_slot(r, me) * run->work->step_lines, looked[r]);
        if (r == 0)
            rondo_accumulate_first(dtype, &acc, line);
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
            looked[r] = rondo_look(run, at + rondo_slot(r, me) * run->work->step_lines);
    return rondo_reduce_looked(dtype, op, ranks, run, at, own, looked);
}

/* The same for any number. */
RONDO_FN struct rondo_line rondo_reduce_any(enum rondo_dtype dtype, enum rondo_redop op, struct rondo_run *run,
                                            uint32_t at, struct rondo_line own)
{
    const unsigned me = run->lane->rank, ranks = run->lane->ranks;
    const uint32_t slot_lines = run->work->step_lines;
    struct rondo_accumulators acc;
    struct rondo_line line = own, ahead = own;
    if (me != 0)
        line = rondo_pull(run, 0, at, rondo_look(run, at));
    if (ranks > 1 && me != 1)
        ahead = rondo_look(run, at + rondo_slot(1, me) * slot_lines);
    rondo_accumulate_first(dtype, &acc, line);
    RONDO_ROLLED
    for (unsigned r = 1; r < ranks; r++) {
        const struct rondo_line looked = ahead;
        if (r + 1 < ranks && r + 1 != me)
            ahead = rondo_look(run, at + rondo_slot(r + 1, me) * slot_lines);
        line = own;
        if (r != me)
            line = rondo_pull(run, r, at + rondo_slot(r, me) * slot_lines, looked);
        rondo_accumulate(dtype, op, &acc, line);
    }
    return rondo_accumulated(dtype, op, &acc, ranks);
}

RONDO_FN struct rondo_line rondo_reduce_slots(struct rondo_how how, enum rondo_dtype dtype, enum rondo_redop op,
                                              struct rondo_run *run, uint32_t at, struct rondo_line own)
{
    return how.ranks ? rondo_reduce_fixed(dtype, op, how.ranks, run, at, own)
                     : rondo_reduce_any(dtype, op, run, at, own);
}

/* ---- one-shot ---- */

RONDO_FN void rondo_one_shot_push(struct rondo_how how, unsigned element, const struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end; i0 += (uint64_t)how.chunk * share.stride) {
        struct rondo_line lines[RONDO_MAX_CHUNK];
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++)
            if (i0 + (uint64_t)u * share.stride < share.end)
                lines[u] = rondo_user_load(element, work, i0 + (uint64_t)u * share.stride);
        if (run->dead)
            return;
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++) {
            const uint64_t i = i0 + (uint64_t)u * share.stride;
            if (i < share.end)
                rondo_push_to_all(how, run, work->line0 + (uint32_t)(i - share.base), lines[u]);
        }
    }
}

RONDO_FN void rondo_one_shot_reduce(struct rondo_how how, enum rondo_dtype dtype, enum rondo_redop op,
                                    struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned element = rondo_dtype_bytes(dtype);
    RONDO_ROLLED
    for (uint64_t i = share.first; i < share.end; i += share.stride) {
        const struct rondo_line own = rondo_user_load(element, work, i);
        const struct rondo_line sum =
            rondo_reduce_slots(how, dtype, op, run, work->line0 + (uint32_t)(i - share.base), own);
        if (!run->dead)
            rondo_user_store(element, work, i, sum);
    }
}

/* Proof for the reuse of a half across the end of a launch (mailbox.h): in the last of several steps a thread may have no
 * line, and would hear from nobody that the step before was taken. It exchanges an empty-handed line in its place. */
RONDO_FN void rondo_one_shot_close(struct rondo_run *run, uint32_t step)
{
    const struct rondo_how any = {0, 1};
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = run->lane->ranks;
    if (share.first < share.end)
        return;
    const uint32_t at = work->line0 + (uint32_t)(share.first - share.base);
    const struct rondo_line nothing = {{0}};
    rondo_push_to_all(any, run, at, nothing);
    RONDO_ROLLED
    for (unsigned r = 0; r < ranks; r++)
        if (r != me)
            rondo_pull(run, r, at + rondo_slot(r, me) * work->step_lines,
                       rondo_look(run, at + rondo_slot(r, me) * work->step_lines));
}

/* ---- two-shot: shard p, lines p * span … of the payload, is reduced by rank p ---- */

/* Whether line i of shard p exists: the last shards may be short. */
RONDO_FN bool rondo_shard_has(const struct rondo_work *work, unsigned p, uint64_t i)
{
    return (p * work->span + i) * RONDO_LINE_BYTES < work->bytes;
}

RONDO_FN void rondo_two_shot_push(struct rondo_how how, unsigned element, const struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run);
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end; i0 += (uint64_t)how.chunk * share.stride) {
        for (unsigned d = 1; d < ranks; d++) {
            const unsigned p = rondo_peer_after(me, d, ranks);
            const uint32_t slot = work->line0 + rondo_slot(me, p) * work->step_lines;
            struct rondo_line lines[RONDO_MAX_CHUNK];
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i < share.end && rondo_shard_has(work, p, i))
                    lines[u] = rondo_user_load(element, work, p * work->span + i);
            }
            if (run->dead)
                return;
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i < share.end && rondo_shard_has(work, p, i))
                    rondo_push(run, ranks, p, slot + (uint32_t)(i - share.base), lines[u]);
            }
        }
    }
}

/* As rondo_one_shot_close, for the shards that lack the thread's first line of a step: their owners hear from this thread,
 * and it from all if its own shard lacks the line. Between the step's push and its reduction. */
RONDO_FN void rondo_two_shot_close(struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = run->lane->ranks;
    const uint32_t at = work->line0 + (uint32_t)(share.first - share.base);
    const struct rondo_line nothing = {{0}};
    RONDO_ROLLED
    for (unsigned p = 0; p < ranks; p++)
        if (p != me && (share.first >= share.end || !rondo_shard_has(work, p, share.first)))
            rondo_push(run, ranks, p, at + rondo_slot(me, p) * work->step_lines, nothing);
    if (share.first < share.end && rondo_shard_has(work, me, share.first))
        return;
    RONDO_ROLLED
    for (unsigned r = 0; r < ranks; r++)
        if (r != me)
            rondo_pull(run, r, at + rondo_slot(r, me) * work->step_lines,
                       rondo_look(run, at + rondo_slot(r, me) * work->step_lines));
}

/* First line of the slots for results: behind those for shards. */
RONDO_FN uint32_t rondo_result_line(const struct rondo_run *run, uint32_t at)
{
    return at + (run->lane->ranks - 1) * run->work->step_lines;
}

/* Reduces this rank's shard and pushes the results. `fenced`: the work has more steps than one, see mailbox.h. */
RONDO_FN void rondo_two_shot_reduce(struct rondo_how how, enum rondo_dtype dtype, enum rondo_redop op, bool fenced,
                                    struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned element = rondo_dtype_bytes(dtype), me = run->lane->rank;
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end; i0 += (uint64_t)how.chunk * share.stride) {
        struct rondo_line sums[RONDO_MAX_CHUNK];
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++) {
            const uint64_t i = i0 + (uint64_t)u * share.stride;
            if (i < share.end && rondo_shard_has(work, me, i))
                sums[u] = rondo_reduce_slots(how, dtype, op, run, work->line0 + (uint32_t)(i - share.base),
                                             rondo_user_load(element, work, me * work->span + i));
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
            rondo_push_to_all(how, run, rondo_result_line(run, work->line0 + (uint32_t)(i - share.base)), sums[u]);
            rondo_user_store(element, work, me * work->span + i, sums[u]);
        }
    }
}

/* Takes the other shards' results. */
RONDO_FN void rondo_two_shot_gather(struct rondo_how how, unsigned element, struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_step(work, step);
    const unsigned me = run->lane->rank, ranks = rondo_ranks(how, run);
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end; i0 += (uint64_t)how.chunk * share.stride) {
        for (unsigned d = 1; d < ranks; d++) {
            const unsigned p = rondo_peer_after(me, d, ranks);
            const uint32_t slot = rondo_result_line(run, work->line0) + rondo_slot(p, me) * work->step_lines;
            struct rondo_line looked[RONDO_MAX_CHUNK];
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i < share.end && rondo_shard_has(work, p, i))
                    looked[u] = rondo_look(run, slot + (uint32_t)(i - share.base));
            }
            RONDO_UNROLL
            for (unsigned u = 0; u < how.chunk; u++) {
                const uint64_t i = i0 + (uint64_t)u * share.stride;
                if (i >= share.end || !rondo_shard_has(work, p, i))
                    continue;
                const struct rondo_line line = rondo_pull(run, p, slot + (uint32_t)(i - share.base), looked[u]);
                if (!run->dead)
                    rondo_user_store(element, work, p * work->span + i, line);
            }
        }
    }
}

#endif
