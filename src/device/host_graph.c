/* Captures and the graphs that they make. A node depends only on nodes that were added before it, so the order of a
 * graph's nodes is a topological one. */
#include "device/host_device.h"

#include "common/result.h"

#include <stdlib.h>
#include <string.h>

struct rondoHostNode {
    struct host_action action;
    struct host_tails needs; /* nodes that it depends on */
    size_t index;            /* in its graph */
    unsigned long mark;      /* of the last search that met it; graph lock */
};

/* Something that a graph and its executables keep alive together. */
struct host_owner {
    void (*release)(void *);
    void *object;
    unsigned references; /* atomic */
};

#define GRAPH_MAGIC 0x6870617274736f68ull

struct rondoHostGraph {
    uint64_t magic;
    rondoHostNode_t *nodes;
    size_t count, room;
    struct host_owners owners;
};

struct host_capture {
    uint64_t id;
    rondoHostGraph_t graph;
    struct CUstream_st *origin, *members; /* members: all streams in it, the origin too */
    bool spoiled;
    struct host_capture *next; /* of those under way */
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

static rondoResult_t owners_share(const struct host_owners *from, struct host_owners *to)
{
    for (size_t i = 0; i < from->count; i++) {
        RONDO_TRY(owners_add(to, from->list[i]));
        __atomic_add_fetch(&from->list[i]->references, 1, __ATOMIC_RELAXED);
    }
    return rondoSuccess;
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

/* ---- captures ---- */

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

static rondoResult_t tails_join(struct host_tails *to, const struct host_tails *from)
{
    for (size_t i = 0; i < from->count; i++)
        RONDO_TRY(host_tails_add(to, from->nodes[i]));
    return rondoSuccess;
}

static void graph_free(rondoHostGraph_t graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        host_action_fini(&graph->nodes[i]->action);
        free(graph->nodes[i]->needs.nodes);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
    graph->magic = 0;
    free(graph);
}

static rondoResult_t spoiled(void)
{
    return rondo_fail(rondoInvalidUsage, "the stream's capture was invalidated by an earlier error");
}

static rondoResult_t add_node(struct CUstream_st *stream, rondoHostGraph_t graph, const struct host_action *action)
{
    if (graph->count == graph->room) {
        size_t room = graph->room ? graph->room * 2 : 16;
        rondoHostNode_t *nodes = realloc(graph->nodes, room * sizeof(rondoHostNode_t));
        if (!nodes)
            return rondo_fail(rondoSystemError, "out of memory");
        graph->nodes = nodes;
        graph->room = room;
    }
    rondoHostNode_t node = calloc(1, sizeof *node);
    if (!node)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = host_action_copy(action, &node->action);
    if (result == rondoSuccess)
        result = tails_join(&node->needs, &stream->tails);
    stream->tails.count = 0;
    if (result == rondoSuccess)
        result = host_tails_add(&stream->tails, node);
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    return result;
}

rondoResult_t host_capture_add(struct CUstream_st *stream, const struct host_action *action)
{
    struct host_capture *capture = stream->capture;
    if (capture->spoiled)
        return spoiled();
    rondoResult_t result = add_node(stream, capture->graph, action);
    capture->spoiled = result != rondoSuccess; /* a node may be missing, or a dependency of it */
    return result;
}

rondoResult_t host_capture_record(struct CUstream_st *stream, rondoHostEvent_t event)
{
    if (stream->capture->spoiled)
        return spoiled();
    event->capture_id = stream->capture->id;
    event->tails.count = 0;
    return tails_join(&event->tails, &stream->tails);
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
    return tails_join(&stream->tails, &event->tails);
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
    if (capture->graph) {
        host_owners_drop(&capture->graph->owners);
        graph_free(capture->graph);
    }
    free(capture);
}

rondoResult_t rondoHostStreamBeginCapture(rondoHostStream_t handle, rondoHostCaptureMode_t mode)
{
    static uint64_t last_id;
    struct CUstream_st *stream;
    if ((unsigned)mode > rondoHostCaptureRelaxed)
        return rondo_fail(rondoInvalidArgument, "capture mode %d", (int)mode);
    if (!handle)
        return rondo_fail(rondoInvalidUsage, "the default stream cannot be captured");
    RONDO_TRY(host_stream_find(handle, &stream));
    struct host_capture *capture = calloc(1, sizeof *capture);
    rondoHostGraph_t graph = calloc(1, sizeof *graph);
    rondoResult_t result = capture && graph ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
    pthread_mutex_lock(&host_graph_lock);
    if (result == rondoSuccess && stream->capture)
        result = rondo_fail(rondoInvalidUsage, "the stream is capturing already");
    if (result == rondoSuccess) {
        graph->magic = GRAPH_MAGIC;
        *capture = (struct host_capture){
            .id = ++last_id, .graph = graph, .origin = stream, .members = stream, .next = captures};
        captures = capture;
        stream->capture = capture;
        stream->next_member = NULL;
        stream->tails.count = 0;
    }
    pthread_mutex_unlock(&host_graph_lock);
    if (result != rondoSuccess) {
        free(capture);
        free(graph);
    }
    return result;
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

rondoResult_t host_capture_depend(struct rondo_device *device, struct CUstream_st *handle, const void *node)
{
    struct CUstream_st *stream;
    (void)device;
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = stream->capture ? host_tails_add(&stream->tails, (rondoHostNode_t)node)
                                           : rondo_fail(rondoInvalidUsage, "the stream does not capture");
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

rondoResult_t host_capture_follows(struct rondo_device *device, const struct rondo_capture *capture, const void *node,
                                   bool *follows)
{
    const struct host_tails tails = {(rondoHostNode_t *)capture->tails, capture->tail_count, 0};
    (void)device;
    pthread_mutex_lock(&host_graph_lock);
    const unsigned long mark = ++last_mark;
    mark_back(&tails, mark, capture->graph, ((rondoHostNode_t)node)->index);
    *follows = ((rondoHostNode_t)node)->mark == mark;
    pthread_mutex_unlock(&host_graph_lock);
    return rondoSuccess;
}

/* ---- graphs ---- */

static rondoResult_t check(rondoHostGraph_t graph)
{
    if (!graph || graph->magic != GRAPH_MAGIC)
        return rondo_fail(rondoInvalidArgument, "graph is %s", graph ? "not a graph" : "NULL");
    return rondoSuccess;
}

rondoResult_t rondoHostGraphDestroy(rondoHostGraph_t graph)
{
    RONDO_TRY(check(graph));
    host_owners_drop(&graph->owners);
    graph_free(graph);
    return rondoSuccess;
}

rondoResult_t rondoHostGraphGetNodes(rondoHostGraph_t graph, rondoHostNode_t *nodes, size_t *count)
{
    RONDO_TRY(check(graph));
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
    RONDO_TRY(check(graph));
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

rondoResult_t host_graph_copy_node(rondoHostGraph_t graph, size_t index, struct host_action *action, size_t **needs,
                                   size_t *need_count)
{
    const struct rondoHostNode *node = graph->nodes[index];
    *need_count = node->needs.count;
    *needs = malloc((node->needs.count + 1) * sizeof **needs);
    if (!*needs)
        return rondo_fail(rondoSystemError, "out of memory");
    for (size_t n = 0; n < node->needs.count; n++)
        (*needs)[n] = node->needs.nodes[n]->index;
    return host_action_copy(&node->action, action);
}

rondoResult_t host_graph_share_owners(rondoHostGraph_t graph, struct host_owners *owners)
{
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = owners_share(&graph->owners, owners);
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}
