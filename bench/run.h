/* All rows, on one rank. */
#ifndef RONDO_BENCH_RUN_H
#define RONDO_BENCH_RUN_H

#include "library.h"
#include "options.h"
#include "report.h"

#include <stdatomic.h>
#include <sys/types.h>

enum { RUN_MAX_RANKS = 64 };

/* Memory that the ranks and the supervisor share. */
struct run_shared {
    rondoUniqueId ids[LIBRARY_MAX];
    struct run_about {
        char device[96];
        pid_t pid;
        int number; /* of the device */
    } about[RUN_MAX_RANKS];
    _Atomic double wrong;          /* elements, in all rows; written by rank 0 */
    _Alignas(16) double samples[]; /* nranks × run_samples() */
};

/* What a rank is given. */
struct run {
    const struct bench_options *options;
    const char *device;
    int device_count;
    struct report *report;
};

/* Samples that a rank needs room for. */
size_t run_samples(const struct bench_options *options);
size_t run_shared_bytes(const struct bench_options *options);

/* A procs_function; `argument` is a struct run. */
struct procs;
int run_rank(struct procs *procs, int rank, void *argument);

#endif
