/* A communicator as the stages see it. Made in comm.c; its parts have their own init and fini. */
#ifndef RONDO_COMM_COMM_H
#define RONDO_COMM_COMM_H

#include "rondo/rondo.h"

#include "comm/config.h"
#include "comm/inbox.h"
#include "comm/labels.h"
#include "comm/lane.h"
#include "comm/limits.h"
#include "comm/redops.h"
#include "comm/registry.h"
#include "comm/split.h"
#include "comm/worker.h"
#include "common/arena.h"
#include "device/anchor.h"
#include "device/device.h"
#include "kernels/instances.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct rondo_bootstrap;
struct rondo_exporter;
struct rondo_exports_hold;
struct rondo_links;
struct rondo_making;
struct rondo_mover;
struct rondo_tracer;
struct rondo_tune;
struct rondo_watch;

enum {
    RONDO_FAILURE_TEXT_BYTES = 512,
    RONDO_CAPTURES = 32, /* captures with ops of one comm that may be under way at once */
    RONDO_CAPTURE_NODES = 8,
};

/* A capture in which the comm has ops. There is no word of a capture's end: a record is used again when it is the oldest. */
struct rondo_capture_record {
    uint64_t id;     /* 0: unused */
    unsigned lane;   /* that its launches run on */
    uint16_t number; /* in labels */
    void *graph;     /* that it makes or adds to. May be gone */
    const void
        *nodes[RONDO_CAPTURE_NODES]; /* the comm's last launches in it, the last one first, each after the next one. May
                                               be gone with the graph */
    size_t node_count;
    const struct rondo_kernel *last_kernel;
    struct rondo_exports_hold *hold; /* the graph's, for this capture; NULL: none yet. May be gone with the graph */
};

#define RONDO_COMM_MAGIC 0x6d6d6f634f444e52ull

struct rondoComm {
    uint64_t magic; /* RONDO_COMM_MAGIC, for ever: see retired.h */

    /* ---- constant between init and destroy ---- */
    int rank, ranks;
    uint64_t key; /* of the comm, the same on all ranks: the order in which a group issues its comms */
    const struct rondo_device_ops *ops;
    struct rondo_device *device; /* the anchor's */
    struct rondo_device_info info;
    struct rondo_config config;
    struct rondo_limits limits;
    struct rondo_tune *tune; /* NULL: what is built in */
    struct rondo_arena *arena;
    struct rondo_anchor *anchor;
    struct rondo_lane lanes[RONDO_MAX_LANES];
    const struct rondo_kernel *kernels[RONDO_KERNEL_COUNT];
    struct rondo_links *links;       /* to the peers' memory */
    struct rondo_mover *mover;       /* NULL: no copies */
    struct rondo_exporter *exporter; /* NULL: no memory of users is mapped by others */
    struct rondo_tracer *tracer;     /* NULL: launches leave no records */
    struct rondo_bootstrap *bootstrap;
    struct rondo_watch *watch;

    /* ---- the road of a call; guarded by `lock`, which is held across launches ---- */
    pthread_mutex_t lock;
    struct rondo_event *eager_end;                        /* recorded behind the last eager launch */
    struct rondo_event *join;                             /* brings other streams of a group to the launching one */
    uint64_t eager_stream;                                /* id of the stream of the last eager launch; 0: none yet */
    struct rondo_capture_record captures[RONDO_CAPTURES]; /* the last ones with ops of the comm, in a ring */
    unsigned next_capture;                                /* place in the ring */
    int graph_lane;       /* of the next captures; RONDO_GRAPH_LANE_DEAL: they are dealt out */
    unsigned dealt_lanes; /* captures that were, since the user last chose */

    /* ---- these have locks of their own ---- */
    struct rondo_redops redops;
    struct rondo_labels labels;     /* of captures */
    struct rondo_registry registry; /* the user's buffers */
    struct rondo_inbox inbox;       /* what peers' splits, shrinks and grows of this comm say */

    struct rondo_making *making; /* while it is being made; of the thread that makes it */
    struct rondo_worker worker;  /* of a non-blocking comm */

    /* ---- failure and life; see failure.c ---- */
    pthread_mutex_t failure_lock; /* guards failure_text and the first failure; inside it nothing else is locked */
    int failure;                  /* atomic: a rondoResult_t, the first failure. Written under failure_lock */
    char failure_text[RONDO_FAILURE_TEXT_BYTES];
    int untold;            /* atomic: a copy has failed, which no kernel need report: the watch is to tell the peers */
    unsigned seen_reports; /* atomic, rondo_comm_read_reports alone: lanes whose report was handled, a bit each */
    int left_rank;         /* atomic: a rank that destroyed its comm, -1: none */
    uint64_t left_at_ns;   /* when; watch thread */
    int state;             /* atomic: enum rondo_comm_state */
    int cancelled;         /* atomic: the waits of init are to end; see rondo_comm_cancel */
    int revoked;           /* atomic: enum rondo_revocation */
    int users; /* atomic: calls that are inside; tear-down waits for 0, and lets the comm linger if that takes long */
    struct rondoComm *next_retired; /* retired.c: in whichever of its lists the comm is */
};

enum rondo_comm_state {
    RONDO_COMM_RETIRED,
    RONDO_COMM_ALIVE,
    RONDO_COMM_FINALIZED,
    RONDO_COMM_MAKING,    /* init is under way: good for an abort only */
    RONDO_COMM_CANCELLED, /* and was told to end */
    RONDO_COMM_BROKEN,    /* a non-blocking init has failed, and nothing is left but the handle */
    RONDO_COMM_FINALIZING,
};

/* While it is revoked its ops end; then it is good as a parent again. */
enum rondo_revocation { RONDO_NOT_REVOKED, RONDO_REVOKING, RONDO_REVOKED };

/* Begins a call on a comm: rondoInvalidArgument for NULL or what is no live comm, its failure if it has failed,
 * rondoInvalidUsage if it was revoked or finalized, rondoRemoteError if a rank has left. On success leave must follow. */
rondoResult_t rondo_comm_enter(struct rondoComm *comm);
void rondo_comm_leave(struct rondoComm *comm);

/* The same for who has met the comm before, noted its anchor and held that since: rondoInvalidUsage if the comm has ended, even if
 * its struct is another comm's by now. */
rondoResult_t rondo_comm_enter_again(struct rondoComm *comm, const struct rondo_anchor *anchor);

/* The same for calls that need no peer's ops: ranks may have left. */
rondoResult_t rondo_comm_enter_alone(struct rondoComm *comm);

/* The same for calls that make another comm of the ranks: ranks may have left, it may have been revoked, and it may have failed if
 * that is `allowed_to_fail`. */
rondoResult_t rondo_comm_enter_parent(struct rondoComm *comm, bool allowed_to_fail);

/* The same for what may be done until the comm is destroyed, also after a failure, a revocation or a finalize. */
rondoResult_t rondo_comm_enter_ended(struct rondoComm *comm);

/* Whether the comm was revoked on this rank, and its ops have ended. */
bool rondo_comm_is_revoked(const struct rondoComm *comm);

/* Waits for what the comm was given to do on this rank, about `ms` at most. Whether it is done; false too if the comm has failed. */
bool rondo_comm_drain(struct rondoComm *comm, unsigned ms);

/* All ranks' part in making a comm. `ordinal` is the device. The ranks find each other by an id, or are a parent's, or both: who
 * joins a comm that grows has split.kind RONDO_GROW and no parent. */
struct rondo_comm_request {
    struct rondo_split_request split; /* parent NULL: by id */
    rondoUniqueId id;
    int rank, ranks, ordinal; /* rank and ranks are by id only */
    bool own_id;              /* nobody else knows the id: its root must not outlive a failure */
    struct rondo_config config;
};

/* Makes a comm; if it is non-blocking, begins to: rondoInProgress, and *comm is the handle, good or bad. Otherwise *comm is
 * the handle from before the first wait, for rondo_comm_cancel and rondoCommAbort, and NULL again on an error. NULL after
 * success: the split made nothing for this rank. */
rondoResult_t rondo_comm_create(const struct rondo_comm_request *request, struct rondoComm **comm);

/* The same in two steps, for groups. begin gives the handle and tells a parent's ranks, in the order of the calls; it does not
 * block. One of the two must follow where there is a handle: make, which waits, and frees it on an error; or make_later,
 * which does that in a thread, after which the handle is good for the user. If make_later fails, the handle is freed. */
rondoResult_t rondo_comm_begin(const struct rondo_comm_request *request, struct rondoComm **comm);
rondoResult_t rondo_comm_make(struct rondoComm *comm, struct rondoComm **handle);
rondoResult_t rondo_comm_make_later(struct rondoComm *comm);

/* The same number on all ranks, of bytes that all of them know. */
uint64_t rondo_comm_key(const void *bytes, size_t count);

/* Ends the init of a comm, from another thread: create then fails with rondoInvalidUsage. False: it is not in its init. */
bool rondo_comm_cancel(struct rondoComm *comm);

#endif
