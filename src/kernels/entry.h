/* The bodies of the kernels: a launch of one work, of any size, and a launch of a batch. */
#ifndef RONDO_KERNELS_ENTRY_H
#define RONDO_KERNELS_ENTRY_H

#include "kernels/bulk.h"
#include "kernels/direct.h"
#include "kernels/exchange.h"
#include "kernels/fifo.h"
#include "kernels/launch.h"
#include "kernels/lean.h"
#include "kernels/lean_fifo.h"
#include "kernels/post.h"
#include "kernels/transfer.h"

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
    bool wide;   /* and then has code for common numbers of ranks, see rondo_direct_run */
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
        if (step == lag && !part->tokens)
            rondo_launch_heard(run);
    }
    rondo_last_step_take(run, steps);
    if (part->tokens) {
        rondo_tokens_take(run, RONDO_TOKENS_OF_HALF);
        rondo_launch_heard(run);
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

/* ---- a launch of one work ---- */

RONDO_FN void rondo_single_steps(struct rondo_form form, const struct rondo_single_args *args)
{
    const struct rondo_work *work = &args->work;
    const unsigned collective = form.any ? work->collective : form.collective;
    const bool rooted = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
    const struct rondo_part part = {work, {0, 0}, work->steps, work->steps == 1 && rooted && rondo_block() == 0};
    struct rondo_run run = rondo_launch_begin_any(&args->lane, work);
    rondo_launch_mark(&run);
    if (!form.direct || !work->direct ||
        !rondo_direct_run(form.how, form.wide, form.collective, form.dtype, form.op, form.element, &args->exports,
                          &run)) {
        if (work->bulk)
            rondo_bulk_run(form, work, &run);
        else
            rondo_part_run(form, &part, &run);
    }
    rondo_launch_end(&run, work->steps);
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

/* The same for a constant number of ranks. */
RONDO_FN void rondo_single_of(struct rondo_form form, unsigned ranks, unsigned chunk,
                              const struct rondo_single_args *args)
{
    form.how.ranks = ranks;
    form.how.chunk = chunk;
    rondo_single_steps(form, args);
}

RONDO_FN void rondo_single_as(enum rondo_collective collective, enum rondo_algo algo, enum rondo_dtype dtype,
                              enum rondo_redop op, bool tuned, bool wide, const struct rondo_single_args *args)
{
    const unsigned ranks = args->lane.ranks;
    const unsigned element = rondo_dtype_bytes(rondo_reduces(collective) ? dtype : args->work.dtype);
    const bool direct = !rondo_owns_shards(collective) || algo == RONDO_TWO_SHOT;
    const struct rondo_form form = {{0, 1, false}, false, direct, wide, collective, algo, dtype, op, element};
    const bool lean = algo == RONDO_ONE_SHOT && !args->work.bulk && args->work.steps == 1 &&
                      args->work.step_lines == args->work.channels * rondo_threads();
    if (lean && ranks == 2)
        rondo_single_lean(collective, dtype, op, element, 2, args);
    else if (RONDO_VARIANTS && lean && ranks == 4)
        rondo_single_lean(collective, dtype, op, element, 4, args);
    else if (RONDO_VARIANTS && lean && ranks == 8)
        rondo_single_lean(collective, dtype, op, element, 8, args);
    else if (tuned && ranks == 2)
        rondo_single_of(form, 2, 4, args);
    else if (RONDO_VARIANTS && tuned && ranks == 4)
        rondo_single_of(form, 4, 2, args);
    else if (RONDO_VARIANTS && tuned && ranks == 8)
        rondo_single_of(form, 8, 1, args);
    else
        rondo_single_steps(form, args);
}

/* Numbers of ranks that machines commonly have get code of their own, and so do sums of the tuned types: a branch by the operator
 * costs 0.1 us at 1 KiB (two H200s). A work of data movement has a type of its own, too, of which only the alignment counts. */
RONDO_FN void rondo_single_body(enum rondo_collective collective, enum rondo_algo algo, enum rondo_dtype dtype,
                                bool tuned, const struct rondo_single_args *args)
{
    if (!rondo_reduces(collective) || (tuned && args->work.redop == RONDO_SUM))
        rondo_single_as(collective, algo, dtype, RONDO_SUM, tuned, tuned, args);
    else
        rondo_single_as(collective, algo, dtype, (enum rondo_redop)args->work.redop, false, tuned, args);
}

/* ---- a barrier alone, of one block ---- */

RONDO_FN void rondo_barrier_body(const struct rondo_lane_args *lane)
{
    struct rondo_run run = rondo_launch_begin(lane, NULL);
    rondo_run_step(&run, 0);
    rondo_tokens_send(&run, RONDO_TOKENS_OF_HALF);
    if (lane->posts)
        rondo_post_tokens(run, RONDO_TOKENS_OF_HALF, 0, 1);
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    rondo_tokens_take(&run, RONDO_TOKENS_OF_HALF);
    rondo_trace_first(&run);
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
    struct rondo_run run = rondo_launch_begin_any(&head->lane, NULL);
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    rondo_end_run(head, &run, &stream);
    rondo_launch_end(&run, 0);
}

/* ---- a batch ---- */

/* Nothing is known of its works when it is compiled. */
RONDO_FN struct rondo_form rondo_form_any(void)
{
    const struct rondo_form form = {.how = {0, 1, true}, .any = true};
    return form;
}

/* What the ranks of a launch run must be the same. One block asks, before anything of the launch is sent. */
RONDO_CALL void rondo_batch_check(const struct rondo_batch_head *head, struct rondo_run run)
{
    const struct rondo_lane_args *lane = run.lane;
    struct rondo_line line = {{0}};
    line.w[0] = (uint32_t)head->signature;
    line.w[1] = (uint32_t)(head->signature >> 32);
    rondo_run_step(&run, 0);
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks && !run.dead; d += rondo_threads()) {
        const unsigned p = rondo_peer_after(lane->rank, d, lane->ranks);
        char *mailbox = rondo_mailbox_to(lane, lane->ranks, p);
        rondo_line_store(rondo_token(&run, RONDO_TOKENS_OF_CHECK, mailbox, rondo_slot(lane->rank, p)), line);
    }
    if (lane->posts)
        rondo_post_tokens(run, RONDO_TOKENS_OF_CHECK, 0, 1);
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks && !run.dead; d += rondo_threads()) {
        const unsigned p = rondo_peer_after(lane->rank, d, lane->ranks);
        char *mailbox = rondo_mailbox_from(lane, lane->ranks, p);
        char *at = rondo_token(&run, RONDO_TOKENS_OF_CHECK, mailbox, rondo_slot(p, lane->rank));
        const struct rondo_line came = rondo_line_take(&run, at, NULL, p, rondo_line_load(at));
        const uint64_t theirs = came.w[0] | (uint64_t)came.w[1] << 32;
        if (!run.dead && theirs != head->signature)
            rondo_give_up_different(&run, p, head->signature, theirs);
    }
}

RONDO_FN void rondo_batch_body(const struct rondo_batch_head *head)
{
    struct rondo_run run = rondo_launch_begin_any(&head->lane, NULL);
    rondo_launch_mark(&run);
    if (head->signature && rondo_block() == 0)
        rondo_batch_check(head, run);
    if (rondo_block() < head->exchange_blocks) {
        const struct rondo_part part = {
            (const struct rondo_work *)((const char *)head + head->works_at),
            ((const struct rondo_channel_works *)((const char *)head + head->channels_at))[rondo_block()], head->steps,
            head->steps == 1 && head->tokens && rondo_block() == 0};
        if (part.mine.first <= part.mine.last && part.works[part.mine.first].bulk)
            rondo_bulk_run(rondo_form_any(), &part.works[0], &run);
        else
            rondo_part_run(rondo_form_any(), &part, &run);
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
    rondo_single_steps(rondo_form_any(), args);
}

#endif
