#include "plan/choose.h"

#include <stddef.h>

bool rondo_has_shards(unsigned collective)
{
    return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE || collective == RONDO_BROADCAST;
}

enum rondo_algo rondo_choose_algo(const struct rondo_limits *limits, unsigned collective, uint64_t bytes)
{
    if (!rondo_has_shards(collective) || limits->ranks == 1)
        return RONDO_ONE_SHOT;
    if (limits->forced_algo == RONDO_ONE_SHOT || limits->forced_algo == RONDO_TWO_SHOT)
        return (enum rondo_algo)limits->forced_algo;
    return bytes < limits->two_shot_from[collective] ? RONDO_ONE_SHOT : RONDO_TWO_SHOT;
}

bool rondo_choose_ring(const struct rondo_limits *limits, const struct rondo_task *task, uint64_t bytes)
{
    const unsigned collective = task->collective;
    if (limits->ranks < 2 || collective >= RONDO_COLLECTIVE_COUNT || collective == RONDO_ALL_TO_ALL)
        return false;
    if (limits->forced_algo >= 0)
        return limits->forced_algo == RONDO_RING;
    return bytes >= limits->ring_from[collective] &&
           rondo_ring_width(collective, task->dtype, task->redop) <= limits->ring_widest[collective];
}

static uint64_t clamp(uint64_t x, uint64_t low, uint64_t high)
{
    return x < low ? low : x > high ? high : x;
}

const struct rondo_shape_rule *rondo_shape_rule_of(const struct rondo_limits *limits, unsigned collective,
                                                   uint64_t bytes)
{
    const struct rondo_shape_rule *found = NULL;
    if (collective >= RONDO_COLLECTIVE_COUNT)
        return NULL;
    for (unsigned i = 0; i < limits->shape_count[collective] && limits->shapes[collective][i].from <= bytes; i++)
        found = &limits->shapes[collective][i];
    return found;
}

struct rondo_shape rondo_choose_shape(const struct rondo_limits *limits, unsigned collective, uint64_t bytes,
                                      uint64_t span, bool may_be_lean)
{
    const struct rondo_shape_rule *rule = rondo_shape_rule_of(limits, collective, bytes);
    struct rondo_shape shape;
    /* One line a thread while there are blocks enough, for a thread's lines are one latency after the other; and small
     * blocks: on H200, 128 threads were best from 16 KiB to 256 KiB, 64 below 4 KiB (docs/decisions/0003). */
    uint64_t threads = span <= 64 ? 64 : 128, most = limits->max_channels, widest = limits->max_threads;
    if (limits->posts && span > 64)
        threads = limits->max_threads; /* blocks wait for the last of them to post */
    if (rule && rule->channels)
        most = clamp(rule->channels, limits->min_channels, limits->max_channels);
    if (may_be_lean && limits->lean_threads * most >= span)
        widest = limits->lean_threads;
    while (threads < widest && threads * most < span)
        threads *= 2;
    threads = clamp(threads, 1, widest);
    if (limits->forced_threads || (rule && rule->threads))
        threads = clamp(limits->forced_threads ? limits->forced_threads : rule->threads, 1, limits->kernel_threads);
    shape.threads = (unsigned)threads;
    shape.channels = (unsigned)clamp((span + shape.threads - 1) / shape.threads, limits->min_channels, most);
    return shape;
}
