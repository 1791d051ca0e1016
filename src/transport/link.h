/* Links: how memory of a peer becomes reachable for this rank's kernels and copy engines. A static table of ways, best first; the
 * first one that does not refuse is taken. */
#ifndef RONDO_TRANSPORT_LINK_H
#define RONDO_TRANSPORT_LINK_H

#include "device/anchor.h"
#include "device/device.h"

struct rondo_link_ops;

/* What a rank tells all others about one of its areas. Sent as bytes between processes of one build. */
struct rondo_offer {
    uint64_t anchor_id; /* meaningful in the same process only */
    uint64_t bytes;     /* 0: there is no such area */
    uint32_t kind;      /* enum rondo_mem_kind */
    uint8_t handle[RONDO_MEM_HANDLE_BYTES];
};

/* A peer's area as this rank sees it. */
struct rondo_link_peer {
    struct rondo_offer offer;
    enum rondo_area area;
    int fd;            /* that came with the offer; not owned, -1: none */
    bool same_process; /* and direct pointers are not disabled */
};

/* An open link. A zeroed one is safe to close. */
struct rondo_link {
    const struct rondo_link_ops *ops;
    char *address;             /* the peer's area, as this rank's device sees it */
    char *host;                /* as the CPU sees it; host memory only */
    struct rondo_mem mapping;  /* imports */
    struct rondo_anchor *held; /* the peer's, where it is in this process */
};

struct rondo_link_ops {
    const char *mapping; /* the log's name for it */
    /* NULL, or a constant text that says why this way is not for that peer. */
    const char *(*refuses)(const struct rondo_link_peer *peer);
    /* Called at comm init; may block. On an error nothing is left open. */
    rondoResult_t (*open)(struct rondo_anchor *anchor, const struct rondo_link_peer *peer, struct rondo_link *link);
    /* Idempotent. */
    void (*close)(struct rondo_anchor *anchor, struct rondo_link *link);
};

/* Opens the best way to a peer's area. rondoSystemError: there is none; the text says why each was refused. */
rondoResult_t rondo_link_open(struct rondo_anchor *anchor, const struct rondo_link_peer *peer, struct rondo_link *link);

/* Idempotent. No kernel or copy of this rank may use the link any more. */
void rondo_link_close(struct rondo_anchor *anchor, struct rondo_link *link);

#endif
