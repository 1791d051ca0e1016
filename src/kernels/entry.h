/* The bodies of the kernels: a launch of one work, of any size, and a launch of a batch. */
#ifndef RONDO_KERNELS_ENTRY_H
#define RONDO_KERNELS_ENTRY_H

#include "kernels/copied.h"
#include "kernels/direct.h"
#include "kernels/fifo.h"
#include "kernels/launch.h"
#include "kernels/lean.h"
#include "kernels/lean_fifo.h"
#include "kernels/part.h"
#include "kernels/post.h"
#include "kernels/transfer.h"

/* Nothing is known of the works when it is compiled. */
RONDO_FN struct rondo_form rondo_form_any(void)
{
    const struct rondo_form form = {.how = {0, 1, true}, .any = true};
    return form;
}

/* ---- a launch of one work ---- */

/* Runs a work that may be direct as one, if it can be: false, and nothing has been done. */
RONDO_FN bool rondo_single_direct(struct rondo_form form, const struct rondo_single_args *args, struct rondo_run *run)
{
    if (rondo_reduces(form.collective) || !args->work.copied)
        return rondo_direct_run(form.how, form.collective, form.dtype, form.op, form.element, &args->exports, run);
    const enum rondo_copied_end came = rondo_copied_run(&args->exports, *run);
    run->dead |= came == RONDO_COPIED_DEAD;
    return came != RONDO_COPIED_NOT;
}

RONDO_FN void rondo_single_steps(struct rondo_form form, const struct rondo_single_args *args)
{
    const struct rondo_work *work = &args->work;
    const unsigned collective = form.any ? work->collective : form.collective;
    const bool rooted = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
    const struct rondo_part part = {work, {0, 0}, work->steps, work->steps == 1 && rooted && rondo_block() == 0};
    struct rondo_run run = rondo_launch_begin_any(&args->lane, work);
    rondo_launch_mark(&run);
    if (!form.direct || !work->direct || !rondo_single_direct(form, args, &run)) {
        if (work->bulk)
            rondo_bulk_run(form, work, &run);
        else
            rondo_part_run(form, &part, &run);
    }
    rondo_launch_end(&run, work->steps);
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
                              enum rondo_redop op, bool tuned, const struct rondo_single_args *args)
{
    const unsigned ranks = args->lane.ranks;
    const unsigned element = rondo_dtype_bytes(rondo_reduces(collective) ? dtype : args->work.dtype);
    const bool direct = !rondo_owns_shards(collective) || algo == RONDO_TWO_SHOT;
    const struct rondo_form form = {{0, 1, false}, false, direct, collective, algo, dtype, op, element};
    if (tuned && ranks == 2)
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
        rondo_single_as(collective, algo, dtype, RONDO_SUM, tuned, args);
    else
        rondo_single_as(collective, algo, dtype, (enum rondo_redop)args->work.redop, false, args);
}

/* One work on the batch's code. */
RONDO_FN void rondo_single_any(const struct rondo_single_args *args)
{
    rondo_single_steps(rondo_form_any(), args);
}

/* ---- a launch of one work that gives no thread more than a line ---- */

RONDO_FN void rondo_lean_of(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                            unsigned element, unsigned ranks, const struct rondo_single_args *args)
{
    if (collective == RONDO_BROADCAST)
        rondo_lean_broadcast(element, ranks, args);
    else if (collective == RONDO_REDUCE)
        rondo_lean_reduce(dtype, op, ranks, args);
    else
        rondo_lean_all(collective, dtype, op, element, ranks, args);
}

/* The plan makes such launches for these numbers of ranks only. */
RONDO_FN void rondo_lean_as(enum rondo_collective collective, enum rondo_dtype dtype, enum rondo_redop op,
                            const struct rondo_single_args *args)
{
    const unsigned element = rondo_dtype_bytes(rondo_reduces(collective) ? dtype : args->work.dtype);
    if (args->lane.ranks == 2)
        rondo_lean_of(collective, dtype, op, element, 2, args);
    else if (!RONDO_VARIANTS)
        rondo_single_any(args);
    else if (args->lane.ranks == 4)
        rondo_lean_of(collective, dtype, op, element, 4, args);
    else
        rondo_lean_of(collective, dtype, op, element, 8, args);
}

RONDO_FN void rondo_lean_body(enum rondo_collective collective, enum rondo_dtype dtype, bool tuned,
                              const struct rondo_single_args *args)
{
    if (!rondo_reduces(collective) || (tuned && args->work.redop == RONDO_SUM))
        rondo_lean_as(collective, dtype, RONDO_SUM, args);
    else
        rondo_lean_as(collective, dtype, (enum rondo_redop)args->work.redop, args);
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
    if (rondo_stream_is_lean(head, &stream)) {
        rondo_lean_transfer(head, &stream);
        return;
    }
    struct rondo_run run = rondo_launch_begin_any(&head->lane, NULL);
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    rondo_end_run(head, &run, &stream);
    rondo_launch_end(&run, 0);
}

/* The plan makes such launches of lean streams only. */
RONDO_FN void rondo_transfers_lean_body(const struct rondo_batch_head *head)
{
    const struct rondo_stream stream = rondo_stream_of(head, rondo_block());
    rondo_lean_transfer(head, &stream);
}

/* ---- a batch ---- */

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

#endif
