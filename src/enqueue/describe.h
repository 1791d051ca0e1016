/* A graph as it is described: everything is looked up before the first word is written. */
#ifndef RONDO_ENQUEUE_DESCRIBE_H
#define RONDO_ENQUEUE_DESCRIBE_H

#include "rondo/rondo.h"

#include "device/graph_view.h"
#include "kernels/work.h"
#include "plan/unpack.h"

#include <stdbool.h>

/* A launch of Rondo's. */
struct rondo_described_launch {
    struct rondo_unpacked ops; /* of `args` */
    void *args;                /* owned */
    char comm[64];             /* its name */
    bool ended;                /* the comm has; replays do nothing but report */
    int lane;                  /* -1: the eager one; else of the graph lanes, as rondoCommSetGraphLane counts */
    bool only_lane;            /* of those */
    int line_bytes;
};

/* A graph; those inside are in the order of the nodes that have them. */
struct rondo_described {
    struct rondo_graph_view view;
    struct rondo_described_launch **launches; /* by node; NULL: not Rondo's */
    struct rondo_described *bodies;
    size_t body_count;
};

struct rondo_described_totals {
    size_t nodes, kernels, launches, ops, edges, programmatic;
};

/* A text that grows. */
struct rondo_describe_text {
    char *at; /* owned */
    size_t length, room;
    bool failed; /* out of memory */
};
__attribute__((format(printf, 2, 3))) void rondo_describe_print(struct rondo_describe_text *text, const char *format,
                                                                ...);

/* Gives it to the user as rondoGraphDescribe says. */
rondoResult_t rondo_describe_give(const struct rondo_describe_text *text, char *buffer, size_t *bytes);

void rondo_describe_text(const struct rondo_described *graph, const struct rondo_described_totals *totals,
                         struct rondo_describe_text *text);
void rondo_describe_json(const struct rondo_described *graph, const struct rondo_described_totals *totals,
                         struct rondo_describe_text *text);

/* One op of a launch: a work, a message or a barrier. */
struct rondo_described_op {
    const char *op, *type, *redop, *algorithm, *protocol; /* "": it has none */
    uint64_t count, bytes;                                /* bytes: of one flow, see kernels/work.h */
    unsigned channels;
    int root, peer;      /* -1: none */
    bool scaled, counts; /* counts: `count` is elements of `type` */
};

/* The op with this number; false: the launch has fewer. */
bool rondo_describe_op(const struct rondo_described_launch *launch, size_t number, struct rondo_described_op *op);

#endif
