#include "graph/launch.h"

#include "comm/failure.h"
#include "comm/watch.h"
#include "common/result.h"
#include "graph/capture.h"
#include "graph/prepared.h"
#include "graph/trace.h"
#include "kernels/types.h"

#include <string.h>

/* Makes `stream` wait for what `other` holds. */
static rondoResult_t follow(struct rondoComm *comm, struct CUstream_st *stream, struct CUstream_st *other)
{
    RONDO_TRY(comm->ops->event_record(comm->device, comm->join, other));
    return comm->ops->event_wait(comm->device, comm->join, stream);
}

/* What came of a plan: launches, and the kernel of the last one. */
struct launched {
    unsigned count;
    const struct rondo_kernel *last;
};

void rondo_launch_on_lane(const struct rondoComm *comm, const struct rondo_capture_record *record,
                          struct rondo_plan_launch *plan)
{
    const struct rondo_lane *lane = &comm->lanes[record ? record->lane : RONDO_LANE_EAGER];
    plan->args.lane = lane->args;
    plan->args.lane.graph = record ? record->number : 0;
    plan->args.lane.what = 0;
    if (plan->direct && !plan->messages)
        plan->args.single.exports = (struct rondo_export_args){.send = RONDO_EXPORT_NONE, .recv = RONDO_EXPORT_NONE};
    if (plan->messages)
        plan->args.batch.head.fifos = lane->fifos;
}

void rondo_launch_plan_begin(const struct rondoComm *comm, const struct rondo_launch_request *request,
                             struct rondo_group_plan *group)
{
    *group = (struct rondo_group_plan){
        .limits = &comm->limits,
        .tasks = request->tasks,
        .task_count = request->task_count,
        .messages = request->messages,
        .message_count = request->message_count,
    };
    rondo_plan_begin(group);
}

bool rondo_launch_plan_next(struct rondoComm *comm, const struct rondo_capture_record *record,
                            struct rondo_group_plan *group, struct rondo_plan_launch *plan)
{
    if (rondo_plan_done(group))
        return false;
    rondo_plan_next(group, plan);
    rondo_launch_on_lane(comm, record, plan);
    if (comm->tracer)
        rondo_trace_launch(comm, plan->kernel, &plan->args);
    return true;
}

/* Which exported memory a buffer lies in: of a captured op what the graph holds, of others (`hold` NULL) what is registered, or
 * rondoMemAlloc's. */
static void place(struct rondoComm *comm, struct rondo_exports_hold *hold, const void *buffer, uint64_t bytes,
                  uint16_t *number, uint64_t *at)
{
    if (hold)
        rondo_exports_place(hold, buffer, bytes, number, at);
    else
        rondo_registry_place(&comm->registry, buffer, bytes, number, at);
    if (!hold && *number == RONDO_EXPORT_NONE && comm->exporter)
        rondo_exporter_place(comm->exporter, buffer, bytes, number, at);
}

static void place_work(struct rondoComm *comm, struct rondo_exports_hold *hold, struct rondo_single_args *args)
{
    const struct rondo_work *work = &args->work;
    const uint64_t send = work->bytes * rondo_send_parts(work->collective, (unsigned)comm->ranks),
                   recv = work->bytes * rondo_recv_parts(work->collective, (unsigned)comm->ranks);
    if (work->send)
        place(comm, hold, work->send, send, &args->exports.send, &args->exports.send_at);
    if (work->recv)
        place(comm, hold, work->recv, recv, &args->exports.recv, &args->exports.recv_at);
}

/* Of messages it is the receivers whose buffers are reached. */
static void place_transfers(struct rondoComm *comm, struct rondo_exports_hold *hold, struct rondo_batch_head *head,
                            unsigned count)
{
    struct rondo_transfer *transfers = (struct rondo_transfer *)((char *)head + head->transfers_at);
    const struct rondo_end *end = (const struct rondo_end *)((const char *)head + head->ends_at);
    for (unsigned t = 0; t < count; t++) {
        end += end->end <= t;
        if (transfers[t].direct && end->kind == RONDO_RECV)
            place(comm, hold, transfers[t].buffer, transfers[t].bytes, &transfers[t].number, &transfers[t].at);
    }
}

/* Of a launch with direct ops. `record`: of what capture; NULL: it is eager. What a graph cannot hold, it does not use. */
static void place_all(struct rondoComm *comm, struct rondo_capture_record *record, struct rondo_plan_launch *plan)
{
    struct rondo_exports_hold *hold = record ? rondo_capture_hold(comm, record) : NULL;
    if (record && !hold)
        return;
    if (plan->messages)
        place_transfers(comm, hold, &plan->args.batch.head, plan->messages);
    else
        place_work(comm, hold, &plan->args.single);
}

static rondoResult_t launch_plan(struct rondoComm *comm, struct rondo_capture_record *record,
                                 const struct rondo_launch_request *request, struct launched *launched)
{
    struct rondo_plan_launch plan;
    struct rondo_group_plan group;
    rondo_launch_plan_begin(comm, request, &group);
    while (rondo_launch_plan_next(comm, record, &group, &plan)) {
        if (plan.direct)
            place_all(comm, record, &plan);
        const struct rondo_launch launch = {
            .kernel = comm->kernels[plan.kernel],
            .blocks = plan.blocks,
            .threads = plan.threads,
            .args = &plan.args,
            .args_bytes = plan.args_bytes,
            .stream = request->streams[0],
        };
        RONDO_TRY(comm->ops->launch(comm->device, &launch));
        launched->count++;
        launched->last = launch.kernel;
    }
    return rondoSuccess;
}

/* The stream with this id comes after the comm's last eager launch. */
static rondoResult_t eager_begin(struct rondoComm *comm, struct CUstream_st *stream, uint64_t id)
{
    if (comm->eager_stream && comm->eager_stream != id)
        return comm->ops->event_wait(comm->device, comm->eager_end, stream);
    return rondoSuccess;
}

/* All launches of a group or a plan must come about: the peers count on each. */
static rondoResult_t eager_end(struct rondoComm *comm, struct CUstream_st *stream, uint64_t id, unsigned launched,
                               rondoResult_t result)
{
    if (result == rondoSuccess)
        result = comm->ops->event_record(comm->device, comm->eager_end, stream);
    comm->eager_stream = id;
    if (result != rondoSuccess && launched) {
        rondo_comm_failed(comm, result, "rank %d could launch only a part of a group: %s", comm->rank,
                          rondo_last_error());
        rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, comm->failure_text);
    }
    return result;
}

static rondoResult_t launch_eager(struct rondoComm *comm, const struct rondo_launch_request *request)
{
    struct CUstream_st *stream = request->streams[0];
    struct launched launched = {0};
    uint64_t id;
    RONDO_TRY(comm->ops->stream_id(comm->device, stream, &id));
    RONDO_TRY(eager_begin(comm, stream, id));
    rondoResult_t result = launch_plan(comm, NULL, request, &launched);
    return eager_end(comm, stream, id, launched.count, result);
}

/* What the capture now holds, for errors. */
static void note(struct rondoComm *comm, const struct rondo_capture_record *record,
                 const struct rondo_launch_request *request)
{
    const uint32_t ops = (uint32_t)(request->task_count + request->message_count);
    const struct rondo_task *first = request->tasks;
    if (request->task_count)
        rondo_labels_note(&comm->labels, record->number, first->collective,
                          first->count * rondo_dtype_bytes(first->dtype), ops);
    else
        rondo_labels_note(&comm->labels, record->number, RONDO_TRANSFERS, 0, ops);
}

static rondoResult_t launch_captured(struct rondoComm *comm, const struct rondo_launch_request *request)
{
    struct CUstream_st *stream = request->streams[0];
    struct rondo_capture_record *record;
    struct rondo_capture capture;
    struct launched launched = {0};
    RONDO_TRY(comm->ops->stream_capture(comm->device, stream, &capture)); /* again: joining has changed its tails */
    RONDO_TRY(rondo_capture_begin(comm, stream, &capture, &record));
    RONDO_TRY(launch_plan(comm, record, request, &launched));
    note(comm, record, request);
    RONDO_TRY(rondo_capture_end(comm, stream, launched.last, record));
    for (size_t i = 1; i < request->stream_count; i++)
        RONDO_TRY(rondo_capture_continue(comm, request->streams[i], record));
    return rondoSuccess;
}

/* Whether the group is captured: all of its streams by one capture, or none. */
static rondoResult_t capture_of(struct rondoComm *comm, const struct rondo_launch_request *request, bool *captured)
{
    struct rondo_capture first, other;
    RONDO_TRY(comm->ops->stream_capture(comm->device, request->streams[0], &first));
    const bool active = first.active;
    const uint64_t id = first.id;
    for (size_t i = 1; i < request->stream_count; i++) {
        RONDO_TRY(comm->ops->stream_capture(comm->device, request->streams[i], &other));
        if (other.active != active || (active && other.id != id))
            return rondo_fail(rondoInvalidUsage, "the streams of a group's ops must all be in one capture, or in none");
    }
    *captured = active;
    return rondoSuccess;
}

static rondoResult_t launch_locked(struct rondoComm *comm, const struct rondo_launch_request *request)
{
    bool captured;
    RONDO_TRY(capture_of(comm, request, &captured));
    for (size_t i = 1; i < request->stream_count; i++)
        RONDO_TRY(follow(comm, request->streams[0], request->streams[i]));
    if (captured)
        return launch_captured(comm, request);
    RONDO_TRY(launch_eager(comm, request));
    for (size_t i = 1; i < request->stream_count; i++)
        RONDO_TRY(follow(comm, request->streams[i], request->streams[0]));
    return rondoSuccess;
}

rondoResult_t rondo_launch_group(struct rondoComm *comm, const struct rondo_launch_request *request)
{
    void *token;
    RONDO_TRY(comm->ops->enter(comm->device, &token));
    pthread_mutex_lock(&comm->lock);
    rondoResult_t result = launch_locked(comm, request);
    pthread_mutex_unlock(&comm->lock);
    comm->ops->leave(comm->device, token);
    return result;
}

/* ---- what was planned before ---- */

/* A launch as it is to be now: on the capture's lane, or the eager one (`record` NULL), with its buffers where they are exported. *plan
 * has its arguments. */
static struct rondo_launch renew(struct rondoComm *comm, struct rondo_capture_record *record,
                                 const struct rondo_prepared_launch *prepared, struct rondo_plan_launch *plan)
{
    struct rondo_launch launch = prepared->eager;
    memcpy(&plan->args, launch.args, launch.args_bytes);
    const uint32_t what = plan->args.lane.what;
    plan->messages = prepared->messages;
    plan->direct = prepared->direct;
    rondo_launch_on_lane(comm, record, plan);
    plan->args.lane.what = what;
    if (plan->direct)
        place_all(comm, record, plan);
    launch.args = &plan->args;
    return launch;
}

/* The end is recorded every time, which is the dearest thing here beside the launch: who comes on another stream later has no other
 * hold on this one, which may be destroyed, or capture, by then. */
static rondoResult_t prepared_eager(const struct rondo_prepared *prepared, struct CUstream_st *stream, uint64_t id)
{
    struct rondoComm *comm = prepared->comm;
    struct rondo_plan_launch plan;
    rondoResult_t result = rondoSuccess;
    unsigned launched = 0;
    RONDO_TRY(eager_begin(comm, stream, id));
    while (launched < prepared->count && result == rondoSuccess) {
        const struct rondo_prepared_launch *kept = &prepared->launches[launched];
        struct rondo_launch launch = kept->direct ? renew(comm, NULL, kept, &plan) : kept->eager;
        launch.stream = stream;
        result = comm->ops->launch(comm->device, &launch);
        launched += result == rondoSuccess;
    }
    return eager_end(comm, stream, id, launched, result);
}

static rondoResult_t prepared_captured(const struct rondo_prepared *prepared, struct CUstream_st *stream)
{
    struct rondoComm *comm = prepared->comm;
    struct rondo_capture_record *record;
    struct rondo_capture capture;
    struct rondo_plan_launch plan;
    const struct rondo_kernel *last = NULL;
    RONDO_TRY(comm->ops->stream_capture(comm->device, stream, &capture));
    RONDO_TRY(rondo_capture_begin(comm, stream, &capture, &record));
    for (size_t i = 0; i < prepared->count; i++) {
        struct rondo_launch launch = renew(comm, record, &prepared->launches[i], &plan);
        launch.stream = stream;
        RONDO_TRY(comm->ops->launch(comm->device, &launch));
        last = launch.kernel;
    }
    rondo_labels_note(&comm->labels, record->number, RONDO_LABEL_PLAN, 0, (uint32_t)prepared->count);
    return rondo_capture_end(comm, stream, last, record);
}

rondoResult_t rondo_launch_prepared(const struct rondo_prepared *prepared, struct CUstream_st *stream, uint64_t id)
{
    pthread_mutex_lock(&prepared->comm->lock);
    rondoResult_t result = id ? prepared_eager(prepared, stream, id) : prepared_captured(prepared, stream);
    pthread_mutex_unlock(&prepared->comm->lock);
    return result;
}
