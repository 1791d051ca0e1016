/* Posts, as kernels make them: see posts.h. Only code that runs works of any kind makes them; a comm that needs them has its
 * launches run by that. */
#ifndef RONDO_KERNELS_POST_H
#define RONDO_KERNELS_POST_H

#include "kernels/exchange.h"
#include "kernels/posts.h"

/* Posts a range of the mailbox for a peer. One thread, which has ordered the range's stores before. */
RONDO_CALL void rondo_post_range(const struct rondo_run *run, unsigned peer, const char *first, uint64_t bytes)
{
    const struct rondo_lane_args *lane = run->lane;
    struct rondo_poster *poster = &lane->posts->peers[peer];
    uint64_t since = 0;
    if (!poster->ring || bytes == 0)
        return;
    const uint32_t number = rondo_word_add(&poster->made, 1);
    for (unsigned spins = 1; number - rondo_word_load(&poster->taken) >= RONDO_POSTS; spins++) {
        rondo_word_store(&poster->taken, rondo_word_load(&poster->ring->taken));
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK == 0)
            since = rondo_wait_look(lane, run->work, run->epoch, peer, since, spins);
        if (since == RONDO_WAIT_OVER)
            return;
    }
    const uint64_t lap = rondo_post_lap(number);
    rondo_pair_store(&poster->ring->posts[number % RONDO_POSTS], (uint64_t)(first - poster->base) | lap, bytes | lap);
}

/* Posts lines, whose escape bytes begin at `escape`. */
RONDO_FN void rondo_post_lines(const struct rondo_run *run, unsigned peer, const char *first, const uint8_t *escape,
                               uint64_t lines)
{
    if (rondo_word_load(&run->lane->posts->special))
        rondo_post_range(run, peer, (const char *)escape, lines);
    rondo_post_range(run, peer, first, lines * RONDO_LINE_BYTES);
}

/* Called by all threads of a block that has done its part of what counter `what` counts. Whether the calling thread is to post for
 * all: of the last of `blocks`, and only if none has given up. Not to be called where nothing would be posted: that peers wait for
 * the post is what keeps blocks together. */
RONDO_FN bool rondo_post_arrive(const struct rondo_run *run, unsigned what, uint32_t step, unsigned blocks)
{
    if (rondo_barrier_any(run->dead) || rondo_thread() != 0)
        return false;
    uint32_t *arrived = &run->lane->posts->arrived[step % RONDO_POST_STEPS][what];
    rondo_fence();
    if (blocks == 1)
        return true;
    if (rondo_word_add(arrived, 1) + 1 != blocks)
        return false;
    rondo_word_store(arrived, 0);
    rondo_fence();
    return true;
}

/* How many of a slot's lines a step of a work fills: `lines` is what there is in all. */
RONDO_FN uint64_t rondo_lines_of_step(const struct rondo_work *work, uint64_t lines, uint32_t step)
{
    const uint64_t base = (uint64_t)step * work->step_lines;
    const uint64_t left = lines > base ? lines - base : 0;
    return left < work->step_lines ? left : work->step_lines;
}

/* Lines of shard p. */
RONDO_FN uint64_t rondo_shard_lines(const struct rondo_work *work, unsigned p)
{
    const uint64_t all = (work->bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES, before = p * work->span;
    return all <= before ? 0 : all - before < work->span ? all - before : work->span;
}

RONDO_FN void rondo_post_slot(const struct rondo_run *run, unsigned peer, uint32_t line, uint64_t lines)
{
    char *mailbox = rondo_mailbox_to(run->lane, run->lane->ranks, peer);
    if (run->bulk)
        rondo_post_range(run, peer, rondo_run_line(run, mailbox, line), lines * RONDO_LINE_BYTES);
    else
        rondo_post_lines(run, peer, rondo_mailbox_line(mailbox, run->base + line),
                         rondo_mailbox_escape(run->lane, mailbox, run->base + line), lines);
}

/* After a push of work w: what it has for each peer. */
RONDO_CALL void rondo_post_pushed(struct rondo_run run, unsigned w, uint32_t step)
{
    const struct rondo_work *work = run.work;
    const unsigned me = run.lane->rank, ranks = run.lane->ranks;
    const bool shards = work->algo == RONDO_TWO_SHOT;
    if (work->collective == RONDO_BROADCAST ? work->root != me
                                            : work->collective == RONDO_REDUCE && !shards && work->root == me)
        return;
    if (!rondo_post_arrive(&run, RONDO_POST_PUSHED + w, step, work->channels))
        return;
    for (unsigned d = 1; d < ranks; d++) {
        const unsigned p = rondo_peer_after(me, d, ranks);
        if (shards || rondo_flows(work->collective, work->root, me, p))
            rondo_post_slot(&run, p, rondo_slot_line(work, me, p),
                            rondo_lines_of_step(work, shards ? rondo_shard_lines(work, p) : work->span, step));
    }
}

/* After a two-shot work's shards were made: its results. */
RONDO_CALL void rondo_post_results(struct rondo_run run, unsigned w, uint32_t step)
{
    const struct rondo_work *work = run.work;
    const unsigned me = run.lane->rank, ranks = run.lane->ranks;
    if (work->collective == RONDO_REDUCE && work->root == me)
        return;
    if (!rondo_post_arrive(&run, RONDO_POST_RESULTS + w, step, work->channels))
        return;
    for (unsigned d = 1; d < ranks; d++) {
        const unsigned p = rondo_peer_after(me, d, ranks);
        if (rondo_result_flows(work->collective, work->root, p))
            rondo_post_slot(&run, p, rondo_result_line(&run, me, p),
                            rondo_lines_of_step(work, rondo_shard_lines(work, me), step));
    }
}

/* After rondo_broadcast_tell: a line from each thread that has one. */
RONDO_CALL void rondo_post_told(struct rondo_run run, uint32_t step)
{
    const struct rondo_work *work = run.work;
    const uint64_t lines = rondo_lines_of_step(work, work->span, step);
    const uint32_t threads = work->channels * rondo_threads();
    if (run.lane->rank != work->root && rondo_post_arrive(&run, RONDO_POST_TOLD, step, work->channels))
        rondo_post_slot(&run, work->root, rondo_slot_line(work, run.lane->rank, work->root),
                        lines < threads ? lines : threads);
}

/* After tokens were sent by this block, which is the only one, or one of `blocks` that all do so. */
RONDO_CALL void rondo_post_tokens(struct rondo_run run, unsigned kind, uint32_t step, unsigned blocks)
{
    const struct rondo_lane_args *lane = run.lane;
    if (!rondo_post_arrive(&run, RONDO_POST_TOKENS + kind, step, blocks))
        return;
    for (unsigned d = 1; d < lane->ranks; d++) {
        const unsigned peer = rondo_peer_after(lane->rank, d, lane->ranks);
        const char *own =
            rondo_token(&run, kind, rondo_mailbox_to(lane, lane->ranks, peer), rondo_slot(lane->rank, peer));
        rondo_post_range(&run, peer, own - (blocks > 1 ? (size_t)rondo_block() * RONDO_LINE_BYTES : 0),
                         (uint64_t)blocks * RONDO_LINE_BYTES);
    }
}

#endif
