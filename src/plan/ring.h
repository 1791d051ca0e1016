/* The shape of a work that goes round the ring. Pure. */
#ifndef RONDO_PLAN_RING_H
#define RONDO_PLAN_RING_H

#include "plan/plan.h"

struct rondo_ring_shape {
    unsigned channels, threads;
    uint32_t chunk; /* lines of a flow that a block passes on at once */
    bool bulk;
};

/* False: the mailbox has no room for a ring's streams. */
bool rondo_ring_shape(const struct rondo_limits *limits, const struct rondo_task *task, uint64_t bytes,
                      struct rondo_ring_shape *shape);

#endif
