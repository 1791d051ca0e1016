/* Works that go from rank to rank instead of from all to all, chunk by chunk: for comms of which some pairs are slow.
 *
 * Reductions go up by rank: rank 0 sends what it has to rank 1, which adds its own and sends that to rank 2, and so on: the order in
 * which every exchange adds, so that all give the same bits. What travels are the accumulators, unless the type itself holds as much
 * (rondo_ring_width): rounding is once, by the last rank. That sends each result to whom it concerns: of a reduce and a
 * reduce-scatter to the one rank, of an all-reduce out from its own place to both ends of the order (rondo_ring_order), from rank to
 * rank. A broadcast goes out from its root in the same way, and of an all-gather every part from its rank. No pair closes the ring:
 * what would go over the closing edge comes to each end from the inside, and slow pairs carry less.
 *
 * No deadlock: a block waits for the same block of other ranks only. Rank i works on partial t at tick t + i, and on result t at tick
 * t + (ranks - 1) + its distance from the last rank; what a broadcast's root has for tick t is worked on at tick t + d by the rank d
 * places away, and so is what gatherers have. Whatever a rank waits for at a tick, another does at an earlier one: a chunk, one
 * tick before; that its former place was taken, DEPTH - 1 before at least. So the waits form no circle.
 *
 * What a rank hears first does not say that all have come: a large launch (launch.h) lets the next one in at its end. */
#ifndef RONDO_KERNELS_RING_H
#define RONDO_KERNELS_RING_H

#include "kernels/entry.h"
#include "kernels/hop.h"

/* ---- who passes what to whom ---- */

/* How many chunks of a flow are this block's, and which lines the j-th of them has. */
RONDO_FN uint32_t rondo_ring_chunks(const struct rondo_work *work)
{
    const uint64_t before = (uint64_t)(rondo_block() - work->channel0) * work->step_lines;
    const uint64_t round = (uint64_t)work->channels * work->step_lines;
    return work->span <= before ? 0 : (uint32_t)((work->span - before + round - 1) / round);
}

RONDO_FN struct rondo_hop rondo_ring_chunk(const struct rondo_work *work, uint32_t j)
{
    struct rondo_hop hop;
    hop.in = hop.out[0] = hop.out[1] = rondo_ring_none();
    hop.first = ((uint64_t)j * work->channels + rondo_block() - work->channel0) * work->step_lines;
    hop.end = hop.first + work->step_lines < work->span ? hop.first + work->step_lines : work->span;
    hop.part = 0;
    hop.keeps = false;
    return hop;
}

RONDO_FN struct rondo_ring_end rondo_ring_stream(unsigned peer, unsigned kind, uint32_t number, uint32_t total)
{
    const struct rondo_ring_end end = {peer, kind, number, total};
    return end;
}

/* The stream to or from the rank at a place, if there is such a place. */
RONDO_FN struct rondo_ring_end rondo_ring_neighbour(const struct rondo_ring_order *order, unsigned ranks, int place,
                                                    uint32_t number, uint32_t total)
{
    if (place < 0 || place >= (int)ranks)
        return rondo_ring_none();
    return rondo_ring_stream(order->ranks[place], RONDO_RING_MOVES, number, total);
}

/* What comes from the rank at place `from` goes out to both sides: the streams of the rank at `place` for it. */
RONDO_FN void rondo_ring_spread(const struct rondo_ring_order *order, unsigned ranks, int place, int from,
                                uint32_t number, uint32_t total, struct rondo_hop *hop)
{
    if (place != from)
        hop->in = rondo_ring_neighbour(order, ranks, place < from ? place + 1 : place - 1, number, total);
    if (place <= from)
        hop->out[0] = rondo_ring_neighbour(order, ranks, place - 1, number, total);
    if (place >= from)
        hop->out[1] = rondo_ring_neighbour(order, ranks, place + 1, number, total);
}

/* Partial t of `items`: of the t-th chunk, or, of a reduce-scatter, of its part for rank t % ranks. */
RONDO_FN void rondo_ring_partial(const struct rondo_ring_order *order, struct rondo_run *run, uint32_t t,
                                 uint32_t items)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, ranks = run->lane->ranks, last = ranks - 1;
    const unsigned parts = work->collective == RONDO_REDUCE_SCATTER ? ranks : 1;
    struct rondo_hop hop = rondo_ring_chunk(work, t / parts);
    hop.part = t % parts;
    if (me > 0)
        hop.in = rondo_ring_stream(me - 1, RONDO_RING_PARTIALS, t, items);
    const unsigned whose = work->collective == RONDO_REDUCE ? work->root : hop.part;
    if (me < last) {
        hop.out[0] = rondo_ring_stream(me + 1, RONDO_RING_PARTIALS, t, items);
    } else if (work->collective == RONDO_ALL_REDUCE) {
        rondo_ring_spread(order, ranks, order->places[me], order->places[me], t, items, &hop);
        hop.keeps = true;
    } else if (whose != last) {
        hop.out[0] = rondo_ring_stream(whose, RONDO_RING_MOVES, t / parts, items / parts);
    } else {
        hop.keeps = true;
    }
    run->dead = rondo_hop_reduce_any(run, &hop);
    if (me > 0 && t == 0)
        rondo_trace_first(run);
}

/* Result t, which concerns this rank, another one than the last. */
RONDO_FN void rondo_ring_result(const struct rondo_ring_order *order, struct rondo_run *run, uint32_t t, uint32_t items)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, ranks = run->lane->ranks, last = ranks - 1;
    const unsigned parts = work->collective == RONDO_REDUCE_SCATTER ? ranks : 1;
    struct rondo_hop hop = rondo_ring_chunk(work, t / parts);
    hop.keeps = true;
    if (work->collective == RONDO_ALL_REDUCE)
        rondo_ring_spread(order, ranks, order->places[me], order->places[last], t, items, &hop);
    else
        hop.in = rondo_ring_stream(last, RONDO_RING_MOVES, t / parts, items / parts);
    run->dead = rondo_hop_move(*run, &hop);
    if (me == 0 && t == 0)
        rondo_trace_first(run);
}

/* How many ticks after the last rank has made a result this one gets it; 0: not at all, or at once. */
RONDO_FN uint32_t rondo_ring_distance(const struct rondo_ring_order *order, const struct rondo_run *run)
{
    const unsigned me = run->lane->rank, last = run->lane->ranks - 1;
    if (me == last || (run->work->collective == RONDO_REDUCE && run->work->root != me))
        return 0;
    if (run->work->collective != RONDO_ALL_REDUCE)
        return 1;
    const unsigned a = order->places[me], b = order->places[last];
    return a < b ? b - a : a - b;
}

RONDO_FN void rondo_ring_reduce(const struct rondo_ring_order *order, struct rondo_run *run)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank, ranks = run->lane->ranks;
    const unsigned parts = work->collective == RONDO_REDUCE_SCATTER ? ranks : 1;
    const uint32_t items = rondo_ring_chunks(work) * parts, distance = rondo_ring_distance(order, run);
    const uint32_t later = distance ? ranks - 1 + distance : me;
    RONDO_ROLLED
    for (uint32_t tick = 0; tick < items + later && !run->dead; tick++) {
        if (tick >= me && tick - me < items)
            rondo_ring_partial(order, run, tick - me, items);
        if (distance && tick >= later && (parts == 1 || (tick - later) % ranks == me))
            rondo_ring_result(order, run, tick - later, items);
    }
}

RONDO_FN void rondo_ring_broadcast(const struct rondo_ring_order *order, struct rondo_run *run)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank;
    const uint32_t chunks = rondo_ring_chunks(work);
    RONDO_ROLLED
    for (uint32_t j = 0; j < chunks && !run->dead; j++) {
        struct rondo_hop hop = rondo_ring_chunk(work, j);
        hop.keeps = me != work->root || !rondo_in_place(RONDO_BROADCAST, run);
        rondo_ring_spread(order, run->lane->ranks, order->places[me], order->places[work->root], j, chunks, &hop);
        run->dead = rondo_hop_move(*run, &hop);
        if (j == 0 && me != work->root)
            rondo_trace_first(run);
    }
}

/* The part of the rank at `place`, of which each stream carries the nearest first: `away` is how many places that is from here. A
 * neighbour on the far side gets what comes from this side, and this rank's own. */
RONDO_FN void rondo_ring_gather_one(const struct rondo_ring_order *order, struct rondo_run *run, uint32_t j,
                                    uint32_t chunks, int place)
{
    const unsigned me = run->lane->rank;
    const int ranks = run->lane->ranks, here = order->places[me], side = place < here ? -1 : 1;
    const uint32_t away = (uint32_t)(place < here ? here - place : place - here);
    const uint32_t comes = (uint32_t)(place < here ? here : ranks - 1 - here); /* parts that do from that side */
    struct rondo_hop hop = rondo_ring_chunk(run->work, j);
    hop.part = order->ranks[place];
    hop.keeps = true;
    hop.in = rondo_ring_neighbour(order, (unsigned)ranks, here + side, j * comes + away - 1, chunks * comes);
    hop.out[0] =
        rondo_ring_neighbour(order, (unsigned)ranks, here - side, j * (comes + 1) + away, chunks * (comes + 1));
    run->dead = rondo_hop_move(*run, &hop);
}

RONDO_FN void rondo_ring_gather(const struct rondo_ring_order *order, struct rondo_run *run)
{
    const struct rondo_work *work = run->work;
    const unsigned me = run->lane->rank;
    const int ranks = run->lane->ranks, here = order->places[me];
    const uint32_t chunks = rondo_ring_chunks(work), below = (uint32_t)here + 1, above = (uint32_t)(ranks - here);
    RONDO_ROLLED
    for (uint32_t j = 0; j < chunks && !run->dead; j++) {
        struct rondo_hop hop = rondo_ring_chunk(work, j);
        hop.part = me;
        hop.keeps = !rondo_in_place(RONDO_ALL_GATHER, run);
        hop.out[0] = rondo_ring_neighbour(order, (unsigned)ranks, here + 1, j * below, chunks * below);
        hop.out[1] = rondo_ring_neighbour(order, (unsigned)ranks, here - 1, j * above, chunks * above);
        run->dead = rondo_hop_move(*run, &hop);
        RONDO_ROLLED
        for (int d = 1; d < ranks && !run->dead; d++) {
            if (here - d >= 0)
                rondo_ring_gather_one(order, run, j, chunks, here - d);
            if (here + d < ranks && !run->dead)
                rondo_ring_gather_one(order, run, j, chunks, here + d);
        }
        if (j == 0)
            rondo_trace_first(run);
    }
}

/* ---- a launch ---- */

RONDO_FN void rondo_ring_body(const struct rondo_ring_args *args)
{
    const struct rondo_batch_head *head = &args->head;
    struct rondo_run run = rondo_launch_begin_any(&head->lane, &args->work);
    rondo_launch_mark(&run);
    if (head->signature && rondo_block() == 0)
        rondo_batch_check(head, run);
    rondo_run_step(&run, 0);
    if (rondo_block() == 0) {
        rondo_tokens_send(&run, RONDO_TOKENS_OF_HALF);
        if (head->lane.posts)
            rondo_post_tokens(run, RONDO_TOKENS_OF_HALF, 0, 1);
    }
    rondo_launch_check(&run);
    run.dead = rondo_barrier_any(run.dead);
    if (rondo_reduces(args->work.collective))
        rondo_ring_reduce(&args->order, &run);
    else if (args->work.collective == RONDO_BROADCAST)
        rondo_ring_broadcast(&args->order, &run);
    else
        rondo_ring_gather(&args->order, &run);
    rondo_ring_turn(&run, false);
    if (rondo_block() == 0)
        rondo_tokens_take(&run, RONDO_TOKENS_OF_HALF);
    rondo_launch_end(&run, 1);
}

#endif
