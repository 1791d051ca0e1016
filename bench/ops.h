/* The collectives that rondo-perf knows, as a table: one row per op. */
#ifndef RONDO_BENCH_OPS_H
#define RONDO_BENCH_OPS_H

#include "rondo/rondo.h"

#include <stddef.h>

struct bench_lib;

struct bench_call {
    const void *send;
    void *recv;
    size_t count; /* elements of what nccl-tests calls the size */
    rondoDataType_t type;
    rondoRedOp_t redop;
    rondoComm_t comm;
    struct CUstream_st *stream;
};

struct bench_op {
    const char *name;
    const char *function; /* for messages */
    rondoResult_t (*issue)(const struct bench_lib *lib, const struct bench_call *call);
    double (*bus_factor)(int nranks); /* bus bandwidth / algorithm bandwidth, as nccl-tests defines it */
};

extern const struct bench_op bench_ops[];
extern const int bench_op_count;

/* NCCL's names, by rondoRedOp_t. */
extern const char *const bench_redops[rondoNumOps];

#endif
