/* Mailboxes: how a line gets from one rank into another's memory, and the waits that go with it.
 *
 * Publication. A line in a mailbox is either empty (RONDO_EMPTY_WORD over and over) or holds payload. The sender stores
 * a payload with one access that is visible whole; the receiver polls until the line is not empty, takes it, and stores
 * emptiness back. So a line carries nothing but payload, there is no counter that could wrap or be stale, and a reader
 * of line n needs nothing of line m.
 *
 * Any payload is legal. One that looks like an empty line, or like the mark for this case (the empty line with the lowest
 * bit of its last word flipped), is sent as the mark, and the line's escape byte says which of the two it was; the
 * receiver of a mark polls that byte until it is not 0, and puts it back to 0. Both stores are single accesses of their
 * own, so their order does not matter.
 *
 * Reuse. A sender may write a line again once it has evidence that the receiver took the former payload and emptied the
 * line. A mailbox has two halves, used in turn, step by step:
 *  - Between launches: a launch writes half e % 2, which was last used by launch e-2. A launch of ours has begun e only after
 *    our launch e-1 ended, which heard from every peer what that sent in its launch e-1, begun when its launch e-2 had
 *    ended, with all that it stored performed. So every launch must hear from every rank. Where the works of a launch
 *    leave out a pair of ranks (rooted ones do), a token does it: a line that carries nothing else.
 *  - Between steps of one launch the same holds from thread to thread: the thread that handles line i on one rank hears
 *    only from threads that handle line i. What orders a thread's emptying of step k before the evidence for it is a
 *    fence, one per step; a launch of one step needs none.
 *  - A work that sends its second step before it has heard from anyone in this launch waits for tokens first. They have lines
 *    of their own: the token of the next point may lie in the same half (three steps), and who sends that need not have heard
 *    that the first was taken (a broadcast's root, in blocks that have nothing of the last step).
 *  - After a launch of several steps, a thread may have been without a line in the last step: nobody has evidence that it
 *    finished the step before. So each block of such a launch sends a token to the same block of every peer once all its
 *    threads have done with the steps before the last, and waits for theirs at the end.
 */
#ifndef RONDO_KERNELS_MAILBOX_H
#define RONDO_KERNELS_MAILBOX_H

#include "kernels/dialect.h"
#include "kernels/posts.h"
#include "kernels/work.h"

enum { RONDO_ESCAPED_EMPTY = 1, RONDO_ESCAPED_MARK = 2 };

/* Polls between two looks at the abort word in host memory, of which 65,000 waiting threads can do few: measured on H200, a look
 * every 256 polls made the PCIe link the bottleneck, and ops of 1 MiB took 1 ms once one rank was a little late. */
enum { RONDO_SPINS_PER_HOST_LOOK = RONDO_SPINS_PER_LOOK * RONDO_LOOKS_PER_HOST_LOOK };

/* One thread's view of the launch that it runs in. */
struct rondo_run {
    const struct rondo_lane_args *lane;
    const struct rondo_work *work; /* for the report */
    uint32_t epoch;
    uint32_t base;   /* first line of the half in use */
    bool bulk;       /* which is a bulk half: lines are whatever they are, and tokens say when they are there */
    uint32_t other;  /* mark of another launch that was found running on the lane; 0: none */
    uint32_t traced; /* rondo_channel.traced; means something to block 0 only */
    bool dead;       /* the lane is stopped, or a wait was given up: send and wait no more, the results are void */
};

RONDO_FN bool rondo_line_is_special(struct rondo_line line)
{
    uint32_t differs = (line.w[RONDO_LINE_WORDS - 1] ^ RONDO_EMPTY_WORD) & ~1u;
    RONDO_UNROLL
    for (int i = 0; i < RONDO_LINE_WORDS - 1; i++)
        differs |= line.w[i] ^ RONDO_EMPTY_WORD;
    return differs == 0;
}
RONDO_FN bool rondo_line_is_empty(struct rondo_line line)
{
    uint32_t differs = 0;
    RONDO_UNROLL
    for (int i = 0; i < RONDO_LINE_WORDS; i++)
        differs |= line.w[i] ^ RONDO_EMPTY_WORD;
    return differs == 0;
}
RONDO_FN struct rondo_line rondo_line_empty(void)
{
    struct rondo_line line;
    RONDO_UNROLL
    for (int i = 0; i < RONDO_LINE_WORDS; i++)
        line.w[i] = RONDO_EMPTY_WORD;
    return line;
}
RONDO_FN struct rondo_line rondo_line_mark(void)
{
    struct rondo_line line = rondo_line_empty();
    line.w[RONDO_LINE_WORDS - 1] ^= 1u;
    return line;
}

/* Where this rank writes what is for a peer, and where it finds what a peer has for it. `ranks` is a constant where it is known
 * to be small, and then the arguments hold the address. */
RONDO_FN char *rondo_mailbox_to(const struct rondo_lane_args *lane, unsigned ranks, unsigned peer)
{
    return ranks <= RONDO_ARG_PEERS ? lane->to[peer] : lane->boxes[peer];
}
RONDO_FN char *rondo_mailbox_from(const struct rondo_lane_args *lane, unsigned ranks, unsigned peer)
{
    return ranks <= RONDO_ARG_PEERS ? lane->from[peer] : lane->boxes[lane->ranks + peer];
}
RONDO_FN char *rondo_mailbox_line(char *mailbox, uint32_t line)
{
    return mailbox + (size_t)line * RONDO_LINE_BYTES;
}
RONDO_FN uint8_t *rondo_mailbox_escape(const struct rondo_lane_args *lane, char *mailbox, uint32_t line)
{
    return (uint8_t *)mailbox + rondo_mailbox_escapes_at(lane->half_lines, RONDO_LINE_BYTES) + line;
}

/* The d-th rank after this one: everyone begins with another peer, so that no receiver is everyone's first. */
RONDO_FN unsigned rondo_peer_after(unsigned me, unsigned d, unsigned ranks)
{
    return me + d < ranks ? me + d : me + d - ranks;
}

/* The slot that `sender` fills in `receiver`'s mailbox: there is none for oneself. */
RONDO_FN unsigned rondo_slot(unsigned sender, unsigned receiver)
{
    return sender < receiver ? sender : sender - 1;
}

/* The block's words: those of a block of exchanges are its own; blocks of transfers beyond them share some, and only look. */
RONDO_FN struct rondo_channel *rondo_own_channel(const struct rondo_lane_args *lane)
{
    return &lane->channels[rondo_block() % RONDO_MAX_CHANNELS];
}

/* What a launch marks its channels with: where the block runs, not 0, and in the upper half of which capture it is. */
RONDO_FN uint32_t rondo_mark(const struct rondo_lane_args *lane)
{
    return rondo_place() | (uint32_t)lane->graph << 16;
}

/* Writes the first report of a lane, and stops the lane. `work` may be NULL. */
RONDO_CALL void rondo_give_up(const struct rondo_lane_args *lane, const struct rondo_work *work, uint32_t epoch,
                              uint32_t kind, unsigned peer)
{
    if (rondo_word_exchange(&lane->channels[1].claim, 1) == 0) {
        struct rondo_report *report = lane->report;
        rondo_word_store(&report->peer, peer);
        rondo_word_store(&report->channel, rondo_block());
        rondo_word_store(&report->epoch, epoch);
        if (work) {
            rondo_word_store(&report->dtype, work->dtype);
            rondo_word_store(&report->redop, work->redop);
            rondo_word_store(&report->algo, work->algo);
            report->bytes = work->bytes;
        }
        rondo_word_store(&report->collective, work ? work->collective : RONDO_TRANSFERS);
        rondo_word_store(&report->graph, lane->graph);
        rondo_fence();
        rondo_word_store(&report->kind, kind);
    }
    for (unsigned c = 0; c < RONDO_MAX_CHANNELS; c++)
        rondo_word_store(&lane->channels[c].stop, 1);
}

/* The same for a peer that runs something else. */
RONDO_CALL void rondo_give_up_different(const struct rondo_run *run, unsigned peer, uint64_t mine, uint64_t theirs)
{
    const struct rondo_lane_args *lane = run->lane;
    if (rondo_word_exchange(&lane->channels[1].claim, 1) == 0) {
        struct rondo_report *report = lane->report;
        rondo_word_store(&report->peer, peer);
        report->mine = mine;
        report->theirs = theirs;
        rondo_fence();
        rondo_word_store(&report->kind, RONDO_REPORT_DIFFERENT);
    }
    for (unsigned c = 0; c < RONDO_MAX_CHANNELS; c++)
        rondo_word_store(&lane->channels[c].stop, 1);
}

#define RONDO_WAIT_OVER UINT64_MAX

/* A waiting thread's look at whether it must go on, after `spins` polls. Takes and gives the time at which the wait began
 * (0: not known yet), RONDO_WAIT_OVER if it must end. Out of line, and by value, so that the waits keep everything in
 * registers. */
RONDO_CALL uint64_t rondo_wait_look(const struct rondo_lane_args *lane, const struct rondo_work *work, uint32_t epoch,
                                    unsigned peer, uint64_t since, unsigned spins)
{
    uint32_t words[4];
    struct rondo_channel *channel = rondo_own_channel(lane);
    rondo_words_load(&channel->epoch, words);
    if (words[2])
        return RONDO_WAIT_OVER;
    if (rondo_block() >= RONDO_MAX_CHANNELS) {
        /* the word is another block's */
    } else if (words[1] == 0) {
        rondo_word_store(&channel->busy, rondo_mark(lane));
    } else if (RONDO_PLACE_IS_FIXED ? words[1] != rondo_mark(lane) : words[1] >> 16 != lane->graph) {
        rondo_give_up(lane, work, epoch, RONDO_REPORT_OVERLAP, words[1] >> 16);
        return RONDO_WAIT_OVER;
    }
    if (spins % RONDO_SPINS_PER_HOST_LOOK == 0 && rondo_word_load(&lane->report->abort)) {
        rondo_give_up(lane, work, epoch, RONDO_REPORT_ABORTED, peer);
        return RONDO_WAIT_OVER;
    }
    if (lane->timeout_ns == 0)
        return 0;
    uint64_t now = rondo_clock_ns();
    if (since == 0)
        return now;
    if (now - since < lane->timeout_ns)
        return since;
    rondo_give_up(lane, work, epoch, RONDO_REPORT_TIMEOUT, peer);
    return RONDO_WAIT_OVER;
}

/* The payload that a mark stands for. A wait that is given up here shows in the thread's next wait. */
RONDO_CALL struct rondo_line rondo_line_unescape(const struct rondo_lane_args *lane, const struct rondo_work *work,
                                                 uint32_t epoch, unsigned peer, uint8_t *escape)
{
    uint64_t since = 0;
    uint32_t code = 0;
    for (unsigned spins = 1; since != RONDO_WAIT_OVER; spins++) {
        code = rondo_byte_load(escape);
        if (code)
            break;
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK == 0)
            since = rondo_wait_look(lane, work, epoch, peer, since, spins);
    }
    rondo_byte_store(escape, 0);
    return code == RONDO_ESCAPED_MARK ? rondo_line_mark() : rondo_line_empty();
}

/* Sends a payload that looks like an empty line or the mark. Out of line, for it is rare. */
RONDO_CALL void rondo_line_send_special(const struct rondo_lane_args *lane, void *to, uint8_t *escape,
                                        struct rondo_line payload)
{
    if (lane->posts)
        rondo_word_store(&lane->posts->special, 1);
    rondo_byte_store(escape, rondo_line_is_empty(payload) ? RONDO_ESCAPED_EMPTY : RONDO_ESCAPED_MARK);
    rondo_line_store(to, rondo_line_mark());
}

/* The payload of a line, waiting for it if the first look found nothing; empties the line. */
RONDO_FN struct rondo_line rondo_line_take(struct rondo_run *run, void *at, uint8_t *escape, unsigned peer,
                                           struct rondo_line looked)
{
    if (rondo_line_is_special(looked)) {
        uint64_t since = 0;
        for (unsigned spins = 1; rondo_line_is_empty(looked) && !run->dead; spins++) {
            looked = rondo_line_load(at);
            if (!rondo_line_is_empty(looked))
                break;
            rondo_pause(spins);
            if (spins % RONDO_SPINS_PER_LOOK == 0) {
                since = rondo_wait_look(run->lane, run->work, run->epoch, peer, since, spins);
                run->dead = since == RONDO_WAIT_OVER;
            }
        }
        if (rondo_line_is_special(looked) && !run->dead)
            looked = rondo_line_unescape(run->lane, run->work, run->epoch, peer, escape);
    }
    rondo_line_store(at, rondo_line_empty());
    return looked;
}

/* Waits until a line is there, and leaves it. */
RONDO_FN void rondo_line_await(struct rondo_run *run, const void *at, unsigned peer)
{
    uint64_t since = 0;
    for (unsigned spins = 1; rondo_line_is_empty(rondo_line_load(at)) && !run->dead; spins++) {
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK)
            continue;
        since = rondo_wait_look(run->lane, run->work, run->epoch, peer, since, spins);
        run->dead = since == RONDO_WAIT_OVER;
    }
}

/* ---- the lines of the half in use, by number ---- */

RONDO_FN char *rondo_run_line(const struct rondo_run *run, char *mailbox, uint32_t line)
{
    return rondo_mailbox_line(run->bulk ? mailbox + run->lane->bulk_at : mailbox, run->base + line);
}

RONDO_FN void rondo_push(const struct rondo_run *run, unsigned ranks, unsigned peer, uint32_t line,
                         struct rondo_line payload)
{
    char *mailbox = rondo_mailbox_to(run->lane, ranks, peer);
    void *to = rondo_run_line(run, mailbox, line);
    if (!run->bulk && rondo_line_is_special(payload))
        rondo_line_send_special(run->lane, to, rondo_mailbox_escape(run->lane, mailbox, run->base + line), payload);
    else
        rondo_line_store(to, payload);
}

/* A first look at a line from a peer; rondo_pull finishes it. Several looks may be under way at once. */
RONDO_FN struct rondo_line rondo_look(const struct rondo_run *run, unsigned ranks, unsigned peer, uint32_t line)
{
    return rondo_line_load(rondo_run_line(run, rondo_mailbox_from(run->lane, ranks, peer), line));
}

RONDO_FN struct rondo_line rondo_pull(struct rondo_run *run, unsigned ranks, unsigned peer, uint32_t line,
                                      struct rondo_line looked)
{
    char *mailbox = rondo_mailbox_from(run->lane, ranks, peer);
    if (run->bulk)
        return looked;
    return rondo_line_take(run, rondo_mailbox_line(mailbox, run->base + line),
                           rondo_mailbox_escape(run->lane, mailbox, run->base + line), peer, looked);
}

/* ---- tokens ---- */

/* Which row of tokens; those that may come in every step have one for each half. */
enum rondo_token_kind {
    RONDO_TOKENS_OF_HALF = 0,
    RONDO_TOKENS_OF_BEGIN = 2,
    RONDO_TOKENS_OF_SELFTEST =
        RONDO_SELFTEST_ROW,     /* selftest.h. What is sent to a kernel that comes too late stays there */
    RONDO_TOKENS_OF_PUSHES = 4, /* bulk.h */
    RONDO_TOKENS_OF_RESULTS = 6,
    RONDO_TOKENS_OF_CHECK = 8,   /* signatures */
    RONDO_TOKENS_OF_OFFERS = 10, /* direct.h */
    RONDO_TOKENS_OF_MORE_OFFERS = 12,
};

RONDO_FN char *rondo_token(const struct rondo_run *run, unsigned kind, char *mailbox, unsigned slot)
{
    const unsigned row = kind + (kind != RONDO_TOKENS_OF_BEGIN && run->base != 0), peers = run->lane->ranks - 1;
    return mailbox + rondo_mailbox_tokens_at(run->lane->half_lines, RONDO_LINE_BYTES) +
           (size_t)((row * peers + slot) * RONDO_MAX_CHANNELS + rondo_block()) * RONDO_LINE_BYTES;
}

/* Tells the same block of all peers that this one has come to the step whose half is in use, or has begun. One thread for each
 * peer. */
RONDO_FN void rondo_tokens_send(const struct rondo_run *run, unsigned kind)
{
    const struct rondo_lane_args *lane = run->lane;
    struct rondo_line token = rondo_line_empty();
    token.w[0] = 0;
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks && !run->dead; d += rondo_threads()) {
        const unsigned peer = rondo_peer_after(lane->rank, d, lane->ranks);
        rondo_line_store(
            rondo_token(run, kind, rondo_mailbox_to(lane, lane->ranks, peer), rondo_slot(lane->rank, peer)), token);
    }
}

RONDO_FN void rondo_tokens_take(struct rondo_run *run, unsigned kind)
{
    const struct rondo_lane_args *lane = run->lane;
    for (unsigned d = 1 + rondo_thread(); d < lane->ranks && !run->dead; d += rondo_threads()) {
        const unsigned peer = rondo_peer_after(lane->rank, d, lane->ranks);
        char *at = rondo_token(run, kind, rondo_mailbox_from(lane, lane->ranks, peer), rondo_slot(peer, lane->rank));
        rondo_line_take(run, at, NULL, peer, rondo_line_load(at));
    }
}

#endif
