/* A library to measure: Rondo, which is linked, or any other with NCCL's API, by dlopen. NCCL's enums, results and
 * unique id have the same values and layout as Rondo's, so both are called through one table of Rondo's types. */
#ifndef RONDO_BENCH_LIBRARY_H
#define RONDO_BENCH_LIBRARY_H

#include "rondo/rondo.h"

#include <stddef.h>

enum { LIBRARY_MAX = 8 };

/* How a library would run an op. The texts are constants. */
struct bench_choice {
    const char *algo;
    const char *proto;
    int channels;
};

struct bench_lib {
    char name[32];    /* "rondo"; of a file "libnccl.so.2": "nccl" */
    char version[24]; /* "2.28.9" */
    rondoResult_t (*get_version)(int *version);
    rondoResult_t (*get_unique_id)(rondoUniqueId *id);
    rondoResult_t (*comm_init_rank)(rondoComm_t *comm, int nranks, rondoUniqueId id, int rank);
    rondoResult_t (*comm_destroy)(rondoComm_t comm);
    rondoResult_t (*comm_get_async_error)(rondoComm_t comm, rondoResult_t *error);
    rondoResult_t (*all_reduce)(const void *send, void *recv, size_t count, rondoDataType_t type, rondoRedOp_t redop,
                                rondoComm_t comm, struct CUstream_st *stream);
    rondoResult_t (*reduce)(const void *send, void *recv, size_t count, rondoDataType_t type, rondoRedOp_t redop,
                            int root, rondoComm_t comm, struct CUstream_st *stream);
    rondoResult_t (*broadcast)(const void *send, void *recv, size_t count, rondoDataType_t type, int root,
                               rondoComm_t comm, struct CUstream_st *stream);
    rondoResult_t (*all_gather)(const void *send, void *recv, size_t count, rondoDataType_t type, rondoComm_t comm,
                                struct CUstream_st *stream);
    rondoResult_t (*reduce_scatter)(const void *send, void *recv, size_t count, rondoDataType_t type,
                                    rondoRedOp_t redop, rondoComm_t comm, struct CUstream_st *stream);
    rondoResult_t (*send)(const void *buffer, size_t count, rondoDataType_t type, int peer, rondoComm_t comm,
                          struct CUstream_st *stream);
    rondoResult_t (*recv)(void *buffer, size_t count, rondoDataType_t type, int peer, rondoComm_t comm,
                          struct CUstream_st *stream);
    rondoResult_t (*group_start)(void);
    rondoResult_t (*group_end)(void);
    const char *(*get_error_string)(rondoResult_t result);
    const char *(*get_last_error)(rondoComm_t comm);
    /* The others are NULL in libraries that lack them; see calls.h. */
    rondoResult_t (*all_to_all)(const void *send, void *recv, size_t count, rondoDataType_t type, rondoComm_t comm,
                                struct CUstream_st *stream);
    rondoResult_t (*gather)(const void *send, void *recv, size_t count, rondoDataType_t type, int root,
                            rondoComm_t comm, struct CUstream_st *stream);
    rondoResult_t (*scatter)(const void *send, void *recv, size_t count, rondoDataType_t type, int root,
                             rondoComm_t comm, struct CUstream_st *stream);
    rondoResult_t (*all_to_allv)(const void *send, const size_t send_counts[], const size_t send_places[], void *recv,
                                 const size_t recv_counts[], const size_t recv_places[], rondoDataType_t type,
                                 rondoComm_t comm, struct CUstream_st *stream);
    rondoResult_t (*barrier)(rondoComm_t comm, struct CUstream_st *stream);
    /* NULL in libraries without plans. */
    rondoResult_t (*plan_begin)(void);
    rondoResult_t (*plan_end)(rondoPlan_t *plan);
    rondoResult_t (*plan_launch)(rondoPlan_t plan, struct CUstream_st *stream);
    rondoResult_t (*plan_destroy)(rondoPlan_t plan);
    int all_to_all_in_place; /* whether it may be: NCCL's may not */
    /* How the library would run one call of this op (its name in the table) alone. Leaves `choice` as it is where the
     * library does not say. */
    void (*describe)(rondoComm_t comm, const char *op, size_t count, rondoDataType_t type, rondoRedOp_t redop,
                     struct bench_choice *choice);
};

/* The linked one. */
void library_rondo(struct bench_lib *lib);

/* Loads another. 0, or -1 with a text. `device` is "cuda" or "host"; a library that runs on GPUs only is refused for
 * the second. */
int library_load(struct bench_lib *lib, const char *path, const char *device, char *text, size_t room);

#endif
