/* What tests and benchmarks need of a machine besides Rondo, over both devices: memory, streams, events, capture,
 * graphs. Two rows, cuda (libcudart, linked statically) and host (rondo/host.h). Every call ends the process with a
 * text on an error: a harness has nothing to recover. */
#ifndef RONDO_HARNESS_MACHINE_H
#define RONDO_HARNESS_MACHINE_H

#include "rondo/rondo.h"

#include <stddef.h>

struct machine_event;
struct machine_graph; /* instantiated */

/* What a captured graph holds: nodes, numbered as they were added, and edges. */
enum { MACHINE_SHAPE_NODES = 128, MACHINE_SHAPE_EDGES = 1024 };
struct machine_shape {
    size_t nodes, edges;
    int kernel[MACHINE_SHAPE_NODES]; /* whether a node is a kernel of the library's or, cuda, of anybody's */
    size_t from[MACHINE_SHAPE_EDGES], to[MACHINE_SHAPE_EDGES];
    int programmatic[MACHINE_SHAPE_EDGES]; /* whether an edge lets its end begin before its beginning has ended */
};

enum machine_stream_kind { MACHINE_STREAM_NONBLOCKING, MACHINE_STREAM_BLOCKING };
enum machine_capture_mode { MACHINE_CAPTURE_GLOBAL, MACHINE_CAPTURE_THREAD_LOCAL, MACHINE_CAPTURE_RELAXED };

struct machine {
    const char *name;          /* "cuda", "host" */
    int (*device_count)(void); /* cuda: GPUs; host: a large number */
    void (*device_name)(int device, char *text, size_t room);
    void (*set_device)(int device); /* for the calling thread; makes its context */
    void *(*alloc)(size_t bytes);
    void (*free)(void *pointer);
    void (*upload)(void *to, const void *from, size_t bytes);   /* blocking */
    void (*download)(void *to, const void *from, size_t bytes); /* blocking */
    void (*fill)(void *to, int byte, size_t bytes);             /* blocking */
    struct CUstream_st *(*stream_create)(enum machine_stream_kind kind);
    void (*stream_destroy)(struct CUstream_st *stream);
    void (*stream_sync)(struct CUstream_st *stream);
    int (*stream_done)(struct CUstream_st *stream); /* 1 done, 0 running */
    void (*copy)(void *to, const void *from, size_t bytes,
                 struct CUstream_st *stream); /* stream-ordered, device to device */
    void (*compute)(double microseconds,
                    struct CUstream_st *stream); /* a kernel of that length on one block; cuda: programmatic edges */
    struct machine_event *(*event_create)(void);
    void (*event_destroy)(struct machine_event *event);
    void (*event_record)(struct machine_event *event, struct CUstream_st *stream);
    void (*event_wait)(struct machine_event *event, struct CUstream_st *stream);
    double (*event_elapsed_us)(struct machine_event *from, struct machine_event *to); /* both have happened */
    void (*capture_begin)(struct CUstream_st *stream, enum machine_capture_mode mode);
    struct machine_graph *(*capture_end)(struct CUstream_st *stream); /* instantiated */
    void (*capture_shape)(struct CUstream_st *stream,
                          struct machine_shape *shape); /* ends the capture, keeps no graph */
    /* The same, and the graph that it was instantiated from (cudaGraph_t, rondoHostGraph_t). The machine_graph is the
     * executable itself (cudaGraphExec_t, rondoHostGraphExec_t). */
    struct machine_graph *(*capture_end_with)(struct CUstream_st *stream, void **source);
    void (*source_destroy)(void *source);
    void (*graph_launch)(struct machine_graph *graph, struct CUstream_st *stream);
    void (*graph_destroy)(struct machine_graph *graph);
};

extern const struct machine machine_host;
#ifdef RONDO_WITH_CUDA
extern const struct machine machine_cuda;
#endif

/* The row called `name`; NULL chooses as Rondo does: RONDO_DEVICE, else cuda where a GPU is found, else host. NULL
 * if there is none. */
const struct machine *machine_find(const char *name);

#endif
