#include "measure.h"

#include "number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A library may go on with what a capture began (Rondo has the peers map the graph's buffers, for which a GiB takes some 20 ms): it
 * gets some time between the first replays. */
enum { GRAPH_WARMUP = 3, SETTLE_US = 20000, LATE_US = 2000 };

/* What a step of the stream consists of, in this order. */
enum {
    WITH_COPY = 1,    /* input to the receive buffer: for in-place ops whose result is checked */
    WITH_COMPUTE = 2, /* the --compute kernel */
    WITH_OP = 4,
};

_Noreturn void bench_fail(int rank, const char *format, ...)
{
    char text[1024]; /* in one piece: ranks fail together */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "rondo-perf: rank %d: %s\n", rank, text);
    fflush(NULL);
    _exit(1);
}

void bench_require(int rank, const struct bench_lib *lib, rondoResult_t result, const char *call, rondoComm_t comm)
{
    if (result != rondoSuccess)
        bench_fail(rank, "%s %s: %s: %s (%s)", lib->name, lib->version, call, lib->get_error_string(result),
                   lib->get_last_error(comm));
}

void bench_together(struct bench_rank *rank)
{
    if (procs_barrier(rank->procs) != 0) {
        fflush(NULL);
        _exit(1);
    }
}

static double slowest(struct bench_rank *rank, double value)
{
    if (procs_max(rank->procs, rank->rank, &value) != 0)
        _exit(1);
    return value;
}

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* ---- one step ---- */

static void call_op(struct bench_rank *rank, const struct bench_case *what)
{
    const struct bench_options *options = rank->options;
    if (what->plan) {
        bench_require(rank->rank, what->lib, what->lib->plan_launch(what->plan, rank->stream), "PlanLaunch",
                      what->comm);
        return;
    }
    if (options->group > 1)
        bench_require(rank->rank, what->lib, what->lib->group_start(), "GroupStart", what->comm);
    for (int i = 0; i < options->group; i++) {
        size_t size = (size_t)number_types[what->data.type].bytes;
        char *recv = rank->recv + (size_t)i * what->stride;
        char *send = what->place.in_place ? recv : rank->send + (size_t)i * what->stride;
        struct bench_call call = {.place = what->place,
                                  .send = send + what->layout.send_at * size,
                                  .recv = recv + what->layout.recv_at * size,
                                  .type = what->data.type,
                                  .redop = what->data.redop,
                                  .comm = what->comm,
                                  .stream = rank->stream};
        bench_require(rank->rank, what->lib, what->op->issue(what->lib, &call), what->op->function, what->comm);
    }
    if (options->group > 1)
        bench_require(rank->rank, what->lib, what->lib->group_end(), "GroupEnd", what->comm);
}

static size_t all_bytes(const struct bench_rank *rank, const struct bench_case *what)
{
    return what->stride * (size_t)rank->options->group;
}

/* Returns the host's time in the op's call. */
static double step(struct bench_rank *rank, const struct bench_case *what, int parts)
{
    if (parts & WITH_COPY)
        rank->machine->copy(rank->recv, rank->send, all_bytes(rank, what), rank->stream);
    if (parts & WITH_COMPUTE)
        rank->machine->compute(rank->options->compute_us, rank->stream);
    if (!(parts & WITH_OP))
        return 0;
    double start = now_us();
    call_op(rank, what);
    return now_us() - start;
}

/* Waits for the stream, and looks whether the library has given up. */
static void finish(struct bench_rank *rank, const struct bench_case *what)
{
    rank->machine->stream_sync(rank->stream);
    rondoResult_t error = rondoSuccess;
    bench_require(rank->rank, what->lib, what->lib->comm_get_async_error(what->comm, &error), "CommGetAsyncError",
                  what->comm);
    if (error != rondoSuccess && error != rondoInProgress)
        bench_require(rank->rank, what->lib, error, "asynchronous error", what->comm);
}

/* ---- data ---- */

/* So that the buffers of a group differ. */
static size_t shift_of(int call)
{
    return (size_t)call * 31;
}

void bench_upload(struct bench_rank *rank, const struct bench_case *what)
{
    const struct bench_layout *layout = &what->layout;
    size_t size = (size_t)number_types[what->data.type].bytes;
    struct data data = what->data;
    if (layout->send_count == 0)
        return;
    rank->machine->fill(rank->send, DATA_POISON, all_bytes(rank, what));
    for (int i = 0; i < rank->options->group; i++) {
        data.shift = shift_of(i);
        data_input(&data, rank->rank, rank->staging, layout->send_count);
        rank->machine->upload(rank->send + (size_t)i * what->stride + layout->send_at * size, rank->staging,
                              layout->send_count * size);
    }
}

/* A result that a library failed to write must not be right by accident. */
static void poison(struct bench_rank *rank, const struct bench_case *what)
{
    if (rank->options->check && what->op->has_data)
        rank->machine->fill(rank->recv, DATA_POISON, all_bytes(rank, what));
    bench_together(rank); /* a peer may write to our buffer as soon as it is past this */
}

static void tell_wrong(const struct bench_rank *rank, const struct bench_case *what, const char *mode,
                       const char *complaint)
{
    const char *reduction = what->op->reduces ? bench_redops[what->data.redop] : "";
    fprintf(stderr, "rondo-perf: rank %d: %s %s %s%s%s, %zu bytes, %s: %s\n", rank->rank, what->lib->name,
            what->op->name, number_types[what->data.type].name, *reduction ? " " : "", reduction, what->bytes, mode,
            complaint);
}

/* Wrong elements of one piece of the results, which lie in `staging`. The first is described in `complaint` if that is
 * still empty. */
static size_t part_wrong(const struct bench_rank *rank, const struct data *whole, const struct bench_part *part,
                         char *complaint, size_t room)
{
    const struct number_type *type = &number_types[whole->type];
    struct data data = *whole;
    size_t first = 0;
    data.shift += part->index;
    const char *got = rank->staging + part->at * (size_t)type->bytes;
    size_t wrong = part->from == BENCH_REDUCED ? data_wrong(&data, got, part->count, &first)
                                               : data_moved_wrong(&data, part->from, got, part->count, &first);
    if (wrong && !*complaint)
        snprintf(complaint, room, "element %zu is %.17g, not %.17g", part->at + first,
                 number_decode(data.type, got + first * (size_t)type->bytes),
                 part->from == BENCH_REDUCED ? data_expected(&data, first) : data_given(&data, part->from, first));
    return wrong;
}

/* Elements of one call's receive buffer that are wrong, those included that are not to be written. */
static size_t call_wrong(struct bench_rank *rank, const struct bench_case *what, int call, char *complaint, size_t room)
{
    const struct bench_layout *layout = &what->layout;
    size_t size = (size_t)number_types[what->data.type].bytes;
    size_t end = layout->recv_count * size;
    struct data data = what->data;
    size_t wrong = 0;
    data.shift = shift_of(call);
    if (what->place.in_place) /* what is beside the results is input, or was */
        rank->machine->download(rank->staging, rank->recv + (size_t)call * what->stride + layout->recv_at * size, end);
    else
        rank->machine->download(rank->staging, rank->recv + (size_t)call * what->stride, what->stride);
    for (int p = 0; p < what->place.nranks; p++) {
        struct bench_part part;
        what->op->part(&what->place, p, &part);
        wrong += part.count ? part_wrong(rank, &data, &part, complaint, room) : 0;
    }
    if (what->place.in_place)
        return wrong;
    size_t touched = data_touched(rank->staging + end, what->stride - end);
    if (touched && !*complaint)
        snprintf(complaint, room, "%zu bytes behind the %zu that it receives were written", touched, end);
    return wrong + (touched + size - 1) / size;
}

static void add_wrong(struct bench_rank *rank, double wrong, struct bench_result *result)
{
    if (procs_sum(rank->procs, rank->rank, &wrong) != 0)
        _exit(1);
    result->checked = 1;
    result->wrong += wrong;
}

static void verify(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result)
{
    char complaint[200] = "";
    double wrong = 0;
    if (!rank->options->check || !what->op->has_data)
        return;
    for (int i = 0; i < rank->options->group; i++)
        wrong += (double)call_wrong(rank, what, i, complaint, sizeof complaint);
    if (*complaint)
        tell_wrong(rank, what, result->mode, complaint);
    add_wrong(rank, wrong, result);
}

/* An op without data is verified by what it is for: each rank comes late once, and nobody may be through before it. With
 * a graph, that is the first op in it. */
static void verify_meeting(struct bench_rank *rank, const struct bench_case *what, struct machine_graph *graph,
                           struct bench_result *result)
{
    double wrong = 0;
    if (!rank->options->check || what->op->has_data)
        return;
    for (int late = 0; late < what->place.nranks; late++) {
        bench_together(rank);
        if (rank->rank == late)
            usleep(LATE_US);
        double came = now_us();
        if (graph)
            rank->machine->graph_launch(graph, rank->stream);
        else
            step(rank, what, WITH_OP);
        finish(rank, what);
        double left = now_us();
        int early = left < slowest(rank, came);
        if (early && wrong == 0)
            tell_wrong(rank, what, result->mode, "it was over before all ranks had come");
        wrong += early;
    }
    add_wrong(rank, wrong, result);
}

/* ---- samples ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *samples_of(struct bench_rank *rank, int of)
{
    return rank->samples + (size_t)of * rank->max_samples;
}

/* Every rank has left `count` samples; of each, the slowest rank counts. */
static void summarize(struct bench_rank *rank, int count, struct bench_times *times)
{
    bench_together(rank);
    if (rank->rank == 0) {
        double *slow = samples_of(rank, 0);
        for (int peer = 1; peer < rank->options->nranks; peer++)
            for (int i = 0; i < count; i++)
                slow[i] = fmax(slow[i], samples_of(rank, peer)[i]);
        qsort(slow, (size_t)count, sizeof *slow, ascending);
        times->min = slow[0];
        times->p50 = slow[(count - 1) / 2];
        times->p99 = slow[(int)ceil(0.99 * count) - 1];
        times->max = slow[count - 1];
    }
    bench_together(rank);
}

static void subtract(struct bench_times *times, const struct bench_times *alone)
{
    times->us -= alone->us;
    times->min -= alone->p50;
    times->p50 -= alone->p50;
    times->p99 -= alone->p50;
    times->max -= alone->p50;
}

/* ---- eager ---- */

static void eager_times(struct bench_rank *rank, const struct bench_case *what, int parts, struct bench_times *times)
{
    const struct machine *machine = rank->machine;
    int count = rank->options->iterations;
    double host = 0;
    bench_together(rank);
    double start = now_us();
    for (int i = 0; i < count; i++)
        host += step(rank, what, parts);
    machine->stream_sync(rank->stream);
    double end = now_us();
    finish(rank, what);
    times->us = slowest(rank, (end - start) / count);
    times->host_us = slowest(rank, host / count);
    for (int i = 0; i < count; i++) {
        bench_together(rank);
        machine->event_record(rank->from, rank->stream);
        step(rank, what, parts);
        machine->event_record(rank->to, rank->stream);
        machine->stream_sync(rank->stream);
        samples_of(rank, rank->rank)[i] = machine->event_elapsed_us(rank->from, rank->to);
    }
    finish(rank, what);
    summarize(rank, count, times);
}

void bench_plan(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result)
{
    struct bench_case planned = *what;
    bench_require(rank->rank, what->lib, what->lib->plan_begin(), "PlanBegin", what->comm);
    call_op(rank, what);
    bench_require(rank->rank, what->lib, what->lib->plan_end(&planned.plan), "PlanEnd", what->comm);
    bench_eager(rank, &planned, result);
    bench_require(rank->rank, what->lib, what->lib->plan_destroy(planned.plan), "PlanDestroy", what->comm);
}

void bench_eager(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result)
{
    const struct bench_options *options = rank->options;
    int before = options->compute_us > 0 ? WITH_COMPUTE : 0;
    poison(rank, what);
    for (int i = 0; i < options->warmup; i++)
        step(rank, what, before | WITH_OP);
    finish(rank, what);
    eager_times(rank, what, before | WITH_OP, &result->times);
    if (what->place.in_place && options->check) {
        step(rank, what, WITH_COPY | WITH_OP);
        finish(rank, what);
    }
    verify(rank, what, result);
    verify_meeting(rank, what, NULL, result);
    if (before) {
        struct bench_times alone;
        eager_times(rank, what, before, &alone);
        subtract(&result->times, &alone);
    }
}

/* ---- graphs ---- */

static struct machine_graph *capture(struct bench_rank *rank, const struct bench_case *what, int parts)
{
    rank->machine->capture_begin(rank->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < what->ops_per_graph; i++)
        step(rank, what, parts);
    return rank->machine->capture_end(rank->stream);
}

static void graph_times(struct bench_rank *rank, const struct bench_case *what, struct machine_graph *graph,
                        struct bench_times *times)
{
    const struct machine *machine = rank->machine;
    int count = what->replays;
    for (int i = 0; i < GRAPH_WARMUP; i++) {
        machine->graph_launch(graph, rank->stream);
        finish(rank, what);
        usleep(SETTLE_US);
    }
    bench_together(rank);
    machine->event_record(rank->from, rank->stream);
    for (int i = 0; i < count; i++)
        machine->graph_launch(graph, rank->stream);
    machine->event_record(rank->to, rank->stream);
    finish(rank, what);
    times->us = slowest(rank, machine->event_elapsed_us(rank->from, rank->to) / count / what->ops_per_graph);
    for (int i = 0; i < count; i++) {
        bench_together(rank);
        machine->event_record(rank->from, rank->stream);
        machine->graph_launch(graph, rank->stream);
        machine->event_record(rank->to, rank->stream);
        machine->stream_sync(rank->stream);
        samples_of(rank, rank->rank)[i] = machine->event_elapsed_us(rank->from, rank->to) / what->ops_per_graph;
    }
    finish(rank, what);
    summarize(rank, count, times);
}

/* Results are checked twice: what the timed replays left, and after one more replay onto poisoned memory. In-place
 * ops destroy their input, so theirs are checked in a graph that restores it before each op. */
static void check_replays(struct bench_rank *rank, const struct bench_case *what, struct machine_graph *timed,
                          struct bench_result *result)
{
    verify_meeting(rank, what, timed, result);
    if (!rank->options->check || !what->op->has_data)
        return;
    struct machine_graph *graph = timed;
    if (what->place.in_place)
        graph = capture(rank, what, WITH_COPY | WITH_OP);
    else
        verify(rank, what, result);
    poison(rank, what);
    rank->machine->graph_launch(graph, rank->stream);
    finish(rank, what);
    verify(rank, what, result);
    if (graph != timed)
        rank->machine->graph_destroy(graph);
}

void bench_graph(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result)
{
    int before = rank->options->compute_us > 0 ? WITH_COMPUTE : 0;
    struct machine_graph *graph = capture(rank, what, before | WITH_OP);
    poison(rank, what);
    graph_times(rank, what, graph, &result->times);
    check_replays(rank, what, graph, result);
    bench_together(rank); /* nobody destroys what a peer's replay may still talk to */
    rank->machine->graph_destroy(graph);
    if (before) {
        struct bench_times alone;
        graph = capture(rank, what, before);
        graph_times(rank, what, graph, &alone);
        rank->machine->graph_destroy(graph);
        subtract(&result->times, &alone);
    }
}
