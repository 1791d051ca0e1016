#include "comm/areas.h"

#include "common/env.h"
#include "common/result.h"

#include <string.h>

bool rondo_area_is_host(enum rondo_area area)
{
    return area >= RONDO_AREA_HOST_INBOX;
}

static bool is_outbox(enum rondo_area area)
{
    return area == RONDO_AREA_OUTBOX || area == RONDO_AREA_HOST_OUTBOX;
}

/* The area in which lines wait on a path. */
static enum rondo_area waiting_area(const struct rondo_path *path)
{
    if (path->relay)
        return RONDO_AREA_RELAY;
    if (path->at_sender)
        return path->host ? RONDO_AREA_HOST_OUTBOX : RONDO_AREA_OUTBOX;
    if (path->receiver_copies)
        return RONDO_AREA_HOST_STOP;
    if (path->sender_copies)
        return path->host ? RONDO_AREA_HOST_COPIED : RONDO_AREA_COPIED;
    return path->host ? RONDO_AREA_HOST_INBOX : RONDO_AREA_INBOX;
}

/* How many of the ranks before `end` have an inbox in a rank's memory. */
static int relayed_before(const struct rondoComm *comm, int rank, int end)
{
    int count = 0;
    for (int r = 0; r < end; r++) {
        bool relayed = false;
        for (int s = 0; s < comm->ranks; s++)
            relayed |= rondo_path_of(comm, s, r)->relay == rank + 1;
        count += relayed;
    }
    return count;
}

/* Whether a rank has such an area. */
static bool needs(const struct rondoComm *comm, int rank, enum rondo_area area)
{
    if (area == RONDO_AREA_RELAY)
        return relayed_before(comm, rank, comm->ranks) > 0;
    for (int p = 0; p < comm->ranks; p++) {
        if (p == rank)
            continue;
        const struct rondo_path *out = rondo_path_of(comm, rank, p), *in = rondo_path_of(comm, p, rank);
        const bool waits = is_outbox(area) ? waiting_area(out) == area : waiting_area(in) == area;
        if (waits || (area == RONDO_AREA_OUTBOX && out->sender_copies) ||
            (area == RONDO_AREA_COPIED && in->receiver_copies))
            return true;
    }
    return false;
}

bool rondo_area_is_mapped(const struct rondoComm *comm, int rank, int peer, enum rondo_area area)
{
    if (area == RONDO_AREA_RELAY) {
        for (int p = 0; p < comm->ranks; p++)
            if (rondo_path_of(comm, rank, p)->relay == peer + 1 || rondo_path_of(comm, p, rank)->relay == peer + 1)
                return true;
        return false;
    }
    return is_outbox(area) ? waiting_area(rondo_path_of(comm, peer, rank)) == area
                           : waiting_area(rondo_path_of(comm, rank, peer)) == area;
}

/* A mailbox of an area, and behind it, in host memory, a ring of posts for each sender. */
static size_t entry_bytes(const struct rondoComm *comm, enum rondo_area area)
{
    return comm->links->mailbox + (rondo_area_is_host(area) ? (size_t)comm->ranks * sizeof(struct rondo_post_ring) : 0);
}

static size_t area_bytes(const struct rondoComm *comm, enum rondo_area area)
{
    const int count = area == RONDO_AREA_RELAY ? relayed_before(comm, comm->rank, comm->ranks)
                      : is_outbox(area)        ? comm->ranks - 1
                                               : 1;
    return entry_bytes(comm, area) * (size_t)count;
}

/* Where in an owner's area the mailbox for a receiver lies. */
static size_t entry_at(const struct rondoComm *comm, enum rondo_area area, int owner, int receiver)
{
    const int before = area == RONDO_AREA_RELAY ? relayed_before(comm, owner, receiver)
                       : !is_outbox(area)       ? 0
                       : receiver < owner       ? receiver
                                                : receiver - 1;
    return entry_bytes(comm, area) * (size_t)before;
}

struct rondo_box rondo_own_box(const struct rondoComm *comm, enum rondo_area area, int receiver)
{
    const struct rondo_mem *memory = &comm->anchor->areas[area];
    const size_t at = entry_at(comm, area, comm->rank, receiver);
    struct rondo_box box = {(char *)memory->address + at, memory->host ? (char *)memory->host + at : NULL};
    return box;
}

struct rondo_box rondo_waiting_box(const struct rondoComm *comm, int sender, int receiver)
{
    const struct rondo_path *path = rondo_path_of(comm, sender, receiver);
    const enum rondo_area area = waiting_area(path);
    const int owner = path->relay ? path->relay - 1 : path->at_sender ? sender : receiver;
    if (owner == comm->rank)
        return rondo_own_box(comm, area, receiver);
    const struct rondo_link *link = &comm->links->open[owner][area];
    const size_t at = entry_at(comm, area, owner, receiver);
    struct rondo_box box = {link->address + at, link->host ? link->host + at : NULL};
    return box;
}

struct rondo_post_ring *rondo_shared_ring(const struct rondoComm *comm, char *box, int sender)
{
    return (struct rondo_post_ring *)(void *)(box + comm->links->mailbox) + sender;
}

/* ---- own memory ---- */

static rondoResult_t reset_area(struct rondoComm *comm, enum rondo_area area)
{
    const uint32_t epoch = (uint32_t)rondo_env()->epoch_start;
    for (int p = 0; p < comm->ranks; p++) {
        const struct rondo_box box = rondo_own_box(comm, area, p);
        if (area == RONDO_AREA_RELAY ? relayed_before(comm, comm->rank, p) != relayed_before(comm, comm->rank, p + 1)
            : is_outbox(area)        ? p != comm->rank
                                     : p == comm->rank)
            RONDO_TRY(rondo_lanes_reset_box(comm->anchor, &comm->limits, epoch, &box));
    }
    return rondoSuccess;
}

rondoResult_t rondo_areas_make(struct rondoComm *comm, struct rondo_offer *mine, int *fds)
{
    struct rondo_anchor *anchor = comm->anchor;
    bool copies = false;
    for (enum rondo_area a = 0; a < RONDO_AREA_COUNT; a++) {
        const enum rondo_mem_kind kind = rondo_area_is_host(a) ? RONDO_MEM_HOST : comm->links->kind;
        struct rondo_mem_handle handle = {.fd = -1};
        if (!needs(comm, comm->rank, a))
            continue;
        RONDO_TRY(anchor->ops->mem_alloc(anchor->device, area_bytes(comm, a), kind, &anchor->areas[a]));
        RONDO_TRY(reset_area(comm, a));
        if (kind != RONDO_MEM_PRIVATE)
            RONDO_TRY(anchor->ops->mem_export(anchor->device, &anchor->areas[a], &handle));
        mine[a] = (struct rondo_offer){.anchor_id = anchor->id, .bytes = area_bytes(comm, a), .kind = kind};
        memcpy(mine[a].handle, handle.bytes, sizeof mine[a].handle);
        fds[a] = handle.fd;
    }
    for (int p = 0; p < comm->ranks; p++)
        copies |= p != comm->rank && rondo_path_of(comm, comm->rank, p)->sender_copies;
    if (copies)
        RONDO_TRY(anchor->ops->pinned_alloc(anchor->device, (size_t)comm->ranks * sizeof(struct rondo_post_ring),
                                            &anchor->rings));
    if (comm->limits.copies)
        RONDO_TRY(anchor->ops->pinned_alloc(anchor->device, rondo_lanes_copies_bytes(&comm->limits), &anchor->copies));
    return rondoSuccess;
}

void rondo_areas_free(struct rondoComm *comm)
{
    struct rondo_anchor *anchor = comm->anchor;
    for (enum rondo_area a = 0; a < RONDO_AREA_COUNT; a++)
        anchor->ops->mem_free(anchor->device, &anchor->areas[a]);
    anchor->ops->pinned_free(anchor->device, &anchor->rings);
    anchor->ops->pinned_free(anchor->device, &anchor->copies);
}
