/* The direct protocol: works that load from their peers' buffers and store into them, where all ranks have mapped these
 * (comm/exports.h). Nothing waits in mailboxes, so a line crosses the link once and costs its rank one load or store, and a few
 * blocks keep a link busy: all-reduce of 256 MiB between two H200s takes 823 us with 16 blocks and 788 with 128.
 *
 * Whether it can be is known at run time only: memory is mapped behind the host's back, some time after it was first seen. So a
 * launch begins with offers, in lines of tokens: each block tells the same block of all peers which of its buffers can be reached, by
 * the number of the memory and the place in it. All blocks with the same number thus hear the same offers on every rank, and
 * go on in the same way: directly if nobody lacked anything, else by mailbox. Blocks may differ.
 *
 * An offer also says that the rank has come to the launch, after which its buffers are the launch's to use. In the end each block
 * tells that it has made all its loads and stores, as bulk.h tells of results. A line of offers is emptied before
 * that, so it is free for the next launch. */
#ifndef RONDO_KERNELS_DIRECT_H
#define RONDO_KERNELS_DIRECT_H

#include "kernels/bulk.h"
#include "kernels/exchange.h"
#include "kernels/launch.h"

/* Where the ranks' buffers are, as this rank reaches them. */
struct rondo_reached {
    const char *send[RONDO_ARG_PEERS];
    char *recv[RONDO_ARG_PEERS];
};

/* Whether peers load from the send buffer of rank s, and store into the receive buffer of rank r. */
RONDO_FN bool rondo_send_is_read(unsigned collective, unsigned root, unsigned s)
{
    return rondo_reduces(collective) || (collective == RONDO_BROADCAST && s == root);
}
RONDO_FN bool rondo_recv_is_written(unsigned collective, unsigned root, unsigned r)
{
    return collective == RONDO_BROADCAST ? r != root
           : collective == RONDO_REDUCE  ? r == root
                                         : collective != RONDO_REDUCE_SCATTER;
}

/* ---- offers ---- */

RONDO_FN struct rondo_line rondo_offer_line(unsigned number, uint64_t at)
{
    struct rondo_line line = rondo_line_empty();
    line.w[0] = number << 16 | (uint32_t)(at >> 32); /* numbers have 15 bits: no empty line begins like this */
    line.w[1] = (uint32_t)at;
    return line;
}

/* What the offer in `line` of `peer` is to this rank; NULL: nothing. */
RONDO_FN char *rondo_offer_reach(const struct rondo_exports *exports, unsigned peer, struct rondo_line line)
{
    const unsigned number = line.w[0] >> 16;
    const uint64_t *maps = (const uint64_t *)(exports + 1) + (uint64_t)peer * RONDO_EXPORTS_MAX;
    if (number >= RONDO_EXPORTS_MAX)
        return NULL;
    return (char *)(uintptr_t)rondo_wide_load(maps + number) + ((uint64_t)(line.w[0] & 0xffff) << 32 | line.w[1]);
}

/* Which memory a buffer of this rank may be offered as now. */
RONDO_FN unsigned rondo_offer_number(const struct rondo_exports *exports, bool aligned, unsigned number)
{
    if (!aligned || number >= RONDO_EXPORTS_MAX || !rondo_word_load(&exports->usable[number]))
        return RONDO_EXPORT_NONE;
    return number;
}

RONDO_FN char *rondo_offer_at(const struct rondo_run *run, unsigned kind, unsigned from, unsigned to)
{
    const struct rondo_lane_args *lane = run->lane;
    char *mailbox =
        lane->rank == from ? rondo_mailbox_to(lane, lane->ranks, to) : rondo_mailbox_from(lane, lane->ranks, from);
    return rondo_token(run, kind, mailbox, rondo_slot(from, to));
}

/* One thread offers to all: what it reads of the host's doing must be the same for every peer. Returns whether there is
 * nothing to offer that is needed. */
RONDO_FN bool rondo_direct_offer(const struct rondo_run *run, const struct rondo_export_args *args, unsigned collective)
{
    const struct rondo_lane_args *lane = run->lane;
    const struct rondo_work *work = run->work;
    const bool reads = rondo_send_is_read(collective, work->root, lane->rank);
    const bool writes = rondo_recv_is_written(collective, work->root, lane->rank);
    const unsigned send = reads ? rondo_offer_number(lane->exports, work->aligned, args->send) : 0;
    const unsigned recv = writes ? rondo_offer_number(lane->exports, work->aligned, args->recv) : 0;
    /* An all-to-all in place would overwrite what is still to be sent. */
    const bool lacks = send == RONDO_EXPORT_NONE || recv == RONDO_EXPORT_NONE ||
                       (collective == RONDO_ALL_TO_ALL && rondo_in_place(collective, run));
    const unsigned none =
        RONDO_EXPORT_NONE; /* a rank that lacks anything offers nothing: it is enough to look at one line */
    for (unsigned d = 1; d < lane->ranks && !run->dead; d++) {
        const unsigned p = rondo_peer_after(lane->rank, d, lane->ranks);
        rondo_line_store(rondo_offer_at(run, RONDO_TOKENS_OF_SENDS, lane->rank, p),
                         rondo_offer_line(lacks ? none : send, args->send_at));
        rondo_line_store(rondo_offer_at(run, RONDO_TOKENS_OF_RECVS, lane->rank, p),
                         rondo_offer_line(lacks ? none : recv, args->recv_at));
    }
    return lacks;
}

/* Waits until a line of offers is there, and leaves it. */
RONDO_FN void rondo_offer_wait(struct rondo_run *run, const void *at, unsigned peer)
{
    uint64_t since = 0;
    for (unsigned spins = 1; rondo_line_is_empty(rondo_line_load(at)) && !run->dead; spins++) {
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK)
            continue;
        since = rondo_wait_look(run->lane, run->work, run->epoch, peer, since, spins);
        run->dead = since == RONDO_WAIT_OVER;
    }
}

/* The block's offers and its peers'. Returns whether the work can be direct, the same on every rank; then `reached` says where
 * the buffers are. */
RONDO_FN bool rondo_direct_agree(struct rondo_run *run, const struct rondo_export_args *args, unsigned collective,
                                 unsigned ranks, struct rondo_reached *reached)
{
    const struct rondo_lane_args *lane = run->lane;
    const struct rondo_work *work = run->work;
    const unsigned me = lane->rank;
    bool lacks = false;
    rondo_run_step(run, 0);
    if (rondo_thread() == 0)
        lacks = rondo_direct_offer(run, args, collective);
    rondo_launch_check(run);
    for (unsigned d = 1 + rondo_thread(); d < ranks && !run->dead; d += rondo_threads()) {
        const unsigned p = rondo_peer_after(me, d, ranks);
        rondo_offer_wait(run, rondo_offer_at(run, RONDO_TOKENS_OF_SENDS, p, me), p);
        rondo_offer_wait(run, rondo_offer_at(run, RONDO_TOKENS_OF_RECVS, p, me), p);
    }
    if (rondo_thread() < ranks)
        rondo_fence();
    run->dead = rondo_barrier_any(run->dead);
    if (run->dead)
        return false;
    reached->send[me] = (const char *)work->send;
    reached->recv[me] = (char *)work->recv;
    for (unsigned d = 1; d < ranks; d++) {
        const unsigned p = rondo_peer_after(me, d, ranks);
        const struct rondo_line send = rondo_line_load(rondo_offer_at(run, RONDO_TOKENS_OF_SENDS, p, me));
        const struct rondo_line recv = rondo_line_load(rondo_offer_at(run, RONDO_TOKENS_OF_RECVS, p, me));
        lacks |= send.w[0] >> 16 == RONDO_EXPORT_NONE;
        reached->send[p] = rondo_offer_reach(lane->exports, p, send);
        reached->recv[p] = rondo_offer_reach(lane->exports, p, recv);
    }
    lacks = rondo_barrier_any(lacks);
    for (unsigned d = 1 + rondo_thread(); d < ranks; d += rondo_threads()) {
        const unsigned p = rondo_peer_after(me, d, ranks);
        rondo_line_store(rondo_offer_at(run, RONDO_TOKENS_OF_SENDS, p, me), rondo_line_empty());
        rondo_line_store(rondo_offer_at(run, RONDO_TOKENS_OF_RECVS, p, me), rondo_line_empty());
    }
    if (lacks) { /* whatever this block sends from now on says that the offers were taken */
        rondo_fence();
        rondo_barrier();
    }
    return !lacks;
}

/* ---- moving ---- */

/* The lines of a span that the calling thread handles. */
RONDO_FN struct rondo_share rondo_share_of_span(const struct rondo_work *work)
{
    struct rondo_share share;
    share.base = 0;
    share.stride = work->channels * rondo_threads();
    share.first = rondo_block() * rondo_threads() + rondo_thread();
    share.end = work->span;
    return share;
}

/* Reductions, and broadcasts of shards: this rank makes the lines from `base` on of all that it loads. */
RONDO_FN void rondo_direct_shards(struct rondo_how how, unsigned collective, enum rondo_dtype dtype,
                                  enum rondo_redop op, unsigned element, unsigned ranks, const struct rondo_run *run,
                                  const struct rondo_reached *reached)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_span(work);
    const unsigned me = run->lane->rank;
    const bool parts = collective == RONDO_REDUCE_SCATTER, reduces = rondo_reduces(collective);
    const bool shards = work->algo == RONDO_TWO_SHOT;
    const uint64_t base = shards ? me * work->span : 0;
    const uint64_t part = parts ? me * work->bytes : 0;
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end; i0 += (uint64_t)how.chunk * share.stride) {
        struct rondo_line lines[RONDO_MAX_CHUNK][RONDO_ARG_PEERS], results[RONDO_MAX_CHUNK];
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++) {
            const uint64_t i = i0 + (uint64_t)u * share.stride;
            if (i >= share.end || (shards && !rondo_shard_has(work, me, i)))
                continue;
            RONDO_UNROLL
            for (unsigned r = 0; r < ranks; r++)
                if (reduces || r == work->root)
                    lines[u][r] = rondo_user_load(element, true, reached->send[r] + part, work->bytes, base + i);
        }
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++) {
            struct rondo_accumulators acc;
            RONDO_UNROLL
            for (unsigned r = 0; r < ranks; r++) {
                if (!reduces && r == work->root)
                    results[u] = lines[u][r];
                else if (reduces && r == 0)
                    rondo_widen(dtype, &acc, lines[u][r]);
                else if (reduces)
                    rondo_accumulate(dtype, op, &acc, lines[u][r]);
            }
            if (reduces)
                results[u] = rondo_accumulated(dtype, op, &acc, ranks);
        }
        RONDO_UNROLL
        for (unsigned u = 0; u < how.chunk; u++) {
            const uint64_t i = i0 + (uint64_t)u * share.stride;
            if (i >= share.end || (shards && !rondo_shard_has(work, me, i)))
                continue;
            RONDO_UNROLL
            for (unsigned d = 1; d <= ranks; d++) {
                const unsigned p = rondo_peer_after(me, d == ranks ? 0 : d, ranks);
                const bool wants = p == me ? parts || rondo_recv_is_written(collective, work->root, p)
                                           : !parts && rondo_recv_is_written(collective, work->root, p);
                if (wants)
                    rondo_user_store(element, true, reached->recv[p], work->bytes, base + i, results[u]);
            }
        }
    }
}

/* All-gather and all-to-all: this rank's parts go to their places. */
RONDO_FN void rondo_direct_parts(unsigned collective, unsigned element, unsigned ranks, const struct rondo_run *run,
                                 const struct rondo_reached *reached)
{
    const struct rondo_work *work = run->work;
    const struct rondo_share share = rondo_share_of_span(work);
    const unsigned me = run->lane->rank;
    const bool parts = rondo_sends_parts(collective), copies = !rondo_in_place(collective, run);
    RONDO_ROLLED
    for (uint64_t i0 = share.first; i0 < share.end; i0 += (uint64_t)RONDO_MAX_CHUNK * share.stride) {
        struct rondo_line lines[RONDO_MAX_CHUNK];
        RONDO_UNROLL
        for (unsigned d = 1; d <= ranks; d++) {
            const unsigned p = rondo_peer_after(me, d == ranks ? 0 : d, ranks);
            if (d == 1 || parts) {
                RONDO_UNROLL
                for (unsigned u = 0; u < RONDO_MAX_CHUNK; u++)
                    if (i0 + (uint64_t)u * share.stride < share.end)
                        lines[u] =
                            rondo_user_load(element, true, (const char *)work->send + (parts ? p * work->bytes : 0),
                                            work->bytes, i0 + (uint64_t)u * share.stride);
            }
            if (p == me && !copies)
                continue;
            RONDO_UNROLL
            for (unsigned u = 0; u < RONDO_MAX_CHUNK; u++)
                if (i0 + (uint64_t)u * share.stride < share.end)
                    rondo_user_store(element, true, reached->recv[p] + me * work->bytes, work->bytes,
                                     i0 + (uint64_t)u * share.stride, lines[u]);
        }
    }
}

/* The root of a broadcast keeps its message, where it is to be in another place. */
RONDO_FN void rondo_direct_keep(unsigned element, const struct rondo_run *run)
{
    const struct rondo_work *work = run->work;
    const uint64_t lines = (work->bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES;
    const uint64_t stride = (uint64_t)work->channels * rondo_threads();
    if (run->lane->rank != work->root || work->send == work->recv)
        return;
    for (uint64_t i = rondo_block() * rondo_threads() + rondo_thread(); i < lines; i += stride)
        rondo_user_store(element, true, work->recv, work->bytes, i,
                         rondo_user_load(element, true, work->send, work->bytes, i));
}

/* Runs the work directly, if it can be: false, and nothing has been done. */
RONDO_FN bool rondo_direct_run(struct rondo_how how, unsigned collective, enum rondo_dtype dtype, enum rondo_redop op,
                               unsigned element, const struct rondo_export_args *args, struct rondo_run *run)
{
    const unsigned ranks = rondo_ranks(how, run);
    struct rondo_reached reached;
    if (!rondo_direct_agree(run, args, collective, ranks, &reached))
        return run->dead;
    if (rondo_reduces(collective) || collective == RONDO_BROADCAST)
        rondo_direct_shards(how, collective, dtype, op, element, ranks, run, &reached);
    else
        rondo_direct_parts(collective, element, ranks, run, &reached);
    if (collective == RONDO_BROADCAST)
        rondo_direct_keep(element, run);
    rondo_bulk_close(run);
    rondo_bulk_tell(run, RONDO_TOKENS_OF_RESULTS, 0);
    if (rondo_block() == 0 && rondo_thread() == 0)
        rondo_word_add(&run->lane->exports->ran, 1);
    rondo_bulk_hear(run, RONDO_TOKENS_OF_RESULTS, 0);
    return true;
}

#endif
