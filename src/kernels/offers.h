/* Offers: how the ranks of a launch agree whether a work can be direct (direct.h), and where each other's buffers are.
 *
 * That is known at run time only: memory is mapped behind the host's back, some time after it was first seen. So a launch
 * begins with offers, in lines of tokens: each block tells the same block of all peers which of its buffers can be reached, by the
 * number of the memory and the place in it. All blocks with the same number thus hear the same offers on every rank, and go on in
 * the same way: directly if nobody lacked anything, else by mailbox. Blocks may differ, so a block handles the same lines in either
 * way.
 *
 * An offer also says that the rank has come to the launch, after which its buffers are the launch's to use. Its line is emptied
 * before the launch tells its end, so it is free for the next one. */
#ifndef RONDO_KERNELS_OFFERS_H
#define RONDO_KERNELS_OFFERS_H

#include "kernels/bulk.h"
#include "kernels/exchange.h"
#include "kernels/launch.h"

/* Where the ranks' buffers are, as this rank reaches them: send buffers by rank, for results are formed in that order; receive buffers
 * by distance from this rank (0: its own), for everyone begins with another peer. So all places are constants where the number of
 * ranks is one. */
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

/* A rank's offers: two words for the send buffer, two for the receive buffer. A word begins with the number of the memory, which has
 * 15 bits, so no empty line does. They take one line where lines have 16 bytes, two where they have 8. */
enum { RONDO_OFFER_LINES = 4 / RONDO_LINE_WORDS };

struct rondo_offers {
    uint32_t w[4];
};

RONDO_FN char *rondo_offer_at(const struct rondo_run *run, unsigned line, unsigned from, unsigned to)
{
    const struct rondo_lane_args *lane = run->lane;
    char *mailbox =
        lane->rank == from ? rondo_mailbox_to(lane, lane->ranks, to) : rondo_mailbox_from(lane, lane->ranks, from);
    return rondo_token(run, line ? RONDO_TOKENS_OF_MORE_OFFERS : RONDO_TOKENS_OF_OFFERS, mailbox, rondo_slot(from, to));
}

RONDO_FN void rondo_offers_store(const struct rondo_run *run, unsigned peer, struct rondo_offers offers)
{
    RONDO_UNROLL
    for (unsigned l = 0; l < RONDO_OFFER_LINES; l++) {
        struct rondo_line line;
        RONDO_UNROLL
        for (unsigned w = 0; w < RONDO_LINE_WORDS; w++)
            line.w[w] = offers.w[l * RONDO_LINE_WORDS + w];
        rondo_line_store(rondo_offer_at(run, l, run->lane->rank, peer), line);
    }
}

RONDO_FN struct rondo_offers rondo_offers_load(const struct rondo_run *run, unsigned peer)
{
    struct rondo_offers offers;
    RONDO_UNROLL
    for (unsigned l = 0; l < RONDO_OFFER_LINES; l++) {
        const struct rondo_line line = rondo_line_load(rondo_offer_at(run, l, peer, run->lane->rank));
        RONDO_UNROLL
        for (unsigned w = 0; w < RONDO_LINE_WORDS; w++)
            offers.w[l * RONDO_LINE_WORDS + w] = line.w[w];
    }
    return offers;
}

RONDO_FN void rondo_offers_clear(const struct rondo_run *run, unsigned peer)
{
    for (unsigned l = 0; l < RONDO_OFFER_LINES; l++)
        rondo_line_store(rondo_offer_at(run, l, peer, run->lane->rank), rondo_line_empty());
}

/* Waits until they are there, and leaves them. */
RONDO_FN void rondo_offers_wait(struct rondo_run *run, unsigned peer)
{
    for (unsigned l = 0; l < RONDO_OFFER_LINES; l++)
        rondo_line_await(run, rondo_offer_at(run, l, peer, run->lane->rank), peer);
}

/* What an offer of `peer`, two words, is to this rank; NULL: nothing. */
RONDO_FN char *rondo_offer_reach(const struct rondo_exports *exports, unsigned peer, const uint32_t *w)
{
    const unsigned number = w[0] >> 16;
    const uint64_t *maps = (const uint64_t *)(exports + 1) + (uint64_t)peer * RONDO_EXPORTS_MAX;
    if (number >= RONDO_EXPORTS_MAX)
        return NULL;
    return (char *)(uintptr_t)rondo_wide_load(maps + number) + ((uint64_t)(w[0] & 0xffff) << 32 | w[1]);
}

/* Which memory a buffer of this rank may be offered as now. */
RONDO_FN unsigned rondo_offer_number(const struct rondo_exports *exports, bool aligned, unsigned number)
{
    if (!aligned || number >= RONDO_EXPORTS_MAX || !rondo_word_load(&exports->usable[number]))
        return RONDO_EXPORT_NONE;
    return number;
}

/* An offer's words. */
RONDO_FN void rondo_offer_words(unsigned number, uint64_t at, uint32_t *w)
{
    w[0] = number << 16 | (uint32_t)(at >> 32);
    w[1] = (uint32_t)at;
}

/* One thread offers to all: what it reads of the host's doing must be the same for every peer. Returns whether something that is
 * needed is lacking: then nothing is offered. */
RONDO_FN bool rondo_direct_offer(const struct rondo_run *run, const struct rondo_export_args *args, unsigned collective)
{
    const struct rondo_lane_args *lane = run->lane;
    const struct rondo_work *work = run->work;
    const bool any_place =
        work->aligned || work->copied; /* copy engines need no whole lines, and are this rank's own */
    const bool reads = !work->copied && rondo_send_is_read(collective, work->root, lane->rank);
    const bool writes = rondo_recv_is_written(collective, work->root, lane->rank);
    unsigned send = reads ? rondo_offer_number(lane->exports, any_place, args->send) : 0;
    unsigned recv = writes ? rondo_offer_number(lane->exports, any_place, args->recv) : 0;
    /* An all-to-all in place would overwrite what is still to be sent. */
    const bool lacks = send == RONDO_EXPORT_NONE || recv == RONDO_EXPORT_NONE ||
                       (collective == RONDO_ALL_TO_ALL && rondo_in_place(collective, run));
    if (lacks)
        send = recv = RONDO_EXPORT_NONE;
    struct rondo_offers offers;
    rondo_offer_words(send, args->send_at, offers.w);
    rondo_offer_words(recv, args->recv_at, offers.w + 2);
    for (unsigned d = 1; d < lane->ranks && !run->dead; d++)
        rondo_offers_store(run, rondo_peer_after(lane->rank, d, lane->ranks), offers);
    return lacks;
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
    for (unsigned d = 1 + rondo_thread(); d < ranks && !run->dead; d += rondo_threads())
        rondo_offers_wait(run, rondo_peer_after(me, d, ranks));
    if (rondo_thread() < ranks)
        rondo_fence();
    run->dead = rondo_barrier_any(run->dead);
    if (run->dead)
        return false;
    rondo_launch_heard(run);
    reached->recv[0] = (char *)work->recv;
    RONDO_UNROLL
    for (unsigned d = 1; d < ranks; d++) {
        const unsigned p = rondo_peer_after(me, d, ranks);
        const struct rondo_offers offers = rondo_offers_load(run, p);
        lacks |= offers.w[0] >> 16 == RONDO_EXPORT_NONE;
        reached->recv[d] = rondo_offer_reach(lane->exports, p, offers.w + 2);
    }
    RONDO_UNROLL
    for (unsigned r = 0; r < ranks; r++) {
        if (r == me)
            reached->send[r] = (const char *)work->send;
        else
            reached->send[r] = rondo_offer_reach(lane->exports, r, rondo_offers_load(run, r).w);
    }
    lacks = rondo_barrier_any(lacks);
    for (unsigned d = 1 + rondo_thread(); d < ranks; d += rondo_threads())
        rondo_offers_clear(run, rondo_peer_after(me, d, ranks));
    if (lacks) { /* whatever this block sends from now on says that the offers were taken */
        rondo_fence();
        rondo_barrier();
    }
    return !lacks;
}

#endif
