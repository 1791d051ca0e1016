/* A graph for programs. */
#include "enqueue/describe.h"

#include <stdio.h>

#define PRINT(...) rondo_describe_print(text, __VA_ARGS__)

static void print_string(const char *string, struct rondo_describe_text *text)
{
    PRINT("\"");
    for (; *string; string++) {
        const unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\')
            PRINT("\\%c", c);
        else if (c < ' ')
            PRINT("\\u%04x", c);
        else
            PRINT("%c", c);
    }
    PRINT("\"");
}

static void print_op(const struct rondo_described_op *op, struct rondo_describe_text *text)
{
    PRINT("{\"op\": \"%s\"", op->op);
    if (op->counts)
        PRINT(", \"type\": \"%s\", \"count\": %llu", op->type, (unsigned long long)op->count);
    if (*op->redop)
        PRINT(", \"redop\": \"%s\", \"scaled\": %s", op->redop, op->scaled ? "true" : "false");
    PRINT(", \"bytes\": %llu", (unsigned long long)op->bytes);
    if (op->root >= 0)
        PRINT(", \"root\": %d", op->root);
    if (op->peer >= 0)
        PRINT(", \"peer\": %d", op->peer);
    PRINT(", \"algorithm\": \"%s\", \"protocol\": \"%s\", \"channels\": %u}", op->algorithm, op->protocol,
          op->channels);
}

static void print_launch(const struct rondo_described_launch *launch, struct rondo_describe_text *text)
{
    struct rondo_described_op op;
    PRINT(", \"comm\": ");
    print_string(launch->comm, text);
    PRINT(", \"rank\": %u, \"ranks\": %u, \"ended\": %s, \"lane\": %d, \"capture\": %u, \"ops\": [",
          launch->ops.lane->rank, launch->ops.lane->ranks, launch->ended ? "true" : "false", launch->lane,
          launch->ops.lane->graph);
    for (size_t n = 0; rondo_describe_op(launch, n, &op); n++) {
        PRINT("%s", n ? ", " : "");
        print_op(&op, text);
    }
    PRINT("]");
}

static void print_graph(const struct rondo_described *graph, struct rondo_describe_text *text);

static void print_node(const struct rondo_described *graph, size_t i, const struct rondo_described *bodies,
                       struct rondo_describe_text *text)
{
    const struct rondo_graph_node *node = &graph->view.nodes[i];
    PRINT("{\"node\": %zu, \"type\": \"%s\"", i, node->type);
    if (node->is_kernel) {
        PRINT(", \"kernel\": ");
        print_string(node->name, text);
        PRINT(", \"blocks\": %u, \"threads\": %u", node->blocks, node->threads);
    }
    PRINT(", \"rondo\": %s", graph->launches[i] ? "true" : "false");
    if (graph->launches[i])
        print_launch(graph->launches[i], text);
    if (node->hides)
        PRINT(", \"hides_graphs\": true");
    for (unsigned b = 0; b < node->body_count; b++) {
        PRINT("%s", b ? ", " : ", \"graphs\": [");
        print_graph(&bodies[b], text);
    }
    PRINT("%s}", node->body_count ? "]" : "");
}

static void print_graph(const struct rondo_described *graph, struct rondo_describe_text *text)
{
    const struct rondo_described *body = graph->bodies;
    PRINT("{\"nodes\": [");
    for (size_t i = 0; i < graph->view.node_count; i++) {
        PRINT("%s", i ? ", " : "");
        print_node(graph, i, body, text);
        body += graph->view.nodes[i].body_count;
    }
    PRINT("], \"edges\": [");
    for (size_t e = 0; e < graph->view.edge_count; e++) {
        const struct rondo_graph_edge *edge = &graph->view.edges[e];
        PRINT("%s{\"from\": %zu, \"to\": %zu, \"programmatic\": %s}", e ? ", " : "", edge->from, edge->to,
              edge->programmatic ? "true" : "false");
    }
    PRINT("]}");
}

void rondo_describe_json(const struct rondo_described *graph, const struct rondo_described_totals *totals,
                         struct rondo_describe_text *text)
{
    PRINT("{\"graph\": ");
    print_graph(graph, text);
    PRINT(
        ", \"totals\": {\"nodes\": %zu, \"kernels\": %zu, \"rondo_kernels\": %zu, \"ops\": %zu, \"other_nodes\": %zu, "
        "\"edges\": %zu, \"programmatic_edges\": %zu}}\n",
        totals->nodes, totals->kernels, totals->launches, totals->ops, totals->nodes - totals->kernels, totals->edges,
        totals->programmatic);
}
