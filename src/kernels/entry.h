/* The bodies of the kernels: a launch of one work, of any size, and a launch of a batch of small ones. */
#ifndef RONDO_KERNELS_ENTRY_H
#define RONDO_KERNELS_ENTRY_H

#include "kernels/all_reduce.h"
#include "kernels/launch.h"

/* All steps of one work. In two-shot the next step's shards are sent before this one's results are waited for. */
RONDO_FN void rondo_all_reduce_steps(struct rondo_how how, enum rondo_algo algo, enum rondo_dtype dtype,
                                     enum rondo_redop op, struct rondo_run *run, const struct rondo_launch_state *state)
{
    const unsigned element = rondo_dtype_bytes(dtype);
    const uint32_t steps = run->work->steps;
    if (algo == RONDO_ONE_SHOT) {
        RONDO_ROLLED
        for (uint32_t step = 0; step < steps && !run->dead; step++) {
            rondo_run_step(run, step);
            if (step)
                rondo_fence();
            rondo_one_shot_push(how, element, run, step);
            if (step == 0)
                rondo_launch_check(run->lane, run, state);
            rondo_one_shot_reduce(how, dtype, op, run, step);
        }
        return;
    }
    RONDO_ROLLED
    for (uint32_t step = 0; step <= steps && !run->dead; step++) {
        if (step < steps) {
            rondo_run_step(run, step);
            rondo_two_shot_push(how, element, run, step);
        }
        if (step == 0) {
            rondo_launch_check(run->lane, run, state);
            continue;
        }
        rondo_run_step(run, step - 1);
        rondo_two_shot_reduce(how, dtype, op, steps > 1, run, step - 1);
        rondo_two_shot_gather(how, element, run, step - 1);
    }
}

/* `specialized`: numbers of ranks that machines commonly have get code of their own. */
RONDO_FN void rondo_single_body(enum rondo_algo algo, enum rondo_dtype dtype, enum rondo_redop op, bool specialized,
                                const struct rondo_single_args *args)
{
    const struct rondo_how two = {2, 4}, four = {4, 2}, eight = {8, 1}, any = {0, 1};
    struct rondo_run run;
    struct rondo_launch_state state;
    if (!rondo_launch_begin(&args->lane, &run, &state))
        return;
    run.work = &args->work;
    if (specialized && args->lane.ranks == 2)
        rondo_all_reduce_steps(two, algo, dtype, op, &run, &state);
    else if (specialized && args->lane.ranks == 4)
        rondo_all_reduce_steps(four, algo, dtype, op, &run, &state);
    else if (specialized && args->lane.ranks == 8)
        rondo_all_reduce_steps(eight, algo, dtype, op, &run, &state);
    else
        rondo_all_reduce_steps(any, algo, dtype, op, &run, &state);
    rondo_launch_end(&args->lane, &run, args->work.steps);
}

/* One work's reduction in a batch; out of line, one function for each (dtype, op). Returns whether the run is dead. */
#define RONDO_BATCH_REDUCE(DTYPE, OP)                                                                                  \
    RONDO_CALL bool rondo_batch_reduce_##DTYPE##_##OP(struct rondo_run run)                                            \
    {                                                                                                                  \
        const struct rondo_how any = {0, 1};                                                                           \
        if (run.work->algo == RONDO_ONE_SHOT)                                                                          \
            rondo_one_shot_reduce(any, RONDO_##DTYPE, RONDO_##OP, &run, 0);                                            \
        else                                                                                                           \
            rondo_two_shot_reduce(any, RONDO_##DTYPE, RONDO_##OP, false, &run, 0);                                     \
        return run.dead;                                                                                               \
    }

RONDO_CALL void rondo_batch_push(unsigned element, struct rondo_run run)
{
    const struct rondo_how any = {0, 1};
    if (run.work->algo == RONDO_ONE_SHOT)
        rondo_one_shot_push(any, element, &run, 0);
    else
        rondo_two_shot_push(any, element, &run, 0);
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
    struct rondo_run run;
    struct rondo_launch_state state;
    if (!rondo_launch_begin(&args->lane, &run, &state))
        return;
    const unsigned first = args->first[rondo_block()], end = args->last[rondo_block()] + 1u;
    rondo_run_step(&run, 0);
    for (unsigned w = first; w < end; w++) {
        run.work = &args->works[w];
        rondo_batch_push(rondo_dtype_bytes(run.work->dtype), run);
    }
    rondo_launch_check(&args->lane, &run, &state);
    for (unsigned w = first; w < end && !run.dead; w++) {
        run.work = &args->works[w];
        run.dead = reduce(run);
    }
    for (unsigned w = first; w < end && !run.dead; w++) {
        run.work = &args->works[w];
        if (run.work->algo == RONDO_TWO_SHOT)
            run.dead = rondo_batch_gather(rondo_dtype_bytes(run.work->dtype), run);
    }
    rondo_launch_end(&args->lane, &run, 1);
}

#endif
