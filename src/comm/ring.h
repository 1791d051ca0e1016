/* In which order data goes from rank to rank, and for which ops that puts less on the slow pairs than exchanges among all do. Pure: a
 * function of what all ranks know, so all of them come to the same. */
#ifndef RONDO_COMM_RING_H
#define RONDO_COMM_RING_H

#include "comm/limits.h"

/* What a pair is joined by, from the fastest to the slowest. */
enum rondo_ring_cost {
    RONDO_RING_DEVICE, /* device memory of one of the two */
    RONDO_RING_RELAY,  /* of a third rank */
    RONDO_RING_HOST,   /* host memory */
    RONDO_RING_FAR,    /* the same between two NUMA nodes */
};

/* Sets limits->ring and ring_widest for limits->ranks ranks. `costs` are of what goes from rank s to rank r, [s * ranks + r]; pairs
 * above the least of them are slow. The order goes on to the rank that is joined best, so that ranks of an island of fast pairs lie
 * side by side. */
void rondo_ring_choose(struct rondo_limits *limits, const uint8_t *costs);

/* What crosses slow pairs, all of them together, in a collective (of all roots together, if it has one) as an exchange among all
 * pairs, of works of two shots or of parts; in parts of which a message has `ranks`. */
uint64_t rondo_ring_flat_load(const struct rondo_limits *limits, const uint8_t *costs, unsigned collective);

/* And round the ring, if partial results take `width` lines for one. */
uint64_t rondo_ring_load(const struct rondo_limits *limits, const uint8_t *costs, unsigned collective, unsigned width);

#endif
