/* The row over rondo/host.h. */
#include "machine.h"

#include "rondo/host.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) check((call), #call)

static void check(rondoResult_t result, const char *call)
{
    if (result == rondoSuccess)
        return;
    fprintf(stderr, "%s: %s (%s)\n", call, rondoGetErrorString(result), rondoGetLastError(NULL));
    fflush(NULL);
    _exit(1);
}

static int device_count(void)
{
    return 1 << 16;
}

static void device_name(int device, char *text, size_t room)
{
    snprintf(text, room, "CPUs (%ld), host device %d", sysconf(_SC_NPROCESSORS_ONLN), device);
}

static void set_device(int device)
{
    CHECK(rondoHostSetDevice(device));
}

static void *alloc(size_t bytes)
{
    void *pointer;
    CHECK(rondoHostMalloc(&pointer, bytes));
    return pointer;
}

static void free_memory(void *pointer)
{
    CHECK(rondoHostFree(pointer));
}

static void upload(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void fill(void *to, int byte, size_t bytes)
{
    memset(to, byte, bytes);
}

/* Host streams do not synchronize with a default stream, so the two kinds are one. */
static struct CUstream_st *stream_create(enum machine_stream_kind kind)
{
    (void)kind;
    rondoHostStream_t stream;
    CHECK(rondoHostStreamCreate(&stream));
    return stream;
}

static void stream_destroy(struct CUstream_st *stream)
{
    CHECK(rondoHostStreamDestroy(stream));
}

static void stream_sync(struct CUstream_st *stream)
{
    CHECK(rondoHostStreamSynchronize(stream));
}

static int stream_done(struct CUstream_st *stream)
{
    rondoResult_t result = rondoHostStreamQuery(stream);
    if (result == rondoInProgress)
        return 0;
    CHECK(result);
    return 1;
}

static void copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    CHECK(rondoHostMemcpyAsync(to, from, bytes, stream));
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* The argument is the length itself: a graph may call this at any time later. */
static void spin(void *nanoseconds)
{
    uint64_t end = now_ns() + (uintptr_t)nanoseconds;
    while (now_ns() < end)
        continue;
}

static void compute(double microseconds, struct CUstream_st *stream)
{
    CHECK(rondoHostLaunch(spin, (void *)(uintptr_t)(microseconds * 1e3), stream));
}

static struct machine_event *event_create(void)
{
    rondoHostEvent_t event;
    CHECK(rondoHostEventCreate(&event));
    return (struct machine_event *)event;
}

static void event_destroy(struct machine_event *event)
{
    CHECK(rondoHostEventDestroy((rondoHostEvent_t)event));
}

static void event_record(struct machine_event *event, struct CUstream_st *stream)
{
    CHECK(rondoHostEventRecord((rondoHostEvent_t)event, stream));
}

static void event_wait(struct machine_event *event, struct CUstream_st *stream)
{
    CHECK(rondoHostStreamWaitEvent(stream, (rondoHostEvent_t)event));
}

static double event_elapsed_us(struct machine_event *from, struct machine_event *to)
{
    float milliseconds;
    CHECK(rondoHostEventElapsed(&milliseconds, (rondoHostEvent_t)from, (rondoHostEvent_t)to));
    return (double)milliseconds * 1e3;
}

static void capture_begin(struct CUstream_st *stream, enum machine_capture_mode mode)
{
    static const rondoHostCaptureMode_t modes[] = {[MACHINE_CAPTURE_GLOBAL] = rondoHostCaptureGlobal,
                                                   [MACHINE_CAPTURE_THREAD_LOCAL] = rondoHostCaptureThreadLocal,
                                                   [MACHINE_CAPTURE_RELAXED] = rondoHostCaptureRelaxed};
    CHECK(rondoHostStreamBeginCapture(stream, modes[mode]));
}

static struct machine_graph *capture_end_with(struct CUstream_st *stream, void **source)
{
    rondoHostGraph_t graph;
    rondoHostGraphExec_t exec;
    CHECK(rondoHostStreamEndCapture(stream, &graph));
    CHECK(rondoHostGraphInstantiate(&exec, graph));
    *source = graph;
    return (struct machine_graph *)exec;
}

static size_t place_of(rondoHostNode_t node, const rondoHostNode_t *nodes, size_t count)
{
    size_t i = 0;
    while (i < count && nodes[i] != node)
        i++;
    return i;
}

static void capture_shape(struct CUstream_st *stream, struct machine_shape *shape)
{
    rondoHostGraph_t graph;
    rondoHostNode_t nodes[MACHINE_SHAPE_NODES], from[MACHINE_SHAPE_EDGES], to[MACHINE_SHAPE_EDGES];
    *shape = (struct machine_shape){.nodes = MACHINE_SHAPE_NODES, .edges = MACHINE_SHAPE_EDGES};
    CHECK(rondoHostStreamEndCapture(stream, &graph));
    CHECK(rondoHostGraphGetNodes(graph, nodes, &shape->nodes));
    CHECK(rondoHostGraphGetEdges(graph, from, to, &shape->edges));
    for (size_t i = 0; i < shape->nodes && i < MACHINE_SHAPE_NODES; i++) {
        rondoHostNodeType_t type;
        CHECK(rondoHostNodeGetType(nodes[i], &type));
        shape->kernel[i] = type == rondoHostNodeKernel;
    }
    for (size_t i = 0; i < shape->edges && i < MACHINE_SHAPE_EDGES; i++) {
        shape->from[i] = place_of(from[i], nodes, shape->nodes);
        shape->to[i] = place_of(to[i], nodes, shape->nodes);
    }
    CHECK(rondoHostGraphDestroy(graph));
}

static void source_destroy(void *source)
{
    CHECK(rondoHostGraphDestroy(source));
}

static struct machine_graph *capture_end(struct CUstream_st *stream)
{
    void *source;
    struct machine_graph *graph = capture_end_with(stream, &source);
    source_destroy(source);
    return graph;
}

static void graph_launch(struct machine_graph *graph, struct CUstream_st *stream)
{
    CHECK(rondoHostGraphLaunch((rondoHostGraphExec_t)graph, stream));
}

static void graph_destroy(struct machine_graph *graph)
{
    CHECK(rondoHostGraphExecDestroy((rondoHostGraphExec_t)graph));
}

const struct machine machine_host = {
    .name = "host",
    .device_count = device_count,
    .device_name = device_name,
    .set_device = set_device,
    .alloc = alloc,
    .free = free_memory,
    .upload = upload,
    .download = upload,
    .fill = fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
    .stream_done = stream_done,
    .copy = copy,
    .compute = compute,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_elapsed_us = event_elapsed_us,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .capture_shape = capture_shape,
    .capture_end_with = capture_end_with,
    .source_destroy = source_destroy,
    .graph_launch = graph_launch,
    .graph_destroy = graph_destroy,
};
