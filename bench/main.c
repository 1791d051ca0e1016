/* rondo-perf: parses options, looks at the machine in a process of its own (this one must not touch CUDA before it
 * forks), and supervises the ranks. */
#include "library.h"
#include "options.h"
#include "report.h"
#include "run.h"
#include "tune.h"

#include "machine.h"
#include "procs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, HOST_RANKS = 2 };

/* What looking found; shared memory. */
struct found {
    char device[16];
    int device_count;
    char text[512]; /* why nothing can be measured, or "" */
};

static int look(struct procs *procs, int rank, void *argument)
{
    (void)rank;
    const struct bench_options *options = argument;
    struct found *found = procs_shared(procs);
    const struct machine *machine = machine_find(options->device);
    if (!machine) {
        const char *name = options->device ? options->device : getenv("RONDO_DEVICE");
        snprintf(found->text, sizeof found->text, "this build has no device \"%s\"", name);
        return 0;
    }
    snprintf(found->device, sizeof found->device, "%s", machine->name);
    found->device_count = machine->device_count();
    if (found->device_count < 1)
        snprintf(found->text, sizeof found->text, "no GPU was found; --device host measures on CPUs");
    for (int i = 0; i < options->lib_count && !found->text[0]; i++) {
        struct bench_lib lib;
        library_load(&lib, options->libs[i], machine->name, found->text, sizeof found->text);
    }
    return 0;
}

static int look_around(const struct bench_options *options, struct found *result)
{
    struct procs_options alone = {.nranks = 1, .shared_bytes = sizeof(struct found)};
    struct procs *procs = procs_create(&alone);
    if (!procs)
        return -1;
    struct procs_outcome outcome;
    int failures = procs_run(procs, look, (void *)options, &outcome);
    *result = *(struct found *)procs_shared(procs);
    procs_destroy(procs);
    if (failures) {
        char text[128];
        procs_describe(&outcome, text, sizeof text);
        snprintf(result->text, sizeof result->text, "the process that looks for devices %s", text);
    }
    return 0;
}

/* Ranks that the supervisor stopped, and those that ended because of a failure, are not worth a line. */
static void tell_failures(const struct procs_outcome *outcomes, int nranks)
{
    for (int rank = 0; rank < nranks; rank++) {
        char text[128];
        if (!outcomes[rank].first && outcomes[rank].end != PROCS_KILLED)
            continue;
        procs_describe(&outcomes[rank], text, sizeof text);
        fprintf(stderr, "rondo-perf: rank %d %s; the run is over\n", rank, text);
    }
}

/* How long the ranks may go on without meeting: what takes longest on a slow machine, and then some. */
static int stall_limit_ms(const struct bench_options *options)
{
    double replayed =
        (options->replays < 0 ? 50.0 : options->replays) * (options->ops_per_graph ? options->ops_per_graph : 20.0);
    double steps = options->iterations + options->warmup + replayed;
    double call_ms = 1 + (double)options->max_bytes / 1e5; /* at 100 MB/s */
    double step_ms = (call_ms * options->group + options->compute_us * 1e-3) * options->nranks;
    double limit = 120e3 + steps * step_ms;
    return limit < INT_MAX ? (int)limit : INT_MAX;
}

static int run_all(const struct bench_options *options, const struct found *found, struct report *report)
{
    struct procs_options how = {.nranks = options->nranks,
                                .ranks_per_process = options->threads ? options->nranks : 1,
                                .stall_limit_ms = stall_limit_ms(options),
                                .shared_bytes = run_shared_bytes(options)};
    struct procs *procs = procs_create(&how);
    if (!procs) {
        fprintf(stderr, "rondo-perf: no shared memory\n");
        return EXIT_WRONG;
    }
    struct run run = {
        .options = options, .device = found->device, .device_count = found->device_count, .report = report};
    struct procs_outcome outcomes[PROCS_MAX_RANKS];
    int failures = procs_run(procs, run_rank, &run, outcomes);
    const struct run_shared *shared = procs_shared(procs);
    int bad = failures > 0 || shared->wrong > 0;
    if (failures)
        tell_failures(outcomes, options->nranks);
    procs_destroy(procs);
    return bad ? EXIT_WRONG : 0;
}

static int run_again(void *found, const struct bench_options *options, struct report *report)
{
    return run_all(options, found, report);
}

int main(int argc, char **argv)
{
    struct bench_options options;
    struct found found;
    struct report report;
    char text[512];
    switch (options_parse(&options, argc, argv)) {
    case OPTIONS_DONE:
        return 0;
    case OPTIONS_BAD:
        return EXIT_USAGE;
    case OPTIONS_RUN:
        break;
    }
    if (look_around(&options, &found) != 0 || found.text[0]) {
        fprintf(stderr, "rondo-perf: %s\n", found.text);
        return EXIT_USAGE;
    }
    setenv("RONDO_DEVICE", found.device, 1); /* the library's choice, like ours */
    if (options.nranks == 0)
        options.nranks = strcmp(found.device, "host") == 0 ? HOST_RANKS : found.device_count;
    if (options.nranks > PROCS_MAX_RANKS)
        options.nranks = PROCS_MAX_RANKS;
    if (options.root >= options.nranks) {
        fprintf(stderr, "rondo-perf: -r %d is no rank; there are %d, from 0 (see rondo-perf --help)\n", options.root,
                options.nranks);
        return EXIT_USAGE;
    }
    if (options.tune)
        return tune(&(struct tune_how){&options, found.device, run_again, &found});
    if (report_open(&report, &options, found.device, text, sizeof text) != 0) {
        fprintf(stderr, "rondo-perf: %s\n", text);
        return EXIT_USAGE;
    }
    return run_all(&options, &found, &report);
}
