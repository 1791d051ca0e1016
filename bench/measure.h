/* Times one op of one library on one rank, together with the other ranks. */
#ifndef RONDO_BENCH_MEASURE_H
#define RONDO_BENCH_MEASURE_H

#include "data.h"
#include "library.h"
#include "ops.h"
#include "options.h"
#include "result.h"

#include "machine.h"
#include "procs.h"

/* A rank's state; its fields do not change between rows unless said. */
struct bench_rank {
    const struct bench_options *options;
    const struct machine *machine;
    struct procs *procs;
    int rank;
    double *samples; /* shared by the ranks: nranks × max_samples */
    size_t max_samples;
    struct CUstream_st *stream;
    struct machine_event *from;
    struct machine_event *to;
    char *
        send; /* device memory, a buffer per call of a group; holds the input of the current row, and poison around it */
    char *recv;    /* the same; in place, the only buffer that ops use */
    char *staging; /* host memory for one buffer */
};

/* What is measured now. */
struct bench_case {
    const struct bench_op *op;
    const struct bench_lib *lib;
    rondoComm_t comm;
    struct data data;
    struct bench_place place;
    struct bench_layout layout; /* that follows from it */
    size_t bytes;               /* the size */
    size_t stride;              /* from buffer to buffer of a group */
    rondoPlan_t plan;           /* of the op; NULL: it is called */
    int ops_per_graph;
    int replays;
};

/* Says what went wrong and ends the process: the supervisor ends the others. */
_Noreturn void bench_fail(int rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_require(int rank, const struct bench_lib *lib, rondoResult_t result, const char *call, rondoComm_t comm);

/* Waits for all ranks; ends the process if one is gone. */
void bench_together(struct bench_rank *rank);

/* Fills the send buffers. */
void bench_upload(struct bench_rank *rank, const struct bench_case *what);

/* Sets times (on rank 0; `us` everywhere), checked and wrong of the result. */
void bench_eager(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result);
/* As bench_eager, but what is timed are launches of a plan of the op, in a library that has plans. */
void bench_plan(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result);
void bench_graph(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result);

#endif
