#include "support/mailbox.h"

#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether words from byte `from` to `to` are all this one. */
static bool all_are(const char *mailbox, uint64_t from, uint64_t to, uint32_t word)
{
    for (uint64_t at = from; at < to; at += sizeof word)
        if (memcmp(mailbox + at, &word, sizeof word)) {
            fprintf(stderr, "the word at byte %llu of a mailbox is not 0x%08x\n", (unsigned long long)at, word);
            return false;
        }
    return true;
}

struct places {
    uint64_t escapes, tokens, selftest, selftest_end, fifos, fifo_escapes, credits, handshakes, handshakes_end;
};

static struct places places_of(const struct rondo_limits *limits)
{
    const uint32_t half = limits->half_lines;
    const unsigned line = limits->line_bytes;
    const uint64_t lines = (uint64_t)(limits->ranks - 1) * limits->fifo_channels * limits->fifo_lines;
    struct places p;
    p.escapes = rondo_mailbox_escapes_at(half, line);
    p.tokens = rondo_mailbox_tokens_at(half, line);
    p.selftest = p.tokens + (uint64_t)RONDO_SELFTEST_ROW * RONDO_MAX_CHANNELS * (limits->ranks - 1) * line;
    p.selftest_end = p.selftest + (uint64_t)RONDO_MAX_CHANNELS * (limits->ranks - 1) * line;
    p.fifos = rondo_mailbox_fifos_at(half, line, limits->ranks);
    p.fifo_escapes = p.fifos + lines * line;
    p.credits = rondo_mailbox_credits_at(p.fifos, lines, line);
    p.handshakes = rondo_mailbox_handshakes_at(p.credits, limits->ranks, limits->fifo_channels);
    p.handshakes_end =
        p.handshakes + (uint64_t)RONDO_HANDSHAKE_KINDS * (limits->ranks - 1) * limits->fifo_channels * line;
    return p;
}

/* Copies take along codes of former marks, which stay where no mark asks for them. What the self-test of init sent to a kernel that
 * came too late stays, too. */
bool mailbox_at_rest(const struct rondo_limits *limits, const char *mailbox)
{
    const struct places p = places_of(limits);
    const uint64_t fifo_lines = (p.fifo_escapes - p.fifos) / limits->line_bytes;
    return all_are(mailbox, 0, p.escapes, RONDO_EMPTY_WORD) &&
           (limits->posts || all_are(mailbox, p.escapes, p.escapes + 2ull * limits->half_lines, 0)) &&
           all_are(mailbox, p.tokens, p.selftest, RONDO_EMPTY_WORD) &&
           all_are(mailbox, p.selftest_end, p.fifos, RONDO_EMPTY_WORD) &&
           all_are(mailbox, p.handshakes, p.handshakes_end, RONDO_EMPTY_WORD) &&
           all_are(mailbox, p.fifos, p.fifo_escapes, RONDO_EMPTY_WORD) &&
           (limits->posts || all_are(mailbox, p.fifo_escapes, p.fifo_escapes + fifo_lines, 0));
}

bool mailbox_credits_are(const struct rondo_limits *limits, const char *mailbox, uint32_t credit)
{
    const uint64_t at = places_of(limits).credits;
    return all_are(mailbox, at, at + 4ull * limits->ranks * limits->fifo_channels, credit);
}

int mailboxes_check(struct rig *rig)
{
    const struct rondoComm *comm = rig->comm;
    const size_t bytes = rondo_lanes_mailbox_bytes(&comm->limits) / comm->limits.lanes;
    char *copy = malloc(bytes);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (size_t l = 0; l < comm->limits.lanes; l++) {
        const struct rondo_lane_args *lane = &comm->lanes[l].args;
        const char *last = NULL; /* most often all senders fill one mailbox */
        for (int p = 0; p < rig->ranks && p < RONDO_ARG_PEERS; p++) {
            if (p == rig->rank || lane->from[p] == last)
                continue;
            last = lane->from[p];
            RIG_OK(comm->ops->read(comm->device, copy, last, bytes));
            RIG_CHECK(mailbox_at_rest(&comm->limits, copy), "lane %zu, from rank %d", l, p);
        }
    }
    free(copy);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}
