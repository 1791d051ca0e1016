/* From checked tasks to launches. Pure: no device, no comm, no clock; equal inputs give equal plans on every rank (but
 * for the pointers and what follows from their alignment, which no other rank sees). */
#ifndef RONDO_PLAN_PLAN_H
#define RONDO_PLAN_PLAN_H

#include "rondo/rondo.h"

#include "comm/limits.h"
#include "kernels/work.h"

#include <stddef.h>

/* A checked op that waits in its group. */
struct rondo_task {
    const void *send;
    void *recv;
    size_t count; /* elements; not 0 */
    uint8_t dtype, redop;
};

/* One kernel launch. The lane part of the arguments is filled in by who launches. */
struct rondo_plan_launch {
    unsigned kernel; /* kernels/instances.h */
    unsigned blocks, threads;
    uint32_t steps;    /* by which the lane's epoch advances */
    unsigned works;    /* tasks of the group that the launch covers */
    unsigned algo;     /* of the first, for reports */
    size_t args_bytes; /* that are in use */
    union {
        struct rondo_single_args single;
        struct rondo_batch_args batch;
    } args;
};

/* Plans the next launch of a group: takes as many of `tasks` as fit into one, at least one, and says in launch->works
 * how many. count is not 0. */
void rondo_plan_next(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                     struct rondo_plan_launch *launch);

#endif
