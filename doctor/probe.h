/* One mechanism between two devices, tried by a process for each (or one for both), and what came of it. */
#ifndef RONDO_DOCTOR_PROBE_H
#define RONDO_DOCTOR_PROBE_H

#include "device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MECHANISMS_MOST = 8, WHY_BYTES = 200 };

/* What one process writes about one mechanism; shared memory. */
struct result {
    int state;            /* atomic: enum result_state */
    bool idle;            /* the other process did it all */
    bool maps;            /* else `why` says why not */
    bool lost;            /* it could not be told: `why` */
    bool wrong;           /* it maps, but does not do what it should: `why` */
    bool copies, kernels; /* verified */
    char why[WHY_BYTES];
    double write_gbs[2], read_gbs[2]; /* copies by each device; 0: not measured by this process */
    double latency_us;                /* one way, between resident kernels */
};

enum result_state { RESULT_NONE, RESULT_RUNNING, RESULT_DONE };

enum outcome_kind { OUTCOME_WORKS, OUTCOME_UNAVAILABLE, OUTCOME_BROKEN, OUTCOME_INCONCLUSIVE };
const char *outcome_name(enum outcome_kind kind);

/* What both processes' results say together. */
struct outcome {
    enum outcome_kind kind;
    bool copies, kernels;
    char why[WHY_BYTES];
    double write_gbs[2], read_gbs[2], latency_us;
};

/* What a process is to do. */
struct probe {
    const struct rondo_device_ops *ops;
    struct rondo_device *device;
    int role;       /* 0 or 1 */
    int devices[2]; /* ordinals */
    bool access;    /* as the driver says of the pair */
    int socket;     /* to the other process; -1: this one has both sides */
    size_t bytes;   /* of a copy */
    int repeats;    /* copies that are timed */
    unsigned rounds;
    uint64_t limit_ns; /* longest wait */
};

#endif
