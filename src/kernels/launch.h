/* What every launch begins and ends with: the lane's epoch, and the checks that keep a launch off memory that is gone. */
#ifndef RONDO_KERNELS_LAUNCH_H
#define RONDO_KERNELS_LAUNCH_H

#include "kernels/mailbox.h"

struct rondo_launch_state {
    uint32_t overlapped; /* thread 0: whether the channel was found busy. Read late: nothing waits for it */
};

/* False: the lane is stopped, the launch must do nothing. */
RONDO_FN bool rondo_launch_begin(const struct rondo_lane_args *lane, struct rondo_run *run,
                                 struct rondo_launch_state *state)
{
    struct rondo_channel *channel = &lane->channels[rondo_block()];
    rondo_launch_early();
    rondo_launch_wait();
    state->overlapped = rondo_thread() == 0 ? rondo_word_exchange(&channel->busy, 1) : 0;
    uint32_t stop;
    rondo_word_pair_load(&channel->epoch, &run->epoch, &stop);
    run->lane = lane;
    run->work = NULL;
    run->base = 0;
    run->dead = false;
    if (stop) {
        if (rondo_thread() == 0) {
            if (rondo_block() == 0)
                rondo_give_up(lane, NULL, run->epoch, RONDO_REPORT_STOPPED, lane->rank);
            rondo_word_store(&channel->busy, 0);
        }
        return false;
    }
    return true;
}

/* To be called once the first lines are on their way. */
RONDO_FN void rondo_launch_check(const struct rondo_lane_args *lane, const struct rondo_run *run,
                                 const struct rondo_launch_state *state)
{
    if (state->overlapped)
        rondo_give_up(lane, run->work, run->epoch, RONDO_REPORT_OVERLAP, lane->rank);
}

/* Advances the epoch of all channels that are this block's to advance. */
RONDO_FN void rondo_launch_end(const struct rondo_lane_args *lane, const struct rondo_run *run, uint32_t steps)
{
    rondo_barrier(); /* all threads have read the epoch, and are done */
    for (unsigned c = rondo_block() + rondo_blocks() * rondo_thread(); c < RONDO_MAX_CHANNELS;
         c += rondo_blocks() * rondo_threads())
        rondo_word_store(&lane->channels[c].epoch, run->epoch + steps);
    if (rondo_thread() == 0)
        rondo_word_store(&lane->channels[rondo_block()].busy, 0);
}

#endif
