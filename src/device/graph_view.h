/* What a graph of the user's holds, however it was made, and new arguments for what an executable one runs. */
#ifndef RONDO_DEVICE_GRAPH_VIEW_H
#define RONDO_DEVICE_GRAPH_VIEW_H

#include <stdbool.h>
#include <stddef.h>

struct rondo_graph_node {
    void *node;       /* the row's own */
    const char *type; /* "kernel", "memcpy", "graph", "conditional" …; a constant */
    unsigned kernel;  /* its number (kernels/instances.h); RONDO_KERNEL_COUNT: it is no kernel of Rondo's */
    const char *name; /* of any kernel, "" if it is not known */
    unsigned blocks, threads;
    const void *args; /* of a kernel of Rondo's; the graph's, until that is changed */
    size_t args_bytes;
    void *const *bodies; /* graphs that it runs; the view's */
    unsigned body_count;
    bool is_kernel;
    bool hides; /* it may run graphs that cannot be seen */
};

/* From one node to another, by their places in the view. */
struct rondo_graph_edge {
    size_t from, to;
    bool programmatic; /* the second may begin before the first ends */
};

/* In an order in which the nodes could run. */
struct rondo_graph_view {
    struct rondo_graph_node *nodes;
    size_t node_count;
    struct rondo_graph_edge *edges;
    size_t edge_count;
};

/* A node's arguments-to-be. */
struct rondo_graph_change {
    const struct rondo_graph_node *node;
    const void *args; /* as many as it has */
};

#endif
