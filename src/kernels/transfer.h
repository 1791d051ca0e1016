/* What a block of transfers does: its messages one after the other, by FIFO (fifo.h), or directly.
 *
 * A large message goes from buffer to buffer where its receiver's memory is mapped by the sender (comm/exports.h). On each channel
 * that the message lies on, the receiver's block sends the sender's an offer of where its buffer is, or of nothing; that block
 * stores its part there and says so, or it sends by FIFO. What was sent before the message has been taken by then: an offer comes
 * when the receiver has come to the message. So a large message waits for its receiver, which one that a FIFO holds need not.
 *
 * Offers and answers are handshakes: lines in the mailbox of whom they are for, one of each kind for each peer and channel. One is
 * free again when the other kind's has come, or the message itself by FIFO.
 *
 * Where copy engines move direct messages, the block of the first channel offers, and has all of the message copied, for all
 * channels, whose blocks it tells (copy.h). */
#ifndef RONDO_KERNELS_TRANSFER_H
#define RONDO_KERNELS_TRANSFER_H

#include "kernels/copy.h"
#include "kernels/fifo.h"
#include "kernels/offers.h"

enum rondo_handshake_kind { RONDO_HANDSHAKE_OFFER, RONDO_HANDSHAKE_DONE };

RONDO_FN char *rondo_handshake(const struct rondo_batch_head *head, const struct rondo_stream *end,
                               enum rondo_handshake_kind kind, char *mailbox, unsigned slot)
{
    const size_t number = ((size_t)kind * (head->lane.ranks - 1) + slot) * head->fifos.channels + end->channel;
    return mailbox + head->fifos.handshakes_at + number * RONDO_LINE_BYTES;
}
RONDO_FN char *rondo_handshake_to(const struct rondo_batch_head *head, const struct rondo_stream *end,
                                  enum rondo_handshake_kind kind)
{
    return rondo_handshake(head, end, kind, rondo_mailbox_to(&head->lane, head->lane.ranks, end->peer),
                           rondo_slot(head->lane.rank, end->peer));
}
RONDO_FN char *rondo_handshake_from(const struct rondo_batch_head *head, const struct rondo_stream *end,
                                    enum rondo_handshake_kind kind)
{
    return rondo_handshake(head, end, kind, rondo_mailbox_from(&head->lane, head->lane.ranks, end->peer),
                           rondo_slot(end->peer, head->lane.rank));
}

enum { RONDO_MESSAGE_LINES = 8 }; /* that a thread has under way at once */

/* Stores this block's part of a message into its receiver's buffer, which allows whole lines. */
RONDO_FN void rondo_message_store(const struct rondo_transfer *t, struct rondo_range range, char *to)
{
    const uint64_t lines = t->aligned ? t->bytes / RONDO_LINE_BYTES : 0, stride = rondo_threads();
    const uint64_t whole = range.end < lines ? range.end : lines;
    uint64_t i = range.first + rondo_thread();
    RONDO_ROLLED
    for (; i + (RONDO_MESSAGE_LINES - 1) * stride < whole; i += RONDO_MESSAGE_LINES * stride) {
        struct rondo_line part[RONDO_MESSAGE_LINES];
        RONDO_UNROLL
        for (unsigned u = 0; u < RONDO_MESSAGE_LINES; u++)
            part[u] = ((const struct rondo_line *)t->buffer)[i + u * stride];
        RONDO_UNROLL
        for (unsigned u = 0; u < RONDO_MESSAGE_LINES; u++)
            ((struct rondo_line *)to)[i + u * stride] = part[u];
    }
    RONDO_ROLLED
    for (; i < range.end; i += stride)
        rondo_user_store(t->element, true, to, t->bytes, i,
                         rondo_user_load(t->element, t->aligned, t->buffer, t->bytes, i));
}

RONDO_FN void rondo_message_count(const struct rondo_batch_head *head, const struct rondo_stream *end)
{
    if (end->channel == 0)
        rondo_word_add(&head->lane.exports->ran, 1);
}

/* What came of a message that may be direct. */
enum rondo_message_end { RONDO_MESSAGE_DONE, RONDO_MESSAGE_BY_FIFO, RONDO_MESSAGE_DEAD };

/* ---- by copy engines ---- */

/* The whole message. Whether the launch is dead, for all threads. */
RONDO_CALL bool rondo_message_copy(const struct rondo_lane_args *lane, const struct rondo_run *run, unsigned peer,
                                   const struct rondo_transfer *t, void *to, const void *from)
{
    bool dead = run->dead;
    if (rondo_thread() == 0 && !dead) {
        rondo_copy_ask(lane, peer, to, from, t->bytes);
        dead = rondo_copy_await(lane, NULL, run->epoch, peer, false);
        if (dead)
            rondo_copy_let_go(lane, peer, rondo_clock_ns());
    }
    return rondo_barrier_any(dead);
}

/* The block of the first channel tells those of the others that the message lies on how it goes. */
RONDO_FN void rondo_message_tell(const struct rondo_run *run, const struct rondo_transfer *t, bool copied)
{
    const uint64_t lines = (t->bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES;
    for (unsigned c = 1 + rondo_thread(); c * t->share < lines; c += rondo_threads())
        rondo_copies_tell(run, rondo_block() + c, copied);
}

/* What a block of another channel does. */
RONDO_FN enum rondo_message_end rondo_message_follow(struct rondo_run *run)
{
    const bool copied = rondo_copies_hear(run);
    return run->dead ? RONDO_MESSAGE_DEAD : copied ? RONDO_MESSAGE_DONE : RONDO_MESSAGE_BY_FIFO;
}

/* ---- its ends ---- */

/* Out of line, and the run by value, as everything that small messages have nothing to do with. */
RONDO_CALL enum rondo_message_end rondo_message_send(const struct rondo_batch_head *head, struct rondo_run run,
                                                     const struct rondo_transfer *t, struct rondo_stream end)
{
    const struct rondo_range range = rondo_transfer_range(t, end.channel);
    char *at = rondo_handshake_from(head, &end, RONDO_HANDSHAKE_OFFER);
    if (range.first == range.end)
        return RONDO_MESSAGE_DONE;
    if (t->copied && end.channel)
        return rondo_message_follow(&run);
    if (rondo_thread() == 0) {
        rondo_line_await(&run, at, end.peer);
        rondo_fence();
    }
    if (rondo_barrier_any(run.dead))
        return RONDO_MESSAGE_DEAD;
    rondo_stream_heard(&run, &end);
    const struct rondo_line offer = rondo_line_load(at);
    char *to = rondo_offer_reach(head->lane.exports, end.peer, offer.w);
    rondo_barrier();
    if (rondo_thread() == 0) {
        rondo_line_store(at, rondo_line_empty());
        rondo_fence(); /* whatever the block sends from now on says that the offer was taken */
    }
    if (t->copied)
        rondo_message_tell(&run, t, to != NULL);
    rondo_barrier();
    if (!to)
        return RONDO_MESSAGE_BY_FIFO;
    if (!t->copied)
        rondo_message_store(t, range, to);
    else if (rondo_message_copy(&head->lane, &run, end.peer, t, to, t->buffer))
        return RONDO_MESSAGE_DEAD;
    rondo_barrier();
    if (rondo_thread() == 0) {
        struct rondo_line done = rondo_line_empty();
        done.w[0] = 0;
        rondo_fence();
        rondo_line_store(rondo_handshake_to(head, &end, RONDO_HANDSHAKE_DONE), done);
        rondo_message_count(head, &end);
    }
    return RONDO_MESSAGE_DONE;
}

RONDO_CALL enum rondo_message_end rondo_message_recv(const struct rondo_batch_head *head, struct rondo_run run,
                                                     const struct rondo_transfer *t, struct rondo_stream end)
{
    const struct rondo_range range = rondo_transfer_range(t, end.channel);
    bool lacks = false;
    if (range.first == range.end)
        return RONDO_MESSAGE_DONE;
    if (t->copied && end.channel)
        return rondo_message_follow(&run);
    if (rondo_thread() == 0 && !run.dead) {
        const unsigned number = rondo_offer_number(head->lane.exports, t->aligned || t->copied, t->number);
        struct rondo_line offer = rondo_line_empty();
        rondo_offer_words(number, t->at, offer.w);
        rondo_line_store(rondo_handshake_to(head, &end, RONDO_HANDSHAKE_OFFER), offer);
        lacks = number == RONDO_EXPORT_NONE;
    }
    lacks = rondo_barrier_any(lacks);
    if (t->copied && !run.dead)
        rondo_message_tell(&run, t, !lacks);
    if (lacks)
        return RONDO_MESSAGE_BY_FIFO;
    if (rondo_thread() == 0) {
        char *at = rondo_handshake_from(head, &end, RONDO_HANDSHAKE_DONE);
        rondo_line_take(&run, at, NULL, end.peer, rondo_line_load(at));
        rondo_fence();
        if (!run.dead)
            rondo_message_count(head, &end);
    }
    if (rondo_barrier_any(run.dead))
        return RONDO_MESSAGE_DEAD;
    rondo_stream_heard(&run, &end);
    return RONDO_MESSAGE_DONE;
}

/* Where the lane is stopped, a block touches nothing but the rank's own positions and mailbox; it does not return early, for the threads of a
 * block may learn of the stop one by one, and must meet at the barriers. */
RONDO_FN void rondo_end_run(const struct rondo_batch_head *head, struct rondo_run *run, const struct rondo_stream *end)
{
    const struct rondo_transfer *transfers = rondo_transfers_of(head);
    struct rondo_stream part = *end;
    RONDO_ROLLED
    for (; part.first < end->end; part.first = part.end) { /* one that may be direct, or all up to the next that may */
        const struct rondo_transfer *t = transfers + part.first;
        enum rondo_message_end came = RONDO_MESSAGE_BY_FIFO;
        part.end = part.first + 1;
        if (t->direct)
            came = end->kind == RONDO_SEND ? rondo_message_send(head, *run, t, part)
                                           : rondo_message_recv(head, *run, t, part);
        RONDO_ROLLED
        while (!t->direct && part.end < end->end && !transfers[part.end].direct)
            part.end++;
        run->dead |= came == RONDO_MESSAGE_DEAD;
        if (came == RONDO_MESSAGE_DONE)
            continue;
        if (end->kind == RONDO_SEND)
            rondo_fifo_send(head, run, transfers, &part);
        else if (end->kind == RONDO_RECV)
            rondo_fifo_recv(head, run, transfers, &part);
        else
            rondo_fifo_copy(run, transfers, &part);
        rondo_barrier(); /* what follows loads the position that one thread has stored */
    }
}

#endif
