#include "comm/failure.h"

#include "comm/exports.h"

#include "common/clock.h"
#include "common/face.h"
#include "common/log.h"
#include "common/result.h"
#include "kernels/instances.h"
#include "kernels/signature.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A rank that left in order owes its peers nothing: what they still wait for 1 s later was never sent, or by a rank that is late. The
 * drop-in takes it for the latter much longer. */
enum { LEFT_GRACE_MS = 1000, PATIENT_GRACE_MS = 60000 };

void rondo_comm_failed(struct rondoComm *comm, rondoResult_t result, const char *format, ...)
{
    pthread_mutex_lock(&comm->failure_lock);
    bool first = __atomic_load_n(&comm->failure, __ATOMIC_RELAXED) == rondoSuccess;
    if (first) {
        va_list list;
        va_start(list, format);
        vsnprintf(comm->failure_text, sizeof comm->failure_text, format, list);
        va_end(list);
        __atomic_store_n(&comm->failure, result, __ATOMIC_RELEASE); /* rondo_comm_failure */
    }
    pthread_mutex_unlock(&comm->failure_lock);
    if (first)
        rondo_log(RONDO_LOG_WARN, "rank %d of %d: %s", comm->rank, comm->ranks, comm->failure_text);
    if (comm->anchor)
        rondo_lanes_abort(comm->anchor);
}

rondoResult_t rondo_comm_failure(struct rondoComm *comm)
{
    int failure =
        __atomic_load_n(&comm->failure, __ATOMIC_ACQUIRE); /* rondo_comm_failed; the text is constant by then */
    return failure == rondoSuccess ? rondoSuccess : rondo_repeat(failure, "%s", comm->failure_text);
}

static const char *dtype_name(uint32_t dtype)
{
    switch (dtype) {
#define X(NAME, value, storage, accumulator) \
    case RONDO_##NAME:                       \
        return #NAME;
        RONDO_DTYPES(X)
#undef X
    default:
        return "?";
    }
}

static const char *redop_name(uint32_t redop)
{
    switch (redop) {
#define X(NAME, value) \
    case RONDO_##NAME: \
        return #NAME;
        RONDO_REDOPS(X)
#undef X
    default:
        return "?";
    }
}

static const char *const collective_names[RONDO_COLLECTIVE_COUNT] = {
    [RONDO_ALL_REDUCE] = "all-reduce", [RONDO_REDUCE_SCATTER] = "reduce-scatter", [RONDO_REDUCE] = "reduce",
    [RONDO_ALL_GATHER] = "all-gather", [RONDO_ALL_TO_ALL] = "all-to-all",         [RONDO_BROADCAST] = "broadcast",
};

static void signature_text(uint64_t signature, char *text, size_t room)
{
    struct rondo_signed s;
    rondo_signature_unpack(signature, &s);
    if (s.kind == RONDO_SIGNED_GROUP)
        snprintf(text, room, "a group of %u collectives", (unsigned)(signature >> 4 & 0xfff));
    else if (s.kind == RONDO_SIGNED_BARRIER)
        snprintf(text, room, "a barrier");
    else if (s.kind == 0 || s.kind > RONDO_COLLECTIVE_COUNT)
        snprintf(text, room, "something unknown");
    else {
        char type[40] = "", root[24] = "";
        if (s.kind - 1 <= RONDO_REDUCE)
            snprintf(type, sizeof type, ", %s, %s%s", dtype_name(s.dtype), redop_name(s.redop),
                     s.scaled ? " of scaled input" : "");
        if (s.kind - 1 == RONDO_REDUCE || s.kind - 1 == RONDO_BROADCAST)
            snprintf(root, sizeof root, ", root %u", s.root);
        snprintf(text, room, "%s of %llu bytes%s%s", collective_names[s.kind - 1], (unsigned long long)s.bytes, type,
                 root);
    }
}

/* One text for both ranks of the pair: the lower one comes first. */
static void report_different(struct rondoComm *comm, const struct rondo_report *report, const char *lane)
{
    const unsigned me = (unsigned)comm->rank;
    char mine[128], theirs[128];
    signature_text(report->mine, mine, sizeof mine);
    signature_text(report->theirs, theirs, sizeof theirs);
    rondo_comm_failed(comm, rondoInvalidUsage, "ranks run different ops on the %s: rank %u %s, rank %u %s%s", lane,
                      me < report->peer ? me : report->peer, me < report->peer ? mine : theirs,
                      me < report->peer ? report->peer : me, me < report->peer ? theirs : mine,
                      strcmp(mine, theirs) ? "" : " (but not the same ones)");
}

/* As the user counts them. */
static void lane_name(const struct rondoComm *comm, unsigned number, char *name, size_t room)
{
    if (number >= RONDO_LANE_GRAPH && comm->config.graph_lanes > 1)
        snprintf(name, room, "graph lane %u", number - RONDO_LANE_GRAPH);
    else
        snprintf(name, room, "%s lane", number == RONDO_LANE_EAGER ? "eager" : "graph");
}

/* "graph 2 (all-reduce of 400 bytes and 3 ops more)", counted as the comm's captures. */
static void graph_name(struct rondoComm *comm, uint32_t number, char *name, size_t room)
{
    struct rondo_label label;
    char more[40] = "";
    if (!rondo_labels_find(&comm->labels, (uint16_t)number, &label)) {
        snprintf(name, room, number ? "graph %u" : "a launch outside of graphs", number);
        return;
    }
    if (label.ops > 1)
        snprintf(more, sizeof more, " and %u op%s more", label.ops - 1, label.ops > 2 ? "s" : "");
    if (label.first == RONDO_LABEL_PLAN)
        snprintf(name, room, "graph %u (a plan of %u)", number, label.ops);
    else if (label.first < RONDO_COLLECTIVE_COUNT)
        snprintf(name, room, "graph %u (%s of %llu bytes%s)", number, collective_names[label.first],
                 (unsigned long long)label.bytes, more);
    else
        snprintf(name, room, "graph %u (a send, receive or barrier%s)", number, more);
}

/* Both are named: by their numbers in the order in which the comm's captures began. */
static void report_overlap(struct rondoComm *comm, const struct rondo_report *report, const char *lane)
{
    char mine[112], other[112];
    graph_name(comm, report->graph, mine, sizeof mine);
    graph_name(comm, report->peer, other, sizeof other);
    if (report->graph == report->peer)
        snprintf(other, sizeof other, "again");
    rondo_comm_failed(comm, rondoInvalidUsage,
                      "two launches ran at the same time on the %s of rank %d: %s and %s, in order of captures; "
                      "graphs with ops of one comm must not overlap",
                      lane, comm->rank, mine, other);
}

static void handle_report(struct rondoComm *comm, unsigned number, const struct rondo_report *report)
{
    char where[192], lane[40], graph[24] = "";
    lane_name(comm, number, lane, sizeof lane);
    if (report->graph)
        snprintf(graph, sizeof graph, ", graph %u", report->graph);
    if (report->collective < RONDO_COLLECTIVE_COUNT)
        snprintf(where, sizeof where, "in %s (%s, %s, %llu bytes, %s) at epoch %u on channel %u of the %s%s",
                 collective_names[report->collective], dtype_name(report->dtype), redop_name(report->redop),
                 (unsigned long long)report->bytes, rondo_algo_name(report->algo), report->epoch, report->channel, lane,
                 graph);
    else
        snprintf(where, sizeof where, "in a send, a receive or a barrier, at %u in block %u of the %s%s", report->epoch,
                 report->channel, lane, graph);
    rondoResult_t result;
    switch (report->kind) {
    case RONDO_REPORT_TIMEOUT:
        result = rondoTimeout;
        rondo_comm_failed(comm, result, "rank %d waited more than %d ms for rank %u %s", comm->rank,
                          comm->config.timeout_ms, report->peer, where);
        break;
    case RONDO_REPORT_ABORTED:
        result = rondoRemoteError;
        rondo_comm_failed(comm, result, "rank %d has left the comm, while rank %d waits for rank %u %s",
                          __atomic_load_n(&comm->left_rank, __ATOMIC_RELAXED), comm->rank, report->peer, where);
        break;
    case RONDO_REPORT_OVERLAP:
        report_overlap(comm, report, lane);
        break;
    case RONDO_REPORT_DIFFERENT:
        report_different(comm, report, lane);
        break;
    default:
        result = rondoInvalidUsage;
        rondo_comm_failed(comm, result, "a graph with ops of rank %d was replayed after its comm had ended",
                          comm->rank);
        break;
    }
    rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, comm->failure_text);
}

void rondo_comm_read_reports(struct rondoComm *comm)
{
    for (unsigned lane = 0; lane < comm->anchor->lanes; lane++) {
        const struct rondo_report *report = rondo_lane_report(comm->anchor, lane);
        uint32_t kind = __atomic_load_n(&report->kind, __ATOMIC_ACQUIRE); /* rondo_give_up */
        if (kind == RONDO_REPORT_NONE || __atomic_load_n(&comm->seen_reports, __ATOMIC_ACQUIRE) & 1u << lane)
            continue;
        handle_report(comm, lane, report);
        /* Not before: who finds the bit set finds the failure noted. Two threads may handle one: the first counts. */
        __atomic_fetch_or(&comm->seen_reports, 1u << lane, __ATOMIC_RELEASE);
    }
}

static void on_event(void *context, int rank, enum rondo_watch_event event, const char *text)
{
    struct rondoComm *comm = context;
    switch (event) {
    case RONDO_WATCH_DIED:
        rondo_comm_failed(comm, rondoRemoteError, "rank %d died: %s", rank, text ? text : "its process ended");
        break;
    case RONDO_WATCH_ABORTED:
        rondo_comm_failed(comm, rondoRemoteError, "rank %d gave up: %s", rank, text ? text : "");
        break;
    case RONDO_WATCH_LEFT:
        if (__atomic_load_n(&comm->left_rank, __ATOMIC_RELAXED) < 0) {
            comm->left_at_ns = rondo_now_ns();
            __atomic_store_n(&comm->left_rank, rank, __ATOMIC_RELEASE); /* rondo_comm_enter */
        }
        break;
    }
}

static void on_tick(void *context)
{
    struct rondoComm *comm = context;
    const uint64_t grace_ms = rondo_face()->patient ? PATIENT_GRACE_MS : LEFT_GRACE_MS;
    if (comm->left_at_ns && rondo_now_ns() - comm->left_at_ns > grace_ms * 1000000u) {
        comm->left_at_ns = 0;
        rondo_lanes_abort(comm->anchor);
    }
    rondo_comm_read_reports(comm);
    if (__atomic_exchange_n(&comm->untold, 0, __ATOMIC_ACQUIRE)) /* copy_failed */
        rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, comm->failure_text);
}

static void on_post(void *context, int rank, const void *bytes, size_t count)
{
    struct rondoComm *comm = context;
    if (bytes)
        rondo_inbox_deliver(&comm->inbox, rank, bytes, count);
    else
        rondo_inbox_end(&comm->inbox, rank);
}

static void on_export(void *context, int rank, const void *bytes, size_t count, int fd)
{
    struct rondoComm *comm = context;
    rondo_exporter_letter(comm->exporter, rank, bytes, count, fd);
}

struct rondo_watch_client rondo_comm_watch_client(struct rondoComm *comm)
{
    return (struct rondo_watch_client){
        .context = comm, .on_event = on_event, .on_tick = on_tick, .on_post = on_post, .on_export = on_export};
}
