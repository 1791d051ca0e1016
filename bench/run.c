#include "run.h"

#include "explain.h"
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
    /* Every rank's part has an element, however small the size. */
    size_t stride = stride_of(run->options->max_bytes + (size_t)run->options->nranks * sizeof(double));
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
    result->root = what->op->rooted ? what->place.root : -1;
    result->bytes = what->bytes;
    result->count = what->place.count;
    result->type = what->op->has_data ? number_types[what->data.type].name : "none";
    result->redop = what->op->reduces ? bench_redops[what->data.redop] : "none";
    result->ranks = run->options->nranks;
    result->device = run->device;
    result->group = run->options->group;
    result->in_place = what->place.in_place;
    double gigabytes = (double)what->bytes * run->options->group * 1e-9;
    result->algbw = result->times.us > 0 ? gigabytes / (result->times.us * 1e-6) : 0;
    result->busbw = result->algbw * what->op->bus_factor(run->options->nranks);
    result->choice = (struct bench_choice){"", "", 0};
    if (what->lib->describe)
        what->lib->describe(what->comm, what->op->name, what->op->explain_count(&what->place), what->data.type,
                            what->data.redop, &result->choice);
}

static void run_library(const struct run *run, struct bench_rank *rank, const struct bench_case *what, int index)
{
    struct run_shared *shared = procs_shared(rank->procs);
    const int planned = run->options->plan && what->lib->plan_begin;
    struct bench_result eager = {
        .mode = planned ? "plan" : "eager", .lib_index = index, .measured = run->options->iterations > 0};
    struct bench_result graph = {.mode = "graph", .lib_index = index, .measured = what->replays > 0};
    if (rank->rank == 0)
        report_progress(run->report, what->op->name, number_types[what->data.type].name, what->bytes, what->lib->name);
    if (eager.measured && planned)
        bench_plan(rank, what, &eager);
    else if (eager.measured)
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

static void set_size(const struct bench_options *options, struct bench_case *what, size_t wanted)
{
    const struct bench_op *op = what->op;
    size_t size = (size_t)number_types[what->data.type].bytes;
    int large = wanted >= LARGE_BYTES && op->has_data;
    what->place.count = op->count(wanted / size, options->nranks);
    what->bytes = op->elements(what->place.count, options->nranks) * size;
    what->stride = stride_of(what->bytes);
    op->layout(&what->place, &what->layout);
    what->ops_per_graph = options->ops_per_graph;
    if (!what->ops_per_graph)
        what->ops_per_graph = large ? LARGE_OPS_PER_GRAPH : DEFAULT_OPS_PER_GRAPH;
    what->replays = options->replays;
    if (what->replays < 0)
        what->replays = large ? LARGE_REPLAYS : DEFAULT_REPLAYS;
}

static void run_row(const struct run *run, struct bench_rank *rank, const struct libraries *libraries,
                    struct bench_case *what, size_t wanted)
{
    set_size(run->options, what, wanted);
    if (run->options->explain) {
        if (rank->rank == 0)
            explain_row(run->report, libraries->comms[0], what);
        return;
    }
    bench_upload(rank, what);
    for (int i = 0; i < libraries->count; i++) {
        if (bench_op_lacks(what->op, &libraries->libs[i], what->place.in_place))
            continue; /* the block's header says so */
        what->lib = &libraries->libs[i];
        what->comm = libraries->comms[i];
        run_library(run, rank, what, i);
    }
}

/* One type, and one reduction of ops that reduce. */
static void run_sizes(const struct run *run, struct bench_rank *rank, const struct libraries *libraries,
                      const struct bench_op *op, const struct data *data)
{
    const struct bench_options *options = run->options;
    struct bench_case what = {.op = op,
                              .data = *data,
                              .place = {.rank = rank->rank,
                                        .nranks = options->nranks,
                                        .root = options->root,
                                        .in_place = options->in_place && op->in_place}};
    if (!op->has_data)
        run_row(run, rank, libraries, &what, 0);
    for (size_t bytes = options->min_bytes; bytes && op->has_data; bytes = options_next_size(options, bytes))
        run_row(run, rank, libraries, &what, bytes);
}

static void run_op(const struct run *run, struct bench_rank *rank, const struct libraries *libraries,
                   const struct bench_op *op)
{
    const struct bench_options *options = run->options;
    unsigned types = op->has_data ? options->types : 1u << rondoFloat;
    unsigned redops = op->reduces ? options->redops : 1u << rondoMax; /* data that tell places apart best */
    if (rank->rank == 0)
        report_op(run->report, op, libraries->libs, libraries->count);
    for (int type = 0; type < rondoNumTypes; type++)
        for (int redop = 0; redop < rondoNumOps; redop++) {
            struct data data = {.type = (rondoDataType_t)type, .redop = (rondoRedOp_t)redop, .nranks = options->nranks};
            if (types >> type & redops >> redop & 1)
                run_sizes(run, rank, libraries, op, &data);
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
    for (int op = 0; op < bench_op_count; op++)
        if (run->options->ops >> op & 1)
            run_op(run, &rank, &libraries, &bench_ops[op]);
    bench_together(&rank);
    close_libraries(&rank, &libraries);
    close_rank(&rank);
    if (number == 0)
        report_end(run->report, shared->wrong);
    return 0;
}
