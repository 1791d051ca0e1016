/* The bodies of the kernels: a launch of one work, of any size, and a launch of a batch. */
#ifndef RONDO_KERNELS_ENTRY_H
#define RONDO_KERNELS_ENTRY_H

#include "kernels/exchange.h"
#include "kernels/fifo.h"
#include "kernels/launch.h"
#include "kernels/lean.h"

/* ---- one work ---- */

/* Before the results of the last of several steps are made, each block tells its peers that all its threads have done with the
 * steps before; see mailbox.h. */
RONDO_FN void rondo_last_step_send(struct rondo_run *run, uint32_t steps)
{
    if (steps == 1)
        return;
    rondo_barrier();
    if (rondo_thread() < run->lane->ranks)
        rondo_fence();
    rondo_run_step(run, steps - 1);
    rondo_tokens_send(run, RONDO_TOKENS_OF_HALF);
}

RONDO_FN void rondo_last_step_take(struct rondo_run *run, uint32_t steps)
{
    if (steps == 1)
        return;
    rondo_run_step(run, steps - 1);
    rondo_tokens_take(run, RONDO_TOKENS_OF_HALF);
}

/* A work that sends a step ahead may send its second step, into the half that the launch before used last, once every peer has
 * begun this launch. The first step needs no such word. */
RONDO_FN void rondo_first_step_send(struct rondo_run *run)
{
    rondo_tokens_send(run, RONDO_TOKENS_OF_BEGIN);
}

RONDO_FN void rondo_first_step_take(struct rondo_run *run)
{
    rondo_tokens_take(run, RONDO_TOKENS_OF_BEGIN);
    rondo_barrier();
}

RONDO_FN void rondo_one_shot_deliver(struct rondo_how how, enum rondo_collective collective, enum rondo_dtype dtype,
                                     enum rondo_redop op, unsigned element, struct rondo_run *run, uint32_t step)
{
    if (rondo_reduces(collective))
        rondo_one_shot_reduce(how, collective, dtype, op, run, step);
    else
        rondo_one_shot_store(how, collective, element, run, step);
}

/* A one-shot work in steps: everybody hears from everybody in each of them. */
RONDO_FN void rondo_one_shot_steps(struct rondo_how how, enum rondo_collective collective, enum rondo_dtype dtype,
                                   enum rondo_redop op, unsigned element, struct rondo_run *run)
{
    const uint32_t steps = run->work->steps;
    RONDO_ROLLED
    for (uint32_t step = 0; step < steps; step++) {
        rondo_run_step(run, step);
        if (step)
            rondo_fence();
        if (step == steps - 1)
            rondo_last_step_send(run, steps);
        rondo_one_shot_push(how, collective, element, run, step);
        if (step == 0)
            rondo_launch_check(run);
        rondo_one_shot_deliver(how, collective, dtype, op, element, run, step);
    }
    rondo_last_step_take(run, steps);
}

/* A two-shot work in steps: the next step's shards are sent before this one's results are waited for. */
RONDO_FN void rondo_two_shot_steps(struct rondo_how how, enum rondo_collective collective, enum rondo_dtype dtype,
                                   enum rondo_redop op, unsigned element, struct rondo_run *run)
{
    const uint32_t steps = run->work->steps;
    if (steps > 1)
        rondo_first_step_send(run);
    RONDO_ROLLED
    for (uint32_t step = 0; step <= steps; step++) {
        if (step < steps) {
            if (step == 1)
                rondo_first_step_take(run);
            rondo_run_step(run, step);
            if (collective == RONDO_BROADCAST && step > 1) {
                rondo_fence();
                rondo_broadcast_tell(run, step);
                rondo_broadcast_hear(run, step);
            }
            rondo_two_shot_push(how, collective, element, run, step);
        }
        if (step == 0) {
            rondo_launch_check(run);
            continue;
        }
        if (step == steps)
            rondo_last_step_send(run, steps);
        rondo_run_step(run, step - 1);
        rondo_two_shot_shards(how, collective, dtype, op, steps > 1, run, step - 1);
        rondo_two_shot_gather(how, collective, element, run, step - 1);
    }
    rondo_last_step_take(run, steps);
}

RONDO_FN void rondo_single_steps(struct rondo_how how, enum rondo_collective collective, enum rondo_algo algo,
                                 enum rondo_dtype dtype, enum rondo_redop op, unsigned element,
                                 const struct rondo_single_args *args)
{
    struct rondo_run run = rondo_launch_begin(&args->lane, &args->work);
    rondo_launch_mark(&args->lane);
    const bool tokens = collective == RONDO_BROADCAST && args->work.steps == 1 && rondo_block() == 0;
    rondo_run_step(&run, 0);
    if (tokens)
        rondo_tokens_send(&run, RONDO_TOKENS_OF_HALF);
    if (algo == RONDO_ONE_SHOT)
        rondo_one_shot_steps(how, collective, dtype, op, element, &run);
    else
        rondo_two_shot_steps(how, collective, dtype, op, element, &run);
    if (tokens) {
        rondo_run_step(&run, 0);
        rondo_tokens_take(&run, RONDO_TOKENS_OF_HALF);
    }
    rondo_launch_end(&run, args->work.steps);
}

RONDO_FN void rondo_single_lean(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                                unsigned element, unsigned ranks, const struct rondo_single_args *args)
{
    if (collective == RONDO_BROADCAST)
        rondo_lean_broadcast(element, ranks, args);
    else
        rondo_lean_all(collective, dtype, op, element, ranks, args);
}

/* Numbers of ranks that machines commonly have get code of their own. `element`: a constant where the type is one. */
RONDO_FN void rondo_single_body(enum rondo_collective collective, enum rondo_algo algo, enum rondo_dtype dtype,
                                enum rondo_redop op, unsigned element, const struct rondo_single_args *args)
{
    const struct rondo_how two = {2, 4, false}, four = {4, 2, false}, eight = {8, 1, false}, any = {0, 1, false};
    const unsigned ranks = args->lane.ranks;
    const bool lean = algo == RONDO_ONE_SHOT && args->work.step_lines == args->work.channels * rondo_threads() &&
                      args->work.steps == 1;
    if (lean && ranks == 2)
        rondo_single_lean(collective, dtype, op, element, 2, args);
    else if (lean && ranks == 4)
        rondo_single_lean(collective, dtype, op, element, 4, args);
    else if (lean && ranks == 8)
        rondo_single_lean(collective, dtype, op, element, 8, args);
    else if (ranks == 2)
        rondo_single_steps(two, collective, algo, dtype, op, element, args);
    else if (ranks == 4)
        rondo_single_steps(four, collective, algo, dtype, op, element, args);
    else if (ranks == 8)
        rondo_single_steps(eight, collective, algo, dtype, op, element, args);
    else
        rondo_single_steps(any, collective, algo, dtype, op, element, args);
}

/* Works of one kind, a line to a thread. The plan makes such launches for these numbers of ranks only. */
RONDO_FN void rondo_group_body(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                               const struct rondo_batch_head *head)
{
    if (head->lane.ranks == 2)
        rondo_lean_group(collective, dtype, op, 2, head);
    else if (head->lane.ranks == 4)
        rondo_lean_group(collective, dtype, op, 4, head);
    else
        rondo_lean_group(collective, dtype, op, 8, head);
}

/* ---- transfers alone ---- */

RONDO_FN const struct rondo_end *rondo_batch_ends(const struct rondo_batch_head *head)
{
    return (const struct rondo_end *)((const char *)head + head->ends_at);
}

RONDO_FN void rondo_transfers_body(const struct rondo_batch_head *head)
{
    struct rondo_run run = rondo_launch_begin(&head->lane, NULL);
    rondo_launch_check(&run);
    rondo_end_run(head, &run, rondo_batch_ends(head) + rondo_block());
    rondo_launch_end(&run, 0);
}

/* ---- a batch ---- */

/* The phases for any work. A batch's code for 2 and 4 ranks differs in how many lines are looked at together. */
RONDO_FN void rondo_batch_push_how(struct rondo_how how, const struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const unsigned element = rondo_dtype_bytes(work->dtype);
    if (work->algo == RONDO_ONE_SHOT)
        rondo_one_shot_push(how, work->collective, element, run, step);
    else
        rondo_two_shot_push(how, work->collective, element, run, step);
}

RONDO_CALL void rondo_batch_push(struct rondo_run run, uint32_t step)
{
    const struct rondo_how two = {2, 1, true}, four = {4, 1, true}, any = {0, 1, true};
    if (run.lane->ranks == 2)
        rondo_batch_push_how(two, &run, step);
    else if (run.lane->ranks == 4)
        rondo_batch_push_how(four, &run, step);
    else
        rondo_batch_push_how(any, &run, step);
}

RONDO_FN void rondo_batch_deliver_how(struct rondo_how how, struct rondo_run *run, uint32_t step)
{
    const struct rondo_work *work = run->work;
    const enum rondo_dtype dtype = (enum rondo_dtype)work->dtype;
    const enum rondo_redop op = (enum rondo_redop)work->redop;
    if (work->algo == RONDO_TWO_SHOT)
        rondo_two_shot_shards(how, work->collective, dtype, op, work->steps > 1, run, step);
    else if (rondo_reduces(work->collective))
        rondo_one_shot_reduce(how, work->collective, dtype, op, run, step);
    else
        rondo_one_shot_store(how, work->collective, rondo_dtype_bytes(dtype), run, step);
}

/* Returns whether the run is dead. */
RONDO_CALL bool rondo_batch_deliver_one(struct rondo_run run, uint32_t step)
{
    const struct rondo_how two = {2, 1, true}, four = {4, 1, true}, any = {0, 1, true};
    if (run.lane->ranks == 2)
        rondo_batch_deliver_how(two, &run, step);
    else if (run.lane->ranks == 4)
        rondo_batch_deliver_how(four, &run, step);
    else
        rondo_batch_deliver_how(any, &run, step);
    return run.dead;
}

RONDO_CALL bool rondo_batch_gather(struct rondo_run run, uint32_t step)
{
    const struct rondo_how any = {0, 1, true};
    rondo_two_shot_gather(any, run.work->collective, rondo_dtype_bytes(run.work->dtype), &run, step);
    return run.dead;
}

/* What a channel sends of all its works in a step. */
RONDO_FN void rondo_batch_send(const struct rondo_batch_head *head, const struct rondo_work *works,
                               struct rondo_run *run, uint32_t step)
{
    rondo_run_step(run, step);
    if (step)
        rondo_fence();
    if (head->steps == 1 && head->tokens && rondo_block() == 0)
        rondo_tokens_send(run, RONDO_TOKENS_OF_HALF);
    for (unsigned w = head->first[rondo_block()]; w <= head->last[rondo_block()]; w++) {
        run->work = &works[w];
        if (step > 1 && run->work->collective == RONDO_BROADCAST) {
            rondo_broadcast_tell(run, step);
            rondo_broadcast_hear(run, step);
        }
        rondo_batch_push(*run, step);
    }
}

/* What it makes of that. */
RONDO_FN void rondo_batch_deliver(const struct rondo_batch_head *head, const struct rondo_work *works,
                                  struct rondo_run *run, uint32_t step)
{
    const unsigned first = head->first[rondo_block()], last = head->last[rondo_block()];
    for (unsigned w = first; w <= last && !run->dead; w++) {
        run->work = &works[w];
        run->dead = rondo_batch_deliver_one(*run, step);
    }
    for (unsigned w = first; w <= last && !run->dead; w++) {
        run->work = &works[w];
        if (run->work->algo == RONDO_TWO_SHOT)
            run->dead = rondo_batch_gather(*run, step);
    }
}

/* Whether the results of a step are made after the next step's shards were sent. What allows it is that everyone hears from each
 * peer that it has finished the step before: by its results, or in a broadcast by a token. In a reduce only the root hears
 * results; the others know that a peer has finished a step by its shards of the next. */
RONDO_FN bool rondo_lags(const struct rondo_work *work)
{
    return work->algo == RONDO_TWO_SHOT && work->collective != RONDO_REDUCE;
}

/* Every channel sends what it has of all its works before it waits for any: m small works cost one latency, not m. A batch of
 * several steps has one work only. */
RONDO_FN void rondo_batch_exchange(const struct rondo_batch_head *head, struct rondo_run *run)
{
    const struct rondo_work *works = (const struct rondo_work *)((const char *)head + head->works_at);
    const uint32_t steps = head->steps, lag = steps > 1 && rondo_lags(&works[0]);
    if (lag)
        rondo_first_step_send(run);
    RONDO_ROLLED
    for (uint32_t step = 0; step < steps + lag; step++) {
        if (lag && step == 1)
            rondo_first_step_take(run);
        if (step < steps)
            rondo_batch_send(head, works, run, step);
        if (step == 0)
            rondo_launch_check(run);
        if (step >= lag) {
            if (step - lag == steps - 1)
                rondo_last_step_send(run, steps);
            rondo_run_step(run, step - lag);
            rondo_batch_deliver(head, works, run, step - lag);
        }
    }
    rondo_last_step_take(run, steps);
    if (steps == 1 && head->tokens && rondo_block() == 0)
        rondo_tokens_take(run, RONDO_TOKENS_OF_HALF);
}

RONDO_FN void rondo_batch_body(const struct rondo_batch_head *head)
{
    struct rondo_run run = rondo_launch_begin(&head->lane, NULL);
    rondo_launch_mark(&head->lane);
    if (rondo_block() < head->exchange_blocks) {
        rondo_batch_exchange(head, &run);
    } else {
        rondo_launch_check(&run);
        rondo_end_run(head, &run, rondo_batch_ends(head) + (rondo_block() - head->exchange_blocks));
    }
    rondo_launch_end(&run, head->steps);
}

#endif
