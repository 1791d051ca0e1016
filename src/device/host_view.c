/* The host row: graphs as they are seen from outside. */
#include "device/graph_view.h"
#include "device/host_graph.h"
#include "device/host_kernels.h"

#include "common/result.h"
#include "kernels/instances.h"

#include <stdlib.h>
#include <string.h>

static const char *type_name(const struct rondoHostNode *node)
{
    switch (node->type) {
    case rondoHostNodeKernel:
        return "kernel";
    case rondoHostNodeMemcpy:
        return "memcpy";
    case rondoHostNodeMemset:
        return "memset";
    case rondoHostNodeHost:
        return "host";
    case rondoHostNodeGraph:
        return "graph";
    case rondoHostNodeConditional:
        break;
    }
    return node->conditional == rondoHostIf ? "if" : node->conditional == rondoHostWhile ? "while" : "switch";
}

/* Two kernels are one function here, for arguments of different sizes. */
static unsigned kernel_number(const struct host_action *action)
{
    unsigned k = 0;
    while (k < RONDO_KERNEL_COUNT && rondo_host_kernels[k] != action->kernel)
        k++;
    return k == RONDO_KERNEL_BATCH && action->bytes > rondo_kernel_args_bytes(k) ? (unsigned)RONDO_KERNEL_LARGE : k;
}

static void look(struct rondoHostNode *node, struct rondo_graph_node *seen)
{
    *seen = (struct rondo_graph_node){
        .node = node,
        .type = type_name(node),
        .kernel = RONDO_KERNEL_COUNT,
        .name = "",
        .bodies = (void *const *)node->bodies,
        .body_count = node->body_count,
        .is_kernel = node->type == rondoHostNodeKernel,
    };
    if (!seen->is_kernel)
        return;
    seen->blocks = node->action.blocks;
    seen->threads = 1;
    seen->kernel = kernel_number(&node->action);
    if (seen->kernel == RONDO_KERNEL_COUNT)
        return;
    seen->name = rondo_kernel_name(seen->kernel);
    seen->args = node->action.argument;
    seen->args_bytes = node->action.bytes;
}

static rondoResult_t fill(rondoHostGraph_t graph, struct rondo_graph_view *view)
{
    size_t edges = 0;
    for (size_t i = 0; i < graph->count; i++)
        edges += graph->nodes[i]->needs.count;
    view->nodes = calloc(graph->count + 1, sizeof *view->nodes);
    view->edges = calloc(edges + 1, sizeof *view->edges);
    if (!view->nodes || !view->edges)
        return rondo_fail(rondoSystemError, "out of memory");
    for (size_t i = 0; i < graph->count; i++) {
        struct rondoHostNode *node = graph->nodes[i];
        look(node, &view->nodes[view->node_count++]);
        for (size_t n = 0; n < node->needs.count; n++)
            view->edges[view->edge_count++] = (struct rondo_graph_edge){.from = node->needs.nodes[n]->index, .to = i};
    }
    return rondoSuccess;
}

rondoResult_t host_graph_open(void *graph, struct rondo_graph_view *view)
{
    *view = (struct rondo_graph_view){0};
    RONDO_TRY(host_graph_check(graph));
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = fill(graph, view);
    pthread_mutex_unlock(&host_graph_lock);
    if (result != rondoSuccess)
        host_graph_close(view);
    return result;
}

void host_graph_close(struct rondo_graph_view *view)
{
    free(view->nodes);
    free(view->edges);
    *view = (struct rondo_graph_view){0};
}

/* Gives the nodes the arguments in `args`, and leaves there what they had. */
static void swap(const struct rondo_graph_change *changes, void **args, size_t count)
{
    pthread_mutex_lock(&host_graph_lock);
    for (size_t i = 0; i < count; i++) {
        struct rondoHostNode *node = changes[i].node->node;
        void *had = node->action.argument;
        node->action.argument = args[i];
        args[i] = had;
    }
    pthread_mutex_unlock(&host_graph_lock);
}

/* The executable is made anew from the whole of the graph, as an update of it is. If it is another's, all stays as it was. */
rondoResult_t host_graph_change(void *exec, void *graph, const struct rondo_graph_change *changes, size_t count)
{
    rondoHostGraph_t whole = graph;
    rondoResult_t result = rondoSuccess;
    void **args = calloc(count + 1, sizeof *args);
    for (size_t i = 0; args && i < count && result == rondoSuccess; i++) {
        args[i] = malloc(changes[i].node->args_bytes);
        if (args[i])
            memcpy(args[i], changes[i].args, changes[i].node->args_bytes);
        else
            result = rondo_fail(rondoSystemError, "out of memory");
    }
    if (!args)
        return rondo_fail(rondoSystemError, "out of memory");
    while (whole->parent)
        whole = whole->parent;
    if (result == rondoSuccess) {
        swap(changes, args, count);
        result = rondoHostGraphExecUpdate(exec, whole);
        if (result != rondoSuccess)
            swap(changes, args, count);
        if (result == rondoInvalidUsage)
            result = rondo_fail(rondoInvalidArgument, "exec was not instantiated from this graph");
    }
    for (size_t i = 0; i < count; i++)
        free(args[i]);
    free(args);
    return result;
}
