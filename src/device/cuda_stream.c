/* The cuda row: kernels, events, streams and captures: the road of a call. */
#include "device/cuda_device.h"

#include "common/clock.h"
#include "common/result.h"
#include "kernels/instances.h"

#include <stdlib.h>
#include <string.h>

/* The kernels' machine code, a fatbin for each part of the list; made by the build. */
#define FATBINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define X(unit)    extern const char rondo_fatbin_##unit[];
FATBINS(X)
#undef X

enum {
#define X(unit) UNIT_##unit,
    FATBINS(X)
#undef X
        UNITS
};

_Static_assert((int)UNITS == (int)RONDO_UNIT_COUNT, "every unit is embedded");

static pthread_once_t libraries_once = PTHREAD_ONCE_INIT;
static CUlibrary libraries[UNITS];
static CUresult libraries_error;

static void load_libraries(void)
{
    static const char *const images[UNITS] = {
#define X(unit) rondo_fatbin_##unit,
        FATBINS(X)
#undef X
    };
    for (int unit = 0; unit < UNITS && libraries_error == CUDA_SUCCESS; unit++)
        libraries_error = rondo_cuda.cuLibraryLoadData(&libraries[unit], images[unit], NULL, NULL, 0, NULL, NULL, 0);
}

/* The kernels that were resolved so far, by which nodes of graphs are known: for the process, and for each context, of which more
 * than there is room for go unknown. */
enum { KNOWN_CONTEXTS = 64 };
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER; /* inside it nothing else is locked */
static CUkernel known_kernels[RONDO_KERNEL_COUNT];
static struct {
    CUcontext context;
    CUfunction functions[RONDO_KERNEL_COUNT];
} known[KNOWN_CONTEXTS];
static unsigned known_count;

static void remember(unsigned number, CUkernel kernel, CUcontext context, CUfunction function)
{
    unsigned c = 0;
    pthread_mutex_lock(&known_lock);
    known_kernels[number] = kernel;
    while (c < known_count && known[c].context != context)
        c++;
    if (c < KNOWN_CONTEXTS) {
        known[c].context = context;
        known[c].functions[number] = function;
        known_count = c < known_count ? known_count : c + 1;
    }
    pthread_mutex_unlock(&known_lock);
}

unsigned rondo_cuda_kernel_number(CUfunction function, CUkernel kernel)
{
    unsigned number = RONDO_KERNEL_COUNT;
    pthread_mutex_lock(&known_lock);
    for (unsigned k = 0; k < RONDO_KERNEL_COUNT && number == RONDO_KERNEL_COUNT; k++)
        if (known_kernels[k] && (known_kernels[k] == kernel || (CUfunction)known_kernels[k] == function))
            number = k;
    for (unsigned c = 0; c < known_count && function && number == RONDO_KERNEL_COUNT; c++)
        for (unsigned k = 0; k < RONDO_KERNEL_COUNT && number == RONDO_KERNEL_COUNT; k++)
            if (known[c].functions[k] == function)
                number = k;
    pthread_mutex_unlock(&known_lock);
    return number;
}

static rondoResult_t find_kernel(unsigned number, CUcontext context, CUfunction *function)
{
    CUkernel kernel;
    RONDO_CU(cuLibraryGetKernel(&kernel, libraries[rondo_kernel_unit(number)], rondo_kernel_name(number)));
    RONDO_CU(cuKernelGetFunction(function, kernel)); /* loads it into the current context */
    remember(number, kernel, context, *function);
    return rondoSuccess;
}

rondoResult_t rondo_cuda_kernel(struct rondo_device *device, unsigned number, const struct rondo_kernel **kernel)
{
    struct rondo_cuda_scope scope;
    CUfunction function = NULL;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    pthread_once(&libraries_once, load_libraries);
    rondoResult_t result = libraries_error == CUDA_SUCCESS ? find_kernel(number, device->context, &function)
                                                           : rondo_cuda_failed(libraries_error, "cuLibraryLoadData");
    rondo_cuda_scope_close(&scope);
    *kernel = (const struct rondo_kernel *)function;
    return result;
}

static rondoResult_t load_kernel(const struct rondo_image *image, CUfunction *function)
{
    CUlibrary library;
    CUkernel kernel;
    RONDO_CU(
        cuLibraryLoadData(&library, image->fatbin, NULL, NULL, 0, NULL, NULL, 0)); /* stays for the process's life */
    RONDO_CU(cuLibraryGetKernel(&kernel, library, image->name));
    RONDO_CU(cuKernelGetFunction(function, kernel));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_kernel_of(struct rondo_device *device, const struct rondo_image *image,
                                   const struct rondo_kernel **kernel)
{
    struct rondo_cuda_scope scope;
    CUfunction function = NULL;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    rondoResult_t result = image->fatbin ? load_kernel(image, &function)
                                         : rondo_fail(rondoInternalError, "%s has no code for GPUs", image->name);
    rondo_cuda_scope_close(&scope);
    *kernel = (const struct rondo_kernel *)function;
    return result;
}

rondoResult_t rondo_cuda_stream_create(struct rondo_device *device, struct CUstream_st **stream)
{
    struct rondo_cuda_scope scope;
    *stream = NULL;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    CUresult error = rondo_cuda.cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, -5);
    rondo_cuda_scope_close(&scope);
    return error == CUDA_SUCCESS ? rondoSuccess : rondo_cuda_failed(error, "cuStreamCreateWithPriority");
}

void rondo_cuda_stream_destroy(struct rondo_device *device, struct CUstream_st *stream)
{
    struct rondo_cuda_scope scope;
    if (stream && rondo_cuda_scope_open(device, &scope) == rondoSuccess) {
        rondo_cuda.cuStreamDestroy(stream);
        rondo_cuda_scope_close(&scope);
    }
}

rondoResult_t rondo_cuda_event_create(struct rondo_device *device, struct rondo_event **event)
{
    struct rondo_cuda_scope scope;
    CUevent e = NULL;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    CUresult error = rondo_cuda.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
    rondo_cuda_scope_close(&scope);
    *event = (struct rondo_event *)e;
    return error == CUDA_SUCCESS ? rondoSuccess : rondo_cuda_failed(error, "cuEventCreate");
}

void rondo_cuda_event_destroy(struct rondo_device *device, struct rondo_event *event)
{
    struct rondo_cuda_scope scope;
    if (event && rondo_cuda_scope_open(device, &scope) == rondoSuccess) {
        rondo_cuda.cuEventDestroy((CUevent)event);
        rondo_cuda_scope_close(&scope);
    }
}

rondoResult_t rondo_cuda_event_wait_host(struct rondo_device *device, struct rondo_event *event, uint64_t timeout_ns,
                                         bool *done)
{
    struct rondo_cuda_scope scope;
    const uint64_t end = rondo_now_ns() + timeout_ns;
    CUresult error;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    while ((error = rondo_cuda.cuEventQuery((CUevent)event)) == CUDA_ERROR_NOT_READY && rondo_now_ns() < end)
        rondo_sleep_ns(50000);
    rondo_cuda_scope_close(&scope);
    *done = error == CUDA_SUCCESS;
    return error == CUDA_SUCCESS || error == CUDA_ERROR_NOT_READY ? rondoSuccess
                                                                  : rondo_cuda_failed(error, "cuEventQuery");
}

rondoResult_t rondo_cuda_enter(struct rondo_device *device, void **token)
{
    CUcontext context;
    RONDO_CU(cuCtxGetCurrent(&context));
    if (context != device->context)
        RONDO_CU(cuCtxSetCurrent(device->context));
    *token = context;
    return rondoSuccess;
}

void rondo_cuda_leave(struct rondo_device *device, void *token)
{
    if ((CUcontext)token != device->context)
        rondo_cuda.cuCtxSetCurrent((CUcontext)token);
}

rondoResult_t rondo_cuda_stream_id(struct rondo_device *device, struct CUstream_st *stream, uint64_t *id)
{
    unsigned long long number;
    (void)device;
    RONDO_CU(cuStreamGetId(stream, &number));
    *id = (uint64_t)number + 1; /* 0 is for none */
    return rondoSuccess;
}

rondoResult_t rondo_cuda_stream_capture(struct rondo_device *device, struct CUstream_st *stream,
                                        struct rondo_capture *capture)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph graph = NULL;
    const CUgraphNode *tails = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    (void)device;
    RONDO_CU(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &tails, &edges, &count));
    if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return rondo_fail(rondoInvalidUsage, "the stream's capture was invalidated by an earlier error");
    capture->active = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    capture->id = id;
    capture->graph = graph;
    capture->tails = (const void **)tails;
    capture->tail_count = count;
    return rondoSuccess;
}

static rondoResult_t update_dependencies(struct CUstream_st *stream, const void *node, unsigned flags)
{
    CUgraphNode dependency = (CUgraphNode)node;
    RONDO_CU(cuStreamUpdateCaptureDependencies(stream, &dependency, NULL, 1, flags));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_capture_depend(struct rondo_device *device, struct CUstream_st *stream, const void *node)
{
    (void)device;
    return update_dependencies(stream, node, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
}

rondoResult_t rondo_cuda_capture_continue(struct rondo_device *device, struct CUstream_st *stream, const void *node)
{
    (void)device;
    return update_dependencies(stream, node, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
}

/* The driver is asked about the node only once it was found among the graph's. */
rondoResult_t rondo_cuda_graph_launches(struct rondo_device *device, void *graph, const void *node,
                                        const struct rondo_launch *launch, bool *does)
{
    size_t count = 0, i = 0;
    CUgraphNodeType type;
    CUDA_KERNEL_NODE_PARAMS params;
    (void)device;
    *does = false;
    RONDO_CU(cuGraphGetNodes((CUgraph)graph, NULL, &count));
    CUgraphNode *nodes = calloc(count + 1, sizeof *nodes);
    if (!nodes)
        return rondo_fail(rondoSystemError, "out of memory");
    CUresult error = count ? rondo_cuda.cuGraphGetNodes((CUgraph)graph, nodes, &count)
                           : CUDA_SUCCESS; /* room for nothing is refused */
    while (error == CUDA_SUCCESS && i < count && nodes[i] != (CUgraphNode)node)
        i++;
    const bool found = error == CUDA_SUCCESS && i < count;
    free(nodes);
    if (!found)
        return error == CUDA_SUCCESS ? rondoSuccess : rondo_cuda_failed(error, "cuGraphGetNodes");
    RONDO_CU(cuGraphNodeGetType((CUgraphNode)node, &type));
    if (type != CU_GRAPH_NODE_TYPE_KERNEL)
        return rondoSuccess;
    RONDO_CU(cuGraphKernelNodeGetParams((CUgraphNode)node, &params));
    *does = params.func == (CUfunction)launch->kernel && params.kernelParams &&
            !memcmp(params.kernelParams[0], launch->args, launch->args_bytes);
    return rondoSuccess;
}

/* Nodes that a search backwards through a graph has met: an open-addressed set that doubles as the search's queue. */
struct search {
    CUgraphNode *set, *queue;
    size_t room, head, count;
};

static bool search_add(struct search *s, CUgraphNode node)
{
    if ((s->count + 1) * 2 > s->room) {
        size_t room = s->room ? s->room * 2 : 64;
        CUgraphNode *set = calloc(room, sizeof *set), *queue = realloc(s->queue, room * sizeof *queue);
        if (queue)
            s->queue = queue;
        if (!set || !queue) {
            free(set);
            return false;
        }
        free(s->set);
        s->set = set;
        s->room = room;
        for (size_t i = 0; i < s->count; i++) {
            size_t at = (uintptr_t)s->queue[i] / 16 % room;
            while (set[at])
                at = (at + 1) % room;
            set[at] = s->queue[i];
        }
    }
    size_t at = (uintptr_t)node / 16 % s->room;
    while (s->set[at] && s->set[at] != node)
        at = (at + 1) % s->room;
    if (!s->set[at]) {
        s->set[at] = node;
        s->queue[s->count++] = node;
    }
    return true;
}

/* Puts a node's dependencies into the search. */
static rondoResult_t search_expand(struct search *s, CUgraphNode node)
{
    enum { ROOM = 64 };
    CUgraphNode few[ROOM], *dependencies = few;
    CUgraphEdgeData few_edges[ROOM], *edges = few_edges;
    size_t count = 0;
    RONDO_CU(cuGraphNodeGetDependencies(node, NULL, NULL, &count));
    if (count == 0)
        return rondoSuccess; /* room for nothing would be an invalid argument */
    if (count > ROOM) {
        dependencies = malloc(count * sizeof *dependencies);
        edges = malloc(count * sizeof *edges);
    }
    CUresult error = dependencies && edges ? rondo_cuda.cuGraphNodeGetDependencies(node, dependencies, edges, &count)
                                           : CUDA_ERROR_OUT_OF_MEMORY;
    bool added = error == CUDA_SUCCESS;
    for (size_t i = 0; i < count && added; i++)
        added = search_add(s, dependencies[i]);
    if (dependencies != few) {
        free(dependencies);
        free(edges);
    }
    return error != CUDA_SUCCESS ? rondo_cuda_failed(error, "cuGraphNodeGetDependencies")
           : added               ? rondoSuccess
                                 : rondo_fail(rondoSystemError, "out of memory");
}

static bool is_one_of(CUgraphNode node, const void *const *nodes, size_t count)
{
    size_t i = 0;
    while (i < count && nodes[i] != (const void *)node)
        i++;
    return i < count;
}

rondoResult_t rondo_cuda_capture_follows(struct rondo_device *device, const struct rondo_capture *capture,
                                         const void *const *nodes, size_t count, bool *follows)
{
    struct search s = {0};
    rondoResult_t result = rondoSuccess;
    (void)device;
    *follows = false;
    for (size_t i = 0; i < capture->tail_count; i++)
        if (capture->tails[i] == nodes[0]) {
            *follows = true;
            return rondoSuccess;
        }
    for (size_t i = 0; i < capture->tail_count && result == rondoSuccess; i++)
        if (!search_add(&s, (CUgraphNode)capture->tails[i]))
            result = rondo_fail(rondoSystemError, "out of memory");
    while (result == rondoSuccess && s.head < s.count && !*follows) {
        if ((const void *)s.queue[s.head] == nodes[0])
            *follows = true;
        else if (!is_one_of(s.queue[s.head], nodes, count))
            result = search_expand(&s, s.queue[s.head]);
        s.head++;
    }
    free(s.set);
    free(s.queue);
    return result;
}

rondoResult_t rondo_cuda_graph_own(struct rondo_device *device, void *graph, void (*release)(void *), void *object)
{
    CUuserObject owner;
    (void)device;
    RONDO_CU(cuUserObjectCreate(&owner, object, release, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    RONDO_CU(cuGraphRetainUserObject((CUgraph)graph, owner, 1, CU_GRAPH_USER_OBJECT_MOVE));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_event_record(struct rondo_device *device, struct rondo_event *event,
                                      struct CUstream_st *stream)
{
    (void)device;
    RONDO_CU(cuEventRecord((CUevent)event, stream));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_event_wait(struct rondo_device *device, struct rondo_event *event, struct CUstream_st *stream)
{
    (void)device;
    RONDO_CU(cuStreamWaitEvent(stream, (CUevent)event, CU_EVENT_WAIT_DEFAULT));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_launch(struct rondo_device *device, const struct rondo_launch *launch)
{
    CUlaunchAttribute overlap;
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config = {
        .gridDimX = launch->blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = launch->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = launch->stream,
        .attrs = &overlap,
        .numAttrs = device->info.programmatic ? 1 : 0,
    };
    void *parameters[] = {(void *)(uintptr_t)launch->args};
    RONDO_CU(cuLaunchKernelEx(&config, (CUfunction)launch->kernel, parameters, NULL));
    return rondoSuccess;
}
