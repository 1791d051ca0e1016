#include "comm/links.h"

#include "comm/areas.h"
#include "comm/bootstrap.h"
#include "comm/card.h"
#include "comm/failure.h"
#include "comm/paths.h"
#include "comm/selftest.h"
#include "comm/vote.h"
#include "comm/watch.h"
#include "common/env.h"
#include "common/log.h"
#include "common/result.h"
#include "transport/mover.h"
#include "transport/survey.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The log's names for kinds of device memory. */
static const char *const mapping_names[] = {
    [RONDO_MEM_SHAREABLE] = "CUMEM",
    [RONDO_MEM_LEGACY] = "IPC",
    [RONDO_MEM_PRIVATE] = "direct pointer",
};

/* What making them needs besides. */
struct maker {
    struct rondoComm *comm;
    struct rondo_links *links;
    const struct rondo_card *cards;
    struct rondo_offer (*offers)[RONDO_AREA_COUNT]; /* by rank */
    int fds[RONDO_AREA_COUNT][RONDO_MAX_RANKS];
    bool warned; /* that memory cannot be had or mapped: the log says why once, not for each kind of memory */
};

/* ---- peers' memory ---- */

/* Everyone gets everyone's offers, and the descriptors that go with them. */
static rondoResult_t exchange(struct maker *m, const struct rondo_offer *mine, const int *fds)
{
    struct rondoComm *comm = m->comm;
    RONDO_TRY(rondo_bootstrap_all_gather(comm->bootstrap, mine, m->offers, sizeof m->offers[0]));
    for (enum rondo_area a = 0; a < RONDO_AREA_COUNT; a++) {
        bool any = false;
        for (int r = 0; r < comm->ranks; r++) {
            const struct rondo_offer *offer = &m->offers[r][a];
            any |= offer->bytes && (offer->kind == RONDO_MEM_SHAREABLE || offer->kind == RONDO_MEM_HOST);
        }
        if (any)
            RONDO_TRY(rondo_bootstrap_exchange_fds(comm->bootstrap, fds[a], m->fds[a]));
    }
    return rondoSuccess;
}

static rondoResult_t open_link(struct maker *m, int peer, enum rondo_area area)
{
    struct rondoComm *comm = m->comm;
    const struct rondo_link_peer to = {
        .offer = m->offers[peer][area],
        .area = area,
        .fd = m->fds[area][peer],
        .same_process = rondo_bootstrap_same_process(comm->bootstrap, peer) &&
                        (!rondo_env()->p2p_direct_disable || m->offers[peer][area].kind == RONDO_MEM_PRIVATE),
    };
    if (to.offer.bytes == 0)
        return rondo_fail(rondoRemoteError, "rank %d could not make its mailbox", peer);
    return rondo_link_open(comm->anchor, &to, &comm->links->open[peer][area]);
}

/* Maps what the paths ask for. A device memory that cannot be mapped is noted, and no error yet: there may be another path. */
static rondoResult_t open_links(struct maker *m)
{
    struct rondoComm *comm = m->comm;
    uint8_t *verdicts = comm->links->verdicts + comm->rank * comm->ranks;
    bool failed = false;
    for (int p = 0; p < comm->ranks; p++)
        for (enum rondo_area a = 0; a < RONDO_AREA_COUNT; a++) {
            if (p == comm->rank || !rondo_area_is_mapped(comm, comm->rank, p, a) || open_link(m, p, a) == rondoSuccess)
                continue;
            if (rondo_area_is_host(a) || m->offers[p][a].bytes == 0)
                return rondo_fail(rondoSystemError, "rank %d's %s memory: %s", p,
                                  rondo_area_is_host(a) ? "host" : "device", rondo_last_error());
            rondo_log(m->warned ? RONDO_LOG_INFO : RONDO_LOG_WARN, "rank %d: %s memory of rank %d cannot be mapped: %s",
                      comm->rank, mapping_names[comm->links->kind], p, rondo_last_error());
            verdicts[p] = (uint8_t)(RONDO_PAIR_NOT_MAPPED | (verdicts[p] & RONDO_PAIR_NVLINK));
            failed = true;
        }
    m->warned |= failed;
    return rondoSuccess;
}

void rondo_links_close(struct rondoComm *comm)
{
    if (!comm->links || !comm->links->open)
        return;
    for (int r = 0; r < comm->ranks; r++)
        for (enum rondo_area a = 0; a < RONDO_AREA_COUNT; a++)
            rondo_link_close(comm->anchor, &comm->links->open[r][a]);
}

/* ---- what follows from the paths ---- */

static void set_boxes(struct rondoComm *comm, struct rondo_boxes *boxes)
{
    memset(boxes, 0, sizeof *boxes);
    for (int p = 0; p < comm->ranks; p++) {
        if (p == comm->rank)
            continue;
        const struct rondo_path *out = rondo_path_of(comm, comm->rank, p), *in = rondo_path_of(comm, p, comm->rank);
        const struct rondo_box there = rondo_waiting_box(comm, comm->rank, p),
                               here = rondo_waiting_box(comm, p, comm->rank);
        boxes->to[p] = out->sender_copies ? rondo_own_box(comm, RONDO_AREA_OUTBOX, p).address : there.address;
        boxes->from[p] =
            in->receiver_copies ? rondo_own_box(comm, RONDO_AREA_COPIED, comm->rank).address : here.address;
        if (out->sender_copies)
            boxes->rings[p] = (struct rondo_post_ring *)comm->anchor->rings.device + p;
        else if (out->receiver_copies)
            boxes->rings[p] = rondo_shared_ring(comm, there.address, comm->rank);
    }
}

static unsigned set_routes(struct rondoComm *comm, struct rondo_route *routes)
{
    unsigned count = 0;
    for (int p = 0; p < comm->ranks; p++) {
        if (p == comm->rank)
            continue;
        const struct rondo_path *out = rondo_path_of(comm, comm->rank, p), *in = rondo_path_of(comm, p, comm->rank);
        const struct rondo_box there = rondo_waiting_box(comm, comm->rank, p),
                               here = rondo_waiting_box(comm, p, comm->rank);
        if (out->sender_copies)
            routes[count++] = (struct rondo_route){
                .peer = (unsigned)p,
                .ring = (struct rondo_post_ring *)comm->anchor->rings.host + p,
                .from = rondo_own_box(comm, RONDO_AREA_OUTBOX, p).address,
                .to = there.address,
                .next = out->receiver_copies ? rondo_shared_ring(comm, there.host, comm->rank) : NULL,
            };
        if (in->receiver_copies)
            routes[count++] = (struct rondo_route){
                .peer = (unsigned)p,
                .ring = rondo_shared_ring(comm, here.host, p),
                .from = here.address,
                .to = rondo_own_box(comm, RONDO_AREA_COPIED, comm->rank).address,
            };
    }
    return count;
}

/* To each peer. */
static unsigned set_copy_routes(struct rondoComm *comm, struct rondo_copy_route *routes)
{
    const struct rondo_anchor *anchor = comm->anchor;
    const unsigned ranks = (unsigned)comm->ranks;
    unsigned count = 0;
    for (unsigned p = 0; p < ranks && comm->limits.copies; p++)
        if (p != (unsigned)comm->rank)
            routes[count++] = (struct rondo_copy_route){
                .peer = p,
                .lanes = anchor->lanes,
                .asked = rondo_lane_copy(&comm->limits, anchor->copies.host, 0, p),
                .pitch = ranks,
            };
    return count;
}

/* From the mover's thread. */
static void copy_failed(void *object, unsigned peer)
{
    struct rondoComm *comm = object;
    rondo_comm_failed(comm, rondoSystemError, "rank %d: a copy between it and rank %u failed: %s", comm->rank, peer,
                      rondo_last_error());
    __atomic_store_n(&comm->untold, 1, __ATOMIC_RELEASE); /* on_tick: the comm may have no watch yet */
}

static rondoResult_t open_lanes(struct rondoComm *comm)
{
    struct rondo_boxes boxes;
    struct rondo_route routes[2 * RONDO_MAX_RANKS];
    struct rondo_copy_route copies[RONDO_ARG_PEERS];
    set_boxes(comm, &boxes);
    RONDO_TRY(rondo_lanes_reset(comm->anchor, &comm->limits, (uint32_t)rondo_env()->epoch_start));
    RONDO_TRY(rondo_lanes_open(comm->anchor, &comm->limits, (unsigned)comm->rank,
                               (uint64_t)comm->config.timeout_ms * 1000000u, &boxes, comm->lanes));
    const struct rondo_mover_job job = {.routes = routes,
                                        .count = set_routes(comm, routes),
                                        .copies = copies,
                                        .copy_count = set_copy_routes(comm, copies),
                                        .failed = copy_failed,
                                        .object = comm};
    return job.count || job.copy_count ? rondo_mover_start(comm->ops, comm->device, &job, &comm->mover) : rondoSuccess;
}

/* ---- an attempt with one kind of device memory ---- */

/* Own areas, everyone's offers, links. */
static rondoResult_t attempt(struct maker *m)
{
    struct rondoComm *comm = m->comm;
    struct rondo_offer mine[RONDO_AREA_COUNT] = {{0}};
    int fds[RONDO_AREA_COUNT];
    for (enum rondo_area a = 0; a < RONDO_AREA_COUNT; a++) {
        fds[a] = -1;
        for (int r = 0; r < comm->ranks; r++)
            m->fds[a][r] = -1;
    }
    rondoResult_t result = rondo_areas_make(m->comm, mine, fds);
    if (result != rondoSuccess)
        memset(mine, 0, sizeof mine); /* the others learn that there is nothing to map */
    const rondoResult_t exchanged = exchange(m, mine, fds);
    result = exchanged != rondoSuccess ? exchanged : result == rondoSuccess ? open_links(m) : result;
    for (enum rondo_area a = 0; a < RONDO_AREA_COUNT; a++) {
        if (fds[a] >= 0)
            close(fds[a]);
        for (int r = 0; r < comm->ranks; r++)
            if (m->fds[a][r] >= 0)
                close(m->fds[a][r]);
    }
    return result;
}

/* Lets go of everything, so that another attempt can be made: first of the peers' memory, then, when all did so, of one's own. */
static rondoResult_t give_up(struct rondoComm *comm)
{
    rondo_mover_stop(comm->mover, 0);
    comm->mover = NULL;
    rondo_links_close(comm);
    RONDO_TRY(rondo_comm_vote(comm, rondoSuccess, "letting go of the peers' mailboxes"));
    rondo_areas_free(comm);
    return rondoSuccess;
}

/* Whether rank s, for its part, can use the path to rank r. */
static bool works(const struct rondoComm *comm, int s, int r)
{
    const struct rondo_path *path = rondo_path_of(comm, s, r);
    if (path->relay)
        return rondo_verdict_of(comm, s, path->relay - 1) <= RONDO_PAIR_READS &&
               rondo_verdict_of(comm, s, r) < RONDO_PAIR_NOT_RELAYED;
    return path->host || rondo_verdict_of(comm, s, r) <= RONDO_PAIR_READS;
}

/* What all ranks found of all pairs. *fine: all of those that are to use device memory can. */
static rondoResult_t judge(struct maker *m, bool *fine)
{
    struct rondoComm *comm = m->comm;
    uint8_t mine[RONDO_MAX_RANKS], *verdicts = comm->links->verdicts;
    memcpy(mine, verdicts + comm->rank * comm->ranks, (size_t)comm->ranks);
    RONDO_TRY(rondo_bootstrap_all_gather(comm->bootstrap, mine, verdicts, (size_t)comm->ranks));
    *fine = true;
    for (int s = 0; s < comm->ranks; s++)
        for (int r = 0; r < comm->ranks; r++)
            *fine &= s == r || works(comm, s, r);
    return rondoSuccess;
}

/* Whether lines come as they should, over every path to this rank. Device memory over which they do not is noted; for host memory
 * there is no other way. */
static rondoResult_t listen(struct rondoComm *comm)
{
    uint8_t findings[RONDO_MAX_RANKS];
    RONDO_TRY(rondo_selftest_run(comm, findings));
    RONDO_TRY(rondo_comm_failure(comm)); /* the mover's */
    for (int p = 0; p < comm->ranks; p++) {
        if (p == comm->rank || (findings[p] != RONDO_SELFTEST_UNHEARD && findings[p] != RONDO_SELFTEST_WRONG))
            continue;
        const char *what = findings[p] == RONDO_SELFTEST_WRONG ? "came to it as something else" : "was not seen by it";
        if (rondo_path_of(comm, p, comm->rank)->host)
            return rondo_fail(rondoSystemError, "what rank %d's kernel stored for rank %d in host memory %s", p,
                              comm->rank, what);
        rondo_log(RONDO_LOG_WARN,
                  "rank %d: what rank %d's kernel stored for it in device memory %s; they exchange data through host "
                  "memory instead",
                  comm->rank, p, what);
        comm->links->verdicts[comm->rank * comm->ranks + p] =
            rondo_path_of(comm, p, comm->rank)->relay ? RONDO_PAIR_NOT_RELAYED : RONDO_PAIR_NOT_SEEN;
    }
    return rondoSuccess;
}

/* The kinds of device memory to try, best first: those that all ranks can have. Where they are in several processes and can share
 * none, there are pairs that fail, and pairs within a process. */
static unsigned kinds_of(const struct maker *m, enum rondo_mem_kind *kinds)
{
    const struct rondoComm *comm = m->comm;
    bool shareable = true, legacy = true, one_process = true, device = false;
    unsigned count = 0;
    for (int r = 0; r < comm->ranks; r++) {
        shareable &= m->cards[r].shareable != 0;
        legacy &= m->cards[r].legacy != 0;
        one_process &= r == comm->rank || rondo_bootstrap_same_process(comm->bootstrap, r);
        for (int s = 0; s < comm->ranks; s++)
            device |= s != r && !rondo_path_of(comm, s, r)->host;
    }
    /* Whether all ranks are in one process is the same for all ranks, as "same process" is an equivalence. */
    if (shareable && device)
        kinds[count++] = RONDO_MEM_SHAREABLE;
    if (legacy && device)
        kinds[count++] = RONDO_MEM_LEGACY;
    if (one_process || count == 0)
        kinds[count++] = RONDO_MEM_PRIVATE;
    return count;
}

/* One kind. *made: the memory could be had; *fine: and all pairs can use it, the lanes are open. */
static rondoResult_t try_kind(struct maker *m, bool *made, bool *fine)
{
    struct rondoComm *comm = m->comm;
    const bool soft = rondo_fail_softly(true);
    rondoResult_t result = rondo_comm_vote(comm, attempt(m), "mapping the peers' mailboxes");
    rondo_fail_softly(soft);
    *made = result == rondoSuccess;
    *fine = false;
    if (result != rondoSuccess) {
        rondo_log(m->warned ? RONDO_LOG_INFO : RONDO_LOG_WARN, "rank %d: %s memory cannot be used: %s", comm->rank,
                  mapping_names[comm->links->kind], rondo_last_error());
        m->warned = true;
        return result;
    }
    RONDO_TRY(judge(m, fine));
    if (!*fine)
        return rondoSuccess;
    *fine = false;
    RONDO_TRY(rondo_comm_vote(comm, open_lanes(comm), "opening the lanes"));
    RONDO_TRY(rondo_comm_vote(comm, listen(comm), "testing the paths"));
    return judge(m, fine);
}

static bool newly_unseen(const struct rondoComm *comm, const uint8_t *before)
{
    for (int i = 0; i < comm->ranks * comm->ranks; i++)
        if ((comm->links->verdicts[i] & ~RONDO_PAIR_NVLINK) >= RONDO_PAIR_NOT_SEEN &&
            comm->links->verdicts[i] != before[i])
            return true;
    return false;
}

/* Where no kind of device memory could be had, nobody uses it. */
static void forbid_device_memory(struct rondoComm *comm)
{
    for (int s = 0; s < comm->ranks; s++)
        for (int r = 0; r < comm->ranks; r++)
            if (s != r && !rondo_path_of(comm, s, r)->host)
                comm->links->verdicts[s * comm->ranks + r] = RONDO_PAIR_NOT_MAPPED;
}

/* Tries one kind after the other until one works for all pairs. *done: one did. Else pairs are marked for which the first that
 * could be had did not; an error if there are none. */
static rondoResult_t try_kinds(struct maker *m, bool *done)
{
    struct rondoComm *comm = m->comm;
    enum rondo_mem_kind kinds[3];
    uint8_t before[RONDO_MAX_RANKS * RONDO_MAX_RANKS], first[RONDO_MAX_RANKS * RONDO_MAX_RANKS];
    const size_t bytes = (size_t)comm->ranks * (size_t)comm->ranks;
    const unsigned count = kinds_of(m, kinds);
    rondoResult_t result = rondoSuccess;
    bool any = false, unseen = false;
    memcpy(before, comm->links->verdicts, bytes);
    memcpy(first, before, bytes);
    for (unsigned k = 0; k < count && !unseen; k++) {
        bool made;
        comm->links->kind = kinds[k];
        memcpy(comm->links->verdicts, before, bytes);
        result = try_kind(m, &made, done);
        if (*done || (made && result != rondoSuccess))
            return result;
        RONDO_TRY(give_up(comm));
        unseen = newly_unseen(comm, before); /* not for want of another mapping */
        if (made && (!any || unseen))
            memcpy(first, comm->links->verdicts, bytes);
        any |= made;
    }
    memcpy(comm->links->verdicts, first, bytes);
    if (!any)
        forbid_device_memory(comm);
    if (memcmp(comm->links->verdicts, before, bytes))
        return rondoSuccess;
    return result != rondoSuccess ? result : rondo_fail(rondoSystemError, "no path works for some pairs of ranks");
}

/* ---- all of it ---- */

static rondoResult_t get_memory(struct rondoComm *comm, struct maker *m)
{
    const size_t ranks = (size_t)comm->ranks;
    void *memory;
    RONDO_TRY(rondo_arena_alloc(comm->arena, sizeof *comm->links, &memory));
    comm->links = memory;
    RONDO_TRY(rondo_arena_alloc(comm->arena, ranks * ranks * sizeof *comm->links->paths, &memory));
    comm->links->paths = memory;
    RONDO_TRY(rondo_arena_alloc(comm->arena, ranks * ranks, &memory));
    comm->links->verdicts = memory;
    RONDO_TRY(rondo_arena_alloc(comm->arena, ranks * sizeof *m->offers, &memory));
    m->offers = memory;
    RONDO_TRY(rondo_arena_alloc(comm->arena, ranks * sizeof *comm->links->open, &memory));
    comm->links->open = memory;
    return rondoSuccess;
}

/* Which pairs may use P2P, as this rank sees it. */
static rondoResult_t survey(struct maker *m)
{
    struct rondoComm *comm = m->comm;
    uint8_t *verdicts = comm->links->verdicts + comm->rank * comm->ranks;
    struct rondo_topology_device devices[RONDO_MAX_RANKS];
    struct rondo_survey found;
    for (int r = 0; r < comm->ranks; r++)
        devices[r] = (struct rondo_topology_device){.bus_id = m->cards[r].bus_id,
                                                    .uuid = m->cards[r].uuid,
                                                    .ordinal = m->cards[r].ordinal,
                                                    .capability = m->cards[r].capability,
                                                    .mig = m->cards[r].mig};
    RONDO_TRY(rondo_survey_init(&found, comm->ops, comm->device, devices, comm->ranks, comm->rank));
    for (int p = 0; p < comm->ranks; p++) {
        const struct rondo_p2p_verdict *verdict = &found.verdicts[p];
        char text[256];
        verdicts[p] = !verdict->allowed ? RONDO_PAIR_REFUSED : verdict->read ? RONDO_PAIR_READS : RONDO_PAIR_FINE;
        if (verdict->path == RONDO_PATH_NVL)
            verdicts[p] |= RONDO_PAIR_NVLINK;
        if (p == comm->rank || !rondo_log_enabled(RONDO_LOG_INFO))
            continue;
        rondo_survey_describe(&found, p, text, sizeof text);
        rondo_log_info(RONDO_LOG_INIT, "rank %d and rank %d: %s", comm->rank, p, text);
    }
    rondo_survey_fini(&found);
    return rondoSuccess;
}

rondoResult_t rondo_links_make(struct rondoComm *comm, const struct rondo_card *cards)
{
    struct maker m = {.comm = comm, .cards = cards};
    bool done = false;
    RONDO_TRY(get_memory(comm, &m));
    RONDO_TRY(rondo_comm_vote(comm, survey(&m), "looking at the machine's topology"));
    RONDO_TRY(judge(&m, &done));
    done = false;
    while (!done) { /* pairs are marked in each round but the last */
        RONDO_TRY(rondo_paths_choose(comm, cards));
        RONDO_TRY(try_kinds(&m, &done));
    }
    return rondoSuccess;
}

/* The order in which rings go, where any may. */
static void log_ring(const struct rondoComm *comm)
{
    const struct rondo_limits *limits = &comm->limits;
    char text[4 * RONDO_MAX_RANKS] = "";
    bool any = limits->forced_algo == RONDO_RING;
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
        any |= limits->ring_widest[c] != 0;
    for (unsigned p = 0, used = 0; p < limits->ranks; p++)
        used += (unsigned)snprintf(text + used, sizeof text - used, " %u", limits->ring.ranks[p]);
    if (any && comm->ranks > 1)
        rondo_log_info(RONDO_LOG_INIT, "rank %d: rings go by ranks%s", comm->rank, text);
}

/* What became of a policy that asks for copy engines. */
static void log_policy(const struct rondoComm *comm)
{
    const uint64_t from = comm->limits.messages_copied_from;
    if (comm->config.cta_policy != RONDO_CTA_POLICY_ZERO)
        return;
    if (comm->limits.copies)
        rondo_log_info(RONDO_LOG_INIT,
                       "rank %d: ctaPolicy 2: copy engines move data from %llu bytes on, where buffers allow",
                       comm->rank, (unsigned long long)from);
    else
        rondo_log_info(RONDO_LOG_INIT, "rank %d: ctaPolicy 2: copy engines move no data, %s", comm->rank,
                       comm->ranks == 1             ? "for there is one rank"
                       : comm->info.line_bytes != 8 ? "for this version has no use of them on GPUs"
                                                    : "for RONDO_PROTO or the ranks' paths do not allow it");
}

void rondo_links_log(const struct rondoComm *comm, const struct rondo_card *cards)
{
    const char *device = strcmp(comm->ops->name, "cuda") ? comm->ops->name : "GPU";
    for (int r = 0; r < comm->ranks; r++) {
        char path[64];
        if (r == comm->rank)
            continue;
        const bool direct = rondo_bootstrap_same_process(comm->bootstrap, r) && !rondo_env()->p2p_direct_disable;
        rondo_path_text(rondo_path_of(comm, comm->rank, r),
                        direct ? "direct pointer" : mapping_names[comm->links->kind], path, sizeof path);
        rondo_log_info(RONDO_LOG_INIT, "rank %d[%s %d %s] -> rank %d[%s %d %s] channels 0-%u via %s", comm->rank,
                       device, comm->info.ordinal, comm->info.bus_id, r, device, cards[r].ordinal, cards[r].bus_id,
                       comm->limits.max_channels - 1, path);
    }
    log_ring(comm);
    log_policy(comm);
}
