/* What every launch begins and ends with: the lane's epoch, and the checks that keep a launch off memory that is gone. */
#ifndef RONDO_KERNELS_LAUNCH_H
#define RONDO_KERNELS_LAUNCH_H

#include "kernels/mailbox.h"
#include "kernels/trace.h"

/* What follows may load, but must look at run.dead before it sends: a lane that is stopped must be left alone. The look
 * is late on purpose, so that the lane's words and the first payload are loaded at the same time.
 *
 * A launch that waits for long, or has much to do, marks its channels with where it runs and which capture it is of. Two
 * launches that run at the same time cannot both make progress; they are found out by the one that sees the other's mark at
 * its start, or in a long wait (rondo_wait_look). On GPUs two of one capture (two executables of a graph) that start within
 * some 0.2 ms of each other, before either has marked, are ended by the timeout only, if there is one. Marking at the start of
 * every launch would cost 0.1 us, by an atomic exchange 0.3 us (1 KiB on two H200s, docs/decisions/0003). */
RONDO_FN struct rondo_run rondo_launch_open(const struct rondo_lane_args *lane, const struct rondo_work *work)
{
    struct rondo_channel *channel = rondo_own_channel(lane);
    struct rondo_run run;
    uint32_t words[4];
    const bool own = rondo_block() < RONDO_MAX_CHANNELS; /* else the mark is another block's */
    uint32_t other = 0;
    rondo_launch_wait();
    /* The host device marks at once, for nothing: there an overlap cannot be missed, and who tears a comm down never
     * takes a launch for idle that was preempted before its mark. */
    if (RONDO_PLACE_IS_FIXED && own)
        other = rondo_word_exchange(&channel->busy, rondo_mark(lane));
    rondo_words_load(&channel->epoch, words);
    run.lane = lane;
    run.work = work;
    run.base = 0;
    run.bulk = false;
    run.epoch = words[0];
    run.other = !own ? 0 : RONDO_PLACE_IS_FIXED ? other : words[1];
    run.dead = words[2] != 0;
    run.traced = words[3];
    if (RONDO_PLACE_IS_FIXED)
        rondo_trace_begin(&run);
    return run;
}

/* A small launch lets the next one take its place on the device at once. */
RONDO_FN struct rondo_run rondo_launch_begin(const struct rondo_lane_args *lane, const struct rondo_work *work)
{
    rondo_launch_early();
    return rondo_launch_open(lane, work);
}

/* A large one lets it do so when it has heard from its peers, for it will come to its end then, whatever waits for a place. Until then
 * two launches of a lane, the one waiting for peers and the other for it, would take the place that those of other lanes and comms
 * need, for which the peers may wait: comm/limits.c sees to it that there is place for two lanes with one launch each.
 *
 * One thread of each block is enough to let it in, so none may do so that has not heard from all. */
RONDO_FN bool rondo_launch_is_large(const struct rondo_lane_args *lane)
{
    return rondo_blocks() * rondo_threads() > lane->large;
}

RONDO_FN struct rondo_run rondo_launch_begin_any(const struct rondo_lane_args *lane, const struct rondo_work *work)
{
    if (!rondo_launch_is_large(lane))
        rondo_launch_early();
    return rondo_launch_open(lane, work);
}

RONDO_FN void rondo_launch_heard(const struct rondo_run *run)
{
    if (rondo_launch_is_large(run->lane))
        rondo_launch_early();
    rondo_trace_first(run);
}

/* The same for a block of which some threads hear from some peers only, or from nobody. */
RONDO_FN void rondo_launch_heard_by_all(const struct rondo_run *run)
{
    if (rondo_launch_is_large(run->lane))
        rondo_barrier();
    rondo_launch_heard(run);
}

/* The record of a launch begins: in one that has little to do, behind rondo_launch_check. */
RONDO_FN void rondo_launch_trace(const struct rondo_run *run)
{
    if (!RONDO_PLACE_IS_FIXED)
        rondo_trace_begin(run);
}

/* The mark of a launch that has much to do; behind the first loads. */
RONDO_FN void rondo_launch_mark(const struct rondo_run *run)
{
    const struct rondo_lane_args *lane = run->lane;
    rondo_launch_trace(run);
    if (rondo_thread() == 0 && rondo_block() < RONDO_MAX_CHANNELS)
        rondo_word_store(&lane->channels[rondo_block()].busy, rondo_mark(lane));
}

/* To be called once the first lines are on their way, or were not sent as the lane is stopped. */
RONDO_FN void rondo_launch_check(const struct rondo_run *run)
{
    if ((run->dead || run->other) && rondo_thread() == 0)
        rondo_give_up(run->lane, run->dead ? NULL : run->work, run->epoch,
                      run->dead ? RONDO_REPORT_STOPPED : RONDO_REPORT_OVERLAP, run->other >> 16);
}

/* Advances the epoch of all channels that are this block's to advance. All threads have read it and are done. */
RONDO_FN void rondo_launch_close(const struct rondo_run *run, uint32_t steps)
{
    const struct rondo_lane_args *lane = run->lane;
    for (unsigned c = rondo_block() + rondo_blocks() * rondo_thread(); c < RONDO_MAX_CHANNELS;
         c += rondo_blocks() * rondo_threads())
        rondo_word_pair_store(&lane->channels[c].epoch, run->epoch + steps, 0);
    rondo_trace_done(run);
}

RONDO_FN void rondo_launch_end(const struct rondo_run *run, uint32_t steps)
{
    rondo_barrier();
    rondo_launch_close(run, steps);
}

#endif
