#include "comm/lane.h"

#include "common/result.h"

#include <string.h>

/* Positions of a lane's FIFOs: both directions, all peers. As many as the most channels ask for. */
enum { MAX_FIFO_CHANNELS = 32 };

static size_t positions_of(unsigned ranks)
{
    return 2u * ranks * MAX_FIFO_CHANNELS;
}

/* Control memory: the channels of all lanes, then each lane's positions, then each lane's table of mailboxes, then each lane's
 * posts, then the posters, then spare words, then the exports, then each lane's copies. */
static struct rondo_channel *channels_at(const struct rondo_anchor *anchor, unsigned lane)
{
    return (struct rondo_channel *)anchor->control.address + (size_t)lane * RONDO_MAX_CHANNELS;
}

static uint32_t *positions_at(const struct rondo_anchor *anchor, unsigned ranks, unsigned lane)
{
    return (uint32_t *)channels_at(anchor, anchor->lanes) + lane * positions_of(ranks);
}

static char **boxes_at(const struct rondo_anchor *anchor, unsigned ranks, unsigned lane)
{
    return (char **)positions_at(anchor, ranks, anchor->lanes) + (size_t)lane * 2 * ranks;
}

static struct rondo_posts *posts_at(const struct rondo_anchor *anchor, unsigned ranks, unsigned lane)
{
    return (struct rondo_posts *)boxes_at(anchor, ranks, anchor->lanes) + lane;
}

static struct rondo_poster *posters_at(const struct rondo_anchor *anchor, unsigned ranks)
{
    return (struct rondo_poster *)posts_at(anchor, ranks, anchor->lanes);
}

void *rondo_lanes_spare(const struct rondo_anchor *anchor, unsigned ranks, unsigned number)
{
    return (uint64_t *)(void *)(posters_at(anchor, ranks) + ranks) + number;
}

static bool has_exports(unsigned ranks)
{
    return ranks > 1 && ranks <= RONDO_ARG_PEERS;
}

void *rondo_lanes_exports(const struct rondo_anchor *anchor, unsigned ranks)
{
    return rondo_lanes_spare(anchor, ranks, 1 + ranks);
}

void *rondo_lanes_export_map(const struct rondo_anchor *anchor, unsigned ranks, unsigned rank, unsigned number)
{
    uint64_t *maps = (uint64_t *)(void *)((struct rondo_exports *)rondo_lanes_exports(anchor, ranks) + 1);
    return maps + (size_t)rank * RONDO_EXPORTS_MAX + number;
}

static struct rondo_copies *copies_at(const struct rondo_anchor *anchor, unsigned ranks, unsigned lane)
{
    return (struct rondo_copies *)rondo_lanes_export_map(anchor, ranks, ranks, 0) + lane;
}

size_t rondo_lanes_copies_bytes(const struct rondo_limits *limits)
{
    return (size_t)limits->lanes * limits->ranks * sizeof(struct rondo_copy);
}

struct rondo_copy *rondo_lane_copy(const struct rondo_limits *limits, void *first, unsigned lane, unsigned rank)
{
    return (struct rondo_copy *)first + (size_t)lane * limits->ranks + rank;
}

size_t rondo_lanes_control_bytes(unsigned lanes, unsigned ranks)
{
    const size_t mapped = has_exports(ranks) ? ranks : 0;
    return lanes * (RONDO_MAX_CHANNELS * sizeof(struct rondo_channel) + positions_of(ranks) * sizeof(uint32_t) +
                    2 * ranks * sizeof(char *) + sizeof(struct rondo_posts)) +
           ranks * sizeof(struct rondo_poster) + (1 + (size_t)ranks) * sizeof(uint64_t) +
           (mapped ? sizeof(struct rondo_exports) : 0) + mapped * RONDO_EXPORTS_MAX * sizeof(uint64_t) +
           (mapped ? lanes * sizeof(struct rondo_copies) : 0);
}

size_t rondo_lanes_report_bytes(unsigned lanes)
{
    return lanes * sizeof(struct rondo_report);
}

size_t rondo_lanes_trace_bytes(unsigned lanes, unsigned entries)
{
    return (size_t)lanes * entries * sizeof(struct rondo_trace_entry);
}

/* Entries of a lane's ring, 0: it has none. */
static size_t trace_entries(const struct rondo_anchor *anchor)
{
    return anchor->trace.bytes / (anchor->lanes * sizeof(struct rondo_trace_entry));
}

static struct rondo_trace_entry *trace_at(const struct rondo_anchor *anchor, unsigned lane)
{
    return trace_entries(anchor) ? (struct rondo_trace_entry *)anchor->trace.address + lane * trace_entries(anchor)
                                 : NULL;
}

rondoResult_t rondo_lane_trace_read(const struct rondo_anchor *anchor, unsigned lane, uint32_t *launches,
                                    struct rondo_trace_entry *entries)
{
    const size_t bytes = trace_entries(anchor) * sizeof *entries;
    RONDO_TRY(anchor->ops->read(anchor->device, entries, trace_at(anchor, lane), bytes));
    return anchor->ops->read(anchor->device, launches, &channels_at(anchor, lane)->traced, sizeof *launches);
}

/* Where the parts of one lane's mailbox lie. */
struct layout {
    uint64_t tokens_at, fifos_at, fifo_lines, credits_at, handshakes_at, handshakes, bulk_at, bytes;
};

static struct layout layout_of(const struct rondo_limits *limits)
{
    struct layout l;
    l.tokens_at = rondo_mailbox_tokens_at(limits->half_lines, limits->line_bytes);
    l.fifos_at = rondo_mailbox_fifos_at(limits->half_lines, limits->line_bytes, limits->ranks);
    l.fifo_lines = (uint64_t)(limits->ranks - 1) * limits->fifo_channels * limits->fifo_lines;
    l.handshakes = (uint64_t)RONDO_HANDSHAKE_KINDS * (limits->ranks - 1) * limits->fifo_channels;
    l.credits_at = rondo_mailbox_credits_at(l.fifos_at, l.fifo_lines, limits->line_bytes);
    l.handshakes_at = rondo_mailbox_handshakes_at(l.credits_at, limits->ranks, limits->fifo_channels);
    l.bulk_at = rondo_mailbox_bulk_at(l.handshakes_at, l.handshakes, limits->line_bytes);
    l.bytes = rondo_mailbox_bytes(l.bulk_at, limits->bulk_lines, limits->line_bytes);
    return l;
}

size_t rondo_lanes_mailbox_bytes(const struct rondo_limits *limits)
{
    return limits->lanes * layout_of(limits).bytes;
}

/* Sets words of a mailbox, in host memory if it has an address there. */
static rondoResult_t set_words(const struct rondo_anchor *anchor, const struct rondo_box *box, uint64_t at,
                               uint32_t word, uint64_t words)
{
    if (!box->host)
        return anchor->ops->fill(anchor->device, box->address + at, 4, word, words);
    uint32_t *to = (uint32_t *)(void *)(box->host + at);
    for (uint64_t i = 0; i < words; i++)
        __atomic_store_n(to + i, word, __ATOMIC_RELAXED); /* seen by others after an exchange among ranks */
    return rondoSuccess;
}

/* Empty lines, and no escape for any of them. */
static rondoResult_t reset_lines(const struct rondo_anchor *anchor, const struct rondo_box *box, uint64_t at,
                                 uint64_t bytes, uint64_t escapes)
{
    RONDO_TRY(set_words(anchor, box, at, RONDO_EMPTY_WORD, bytes / 4));
    return escapes ? set_words(anchor, box, at + bytes, 0, escapes / 4) : rondoSuccess;
}

rondoResult_t rondo_lanes_reset_box(const struct rondo_anchor *anchor, const struct rondo_limits *limits,
                                    uint32_t epoch, const struct rondo_box *box)
{
    const struct layout l = layout_of(limits);
    const uint64_t lines = 2ull * limits->half_lines;
    for (unsigned lane = 0; lane < limits->lanes; lane++) {
        const uint64_t at = lane * l.bytes;
        RONDO_TRY(reset_lines(anchor, box, at, lines * limits->line_bytes, lines));
        if (limits->ranks > 1) {
            RONDO_TRY(reset_lines(anchor, box, at + l.tokens_at, l.fifos_at - l.tokens_at, 0));
            RONDO_TRY(reset_lines(anchor, box, at + l.fifos_at, l.fifo_lines * limits->line_bytes, l.fifo_lines));
            RONDO_TRY(reset_lines(anchor, box, at + l.handshakes_at, l.handshakes * limits->line_bytes, 0));
        }
        RONDO_TRY(set_words(anchor, box, at + l.credits_at, epoch, (uint64_t)limits->ranks * limits->fifo_channels));
    }
    return rondoSuccess;
}

rondoResult_t rondo_lanes_reset(const struct rondo_anchor *anchor, const struct rondo_limits *limits, uint32_t epoch)
{
    const struct rondo_device_ops *ops = anchor->ops;
    memset(anchor->reports.host, 0, rondo_lanes_report_bytes(anchor->lanes));
    RONDO_TRY(ops->fill(anchor->device, anchor->control.address, 4, 0,
                        rondo_lanes_control_bytes(anchor->lanes, limits->ranks) / 4));
    RONDO_TRY(ops->fill(anchor->device, &channels_at(anchor, 0)->epoch, sizeof(struct rondo_channel), epoch,
                        anchor->lanes * RONDO_MAX_CHANNELS));
    if (anchor->trace.bytes)
        RONDO_TRY(ops->fill(anchor->device, anchor->trace.address, 4, 0, anchor->trace.bytes / 4));
    return ops->fill(anchor->device, positions_at(anchor, limits->ranks, 0), 4, epoch,
                     anchor->lanes * positions_of(limits->ranks));
}

/* What the kernels look up in memory: mailboxes beyond those that arguments hold, and where to post. */
static rondoResult_t write_tables(const struct rondo_anchor *anchor, const struct rondo_limits *limits, unsigned lane,
                                  const struct rondo_boxes *boxes)
{
    const uint64_t at = lane * layout_of(limits).bytes;
    char *table[2 * RONDO_MAX_RANKS];
    struct rondo_poster posters[RONDO_MAX_RANKS], *peers = posters_at(anchor, limits->ranks);
    memset(posters, 0, sizeof posters);
    for (unsigned r = 0; r < limits->ranks; r++) {
        table[r] = boxes->to[r] + at;
        table[limits->ranks + r] = boxes->from[r] + at;
        posters[r].ring = boxes->rings[r];
        posters[r].base = boxes->to[r];
    }
    RONDO_TRY(anchor->ops->write(anchor->device, boxes_at(anchor, limits->ranks, lane), table,
                                 2 * limits->ranks * sizeof *table));
    RONDO_TRY(anchor->ops->write(anchor->device, &posts_at(anchor, limits->ranks, lane)->peers, &peers, sizeof peers));
    RONDO_TRY(anchor->ops->write(anchor->device, peers, posters, limits->ranks * sizeof *posters));
    if (!limits->copies)
        return rondoSuccess;
    const struct rondo_copy *asked = rondo_lane_copy(limits, anchor->copies.device, lane, 0);
    return anchor->ops->write(anchor->device, &copies_at(anchor, limits->ranks, lane)->asked, &asked, sizeof asked);
}

rondoResult_t rondo_lanes_open(const struct rondo_anchor *anchor, const struct rondo_limits *limits, unsigned rank,
                               uint64_t timeout_ns, const struct rondo_boxes *boxes,
                               struct rondo_lane lanes[RONDO_MAX_LANES])
{
    const struct layout l = layout_of(limits);
    const unsigned ranks = limits->ranks;
    bool posts = false;
    for (unsigned r = 0; r < ranks; r++)
        posts |= boxes->rings[r] != NULL;
    for (unsigned i = 0; i < anchor->lanes; i++) {
        struct rondo_lane_args *lane = &lanes[i].args;
        memset(&lanes[i], 0, sizeof lanes[i]);
        lane->channels = channels_at(anchor, i);
        lane->report = (struct rondo_report *)anchor->reports.device + i;
        lane->posts = posts ? posts_at(anchor, ranks, i) : NULL;
        lane->boxes = boxes_at(anchor, ranks, i);
        lane->exports = has_exports(ranks) ? rondo_lanes_exports(anchor, ranks) : NULL;
        lane->copies = limits->copies ? copies_at(anchor, ranks, i) : NULL;
        lane->trace = trace_at(anchor, i);
        lane->trace_mask = lane->trace ? (uint32_t)trace_entries(anchor) - 1 : 0;
        lane->timeout_ns = timeout_ns;
        lane->half_lines = limits->half_lines;
        lane->bulk_lines = limits->bulk_lines;
        lane->bulk_at = l.bulk_at;
        lane->rank = (uint16_t)rank;
        lane->ranks = (uint16_t)ranks;
        lane->large = (uint16_t)limits->large;
        lanes[i].fifos = (struct rondo_fifo_args){
            .positions = positions_at(anchor, ranks, i),
            .fifos_at = l.fifos_at,
            .credits_at = l.credits_at,
            .handshakes_at = l.handshakes_at,
            .lines = limits->fifo_lines,
            .channels = limits->fifo_channels,
        };
        for (unsigned r = 0; r < ranks && r < RONDO_ARG_PEERS; r++) {
            lane->to[r] = boxes->to[r] + i * l.bytes;
            lane->from[r] = boxes->from[r] + i * l.bytes;
        }
        RONDO_TRY(write_tables(anchor, limits, i, boxes));
    }
    return rondoSuccess;
}

unsigned rondo_lane_of(const struct rondo_anchor *anchor, const struct rondo_channel *channels)
{
    return (unsigned)((channels - channels_at(anchor, 0)) / RONDO_MAX_CHANNELS);
}

struct rondo_report *rondo_lane_report(const struct rondo_anchor *anchor, unsigned lane)
{
    return (struct rondo_report *)anchor->reports.host + lane;
}

void rondo_lanes_abort(const struct rondo_anchor *anchor)
{
    for (unsigned l = 0; l < anchor->lanes; l++)
        __atomic_store_n(&rondo_lane_report(anchor, l)->abort, 1, __ATOMIC_RELEASE); /* rondo_wait_look */
}

rondoResult_t rondo_lanes_stop(const struct rondo_anchor *anchor)
{
    return anchor->ops->fill(anchor->device, &channels_at(anchor, 0)->stop, sizeof(struct rondo_channel), 1,
                             anchor->lanes * RONDO_MAX_CHANNELS);
}

rondoResult_t rondo_lanes_busy(const struct rondo_anchor *anchor, bool *busy)
{
    struct rondo_channel channels[RONDO_MAX_LANES * RONDO_MAX_CHANNELS];
    const unsigned count = anchor->lanes * RONDO_MAX_CHANNELS;
    RONDO_TRY(anchor->ops->read(anchor->device, channels, channels_at(anchor, 0), count * sizeof *channels));
    *busy = false;
    for (unsigned c = 0; c < count; c++)
        *busy |= channels[c].busy != 0;
    return rondoSuccess;
}
