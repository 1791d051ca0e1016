#include "run.h"

#include "measure.h"
#include "number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    DEFAULT_OPS_PER_GRAPH = 20,
    DEFAULT_REPLAYS = 50,
    LARGE_BYTES = 16 << 20, /* from here on, fewer of both */
    LARGE_OPS_PER_GRAPH = 4,
    LARGE_REPLAYS = 10,
    BUFFER_ALIGNMENT = 256,
};

/* A rank's libraries and their comms. */
struct libraries {
    struct bench_lib libs[LIBRARY_MAX];
    rondoComm_t comms[LIBRARY_MAX];
    double init_ms[LIBRARY_MAX];
    int count;
};

size_t run_samples(const struct bench_options *options)
{
    int replays = options->replays < 0 ? DEFAULT_REPLAYS : options->replays;
    return (size_t)(options->iterations > replays ? options->iterations : replays);
}

size_t run_shared_bytes(const struct bench_options *options)
{
    return sizeof(struct run_shared) + (size_t)options->nranks * run_samples(options) * sizeof(double);
}

static size_t stride_of(size_t bytes)
{
    return (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static void open_libraries(const struct run *run, struct bench_rank *rank, struct libraries *libraries)
{
    struct run_shared *shared = procs_shared(rank->procs);
    const struct bench_options *options = run->options;
    libraries->count = 1 + options->lib_count;
    library_rondo(&libraries->libs[0]);
    for (int i = 0; i < options->lib_count; i++) {
        char text[512];
        if (library_load(&libraries->libs[i + 1], options->libs[i], run->device, text, sizeof text) != 0)
            bench_fail(rank->rank, "%s", text);
    }
    for (int i = 0; i < libraries->count; i++) {
        const struct bench_lib *lib = &libraries->libs[i];
        if (rank->rank == 0)
            bench_require(0, lib, lib->get_unique_id(&shared->ids[i]), "GetUniqueId", NULL);
        bench_together(rank);
        double start = now_ms();
        bench_require(rank->rank, lib,
                      lib->comm_init_rank(&libraries->comms[i], options->nranks, shared->ids[i], rank->rank),
                      "CommInitRank", NULL);
        libraries->init_ms[i] = now_ms() - start;
        if (procs_max(rank->procs, rank->rank, &libraries->init_ms[i]) != 0)
            _exit(1);
    }
}

static void close_libraries(struct bench_rank *rank, struct libraries *libraries)
{
    for (int i = 0; i < libraries->count; i++) {
        bench_together(rank);
        const struct bench_lib *lib = &libraries->libs[i];
        bench_require(rank->rank, lib, lib->comm_destroy(libraries->comms[i]), "CommDestroy", NULL);
    }
}

static void open_rank(const struct run *run, struct bench_rank *rank)
{
    struct run_shared *shared = procs_shared(rank->procs);
    const struct machine *machine = rank->machine;
    struct run_about *about = &shared->about[rank->rank];
    about->pid = getpid();
    about->number = rank->rank % run->device_count;
    machine->set_device(about->number);
    machine->device_name(about->number, about->device, sizeof about->device);
    rank->stream = machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    rank->from = machine->event_create();
    rank->to = machine->event_create();
    size_t stride = stride_of(run->options->max_bytes + sizeof(double));
    rank->send = machine->alloc(stride * (size_t)run->options->group);
    rank->recv = machine->alloc(stride * (size_t)run->options->group);
    machine->fill(rank->send, 0, stride * (size_t)run->options->group);
    machine->fill(rank->recv, 0, stride * (size_t)run->options->group);
    rank->staging = malloc(stride);
    if (!rank->staging)
        bench_fail(rank->rank, "no memory for %zu bytes", stride);
}

static void close_rank(struct bench_rank *rank)
{
    const struct machine *machine = rank->machine;
    free(rank->staging);
    machine->free(rank->send);
    machine->free(rank->recv);
    machine->event_destroy(rank->from);
    machine->event_destroy(rank->to);
    machine->stream_destroy(rank->stream);
}

/* ---- rows ---- */

static void fill_in(const struct run *run, const struct bench_case *what, struct bench_result *result)
{
    result->lib = what->lib->name;
    result->version = what->lib->version;
    result->op = what->op->name;
    result->bytes = what->bytes;
    result->count = what->count;
    result->type = number_types[what->data.type].name;
    result->redop = bench_redops[what->data.redop];
    result->ranks = run->options->nranks;
    result->device = run->device;
    result->group = run->options->group;
    double gigabytes = (double)what->bytes * run->options->group * 1e-9;
    result->algbw = result->times.us > 0 ? gigabytes / (result->times.us * 1e-6) : 0;
    result->busbw = result->algbw * what->op->bus_factor(run->options->nranks);
    if (what->lib->describe)
        what->lib->describe(what->comm, what->op->name, what->count, what->data.type, what->data.redop,
                            &result->choice);
}

static void run_library(const struct run *run, struct bench_rank *rank, const struct bench_case *what, int index)
{
    struct run_shared *shared = procs_shared(rank->procs);
    struct bench_result eager = {.mode = "eager", .lib_index = index, .measured = run->options->iterations > 0};
    struct bench_result graph = {.mode = "graph", .lib_index = index, .measured = what->replays > 0};
    if (rank->rank == 0)
        report_progress(run->report, what->op->name, number_types[what->data.type].name, what->bytes, what->lib->name);
    if (eager.measured)
        bench_eager(rank, what, &eager);
    if (graph.measured)
        bench_graph(rank, what, &graph);
    if (rank->rank != 0)
        return;
    fill_in(run, what, &eager);
    fill_in(run, what, &graph);
    shared->wrong = shared->wrong + eager.wrong + graph.wrong;
    report_row(run->report, &eager, &graph);
}

static void run_row(const struct run *run, struct bench_rank *rank, const struct libraries *libraries,
                    struct bench_case *what, size_t wanted)
{
    const struct bench_options *options = run->options;
    size_t size = (size_t)number_types[what->data.type].bytes;
    int large = wanted >= LARGE_BYTES;
    what->count = wanted / size ? wanted / size : 1;
    what->bytes = what->count * size;
    what->stride = stride_of(what->bytes);
    what->ops_per_graph = options->ops_per_graph;
    if (!what->ops_per_graph)
        what->ops_per_graph = large ? LARGE_OPS_PER_GRAPH : DEFAULT_OPS_PER_GRAPH;
    what->replays = options->replays;
    if (what->replays < 0)
        what->replays = large ? LARGE_REPLAYS : DEFAULT_REPLAYS;
    bench_upload(rank, what);
    for (int i = 0; i < libraries->count; i++) {
        what->lib = &libraries->libs[i];
        what->comm = libraries->comms[i];
        run_library(run, rank, what, i);
    }
}

static void run_rows(const struct run *run, struct bench_rank *rank, const struct libraries *libraries)
{
    const struct bench_options *options = run->options;
    for (int op = 0; op < bench_op_count; op++)
        for (int type = 0; type < rondoNumTypes; type++)
            for (int redop = 0; redop < rondoNumOps; redop++) {
                if (!(options->ops >> op & options->types >> type & options->redops >> redop & 1))
                    continue;
                struct bench_case what = {
                    .op = &bench_ops[op],
                    .data = {.type = (rondoDataType_t)type, .redop = (rondoRedOp_t)redop, .nranks = options->nranks}};
                for (size_t bytes = options->min_bytes; bytes; bytes = options_next_size(options, bytes))
                    run_row(run, rank, libraries, &what, bytes);
            }
}

int run_rank(struct procs *procs, int number, void *argument)
{
    const struct run *run = argument;
    struct run_shared *shared = procs_shared(procs);
    struct bench_rank rank = {.options = run->options,
                              .machine = machine_find(run->device),
                              .procs = procs,
                              .rank = number,
                              .samples = shared->samples,
                              .max_samples = run_samples(run->options)};
    struct libraries libraries = {.count = 0};
    open_rank(run, &rank);
    open_libraries(run, &rank, &libraries);
    if (number == 0)
        report_begin(run->report, shared->about, libraries.libs, libraries.init_ms, libraries.count);
    run_rows(run, &rank, &libraries);
    bench_together(&rank);
    close_libraries(&rank, &libraries);
    close_rank(&rank);
    if (number == 0)
        report_end(run->report, shared->wrong);
    return 0;
}
