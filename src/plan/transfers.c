#include "plan/transfers.h"

#include <stdlib.h>
#include <string.h>

/* Transfers of a launch: what the arguments hold beside the most works and ends. */
enum { MAX_TRANSFERS = 370 };

_Static_assert(sizeof(struct rondo_batch_head) + RONDO_BATCH_WORKS * sizeof(struct rondo_work) +
                       MAX_TRANSFERS * sizeof(struct rondo_transfer) + 3 * RONDO_MAX_RANKS * sizeof(struct rondo_end) +
                       RONDO_MAX_CHANNELS * sizeof(struct rondo_channel_works) <=
                   RONDO_LARGE_BYTES,
               "a launch's arguments hold whatever a plan may put in");

static unsigned key_of(const struct rondo_message *message)
{
    return message->kind * RONDO_MAX_RANKS + message->peer;
}

/* A counting sort: keys are few, and what is equal must stay in order. */
void rondo_messages_sort(struct rondo_message *messages, size_t count)
{
    size_t first[3 * RONDO_MAX_RANKS + 1] = {0};
    if (count < 2)
        return;
    struct rondo_message *sorted = malloc(count * sizeof *sorted);
    if (!sorted) { /* by insertion, then */
        for (size_t i = 1; i < count; i++) {
            const struct rondo_message message = messages[i];
            size_t j = i;
            for (; j > 0 && key_of(&messages[j - 1]) > key_of(&message); j--)
                messages[j] = messages[j - 1];
            messages[j] = message;
        }
        return;
    }
    for (size_t i = 0; i < count; i++)
        first[key_of(&messages[i]) + 1]++;
    for (unsigned k = 0; k < 3 * RONDO_MAX_RANKS; k++)
        first[k + 1] += first[k];
    for (size_t i = 0; i < count; i++)
        sorted[first[key_of(&messages[i])]++] = messages[i];
    memcpy(messages, sorted, count * sizeof *sorted);
    free(sorted);
}

/* How many messages of one kind and peer a launch takes: the same on all ranks. */
static size_t round_size(const struct rondo_limits *limits)
{
    const size_t size = MAX_TRANSFERS / (2 * (limits->ranks - 1) + 1);
    return size ? size : 1;
}

/* The messages of one kind and peer: messages[first] … messages[end - 1]. */
struct run {
    size_t first, end;
};

static struct run run_from(const struct rondo_group_plan *plan, size_t first)
{
    struct run run = {first, first};
    while (run.end < plan->message_count && key_of(&plan->messages[run.end]) == key_of(&plan->messages[first]))
        run.end++;
    return run;
}

/* Writes a run's transfers of this round, adds the most lines that one of their channels has to *lines; how many channels they
 * use. */
static unsigned put_transfers(const struct rondo_group_plan *plan, struct run round, struct rondo_transfer *transfers,
                              uint64_t *lines)
{
    const struct rondo_limits *limits = plan->limits;
    unsigned channels = 1;
    for (size_t m = round.first; m < round.end; m++, transfers++) {
        const struct rondo_message *message = &plan->messages[m];
        const uintptr_t bits =
            (uintptr_t)message->buffer | (message->kind == RONDO_COPY ? (uintptr_t)message->from : 0);
        const uint64_t total = (message->bytes + limits->line_bytes - 1) / limits->line_bytes;
        memset(transfers, 0, sizeof *transfers);
        transfers->buffer = message->buffer;
        if (message->kind == RONDO_COPY)
            transfers->from = message->from;
        transfers->bytes = message->bytes;
        transfers->share = rondo_fifo_share(message->bytes, limits->line_bytes, limits->fifo_channels);
        transfers->element = message->element;
        transfers->words = (bits & 3) == 0;
        transfers->aligned = (bits & (limits->line_bytes - 1)) == 0;
        transfers->direct = message->kind != RONDO_COPY && message->bytes >= limits->messages_direct_from;
        transfers->copied = transfers->direct && limits->copies && message->bytes >= limits->messages_copied_from;
        transfers->number = RONDO_EXPORT_NONE;
        const unsigned used = (unsigned)((total + transfers->share - 1) / transfers->share);
        channels = used > channels ? used : channels;
        *lines += transfers->share;
    }
    return channels;
}

static unsigned threads_for(unsigned most, uint64_t lines)
{
    unsigned threads = 64;
    while (threads < lines && threads < most)
        threads *= 2;
    return threads < most ? threads : most;
}

/* Whether that is a message alone on its channels that may be lean, if threads suffice (kernels/lean_fifo.h). */
static bool may_be_lean(const struct rondo_limits *limits, const struct rondo_transfer *transfers, size_t count)
{
    return count == 1 && !limits->posts && !transfers->direct && transfers->share <= limits->fifo_lines / 4;
}

/* Whether peers may reach a buffer of these, which are of one kind. */
static bool any_direct(unsigned kind, const struct rondo_transfer *transfers, size_t count)
{
    bool any = false;
    for (size_t t = 0; t < count && kind == RONDO_RECV; t++)
        any |= transfers[t].direct;
    return any;
}

unsigned rondo_plan_transfers(struct rondo_group_plan *plan, char *start, size_t *at, struct rondo_plan_launch *launch,
                              unsigned *threads, bool *lean)
{
    const size_t quota = round_size(plan->limits);
    struct rondo_transfer *transfers = (struct rondo_transfer *)(start + *at);
    struct rondo_end ends[3 * RONDO_MAX_RANKS]; /* to and from each rank, and within this one */
    size_t end_count = 0;
    unsigned blocks = 0;
    size_t count = 0;
    uint64_t most = 0;
    for (size_t first = 0; first < plan->message_count && plan->messages_left;) {
        const struct run run = run_from(plan, first);
        struct run round = {run.first + plan->messages_done, run.first + plan->messages_done + quota};
        first = run.end;
        round.end = round.end < run.end ? round.end : run.end;
        if (round.first >= round.end)
            continue;
        uint64_t lines = 0;
        const struct rondo_message *message = &plan->messages[run.first];
        const unsigned channels = put_transfers(plan, round, transfers + count, &lines);
        ends[end_count++] = (struct rondo_end){.first = (uint16_t)count,
                                               .end = (uint16_t)(count + round.end - round.first),
                                               .peer = message->peer,
                                               .block0 = (uint16_t)blocks,
                                               .kind = message->kind,
                                               .channels = (uint8_t)channels};
        *lean = *lean && may_be_lean(plan->limits, transfers + count, round.end - round.first);
        launch->direct |= any_direct(message->kind, transfers + count, round.end - round.first);
        blocks += channels;
        count += round.end - round.first;
        most = lines > most ? lines : most;
    }
    plan->messages_done += quota;
    *at += count * sizeof *transfers;
    launch->args.batch.head.ends_at = (uint16_t)*at;
    memcpy(start + *at, ends, end_count * sizeof *ends);
    *at += end_count * sizeof *ends;
    launch->messages = (unsigned)count;
    *lean = *lean && count && most <= plan->limits->lean_threads && *at <= sizeof launch->args.small;
    *threads = count ? threads_for(*lean ? plan->limits->lean_threads : plan->limits->max_threads, most) : 0;
    return blocks;
}
