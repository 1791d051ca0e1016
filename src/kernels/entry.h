/* The bodies of the kernels: a launch of one work, of any size, and a launch of a batch of small ones. */
#ifndef RONDO_KERNELS_ENTRY_H
#define RONDO_KERNELS_ENTRY_H

#include "kernels/all_reduce.h"
#include "kernels/launch.h"

/* All steps of one work. In two-shot the next step's shards are sent before this one's results are waited for, but for the
 * second step (that the peers have begun this launch, and so ended the one before, shows only in what they sent in the
 * first) and the last one (what is sent there shows that the step before was taken; the next launch counts on that). */
RONDO_FN void rondo_all_reduce_steps(struct rondo_how how, enum rondo_algo algo, enum rondo_dtype dtype,
                                     enum rondo_redop op, struct rondo_run *run)
{
    const unsigned element = rondo_dtype_bytes(dtype);
    const uint32_t steps = run->work->steps;
    if (algo == RONDO_ONE_SHOT) {
        RONDO_ROLLED
        for (uint32_t step = 0; step < steps; step++) {
            rondo_run_step(run, step);
            if (step)
                rondo_fence();
            rondo_one_shot_push(how, element, run, step);
            if (step == 0)
                rondo_launch_check(run);
            if (run->dead)
                return;
            rondo_one_shot_reduce(how, dtype, op, run, step);
        }
        if (steps > 1 && !run->dead)
            rondo_one_shot_close(run, steps - 1);
        return;
    }
    RONDO_ROLLED
    for (uint32_t step = 0; step <= steps; step++) {
        const bool ahead = step == 0 || (step > 1 && step + 1 < steps);
        if (ahead) {
            rondo_run_step(run, step);
            rondo_two_shot_push(how, element, run, step);
        }
        if (step == 0) {
            rondo_launch_check(run);
            continue;
        }
        if (run->dead)
            return;
        rondo_run_step(run, step - 1);
        if (step == steps && steps > 1)
            rondo_two_shot_close(run, steps - 1);
        rondo_two_shot_reduce(how, dtype, op, steps > 1, run, step - 1);
        rondo_two_shot_gather(how, element, run, step - 1);
        if (!ahead && step < steps) {
            if (run->dead)
                return;
            rondo_fence(); /* what was taken is empty before the peers hear of it */
            rondo_run_step(run, step);
            rondo_two_shot_push(how, element, run, step);
        }
    }
}

/* One-shot where each thread has one line at most: what latency is made of. All that does not depend on the epoch is
 * done before the wait for the preceding kernel, address translation included (the prefetches are for that: 0.05 to 0.1 us
 * on H200); behind it come two loads at once (epoch, payload), the sends, the waits, two stores. */
RONDO_FN void rondo_one_shot_lean(enum rondo_dtype dtype, enum rondo_redop op, unsigned ranks,
                                  const struct rondo_single_args *args)
{
    const struct rondo_lane_args *lane = &args->lane;
    const struct rondo_work *work = &args->work;
    const unsigned element = rondo_dtype_bytes(dtype), me = lane->rank;
    const uint32_t i = rondo_block() * rondo_threads() + rondo_thread();
    const bool mine = i < (uint32_t)work->span;
    char *to[RONDO_ARG_PEERS], *from[RONDO_ARG_PEERS]; /* this thread's line: with the peers, and of rank r here */
    RONDO_UNROLL
    for (unsigned d = 1; d < ranks; d++) {
        const unsigned peer = rondo_peer_after(me, d, ranks);
        to[d] = rondo_mailbox_line(lane->peer[peer], rondo_slot(me, peer) * work->step_lines + i);
    }
    RONDO_UNROLL
    for (unsigned r = 0; r < ranks; r++)
        from[r] = rondo_mailbox_line(lane->mailbox, rondo_slot(r, me) * work->step_lines + i);

    if (rondo_thread() == 0)
        rondo_prefetch(&lane->channels[rondo_block()]);
    if (rondo_thread() % 32 == 0 && mine) {
        RONDO_UNROLL
        for (unsigned r = 0; r < ranks; r++)
            if (r != me) {
                rondo_prefetch(from[r]);
                rondo_prefetch(from[r] + (size_t)lane->half_lines * RONDO_LINE_BYTES);
            }
    }

    struct rondo_run run = rondo_launch_begin(lane, work);
    struct rondo_line own, looked[RONDO_ARG_PEERS];
    if (mine)
        own = rondo_user_load(element, work, i);
    rondo_run_step(&run, 0);
    const size_t half = (size_t)run.base * RONDO_LINE_BYTES;
    if (mine && !run.dead) {
        if (rondo_line_is_special(own)) {
            const struct rondo_how fixed = {ranks, 1};
            rondo_push_to_all(fixed, &run, i, own);
        } else {
            RONDO_UNROLL
            for (unsigned d = 1; d < ranks; d++)
                rondo_line_store(to[d] + half, own);
        }
    }
    rondo_launch_check(&run);
    if (mine && !run.dead) {
        RONDO_UNROLL
        for (unsigned r = 0; r < ranks; r++)
            if (r != me)
                looked[r] = rondo_line_load(from[r] + half);
        const struct rondo_line sum = rondo_reduce_looked(dtype, op, ranks, &run, i, own, looked);
        if (!run.dead)
            rondo_user_store(element, work, i, sum);
    }
    rondo_launch_end(&run, 1);
}

RONDO_FN void rondo_single_steps(struct rondo_how how, enum rondo_algo algo, enum rondo_dtype dtype,
                                 enum rondo_redop op, const struct rondo_single_args *args)
{
    struct rondo_run run = rondo_launch_begin(&args->lane, &args->work);
    rondo_launch_mark(&args->lane);
    rondo_all_reduce_steps(how, algo, dtype, op, &run);
    rondo_launch_end(&run, args->work.steps);
}

/* `specialized`: numbers of ranks that machines commonly have get code of their own. */
RONDO_FN void rondo_single_body(enum rondo_algo algo, enum rondo_dtype dtype, enum rondo_redop op, bool specialized,
                                const struct rondo_single_args *args)
{
    const struct rondo_how two = {2, 4}, four = {4, 2}, eight = {8, 1}, any = {0, 1};
    const unsigned ranks = args->lane.ranks;
    const bool lean = algo == RONDO_ONE_SHOT && args->work.step_lines == args->work.channels * rondo_threads() &&
                      args->work.steps == 1;
    if (!specialized)
        rondo_single_steps(any, algo, dtype, op, args);
    else if (lean && ranks == 2)
        rondo_one_shot_lean(dtype, op, 2, args);
    else if (lean && ranks == 4)
        rondo_one_shot_lean(dtype, op, 4, args);
    else if (lean && ranks == 8)
        rondo_one_shot_lean(dtype, op, 8, args);
    else if (ranks == 2)
        rondo_single_steps(two, algo, dtype, op, args);
    else if (ranks == 4)
        rondo_single_steps(four, algo, dtype, op, args);
    else if (ranks == 8)
        rondo_single_steps(eight, algo, dtype, op, args);
    else
        rondo_single_steps(any, algo, dtype, op, args);
}

/* One work's reduction in a batch. Returns whether the run is dead. */
RONDO_FN bool rondo_batch_reduce(struct rondo_how how, enum rondo_dtype dtype, enum rondo_redop op,
                                 struct rondo_run run)
{
    if (run.work->algo == RONDO_ONE_SHOT)
        rondo_one_shot_reduce(how, dtype, op, &run, 0);
    else
        rondo_two_shot_reduce(how, dtype, op, false, &run, 0);
    return run.dead;
}

/* Out of line, one function for each (dtype, op). */
#define RONDO_BATCH_REDUCE(DTYPE, OP, specialized)                           \
    RONDO_CALL bool rondo_batch_reduce_##DTYPE##_##OP(struct rondo_run run)  \
    {                                                                        \
        const struct rondo_how two = {2, 1}, four = {4, 1}, any = {0, 1};    \
        if (specialized && run.lane->ranks == 2)                             \
            return rondo_batch_reduce(two, RONDO_##DTYPE, RONDO_##OP, run);  \
        if (specialized && run.lane->ranks == 4)                             \
            return rondo_batch_reduce(four, RONDO_##DTYPE, RONDO_##OP, run); \
        return rondo_batch_reduce(any, RONDO_##DTYPE, RONDO_##OP, run);      \
    }

RONDO_FN void rondo_batch_push_how(struct rondo_how how, unsigned element, const struct rondo_run *run)
{
    if (run->work->algo == RONDO_ONE_SHOT)
        rondo_one_shot_push(how, element, run, 0);
    else
        rondo_two_shot_push(how, element, run, 0);
}

RONDO_FN void rondo_batch_push(unsigned element, const struct rondo_run *run)
{
    const struct rondo_how two = {2, 1}, four = {4, 1}, any = {0, 1};
    if (run->lane->ranks == 2)
        rondo_batch_push_how(two, element, run);
    else if (run->lane->ranks == 4)
        rondo_batch_push_how(four, element, run);
    else
        rondo_batch_push_how(any, element, run);
}

RONDO_CALL bool rondo_batch_gather(unsigned element, struct rondo_run run)
{
    const struct rondo_how any = {0, 1};
    rondo_two_shot_gather(any, element, &run, 0);
    return run.dead;
}

/* Every channel sends what it has of all its works before it waits for any: m small works cost one latency, not m.
 * `reduce` is the dispatch over the functions above. */
RONDO_FN void rondo_batch_body(const struct rondo_batch_args *args, bool (*reduce)(struct rondo_run))
{
    struct rondo_run run = rondo_launch_begin(&args->lane, NULL);
    rondo_launch_mark(&args->lane);
    const unsigned first = args->first[rondo_block()], end = args->last[rondo_block()] + 1u;
    rondo_run_step(&run, 0);
    for (unsigned w = first; w < end; w++) {
        run.work = &args->works[w];
        rondo_batch_push(rondo_dtype_bytes(run.work->dtype), &run);
    }
    rondo_launch_check(&run);
    for (unsigned w = first; w < end && !run.dead; w++) {
        run.work = &args->works[w];
        run.dead = reduce(run);
    }
    for (unsigned w = first; w < end && !run.dead; w++) {
        run.work = &args->works[w];
        if (run.work->algo == RONDO_TWO_SHOT)
            run.dead = rondo_batch_gather(rondo_dtype_bytes(run.work->dtype), run);
    }
    rondo_launch_end(&run, 1);
}

#endif
