/* A channel's part of a launch: what of its works it sends and hears, step by step, by lines or by the bulk protocol. */
#ifndef RONDO_KERNELS_PART_H
#define RONDO_KERNELS_PART_H

#include "kernels/bulk.h"
#include "kernels/exchange.h"
#include "kernels/launch.h"
#include "kernels/post.h"

/* ---- tokens of launches of several steps ---- */

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
    if (run->lane->posts)
        rondo_post_tokens(*run, RONDO_TOKENS_OF_HALF, steps - 1, run->work->channels);
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
    if (run->lane->posts)
        rondo_post_tokens(*run, RONDO_TOKENS_OF_BEGIN, 0, run->work->channels);
}

RONDO_FN void rondo_first_step_take(struct rondo_run *run)
{
    rondo_tokens_take(run, RONDO_TOKENS_OF_BEGIN);
    rondo_barrier();
}

/* What a launch's code is made for. `any`: nothing is a constant but how; the phases are out of line, and each work says what it is. */
struct rondo_form {
    struct rondo_how how;
    bool any;
    bool direct; /* the work may be direct */
    enum rondo_collective collective;
    enum rondo_algo algo;
    enum rondo_dtype dtype;
    enum rondo_redop op;
    unsigned element;
};

/* The form of a work, for constant `how`. */
RONDO_FN struct rondo_form rondo_form_of(struct rondo_how how, const struct rondo_work *work)
{
    const struct rondo_form form = {how,
                                    false,
                                    false,
                                    (enum rondo_collective)work->collective,
                                    (enum rondo_algo)work->algo,
                                    (enum rondo_dtype)work->dtype,
                                    (enum rondo_redop)work->redop,
                                    rondo_dtype_bytes(work->dtype)};
    return form;
}

/* ---- the phases of a step ---- */

RONDO_FN void rondo_push_as(struct rondo_form form, const struct rondo_run *run, uint32_t step)
{
    if (form.algo == RONDO_ONE_SHOT)
        rondo_one_shot_push(form.how, form.collective, form.element, run, step);
    else
        rondo_two_shot_push(form.how, form.collective, form.element, run, step);
}

RONDO_FN void rondo_deliver_as(struct rondo_form form, struct rondo_run *run, uint32_t step)
{
    if (form.algo == RONDO_TWO_SHOT)
        rondo_two_shot_shards(form.how, form.collective, form.dtype, form.op, run->work->steps > 1 && !run->bulk, run,
                              step);
    else if (rondo_reduces(form.collective))
        rondo_one_shot_reduce(form.how, form.collective, form.dtype, form.op, run, step);
    else
        rondo_one_shot_store(form.how, form.collective, form.element, run, step);
}

/* The same for any work. Code for 2 and 4 ranks differs in how many lines are looked at together. */
RONDO_CALL void rondo_push_any(struct rondo_run run, uint32_t step)
{
    const struct rondo_how two = {2, 1, true}, four = {4, 1, true}, any = {0, 1, true};
    if (run.lane->ranks == 2)
        rondo_push_as(rondo_form_of(two, run.work), &run, step);
    else if (run.lane->ranks == 4)
        rondo_push_as(rondo_form_of(four, run.work), &run, step);
    else
        rondo_push_as(rondo_form_of(any, run.work), &run, step);
}

/* Returns whether the run is dead. */
RONDO_CALL bool rondo_deliver_any(struct rondo_run run, uint32_t step)
{
    const struct rondo_how two = {2, 1, true}, four = {4, 1, true}, any = {0, 1, true};
    if (run.lane->ranks == 2)
        rondo_deliver_as(rondo_form_of(two, run.work), &run, step);
    else if (run.lane->ranks == 4)
        rondo_deliver_as(rondo_form_of(four, run.work), &run, step);
    else
        rondo_deliver_as(rondo_form_of(any, run.work), &run, step);
    return run.dead;
}

RONDO_CALL bool rondo_gather_any(struct rondo_run run, uint32_t step)
{
    const struct rondo_how any = {0, 1, true};
    rondo_two_shot_gather(any, run.work->collective, rondo_dtype_bytes(run.work->dtype), &run, step);
    return run.dead;
}

/* ---- a channel's part of a launch ---- */

struct rondo_part {
    const struct rondo_work *works;
    struct rondo_channel_works mine;
    uint32_t steps; /* more than one only where there is one work */
    bool tokens;    /* in a launch of one step, this block exchanges them */
};

/* Whether the results of a step are made after the next step's shards were sent. What allows it is that everyone hears from each
 * peer that it has finished the step before: by its results, or in a broadcast by a token. In a reduce only the root hears
 * results; the others know that a peer has finished a step by its shards of the next. */
RONDO_FN bool rondo_lags(unsigned algo, unsigned collective)
{
    return algo == RONDO_TWO_SHOT && collective != RONDO_REDUCE;
}

/* What a channel sends of all its works in a step. */
RONDO_FN void rondo_part_send(struct rondo_form form, const struct rondo_part *part, struct rondo_run *run,
                              uint32_t step)
{
    rondo_run_step(run, step);
    if (part->tokens) {
        rondo_tokens_send(run, RONDO_TOKENS_OF_HALF);
        if (form.any && run->lane->posts)
            rondo_post_tokens(*run, RONDO_TOKENS_OF_HALF, step, 1);
    }
    for (unsigned w = part->mine.first; w <= part->mine.last; w++) {
        run->work = &part->works[w];
        const unsigned collective = form.any ? run->work->collective : form.collective;
        const unsigned algo = form.any ? run->work->algo : form.algo;
        /* A two-shot work that lags has its fence between its shards and its results. */
        if (step && (!rondo_lags(algo, collective) || collective == RONDO_BROADCAST))
            rondo_fence();
        if (step > 1 && collective == RONDO_BROADCAST) {
            rondo_broadcast_tell(run, step);
            if (form.any && run->lane->posts)
                rondo_post_told(*run, step);
            rondo_broadcast_hear(run, step);
        }
        if (form.any)
            rondo_push_any(*run, step);
        else
            rondo_push_as(form, run, step);
        if (form.any && run->lane->posts)
            rondo_post_pushed(*run, w, step);
    }
}

/* What it makes of that. */
RONDO_FN void rondo_part_deliver(struct rondo_form form, const struct rondo_part *part, struct rondo_run *run,
                                 uint32_t step)
{
    rondo_run_step(run, step);
    for (unsigned w = part->mine.first; w <= part->mine.last; w++) {
        run->work = &part->works[w];
        if (form.any)
            run->dead = rondo_deliver_any(*run, step);
        else
            rondo_deliver_as(form, run, step);
        if (form.any && run->lane->posts && run->work->algo == RONDO_TWO_SHOT)
            rondo_post_results(*run, w, step);
    }
    for (unsigned w = part->mine.first; w <= part->mine.last && !run->dead; w++) {
        run->work = &part->works[w];
        if ((form.any ? run->work->algo : form.algo) != RONDO_TWO_SHOT)
            continue;
        if (form.any)
            run->dead = rondo_gather_any(*run, step);
        else
            rondo_two_shot_gather(form.how, form.collective, form.element, run, step);
    }
}

/* Every channel sends what it has of all its works before it waits for any: m small works cost one latency, not m. This is the one
 * place that says what is sent and heard when; mailbox.h says why that is enough. */
RONDO_FN void rondo_part_run(struct rondo_form form, const struct rondo_part *part, struct rondo_run *run)
{
    const uint32_t steps = part->steps;
    const uint32_t lag = steps > 1 && (form.any ? rondo_lags(part->works[0].algo, part->works[0].collective)
                                                : rondo_lags(form.algo, form.collective));
    run->work = &part->works[part->mine.first];
    if (lag)
        rondo_first_step_send(run);
    RONDO_ROLLED
    for (uint32_t step = 0; step < steps + lag; step++) {
        if (lag && step == 1)
            rondo_first_step_take(run);
        if (step < steps)
            rondo_part_send(form, part, run, step);
        if (step == 0)
            rondo_launch_check(run);
        if (step < lag)
            continue;
        if (step - lag == steps - 1)
            rondo_last_step_send(run, steps);
        rondo_part_deliver(form, part, run, step - lag);
        if (step == lag && !part->tokens && form.any)
            rondo_launch_heard_by_all(run); /* in any of its blocks, threads may have no line */
        else if (step == lag && !part->tokens)
            rondo_launch_heard(run);
    }
    rondo_last_step_take(run, steps);
    if (part->tokens) {
        rondo_tokens_take(run, RONDO_TOKENS_OF_HALF);
        rondo_launch_heard_by_all(run);
    }
}

/* ---- a work by the bulk protocol ---- */

RONDO_FN void rondo_bulk_push(struct rondo_form form, struct rondo_run *run, uint32_t step)
{
    rondo_run_step(run, step);
    if (form.any)
        rondo_push_any(*run, step);
    else
        rondo_push_as(form, run, step);
    if (form.any && run->lane->posts)
        rondo_post_pushed(*run, 0, step);
}

/* What a step's pushes make, up to what its peers are to have of it. */
RONDO_FN void rondo_bulk_deliver(struct rondo_form form, struct rondo_run *run, uint32_t step)
{
    rondo_bulk_hear(run, RONDO_TOKENS_OF_PUSHES, step);
    if (step == 0)
        rondo_launch_heard(run);
    if (form.any)
        run->dead = rondo_deliver_any(*run, step);
    else
        rondo_deliver_as(form, run, step);
    if (form.any && run->lane->posts && run->work->algo == RONDO_TWO_SHOT)
        rondo_post_results(*run, 0, step);
}

/* A step's results go along with the next step's pushes, before it waits for its peers' results. */
RONDO_FN void rondo_bulk_run(struct rondo_form form, const struct rondo_work *work, struct rondo_run *run)
{
    const uint32_t steps = work->steps;
    const bool two_shot = (form.any ? work->algo : form.algo) == RONDO_TWO_SHOT;
    run->work = work;
    run->bulk = true;
    if (steps > 1)
        rondo_first_step_send(run);
    rondo_bulk_push(form, run, 0);
    rondo_bulk_close(run);
    rondo_bulk_tell(run, RONDO_TOKENS_OF_PUSHES, 0);
    rondo_launch_check(run);
    RONDO_ROLLED
    for (uint32_t step = 0; step < steps; step++) {
        rondo_bulk_deliver(form, run, step);
        if (step == 0 && steps > 1)
            rondo_first_step_take(run);
        if (step + 1 < steps)
            rondo_bulk_push(form, run, step + 1);
        rondo_bulk_close(run);
        rondo_bulk_tell(run, RONDO_TOKENS_OF_RESULTS, step);
        if (step + 1 < steps)
            rondo_bulk_tell(run, RONDO_TOKENS_OF_PUSHES, step + 1);
        rondo_bulk_hear(run, RONDO_TOKENS_OF_RESULTS, step);
        if (two_shot && form.any)
            run->dead = rondo_gather_any(*run, step);
        else if (two_shot)
            rondo_two_shot_gather(form.how, form.collective, form.element, run, step);
    }
}

#endif
