/* The direct protocol: works that load from their peers' buffers and store into them, where all ranks have mapped these
 * (comm/exports.h) and the launch's offers say so (offers.h). Nothing waits in mailboxes, so a line crosses the link once and costs
 * its rank one load or store, and a few blocks keep a link busy: all-reduce of 256 MiB between two H200s takes 831 us with 16
 * blocks and 792 with 128. In the end each block tells that it has made all its loads and stores, as bulk.h tells of results. */
#ifndef RONDO_KERNELS_DIRECT_H
#define RONDO_KERNELS_DIRECT_H

#include "kernels/offers.h"

enum { RONDO_DIRECT_LINES = 16 }; /* that a thread has under way at once, of all ranks */

/* Lines in registers. Arrays in structs: nvcc gives arrays of one type in functions that are inlined side by side the same place on the
 * stack, where all of them stay if one has an index that is no constant, as the code for any number of ranks has. */
struct rondo_direct_lines {
    struct rondo_line of[RONDO_DIRECT_LINES];
};
struct rondo_direct_results {
    struct rondo_line of[RONDO_DIRECT_LINES / 2];
};
struct rondo_direct_line {
    struct rondo_line of[RONDO_ARG_PEERS];
};

/* How many of a thread's lines of one buffer that is. Loads of peers' memory take a microsecond or two, so there must be many
 * of them: between two H200s, 16 blocks pulled 103 GB/s with a branch after each load, 324 with these in a row. */
RONDO_FN unsigned rondo_direct_chunk(struct rondo_how how)
{
    return how.ranks == 2 ? 8 : how.ranks == 4 ? 4 : how.ranks == 8 ? 2 : 1;
}

/* The lines of a message, or of this rank's shard of it, that the calling thread handles: first, first + stride, … below `end`; those
 * below `whole` have all their bytes. `base`: the shard's first line. */
struct rondo_extent {
    uint64_t base, first, stride, whole, end;
};

RONDO_FN struct rondo_extent rondo_extent_of(const struct rondo_work *work, uint64_t base, uint64_t lines)
{
    const uint64_t whole = work->bytes / RONDO_LINE_BYTES,
                   all = (work->bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES;
    struct rondo_extent e;
    e.base = base;
    e.first = (uint64_t)rondo_block() * rondo_threads() + rondo_thread();
    e.stride = (uint64_t)work->channels * rondo_threads();
    e.end = base >= all ? 0 : base + lines > all ? all - base : lines;
    e.whole = base >= whole ? 0 : base + lines > whole ? whole - base : lines;
    return e;
}

RONDO_FN struct rondo_line rondo_whole_load(const char *buffer, uint64_t i)
{
    return ((const struct rondo_line *)buffer)[i];
}
RONDO_FN void rondo_whole_store(char *buffer, uint64_t i, struct rondo_line line)
{
    ((struct rondo_line *)buffer)[i] = line;
}

/* What this rank makes of one line of all that it loads: lines[0], lines[pitch], … */
RONDO_FN struct rondo_line rondo_direct_result(unsigned collective, enum rondo_dtype dtype, enum rondo_redop op,
                                               unsigned ranks, const struct rondo_line *lines, unsigned pitch)
{
    struct rondo_accumulators acc;
    if (!rondo_reduces(collective))
        return lines[0];
    RONDO_UNROLL
    for (unsigned r = 0; r < ranks; r++) {
        if (r == 0)
            rondo_widen(dtype, &acc, lines[0]);
        else
            rondo_accumulate(dtype, op, &acc, lines[r * pitch]);
    }
    return rondo_accumulated(dtype, op, &acc, ranks);
}

/* Whether rank me's results are for rank p. */
RONDO_FN bool rondo_direct_flows(unsigned collective, unsigned root, unsigned me, unsigned p)
{
    return collective == RONDO_REDUCE_SCATTER ? p == me : rondo_recv_is_written(collective, root, p);
}

/* Where this rank loads from, of a collective by shards: from all, or the root. */
struct rondo_direct_from {
    const char *buffers[RONDO_ARG_PEERS];
    unsigned count;
};

RONDO_FN struct rondo_direct_from rondo_direct_sources(unsigned collective, unsigned ranks, const struct rondo_run *run,
                                                       const struct rondo_reached *reached)
{
    const struct rondo_work *work = run->work;
    const uint64_t part = collective == RONDO_REDUCE_SCATTER ? run->lane->rank * work->bytes : 0;
    struct rondo_direct_from from;
    from.count = rondo_reduces(collective) ? ranks : 1;
    RONDO_UNROLL
    for (unsigned r = 0; r < ranks; r++)
        if (rondo_reduces(collective))
            from.buffers[r] = reached->send[r] + part;
        else if (r == work->root)
            from.buffers[0] = reached->send[r];
    return from;
}

/* One line of what follows, which may be at a message's end. */
RONDO_FN void rondo_direct_last(unsigned collective, enum rondo_dtype dtype, enum rondo_redop op, unsigned element,
                                unsigned ranks, const struct rondo_run *run, const struct rondo_direct_from *from,
                                const struct rondo_reached *reached, uint64_t i)
{
    const struct rondo_work *work = run->work;
    struct rondo_direct_line lines;
    RONDO_UNROLL
    for (unsigned r = 0; r < from->count; r++)
        lines.of[r] = rondo_user_load(element, true, from->buffers[r], work->bytes, i);
    const struct rondo_line result = rondo_direct_result(collective, dtype, op, ranks, lines.of, 1);
    RONDO_UNROLL
    for (unsigned d = 0; d < ranks; d++)
        if (rondo_direct_flows(collective, work->root, run->lane->rank, rondo_peer_after(run->lane->rank, d, ranks)))
            rondo_user_store(element, true, reached->recv[d], work->bytes, i, result);
}

/* This rank makes an extent's lines of all that it loads, and stores them for whom they are. All arrays have constant places in them, or
 * they would not be registers. */
RONDO_FN void rondo_direct_make(struct rondo_how how, unsigned collective, enum rondo_dtype dtype, enum rondo_redop op,
                                unsigned element, unsigned ranks, const struct rondo_run *run,
                                const struct rondo_direct_from *from, const struct rondo_reached *reached,
                                struct rondo_extent e)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, chunk = rondo_direct_chunk(how);
    RONDO_ROLLED
    for (uint64_t i0 = e.first; i0 < e.end; i0 += chunk * e.stride) {
        struct rondo_direct_lines lines;
        struct rondo_direct_results results;
        if (!how.ranks || i0 + (chunk - 1) * e.stride >= e.whole) {
            RONDO_ROLLED
            for (uint64_t i = i0; i < e.end && i < i0 + chunk * e.stride; i += e.stride)
                rondo_direct_last(collective, dtype, op, element, ranks, run, from, reached, e.base + i);
            continue;
        }
        RONDO_UNROLL
        for (unsigned r = 0; r < from->count; r++) {
            RONDO_UNROLL
            for (unsigned u = 0; u < chunk; u++)
                lines.of[r * chunk + u] = rondo_whole_load(from->buffers[r], e.base + i0 + u * e.stride);
        }
        RONDO_UNROLL
        for (unsigned u = 0; u < chunk; u++)
            results.of[u] = rondo_direct_result(collective, dtype, op, ranks, lines.of + u, chunk);
        RONDO_UNROLL
        for (unsigned d = ranks; d-- > 0;) { /* this rank's own last */
            if (!rondo_direct_flows(collective, work->root, me, rondo_peer_after(me, d, ranks)))
                continue;
            RONDO_UNROLL
            for (unsigned u = 0; u < chunk; u++)
                rondo_whole_store(reached->recv[d], e.base + i0 + u * e.stride, results.of[u]);
        }
    }
}

/* The root's shard of a rooted work is cut into a piece for each other rank: this rank's, which is not the root. Blocks have the lines that
 * they have of shards. */
RONDO_FN struct rondo_extent rondo_direct_piece(const struct rondo_work *work, unsigned me, unsigned ranks)
{
    const uint64_t stride = (uint64_t)work->channels * rondo_threads(), pieces = ranks - 1;
    const uint64_t most = (work->span + pieces * stride - 1) / (pieces * stride) * stride;
    const uint64_t at = rondo_slot(me, work->root) * most;
    const uint64_t left = at < work->span ? work->span - at : 0;
    return rondo_extent_of(work, work->root * work->span + at, left < most ? left : most);
}

/* Reductions, and broadcasts by shards. Of rooted ones among more than two ranks the root has no part: whatever it makes of others'
 * buffers or for them crosses its link besides the message itself, which would then carry 2 (ranks - 1) / ranks of it, and not all of
 * it once. */
RONDO_FN void rondo_direct_shards(struct rondo_how how, unsigned collective, enum rondo_dtype dtype,
                                  enum rondo_redop op, unsigned element, unsigned ranks, const struct rondo_run *run,
                                  const struct rondo_reached *reached)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank;
    const bool rooted = (collective == RONDO_REDUCE || collective == RONDO_BROADCAST) && ranks > 2;
    const struct rondo_direct_from from = rondo_direct_sources(collective, ranks, run, reached);
    struct rondo_extent e = rondo_extent_of(work, rondo_owns_shards(collective) ? me * work->span : 0, work->span);
    if (rooted && me == work->root)
        return;
    RONDO_ROLLED
    for (unsigned i = 0; i < (rooted ? 2 : 1); i++) {
        if (i == 1)
            e = rondo_direct_piece(work, me, ranks);
        rondo_direct_make(how, collective, dtype, op, element, ranks, run, &from, reached, e);
    }
}

/* Lines of one buffer of this rank go to several places: all-gather, and the root's of a broadcast between two. */
RONDO_FN void rondo_direct_spread(struct rondo_how how, unsigned element, unsigned ranks, const struct rondo_run *run,
                                  struct rondo_extent e, const char *from, char *const *to)
{
    const struct rondo_work *work = run->work;
    const unsigned chunk = rondo_direct_chunk(how);
    RONDO_ROLLED
    for (uint64_t i0 = e.first; i0 < e.end; i0 += chunk * e.stride) {
        struct rondo_direct_results lines;
        const bool whole = i0 + (chunk - 1) * e.stride < e.whole;
        if (whole) {
            RONDO_UNROLL
            for (unsigned u = 0; u < chunk; u++)
                lines.of[u] = rondo_whole_load(from, e.base + i0 + u * e.stride);
        }
        RONDO_UNROLL
        for (unsigned d = ranks; d-- > 0;) {
            if (!to[d])
                continue;
            if (whole) {
                RONDO_UNROLL
                for (unsigned u = 0; u < chunk; u++)
                    rondo_whole_store(to[d], e.base + i0 + u * e.stride, lines.of[u]);
                continue;
            }
            RONDO_ROLLED
            for (uint64_t i = i0; i < e.end && i < i0 + chunk * e.stride; i += e.stride)
                rondo_user_store(element, true, to[d], work->bytes, e.base + i,
                                 rondo_user_load(element, true, from, work->bytes, e.base + i));
        }
    }
}

/* All-to-all: each part goes to its rank. */
RONDO_FN void rondo_direct_parts(struct rondo_how how, unsigned element, unsigned ranks, const struct rondo_run *run,
                                 const struct rondo_reached *reached)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, chunk = rondo_direct_chunk(how);
    const struct rondo_extent e = rondo_extent_of(work, 0, UINT64_MAX / RONDO_LINE_BYTES);
    RONDO_ROLLED
    for (uint64_t i0 = e.first; i0 < e.end; i0 += chunk * e.stride) {
        RONDO_UNROLL
        for (unsigned d = ranks; d-- > 0;) {
            struct rondo_direct_results lines;
            const char *from = (const char *)work->send + rondo_peer_after(me, d, ranks) * work->bytes;
            char *to = reached->recv[d] + me * work->bytes;
            if (i0 + (chunk - 1) * e.stride < e.whole) {
                RONDO_UNROLL
                for (unsigned u = 0; u < chunk; u++)
                    lines.of[u] = rondo_whole_load(from, i0 + u * e.stride);
                RONDO_UNROLL
                for (unsigned u = 0; u < chunk; u++)
                    rondo_whole_store(to, i0 + u * e.stride, lines.of[u]);
                continue;
            }
            RONDO_ROLLED
            for (uint64_t i = i0; i < e.end && i < i0 + chunk * e.stride; i += e.stride)
                rondo_user_store(element, true, to, work->bytes, i,
                                 rondo_user_load(element, true, from, work->bytes, i));
        }
    }
}

RONDO_FN void rondo_direct_gather(struct rondo_how how, unsigned element, unsigned ranks, const struct rondo_run *run,
                                  const struct rondo_reached *reached)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank;
    char *to[RONDO_ARG_PEERS];
    RONDO_UNROLL
    for (unsigned d = 0; d < ranks; d++)
        to[d] = reached->recv[d] + me * work->bytes;
    if (work->send == to[0])
        to[0] = NULL;
    rondo_direct_spread(how, element, ranks, run, rondo_extent_of(work, 0, UINT64_MAX / RONDO_LINE_BYTES),
                        (const char *)work->send, to);
}

/* A broadcast between two: the root's stores cross the link at 357 GB/s, its peer's loads at 329. Among more, by shards, which the others
 * load: then the root sends each line once. The root keeps its message too, where it is to be in another place. */
RONDO_FN void rondo_direct_broadcast(struct rondo_how how, unsigned element, unsigned ranks,
                                     const struct rondo_run *run, const struct rondo_reached *reached)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, root = work->root;
    char *to[RONDO_ARG_PEERS];
    if (ranks > 2)
        rondo_direct_shards(how, RONDO_BROADCAST, RONDO_U8, RONDO_SUM, element, ranks, run, reached);
    if (me != root)
        return;
    RONDO_UNROLL
    for (unsigned d = 1; d < ranks; d++)
        to[d] = ranks == 2 ? reached->recv[d] : NULL;
    to[0] = work->send == work->recv ? NULL : (char *)work->recv;
    RONDO_ROLLED
    for (unsigned p = 0; p < ranks && (ranks == 2 || to[0]); p++) /* a block has the same lines as by mailbox */
        rondo_direct_spread(how, element, ranks, run, rondo_extent_of(work, p * work->span, work->span),
                            (const char *)work->send, to);
}

RONDO_FN void rondo_direct_move(struct rondo_how how, unsigned collective, enum rondo_dtype dtype, enum rondo_redop op,
                                unsigned element, const struct rondo_run *run, const struct rondo_reached *reached)
{
    const unsigned ranks = rondo_ranks(how, run);
    if (rondo_reduces(collective))
        rondo_direct_shards(how, collective, dtype, op, element, ranks, run, reached);
    else if (collective == RONDO_BROADCAST)
        rondo_direct_broadcast(how, element, ranks, run, reached);
    else if (collective == RONDO_ALL_GATHER)
        rondo_direct_gather(how, element, ranks, run, reached);
    else
        rondo_direct_parts(how, element, ranks, run, reached);
}

/* Runs the work directly, if it can be: false, and nothing has been done. Where the caller's code is for any number of ranks, there is code
 * for common ones here: one line at a time is not enough (reduce of 256 MiB between two H200s: 882 us). */
RONDO_FN bool rondo_direct_run(struct rondo_how how, unsigned collective, enum rondo_dtype dtype, enum rondo_redop op,
                               unsigned element, const struct rondo_export_args *args, struct rondo_run *run)
{
    const struct rondo_how two = {2, 1, false}, four = {4, 1, false};
    const unsigned ranks = rondo_ranks(how, run);
    struct rondo_reached reached;
    if (!rondo_direct_agree(run, args, collective, ranks, &reached))
        return run->dead;
    if (!how.ranks && ranks == 2)
        rondo_direct_move(two, collective, dtype, op, element, run, &reached);
    else if (RONDO_VARIANTS && !how.ranks && ranks == 4)
        rondo_direct_move(four, collective, dtype, op, element, run, &reached);
    else
        rondo_direct_move(how, collective, dtype, op, element, run, &reached);
    rondo_bulk_close(run);
    rondo_bulk_tell(run, RONDO_TOKENS_OF_RESULTS, 0);
    if (rondo_block() == 0 && rondo_thread() == 0)
        rondo_word_add(&run->lane->exports->ran, 1);
    rondo_bulk_hear(run, RONDO_TOKENS_OF_RESULTS, 0);
    return true;
}

#endif
