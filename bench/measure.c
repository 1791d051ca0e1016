#include "measure.h"

#include "number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GRAPH_WARMUP = 3 };

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
    if (options->group > 1)
        bench_require(rank->rank, what->lib, what->lib->group_start(), "GroupStart", what->comm);
    for (int i = 0; i < options->group; i++) {
        char *recv = rank->recv + (size_t)i * what->stride;
        struct bench_call call = {.send = options->in_place ? recv : rank->send + (size_t)i * what->stride,
                                  .recv = recv,
                                  .count = what->count,
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

void bench_upload(struct bench_rank *rank, const struct bench_case *what)
{
    struct data data = what->data;
    for (int i = 0; i < rank->options->group; i++) {
        data.shift = (size_t)i * 31;
        data_input(&data, rank->rank, rank->staging, what->count);
        rank->machine->upload(rank->send + (size_t)i * what->stride, rank->staging, what->bytes);
    }
}

/* A result that a library failed to write must not be right by accident. */
static void poison(struct bench_rank *rank, const struct bench_case *what)
{
    if (rank->options->check)
        rank->machine->fill(rank->recv, DATA_POISON, all_bytes(rank, what));
    bench_together(rank); /* a peer may write to our buffer as soon as it is past this */
}

/* `first`: the index of the first wrong element in `staging`. */
static void tell_wrong(const struct bench_rank *rank, const struct bench_case *what, const struct data *data,
                       const char *mode, size_t first)
{
    const struct number_type *type = &number_types[data->type];
    double got = number_decode(data->type, rank->staging + first * (size_t)type->bytes);
    fprintf(stderr, "rondo-perf: rank %d: %s %s %s %s, %zu bytes, %s: element %zu is %.17g, not %.17g\n", rank->rank,
            what->lib->name, what->op->name, type->name, bench_redops[data->redop], what->bytes, mode, first, got,
            data_expected(data, first));
}

static void verify(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result)
{
    if (!rank->options->check)
        return;
    struct data data = what->data;
    double wrong = 0;
    for (int i = 0; i < rank->options->group; i++) {
        data.shift = (size_t)i * 31;
        size_t first = 0;
        rank->machine->download(rank->staging, rank->recv + (size_t)i * what->stride, what->bytes);
        size_t bad = data_wrong(&data, rank->staging, what->count, &first);
        if (bad && wrong == 0)
            tell_wrong(rank, what, &data, result->mode, first);
        wrong += (double)bad;
    }
    if (procs_sum(rank->procs, rank->rank, &wrong) != 0)
        _exit(1);
    result->checked = 1;
    result->wrong += wrong;
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

void bench_eager(struct bench_rank *rank, const struct bench_case *what, struct bench_result *result)
{
    const struct bench_options *options = rank->options;
    int before = options->compute_us > 0 ? WITH_COMPUTE : 0;
    poison(rank, what);
    for (int i = 0; i < options->warmup; i++)
        step(rank, what, before | WITH_OP);
    finish(rank, what);
    eager_times(rank, what, before | WITH_OP, &result->times);
    if (options->in_place && options->check) {
        step(rank, what, WITH_COPY | WITH_OP);
        finish(rank, what);
    }
    verify(rank, what, result);
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
    for (int i = 0; i < GRAPH_WARMUP; i++)
        machine->graph_launch(graph, rank->stream);
    finish(rank, what);
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
    if (!rank->options->check)
        return;
    struct machine_graph *graph = timed;
    if (rank->options->in_place)
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
