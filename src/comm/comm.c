#include "comm/comm.h"

#include "comm/bootstrap.h"
#include "comm/card.h"
#include "comm/failure.h"
#include "comm/parting.h"
#include "comm/retired.h"
#include "comm/watch.h"
#include "common/clock.h"
#include "common/env.h"
#include "common/log.h"
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
    const char *algo = rondo_env()->algo;
    if (!algo || !*algo)
        return -1;
    if (!strcmp(algo, "oneshot"))
        return RONDO_ONE_SHOT;
    if (!strcmp(algo, "twoshot"))
        return RONDO_TWO_SHOT;
    rondo_log(RONDO_LOG_WARN, "RONDO_ALGO=%s is neither oneshot nor twoshot; ignored", algo);
    return -1;
}

/* FIFOs for sends and receives: as many to and from each peer as blocks of a launch can serve at once, in half as much memory
 * as a half of the mailbox has. Three quarters of a FIFO hold more than a warp sends: lanes that have room for their lines wait for
 * those that have none (the compiler joins them before they store), and these wait for the receiver, which must not need the
 * lines of the former. */
static void set_fifos(struct rondo_limits *limits)
{
    enum { MOST_CHANNELS = 32, FEWEST_LINES = 64 };
    const unsigned peers = limits->ranks > 1 ? limits->ranks - 1 : 1;
    limits->fifo_channels = 1;
    while (limits->fifo_channels < MOST_CHANNELS && 2 * limits->fifo_channels * (2 * peers + 1) <= limits->max_channels)
        limits->fifo_channels *= 2;
    limits->fifo_lines = FEWEST_LINES;
    while (2ull * limits->fifo_lines * peers * limits->fifo_channels <= limits->half_lines / 2)
        limits->fifo_lines *= 2;
}

/* Every rank computes the same limits: from its config, which the cards showed to be everyone's, and from the least of
 * what the devices offer. */
static void set_limits(struct rondo_making *m)
{
    struct rondoComm *comm = m->comm;
    struct rondo_limits *limits = &comm->limits;
    const struct rondo_env *env = rondo_env();
    limits->ranks = (unsigned)comm->ranks;
    limits->line_bytes = (unsigned)comm->info.line_bytes;
    limits->min_channels = (unsigned)comm->config.min_ctas;
    limits->max_channels = (unsigned)comm->config.max_ctas;
    limits->max_threads = (unsigned)comm->info.default_threads;
    for (int r = 0; r < comm->ranks; r++)
        if ((unsigned)m->cards[r].threads < limits->max_threads)
            limits->max_threads = (unsigned)m->cards[r].threads;
    limits->max_per_thread = limits->max_threads == 1 ? 1u << 20 : 4;
    const uint32_t fewest = 2 * limits->ranks * limits->ranks; /* plan_steps: a step has a line for each rank */
    limits->half_lines = (uint32_t)((uint64_t)comm->config.buffer_kib * 1024 / limits->line_bytes);
    limits->half_lines = limits->half_lines < fewest ? fewest : limits->half_lines;
    set_fifos(limits);
    limits->forced_algo = forced_algo();
    limits->forced_threads = env->threads > 0 ? (unsigned)env->threads : 0;
}

/* Own mailbox memory of a kind, mapped by all peers and theirs by us. On an error everything is closed again; the ranks
 * have not yet agreed on how it went. */
static rondoResult_t map_mailboxes(struct rondo_making *m, enum rondo_mem_kind kind)
{
    struct rondoComm *comm = m->comm;
    struct rondo_anchor *anchor = comm->anchor;
    struct rondo_limits *limits = &comm->limits;
    struct rondo_mem_handle handle = {.fd = -1};
    struct rondo_link_peer peer;
    struct rondo_offer mine = {.anchor_id = anchor->id, .kind = kind}, *offers;
    void *memory;
    int fds[RONDO_MAX_RANKS];

    RONDO_TRY(rondo_arena_alloc(comm->arena, (size_t)comm->ranks * sizeof *offers, &memory));
    offers = memory;
    for (int r = 0; r < comm->ranks; r++)
        fds[r] = -1;
    mine.bytes = rondo_lanes_mailbox_bytes(limits);
    rondoResult_t result = anchor->ops->mem_alloc(anchor->device, mine.bytes, kind, &anchor->mailbox);
    if (result == rondoSuccess)
        result = rondo_lanes_reset(anchor, limits, (uint32_t)rondo_env()->epoch_start);
    if (result == rondoSuccess && kind != RONDO_MEM_PRIVATE)
        result = anchor->ops->mem_export(anchor->device, &anchor->mailbox, &handle);
    memcpy(mine.handle, handle.bytes, sizeof mine.handle);
    if (result != rondoSuccess)
        mine.bytes = 0; /* the others learn that there is nothing to map */

    rondoResult_t exchange = rondo_bootstrap_all_gather(comm->bootstrap, &mine, offers, sizeof mine);
    if (exchange == rondoSuccess && kind == RONDO_MEM_SHAREABLE)
        exchange = rondo_bootstrap_exchange_fds(comm->bootstrap, handle.fd, fds);
    if (handle.fd >= 0)
        close(handle.fd);
    if (exchange != rondoSuccess)
        result = exchange;

    for (int r = 0; r < comm->ranks && result == rondoSuccess; r++) {
        if (r == comm->rank)
            continue;
        peer.offer = offers[r];
        peer.fd = fds[r];
        peer.same_process = rondo_bootstrap_same_process(comm->bootstrap, r) &&
                            (!rondo_env()->p2p_direct_disable || kind == RONDO_MEM_PRIVATE);
        if (peer.offer.bytes == 0)
            result = rondo_fail(rondoRemoteError, "rank %d could not make its mailbox", r);
        else
            result = rondo_link_open(anchor, &peer, &comm->links[r]);
    }
    for (int r = 0; r < comm->ranks; r++)
        if (fds[r] >= 0)
            close(fds[r]);
    rondo_arena_free(comm->arena, memory);
    return result;
}

static void unmap_mailboxes(struct rondoComm *comm)
{
    for (int r = 0; r < comm->ranks; r++)
        rondo_link_close(comm->anchor, &comm->links[r]);
}

/* Whether all ranks are well: one rank's failure is everyone's. Also orders what all did before against what any does
 * after. */
static rondoResult_t vote(struct rondoComm *comm, rondoResult_t mine, const char *what)
{
    int votes[RONDO_MAX_RANKS], my_vote = mine;
    RONDO_TRY(rondo_bootstrap_all_gather(comm->bootstrap, &my_vote, votes, sizeof my_vote));
    if (mine != rondoSuccess)
        return mine;
    for (int r = 0; r < comm->ranks; r++)
        if (votes[r] != rondoSuccess)
            return rondo_fail(rondoRemoteError, "rank %d failed in comm init: %s: %s", r, what,
                              rondo_result_text(votes[r]));
    return rondoSuccess;
}

/* Tries the kinds of memory that all ranks can have, best first, until one is mapped everywhere. */
static rondoResult_t connect(struct rondo_making *m)
{
    struct rondoComm *comm = m->comm;
    bool shareable = true, legacy = true, one_process = true;
    for (int r = 0; r < comm->ranks; r++) {
        shareable &= m->cards[r].shareable != 0;
        legacy &= m->cards[r].legacy != 0;
        one_process &= r == comm->rank || rondo_bootstrap_same_process(comm->bootstrap, r);
    }
    /* Whether all ranks are in one process is the same for all ranks, as "same process" is an equivalence. */
    const bool allowed[] = {
        [RONDO_MEM_PRIVATE] = one_process, [RONDO_MEM_SHAREABLE] = shareable, [RONDO_MEM_LEGACY] = legacy};
    static const enum rondo_mem_kind order[] = {RONDO_MEM_SHAREABLE, RONDO_MEM_LEGACY, RONDO_MEM_PRIVATE};
    rondoResult_t result = rondoSystemError;
    bool tried = false;
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        if (!allowed[order[k]])
            continue;
        tried = true;
        result = vote(comm, map_mailboxes(m, order[k]), "mapping the peers' mailboxes");
        if (result == rondoSuccess)
            return rondoSuccess;
        rondo_log(RONDO_LOG_WARN, "rank %d: mailboxes of kind %d cannot be used: %s", comm->rank, (int)order[k],
                  rondo_last_error());
        unmap_mailboxes(comm);
        /* peers that did map it let go before the next vote; the memory itself goes with the anchor or here */
        RONDO_TRY(vote(comm, rondoSuccess, "letting go of the peers' mailboxes"));
        comm->anchor->ops->mem_free(comm->device, &comm->anchor->mailbox);
    }
    return tried ? result : rondo_fail(result, "no kind of device memory can be shared by all ranks");
}

static rondoResult_t load_kernels(struct rondoComm *comm)
{
    for (unsigned k = 0; k < RONDO_KERNEL_COUNT; k++)
        RONDO_TRY(comm->ops->kernel(comm->device, k, &comm->kernels[k]));
    return rondoSuccess;
}

static rondoResult_t open_device(struct rondoComm *comm, int ordinal)
{
    struct rondo_anchor *anchor;
    RONDO_TRY(rondo_device_row(&comm->ops));
    RONDO_TRY(rondo_anchor_create(comm->ops, ordinal, &comm->anchor));
    anchor = comm->anchor;
    comm->device = anchor->device;
    comm->ops->info(comm->device, &comm->info);
    rondo_log_device(comm->info.ordinal);
    RONDO_TRY(rondo_config_complete(&comm->config, &comm->info));
    RONDO_TRY(comm->ops->mem_alloc(comm->device, rondo_lanes_control_bytes((unsigned)comm->ranks), RONDO_MEM_PRIVATE,
                                   &anchor->control));
    RONDO_TRY(comm->ops->pinned_alloc(comm->device, rondo_lanes_report_bytes(), &anchor->reports));
    RONDO_TRY(comm->ops->event_create(comm->device, &comm->eager_end));
    RONDO_TRY(comm->ops->event_create(comm->device, &comm->join));
    return load_kernels(comm);
}

static void log_comm(const struct rondo_making *m)
{
    const struct rondoComm *comm = m->comm;
    if (!rondo_log_enabled(RONDO_LOG_INFO))
        return;
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank)
            rondo_log_info(RONDO_LOG_INIT, "rank %d[%s %d %s] -> rank %d[%s %d %s] channels 0-%u via %s", comm->rank,
                           comm->ops->name, comm->info.ordinal, comm->info.bus_id, r, comm->ops->name,
                           m->cards[r].ordinal, m->cards[r].bus_id, comm->limits.max_channels - 1,
                           rondo_link_path(comm->anchor, &comm->links[r]));
    const uint64_t now = rondo_now_ns();
    rondo_log_info(
        RONDO_LOG_INIT,
        "comm %s rank %d of %d on %s: %zu KiB of device memory; init %.1f ms (join and device %.1f, mailboxes %.1f)",
        comm->config.name, comm->rank, comm->ranks, comm->info.name,
        (comm->anchor->mailbox.bytes + comm->anchor->control.bytes) >> 10, (double)(now - m->started_ns) * 1e-6,
        (double)(m->joined_ns - m->started_ns) * 1e-6, (double)(m->mapped_ns - m->joined_ns) * 1e-6);
}

/* Everything after the join: whatever fails on one rank is voted on before the next exchange that all take part in. */
static rondoResult_t make(struct rondo_making *m)
{
    struct rondoComm *comm = m->comm;
    void *memory;
    if (m->split)
        RONDO_TRY(vote(comm, m->ready, "waiting for the parent's ops"));
    RONDO_TRY(vote(comm, open_device(comm, m->request.ordinal), "opening the device"));
    RONDO_TRY(rondo_arena_alloc(comm->arena, (size_t)comm->ranks * sizeof *m->cards, &memory));
    m->cards = memory;
    RONDO_TRY(rondo_arena_alloc(comm->arena, (size_t)comm->ranks * sizeof *comm->links, &memory));
    comm->links = memory;

    struct rondo_card mine;
    rondo_card_fill(comm, &mine);
    RONDO_TRY(rondo_bootstrap_all_gather(comm->bootstrap, &mine, m->cards, sizeof mine));
    RONDO_TRY(rondo_cards_check(m->cards, comm->ranks));
    set_limits(m);
    m->joined_ns = rondo_now_ns();
    RONDO_TRY(connect(m));
    m->mapped_ns = rondo_now_ns();

    char *mailboxes[RONDO_MAX_RANKS];
    for (int r = 0; r < comm->ranks; r++)
        mailboxes[r] = r == comm->rank ? comm->anchor->mailbox.address : comm->links[r].address;
    rondoResult_t result = rondo_lanes_open(comm->anchor, &comm->limits, (unsigned)comm->rank,
                                            (uint64_t)comm->config.timeout_ms * 1000000u, mailboxes, comm->lanes);
    RONDO_TRY(vote(comm, result, "opening the lanes"));
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
