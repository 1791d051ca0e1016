#include "comm/comm.h"

#include "comm/bootstrap.h"
#include "comm/card.h"
#include "comm/exports.h"
#include "comm/failure.h"
#include "comm/links.h"
#include "comm/parting.h"
#include "comm/retired.h"
#include "comm/tracer.h"
#include "comm/tune.h"
#include "comm/vote.h"
#include "comm/watch.h"
#include "common/clock.h"
#include "common/env.h"
#include "common/log.h"
#include "common/range.h"
#include "common/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What create works with besides the comm itself. */
struct rondo_making {
    struct rondoComm *comm;
    struct rondo_comm_request request;
    struct rondo_split *split; /* NULL: by id */
    rondoResult_t ready;       /* how the wait for the parent's ops went */
    struct rondo_card *cards;  /* all ranks' */
    uint64_t started_ns, joined_ns, mapped_ns;
};

static int forced_algo(void)
{
    const char *algo = rondo_env()->algo, *proto = rondo_env()->proto;
    if (proto && *proto && strcmp(proto, "line") && strcmp(proto, "bulk") && strcmp(proto, "direct"))
        rondo_log(RONDO_LOG_WARN, "RONDO_PROTO=%s is not line, bulk or direct; ignored", proto);
    if (!algo || !*algo)
        return -1;
    if (!strcmp(algo, "oneshot"))
        return RONDO_ONE_SHOT;
    if (!strcmp(algo, "twoshot"))
        return RONDO_TWO_SHOT;
    if (!strcmp(algo, "ring"))
        return RONDO_RING;
    rondo_log(RONDO_LOG_WARN, "RONDO_ALGO=%s is not oneshot, twoshot or ring; ignored", algo);
    return -1;
}

/* Every rank computes the same limits: from its config, which the cards showed to be everyone's, and from the least of
 * what the devices offer. The mailboxes' are set with the paths. */
static void set_limits(struct rondo_making *m)
{
    struct rondoComm *comm = m->comm;
    struct rondo_limits *limits = &comm->limits;
    const struct rondo_env *env = rondo_env();
    limits->ranks = (unsigned)comm->ranks;
    limits->lanes = comm->anchor->lanes;
    limits->line_bytes = (unsigned)comm->info.line_bytes;
    limits->min_channels = (unsigned)comm->config.min_ctas;
    limits->max_channels = (unsigned)comm->config.max_ctas;
    limits->max_threads = (unsigned)comm->info.default_threads;
    int processors = m->cards[0].processors;
    for (int r = 0; r < comm->ranks; r++) {
        if ((unsigned)m->cards[r].threads < limits->max_threads)
            limits->max_threads = (unsigned)m->cards[r].threads;
        processors = m->cards[r].processors < processors ? m->cards[r].processors : processors;
    }
    limits->kernel_threads = limits->lean_threads = limits->max_threads;
    limits->max_per_thread = 1u << 20;
    limits->large = RONDO_LARGE_LAUNCH_THREADS;
    if (limits->max_threads > 1)
        rondo_limits_share(limits, (unsigned)processors);
    limits->forced_algo = forced_algo();
    limits->check = env->check != 0;
    limits->forced_threads = env->threads > 0 ? (unsigned)env->threads : 0;
}

static rondoResult_t load_kernels(struct rondoComm *comm)
{
    for (unsigned k = 0; k < RONDO_KERNEL_COUNT; k++)
        RONDO_TRY(comm->ops->kernel(comm->device, k, &comm->kernels[k]));
    return rondoSuccess;
}

/* Memory for the trace, if there is to be one. */
static rondoResult_t open_trace(struct rondoComm *comm)
{
    const long asked = rondo_env()->trace;
    struct rondo_anchor *anchor = comm->anchor;
    unsigned entries = 16;
    if (asked == 0)
        return rondoSuccess;
    while (entries < (unsigned long)asked)
        entries *= 2;
    RONDO_TRY(comm->ops->mem_alloc(comm->device, rondo_lanes_trace_bytes(anchor->lanes, entries), RONDO_MEM_PRIVATE,
                                   &anchor->trace));
    return rondo_tracer_create(comm->arena, entries, &comm->tracer);
}

static rondoResult_t open_device(struct rondoComm *comm, int ordinal)
{
    struct rondo_anchor *anchor;
    RONDO_TRY(rondo_device_row(&comm->ops));
    RONDO_TRY(rondo_anchor_create(comm->ops, ordinal, &comm->anchor));
    anchor = comm->anchor;
    snprintf(anchor->name, sizeof anchor->name, "%s", comm->config.name);
    comm->device = anchor->device;
    comm->ops->info(comm->device, &comm->info);
    rondo_log_device(comm->info.ordinal);
    RONDO_TRY(rondo_config_complete(&comm->config, &comm->info));
    RONDO_TRY(rondo_tune_load(rondo_env()->tune_file, comm->arena, &comm->tune));
    anchor->lanes = RONDO_LANE_GRAPH + (unsigned)comm->config.graph_lanes;
    RONDO_TRY(comm->ops->mem_alloc(comm->device, rondo_lanes_control_bytes(anchor->lanes, (unsigned)comm->ranks),
                                   RONDO_MEM_PRIVATE, &anchor->control));
    RONDO_TRY(open_trace(comm));
    RONDO_TRY(comm->ops->pinned_alloc(comm->device, rondo_lanes_report_bytes(anchor->lanes), &anchor->reports));
    RONDO_TRY(comm->ops->event_create(comm->device, &comm->eager_end));
    RONDO_TRY(comm->ops->event_create(comm->device, &comm->join));
    return load_kernels(comm);
}

static size_t device_bytes(const struct rondo_anchor *anchor)
{
    return anchor->areas[RONDO_AREA_INBOX].bytes + anchor->areas[RONDO_AREA_COPIED].bytes +
           anchor->areas[RONDO_AREA_OUTBOX].bytes;
}

static void log_comm(const struct rondo_making *m)
{
    const struct rondoComm *comm = m->comm;
    if (!rondo_log_enabled(RONDO_LOG_INFO))
        return;
    rondo_links_log(comm, m->cards);
    const uint64_t now = rondo_now_ns();
    rondo_log_info(RONDO_LOG_INIT,
                   "comm %s rank %d of %d on %s: %zu KiB of device memory for %u lanes; init %.1f ms (join and device "
                   "%.1f, mailboxes %.1f)",
                   comm->config.name, comm->rank, comm->ranks, comm->info.name,
                   (device_bytes(comm->anchor) + comm->anchor->control.bytes) >> 10, comm->anchor->lanes,
                   (double)(now - m->started_ns) * 1e-6, (double)(m->joined_ns - m->started_ns) * 1e-6,
                   (double)(m->mapped_ns - m->joined_ns) * 1e-6);
}

/* Who joins a comm that grows takes over from the first of the old ranks what it leaves open. */
static rondoResult_t adopt_config(struct rondo_making *m)
{
    struct rondoComm *comm = m->comm;
    void *configs;
    RONDO_TRY(rondo_arena_alloc(comm->arena, (size_t)comm->ranks * sizeof comm->config, &configs));
    RONDO_TRY(rondo_bootstrap_all_gather(comm->bootstrap, &comm->config, configs, sizeof comm->config));
    if (!m->split)
        rondo_config_adopt(&comm->config, configs);
    return rondoSuccess;
}

/* Everything after the join: whatever fails on one rank is voted on before the next exchange that all take part in. */
static rondoResult_t make(struct rondo_making *m)
{
    struct rondoComm *comm = m->comm;
    void *memory;
    if (m->request.split.kind == RONDO_GROW)
        RONDO_TRY(adopt_config(m));
    else if (m->split)
        RONDO_TRY(rondo_comm_vote(comm, m->ready, "waiting for the parent's ops"));
    RONDO_TRY(rondo_comm_vote(comm, open_device(comm, m->request.ordinal), "opening the device"));
    RONDO_TRY(rondo_arena_alloc(comm->arena, (size_t)comm->ranks * sizeof *m->cards, &memory));
    m->cards = memory;

    struct rondo_card mine;
    rondo_card_fill(comm, &mine);
    RONDO_TRY(rondo_bootstrap_all_gather(comm->bootstrap, &mine, m->cards, sizeof mine));
    RONDO_TRY(rondo_cards_check(m->cards, comm->ranks));
    set_limits(m);
    m->joined_ns = rondo_now_ns();
    RONDO_TRY(rondo_links_make(comm, m->cards));
    m->mapped_ns = rondo_now_ns();

    RONDO_TRY(rondo_exporter_create(comm, &comm->exporter));
    struct rondo_watch_client client = rondo_comm_watch_client(comm);
    return rondo_watch_add(comm->bootstrap, comm->rank, comm->ranks, &client, &comm->watch);
}

/* FNV-1a. */
uint64_t rondo_comm_key(const void *bytes, size_t count)
{
    uint64_t key = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++)
        key = (key ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return key;
}

bool rondo_comm_cancel(struct rondoComm *comm)
{
    int making = RONDO_COMM_MAKING;
    if (!__atomic_compare_exchange_n(&comm->state, &making, RONDO_COMM_CANCELLED, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return false;
    __atomic_store_n(&comm->cancelled, 1, __ATOMIC_SEQ_CST); /* rondo_wait_poll */
    return true;
}

/* Peers that got further than this rank learn why it closes, instead of taking it for dead. */
static void tell_failure(struct rondoComm *comm)
{
    char text[RONDO_WATCH_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", rondo_last_error());
    if (comm->watch)
        rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, text);
    else if (comm->bootstrap)
        rondo_bootstrap_abort(comm->bootstrap, text);
}

rondoResult_t rondo_comm_begin(const struct rondo_comm_request *request, struct rondoComm **out)
{
    struct rondoComm *comm = NULL;
    rondoResult_t result;
    *out = NULL;
    rondo_ranges_open();
    rondo_partings_reap();
    rondo_anchor_reap();
    struct rondo_making *m = calloc(1, sizeof *m);
    if (!m)
        return rondo_fail(rondoSystemError, "out of memory");
    *m = (struct rondo_making){.request = *request, .started_ns = rondo_now_ns()};
    if (request->split.parent) {
        RONDO_TRY_GOTO(result, out, rondo_split_begin(&request->split, &m->split));
        if (!m->split)
            goto out; /* no color */
    }
    RONDO_TRY_GOTO(result, out, rondo_comm_obtain(&comm));
    comm->rank = request->rank;
    comm->ranks = request->ranks;
    comm->config = request->config;
    comm->key = rondo_comm_key(&request->id, sizeof request->id);
    comm->left_rank = -1;
    comm->graph_lane = RONDO_GRAPH_LANE_DEAL;
    comm->making = m;
    m->comm = comm;
    __atomic_store_n(&comm->state, RONDO_COMM_MAKING, __ATOMIC_SEQ_CST);
    *out = comm;
    return rondoSuccess;
out:
    rondo_split_free(m->split);
    free(m);
    return result;
}

/* From a struct in state MAKING to one that is ALIVE, or an error, and nothing is left but the struct. */
static rondoResult_t make_whole(struct rondoComm *comm)
{
    struct rondo_making *m = comm->making;
    const struct rondo_comm_request *request = &m->request;
    int making = RONDO_COMM_MAKING;
    rondoResult_t result;
    RONDO_TRY_GOTO(result, out, rondo_arena_create(&comm->arena));
    if (m->split)
        RONDO_TRY_GOTO(result, out, rondo_split_meet(m->split, comm, &m->ready));
    else
        RONDO_TRY_GOTO(result, out,
                       rondo_bootstrap_join(&request->id, request->rank, request->ranks,
                                            (int)rondo_env()->init_timeout_ms, &comm->cancelled, &comm->bootstrap));
    RONDO_TRY_GOTO(result, out, make(m));
    log_comm(m);
    if (!__atomic_compare_exchange_n(&comm->state, &making, RONDO_COMM_ALIVE, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        result = rondo_fail(rondoInvalidUsage, "rank %d was aborted while it joined", comm->rank);
out:
    if (result != rondoSuccess) {
        tell_failure(comm);
        rondo_comm_strip(comm);
    }
    rondo_split_free(m->split);
    free(m);
    return result;
}

rondoResult_t rondo_comm_make(struct rondoComm *comm, struct rondoComm **handle)
{
    rondoResult_t result = make_whole(comm);
    if (result != rondoSuccess) {
        __atomic_store_n(handle, NULL, __ATOMIC_SEQ_CST);
        rondo_comm_retire(comm);
    }
    return result;
}

/* The user has the handle whatever comes: a failed init stays to be asked about, unless it was aborted. */
static void *make_in_thread(void *argument)
{
    struct rondoComm *comm = argument;
    int making = RONDO_COMM_MAKING;
    rondoResult_t result = make_whole(comm);
    if (result == rondoSuccess)
        return NULL; /* the comm is the user's: not to be touched any more */
    pthread_mutex_lock(&comm->failure_lock);
    snprintf(comm->failure_text, sizeof comm->failure_text, "%s", rondo_last_error());
    __atomic_store_n(&comm->failure, result, __ATOMIC_RELEASE); /* rondo_comm_failure */
    pthread_mutex_unlock(&comm->failure_lock);
    if (!__atomic_compare_exchange_n(&comm->state, &making, RONDO_COMM_BROKEN, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        rondo_comm_retire(comm);
    return NULL;
}

rondoResult_t rondo_comm_make_later(struct rondoComm *comm)
{
    rondoResult_t result = rondo_worker_start(&comm->worker, make_in_thread, comm);
    if (result == rondoSuccess)
        return rondoSuccess;
    rondo_split_free(comm->making->split);
    free(comm->making);
    rondo_comm_retire(comm);
    return result;
}

rondoResult_t rondo_comm_create(const struct rondo_comm_request *request, struct rondoComm **out)
{
    struct rondoComm *comm;
    __atomic_store_n(out, NULL, __ATOMIC_RELAXED);
    RONDO_TRY(rondo_comm_begin(request, &comm));
    if (!comm)
        return rondoSuccess;
    if (!request->config.blocking) {
        RONDO_TRY(rondo_comm_make_later(comm));
        __atomic_store_n(out, comm, __ATOMIC_SEQ_CST);
        return rondoInProgress;
    }
    __atomic_store_n(out, comm, __ATOMIC_SEQ_CST); /* who is to cancel it may read it from here on */
    return rondo_comm_make(comm, out);
}
