/* What a launch's arguments hold: the way back from what plan.h packs. Pure. */
#ifndef RONDO_PLAN_UNPACK_H
#define RONDO_PLAN_UNPACK_H

#include "kernels/work.h"

#include <stdbool.h>
#include <stddef.h>

/* All point into the arguments. */
struct rondo_unpacked {
    struct rondo_lane_args *lane;
    struct rondo_work *works;
    size_t work_count;
    struct rondo_export_args *exports; /* of a launch that has them; else NULL */
    struct rondo_transfer *transfers;
    size_t transfer_count;
    struct rondo_end *ends; /* whose transfers follow one another and are all */
    size_t end_count;
    bool barrier; /* of nothing else. One beside works leaves no trace */
};

/* `args` are a launch's of the kernel with this number. */
void rondo_unpack(unsigned kernel, void *args, struct rondo_unpacked *unpacked);

#endif
