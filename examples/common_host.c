/* The host device: rondo/host.h. */
#include "common.h"

#include "rondo/host.h"

#include <stdlib.h>
#include <string.h>

/* A kernel that was enqueued or captured. They are kept: a graph may run one at any time. */
struct call {
    enum kernel kernel;
    struct kernel_args args;
    struct call *next;
};
static struct call *calls;

static void run_call(void *argument)
{
    const struct call *call = argument;
    const struct kernel_args *args = &call->args;
    switch (call->kernel) {
    case LAYER:
        for (size_t i = 0; i < args->count; i++)
            layer(args, i);
        break;
    case GRADIENT:
        for (size_t i = 0; i < args->count; i++)
            gradient(args, i);
        break;
    case UPDATE:
        for (size_t i = 0; i < args->count; i++)
            update(args, i);
        break;
    case PICK: {
        const int go_on = pick(args);
        if (args->condition)
            RONDO(rondoHostSetConditional(args->condition, (unsigned)go_on));
        break;
    }
    }
}

static void run(enum kernel kernel, const struct kernel_args *args, struct CUstream_st *stream)
{
    struct call *call = malloc(sizeof *call);
    if (!call)
        fail("out of memory");
    *call = (struct call){kernel, *args, calls};
    calls = call;
    RONDO(rondoHostLaunch(run_call, call, stream));
}

static void begin(int rank)
{
    RONDO(rondoHostSetDevice(rank));
}

static void *alloc(size_t bytes)
{
    void *memory;
    RONDO(rondoHostMalloc(&memory, bytes));
    return memory;
}

static void free_memory(void *memory)
{
    RONDO(rondoHostFree(memory));
}

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static struct CUstream_st *stream_new(void)
{
    rondoHostStream_t stream;
    RONDO(rondoHostStreamCreate(&stream));
    return stream;
}

static void stream_end(struct CUstream_st *stream)
{
    RONDO(rondoHostStreamDestroy(stream));
}

static void wait_for(struct CUstream_st *stream)
{
    RONDO(rondoHostStreamSynchronize(stream));
}

static void join(struct CUstream_st *stream, struct CUstream_st *other)
{
    rondoHostEvent_t event;
    RONDO(rondoHostEventCreate(&event));
    RONDO(rondoHostEventRecord(event, other));
    RONDO(rondoHostStreamWaitEvent(stream, event));
    RONDO(rondoHostEventDestroy(event));
}

static void capture(struct CUstream_st *stream)
{
    RONDO(rondoHostStreamBeginCapture(stream, rondoHostCaptureThreadLocal));
}

static void capture_loop(struct CUstream_st *stream, struct graph *graph)
{
    rondoHostGraph_t whole, body;
    RONDO(rondoHostGraphCreate(&whole));
    RONDO(rondoHostConditionalCreate(&graph->condition, whole, 1));
    RONDO(rondoHostStreamBeginCaptureToGraph(stream, whole, NULL, 0, rondoHostCaptureThreadLocal));
    RONDO(rondoHostStreamAddConditional(stream, graph->condition, rondoHostWhile, &body, 1));
    RONDO(rondoHostStreamEndCapture(stream, &whole));
    RONDO(rondoHostStreamBeginCaptureToGraph(stream, body, NULL, 0, rondoHostCaptureThreadLocal));
    graph->source = whole;
    graph->body = body;
}

static void captured(struct CUstream_st *stream, struct graph *graph)
{
    rondoHostGraph_t made;
    rondoHostGraphExec_t exec;
    RONDO(rondoHostStreamEndCapture(stream, &made));
    if (!graph->source)
        graph->source = graph->body = made;
    RONDO(rondoHostGraphInstantiate(&exec, graph->source));
    graph->exec = exec;
}

static void launch(const struct graph *graph, struct CUstream_st *stream)
{
    RONDO(rondoHostGraphLaunch(graph->exec, stream));
}

static void graph_end(struct graph *graph)
{
    RONDO(rondoHostGraphExecDestroy(graph->exec));
    RONDO(rondoHostGraphDestroy(graph->source));
}

const struct device host_device = {
    .name = "host",
    .begin = begin,
    .alloc = alloc,
    .free = free_memory,
    .write = copy,
    .read = copy,
    .stream = stream_new,
    .stream_end = stream_end,
    .wait = wait_for,
    .join = join,
    .run = run,
    .capture = capture,
    .capture_loop = capture_loop,
    .captured = captured,
    .launch = launch,
    .graph_end = graph_end,
};
