/* Sends and receives: a FIFO of lines in the receiver's mailbox for each ordered pair of ranks and each FIFO channel.
 *
 * A message of so many bytes lies on so many channels (rondo_fifo_share), as sender and receiver both compute from its size; on
 * each of these the lines of all messages follow each other in one stream, in the order in which they were posted. How the
 * messages were grouped into launches is each side's own affair.
 *
 * Line p of the stream uses place p % lines of its FIFO. A line is published as in mailbox.h. The sender may write line p once the
 * receiver has taken line p - lines; it knows so from its credit: a word in its own mailbox to which the receiver
 * writes a position below which everything was taken. The receiver writes it whenever it has passed a multiple of a quarter
 * of the FIFO, so when it rests, all but a quarter is free, and a sender never waits for a receiver that has nothing left
 * to do. What orders the emptying of lines before the credit that allows their reuse: all threads' stores, a block barrier,
 * one thread's fence, its store of the credit; the sender's load of the credit, its store of the line, which depends on it.
 *
 * Both sides keep their position in device memory and advance it at a launch's end, so replays go on where the last launch
 * stopped. Positions wrap; all comparisons are of differences. */
#ifndef RONDO_KERNELS_FIFO_H
#define RONDO_KERNELS_FIFO_H

#include "kernels/mailbox.h"
#include "kernels/post.h"
#include "kernels/trace.h"
#include "kernels/user.h"

/* What one block runs: transfers first … end - 1, as far as they lie on one FIFO channel. */
struct rondo_stream {
    unsigned first, end, peer, kind, channel;
};

/* `block`: counted from the first block of transfers. */
RONDO_FN struct rondo_stream rondo_stream_of(const struct rondo_batch_head *head, unsigned block)
{
    const struct rondo_end *end = (const struct rondo_end *)((const char *)head + head->ends_at);
    RONDO_ROLLED
    while (block >= end->block0 + (unsigned)end->channels)
        end++;
    struct rondo_stream stream = {end->first, end->end, end->peer, end->kind, block - end->block0};
    return stream;
}

RONDO_FN const struct rondo_transfer *rondo_transfers_of(const struct rondo_batch_head *head)
{
    return (const struct rondo_transfer *)((const char *)head + head->transfers_at);
}

struct rondo_range {
    uint64_t first, end;
};

/* The lines of a message that lie on a channel. */
RONDO_FN struct rondo_range rondo_transfer_range(const struct rondo_transfer *transfer, unsigned channel)
{
    const uint64_t lines = (transfer->bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES, share = transfer->share;
    struct rondo_range range = {channel * share, channel * share + share};
    range.first = range.first < lines ? range.first : lines;
    range.end = range.end < lines ? range.end : lines;
    return range;
}

/* A thread's place in the stream of an end: the message that holds line `base` and following ones of what this launch
 * streams, its lines range.first … */
struct rondo_cursor {
    const struct rondo_transfer *transfer, *stop;
    struct rondo_range range;
    uint64_t base;
};

RONDO_FN struct rondo_cursor rondo_cursor_begin(const struct rondo_transfer *transfers, const struct rondo_stream *end)
{
    struct rondo_cursor cursor = {transfers + end->first, transfers + end->end, {0, 0}, 0};
    cursor.range = rondo_transfer_range(cursor.transfer, end->channel);
    return cursor;
}

/* Moves on to the message of line s; false: there are not so many lines. */
RONDO_FN bool rondo_cursor_seek(const struct rondo_stream *end, struct rondo_cursor *cursor, uint64_t s)
{
    while (cursor->transfer < cursor->stop && s - cursor->base >= cursor->range.end - cursor->range.first) {
        cursor->base += cursor->range.end - cursor->range.first;
        cursor->transfer++;
        if (cursor->transfer < cursor->stop)
            cursor->range = rondo_transfer_range(cursor->transfer, end->channel);
    }
    return cursor->transfer < cursor->stop;
}

/* How many lines an end streams. */
RONDO_FN uint64_t rondo_stream_lines(const struct rondo_transfer *transfers, const struct rondo_stream *end)
{
    struct rondo_cursor cursor = rondo_cursor_begin(transfers, end);
    rondo_cursor_seek(end, &cursor, UINT64_MAX);
    return cursor.base;
}

/* Where this rank keeps how far it is. */
RONDO_FN uint32_t *rondo_fifo_position(const struct rondo_batch_head *head, const struct rondo_stream *end)
{
    return head->fifos.positions +
           ((size_t)(end->kind == RONDO_RECV) * head->lane.ranks + end->peer) * head->fifos.channels + end->channel;
}

/* Number of the first line of the FIFO from `sender`, among all FIFOs of `receiver`'s mailbox. */
RONDO_FN uint32_t rondo_fifo_first(const struct rondo_batch_head *head, const struct rondo_stream *end, unsigned sender,
                                   unsigned receiver)
{
    return (rondo_slot(sender, receiver) * head->fifos.channels + end->channel) * head->fifos.lines;
}
RONDO_FN char *rondo_fifo_line(const struct rondo_batch_head *head, char *mailbox, uint32_t number)
{
    return mailbox + head->fifos.fifos_at + (size_t)number * RONDO_LINE_BYTES;
}
RONDO_FN uint8_t *rondo_fifo_escape(const struct rondo_batch_head *head, char *mailbox, uint32_t number)
{
    const size_t lines = (size_t)(head->lane.ranks - 1) * head->fifos.channels * head->fifos.lines;
    return (uint8_t *)mailbox + head->fifos.fifos_at + lines * RONDO_LINE_BYTES + number;
}
/* The credit that `receiver` gives, in the sender's mailbox. */
RONDO_FN uint32_t *rondo_fifo_credit(const struct rondo_batch_head *head, char *mailbox, const struct rondo_stream *end,
                                     unsigned receiver)
{
    return (uint32_t *)(mailbox + head->fifos.credits_at) + receiver * head->fifos.channels + end->channel;
}

/* The block has heard from its peer. The trace has what it heard first, and is block 0's, which begins with the launch's first
 * transfer. The next launch is not let in yet, even if this one is large (launch.h): what comes first does not say that the rest
 * will, which may be of later launches of the peer. */
RONDO_FN void rondo_stream_heard(const struct rondo_run *run, const struct rondo_stream *end)
{
    if (end->first == 0)
        rondo_trace_first(run);
}

/* Waits until the receiver has taken what lay in the place of line `position`; gives back its credit. */
RONDO_CALL uint32_t rondo_fifo_await(struct rondo_run *run, uint32_t room, const uint32_t *credit, unsigned peer,
                                     uint32_t position)
{
    uint64_t since = 0;
    uint32_t taken = rondo_word_load(credit);
    for (unsigned spins = 1; position - taken >= room && !run->dead; spins++) {
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK == 0) {
            since = rondo_wait_look(run->lane, NULL, position, peer, since, spins);
            run->dead = since == RONDO_WAIT_OVER;
        }
        taken = rondo_word_load(credit);
    }
    return taken;
}

/* A thread's lines i, i + threads, … of a message, as many as it handles at once: what it loads of users' buffers and of FIFOs it has
 * to wait for, so several are under way together. */
enum { RONDO_FIFO_CHUNK = 4 };
struct rondo_fifo_lines {
    struct rondo_line of[RONDO_FIFO_CHUNK];
};

/* How many they are: those that are whole, and of words at least, before line `end` and less than `left` lines behind the first; or one of
 * any kind. */
RONDO_FN unsigned rondo_fifo_chunk(const struct rondo_transfer *t, uint64_t i, uint64_t end, uint64_t left)
{
    uint64_t whole = t->aligned || t->words ? t->bytes / RONDO_LINE_BYTES : 0;
    unsigned n = 1;
    if (left < end - i)
        end = i + left;
    whole = whole < end ? whole : end;
    RONDO_UNROLL
    for (unsigned u = 1; u < RONDO_FIFO_CHUNK; u++)
        n += i + (uint64_t)u * rondo_threads() < whole;
    return n;
}

RONDO_FN void rondo_fifo_load(const struct rondo_transfer *t, const void *buffer, uint64_t i, unsigned n,
                              struct rondo_fifo_lines *lines)
{
    const char *from = (const char *)buffer + i * RONDO_LINE_BYTES;
    const uint64_t pitch = (uint64_t)rondo_threads() * RONDO_LINE_BYTES;
    if (n == 1) {
        lines->of[0] = rondo_user_load(t->element, t->aligned, buffer, t->bytes, i);
    } else if (t->aligned) {
        RONDO_UNROLL
        for (unsigned u = 0; u < RONDO_FIFO_CHUNK; u++)
            if (u < n)
                lines->of[u] = *(const struct rondo_line *)(from + u * pitch);
    } else {
        RONDO_UNROLL
        for (unsigned u = 0; u < RONDO_FIFO_CHUNK; u++)
            if (u < n)
                lines->of[u] = rondo_user_load_ragged(4, from + u * pitch, RONDO_LINE_BYTES);
    }
}

RONDO_FN void rondo_fifo_store(const struct rondo_transfer *t, uint64_t i, unsigned n,
                               const struct rondo_fifo_lines *lines)
{
    char *to = (char *)t->buffer + i * RONDO_LINE_BYTES;
    const uint64_t pitch = (uint64_t)rondo_threads() * RONDO_LINE_BYTES;
    if (n == 1) {
        rondo_user_store(t->element, t->aligned, t->buffer, t->bytes, i, lines->of[0]);
    } else if (t->aligned) {
        RONDO_UNROLL
        for (unsigned u = 0; u < RONDO_FIFO_CHUNK; u++)
            if (u < n)
                *(struct rondo_line *)(to + u * pitch) = lines->of[u];
    } else {
        RONDO_UNROLL
        for (unsigned u = 0; u < RONDO_FIFO_CHUNK; u++)
            if (u < n)
                rondo_user_store_ragged(4, to + u * pitch, RONDO_LINE_BYTES, lines->of[u]);
    }
}

/* Posts lines number … of the FIFO to the end's peer, if need be. One thread, after a barrier. */
RONDO_FN void rondo_fifo_post(const struct rondo_batch_head *head, const struct rondo_run *run,
                              const struct rondo_stream *end, uint32_t number, uint64_t lines)
{
    char *mailbox = rondo_mailbox_to(run->lane, run->lane->ranks, end->peer);
    rondo_fence();
    rondo_post_lines(run, end->peer, rondo_fifo_line(head, mailbox, number), rondo_fifo_escape(head, mailbox, number),
                     lines);
}

RONDO_FN void rondo_fifo_put(const struct rondo_batch_head *head, char *mailbox, uint32_t number,
                             struct rondo_line line)
{
    if (rondo_line_is_special(line))
        rondo_line_send_special(&head->lane, rondo_fifo_line(head, mailbox, number),
                                rondo_fifo_escape(head, mailbox, number), line);
    else
        rondo_line_store(rondo_fifo_line(head, mailbox, number), line);
}

/* Where posts are needed, the stream is cut where the receiver gives credit: what a part waits for was posted with the parts
 * before it.
 *
 * All threads take steps of the same length, whatever these have for them: so they are never more than a step apart, and one that waits
 * for room is not ahead of one whose lines the receiver needs to give that room. Where the FIFO does not hold a step and a quarter, a
 * step has one line for each. */
RONDO_FN void rondo_fifo_send(const struct rondo_batch_head *head, struct rondo_run *run,
                              const struct rondo_transfer *transfers, const struct rondo_stream *end)
{
    const struct rondo_lane_args *lane = run->lane;
    char *mailbox = rondo_mailbox_to(lane, lane->ranks, end->peer);
    const uint32_t *credit = rondo_fifo_credit(head, rondo_mailbox_from(lane, lane->ranks, end->peer), end, end->peer);
    const uint32_t first = rondo_fifo_first(head, end, lane->rank, end->peer), mask = head->fifos.lines - 1;
    const uint32_t quarter = head->fifos.lines / 4, position = rondo_word_load(rondo_fifo_position(head, end));
    const uint64_t total = lane->posts ? rondo_stream_lines(transfers, end) : UINT64_MAX;
    const bool chunks = !lane->posts && head->fifos.lines - quarter > RONDO_FIFO_CHUNK * rondo_threads();
    const uint32_t step = (chunks ? RONDO_FIFO_CHUNK : 1) * rondo_threads();
    struct rondo_cursor cursor = rondo_cursor_begin(transfers, end);
    uint32_t taken = rondo_word_load(credit);
    uint64_t s = rondo_thread(), limit = 0;
    RONDO_ROLLED
    do {
        const uint64_t from = limit;
        if (lane->posts)
            limit += quarter - ((position + (uint32_t)limit) & (quarter - 1));
        limit = lane->posts && limit < total ? limit : total;
        RONDO_ROLLED
        for (; s < limit && !run->dead && rondo_cursor_seek(end, &cursor, s); s += step) {
            const uint32_t p = position + (uint32_t)s, last = p + step - rondo_threads();
            const uint64_t i = cursor.range.first + (s - cursor.base);
            if (chunks && last - taken >= head->fifos.lines)
                taken = rondo_word_load(credit);
            if (chunks && last - taken < head->fifos.lines &&
                rondo_fifo_chunk(cursor.transfer, i, cursor.range.end, limit - s) == RONDO_FIFO_CHUNK) {
                struct rondo_fifo_lines lines;
                rondo_fifo_load(cursor.transfer, cursor.transfer->buffer, i, RONDO_FIFO_CHUNK, &lines);
                RONDO_UNROLL
                for (unsigned u = 0; u < RONDO_FIFO_CHUNK; u++)
                    rondo_fifo_put(head, mailbox, first + ((p + u * rondo_threads()) & mask), lines.of[u]);
                continue;
            }
            RONDO_ROLLED
            for (uint64_t one = s; one < limit && one < s + step && rondo_cursor_seek(end, &cursor, one);
                 one += rondo_threads()) {
                const struct rondo_transfer *t = cursor.transfer;
                const uint32_t at = position + (uint32_t)one;
                const struct rondo_line line = rondo_user_load(t->element, t->aligned, t->buffer, t->bytes,
                                                               cursor.range.first + (one - cursor.base));
                if (at - taken >= head->fifos.lines)
                    taken = rondo_fifo_await(run, head->fifos.lines, credit, end->peer, at);
                if (run->dead)
                    break;
                rondo_fifo_put(head, mailbox, first + (at & mask), line);
            }
        }
        if (lane->posts && !rondo_barrier_any(run->dead) && rondo_thread() == 0)
            rondo_fifo_post(head, run, end, first + ((position + (uint32_t)from) & mask), limit - from);
    } while (limit < total);
    rondo_barrier(); /* all threads have read the position */
    if (rondo_thread() == 0)
        rondo_word_store(rondo_fifo_position(head, end), position + (uint32_t)rondo_stream_lines(transfers, end));
}

RONDO_FN void rondo_fifo_recv(const struct rondo_batch_head *head, struct rondo_run *run,
                              const struct rondo_transfer *transfers, const struct rondo_stream *end)
{
    const struct rondo_lane_args *lane = run->lane;
    const unsigned me = lane->rank;
    char *sender = rondo_mailbox_to(lane, lane->ranks, end->peer);
    char *mailbox = rondo_mailbox_from(lane, lane->ranks, end->peer);
    const uint32_t first = rondo_fifo_first(head, end, end->peer, me), mask = head->fifos.lines - 1;
    const uint32_t quarter = head->fifos.lines / 4;
    const uint32_t position = rondo_word_load(rondo_fifo_position(head, end));
    const uint64_t total = rondo_stream_lines(transfers, end);
    struct rondo_cursor cursor = rondo_cursor_begin(transfers, end);
    uint64_t s = rondo_thread(), limit = 0;
    RONDO_ROLLED
    while (limit < total) {
        limit += quarter - ((position + (uint32_t)limit) & (quarter - 1));
        const bool passes = limit <= total; /* a multiple of a quarter */
        limit = passes ? limit : total;
        RONDO_ROLLED
        for (unsigned n; s < limit && !run->dead; s += n * rondo_threads()) {
            rondo_cursor_seek(end, &cursor, s);
            const struct rondo_transfer *t = cursor.transfer;
            const uint64_t i = cursor.range.first + (s - cursor.base);
            const uint32_t p = position + (uint32_t)s;
            struct rondo_fifo_lines lines;
            n = rondo_fifo_chunk(t, i, cursor.range.end, limit - s);
            RONDO_UNROLL
            for (unsigned u = 0; u < RONDO_FIFO_CHUNK; u++)
                if (u < n)
                    lines.of[u] =
                        rondo_line_load(rondo_fifo_line(head, mailbox, first + ((p + u * rondo_threads()) & mask)));
            RONDO_UNROLL
            for (unsigned u = 0; u < RONDO_FIFO_CHUNK; u++) {
                const uint32_t number = first + ((p + u * rondo_threads()) & mask);
                if (u < n && !run->dead)
                    lines.of[u] = rondo_line_take(run, rondo_fifo_line(head, mailbox, number),
                                                  rondo_fifo_escape(head, mailbox, number), end->peer, lines.of[u]);
            }
            if (run->dead)
                break;
            if (s < rondo_threads())
                rondo_stream_heard(run, end);
            rondo_fifo_store(t, i, n, &lines);
        }
        if (passes) {
            if (rondo_barrier_any(run->dead))
                break;
            if (rondo_thread() == 0) {
                uint32_t *credit = rondo_fifo_credit(head, sender, end, me);
                rondo_fence();
                rondo_word_store(credit, position + (uint32_t)limit);
                if (lane->posts) {
                    rondo_fence();
                    rondo_post_range(run, end->peer, (const char *)credit, sizeof *credit);
                }
            }
        }
    }
    rondo_barrier(); /* all threads have read the position */
    if (rondo_thread() == 0)
        rondo_word_store(rondo_fifo_position(head, end), position + (uint32_t)total);
}

/* A message to oneself. */
RONDO_FN void rondo_fifo_copy(const struct rondo_run *run, const struct rondo_transfer *transfers,
                              const struct rondo_stream *end)
{
    struct rondo_cursor cursor = rondo_cursor_begin(transfers, end);
    unsigned n;
    RONDO_ROLLED
    for (uint64_t s = rondo_thread(); !run->dead && rondo_cursor_seek(end, &cursor, s); s += n * rondo_threads()) {
        const struct rondo_transfer *t = cursor.transfer;
        const uint64_t i = cursor.range.first + (s - cursor.base);
        struct rondo_fifo_lines lines;
        n = rondo_fifo_chunk(t, i, cursor.range.end, UINT64_MAX);
        rondo_fifo_load(t, t->from, i, n, &lines);
        rondo_fifo_store(t, i, n, &lines);
    }
}

#endif
