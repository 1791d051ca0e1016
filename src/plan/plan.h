/* From checked tasks to launches. Pure: no device, no comm, no clock; equal inputs give equal plans on every rank (but
 * for the pointers and what follows from their alignment, which no other rank sees). */
#ifndef RONDO_PLAN_PLAN_H
#define RONDO_PLAN_PLAN_H

#include "rondo/rondo.h"

#include "comm/limits.h"
#include "kernels/work.h"

#include <stdbool.h>
#include <stddef.h>

enum { RONDO_BARRIER = RONDO_COLLECTIVE_COUNT }; /* a collective that is no work */

/* A checked collective that waits in its group. All ranks have the same ones in the same order. */
struct rondo_task {
    const void *send; /* NULL where the rank sends nothing */
    void *recv;       /* NULL where it receives nothing */
    size_t count;     /* elements of one flow, see kernels/work.h; not 0 but for a barrier */
    uint8_t collective, dtype, redop;
    uint8_t scaling; /* enum rondo_scaling */
    uint16_t root;
    uint64_t scalar;
};

/* How many parts of a flow's size the buffers of a collective have. */
size_t rondo_send_parts(unsigned collective, size_t ranks);
size_t rondo_recv_parts(unsigned collective, size_t ranks);

/* A checked send or receive, or a message to oneself. Ranks may have different ones. */
struct rondo_message {
    void *buffer;     /* a send's is only read */
    const void *from; /* of a copy */
    uint64_t bytes;   /* not 0 */
    uint8_t kind;     /* enum rondo_transfer_kind */
    uint8_t element;  /* bytes */
    uint16_t peer;
};

/* What a group holds for one comm, and how much of it has been planned. */
struct rondo_group_plan {
    const struct rondo_limits *limits;
    const struct rondo_task *tasks;
    size_t task_count;
    struct rondo_message *messages; /* sorted by rondo_plan_begin */
    size_t message_count;
    size_t tasks_done;
    size_t messages_done; /* of every (kind, peer): messages of the rounds that have been planned */
    size_t messages_left;
};

/* One kernel launch. The lane part of the arguments is filled in by who launches. */
struct rondo_plan_launch {
    unsigned kernel; /* kernels/instances.h */
    unsigned blocks, threads;
    uint32_t steps;    /* by which the lane's epoch advances */
    unsigned works;    /* tasks of the group that the launch covers */
    unsigned messages; /* and messages */
    bool direct; /* buffers of its ops may be reached directly, if their places in exported memory are filled in */
    size_t args_bytes; /* that are in use */
    union {
        struct rondo_lane_args lane; /* which all of them begin with */
        struct rondo_single_args single;
        struct rondo_small_args small;
        struct rondo_batch_args batch;
        struct rondo_large_args large;
        struct rondo_ring_args ring;
    } args;
};

/* tasks, task_count, messages, message_count and limits are set; the rest is set here. Sorts the messages by kind and peer; those
 * of one kind and peer stay in order. */
void rondo_plan_begin(struct rondo_group_plan *plan);

bool rondo_plan_done(const struct rondo_group_plan *plan);

/* Plans the next launch: as many of the tasks as fit into one and, beside the last tasks (unless that is a direct work) and after
 * them, the next round of messages: as many between each pair of ranks as sender and receiver both agree on, whatever else their groups hold. A launch
 * of messages ends when the peers have done their part, which they may do after a group of the same tasks: so none comes before
 * the last of the tasks. */
void rondo_plan_next(struct rondo_group_plan *plan, struct rondo_plan_launch *launch);

#endif
