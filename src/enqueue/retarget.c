/* Other buffers for captured ops. Everything is looked at before anything is changed. */
#include "common/env.h"
#include "common/range.h"
#include "common/result.h"
#include "device/graph_view.h"
#include "enqueue/check.h"
#include "kernels/instances.h"
#include "kernels/types.h"
#include "plan/unpack.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 16 }; /* the longest lines by which user memory is accessed */

/* The user's moves, and the launches that they concern so far. */
struct job {
    const struct rondo_device_ops *ops;
    const rondoMove_t *moves;
    size_t move_count;
    struct rondo_graph_view *views; /* that are open */
    size_t view_count, view_room;
    struct rondo_graph_change *changes; /* whose arguments are owned */
    size_t change_count, change_room;
    size_t moved; /* ops */
};

/* A buffer of a launch. */
struct region {
    uintptr_t before, after;
    size_t bytes;
    size_t op; /* its number in the launch */
    bool written;
};

/* A launch's buffers. */
struct regions {
    struct region *list;
    size_t count;
};

static rondoResult_t grow(void **array, size_t count, size_t *room, size_t element)
{
    if (count < *room)
        return rondoSuccess;
    const size_t more = *room ? *room * 2 : 8;
    void *bigger = realloc(*array, more * element);
    if (!bigger)
        return rondo_fail(rondoSystemError, "out of memory");
    *array = bigger;
    *room = more;
    return rondoSuccess;
}

/* Where a buffer goes. */
static rondoResult_t place(const struct job *job, uintptr_t buffer, size_t bytes, uintptr_t *to)
{
    *to = buffer;
    for (size_t m = 0; m < job->move_count; m++) {
        const uintptr_t from = (uintptr_t)job->moves[m].from, end = from + job->moves[m].bytes;
        if (buffer >= end || from >= buffer + bytes)
            continue;
        if (buffer < from || buffer + bytes > end)
            return rondo_fail(rondoInvalidArgument,
                              "a buffer (%p, %zu bytes) lies in the range of move %zu (%p, %zu bytes) in part",
                              (void *)buffer, bytes, m, job->moves[m].from, job->moves[m].bytes);
        *to = (uintptr_t)job->moves[m].to + (buffer - from);
        return rondoSuccess;
    }
    return rondoSuccess;
}

/* Moves one buffer of an op. *aligned is cleared if it can no longer be accessed by lines, whatever it was. */
static rondoResult_t move(const struct job *job, void **buffer, struct region region, unsigned element, bool *aligned,
                          struct regions *regions)
{
    if (!*buffer)
        return rondoSuccess;
    region.before = (uintptr_t)*buffer;
    RONDO_TRY(place(job, region.before, region.bytes, &region.after));
    if (region.after % element)
        return rondo_fail(rondoInvalidArgument,
                          "a buffer at %p would be at %p, which is not aligned to the type's %u bytes",
                          (void *)region.before, (void *)region.after, element);
    if ((region.after - region.before) % LINE_BYTES)
        *aligned = false;
    *buffer = (void *)region.after;
    regions->list[regions->count++] = region;
    return rondoSuccess;
}

static rondoResult_t move_work(const struct job *job, const struct rondo_lane_args *lane, struct rondo_work *work,
                               size_t number, struct regions *regions)
{
    const unsigned element = rondo_dtype_bytes(work->dtype);
    const size_t sends = rondo_send_parts(work->collective, lane->ranks),
                 recvs = rondo_recv_parts(work->collective, lane->ranks);
    void *send = (void *)(uintptr_t)work->send, *scalar = (void *)(uintptr_t)work->scalar;
    bool aligned = work->aligned, any = true;
    RONDO_TRY(
        move(job, &send, (struct region){.bytes = sends * work->bytes, .op = number}, element, &aligned, regions));
    RONDO_TRY(move(job, &work->recv, (struct region){.bytes = recvs * work->bytes, .op = number, .written = true},
                   element, &aligned, regions));
    if (work->scaling == RONDO_SCALED_BY) {
        RONDO_TRY(move(job, &scalar, (struct region){.bytes = element, .op = number}, element, &any, regions));
        work->scalar = (uintptr_t)scalar;
    }
    work->send = send;
    work->aligned = aligned;
    work->words = work->words && (((uintptr_t)send | (uintptr_t)work->recv) & 3) == 0;
    return send && work->recv
               ? rondo_check_in_place(work->collective, lane->rank, lane->ranks, send, work->recv, work->bytes)
               : rondoSuccess;
}

static rondoResult_t move_transfer(const struct job *job, unsigned kind, struct rondo_transfer *transfer, size_t number,
                                   struct regions *regions)
{
    const void *before = transfer->buffer;
    void *from = kind == RONDO_COPY ? (void *)(uintptr_t)transfer->from : NULL;
    bool aligned = transfer->aligned;
    RONDO_TRY(move(job, &transfer->buffer,
                   (struct region){.bytes = transfer->bytes, .op = number, .written = kind != RONDO_SEND},
                   transfer->element, &aligned, regions));
    RONDO_TRY(move(job, &from, (struct region){.bytes = transfer->bytes, .op = number}, transfer->element, &aligned,
                   regions));
    if (kind == RONDO_COPY)
        transfer->from = from;
    else if (transfer->buffer != before)
        transfer->number = RONDO_EXPORT_NONE; /* as for works, below */
    transfer->aligned = aligned;
    transfer->words = (((uintptr_t)transfer->buffer | (uintptr_t)from) & 3) == 0;
    return rondoSuccess;
}

static bool overlap(uintptr_t a, uintptr_t b, const struct region *x, const struct region *y)
{
    return a < b + y->bytes && b < a + x->bytes;
}

/* Buffers of different ops may be what they were to each other, or apart; those of one work were looked at. */
static rondoResult_t check_pair(const struct region *x, const struct region *y, size_t works)
{
    if ((!x->written && !y->written) || (x->op == y->op && x->op < works) ||
        x->after - x->before == y->after - y->before)
        return rondoSuccess;
    if (overlap(x->after, y->after, x, y) && (x->op == y->op || !overlap(x->before, y->before, x, y)))
        return rondo_fail(rondoInvalidArgument,
                          "buffers at %p (%zu bytes) and %p (%zu bytes) would overlap at %p and %p in one launch",
                          (void *)x->before, x->bytes, (void *)y->before, y->bytes, (void *)x->after, (void *)y->after);
    return rondoSuccess;
}

static rondoResult_t check_regions(const struct regions *regions, size_t works)
{
    for (size_t i = 0; i < regions->count; i++)
        for (size_t j = 0; j < i; j++)
            RONDO_TRY(check_pair(&regions->list[i], &regions->list[j], works));
    return rondoSuccess;
}

/* With CHECK_POINTERS, as ops are checked. */
static rondoResult_t check_reach(const struct rondo_unpacked *launch, const struct regions *regions)
{
    struct rondo_anchor *anchor = rondo_env()->check_pointers ? rondo_anchor_of(launch->lane->channels) : NULL;
    void *token;
    if (!anchor)
        return rondoSuccess;
    rondoResult_t result = anchor->ops->enter(anchor->device, &token);
    const bool entered = result == rondoSuccess;
    for (size_t i = 0; i < regions->count && result == rondoSuccess; i++)
        if (regions->list[i].after != regions->list[i].before)
            result = anchor->ops->check_pointer(anchor->device, "to", (const void *)regions->list[i].after);
    if (entered)
        anchor->ops->leave(anchor->device, token);
    rondo_anchor_drop(anchor);
    return result;
}

/* How many ops have a buffer that moved. */
static size_t moved_ops(const struct regions *regions)
{
    size_t count = 0, last = SIZE_MAX;
    for (size_t i = 0; i < regions->count; i++)
        if (regions->list[i].after != regions->list[i].before && regions->list[i].op != last) {
            last = regions->list[i].op;
            count++;
        }
    return count;
}

static rondoResult_t move_all(const struct job *job, struct rondo_unpacked *launch, struct regions *regions)
{
    const struct rondo_end *end = launch->ends;
    for (size_t w = 0; w < launch->work_count; w++)
        RONDO_TRY(move_work(job, launch->lane, &launch->works[w], w, regions));
    for (size_t t = 0; t < launch->transfer_count; t++) {
        end += end->end <= t;
        RONDO_TRY(move_transfer(job, end->kind, &launch->transfers[t], launch->work_count + t, regions));
    }
    return rondoSuccess;
}

/* Adds the launch to the changes if a buffer of it moves. */
static rondoResult_t look_at_launch(struct job *job, const struct rondo_graph_node *node)
{
    struct rondo_unpacked launch;
    struct regions regions = {.count = 0};
    size_t moved = 0;
    RONDO_TRY(grow((void **)&job->changes, job->change_count, &job->change_room, sizeof *job->changes));
    void *args = malloc(node->args_bytes);
    if (!args)
        return rondo_fail(rondoSystemError, "out of memory");
    memcpy(args, node->args, node->args_bytes);
    rondo_unpack(node->kernel, args, &launch);
    regions.list = malloc((3 * launch.work_count + 2 * launch.transfer_count + 1) * sizeof *regions.list);
    rondoResult_t result =
        regions.list ? move_all(job, &launch, &regions) : rondo_fail(rondoSystemError, "out of memory");
    if (result == rondoSuccess)
        moved = moved_ops(&regions);
    if (result == rondoSuccess && moved)
        result = check_regions(&regions, launch.work_count);
    if (result == rondoSuccess && moved)
        result = check_reach(&launch, &regions);
    if (moved && launch.exports) /* nobody is to reach what the graph does not hold */
        launch.exports->send = launch.exports->recv = RONDO_EXPORT_NONE;
    if (result == rondoSuccess && moved)
        job->changes[job->change_count++] = (struct rondo_graph_change){node, args};
    else
        free(args);
    job->moved += moved;
    free(regions.list);
    return result;
}

static rondoResult_t look(struct job *job, void *graph)
{
    RONDO_TRY(grow((void **)&job->views, job->view_count, &job->view_room, sizeof *job->views));
    RONDO_TRY(job->ops->graph_open(graph, &job->views[job->view_count]));
    const struct rondo_graph_view view = job->views[job->view_count++];
    for (size_t i = 0; i < view.node_count; i++) {
        const struct rondo_graph_node *node = &view.nodes[i];
        if (node->kernel != RONDO_KERNEL_COUNT)
            RONDO_TRY(look_at_launch(job, node));
        for (unsigned b = 0; b < node->body_count; b++)
            RONDO_TRY(look(job, node->bodies[b]));
    }
    return rondoSuccess;
}

static rondoResult_t check(const void *exec, const void *graph, const rondoMove_t *moves, size_t count)
{
    if (!exec || !graph || (!moves && count))
        return rondo_fail(rondoInvalidArgument, "%s is NULL", !exec ? "exec" : !graph ? "graph" : "moves");
    for (size_t m = 0; m < count; m++) {
        const uintptr_t from = (uintptr_t)moves[m].from, to = (uintptr_t)moves[m].to;
        if (!from || !to)
            return rondo_fail(rondoInvalidArgument, "move %zu is %s NULL", m, from ? "to" : "from");
        if (moves[m].bytes > UINTPTR_MAX - (from > to ? from : to))
            return rondo_fail(rondoInvalidArgument, "move %zu of %zu bytes goes beyond the address space", m,
                              moves[m].bytes);
    }
    return rondoSuccess;
}

rondoResult_t rondoGraphRetarget(void *exec, void *graph, const rondoMove_t *moves, size_t count, size_t *changed)
{
    RONDO_RANGE("rondoGraphRetarget", 0);
    struct job job = {.moves = moves, .move_count = count};
    RONDO_TRY(check(exec, graph, moves, count));
    RONDO_TRY(rondo_device_row(&job.ops));
    rondoResult_t result = look(&job, graph);
    if (result == rondoSuccess && job.change_count)
        result = job.ops->graph_change(exec, graph, job.changes, job.change_count);
    if (result == rondoSuccess && changed)
        *changed = job.moved;
    for (size_t c = 0; c < job.change_count; c++)
        free((void *)(uintptr_t)job.changes[c].args);
    for (size_t v = 0; v < job.view_count; v++)
        job.ops->graph_close(&job.views[v]);
    free(job.changes);
    free(job.views);
    return result;
}
