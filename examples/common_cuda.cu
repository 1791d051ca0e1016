/* GPUs: the CUDA runtime. */
#define _Noreturn [[noreturn]]
#include "common.h"

#include <cuda_runtime.h>

#define CUDA(call)                                                                        \
    do {                                                                                  \
        const cudaError_t error_ = (call);                                                \
        if (error_ != cudaSuccess)                                                        \
            fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
    } while (0)

enum { THREADS = 256 };

static __global__ void elementwise(enum kernel kernel, struct kernel_args args)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= args.count)
        return;
    if (kernel == LAYER)
        layer(&args, i);
    else if (kernel == GRADIENT)
        gradient(&args, i);
    else
        update(&args, i);
}

static __global__ void pick_token(struct kernel_args args)
{
    const int go_on = pick(&args);
    if (args.condition)
        cudaGraphSetConditional(args.condition, (unsigned)go_on);
}

static void run(enum kernel kernel, const struct kernel_args *args, struct CUstream_st *stream)
{
    if (kernel == PICK)
        pick_token<<<1, 1, 0, stream>>>(*args);
    else
        elementwise<<<(unsigned)((args->count + THREADS - 1) / THREADS), THREADS, 0, stream>>>(kernel, *args);
    CUDA(cudaGetLastError());
}

static void begin(int rank)
{
    int count;
    CUDA(cudaGetDeviceCount(&count));
    CUDA(cudaSetDevice(rank % count)); /* several ranks on one GPU need RONDO_SHARED_DEVICE=1 */
}

static void *alloc(size_t bytes)
{
    void *memory;
    CUDA(cudaMalloc(&memory, bytes));
    return memory;
}

static void free_memory(void *memory)
{
    CUDA(cudaFree(memory));
}

static void copy(void *to, const void *from, size_t bytes)
{
    CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
    CUDA(cudaStreamSynchronize(cudaStreamLegacy)); /* pageable memory may be on its way still */
}

static struct CUstream_st *stream_new(void)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void stream_end(struct CUstream_st *stream)
{
    CUDA(cudaStreamDestroy(stream));
}

static void wait_for(struct CUstream_st *stream)
{
    CUDA(cudaStreamSynchronize(stream));
}

static void join(struct CUstream_st *stream, struct CUstream_st *other)
{
    cudaEvent_t event;
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaEventRecord(event, other));
    CUDA(cudaStreamWaitEvent(stream, event, 0));
    CUDA(cudaEventDestroy(event));
}

static void capture(struct CUstream_st *stream)
{
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

static void capture_loop(struct CUstream_st *stream, struct graph *graph)
{
    cudaGraph_t whole;
    cudaGraphNode_t node;
    cudaGraphConditionalHandle handle;
    CUDA(cudaGraphCreate(&whole, 0));
    CUDA(cudaGraphConditionalHandleCreate(&handle, whole, 1, cudaGraphCondAssignDefault));
    cudaGraphNodeParams params = {};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = handle;
    params.conditional.type = cudaGraphCondTypeWhile;
    params.conditional.size = 1;
#if CUDART_VERSION >= 13000
    CUDA(cudaGraphAddNode(&node, whole, NULL, NULL, 0, &params));
#else
    CUDA(cudaGraphAddNode(&node, whole, NULL, 0, &params));
#endif
    graph->source = whole;
    graph->body = params.conditional.phGraph_out[0];
    graph->condition = handle;
    CUDA(cudaStreamBeginCaptureToGraph(stream, (cudaGraph_t)graph->body, NULL, NULL, 0,
                                       cudaStreamCaptureModeThreadLocal));
}

static void captured(struct CUstream_st *stream, struct graph *graph)
{
    cudaGraph_t made;
    cudaGraphExec_t exec;
    CUDA(cudaStreamEndCapture(stream, &made));
    if (!graph->source)
        graph->source = graph->body = made;
    CUDA(cudaGraphInstantiateWithFlags(&exec, (cudaGraph_t)graph->source, 0));
    graph->exec = exec;
}

static void launch(const struct graph *graph, struct CUstream_st *stream)
{
    CUDA(cudaGraphLaunch((cudaGraphExec_t)graph->exec, stream));
}

static void graph_end(struct graph *graph)
{
    CUDA(cudaGraphExecDestroy((cudaGraphExec_t)graph->exec));
    CUDA(cudaGraphDestroy((cudaGraph_t)graph->source));
}

extern "C" const struct device cuda_device = {
    "cuda",   begin, alloc, free_memory, copy,         copy,     stream_new, stream_end,
    wait_for, join,  run,   capture,     capture_loop, captured, launch,     graph_end,
};
