#include "graph/capture.h"

#include "comm/exports.h"
#include "common/result.h"

#include <string.h>

static struct rondo_capture_record *find(struct rondoComm *comm, uint64_t id)
{
    for (unsigned i = 0; i < RONDO_CAPTURES; i++)
        if (comm->captures[i].id == id)
            return &comm->captures[i];
    return NULL;
}

/* Whether the record's last launch is one of the graph's: of this comm's ops, which have their lane's channels as first argument. A
 * graph that is gone may have been at the same address, and its nodes too. */
static rondoResult_t is_in(struct rondoComm *comm, void *graph, const struct rondo_capture_record *record, bool *is)
{
    const struct rondo_lane_args *lane = &comm->lanes[record->lane].args;
    const struct rondo_launch last = {.kernel = record->last_kernel, .args = lane, .args_bytes = sizeof lane->channels};
    _Static_assert(offsetof(struct rondo_lane_args, channels) == 0, "arguments begin with the channels");
    *is = false;
    if (record->graph != graph || !record->node_count)
        return rondoSuccess;
    return comm->ops->graph_launches(comm->device, graph, record->nodes[0], &last, is);
}

/* The record of another capture into the same graph, which has nodes before this one's: a program may capture a graph piece by
 * piece, or several pieces at a time. */
static rondoResult_t find_in_graph(struct rondoComm *comm, void *graph, struct rondo_capture_record **found)
{
    bool is = false;
    *found = NULL;
    for (unsigned i = 0; i < RONDO_CAPTURES && !is; i++) {
        RONDO_TRY(is_in(comm, graph, &comm->captures[i], &is));
        if (is)
            *found = &comm->captures[i];
    }
    return rondoSuccess;
}

/* The graph's share in the comm's life: kernels that it replays find their lane's words, and there the news that the comm
 * has ended. Graphs that are cloned or instantiated hold it too. */
static rondoResult_t own(struct rondoComm *comm, void *graph)
{
    rondo_anchor_reap();
    rondo_anchor_hold(comm->anchor);
    rondoResult_t result = comm->ops->graph_own(comm->device, graph, rondo_anchor_drop_later, comm->anchor);
    if (result != rondoSuccess)
        rondo_anchor_drop(comm->anchor);
    return result;
}

/* All ranks choose alike, for they capture in the same order. */
static unsigned choose_lane(struct rondoComm *comm)
{
    if (comm->graph_lane != RONDO_GRAPH_LANE_DEAL)
        return RONDO_LANE_GRAPH + (unsigned)comm->graph_lane;
    return RONDO_LANE_GRAPH + comm->dealt_lanes++ % (unsigned)comm->config.graph_lanes;
}

rondoResult_t rondo_capture_set_lane(struct rondoComm *comm, int lane)
{
    if (lane != RONDO_GRAPH_LANE_DEAL && (lane < 0 || lane >= comm->config.graph_lanes))
        return rondo_fail(rondoInvalidArgument, "lane is %d, the comm has graph lanes 0 to %d", lane,
                          comm->config.graph_lanes - 1);
    pthread_mutex_lock(&comm->lock);
    comm->graph_lane = lane;
    comm->dealt_lanes = 0;
    pthread_mutex_unlock(&comm->lock);
    return rondoSuccess;
}

/* A graph in which the comm has no ops yet: what is known of one at this address is of another, which is gone. Its nodes may come
 * again too. */
static void forget(struct rondoComm *comm, const void *graph)
{
    for (unsigned i = 0; i < RONDO_CAPTURES; i++)
        if (comm->captures[i].graph == graph)
            comm->captures[i].node_count = 0;
}

/* A record for a capture in which the comm has no ops yet. A hold is for one capture only: of the graph that an earlier one was
 * into, nothing is sure but that a node is the same. */
static rondoResult_t make_record(struct rondoComm *comm, const struct rondo_capture *capture,
                                 struct rondo_capture_record **out)
{
    struct rondo_capture_record *record;
    RONDO_TRY(find_in_graph(comm, capture->graph, &record));
    if (record) {
        record->id = capture->id; /* the graph holds the anchor */
        record->hold = NULL;
    } else {
        RONDO_TRY(own(comm, capture->graph));
        forget(comm, capture->graph);
        record = &comm->captures[comm->next_capture];
        comm->next_capture = (comm->next_capture + 1) % RONDO_CAPTURES;
        *record = (struct rondo_capture_record){.id = capture->id,
                                                .lane = choose_lane(comm),
                                                .number = rondo_labels_add(&comm->labels),
                                                .graph = capture->graph};
    }
    *out = record;
    return rondoSuccess;
}

rondoResult_t rondo_capture_begin(struct rondoComm *comm, struct CUstream_st *stream,
                                  const struct rondo_capture *capture, struct rondo_capture_record **out)
{
    struct rondo_capture_record *record = find(comm, capture->id);
    bool follows = true;
    if (!record)
        RONDO_TRY(make_record(comm, capture, &record));
    if (record->node_count)
        RONDO_TRY(comm->ops->capture_follows(comm->device, capture, record->nodes, record->node_count, &follows));
    if (!follows)
        RONDO_TRY(comm->ops->capture_depend(comm->device, stream, record->nodes[0]));
    *out = record;
    return rondoSuccess;
}

struct rondo_exports_hold *rondo_capture_hold(struct rondoComm *comm, struct rondo_capture_record *record)
{
    if (record->hold || !comm->exporter)
        return record->hold;
    struct rondo_exports_hold *hold = rondo_exports_hold_create(comm->exporter);
    if (hold && comm->ops->graph_own(comm->device, record->graph, rondo_exports_hold_drop, hold) != rondoSuccess) {
        rondo_exports_hold_drop(hold);
        return NULL;
    }
    record->hold = hold;
    return hold;
}

rondoResult_t rondo_capture_end(struct rondoComm *comm, struct CUstream_st *stream, const struct rondo_kernel *kernel,
                                struct rondo_capture_record *record)
{
    struct rondo_capture capture;
    RONDO_TRY(comm->ops->stream_capture(comm->device, stream, &capture));
    if (!capture.active || capture.tail_count != 1)
        return rondo_fail(rondoInternalError, "a captured launch left %zu tails", capture.tail_count);
    if (record->node_count < RONDO_CAPTURE_NODES)
        record->node_count++;
    memmove(record->nodes + 1, record->nodes, (record->node_count - 1) * sizeof *record->nodes);
    record->nodes[0] = capture.tails[0];
    record->last_kernel = kernel;
    return rondoSuccess;
}

rondoResult_t rondo_capture_continue(struct rondoComm *comm, struct CUstream_st *stream,
                                     const struct rondo_capture_record *record)
{
    return comm->ops->capture_continue(comm->device, stream, record->nodes[0]);
}
