/* The bodies of the kernels: a launch of one work, of any size, and a launch of a batch. */
#ifndef RONDO_KERNELS_ENTRY_H
#define RONDO_KERNELS_ENTRY_H

#include "kernels/exchange.h"
#include "kernels/fifo.h"
#include "kernels/launch.h"
#include "kernels/lean.h"
#include "kernels/lean_fifo.h"

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

/* Whether the results of a step are made after the next step's shards were sent. What allows it is that everyone hears from each
 * peer that it has finished the step before: by its results, or in a broadcast by a token. In a reduce only the root hears
 * results; the others know that a peer has finished a step by its shards of the next. */
RONDO_FN bool rondo_lags(unsigned algo, unsigned collective)
{
    return algo == RONDO_TWO_SHOT && collective != RONDO_REDUCE;
}

/* A two-shot work in steps. */
RONDO_FN void rondo_two_shot_steps(struct rondo_how how, enum rondo_collective collective, enum rondo_dtype dtype,
                                   enum rondo_redop op, unsigned element, struct rondo_run *run)
{
    const uint32_t steps = run->work->steps, lag = rondo_lags(RONDO_TWO_SHOT, collective);
    if (steps > 1 && lag)
        rondo_first_step_send(run);
    RONDO_ROLLED
    for (uint32_t step = 0; step < steps + lag; step++) {
        if (step < steps) {
            if (step == 1 && lag)
                rondo_first_step_take(run);
            rondo_run_step(run, step);
            if (step > lag && (!lag || collective == RONDO_BROADCAST))
                rondo_fence();
            if (step > 1 && collective == RONDO_BROADCAST) {
                rondo_broadcast_tell(run, step);
                rondo_broadcast_hear(run, step);
            }
            rondo_two_shot_push(how, collective, element, run, step);
        }
        if (step == 0)
            rondo_launch_check(run);
        if (step < lag)
            continue;
        if (step - lag == steps - 1)
            rondo_last_step_send(run, steps);
        rondo_run_step(run, step - lag);
        rondo_two_shot_shards(how, collective, dtype, op, steps > 1, run, step - lag);
        rondo_two_shot_gather(how, collective, element, run, step - lag);
    }
    rondo_last_step_take(run, steps);
}

RONDO_FN void rondo_single_steps(struct rondo_how how, enum rondo_collective collective, enum rondo_algo algo,
                                 enum rondo_dtype dtype, enum rondo_redop op, unsigned element,
                                 const struct rondo_single_args *args)
{
    struct rondo_run run = rondo_launch_begin(&args->lane, &args->work);
    rondo_launch_mark(&args->lane);
    const bool rooted = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
    const bool tokens = rooted && args->work.steps == 1 && rondo_block() == 0;
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
    else if (collective == RONDO_REDUCE)
        rondo_lean_reduce(dtype, op, ranks, args);
    else
        rondo_lean_all(collective, dtype, op, element, ranks, args);
}

RONDO_FN void rondo_single_as(enum rondo_collective collective, enum rondo_algo algo, enum rondo_dtype dtype,
                              enum rondo_redop op, bool tuned, const struct rondo_single_args *args)
{
    const struct rondo_how two = {2, 4, false}, four = {4, 2, false}, eight = {8, 1, false}, any = {0, 1, false};
    const unsigned ranks = args->lane.ranks;
    const unsigned element = rondo_dtype_bytes(rondo_reduces(collective) ? dtype : args->work.dtype);
    const bool lean = algo == RONDO_ONE_SHOT && args->work.step_lines == args->work.channels * rondo_threads() &&
                      args->work.steps == 1;
    if (lean && ranks == 2)
        rondo_single_lean(collective, dtype, op, element, 2, args);
    else if (RONDO_VARIANTS && lean && ranks == 4)
        rondo_single_lean(collective, dtype, op, element, 4, args);
    else if (RONDO_VARIANTS && lean && ranks == 8)
        rondo_single_lean(collective, dtype, op, element, 8, args);
    else if (tuned && ranks == 2)
        rondo_single_steps(two, collective, algo, dtype, op, element, args);
    else if (tuned && ranks == 4)
        rondo_single_steps(four, collective, algo, dtype, op, element, args);
    else if (tuned && ranks == 8)
        rondo_single_steps(eight, collective, algo, dtype, op, element, args);
    else
        rondo_single_steps(any, collective, algo, dtype, op, element, args);
}

/* Numbers of ranks that machines commonly have get code of their own, and so do sums of the tuned types: a branch by the operator
 * costs 0.1 us at 1 KiB (two H200s). A work of data movement has a type of its own, too, of which only the alignment counts. */
RONDO_FN void rondo_single_body(enum rondo_collective collective, enum rondo_algo algo, enum rondo_dtype dtype,
                                bool tuned, const struct rondo_single_args *args)
{
    if (!rondo_reduces(collective) || (tuned && args->work.redop == RONDO_SUM))
        rondo_single_as(collective, algo, dtype, RONDO_SUM, tuned, args);
    else
        rondo_single_as(collective, algo, dtype, (enum rondo_redop)args->work.redop, false, args);
}

/* ---- a barrier alone, of one block ---- */

RONDO_FN void rondo_barrier_body(const struct rondo_lane_args *lane)
{
    struct rondo_run run = rondo_launch_begin(lane, NULL);
    rondo_run_step(&run, 0);
    rondo_tokens_send(&run, RONDO_TOKENS_OF_HALF);
    rondo_launch_check(&run);
    rondo_tokens_take(&run, RONDO_TOKENS_OF_HALF);
    rondo_launch_end(&run, 1);
}

/* ---- transfers alone ---- */

RONDO_FN void rondo_transfers_body(const struct rondo_batch_head *head)
{
    const struct rondo_stream stream = rondo_stream_of(head, rondo_block());
    struct rondo_range range;
    if (rondo_stream_is_lean(head, &stream, &range)) {
        if (stream.kind == RONDO_SEND)
            rondo_lean_send(head, &stream, range);
        else
            rondo_lean_recv(head, &stream, range);
        return;
    }
    struct rondo_run run = rondo_launch_begin(&head->lane, NULL);
    rondo_launch_check(&run);
    rondo_end_run(head, &run, &stream);
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

/* A channel's part of a launch: its works, and what is true of all. */
struct rondo_part {
    const struct rondo_work *works;
    struct rondo_channel_works mine;
    uint32_t steps;
    bool tokens; /* in a launch of one step, this block exchanges them */
};

/* What a channel sends of all its works in a step. */
RONDO_FN void rondo_part_send(const struct rondo_part *part, struct rondo_run *run, uint32_t step)
{
    rondo_run_step(run, step);
    if (step)
        rondo_fence();
    if (part->tokens)
        rondo_tokens_send(run, RONDO_TOKENS_OF_HALF);
    for (unsigned w = part->mine.first; w <= part->mine.last; w++) {
        run->work = &part->works[w];
        if (step > 1 && run->work->collective == RONDO_BROADCAST) {
            rondo_broadcast_tell(run, step);
            rondo_broadcast_hear(run, step);
        }
        rondo_batch_push(*run, step);
    }
}

/* What it makes of that. */
RONDO_FN void rondo_part_deliver(const struct rondo_part *part, struct rondo_run *run, uint32_t step)
{
    for (unsigned w = part->mine.first; w <= part->mine.last && !run->dead; w++) {
        run->work = &part->works[w];
        run->dead = rondo_batch_deliver_one(*run, step);
    }
    for (unsigned w = part->mine.first; w <= part->mine.last && !run->dead; w++) {
        run->work = &part->works[w];
        if (run->work->algo == RONDO_TWO_SHOT)
            run->dead = rondo_batch_gather(*run, step);
    }
}

/* Every channel sends what it has of all its works before it waits for any: m small works cost one latency, not m. A launch of
 * several steps has one work only. */
RONDO_FN void rondo_part_run(const struct rondo_part *part, struct rondo_run *run)
{
    const uint32_t steps = part->steps;
    const uint32_t lag = steps > 1 && rondo_lags(part->works[0].algo, part->works[0].collective);
    if (lag)
        rondo_first_step_send(run);
    RONDO_ROLLED
    for (uint32_t step = 0; step < steps + lag; step++) {
        if (lag && step == 1)
            rondo_first_step_take(run);
        if (step < steps)
            rondo_part_send(part, run, step);
        if (step == 0)
            rondo_launch_check(run);
        if (step >= lag) {
            if (step - lag == steps - 1)
                rondo_last_step_send(run, steps);
            rondo_run_step(run, step - lag);
            rondo_part_deliver(part, run, step - lag);
        }
    }
    rondo_last_step_take(run, steps);
    if (part->tokens)
        rondo_tokens_take(run, RONDO_TOKENS_OF_HALF);
}

RONDO_FN void rondo_batch_body(const struct rondo_batch_head *head)
{
    struct rondo_run run = rondo_launch_begin(&head->lane, NULL);
    rondo_launch_mark(&head->lane);
    if (rondo_block() < head->exchange_blocks) {
        const struct rondo_part part = {
            (const struct rondo_work *)((const char *)head + head->works_at),
            ((const struct rondo_channel_works *)((const char *)head + head->channels_at))[rondo_block()], head->steps,
            head->steps == 1 && head->tokens && rondo_block() == 0};
        rondo_part_run(&part, &run);
    } else {
        rondo_launch_check(&run);
        const struct rondo_stream stream = rondo_stream_of(head, rondo_block() - head->exchange_blocks);
        rondo_end_run(head, &run, &stream);
    }
    rondo_launch_end(&run, head->steps);
}

RONDO_FN void rondo_group_as(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                             const struct rondo_batch_head *head)
{
    if (head->lane.ranks == 2)
        rondo_lean_group(collective, dtype, op, 2, head);
    else if (head->lane.ranks == 4)
        rondo_lean_group(collective, dtype, op, 4, head);
    else
        rondo_lean_group(collective, dtype, op, 8, head);
}

/* Works of one kind, a line to a thread. The plan makes such launches for these numbers of ranks only. */
RONDO_FN void rondo_group_body(enum rondo_collective collective, enum rondo_dtype dtype, bool tuned,
                               const struct rondo_batch_head *head)
{
    const struct rondo_work *works = (const struct rondo_work *)((const char *)head + head->works_at);
    if (!RONDO_VARIANTS)
        rondo_batch_body(head);
    else if (tuned && works->redop == RONDO_SUM)
        rondo_group_as(collective, dtype, RONDO_SUM, head);
    else
        rondo_group_as(collective, dtype, (enum rondo_redop)works->redop, head);
}

/* One work on the batch's code. */
RONDO_FN void rondo_single_any(const struct rondo_single_args *args)
{
    const struct rondo_work *work = &args->work;
    const bool rooted = work->collective == RONDO_BROADCAST || work->collective == RONDO_REDUCE;
    const struct rondo_part part = {work, {0, 0}, work->steps, work->steps == 1 && rooted && rondo_block() == 0};
    struct rondo_run run = rondo_launch_begin(&args->lane, work);
    rondo_launch_mark(&args->lane);
    rondo_part_run(&part, &run);
    rondo_launch_end(&run, work->steps);
}

#endif
