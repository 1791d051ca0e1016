/* Captures: what streams are given becomes nodes of a graph. */
#include "device/host_graph.h"

#include "common/result.h"

#include <stdlib.h>

struct host_capture {
    uint64_t id;
    rondoHostGraph_t graph;               /* NULL: it was destroyed, and the capture is void */
    bool borrowed;                        /* the graph was there before */
    struct CUstream_st *origin, *members; /* members: all streams in it, the origin too */
    bool spoiled;
    struct host_capture *next; /* of those under way */
};

static rondoResult_t spoiled(void)
{
    return rondo_fail(rondoInvalidUsage, "the stream's capture was invalidated by an earlier error");
}

/* Puts a node behind what the stream holds, and frees it if that fails: the capture is void then, for the node or a dependency of
 * it is missing. Under the graph lock. */
static rondoResult_t add_node(struct CUstream_st *stream, rondoHostNode_t node)
{
    struct host_capture *capture = stream->capture;
    rondoResult_t result = capture->spoiled ? spoiled() : host_graph_add(capture->graph, node, &stream->tails);
    if (result != rondoSuccess) {
        capture->spoiled = true;
        host_node_free(node);
        return result;
    }
    stream->tails.count = 0;
    result = host_tails_add(&stream->tails, node);
    capture->spoiled = result != rondoSuccess;
    return result;
}

rondoResult_t host_capture_add(struct CUstream_st *stream, const struct host_action *action)
{
    rondoHostNode_t node;
    if (stream->capture->spoiled)
        return spoiled();
    rondoResult_t result = host_node_create(action, &node);
    if (result == rondoSuccess)
        return add_node(stream, node);
    stream->capture->spoiled = true;
    return result;
}

rondoResult_t host_capture_record(struct CUstream_st *stream, rondoHostEvent_t event)
{
    if (stream->capture->spoiled)
        return spoiled();
    event->capture_id = stream->capture->id;
    event->tails.count = 0;
    return host_tails_join(&event->tails, &stream->tails);
}

static struct host_capture *captures; /* those under way; graph lock */

void host_capture_forget_all(void)
{
    captures = NULL;
}

static struct host_capture *capture_find(uint64_t id)
{
    struct host_capture *c = captures;
    while (c && c->id != id)
        c = c->next;
    return c;
}

rondoResult_t host_capture_wait(struct CUstream_st *stream, rondoHostEvent_t event)
{
    struct host_capture *theirs = event->capture_id ? capture_find(event->capture_id) : NULL;
    if (event->capture_id && !theirs)
        return rondo_fail(rondoInvalidUsage, "the event was recorded in a capture that has ended");
    if (!theirs || (stream->capture && stream->capture != theirs)) {
        stream->capture->spoiled = true;
        if (theirs)
            theirs->spoiled = true;
        return rondo_fail(rondoInvalidUsage, "a capturing stream cannot wait for an event from outside its capture");
    }
    if (theirs->spoiled)
        return spoiled();
    if (!stream->capture) {
        stream->capture = theirs;
        stream->tails.count = 0;
        stream->next_member = theirs->members;
        theirs->members = stream;
    }
    return host_tails_join(&stream->tails, &event->tails);
}

void host_capture_spoil(struct CUstream_st *stream)
{
    stream->capture->spoiled = true;
}

/* No stream is in it any more. */
static void capture_end(struct host_capture *capture)
{
    struct CUstream_st *next;
    for (struct CUstream_st *s = capture->members; s; s = next) {
        next = s->next_member;
        s->capture = NULL;
        s->next_member = NULL;
        s->tails.count = 0;
    }
    capture->members = NULL;
    struct host_capture **place = &captures;
    while (*place != capture)
        place = &(*place)->next;
    *place = capture->next;
}

struct host_capture *host_capture_leave(struct CUstream_st *stream)
{
    struct host_capture *capture = stream->capture;
    capture->spoiled = true;
    if (capture->origin == stream) {
        capture_end(capture);
        return capture;
    }
    struct CUstream_st **place = &capture->members;
    while (*place != stream)
        place = &(*place)->next_member;
    *place = stream->next_member;
    stream->capture = NULL;
    return NULL;
}

void host_capture_free(struct host_capture *capture)
{
    if (!capture->borrowed && capture->graph) {
        pthread_mutex_lock(&host_graph_lock);
        host_captures_lose(capture->graph); /* those into its bodies */
        pthread_mutex_unlock(&host_graph_lock);
        host_graph_free(capture->graph);
    }
    free(capture);
}

void host_captures_lose(rondoHostGraph_t graph)
{
    for (struct host_capture *c = captures; c; c = c->next)
        if (host_graph_is_in(c->graph, graph)) {
            c->graph = NULL;
            c->spoiled = true;
        }
}

/* What to begin: a capture into a graph that is there, behind nodes of it, or into a new one (graph NULL). */
struct request {
    rondoHostGraph_t graph;
    struct host_tails behind; /* not owned */
};

static rondoResult_t begin(rondoHostStream_t handle, rondoHostCaptureMode_t mode, const struct request *request)
{
    static uint64_t last_id;
    struct CUstream_st *stream;
    rondoHostGraph_t graph = request->graph;
    if ((unsigned)mode > rondoHostCaptureRelaxed)
        return rondo_fail(rondoInvalidArgument, "capture mode %d", (int)mode);
    if (!handle)
        return rondo_fail(rondoInvalidUsage, "the default stream cannot be captured");
    RONDO_TRY(host_stream_find(handle, &stream));
    struct host_capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = graph ? rondoSuccess : host_graph_create(&graph);
    pthread_mutex_lock(&host_graph_lock);
    if (result == rondoSuccess && stream->capture)
        result = rondo_fail(rondoInvalidUsage, "the stream is capturing already");
    if (result == rondoSuccess) {
        stream->tails.count = 0;
        result = host_tails_join(&stream->tails, &request->behind);
    }
    if (result == rondoSuccess) {
        *capture = (struct host_capture){.id = ++last_id,
                                         .graph = graph,
                                         .borrowed = request->graph != NULL,
                                         .origin = stream,
                                         .members = stream,
                                         .next = captures};
        captures = capture;
        stream->capture = capture;
        stream->next_member = NULL;
    }
    pthread_mutex_unlock(&host_graph_lock);
    if (result != rondoSuccess) {
        if (!request->graph)
            host_graph_free(graph);
        free(capture);
    }
    return result;
}

rondoResult_t rondoHostStreamBeginCapture(rondoHostStream_t stream, rondoHostCaptureMode_t mode)
{
    return begin(stream, mode, &(struct request){.graph = NULL});
}

rondoResult_t rondoHostStreamBeginCaptureToGraph(rondoHostStream_t stream, rondoHostGraph_t graph,
                                                 const rondoHostNode_t *dependencies, size_t count,
                                                 rondoHostCaptureMode_t mode)
{
    RONDO_TRY(host_graph_check(graph));
    for (size_t i = 0; i < count; i++) {
        const rondoHostNode_t node = dependencies ? dependencies[i] : NULL;
        if (!node || node->index >= graph->count || graph->nodes[node->index] != node)
            return rondo_fail(rondoInvalidArgument, "dependency %zu is no node of the graph", i);
    }
    const struct request request = {graph, {(rondoHostNode_t *)(uintptr_t)dependencies, count, 0}};
    return begin(stream, mode, &request);
}

/* Marks the nodes and all that they depend on, as far back as the node with the number `first`. */
static void mark_back(const struct host_tails *from, unsigned long mark, rondoHostGraph_t graph, size_t first)
{
    size_t end = 0;
    for (size_t i = 0; i < from->count; i++) {
        from->nodes[i]->mark = mark;
        if (from->nodes[i]->index >= end)
            end = from->nodes[i]->index + 1;
    }
    for (size_t i = end; i-- > first;) /* backwards: whoever needs a node comes after it */
        if (graph->nodes[i]->mark == mark)
            for (size_t n = 0; n < graph->nodes[i]->needs.count; n++)
                graph->nodes[i]->needs.nodes[n]->mark = mark;
}

static unsigned long last_mark; /* graph lock */

/* Whether everything that the capture's streams hold leads to the origin. */
static bool joined(struct host_capture *capture)
{
    const unsigned long mark = ++last_mark;
    mark_back(&capture->origin->tails, mark, capture->graph, 0);
    for (struct CUstream_st *s = capture->members; s; s = s->next_member)
        for (size_t i = 0; i < s->tails.count; i++)
            if (s->tails.nodes[i]->mark != mark)
                return false;
    return true;
}

rondoResult_t rondoHostStreamEndCapture(rondoHostStream_t handle, rondoHostGraph_t *graph)
{
    struct CUstream_st *stream;
    rondoResult_t result = rondoSuccess;
    if (!graph)
        return rondo_fail(rondoInvalidArgument, "graph is NULL");
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    struct host_capture *capture = stream->capture;
    if (!capture || capture->origin != stream) {
        pthread_mutex_unlock(&host_graph_lock);
        return rondo_fail(rondoInvalidUsage,
                          capture ? "the capture began on another stream" : "the stream does not capture");
    }
    if (capture->spoiled)
        result = spoiled();
    else if (!joined(capture))
        result = rondo_fail(rondoInvalidUsage, "the capture has a forked stream that was not joined again");
    capture_end(capture);
    pthread_mutex_unlock(&host_graph_lock);
    *graph = NULL;
    if (result == rondoSuccess) {
        *graph = capture->graph;
        capture->graph = NULL;
    }
    host_capture_free(capture);
    return result;
}

rondoResult_t rondoHostStreamIsCapturing(rondoHostStream_t handle, int *capturing)
{
    struct CUstream_st *stream;
    if (!capturing)
        return rondo_fail(rondoInvalidArgument, "capturing is NULL");
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    *capturing = stream->capture != NULL;
    pthread_mutex_unlock(&host_graph_lock);
    return rondoSuccess;
}

rondoResult_t rondoHostStreamGetCaptureGraph(rondoHostStream_t handle, rondoHostGraph_t *graph)
{
    struct CUstream_st *stream;
    if (!graph)
        return rondo_fail(rondoInvalidArgument, "graph is NULL");
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = !stream->capture           ? rondo_fail(rondoInvalidUsage, "the stream does not capture")
                           : stream->capture->spoiled ? spoiled()
                                                      : rondoSuccess;
    *graph = result == rondoSuccess ? stream->capture->graph : NULL;
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

/* Adds a node with bodies to the stream's capture; frees it if that fails. */
static rondoResult_t capture_node(struct CUstream_st *stream, rondoHostNode_t node)
{
    pthread_mutex_lock(&host_graph_lock);
    if (stream->capture) {
        rondoResult_t result = add_node(stream, node);
        pthread_mutex_unlock(&host_graph_lock);
        return result;
    }
    pthread_mutex_unlock(&host_graph_lock);
    host_node_free(node);
    return rondo_fail(rondoInvalidUsage, "the stream does not capture");
}

rondoResult_t rondoHostStreamAddGraph(rondoHostStream_t handle, rondoHostGraph_t child)
{
    struct CUstream_st *stream;
    rondoHostNode_t node;
    rondoHostGraph_t copy;
    RONDO_TRY(host_stream_find(handle, &stream));
    RONDO_TRY(host_graph_check(child));
    RONDO_TRY(host_graph_copy(child, &copy));
    rondoResult_t result = host_node_create_with(rondoHostNodeGraph, 1, &node);
    if (result != rondoSuccess) {
        host_graph_free(copy);
        return result;
    }
    host_graph_free(node->bodies[0]);
    node->bodies[0] = copy;
    return capture_node(stream, node);
}

/* Gives the condition to a node of the stream's capture. It belongs to the graph there, or to one around it. */
static rondoResult_t use_condition(struct CUstream_st *stream, rondoHostConditional_t handle)
{
    struct host_condition *found = NULL;
    for (rondoHostGraph_t g = stream->capture ? stream->capture->graph : NULL; g && !found; g = g->parent)
        for (size_t i = 0; i < g->condition_count; i++)
            if (g->conditions[i].handle == handle)
                found = &g->conditions[i];
    if (!stream->capture)
        return rondo_fail(rondoInvalidUsage, "the stream does not capture");
    if (stream->capture->spoiled)
        return spoiled();
    if (!found || found->used)
        return rondo_fail(rondoInvalidArgument,
                          found ? "handle belongs to another node" : "handle was not made for the graph under capture");
    found->used = true;
    return rondoSuccess;
}

rondoResult_t rondoHostStreamAddConditional(rondoHostStream_t handle, rondoHostConditional_t condition,
                                            rondoHostConditionalType_t type, rondoHostGraph_t *bodies, unsigned count)
{
    struct CUstream_st *stream;
    rondoHostNode_t node;
    const unsigned most = type == rondoHostWhile ? 1 : type == rondoHostIf ? 2 : 1024;
    if ((unsigned)type > rondoHostSwitch)
        return rondo_fail(rondoInvalidArgument, "conditional type %d", (int)type);
    if (!bodies || count == 0 || count > most)
        return rondo_fail(rondoInvalidArgument, "bodies is NULL, or %u is not 1 to %u", count, most);
    RONDO_TRY(host_stream_find(handle, &stream));
    RONDO_TRY(host_node_create_with(rondoHostNodeConditional, count, &node));
    node->conditional = type;
    node->condition = condition;
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = use_condition(stream, condition);
    pthread_mutex_unlock(&host_graph_lock);
    if (result != rondoSuccess) {
        host_node_free(node);
        return result;
    }
    for (unsigned b = 0; b < count; b++)
        bodies[b] = node->bodies[b];
    return capture_node(stream, node);
}

rondoResult_t host_stream_capture(struct rondo_device *device, struct CUstream_st *handle, struct rondo_capture *out)
{
    struct CUstream_st *stream;
    (void)device;
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    const struct host_capture *capture = stream->capture;
    *out = (struct rondo_capture){.active = capture != NULL};
    bool void_capture = capture && capture->spoiled;
    if (capture) {
        out->id = capture->id;
        out->graph = capture->graph;
        out->tails = (const void **)stream->tails.nodes;
        out->tail_count = stream->tails.count;
    }
    pthread_mutex_unlock(&host_graph_lock);
    return void_capture ? spoiled() : rondoSuccess;
}

/* The stream's next node depends on `node`, and on what it did before unless `alone`. */
static rondoResult_t depend(struct CUstream_st *handle, const void *node, bool alone)
{
    struct CUstream_st *stream;
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    if (stream->capture && alone)
        stream->tails.count = 0;
    rondoResult_t result = stream->capture ? host_tails_add(&stream->tails, (rondoHostNode_t)node)
                                           : rondo_fail(rondoInvalidUsage, "the stream does not capture");
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

rondoResult_t host_capture_depend(struct rondo_device *device, struct CUstream_st *stream, const void *node)
{
    (void)device;
    return depend(stream, node, false);
}

rondoResult_t host_capture_continue(struct rondo_device *device, struct CUstream_st *stream, const void *node)
{
    (void)device;
    return depend(stream, node, true);
}

/* Nodes that were added before the one in question are not looked at: that is narrow enough. */
rondoResult_t host_capture_follows(struct rondo_device *device, const struct rondo_capture *capture,
                                   const void *const *nodes, size_t count, bool *follows)
{
    const rondoHostNode_t node = (rondoHostNode_t)nodes[0];
    const struct host_tails tails = {(rondoHostNode_t *)capture->tails, capture->tail_count, 0};
    (void)device;
    (void)count;
    pthread_mutex_lock(&host_graph_lock);
    const unsigned long mark = ++last_mark;
    mark_back(&tails, mark, capture->graph, node->index);
    *follows = node->mark == mark;
    pthread_mutex_unlock(&host_graph_lock);
    return rondoSuccess;
}
