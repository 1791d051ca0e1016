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
 *  - Between launches: a launch writes half e % 2. That half was last used by launch e-2. A launch of ours has begun e
 *    only after our launch e-1 ended, which needed lines that each peer sent in its launch e-1, which the peer began when its
 *    launch e-2 had ended, with all that it stored performed. (Each all-reduce lets every rank hear from every rank.)
 *  - Between steps of one launch the same holds from thread to thread: the thread that handles line i on one rank hears
 *    only from threads that handle line i. What orders a thread's emptying of step k before the evidence for it is a
 *    fence, one per step; a launch of one step needs none.
 */
#ifndef RONDO_KERNELS_MAILBOX_H
#define RONDO_KERNELS_MAILBOX_H

#include "kernels/dialect.h"
#include "kernels/work.h"

enum { RONDO_ESCAPED_EMPTY = 1, RONDO_ESCAPED_MARK = 2 };

/* Polls between two looks at the lane's stop word and the clock (0.1 to 0.3 ms on a GPU), and between two looks at the abort word
 * in host memory, of which 65,000 waiting threads can do few: measured on H200, a look every 256 polls made the PCIe link
 * the bottleneck, and ops of 1 MiB took 1 ms once one rank was a little late. */
enum { RONDO_SPINS_PER_LOOK = 256, RONDO_SPINS_PER_HOST_LOOK = RONDO_SPINS_PER_LOOK * RONDO_LOOKS_PER_HOST_LOOK };

/* One thread's view of the launch that it runs in. */
struct rondo_run {
    const struct rondo_lane_args *lane;
    const struct rondo_work *work; /* for the report */
    uint32_t epoch;
    uint32_t base;   /* first line of the half in use */
    bool overlapped; /* another launch was found running on the lane */
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

/* `ranks` is a constant where it is known to be small, and then the arguments hold the address. */
RONDO_FN char *rondo_peer_mailbox(const struct rondo_lane_args *lane, unsigned ranks, unsigned peer)
{
    return ranks <= RONDO_ARG_PEERS ? lane->peer[peer] : lane->peers[peer];
}
RONDO_FN char *rondo_mailbox_line(char *mailbox, uint32_t line)
{
    return mailbox + (size_t)line * RONDO_LINE_BYTES;
}
RONDO_FN uint8_t *rondo_mailbox_escape(const struct rondo_lane_args *lane, char *mailbox, uint32_t line)
{
    return (uint8_t *)mailbox + 2ull * lane->half_lines * RONDO_LINE_BYTES + line;
}

/* The slot that `sender` fills in `receiver`'s mailbox: there is none for oneself. */
RONDO_FN unsigned rondo_slot(unsigned sender, unsigned receiver)
{
    return sender < receiver ? sender : sender - 1;
}

/* Writes the first report of a lane, and stops the lane. `work` may be NULL. */
RONDO_CALL void rondo_give_up(const struct rondo_lane_args *lane, const struct rondo_work *work, uint32_t epoch,
                              uint32_t kind, unsigned peer)
{
    if (rondo_word_exchange(&lane->channels[0].claim, 1) == 0) {
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
        rondo_fence();
        rondo_word_store(&report->kind, kind);
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
    rondo_words_load(&lane->channels[rondo_block()].epoch, words);
    if (words[2])
        return RONDO_WAIT_OVER;
    if (words[1] == 0) {
        rondo_word_store(&lane->channels[rondo_block()].busy, rondo_place());
    } else if (RONDO_PLACE_IS_FIXED && words[1] != rondo_place()) {
        rondo_give_up(lane, work, epoch, RONDO_REPORT_OVERLAP, lane->rank);
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

RONDO_CALL void rondo_push_special(const struct rondo_lane_args *lane, unsigned peer, uint32_t line,
                                   struct rondo_line payload)
{
    char *mailbox = rondo_peer_mailbox(lane, lane->ranks, peer);
    rondo_byte_store(rondo_mailbox_escape(lane, mailbox, line),
                     rondo_line_is_empty(payload) ? RONDO_ESCAPED_EMPTY : RONDO_ESCAPED_MARK);
    rondo_line_store(rondo_mailbox_line(mailbox, line), rondo_line_mark());
}

/* Sends a line to one peer; `line` numbers the lines of the half in use. */
RONDO_FN void rondo_push(const struct rondo_run *run, unsigned ranks, unsigned peer, uint32_t line,
                         struct rondo_line payload)
{
    if (rondo_line_is_special(payload))
        rondo_push_special(run->lane, peer, run->base + line, payload);
    else
        rondo_line_store(rondo_mailbox_line(rondo_peer_mailbox(run->lane, ranks, peer), run->base + line), payload);
}

/* A first look at a line of one's own mailbox; rondo_pull finishes it. Several looks may be under way at once. */
RONDO_FN struct rondo_line rondo_look(const struct rondo_run *run, uint32_t line)
{
    return rondo_line_load(rondo_mailbox_line(run->lane->mailbox, run->base + line));
}

/* What to do about a line that was empty, or the mark, at the first look. */
RONDO_FN struct rondo_line rondo_line_wait(struct rondo_run *run, const void *at, uint32_t line_number, unsigned peer,
                                           struct rondo_line line)
{
    uint64_t since = 0;
    for (unsigned spins = 1; rondo_line_is_empty(line) && !run->dead; spins++) {
        line = rondo_line_load(at);
        if (!rondo_line_is_empty(line))
            break;
        rondo_pause(spins);
        if (spins % RONDO_SPINS_PER_LOOK == 0) {
            since = rondo_wait_look(run->lane, run->work, run->epoch, peer, since, spins);
            run->dead = since == RONDO_WAIT_OVER;
        }
    }
    if (rondo_line_is_special(line) && !run->dead)
        line = rondo_line_unescape(run->lane, run->work, run->epoch, peer,
                                   rondo_mailbox_escape(run->lane, run->lane->mailbox, line_number));
    return line;
}

/* The payload that `peer` sent in a line, waiting for it if the first look found nothing; empties the line. */
RONDO_FN struct rondo_line rondo_pull(struct rondo_run *run, unsigned peer, uint32_t line, struct rondo_line looked)
{
    void *at = rondo_mailbox_line(run->lane->mailbox, run->base + line);
    if (rondo_line_is_special(looked))
        looked = rondo_line_wait(run, at, run->base + line, peer, looked);
    rondo_line_store(at, rondo_line_empty());
    return looked;
}

#endif
