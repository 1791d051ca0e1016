/* Where results go: a table for people, JSON lines, CSV, a plot. Rank 0 reports; the files are opened before it is
 * forked, so that a bad path costs nothing. */
#ifndef RONDO_BENCH_REPORT_H
#define RONDO_BENCH_REPORT_H

#include "library.h"
#include "options.h"
#include "result.h"

#include <stddef.h>
#include <stdio.h>

struct bench_op;
struct run_about;

struct report {
    const struct bench_options *options;
    const char *device;
    FILE *text; /* standard output, or standard error if a file is "-" */
    FILE *json; /* NULL: none */
    FILE *csv;
    FILE *svg;
    int progress; /* whether a progress line is wanted */
    int total;    /* rows × libraries */
    int done;
    double rondo_us;              /* graph time of the current row */
    struct bench_result *results; /* all so far, for the plot */
    size_t result_count;
};

/* 0, or -1 with a text. */
int report_open(struct report *report, const struct bench_options *options, const char *device, char *text,
                size_t room);

/* On rank 0, in this order, with rows behind their op; `about` is by rank. */
void report_begin(struct report *report, const struct run_about *about, const struct bench_lib *libs,
                  const double *init_ms, int lib_count);
void report_op(struct report *report, const struct bench_op *op, const struct bench_lib *libs, int lib_count);
void report_progress(struct report *report, const char *op, const char *type, size_t bytes, const char *lib);
void report_row(struct report *report, const struct bench_result *eager, const struct bench_result *graph);
void report_end(struct report *report, double wrong);

#endif
