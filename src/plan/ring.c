#include "plan/ring.h"

#include "plan/choose.h"

/* A block's chunks of all flows together, at least, so that the first ones are far when the last ones start; and the most channels, as
 * every chunk costs tokens. Neither was measured (docs/decisions/0008). */
enum { CHUNKS = 16, MOST_CHANNELS = 32, FEWEST_LINES = 64 };

/* Lines that a chunk may have with so many channels: its streams' places share a pair's slot. 0: there is no room. */
static uint64_t room_of(const struct rondo_limits *limits, const struct rondo_task *task, bool bulk, unsigned channels)
{
    const unsigned width = rondo_ring_width(task->collective, task->dtype, task->redop);
    const uint64_t slot = limits->half_lines / (limits->ranks - 1),
                   bulk_slot = limits->bulk_lines / (limits->ranks - 1);
    const uint64_t tokens = rondo_ring_token_lines(task->collective, channels);
    const uint64_t places = (uint64_t)rondo_ring_kinds(task->collective) * channels * RONDO_RING_DEPTH;
    return tokens > slot ? 0 : (bulk ? bulk_slot : slot - tokens) / (places * width);
}

bool rondo_ring_shape(const struct rondo_limits *limits, const struct rondo_task *task, uint64_t bytes,
                      struct rondo_ring_shape *shape)
{
    const uint64_t span = (bytes + limits->line_bytes - 1) / limits->line_bytes;
    const struct rondo_shape usual = rondo_choose_shape(limits, task->collective, bytes, span, false);
    const unsigned most = limits->min_channels > MOST_CHANNELS ? limits->min_channels : MOST_CHANNELS;
    const bool parts = task->collective == RONDO_REDUCE_SCATTER || task->collective == RONDO_ALL_GATHER;
    const uint64_t chunks = parts && limits->ranks < CHUNKS ? CHUNKS / limits->ranks : parts ? 1 : CHUNKS;
    shape->threads = usual.threads;
    shape->channels = usual.channels < most ? usual.channels : most;
    shape->bulk = bytes >= limits->bulk_from[task->collective];
    uint64_t room = room_of(limits, task, shape->bulk, shape->channels);
    while (shape->channels > 1 && room < shape->threads) {
        shape->channels = (shape->channels + 1) / 2;
        room = room_of(limits, task, shape->bulk, shape->channels);
    }
    const uint64_t fewest = shape->threads > FEWEST_LINES ? shape->threads : FEWEST_LINES;
    uint64_t chunk = (span + shape->channels * chunks - 1) / (shape->channels * chunks);
    chunk = chunk < fewest ? fewest : chunk;
    chunk = chunk > room ? room : chunk;
    if (chunk > shape->threads)
        chunk -= chunk % shape->threads;
    shape->chunk = (uint32_t)chunk;
    return chunk > 0;
}
