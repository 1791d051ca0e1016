/* What the examples need besides Rondo, on GPUs and on the host device alike: ranks, memory, streams, graphs, some kernels.
 * Whatever fails ends the process with a text. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include "rondo/rondo.h"

#include "kernels.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rank {
    int rank, ranks;
    rondoComm_t comm;
};

/* Runs `body` on as many ranks as argv[1] says (2), each in a process of its own with a comm of them all. What main is to return:
 * 0 if the body gave 0 everywhere. */
int run_ranks(int argc, char **argv, const char *name, int (*body)(struct rank *rank));

/* All ranks say this together; who is through knows that the others have come. */
void meet(struct rank *rank, struct CUstream_st *stream);

double now_us(void);

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define RONDO(call)                                                         \
    do {                                                                    \
        if ((call) != rondoSuccess)                                         \
            fail("%s:%d: %s", __FILE__, __LINE__, rondoGetLastError(NULL)); \
    } while (0)

/* A graph that was captured and instantiated. */
struct graph {
    void *exec, *source;
    void *body;                   /* of a loop: what is done again and again; else the source */
    unsigned long long condition; /* of a loop, for kernels in it */
};

/* Prints what the graph holds. */
void describe(const struct graph *graph, const char *what);

struct device {
    const char *name;
    void (*begin)(int rank); /* the calling process's rank takes its device */
    void *(*alloc)(size_t bytes);
    void (*free)(void *memory);
    void (*write)(void *to, const void *from, size_t bytes); /* these two are over when they return */
    void (*read)(void *to, const void *from, size_t bytes);
    struct CUstream_st *(*stream)(void);
    void (*stream_end)(struct CUstream_st *stream);
    void (*wait)(struct CUstream_st *stream);
    void (*join)(struct CUstream_st *stream, struct CUstream_st *other); /* it goes on once the other has come here */
    void (*run)(enum kernel kernel, const struct kernel_args *args, struct CUstream_st *stream);
    void (*capture)(struct CUstream_st *stream);
    /* The same into the body of a WHILE graph: it is done once, and again as long as the condition that a kernel in it sets is
     * not 0. */
    void (*capture_loop)(struct CUstream_st *stream, struct graph *graph);
    void (*captured)(struct CUstream_st *stream, struct graph *graph); /* ends either */
    void (*launch)(const struct graph *graph, struct CUstream_st *stream);
    void (*graph_end)(struct graph *graph);
};

extern const struct device host_device, cuda_device;
extern const struct device *device; /* the one in use; as Rondo chooses it */

#ifdef __cplusplus
}
#endif

#endif
