/* Graphs of the host device: nodes, what these depend on, and what a graph keeps alive. A node depends only on nodes that were
 * added before it, so the order of a graph's nodes is a topological one.
 *
 * A node may hold graphs of its own, its bodies: a child graph, or what a conditional node runs. */
#ifndef RONDO_DEVICE_HOST_GRAPH_H
#define RONDO_DEVICE_HOST_GRAPH_H

#include "device/host_device.h"

struct rondoHostNode {
    rondoHostNodeType_t type;
    struct host_action action; /* unless it has bodies */
    struct host_tails needs;   /* nodes that it depends on */
    size_t index;              /* in its graph */
    unsigned long mark;        /* of the last search that met it; graph lock */
    rondoHostGraph_t *bodies;  /* owned */
    unsigned body_count;
    rondoHostConditionalType_t conditional; /* what it does with its condition */
    rondoHostConditional_t condition;
};

/* A value that a conditional node asks for. */
struct host_condition {
    rondoHostConditional_t handle;
    unsigned value; /* at a launch's beginning */
    bool used;      /* a node has it */
};

#define HOST_GRAPH_MAGIC 0x6870617274736f68ull

/* Changed under the graph lock. */
struct rondoHostGraph {
    uint64_t magic;
    rondoHostNode_t *nodes;
    size_t count, room;
    struct host_owners owners;
    struct host_condition *conditions; /* for nodes of this graph, or of a body in it */
    size_t condition_count;
    rondoHostGraph_t parent; /* of whose node it is a body, NULL: none */
};

/* rondoInvalidArgument: it is none. */
rondoResult_t host_graph_check(rondoHostGraph_t graph);
rondoResult_t host_graph_create(rondoHostGraph_t *graph);
/* With its nodes and all that they have; no capture is under way into it. NULL is fine. */
void host_graph_free(rondoHostGraph_t graph);
/* Nodes, bodies and owners. rondoInvalidUsage: it has conditional nodes. */
rondoResult_t host_graph_copy(rondoHostGraph_t from, rondoHostGraph_t *to);
/* Whether a graph is this one or in it. */
bool host_graph_is_in(rondoHostGraph_t graph, rondoHostGraph_t outer);

/* A node that is in no graph yet: for an action, of which it makes a copy, or with empty bodies. */
rondoResult_t host_node_create(const struct host_action *action, rondoHostNode_t *node);
rondoResult_t host_node_create_with(rondoHostNodeType_t type, unsigned bodies, rondoHostNode_t *node);
void host_node_free(rondoHostNode_t node);
/* Puts a node into a graph, behind `needs`. On an error it is still the caller's. */
rondoResult_t host_graph_add(rondoHostGraph_t graph, rondoHostNode_t node, const struct host_tails *needs);

rondoResult_t host_tails_add(struct host_tails *tails, rondoHostNode_t node);
rondoResult_t host_tails_join(struct host_tails *to, const struct host_tails *from);

/* Makes `owners` keep alive what the graph and its bodies do. */
rondoResult_t host_owners_share(rondoHostGraph_t graph, struct host_owners *owners);

/* ---- captures: host_capture.c ---- */

/* Under the graph lock: the graph ends, and captures into it are void. */
void host_captures_lose(rondoHostGraph_t graph);

#endif
