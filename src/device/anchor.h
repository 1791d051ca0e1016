/* What must outlive a comm for as long as a graph may replay its launches, or a peer in this process may write into its
 * mailbox: the device in use and the memory that kernels touch. Counted; freed with the last reference. */
#ifndef RONDO_DEVICE_ANCHOR_H
#define RONDO_DEVICE_ANCHOR_H

#include "device/device.h"

/* Memory of a rank that it or its peers reach for as the paths between them ask for. An inbox is one mailbox that all peers fill
 * whose paths lead there, an outbox has a mailbox for each peer.
 *
 * Peers share lines of an inbox: what one leaves there, another must not stumble over. So kernels and copy engines have inboxes of
 * their own: copies bring codes of former marks along, and do not empty the lines that they take. */
enum rondo_area {
    RONDO_AREA_INBOX,       /* device memory, filled by peers' kernels */
    RONDO_AREA_COPIED,      /* inbox in device memory, filled by copy engines */
    RONDO_AREA_OUTBOX,      /* device memory, filled by this rank */
    RONDO_AREA_RELAY,       /* inboxes of other ranks in this one's device memory, filled by peers' kernels */
    RONDO_AREA_HOST_INBOX,  /* host memory near the device, filled by peers' kernels */
    RONDO_AREA_HOST_COPIED, /* the same, filled by copy engines */
    RONDO_AREA_HOST_STOP,   /* the same, filled by either, from where a copy engine takes it to COPIED */
    RONDO_AREA_HOST_OUTBOX,
    RONDO_AREA_COUNT
};

struct rondo_anchor {
    uint64_t id;   /* no other anchor of the process has or will have it */
    char name[64]; /* of the comm */
    int ended;     /* atomic: 1 once the comm is gone */
    const struct rondo_device_ops *ops;
    struct rondo_device *device;
    unsigned lanes;           /* that the memory below has room for */
    struct rondo_mem control; /* what kernels keep for themselves: channels, peers' addresses */
    struct rondo_mem trace;   /* records of launches; there is none if the comm does not trace */
    struct rondo_mem areas[RONDO_AREA_COUNT];
    struct rondo_pinned reports;        /* what kernels tell the host, and the abort words */
    struct rondo_pinned rings;          /* what kernels tell the comm's progress thread */
    struct rondo_pinned copies;         /* and what they ask of it */
    struct rondo_pinned selftest;       /* struct rondo_selftest_record of comm init, whose kernel may come late */
    unsigned references;                /* anchors' lock */
    struct rondo_anchor *next;          /* among those to be freed; anchors' lock */
    struct rondo_anchor *older, *newer; /* among all that have references; anchors' lock */
};

/* Opens the device (-1: the thread's current one); memory is the caller's to fill in. One reference. */
rondoResult_t rondo_anchor_create(const struct rondo_device_ops *ops, int ordinal, struct rondo_anchor **anchor);

/* One more reference. */
void rondo_anchor_hold(struct rondo_anchor *anchor);

/* The same for another's anchor, which its owner may be about to drop. NULL: it has. */
struct rondo_anchor *rondo_anchor_find(uint64_t id);

/* The same for the one whose control memory has this address. NULL: there is none. */
struct rondo_anchor *rondo_anchor_of(const void *control);

/* One reference less; the last frees all. NULL is fine. */
void rondo_anchor_drop(struct rondo_anchor *anchor);

/* The same from where the device layer must not be called (a graph's destructor): the last one is freed by the next
 * rondo_anchor_reap. Takes the anchor as void *, as such callbacks do. */
void rondo_anchor_drop_later(void *anchor);

/* The same once `event` has happened, as a rondo_anchor_reap finds: launches before it are to find the memory. Takes over
 * the event. */
void rondo_anchor_drop_after(struct rondo_anchor *anchor, struct rondo_event *event);

/* Frees what waits for it. Called wherever comms are made, used in captures, or destroyed. */
void rondo_anchor_reap(void);

/* Anchors that exist: tests assert 0 in the end. */
unsigned rondo_anchor_count(void);

/* Whether other processes may map memory of it by legacy handles. */
bool rondo_anchor_is_legacy(const struct rondo_anchor *anchor);

/* References to one: tests look for what captures left. */
unsigned rondo_anchor_references(const struct rondo_anchor *anchor);

#endif
