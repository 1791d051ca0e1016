/* Lanes: independent sets of mailboxes and epochs in a comm. Eager ops run on one, captured ops on others, so that a
 * replay and an eager op may run at the same time, and two replays whose captures were given different lanes. */
#ifndef RONDO_COMM_LANE_H
#define RONDO_COMM_LANE_H

#include "rondo/rondo.h"

#include "comm/limits.h"
#include "device/anchor.h"
#include "kernels/copies.h"
#include "kernels/posts.h"
#include "kernels/work.h"

/* Numbers of lanes: the graphs' begin with RONDO_LANE_GRAPH. */
enum { RONDO_LANE_EAGER, RONDO_LANE_GRAPH, RONDO_MAX_LANES = RONDO_LANE_GRAPH + RONDO_MAX_GRAPH_LANES };

/* Kernel arguments. */
struct rondo_lane {
    struct rondo_lane_args args;
    struct rondo_fifo_args fifos;
};

/* Bytes of the memory that the lanes of a comm need, in all. */
size_t rondo_lanes_control_bytes(unsigned lanes, unsigned ranks);
size_t rondo_lanes_report_bytes(unsigned lanes);
size_t rondo_lanes_mailbox_bytes(const struct rondo_limits *limits);

/* Up to RONDO_ARG_PEERS ranks: where the kernels of a lane ask for copies to a rank, in memory that begins at `first`
 * (rondo_lanes_copies_bytes of it, zero at first). */
size_t rondo_lanes_copies_bytes(const struct rondo_limits *limits);
struct rondo_copy *rondo_lane_copy(const struct rondo_limits *limits, void *first, unsigned lane, unsigned rank);

/* And for traces, a ring of so many entries (a power of two) for each lane. It is the anchor's if the comm traces. */
size_t rondo_lanes_trace_bytes(unsigned lanes, unsigned entries);

/* A word of device memory that nobody looks at: number 0 is what messages of nothing send, and 1 + r takes what comes of them from
 * rank r. */
void *rondo_lanes_spare(const struct rondo_anchor *anchor, unsigned ranks, unsigned number);

/* Up to RONDO_ARG_PEERS ranks: what kernels know of memory of users that peers reach (struct rondo_exports, all zero at first), and
 * in it the word for where a rank's memory of some number is for this rank. */
void *rondo_lanes_exports(const struct rondo_anchor *anchor, unsigned ranks);
void *rondo_lanes_export_map(const struct rondo_anchor *anchor, unsigned ranks, unsigned rank, unsigned number);

/* A mailbox for all lanes, as kernels and, if it is in host memory, as the CPU see it. */
struct rondo_box {
    char *address, *host; /* host NULL: device memory */
};

/* Where a rank's kernels write and read, by peer. One's own is never used. */
struct rondo_boxes {
    char *to[RONDO_MAX_RANKS], *from[RONDO_MAX_RANKS];
    struct rondo_post_ring
        *rings[RONDO_MAX_RANKS]; /* NULL: what is written for a peer is where the peer looks for it */
};

/* Puts the anchor's control memory and reports into their first state: epochs and positions at `epoch`, nothing posted. */
rondoResult_t rondo_lanes_reset(const struct rondo_anchor *anchor, const struct rondo_limits *limits, uint32_t epoch);

/* The same for a mailbox: lines empty, credits at `epoch`. Before anyone may write into it. */
rondoResult_t rondo_lanes_reset_box(const struct rondo_anchor *anchor, const struct rondo_limits *limits,
                                    uint32_t epoch, const struct rondo_box *box);

/* Fills in the kernel arguments of all lanes, and the tables in control memory that they point to. */
rondoResult_t rondo_lanes_open(const struct rondo_anchor *anchor, const struct rondo_limits *limits, unsigned rank,
                               uint64_t timeout_ns, const struct rondo_boxes *boxes,
                               struct rondo_lane lanes[RONDO_MAX_LANES]);

/* A lane's ring as it is now, launches or not, and how many launches have left a record, modulo 2^32. The comm traces. */
rondoResult_t rondo_lane_trace_read(const struct rondo_anchor *anchor, unsigned lane, uint32_t *launches,
                                    struct rondo_trace_entry *entries);

/* Which of the anchor's lanes has these channels. */
unsigned rondo_lane_of(const struct rondo_anchor *anchor, const struct rondo_channel *channels);

/* A lane's report as the host sees it. */
struct rondo_report *rondo_lane_report(const struct rondo_anchor *anchor, unsigned lane);

/* Ends the waits of all kernels that run now or later, on all lanes. From any thread; makes no device call. */
void rondo_lanes_abort(const struct rondo_anchor *anchor);

/* Later launches touch nothing but the anchor's memory. */
rondoResult_t rondo_lanes_stop(const struct rondo_anchor *anchor);

/* Whether any launch runs now. A launch that has not yet begun does not count. */
rondoResult_t rondo_lanes_busy(const struct rondo_anchor *anchor, bool *busy);

#endif
