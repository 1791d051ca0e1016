#include "comm/ring.h"

#include <stdbool.h>
#include <string.h>

/* ---- slow pairs ---- */

static unsigned cost_of(const struct rondo_limits *limits, const uint8_t *costs, unsigned s, unsigned r)
{
    return costs[s * limits->ranks + r];
}

/* The pairs of a comm. Those above the least cost are slow. */
struct pairs {
    const struct rondo_limits *limits;
    const uint8_t *costs;
    unsigned least;
};

static struct pairs pairs_of(const struct rondo_limits *limits, const uint8_t *costs)
{
    struct pairs pairs = {limits, costs, RONDO_RING_FAR};
    for (unsigned s = 0; s < limits->ranks; s++)
        for (unsigned r = 0; r < limits->ranks; r++)
            if (s != r && cost_of(limits, costs, s, r) < pairs.least)
                pairs.least = cost_of(limits, costs, s, r);
    return pairs;
}

/* 1 if what goes from s to r crosses a slow pair. */
static uint64_t slow(const struct pairs *pairs, unsigned s, unsigned r)
{
    return s != r && cost_of(pairs->limits, pairs->costs, s, r) > pairs->least;
}

/* ---- the order ---- */

/* Of those without a place, the rank that is joined best to `last`; the lowest of several. */
static unsigned nearest(const struct rondo_limits *limits, const uint8_t *costs, const bool *placed, unsigned last)
{
    unsigned found = limits->ranks, least = 0;
    for (unsigned r = 0; r < limits->ranks; r++) {
        if (placed[r])
            continue;
        const unsigned to = cost_of(limits, costs, last, r), from = cost_of(limits, costs, r, last);
        const unsigned cost = to > from ? to : from;
        if (found == limits->ranks || cost < least) {
            found = r;
            least = cost;
        }
    }
    return found;
}

static void choose_order(struct rondo_limits *limits, const uint8_t *costs)
{
    bool placed[RONDO_MAX_RANKS] = {false};
    unsigned rank = 0;
    memset(&limits->ring, 0, sizeof limits->ring);
    for (unsigned place = 0; place < limits->ranks; place++) {
        if (place)
            rank = nearest(limits, costs, placed, rank);
        limits->ring.ranks[place] = (uint8_t)rank;
        limits->ring.places[rank] = (uint8_t)place;
        placed[rank] = true;
    }
}

/* ---- loads ---- */

uint64_t rondo_ring_flat_load(const struct rondo_limits *limits, const uint8_t *costs, unsigned collective)
{
    const struct pairs joined = pairs_of(limits, costs);
    const unsigned n = limits->ranks;
    uint64_t pairs = 0;
    for (unsigned s = 0; s < n; s++)
        for (unsigned r = 0; r < n; r++)
            pairs += slow(&joined, s, r);
    switch (collective) {
    case RONDO_ALL_REDUCE: /* a shard, and a result */
        return 2 * pairs;
    case RONDO_REDUCE: /* for every root, shards among all, and results to it */
        return (n + 1) * pairs;
    case RONDO_BROADCAST: /* for every root, shards from it; from each owner, results to all but the root and itself */
        return n * pairs;
    default:
        return pairs;
    }
}

/* What goes out from the rank at a place to both ends crosses all edges of the order: so many of them are slow. */
static uint64_t spread(const struct pairs *pairs, unsigned place)
{
    const uint8_t *ranks = pairs->limits->ring.ranks;
    uint64_t edges = 0;
    for (unsigned p = 0; p + 1 < pairs->limits->ranks; p++)
        edges += p < place ? slow(pairs, ranks[p + 1], ranks[p]) : slow(pairs, ranks[p], ranks[p + 1]);
    return edges;
}

uint64_t rondo_ring_load(const struct rondo_limits *limits, const uint8_t *costs, unsigned collective, unsigned width)
{
    const struct pairs joined = pairs_of(limits, costs);
    const unsigned n = limits->ranks, last = n - 1;
    uint64_t up = 0, spreads = 0, from_last = 0;
    for (unsigned r = 0; r < n; r++) {
        up += r < last ? slow(&joined, r, r + 1) : 0;
        from_last += slow(&joined, last, r);
        spreads += spread(&joined, r);
    }
    switch (collective) {
    case RONDO_ALL_REDUCE:
        return n * (up * width + spread(&joined, limits->ring.places[last]));
    case RONDO_REDUCE_SCATTER:
        return n * up * width + from_last;
    case RONDO_REDUCE: /* for every root */
        return n * (n * up * width + from_last);
    case RONDO_BROADCAST: /* for every root */
        return n * spreads;
    default: /* all-gather: every rank's part */
        return spreads;
    }
}

void rondo_ring_choose(struct rondo_limits *limits, const uint8_t *costs)
{
    choose_order(limits, costs);
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++) {
        limits->ring_widest[c] = 0;
        for (unsigned width = 1; width <= RONDO_RING_WIDEST && c != RONDO_ALL_TO_ALL; width *= 2)
            if (rondo_ring_load(limits, costs, c, width) < rondo_ring_flat_load(limits, costs, c))
                limits->ring_widest[c] = (uint8_t)width;
    }
}
