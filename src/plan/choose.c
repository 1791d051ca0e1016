#include "plan/choose.h"

/* Two-shot pays a second trip over the link; one-shot sends (n-1) - 2(n-1)/n times the message more: in an all-reduce all
 * ranks do, in a broadcast the root does, in a reduce it receives so much more. They cost the same where trip * bandwidth bytes
 * equal that surplus: 280 KB for 4 ranks, 80 KB for 8. With 2 ranks there is no surplus. */
enum { TRIP_BYTES = 420 * 1000 }; /* 1.2 us at 350 GB/s */

bool rondo_has_shards(unsigned collective)
{
    return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE || collective == RONDO_BROADCAST;
}

enum rondo_algo rondo_choose_algo(const struct rondo_limits *limits, unsigned collective, uint64_t bytes)
{
    const uint64_t n = limits->ranks;
    if (!rondo_has_shards(collective) || n == 1)
        return RONDO_ONE_SHOT;
    if (limits->forced_algo >= 0)
        return (enum rondo_algo)limits->forced_algo;
    if (n == 2)
        return bytes <= 2u << 20 ? RONDO_ONE_SHOT : RONDO_TWO_SHOT;
    return bytes * (n - 1) * (n - 2) <= TRIP_BYTES * n ? RONDO_ONE_SHOT : RONDO_TWO_SHOT;
}

static uint64_t clamp(uint64_t x, uint64_t low, uint64_t high)
{
    return x < low ? low : x > high ? high : x;
}

struct rondo_shape rondo_choose_shape(const struct rondo_limits *limits, uint64_t span)
{
    struct rondo_shape shape;
    /* One line a thread while there are blocks enough, for a thread's lines are one latency after the other; and small
     * blocks: on H200, 128 threads were best from 16 KiB to 256 KiB, 64 below 4 KiB. */
    uint64_t threads = span <= 64 ? 64 : 128;
    if (limits->posts && span > 64)
        threads = limits->max_threads; /* blocks wait for the last of them to post */
    while (threads < limits->max_threads && threads * limits->max_channels < span)
        threads *= 2;
    shape.threads = (unsigned)clamp(limits->forced_threads ? limits->forced_threads : threads, 1, limits->max_threads);
    shape.channels =
        (unsigned)clamp((span + shape.threads - 1) / shape.threads, limits->min_channels, limits->max_channels);
    return shape;
}
