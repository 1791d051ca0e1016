/* What the user asked for. */
#ifndef RONDO_BENCH_OPTIONS_H
#define RONDO_BENCH_OPTIONS_H

#include "library.h"

#include <stddef.h>

struct bench_options {
    size_t min_bytes;
    size_t max_bytes;
    size_t step_bytes; /* added from size to size; 0: `factor` multiplies */
    size_t factor;
    int iterations; /* eager; 0: none */
    int warmup;
    int check;
    int nranks;         /* 0: the device's default */
    unsigned types;     /* bits by rondoDataType_t */
    unsigned redops;    /* bits by rondoRedOp_t */
    unsigned ops;       /* bits by row of bench_ops */
    int threads;        /* 1: ranks are threads of one process */
    const char *device; /* NULL: chosen as the library does */
    int ops_per_graph;  /* 0: by size */
    int replays;        /* -1: by size; 0: none */
    int group;
    int plan;          /* eager ops are launches of a plan, in libraries that have them */
    int in_place;      /* ops that cannot be are measured out of place */
    int root;          /* of rooted ops */
    double compute_us; /* 0: none */
    const char *libs[LIBRARY_MAX];
    int lib_count;
    const char *json; /* NULL: none */
    const char *csv;
    const char *svg;
    int explain;      /* nothing is measured: how Rondo would run each row, and why */
    const char *tune; /* file to write a table of thresholds to; NULL: none */
};

enum options_verdict { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_BAD };

/* BAD: one line on standard error has said why. DONE: --help or --version was answered. */
enum options_verdict options_parse(struct bench_options *options, int argc, char **argv);

/* The size after `bytes`; 0 if that was the last. */
size_t options_next_size(const struct bench_options *options, size_t bytes);

/* "4096" as "4K". */
void options_size_text(size_t bytes, char *text, size_t room);

#endif
