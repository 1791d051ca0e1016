/* The row over the CUDA runtime, linked statically. */
#include "machine.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEVICES = 64, COMPUTE_THREADS = 32 };

#define CHECK(call)  check((call), #call)
#define DRIVER(call) check_driver((call), #call)

static void check(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
    fflush(NULL);
    _exit(1);
}

static void check_driver(CUresult error, const char *call)
{
    if (error == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: CUDA driver error %d\n", call, (int)error);
    fflush(NULL);
    _exit(1);
}

/* ---- the compute kernel: plain C cannot hold one, so it is PTX ---- */

/* %globaltimer advances in steps (32 ns on an H200, up to 1 us on older GPUs), so a kernel's length is right only on
 * average. It counts in real time, whatever the clocks do. Where programmatic edges exist, the next kernel may start
 * at once and waits in its own griddepcontrol.wait, and this one waits for what came before it: the shape of a
 * decode loop whose kernels all do so. */
#define SPIN_PTX(target, depend)                                                                                  \
    ".version 7.8\n.target " target "\n.address_size 64\n"                                                        \
    ".visible .entry spin(.param .u64 nanoseconds)\n{\n"                                                          \
    "  .reg .u64 %length, %start, %now;\n  .reg .pred %more;\n" depend "  ld.param.u64 %length, [nanoseconds];\n" \
    "  mov.u64 %start, %globaltimer;\n"                                                                           \
    "again:\n"                                                                                                    \
    "  mov.u64 %now, %globaltimer;\n"                                                                             \
    "  sub.u64 %now, %now, %start;\n"                                                                             \
    "  setp.lt.u64 %more, %now, %length;\n"                                                                       \
    "  @%more bra again;\n"                                                                                       \
    "  ret;\n}\n"

static const char spin_ptx_80[] = SPIN_PTX("sm_80", "");
static const char spin_ptx_90[] = SPIN_PTX("sm_90", "  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;\n");

/* The runtime is linked, the driver is found. */
static struct {
    CUresult (*module_load_data)(CUmodule *, const void *);
    CUresult (*module_get_function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(const CUlaunchConfig *, CUfunction, void **, void **);
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static struct {
    pthread_mutex_t lock;
    CUfunction spin;  /* NULL until loaded; lock */
    int programmatic; /* whether the GPU has programmatic edges; lock */
} devices[MAX_DEVICES] = {[0 ... MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static void find(const char *name, unsigned version, void *function)
{
    enum cudaDriverEntryPointQueryResult found;
    void *symbol = NULL;
#if CUDART_VERSION >= 12050
    CHECK(cudaGetDriverEntryPointByVersion(name, &symbol, version, cudaEnableDefault, &found));
#else
    (void)version;
    CHECK(cudaGetDriverEntryPoint(name, &symbol, cudaEnableDefault, &found));
#endif
    if (!symbol) {
        fprintf(stderr, "the CUDA driver has no %s\n", name);
        _exit(1);
    }
    memcpy(function, &symbol, sizeof symbol);
}

static void find_driver(void)
{
    find("cuModuleLoadData", 12000, &driver.module_load_data);
    find("cuModuleGetFunction", 12000, &driver.module_get_function);
    find("cuLaunchKernelEx", 12000, &driver.launch);
}

/* Loads the kernel into the device's context, so that nothing loads during a capture. */
static void load_compute(int device)
{
    pthread_once(&driver_once, find_driver);
    pthread_mutex_lock(&devices[device].lock);
    if (!devices[device].spin) {
        int major;
        CUmodule module;
        CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
        devices[device].programmatic = major >= 9;
        DRIVER(driver.module_load_data(&module, major >= 9 ? spin_ptx_90 : spin_ptx_80));
        DRIVER(driver.module_get_function(&devices[device].spin, module, "spin"));
    }
    pthread_mutex_unlock(&devices[device].lock);
}

static void compute(double microseconds, struct CUstream_st *stream)
{
    int device;
    CHECK(cudaGetDevice(&device));
    uint64_t nanoseconds = (uint64_t)(microseconds * 1e3);
    void *arguments[] = {&nanoseconds};
    CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = COMPUTE_THREADS,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &overlap,
                             .numAttrs = devices[device].programmatic ? 1 : 0};
    DRIVER(driver.launch(&config, devices[device].spin, arguments, NULL));
}

/* ---- devices and memory ---- */

static int device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static void device_name(int device, char *text, size_t room)
{
    struct cudaDeviceProp properties;
    char bus[32];
    CHECK(cudaGetDeviceProperties(&properties, device));
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
    snprintf(text, room, "%s (%s)", properties.name, bus);
}

static void set_device(int device)
{
    if (device >= MAX_DEVICES) {
        fprintf(stderr, "GPU %d is beyond what the harness knows (%d)\n", device, MAX_DEVICES);
        _exit(1);
    }
    CHECK(cudaSetDevice(device)); /* makes the context */
    load_compute(device);
}

static void *alloc(size_t bytes)
{
    void *pointer;
    CHECK(cudaMalloc(&pointer, bytes));
    return pointer;
}

static void free_memory(void *pointer)
{
    CHECK(cudaFree(pointer));
}

/* cudaMemcpy from pageable memory and cudaMemset may return before the device is done, and the harness's streams do
 * not wait for the legacy one. */
static void finish_legacy(void)
{
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
}

static void upload(void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    finish_legacy();
}

static void download(void *to, const void *from, size_t bytes)
{
    CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

static void fill(void *to, int byte, size_t bytes)
{
    CHECK(cudaMemset(to, byte, bytes));
    finish_legacy();
}

/* ---- streams and events ---- */

static struct CUstream_st *stream_create(enum machine_stream_kind kind)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream,
                                    kind == MACHINE_STREAM_BLOCKING ? cudaStreamDefault : cudaStreamNonBlocking));
    return stream;
}

static void stream_destroy(struct CUstream_st *stream)
{
    CHECK(cudaStreamDestroy(stream));
}

static void stream_sync(struct CUstream_st *stream)
{
    CHECK(cudaStreamSynchronize(stream));
}

static int stream_done(struct CUstream_st *stream)
{
    cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaErrorNotReady)
        return 0;
    CHECK(error);
    return 1;
}

static void copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

static struct machine_event *event_create(void)
{
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    return (struct machine_event *)event;
}

static void event_destroy(struct machine_event *event)
{
    CHECK(cudaEventDestroy((cudaEvent_t)event));
}

static void event_record(struct machine_event *event, struct CUstream_st *stream)
{
    CHECK(cudaEventRecord((cudaEvent_t)event, stream));
}

static void event_wait(struct machine_event *event, struct CUstream_st *stream)
{
    CHECK(cudaStreamWaitEvent(stream, (cudaEvent_t)event, 0));
}

static double event_elapsed_us(struct machine_event *from, struct machine_event *to)
{
    float milliseconds;
    CHECK(cudaEventElapsedTime(&milliseconds, (cudaEvent_t)from, (cudaEvent_t)to));
    return (double)milliseconds * 1e3;
}

/* ---- graphs ---- */

static void capture_begin(struct CUstream_st *stream, enum machine_capture_mode mode)
{
    static const enum cudaStreamCaptureMode modes[] = {
        [MACHINE_CAPTURE_GLOBAL] = cudaStreamCaptureModeGlobal,
        [MACHINE_CAPTURE_THREAD_LOCAL] = cudaStreamCaptureModeThreadLocal,
        [MACHINE_CAPTURE_RELAXED] = cudaStreamCaptureModeRelaxed,
    };
    CHECK(cudaStreamBeginCapture(stream, modes[mode]));
}

static struct machine_graph *capture_end_with(struct CUstream_st *stream, void **source)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    *source = graph;
    return (struct machine_graph *)exec;
}

static size_t place_of(cudaGraphNode_t node, const cudaGraphNode_t *nodes, size_t count)
{
    size_t i = 0;
    while (i < count && nodes[i] != node)
        i++;
    return i;
}

static void capture_shape(struct CUstream_st *stream, struct machine_shape *shape)
{
    cudaGraph_t graph;
    cudaGraphNode_t nodes[MACHINE_SHAPE_NODES], from[MACHINE_SHAPE_EDGES], to[MACHINE_SHAPE_EDGES];
    cudaGraphEdgeData data[MACHINE_SHAPE_EDGES];
    *shape = (struct machine_shape){.nodes = MACHINE_SHAPE_NODES, .edges = MACHINE_SHAPE_EDGES};
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphGetNodes(graph, nodes, &shape->nodes));
    CHECK(cudaGraphGetEdges(graph, from, to, data, &shape->edges));
    for (size_t i = 0; i < shape->nodes; i++) {
        enum cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(nodes[i], &type));
        shape->kernel[i] = type == cudaGraphNodeTypeKernel;
    }
    for (size_t i = 0; i < shape->edges; i++) {
        shape->from[i] = place_of(from[i], nodes, shape->nodes);
        shape->to[i] = place_of(to[i], nodes, shape->nodes);
        shape->programmatic[i] = data[i].type == cudaGraphDependencyTypeProgrammatic;
    }
    CHECK(cudaGraphDestroy(graph));
}

static void source_destroy(void *source)
{
    CHECK(cudaGraphDestroy((cudaGraph_t)source));
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
    CHECK(cudaGraphLaunch((cudaGraphExec_t)graph, stream));
}

static void graph_destroy(struct machine_graph *graph)
{
    CHECK(cudaGraphExecDestroy((cudaGraphExec_t)graph));
}

const struct machine machine_cuda = {
    .name = "cuda",
    .device_count = device_count,
    .device_name = device_name,
    .set_device = set_device,
    .alloc = alloc,
    .free = free_memory,
    .upload = upload,
    .download = download,
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
