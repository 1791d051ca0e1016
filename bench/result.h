/* One measured row: a library, an op of one size, eagerly or in a graph. */
#ifndef RONDO_BENCH_RESULT_H
#define RONDO_BENCH_RESULT_H

#include "library.h"

#include <stddef.h>

struct bench_times {
    double us;      /* mean of the slowest rank */
    double host_us; /* in the call, of the slowest rank; eager only */
    double min;     /* min … max: of single ops or replays that start together, each as the slowest rank saw it */
    double p50;
    double p99;
    double max;
};

struct bench_result {
    int measured; /* 0: this mode was not asked for */
    const char *mode;
    int lib_index;
    const char *lib;
    const char *version;
    const char *op;
    int root;     /* -1: the op has none */
    size_t bytes; /* of one call */
    size_t count;
    const char *type;
    const char *redop;
    int ranks;
    const char *device;
    int group;
    int in_place;
    struct bench_times times;
    double algbw; /* GB/s (10^9) */
    double busbw;
    int checked;
    double wrong; /* elements, over all ranks; of a barrier, ranks that left it too early */
    struct bench_choice choice;
};

#endif
