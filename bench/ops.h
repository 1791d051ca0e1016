/* The collectives that rondo-perf knows, as a table: one row per op. Sizes and bandwidths are nccl-tests': an op's size
 * is that of the larger of a rank's buffers, and its count the argument of that name. */
#ifndef RONDO_BENCH_OPS_H
#define RONDO_BENCH_OPS_H

#include "rondo/rondo.h"

#include <stddef.h>

struct bench_lib;

/* Who calls, and what. Counts and places are in elements everywhere here. */
struct bench_place {
    int rank;
    int nranks;
    int root;     /* matters to rooted ops only */
    int in_place; /* send and receive buffer are one */
    size_t count; /* all_to_allv: of all parts that a rank sends */
};

struct bench_call {
    struct bench_place place;
    const void *send;
    void *recv;
    rondoDataType_t type;
    rondoRedOp_t redop;
    rondoComm_t comm;
    struct CUstream_st *stream;
};

/* Where in its buffers an op has a rank's data. In place they are ranges of the one buffer. */
struct bench_layout {
    size_t send_at, send_count;
    size_t recv_at, recv_count;
};

enum { BENCH_REDUCED = -1 };

/* A piece of what a rank receives: at `at` of its results lies what rank `from` gave from `index` on, or the reduction
 * from there on. */
struct bench_part {
    int from; /* or BENCH_REDUCED */
    size_t index;
    size_t at;
    size_t count; /* 0: there is no such piece */
};

struct bench_op {
    const char *name;
    const char *function; /* for messages */
    const char *size;     /* what the size is of, for people */
    int reduces;
    int rooted;
    int in_place; /* 1: it may be */
    int has_data; /* 0: and so no sizes and types */
    /* The largest count of buffers that have no more than this many elements, but at least 1; and a count's elements. */
    size_t (*count)(size_t elements, int nranks);
    size_t (*elements)(size_t count, int nranks);
    void (*layout)(const struct bench_place *place, struct bench_layout *layout);
    /* Piece `number` of a rank's results, of nranks ones. */
    void (*part)(const struct bench_place *place, int number, struct bench_part *part);
    size_t (*explain_count)(const struct bench_place *place); /* for rondoCommExplain */
    rondoResult_t (*issue)(const struct bench_lib *lib, const struct bench_call *call);
    double (*bus_factor)(int nranks); /* bus bandwidth / algorithm bandwidth */
};

extern const struct bench_op bench_ops[];
extern const int bench_op_count;

/* NULL, or why the library cannot run the op: "has no barrier". */
const char *bench_op_lacks(const struct bench_op *op, const struct bench_lib *lib, int in_place);

/* NCCL's names, by rondoRedOp_t. */
extern const char *const bench_redops[rondoNumOps];

#endif
