/* Measures from which sizes on which exchange, protocol and shape are best, and writes a table of that (docs/tuning.md). */
#ifndef RONDO_BENCH_TUNE_H
#define RONDO_BENCH_TUNE_H

#include "options.h"
#include "report.h"

/* What a run is made with: `run` measures all rows of the options in processes of their own, which read the environment anew.
 * Its status: 0, or not 0 if a result was wrong or a rank failed. */
struct tune_how {
    const struct bench_options *options; /* tune: the file; nranks is known */
    const char *device;
    int (*run)(void *argument, const struct bench_options *options, struct report *report);
    void *argument;
};

/* An exit status: 0, 1 if a run went wrong, 2 if the file cannot be written. */
int tune(const struct tune_how *how);

#endif
