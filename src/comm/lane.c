#include "comm/lane.h"

#include "common/result.h"

#include <string.h>

/* Control memory: the channels of all lanes, then each lane's table of peers. */
static struct rondo_channel *channels_of(const struct rondo_anchor *anchor, unsigned lane)
{
    return (struct rondo_channel *)anchor->control.address + (size_t)lane * RONDO_MAX_CHANNELS;
}

static char **peers_of(const struct rondo_anchor *anchor, unsigned ranks, unsigned lane)
{
    return (char **)((struct rondo_channel *)anchor->control.address + RONDO_LANE_COUNT * RONDO_MAX_CHANNELS) +
           (size_t)lane * ranks;
}

size_t rondo_lanes_control_bytes(unsigned ranks)
{
    return RONDO_LANE_COUNT * (RONDO_MAX_CHANNELS * sizeof(struct rondo_channel) + ranks * sizeof(char *));
}

size_t rondo_lanes_report_bytes(void)
{
    return RONDO_LANE_COUNT * sizeof(struct rondo_report);
}

size_t rondo_lanes_mailbox_bytes(uint32_t half_lines, unsigned line_bytes)
{
    return RONDO_LANE_COUNT * rondo_mailbox_bytes(half_lines, line_bytes);
}

rondoResult_t rondo_lanes_reset(const struct rondo_anchor *anchor, unsigned ranks, uint32_t half_lines,
                                unsigned line_bytes, uint32_t epoch)
{
    const struct rondo_device_ops *ops = anchor->ops;
    const size_t lane_bytes = rondo_mailbox_bytes(half_lines, line_bytes), escapes = 2ull * half_lines;
    memset(anchor->reports.host, 0, rondo_lanes_report_bytes());
    RONDO_TRY(ops->fill(anchor->device, anchor->control.address, 4, 0, rondo_lanes_control_bytes(ranks) / 4));
    RONDO_TRY(ops->fill(anchor->device, &channels_of(anchor, 0)->epoch, sizeof(struct rondo_channel), epoch,
                        RONDO_LANE_COUNT * RONDO_MAX_CHANNELS));
    for (unsigned lane = 0; lane < RONDO_LANE_COUNT; lane++) {
        char *mailbox = (char *)anchor->mailbox.address + lane * lane_bytes;
        RONDO_TRY(ops->fill(anchor->device, mailbox, 4, RONDO_EMPTY_WORD, (lane_bytes - escapes) / 4));
        RONDO_TRY(ops->fill(anchor->device, mailbox + lane_bytes - escapes, 4, 0, escapes / 4));
    }
    return rondoSuccess;
}

rondoResult_t rondo_lanes_open(const struct rondo_anchor *anchor, unsigned rank, unsigned ranks, uint32_t half_lines,
                               unsigned line_bytes, uint64_t timeout_ns, char *const *mailboxes,
                               struct rondo_lane_args lanes[RONDO_LANE_COUNT])
{
    const size_t lane_bytes = rondo_mailbox_bytes(half_lines, line_bytes);
    for (unsigned l = 0; l < RONDO_LANE_COUNT; l++) {
        struct rondo_lane_args *lane = &lanes[l];
        memset(lane, 0, sizeof *lane);
        lane->channels = channels_of(anchor, l);
        lane->report = (struct rondo_report *)anchor->reports.device + l;
        lane->mailbox = mailboxes[rank] + l * lane_bytes;
        lane->peers = peers_of(anchor, ranks, l);
        lane->timeout_ns = timeout_ns;
        lane->half_lines = half_lines;
        lane->rank = (uint16_t)rank;
        lane->ranks = (uint16_t)ranks;
        for (unsigned r = 0; r < ranks; r++) {
            char *peer = mailboxes[r] + l * lane_bytes;
            if (r < RONDO_ARG_PEERS)
                lane->peer[r] = peer;
            RONDO_TRY(anchor->ops->write(anchor->device, peers_of(anchor, ranks, l) + r, &peer, sizeof peer));
        }
    }
    return rondoSuccess;
}

struct rondo_report *rondo_lane_report(const struct rondo_anchor *anchor, enum rondo_lane_use use)
{
    return (struct rondo_report *)anchor->reports.host + use;
}

void rondo_lanes_abort(const struct rondo_anchor *anchor)
{
    for (unsigned l = 0; l < RONDO_LANE_COUNT; l++)
        __atomic_store_n(&rondo_lane_report(anchor, l)->abort, 1, __ATOMIC_RELEASE); /* rondo_wait_look */
}

rondoResult_t rondo_lanes_stop(const struct rondo_anchor *anchor)
{
    return anchor->ops->fill(anchor->device, &channels_of(anchor, 0)->stop, sizeof(struct rondo_channel), 1,
                             RONDO_LANE_COUNT * RONDO_MAX_CHANNELS);
}

rondoResult_t rondo_lanes_busy(const struct rondo_anchor *anchor, bool *busy)
{
    struct rondo_channel channels[RONDO_LANE_COUNT * RONDO_MAX_CHANNELS];
    RONDO_TRY(anchor->ops->read(anchor->device, channels, channels_of(anchor, 0), sizeof channels));
    *busy = false;
    for (unsigned c = 0; c < RONDO_LANE_COUNT * RONDO_MAX_CHANNELS; c++)
        *busy |= channels[c].busy != 0;
    return rondoSuccess;
}
