/* The cuda row: the user's graphs, as the driver shows them. */
#include "device/cuda_device.h"

#include "common/result.h"
#include "device/graph_view.h"
#include "kernels/instances.h"

#include <stdlib.h>

static const char *type_name(CUgraphNodeType type)
{
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return "kernel";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return "memcpy";
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return "memset";
    case CU_GRAPH_NODE_TYPE_HOST:
        return "host";
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return "graph";
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return "empty";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return "event wait";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return "event record";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        return "semaphore signal";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return "semaphore wait";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return "memory allocation";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return "memory free";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return "memory operations";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return "conditional";
    default:
        return "unknown";
    }
}

static rondoResult_t look_at_kernel(struct rondo_graph_node *node)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    RONDO_CU(cuGraphKernelNodeGetParams(node->node, &params));
    node->is_kernel = true;
    node->blocks = params.gridDimX * params.gridDimY * params.gridDimZ;
    node->threads = params.blockDimX * params.blockDimY * params.blockDimZ;
    node->kernel = rondo_cuda_kernel_number(params.func, params.kern);
    if (node->kernel != RONDO_KERNEL_COUNT && params.kernelParams) {
        node->name = rondo_kernel_name(node->kernel);
        node->args = params.kernelParams[0];
        node->args_bytes = rondo_kernel_args_bytes(node->kernel);
        return rondoSuccess;
    }
    node->kernel = RONDO_KERNEL_COUNT;
    const CUresult error = params.func ? rondo_cuda.cuFuncGetName(&node->name, params.func)
                                       : rondo_cuda.cuKernelGetName(&node->name, params.kern);
    if (error != CUDA_SUCCESS || !node->name)
        node->name = "";
    return rondoSuccess;
}

/* The driver shows a child graph, but not what a conditional node runs. */
static rondoResult_t look(CUgraphNode handle, struct rondo_graph_node *node)
{
    CUgraphNodeType type;
    CUgraph child;
    RONDO_CU(cuGraphNodeGetType(handle, &type));
    *node =
        (struct rondo_graph_node){.node = handle, .type = type_name(type), .kernel = RONDO_KERNEL_COUNT, .name = ""};
    node->hides = type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL)
        return look_at_kernel(node);
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return rondoSuccess;
    RONDO_CU(cuGraphChildGraphNodeGetGraph(handle, &child));
    void **body = malloc(sizeof *body);
    if (!body)
        return rondo_fail(rondoSystemError, "out of memory");
    *body = child;
    node->bodies = body;
    node->body_count = 1;
    return rondoSuccess;
}

/* A graph's nodes and edges as the driver gives them. */
struct raw {
    CUgraphNode *nodes, *from, *to;
    CUgraphEdgeData *data;
    size_t node_count, edge_count;
};

static void raw_free(struct raw *raw)
{
    free(raw->nodes);
    free(raw->from);
    free(raw->to);
    free(raw->data);
}

/* Room for nothing would be an invalid argument. */
static rondoResult_t raw_fill(CUgraph graph, struct raw *raw)
{
    RONDO_CU(cuGraphGetNodes(graph, NULL, &raw->node_count));
    RONDO_CU(cuGraphGetEdges(graph, NULL, NULL, NULL, &raw->edge_count));
    raw->nodes = calloc(raw->node_count + 1, sizeof(CUgraphNode));
    raw->from = calloc(raw->edge_count + 1, sizeof(CUgraphNode));
    raw->to = calloc(raw->edge_count + 1, sizeof(CUgraphNode));
    raw->data = calloc(raw->edge_count + 1, sizeof(CUgraphEdgeData));
    if (!raw->nodes || !raw->from || !raw->to || !raw->data)
        return rondo_fail(rondoSystemError, "out of memory");
    if (raw->node_count)
        RONDO_CU(cuGraphGetNodes(graph, raw->nodes, &raw->node_count));
    if (raw->edge_count)
        RONDO_CU(cuGraphGetEdges(graph, raw->from, raw->to, raw->data, &raw->edge_count));
    return rondoSuccess;
}

/* A node and its place, to be found by the node. */
struct place {
    CUgraphNode node;
    size_t at;
};

static int by_node(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const struct place *)a)->node, y = (uintptr_t)((const struct place *)b)->node;
    return (x > y) - (x < y);
}

static struct place *find(struct place *places, size_t count, CUgraphNode node)
{
    const struct place key = {.node = node};
    return bsearch(&key, places, count, sizeof *places, by_node);
}

static int by_source(const void *a, const void *b)
{
    const size_t x = ((const struct rondo_graph_edge *)a)->from, y = ((const struct rondo_graph_edge *)b)->from;
    return (x > y) - (x < y);
}

/* Edges by the places of their ends, sorted by the first. */
static void place_edges(const struct raw *raw, struct place *places, struct rondo_graph_edge *edges)
{
    for (size_t e = 0; e < raw->edge_count; e++)
        edges[e] = (struct rondo_graph_edge){
            .from = find(places, raw->node_count, raw->from[e])->at,
            .to = find(places, raw->node_count, raw->to[e])->at,
            .programmatic = raw->data[e].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
        };
    qsort(edges, raw->edge_count, sizeof *edges, by_source);
}

/* Puts the nodes into an order in which they could run: the driver's has no promise. `order` and `first` have room for all nodes and
 * one; edges are by places in raw->nodes. */
static void sort(const struct raw *raw, const struct rondo_graph_edge *edges, size_t *waits, size_t *first,
                 size_t *order)
{
    size_t head = 0, count = 0, e = 0;
    for (size_t i = 0; i < raw->node_count; i++)
        waits[i] = 0;
    for (size_t i = 0; i < raw->edge_count; i++)
        waits[edges[i].to]++;
    for (size_t i = 0; i <= raw->node_count; i++) {
        while (e < raw->edge_count && edges[e].from < i)
            e++;
        first[i] = e;
    }
    for (size_t i = 0; i < raw->node_count; i++)
        if (!waits[i])
            order[count++] = i;
    for (; head < count; head++)
        for (e = first[order[head]]; e < raw->edge_count && edges[e].from == order[head]; e++)
            if (--waits[edges[e].to] == 0)
                order[count++] = edges[e].to;
}

static rondoResult_t arrange(const struct raw *raw, struct rondo_graph_view *view)
{
    const size_t count = raw->node_count;
    struct place *places = calloc(count + 1, sizeof *places);
    size_t *numbers = calloc(3 * (count + 1), sizeof *numbers);
    view->nodes = calloc(count + 1, sizeof *view->nodes);
    view->edges = calloc(raw->edge_count + 1, sizeof *view->edges);
    rondoResult_t result =
        places && numbers && view->nodes && view->edges ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
    if (result == rondoSuccess) {
        size_t *waits = numbers, *first = numbers + count + 1, *order = numbers + 2 * (count + 1);
        for (size_t i = 0; i < count; i++)
            places[i] = (struct place){raw->nodes[i], i};
        qsort(places, count, sizeof *places, by_node);
        place_edges(raw, places, view->edges);
        view->edge_count = raw->edge_count;
        sort(raw, view->edges, waits, first, order);
        for (size_t i = 0; i < count; i++)
            waits[order[i]] = i; /* and from here on: where a node is in the order */
        for (size_t e = 0; e < view->edge_count; e++) {
            view->edges[e].from = waits[view->edges[e].from];
            view->edges[e].to = waits[view->edges[e].to];
        }
        while (view->node_count < count && result == rondoSuccess) {
            result = look(raw->nodes[order[view->node_count]], &view->nodes[view->node_count]);
            view->node_count++; /* also one of which only a part was seen: it is freed with the others */
        }
    }
    free(places);
    free(numbers);
    return result;
}

rondoResult_t rondo_cuda_graph_open(void *graph, struct rondo_graph_view *view)
{
    struct raw raw = {0};
    *view = (struct rondo_graph_view){0};
    if (!graph)
        return rondo_fail(rondoInvalidArgument, "graph is NULL");
    rondoResult_t result = raw_fill(graph, &raw);
    if (result == rondoSuccess)
        result = arrange(&raw, view);
    raw_free(&raw);
    if (result != rondoSuccess)
        rondo_cuda_graph_close(view);
    return result;
}

void rondo_cuda_graph_close(struct rondo_graph_view *view)
{
    for (size_t i = 0; i < view->node_count; i++)
        free((void *)(uintptr_t)view->nodes[i].bodies);
    free(view->nodes);
    free(view->edges);
    *view = (struct rondo_graph_view){0};
}

rondoResult_t rondo_cuda_graph_change(void *exec, void *graph, const struct rondo_graph_change *changes, size_t count)
{
    (void)graph;
    for (size_t i = 0; i < count; i++) {
        CUDA_KERNEL_NODE_PARAMS params = {0};
        void *parameters[] = {(void *)(uintptr_t)changes[i].args};
        RONDO_CU(cuGraphKernelNodeGetParams(changes[i].node->node, &params));
        params.kernelParams = parameters;
        params.extra = NULL;
        const CUresult error = rondo_cuda.cuGraphExecKernelNodeSetParams(exec, changes[i].node->node, &params);
        if (error == CUDA_ERROR_INVALID_VALUE && i == 0)
            return rondo_fail(rondoInvalidArgument, "exec was not instantiated from this graph");
        if (error != CUDA_SUCCESS)
            return rondo_cuda_failed(error, "cuGraphExecKernelNodeSetParams");
        RONDO_CU(cuGraphKernelNodeSetParams(changes[i].node->node, &params));
    }
    return rondoSuccess;
}
