/* Graphs: see host_graph.h. */
#include "device/host_graph.h"

#include "common/result.h"

#include <stdlib.h>
#include <string.h>

/* Something that graphs and executables keep alive together. */
struct host_owner {
    void (*release)(void *);
    void *object;
    unsigned references; /* atomic */
};

pthread_mutex_t host_graph_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- owners ---- */

static rondoResult_t owners_add(struct host_owners *owners, struct host_owner *owner)
{
    struct host_owner **list = realloc(owners->list, (owners->count + 1) * sizeof(struct host_owner *));
    if (!list)
        return rondo_fail(rondoSystemError, "out of memory");
    owners->list = list;
    list[owners->count++] = owner;
    return rondoSuccess;
}

void host_owners_drop(struct host_owners *owners)
{
    for (size_t i = 0; i < owners->count; i++) {
        struct host_owner *owner = owners->list[i];
        if (__atomic_sub_fetch(&owner->references, 1, __ATOMIC_ACQ_REL) == 0) {
            owner->release(owner->object);
            free(owner);
        }
    }
    free(owners->list);
    memset(owners, 0, sizeof *owners);
}

/* Under the graph lock. */
static rondoResult_t owners_share(const struct host_owners *from, struct host_owners *to)
{
    for (size_t i = 0; i < from->count; i++) {
        RONDO_TRY(owners_add(to, from->list[i]));
        __atomic_add_fetch(&from->list[i]->references, 1, __ATOMIC_RELAXED);
    }
    return rondoSuccess;
}

static rondoResult_t share_all(rondoHostGraph_t graph, struct host_owners *owners)
{
    RONDO_TRY(owners_share(&graph->owners, owners));
    for (size_t i = 0; i < graph->count; i++)
        for (unsigned b = 0; b < graph->nodes[i]->body_count; b++)
            RONDO_TRY(share_all(graph->nodes[i]->bodies[b], owners));
    return rondoSuccess;
}

rondoResult_t host_owners_share(rondoHostGraph_t graph, struct host_owners *owners)
{
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = share_all(graph, owners);
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

rondoResult_t host_graph_own(struct rondo_device *device, void *graph, void (*release)(void *), void *object)
{
    struct host_owner *owner = malloc(sizeof *owner);
    (void)device;
    if (!owner)
        return rondo_fail(rondoSystemError, "out of memory");
    *owner = (struct host_owner){release, object, 1};
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = owners_add(&((rondoHostGraph_t)graph)->owners, owner);
    pthread_mutex_unlock(&host_graph_lock);
    if (result != rondoSuccess)
        free(owner);
    return result;
}

/* ---- nodes ---- */

rondoResult_t host_tails_add(struct host_tails *tails, rondoHostNode_t node)
{
    for (size_t i = 0; i < tails->count; i++)
        if (tails->nodes[i] == node)
            return rondoSuccess;
    if (tails->count == tails->room) {
        size_t room = tails->room ? tails->room * 2 : 4;
        rondoHostNode_t *nodes = realloc(tails->nodes, room * sizeof(rondoHostNode_t));
        if (!nodes)
            return rondo_fail(rondoSystemError, "out of memory");
        tails->nodes = nodes;
        tails->room = room;
    }
    tails->nodes[tails->count++] = node;
    return rondoSuccess;
}

rondoResult_t host_tails_join(struct host_tails *to, const struct host_tails *from)
{
    for (size_t i = 0; i < from->count; i++)
        RONDO_TRY(host_tails_add(to, from->nodes[i]));
    return rondoSuccess;
}

rondoResult_t host_node_create(const struct host_action *action, rondoHostNode_t *out)
{
    static const rondoHostNodeType_t types[] = {[HOST_KERNEL] = rondoHostNodeKernel,
                                                [HOST_CALL] = rondoHostNodeHost,
                                                [HOST_COPY] = rondoHostNodeMemcpy,
                                                [HOST_SET] = rondoHostNodeMemset};
    rondoHostNode_t node = calloc(1, sizeof *node);
    if (!node)
        return rondo_fail(rondoSystemError, "out of memory");
    node->type = types[action->kind];
    rondoResult_t result = host_action_copy(action, &node->action);
    if (result == rondoSuccess)
        *out = node;
    else
        free(node);
    return result;
}

rondoResult_t host_node_create_with(rondoHostNodeType_t type, unsigned bodies, rondoHostNode_t *out)
{
    rondoHostNode_t node = calloc(1, sizeof *node);
    rondoResult_t result = rondoSuccess;
    if (!node || !(node->bodies = calloc(bodies, sizeof *node->bodies)))
        result = rondo_fail(rondoSystemError, "out of memory");
    while (result == rondoSuccess && node->body_count < bodies)
        if ((result = host_graph_create(&node->bodies[node->body_count])) == rondoSuccess)
            node->body_count++;
    if (result != rondoSuccess) {
        host_node_free(node);
        return result;
    }
    node->type = type;
    *out = node;
    return rondoSuccess;
}

void host_node_free(rondoHostNode_t node)
{
    if (!node)
        return;
    for (unsigned b = 0; b < node->body_count; b++)
        host_graph_free(node->bodies[b]);
    free(node->bodies);
    host_action_fini(&node->action);
    free(node->needs.nodes);
    free(node);
}

rondoResult_t host_graph_add(rondoHostGraph_t graph, rondoHostNode_t node, const struct host_tails *needs)
{
    if (graph->count == graph->room) {
        size_t room = graph->room ? graph->room * 2 : 16;
        rondoHostNode_t *nodes = realloc(graph->nodes, room * sizeof(rondoHostNode_t));
        if (!nodes)
            return rondo_fail(rondoSystemError, "out of memory");
        graph->nodes = nodes;
        graph->room = room;
    }
    RONDO_TRY(host_tails_join(&node->needs, needs));
    for (unsigned b = 0; b < node->body_count; b++)
        node->bodies[b]->parent = graph;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    return rondoSuccess;
}

rondoResult_t host_graph_launches(struct rondo_device *device, void *handle, const void *node,
                                  const struct rondo_launch *launch, bool *does)
{
    const struct rondoHostGraph *graph = handle;
    size_t i = 0;
    (void)device;
    pthread_mutex_lock(&host_graph_lock);
    while (i < graph->count && graph->nodes[i] != node)
        i++;
    const struct host_action *action = i < graph->count ? &graph->nodes[i]->action : NULL;
    *does = action && graph->nodes[i]->type == rondoHostNodeKernel &&
            action->kernel == *(void (*const *)(const void *))launch->kernel && action->bytes >= launch->args_bytes &&
            !memcmp(action->argument, launch->args, launch->args_bytes);
    pthread_mutex_unlock(&host_graph_lock);
    return rondoSuccess;
}

/* ---- graphs ---- */

rondoResult_t host_graph_check(rondoHostGraph_t graph)
{
    if (!graph || graph->magic != HOST_GRAPH_MAGIC)
        return rondo_fail(rondoInvalidArgument, "graph is %s", graph ? "not a graph" : "NULL");
    return rondoSuccess;
}

rondoResult_t host_graph_create(rondoHostGraph_t *out)
{
    rondoHostGraph_t graph = calloc(1, sizeof *graph);
    if (!graph)
        return rondo_fail(rondoSystemError, "out of memory");
    graph->magic = HOST_GRAPH_MAGIC;
    *out = graph;
    return rondoSuccess;
}

void host_graph_free(rondoHostGraph_t graph)
{
    if (!graph)
        return;
    for (size_t i = 0; i < graph->count; i++)
        host_node_free(graph->nodes[i]);
    host_owners_drop(&graph->owners);
    free(graph->nodes);
    free(graph->conditions);
    graph->magic = 0;
    free(graph);
}

bool host_graph_is_in(rondoHostGraph_t graph, rondoHostGraph_t outer)
{
    while (graph && graph != outer)
        graph = graph->parent;
    return graph != NULL;
}

static rondoResult_t copy_nodes(rondoHostGraph_t from, rondoHostGraph_t to);

static rondoResult_t copy_node(const struct rondoHostNode *from, rondoHostGraph_t to)
{
    rondoHostNode_t node;
    struct host_tails needs = {0};
    if (from->type == rondoHostNodeConditional)
        return rondo_fail(rondoInvalidUsage, "a graph with conditional nodes cannot be copied");
    RONDO_TRY(from->body_count ? host_node_create_with(from->type, from->body_count, &node)
                               : host_node_create(&from->action, &node));
    rondoResult_t result = rondoSuccess;
    for (unsigned b = 0; b < from->body_count && result == rondoSuccess; b++)
        result = copy_nodes(from->bodies[b], node->bodies[b]);
    for (size_t n = 0; n < from->needs.count && result == rondoSuccess; n++)
        result = host_tails_add(&needs, to->nodes[from->needs.nodes[n]->index]);
    if (result == rondoSuccess)
        result = host_graph_add(to, node, &needs);
    if (result != rondoSuccess)
        host_node_free(node);
    free(needs.nodes);
    return result;
}

static rondoResult_t copy_nodes(rondoHostGraph_t from, rondoHostGraph_t to)
{
    for (size_t i = 0; i < from->count; i++)
        RONDO_TRY(copy_node(from->nodes[i], to));
    return owners_share(&from->owners, &to->owners);
}

rondoResult_t host_graph_copy(rondoHostGraph_t from, rondoHostGraph_t *to)
{
    rondoHostGraph_t graph;
    RONDO_TRY(host_graph_create(&graph));
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = copy_nodes(from, graph);
    pthread_mutex_unlock(&host_graph_lock);
    if (result == rondoSuccess)
        *to = graph;
    else
        host_graph_free(graph);
    return result;
}

rondoResult_t rondoHostGraphCreate(rondoHostGraph_t *graph)
{
    if (!graph)
        return rondo_fail(rondoInvalidArgument, "graph is NULL");
    return host_graph_create(graph);
}

rondoResult_t rondoHostGraphClone(rondoHostGraph_t *clone, rondoHostGraph_t graph)
{
    if (!clone)
        return rondo_fail(rondoInvalidArgument, "clone is NULL");
    RONDO_TRY(host_graph_check(graph));
    return host_graph_copy(graph, clone);
}

rondoResult_t rondoHostGraphDestroy(rondoHostGraph_t graph)
{
    RONDO_TRY(host_graph_check(graph));
    if (graph->parent)
        return rondo_fail(rondoInvalidUsage, "the graph belongs to a node of another one");
    pthread_mutex_lock(&host_graph_lock);
    host_captures_lose(graph);
    pthread_mutex_unlock(&host_graph_lock);
    host_graph_free(graph);
    return rondoSuccess;
}

rondoResult_t rondoHostGraphGetNodes(rondoHostGraph_t graph, rondoHostNode_t *nodes, size_t *count)
{
    RONDO_TRY(host_graph_check(graph));
    if (!count)
        return rondo_fail(rondoInvalidArgument, "count is NULL");
    for (size_t i = 0; nodes && i < *count && i < graph->count; i++)
        nodes[i] = graph->nodes[i];
    *count = graph->count;
    return rondoSuccess;
}

rondoResult_t rondoHostGraphGetEdges(rondoHostGraph_t graph, rondoHostNode_t *from, rondoHostNode_t *to, size_t *count)
{
    size_t edges = 0;
    RONDO_TRY(host_graph_check(graph));
    if (!count)
        return rondo_fail(rondoInvalidArgument, "count is NULL");
    for (size_t i = 0; i < graph->count; i++)
        for (size_t n = 0; n < graph->nodes[i]->needs.count; n++, edges++)
            if (from && to && edges < *count) {
                from[edges] = graph->nodes[i]->needs.nodes[n];
                to[edges] = graph->nodes[i];
            }
    *count = edges;
    return rondoSuccess;
}

rondoResult_t rondoHostNodeGetType(rondoHostNode_t node, rondoHostNodeType_t *type)
{
    if (!node || !type)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", node ? "type" : "node");
    *type = node->type;
    return rondoSuccess;
}

rondoResult_t rondoHostNodeGetGraph(rondoHostNode_t node, unsigned number, rondoHostGraph_t *graph)
{
    if (!node || !graph)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", node ? "graph" : "node");
    if (number >= node->body_count)
        return rondo_fail(rondoInvalidArgument, "the node has %u graphs, there is no number %u", node->body_count,
                          number);
    *graph = node->bodies[number];
    return rondoSuccess;
}

rondoResult_t rondoHostConditionalCreate(rondoHostConditional_t *handle, rondoHostGraph_t graph, unsigned value)
{
    static rondoHostConditional_t last; /* graph lock */
    if (!handle)
        return rondo_fail(rondoInvalidArgument, "handle is NULL");
    RONDO_TRY(host_graph_check(graph));
    pthread_mutex_lock(&host_graph_lock);
    struct host_condition *conditions =
        realloc(graph->conditions, (graph->condition_count + 1) * sizeof *graph->conditions);
    if (conditions) {
        graph->conditions = conditions;
        conditions[graph->condition_count++] = (struct host_condition){.handle = ++last, .value = value};
        *handle = last;
    }
    pthread_mutex_unlock(&host_graph_lock);
    return conditions ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
}
