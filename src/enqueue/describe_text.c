/* A graph for people. */
#include "enqueue/describe.h"

#include <stdio.h>

#define PRINT(...) rondo_describe_print(text, __VA_ARGS__)

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void print_op(const struct rondo_described_op *op, int indent, struct rondo_describe_text *text)
{
    PRINT("%*s%s", indent, "", op->op);
    if (*op->redop)
        PRINT(" %s%s", op->redop, op->scaled ? " of scaled input" : "");
    if (op->counts)
        PRINT(" %llu %s (%llu bytes)", (unsigned long long)op->count, op->type, (unsigned long long)op->bytes);
    else if (op->bytes)
        PRINT(" %llu bytes", (unsigned long long)op->bytes);
    if (op->root >= 0)
        PRINT(", root %d", op->root);
    if (op->peer >= 0 && *op->algorithm)
        PRINT(" %s rank %d", op->op[0] == 's' ? "to" : "from", op->peer);
    if (*op->algorithm)
        PRINT(", %s, %s, %u channel%s", op->algorithm, op->protocol, op->channels, plural(op->channels));
}

static bool same(const struct rondo_described_op *a, const struct rondo_described_op *b)
{
    return a->op == b->op && a->type == b->type && a->redop == b->redop && a->algorithm == b->algorithm &&
           a->protocol == b->protocol && a->count == b->count && a->bytes == b->bytes && a->channels == b->channels &&
           a->root == b->root && a->peer == b->peer && a->scaled == b->scaled;
}

/* Those that follow one another and look the same are said once. */
static void print_ops(const struct rondo_described_launch *launch, int indent, struct rondo_describe_text *text)
{
    struct rondo_described_op op, next;
    size_t at = 0;
    while (rondo_describe_op(launch, at, &op)) {
        size_t end = at + 1;
        while (rondo_describe_op(launch, end, &next) && same(&op, &next))
            end++;
        print_op(&op, indent, text);
        if (end - at > 1)
            PRINT(", %zu times", end - at);
        PRINT("\n");
        at = end;
    }
}

static void print_lane(const struct rondo_described_launch *launch, struct rondo_describe_text *text)
{
    if (launch->lane < 0)
        PRINT("eager lane");
    else if (launch->only_lane)
        PRINT("graph lane");
    else
        PRINT("graph lane %d", launch->lane);
}

static void print_launch(const struct rondo_described_launch *launch, int indent, struct rondo_describe_text *text)
{
    PRINT(", comm%s%s rank %u of %u, ", *launch->comm ? " " : "", launch->comm, launch->ops.lane->rank,
          launch->ops.lane->ranks);
    print_lane(launch, text);
    if (launch->ops.lane->graph) /* as errors name it */
        PRINT(", graph %u", launch->ops.lane->graph);
    PRINT("%s\n", launch->ended ? ", has ended" : "");
    print_ops(launch, indent, text);
}

/* "after 3, 5*": the second by a programmatic edge. Nothing where the node before is the only one. */
static void print_edges(const struct rondo_graph_view *view, size_t node, struct rondo_describe_text *text)
{
    size_t count = 0, last = 0;
    bool programmatic = false;
    for (size_t e = 0; e < view->edge_count; e++)
        if (view->edges[e].to == node) {
            count++;
            last = view->edges[e].from;
            programmatic = view->edges[e].programmatic;
        }
    if (count == 1 && last + 1 == node && !programmatic)
        return;
    PRINT("%s", count ? ", after" : node ? ", after nothing" : "");
    for (size_t e = 0; e < view->edge_count; e++)
        if (view->edges[e].to == node)
            PRINT(" %zu%s", view->edges[e].from, view->edges[e].programmatic ? "*" : "");
}

static void print_graph(const struct rondo_described *graph, int indent, struct rondo_describe_text *text)
{
    const struct rondo_described *body = graph->bodies;
    for (size_t i = 0; i < graph->view.node_count; i++) {
        const struct rondo_graph_node *node = &graph->view.nodes[i];
        PRINT("%*s%zu  %s", indent, "", i, node->is_kernel && *node->name ? node->name : node->type);
        if (node->is_kernel)
            PRINT(", %u block%s of %u thread%s", node->blocks, plural(node->blocks), node->threads,
                  plural(node->threads));
        print_edges(&graph->view, i, text);
        if (graph->launches[i])
            print_launch(graph->launches[i], indent + 6, text);
        else
            PRINT("%s\n", node->hides ? ", whose graphs cannot be seen from here" : "");
        for (unsigned b = 0; b < node->body_count; b++, body++) {
            if (node->body_count > 1)
                PRINT("%*sgraph %u\n", indent + 4, "", b);
            print_graph(body, indent + 6, text);
        }
    }
}

void rondo_describe_text(const struct rondo_described *graph, const struct rondo_described_totals *totals,
                         struct rondo_describe_text *text)
{
    PRINT("%zu node%s: %zu kernel%s of Rondo's with %zu op%s, %zu other kernel%s, %zu other node%s; %zu edge%s",
          totals->nodes, plural(totals->nodes), totals->launches, plural(totals->launches), totals->ops,
          plural(totals->ops), totals->kernels - totals->launches, plural(totals->kernels - totals->launches),
          totals->nodes - totals->kernels, plural(totals->nodes - totals->kernels), totals->edges,
          plural(totals->edges));
    if (totals->programmatic)
        PRINT(", %zu of them programmatic (*)", totals->programmatic);
    PRINT("\n");
    print_graph(graph, 2, text);
}
