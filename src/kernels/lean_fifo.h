/* A message alone on its channel, no more than a line for each thread: what a small send or receive is. As in lean.h, all that
 * does not depend on the FIFO's position is done before the wait for the preceding kernel. */
#ifndef RONDO_KERNELS_LEAN_FIFO_H
#define RONDO_KERNELS_LEAN_FIFO_H

#include "kernels/fifo.h"
#include "kernels/launch.h"

RONDO_FN void rondo_lean_send(const struct rondo_batch_head *head, const struct rondo_stream *end,
                              struct rondo_range range)
{
    const struct rondo_lane_args *lane = &head->lane;
    const struct rondo_transfer *t = rondo_transfers_of(head) + end->first;
    const uint32_t count = (uint32_t)(range.end - range.first), mask = head->fifos.lines - 1;
    const uint32_t first = rondo_fifo_first(head, end, lane->rank, end->peer);
    const bool mine = rondo_thread() < count;
    char *mailbox = rondo_mailbox_to(lane, lane->ranks, end->peer);
    uint32_t *at = rondo_fifo_position(head, end);
    const uint32_t *credit = rondo_fifo_credit(head, rondo_mailbox_from(lane, lane->ranks, end->peer), end, end->peer);
    struct rondo_line line;

    struct rondo_run run = rondo_launch_begin_any(lane, NULL);
    const uint32_t position = rondo_word_load(at), taken = rondo_word_load(credit);
    if (mine)
        line = rondo_user_load(t->element, t->aligned, t->buffer, t->bytes, range.first + rondo_thread());
    const uint32_t p = position + rondo_thread(), number = first + (p & mask);
    if (mine && !run.dead && p - taken >= head->fifos.lines)
        rondo_fifo_await(&run, head->fifos.lines, credit, end->peer, p);
    if (mine && !run.dead) {
        if (rondo_line_is_special(line))
            rondo_line_send_special(lane, rondo_fifo_line(head, mailbox, number),
                                    rondo_fifo_escape(head, mailbox, number), line);
        else
            rondo_line_store(rondo_fifo_line(head, mailbox, number), line);
    }
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    rondo_barrier(); /* all threads have read the position */
    if (rondo_thread() == 0)
        rondo_word_store(at, position + count);
    rondo_launch_close(&run, 0);
}

RONDO_FN void rondo_lean_recv(const struct rondo_batch_head *head, const struct rondo_stream *end,
                              struct rondo_range range)
{
    const struct rondo_lane_args *lane = &head->lane;
    const struct rondo_transfer *t = rondo_transfers_of(head) + end->first;
    const uint32_t count = (uint32_t)(range.end - range.first), mask = head->fifos.lines - 1;
    const uint32_t first = rondo_fifo_first(head, end, end->peer, lane->rank), quarter = head->fifos.lines / 4;
    uint32_t *at = rondo_fifo_position(head, end);

    struct rondo_run run = rondo_launch_begin_any(lane, NULL);
    const uint32_t position = rondo_word_load(at), number = first + ((position + rondo_thread()) & mask);
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    if (rondo_thread() < count && !run.dead) {
        char *mailbox = rondo_mailbox_from(lane, lane->ranks, end->peer);
        char *place = rondo_fifo_line(head, mailbox, number);
        const struct rondo_line line =
            rondo_line_take(&run, place, rondo_fifo_escape(head, mailbox, number), end->peer, rondo_line_load(place));
        if (!run.dead)
            rondo_user_store(t->element, t->aligned, t->buffer, t->bytes, range.first + rondo_thread(), line);
    }
    rondo_trace_first(&run);
    const bool dead = rondo_barrier_any(run.dead); /* all threads have read the position */
    if (rondo_thread() == 0) {
        rondo_word_store(at, position + count);
        if (!dead && (position & (quarter - 1)) + count >= quarter) {
            rondo_fence();
            rondo_word_store(rondo_fifo_credit(head, rondo_mailbox_to(lane, lane->ranks, end->peer), end, lane->rank),
                             (position + count) & ~(quarter - 1));
        }
    }
    rondo_launch_close(&run, 0);
}

RONDO_FN void rondo_lean_copy(const struct rondo_batch_head *head, const struct rondo_stream *end,
                              struct rondo_range range)
{
    const struct rondo_transfer *t = rondo_transfers_of(head) + end->first;
    const uint64_t i = range.first + rondo_thread();
    struct rondo_run run = rondo_launch_begin_any(&head->lane, NULL);
    struct rondo_line line;
    if (i < range.end)
        line = rondo_user_load(t->element, t->aligned, t->from, t->bytes, i);
    rondo_launch_check(&run);
    rondo_launch_trace(&run);
    if (i < range.end && !run.dead)
        rondo_user_store(t->element, t->aligned, t->buffer, t->bytes, i, line);
    rondo_launch_end(&run, 0);
}

/* Whether a stream is such a message. */
RONDO_FN bool rondo_stream_is_lean(const struct rondo_batch_head *head, const struct rondo_stream *stream)
{
    const struct rondo_transfer *first = rondo_transfers_of(head) + stream->first;
    return !head->lane.posts && stream->end - stream->first == 1 && !first->direct && first->share <= rondo_threads() &&
           first->share <= head->fifos.lines / 4;
}

RONDO_FN void rondo_lean_transfer(const struct rondo_batch_head *head, const struct rondo_stream *stream)
{
    const struct rondo_range range = rondo_transfer_range(rondo_transfers_of(head) + stream->first, stream->channel);
    if (stream->kind == RONDO_SEND)
        rondo_lean_send(head, stream, range);
    else if (stream->kind == RONDO_RECV)
        rondo_lean_recv(head, stream, range);
    else
        rondo_lean_copy(head, stream, range);
}

#endif
