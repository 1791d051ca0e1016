#include "enqueue/describe.h"

#include "comm/lane.h"
#include "common/result.h"
#include "enqueue/words.h"
#include "kernels/instances.h"
#include "kernels/types.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- looking ---- */

static void described_fini(const struct rondo_device_ops *ops, struct rondo_described *graph)
{
    for (size_t b = 0; b < graph->body_count; b++)
        described_fini(ops, &graph->bodies[b]);
    for (size_t i = 0; i < graph->view.node_count && graph->launches; i++) {
        if (graph->launches[i])
            free(graph->launches[i]->args);
        free(graph->launches[i]);
    }
    free(graph->launches);
    free(graph->bodies);
    ops->graph_close(&graph->view);
}

static rondoResult_t look_at_launch(const struct rondo_graph_node *node, struct rondo_described_launch **out)
{
    struct rondo_described_launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return rondo_fail(rondoSystemError, "out of memory");
    *out = launch;
    launch->args = malloc(node->args_bytes);
    if (!launch->args)
        return rondo_fail(rondoSystemError, "out of memory");
    memcpy(launch->args, node->args, node->args_bytes);
    rondo_unpack(node->kernel, launch->args, &launch->ops);
    struct rondo_anchor *anchor = rondo_anchor_of(launch->ops.lane->channels);
    launch->ended = true;
    if (anchor) { /* else someone else's graph has outlived the process's part in it */
        struct rondo_device_info info;
        anchor->ops->info(anchor->device, &info);
        launch->line_bytes = info.line_bytes;
        launch->lane = (int)rondo_lane_of(anchor, launch->ops.lane->channels) - RONDO_LANE_GRAPH;
        launch->only_lane = anchor->lanes == RONDO_LANE_GRAPH + 1;
        launch->ended = __atomic_load_n(&anchor->ended, __ATOMIC_RELAXED);
        snprintf(launch->comm, sizeof launch->comm, "%s", anchor->name);
        rondo_anchor_drop(anchor);
    }
    return rondoSuccess;
}

static rondoResult_t look(const struct rondo_device_ops *ops, void *handle, struct rondo_described *graph)
{
    size_t bodies = 0;
    RONDO_TRY(ops->graph_open(handle, &graph->view));
    const struct rondo_graph_view *view = &graph->view;
    for (size_t i = 0; i < view->node_count; i++)
        bodies += view->nodes[i].body_count;
    graph->launches = calloc(view->node_count + 1, sizeof *graph->launches);
    graph->bodies = calloc(bodies + 1, sizeof *graph->bodies);
    if (!graph->launches || !graph->bodies)
        return rondo_fail(rondoSystemError, "out of memory");
    for (size_t i = 0; i < view->node_count; i++) {
        const struct rondo_graph_node *node = &view->nodes[i];
        if (node->kernel != RONDO_KERNEL_COUNT)
            RONDO_TRY(look_at_launch(node, &graph->launches[i]));
        for (unsigned b = 0; b < node->body_count; b++)
            RONDO_TRY(look(ops, node->bodies[b], &graph->bodies[graph->body_count++]));
    }
    return rondoSuccess;
}

static void add_up(const struct rondo_described *graph, struct rondo_described_totals *totals)
{
    struct rondo_described_op op;
    totals->nodes += graph->view.node_count;
    totals->edges += graph->view.edge_count;
    for (size_t e = 0; e < graph->view.edge_count; e++)
        totals->programmatic += graph->view.edges[e].programmatic;
    for (size_t i = 0; i < graph->view.node_count; i++) {
        totals->kernels += graph->view.nodes[i].is_kernel;
        totals->launches += graph->launches[i] != NULL;
        for (size_t n = 0; graph->launches[i] && rondo_describe_op(graph->launches[i], n, &op); n++)
            totals->ops++;
    }
    for (size_t b = 0; b < graph->body_count; b++)
        add_up(&graph->bodies[b], totals);
}

/* ---- ops ---- */

static void describe_work(const struct rondo_described_launch *launch, const struct rondo_work *work,
                          struct rondo_described_op *op)
{
    op->op = rondo_word_collective(work->collective);
    op->type = rondo_word_type(work->dtype);
    op->redop = work->collective <= RONDO_REDUCE ? rondo_word_redop(work->redop) : "";
    op->algorithm = rondo_algo_name(work->algo);
    op->protocol = rondo_word_protocol(work, launch->line_bytes);
    op->bytes = work->bytes;
    op->count = work->bytes / rondo_dtype_bytes(work->dtype);
    op->counts = true;
    op->channels = work->channels;
    op->root = work->collective == RONDO_REDUCE || work->collective == RONDO_BROADCAST ? work->root : -1;
    op->scaled = work->scaling != RONDO_UNSCALED;
}

static void describe_transfer(const struct rondo_described_launch *launch, size_t number, struct rondo_described_op *op)
{
    const struct rondo_end *end = launch->ops.ends;
    while (end->end <= number)
        end++;
    op->op = rondo_word_transfer(end->kind);
    const struct rondo_transfer *transfer = &launch->ops.transfers[number];
    op->bytes = transfer->bytes;
    op->algorithm = end->kind == RONDO_COPY ? "" : "fifo";
    op->protocol = end->kind == RONDO_COPY ? "" : rondo_word_transfer_protocol(transfer, launch->line_bytes);
    op->channels = end->channels;
    op->peer = end->peer;
}

bool rondo_describe_op(const struct rondo_described_launch *launch, size_t number, struct rondo_described_op *op)
{
    const struct rondo_unpacked *ops = &launch->ops;
    *op = (struct rondo_described_op){
        .op = "", .type = "", .redop = "", .algorithm = "", .protocol = "", .root = -1, .peer = -1};
    if (number < ops->work_count) {
        describe_work(launch, &ops->works[number], op);
        return true;
    }
    number -= ops->work_count;
    if (ops->barrier && number-- == 0) {
        op->op = "barrier";
        op->algorithm = "tokens";
        op->protocol = rondo_word_protocol(NULL, launch->line_bytes);
        op->channels = 1;
        return true;
    }
    if (number >= ops->transfer_count)
        return false;
    describe_transfer(launch, number, op);
    return true;
}

/* ---- the text ---- */

void rondo_describe_print(struct rondo_describe_text *text, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    const size_t more = (size_t)vsnprintf(NULL, 0, format, list);
    if (text->length + more + 1 > text->room && !text->failed) {
        const size_t room = 2 * (text->length + more + 1);
        char *bigger = realloc(text->at, room);
        text->failed = !bigger;
        if (bigger) {
            text->at = bigger;
            text->room = room;
        }
    }
    if (!text->failed) {
        vsnprintf(text->at + text->length, more + 1, format, again);
        text->length += more;
    }
    va_end(again);
    va_end(list);
}

static rondoResult_t describe(void *handle, rondoDescribeFormat_t format, struct rondo_describe_text *text)
{
    const struct rondo_device_ops *ops;
    struct rondo_described graph = {.body_count = 0};
    struct rondo_described_totals totals = {0};
    RONDO_TRY(rondo_device_row(&ops));
    rondoResult_t result = look(ops, handle, &graph);
    if (result == rondoSuccess) {
        add_up(&graph, &totals);
        (format == rondoDescribeText ? rondo_describe_text : rondo_describe_json)(&graph, &totals, text);
        if (text->failed)
            result = rondo_fail(rondoSystemError, "out of memory");
    }
    described_fini(ops, &graph);
    return result;
}

rondoResult_t rondo_describe_give(const struct rondo_describe_text *text, char *buffer, size_t *bytes)
{
    const size_t room = *bytes;
    *bytes = text->length + 1;
    if (buffer && room < *bytes)
        return rondo_fail(rondoInvalidArgument, "the description takes %zu bytes, and there is room for %zu", *bytes,
                          room);
    if (buffer)
        memcpy(buffer, text->at, *bytes);
    return rondoSuccess;
}

rondoResult_t rondoGraphDescribe(void *graph, rondoDescribeFormat_t format, char *buffer, size_t *bytes)
{
    struct rondo_describe_text text = {0};
    if (!graph || !bytes)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", graph ? "bytes" : "graph");
    if (format != rondoDescribeText && format != rondoDescribeJson)
        return rondo_fail(rondoInvalidArgument, "format %d is not a rondoDescribeFormat_t", (int)format);
    rondoResult_t result = describe(graph, format, &text);
    if (result == rondoSuccess)
        result = rondo_describe_give(&text, buffer, bytes);
    free(text.at);
    return result;
}
