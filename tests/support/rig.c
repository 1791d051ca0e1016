#include "support/rig.h"

#include "comm/parting.h"
#include "common/arena.h"
#include "common/clock.h"
#include "device/anchor.h"
#include "harness/data.h"
#include "harness/number.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shared {
    struct rig_options options;
    uintptr_t body; /* packed */
    rondoUniqueId ids[RIG_IDS];
    char scratch[RIG_SCRATCH];
};

/* GPUs of this machine, told without CUDA: a process that only starts ranks needs no context on them. */
static int gpus(void)
{
    int count = 0;
    char path[32];
    const char *device = getenv("RONDO_DEVICE");
#ifdef RONDO_WITH_CUDA
    if (!device || strcmp(device, "host"))
        while (snprintf(path, sizeof path, "/dev/nvidia%d", count), access(path, F_OK) == 0)
            count++;
#endif
    (void)device;
    (void)path;
    return count;
}

bool rig_on_host(void)
{
    return gpus() == 0;
}

long rig_parameter(const char *name, long preset)
{
    const char *text = getenv(name);
    return text ? atol(text) : preset;
}

int rig_ranks_most(int wanted)
{
    const char *more = getenv("RONDO_TEST_RANKS"); /* several on a GPU, with RONDO_SHARED_DEVICE=1 */
    const int have = more ? atoi(more) : gpus();
    return have && have < wanted ? have : wanted;
}

int rig_ranks(int wanted)
{
    const char *least = getenv("RONDO_TEST_RANKS_LEAST");
    return rig_ranks_most(least && atoi(least) > wanted ? atoi(least) : wanted);
}

bool rig_runs_with(int ranks)
{
    return rig_ranks_most(ranks) == ranks && (!RIG_SLOW || ranks == 2 || ranks == 5);
}

int rig_barrier(struct rig *rig)
{
    return procs_barrier(rig->procs);
}

/* What ranks of this process leave behind, when all have ended their comms. Those of other processes too: a mailbox in legacy IPC
 * memory stays until its peers have. */
static int clean(struct rig *rig)
{
    if (rig_barrier(rig) != 0)
        return 0; /* another has failed */
    RIG_CHECK(rondo_arena_total_bytes() == 0, "%zu bytes left in arenas", rondo_arena_total_bytes());
    rondo_anchor_reap();
    for (int wait = 0; wait < 500 && rondo_anchor_count(); wait++) {
        usleep(10000); /* graphs are destroyed behind what runs, and CUDA calls destructors when it likes */
        rondo_partings_reap();
        rondo_anchor_reap();
    }
    RIG_CHECK(rondo_anchor_count() == 0, "%u anchors left", rondo_anchor_count());
    return 0;
}

static int ranks_per_process(const struct rig_options *options)
{
#ifdef __SANITIZE_THREAD__
    const bool together = options->layout == RIG_THREADS || (options->layout == RIG_PROCESSES && !options->apart);
#else
    const bool together = options->layout == RIG_THREADS;
#endif
    return together ? options->ranks : options->layout == RIG_PAIRS ? 2 : 1;
}

int rig_device(const struct rig *rig, int rank)
{
    return rig_on_host() ? rank : rank % rig->machine->device_count();
}

static int start(struct procs *procs, int rank, void *argument)
{
    struct shared *shared = argument;
    const struct rig_options *options = &shared->options;
    struct rig rig_ = {.machine = machine_find(NULL), .procs = procs, .rank = rank, .ranks = options->ranks};
    struct rig *rig = &rig_;
    rig->alone = ranks_per_process(options) == 1;
    rig->ids = shared->ids;
    rig->scratch = shared->scratch;
    if (rank == 0)
        for (int i = 0; i < RIG_IDS; i++)
            RIG_OK(rondoGetUniqueId(&rig->ids[i]));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rig->machine->set_device(rig_device(rig, rank));
    if (!options->no_comm)
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[0], rank));
    rig->stream = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    int failed = ((rig_body)procs_unpack(shared->body))(rig);
    if (failed)
        return failed;
    if (!options->keep_comm && !options->no_comm)
        RIG_OK(rondoCommDestroy(rig->comm));
    rig->machine->stream_destroy(rig->stream);
    return options->may_fail ? 0 : clean(rig);
}

int rig_run(const struct rig_options *options, rig_body body)
{
    const struct procs_options how = {
        .nranks = options->ranks,
        .ranks_per_process = ranks_per_process(options),
        .time_limit_ms = 200000,
        .grace_ms = options->may_fail ? -1 : 2000,
        .shared_bytes = sizeof(struct shared),
        .exec = 1, /* Criterion has threads, and CUDA may be in use */
    };
    struct procs_outcome outcomes[PROCS_MAX_RANKS];
    struct procs *procs = procs_create(&how);
    if (!procs)
        return options->ranks;
    struct shared *shared = procs_shared(procs);
    shared->options = *options;
    shared->body = procs_pack((uintptr_t)body);
    int failed = procs_run(procs, start, shared, outcomes);
    for (int r = 0; r < options->ranks && failed && !options->may_fail; r++) {
        char text[128];
        procs_describe(&outcomes[r], text, sizeof text);
        fprintf(stderr, "rank %d %s\n", r, text);
    }
    if (options->scratch_copy)
        memcpy(options->scratch_copy, shared->scratch, RIG_SCRATCH);
    procs_destroy(procs);
    return failed;
}

double since_ms(uint64_t start)
{
    return (double)(rondo_now_ns() - start) * (RIG_SLOW ? 0.1e-6 : 0.333e-6);
}

rondoResult_t await_error(struct rig *rig, double limit_ms)
{
    const uint64_t start = rondo_now_ns();
    rondoResult_t error = rondoSuccess;
    while (since_ms(start) < limit_ms) {
        if (rondoCommGetAsyncError(rig->comm, &error) != rondoSuccess || error != rondoSuccess)
            break;
        usleep(1000);
    }
    return error;
}

void rig_input(const struct rig *rig, void *device, size_t count, rondoDataType_t type, rondoRedOp_t op)
{
    const struct data data = {type, op, rig->ranks, 0};
    const size_t bytes = count * (size_t)number_types[type].bytes;
    void *host = malloc(bytes + 1);
    data_input(&data, rig->rank, host, count);
    rig->machine->upload(device, host, bytes);
    free(host);
}

size_t rig_wrong(const struct rig *rig, const void *device, size_t count, rondoDataType_t type, rondoRedOp_t op)
{
    const struct data data = {type, op, rig->ranks, 0};
    const size_t bytes = count * (size_t)number_types[type].bytes;
    void *host = malloc(bytes + 1);
    size_t first;
    rig->machine->download(host, device, bytes);
    size_t wrong = data_wrong(&data, host, count, &first);
    free(host);
    return wrong;
}

enum { TRY_COUNT = 3001 };

/* One eager and one captured all-reduce of each rank, all under way at once. */
static int try_once(struct rig *rigs, int count, float *const *send, float *const *recv, bool captured)
{
    struct machine_graph *graphs[PROCS_MAX_RANKS];
    for (int i = 0; i < count; i++) {
        struct rig *rig = &rigs[i];
        rig->machine->set_device(rig_device(rig, rig->rank));
        rig->machine->fill(recv[i], 0x77, TRY_COUNT * sizeof(float));
        rig_input(rig, send[i], TRY_COUNT, rondoFloat, rondoSum);
    }
    for (int i = 0; i < count && captured; i++)
        rigs[i].machine->capture_begin(rigs[i].stream, /* graphs are made of some while others are captured */
                                       count > 1 ? MACHINE_CAPTURE_RELAXED : MACHINE_CAPTURE_THREAD_LOCAL);
    struct rig *rig = rigs;
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < count; i++)
        RIG_OK(rondoAllReduce(send[i], recv[i], TRY_COUNT, rondoFloat, rondoSum, rigs[i].comm, rigs[i].stream));
    RIG_OK(rondoGroupEnd());
    for (int i = 0; i < count && captured; i++)
        graphs[i] = rigs[i].machine->capture_end(rigs[i].stream);
    for (int i = 0; i < count && captured; i++) {
        for (int replay = 0; replay < 3; replay++)
            rigs[i].machine->graph_launch(graphs[i], rigs[i].stream);
    }
    for (int i = 0; i < count; i++) {
        rig = &rigs[i];
        rig->machine->stream_sync(rig->stream);
        size_t wrong = rig_wrong(rig, recv[i], TRY_COUNT, rondoFloat, rondoSum);
        RIG_CHECK(wrong == 0, "%zu wrong, captured %d", wrong, captured);
        if (captured)
            rig->machine->graph_destroy(graphs[i]);
    }
    return 0;
}

int rig_try(struct rig *rigs, int count)
{
    float *send[PROCS_MAX_RANKS], *recv[PROCS_MAX_RANKS];
    for (int i = 0; i < count; i++) {
        rigs[i].machine->set_device(rig_device(&rigs[i], rigs[i].rank));
        send[i] = rigs[i].machine->alloc(TRY_COUNT * sizeof(float));
        recv[i] = rigs[i].machine->alloc(TRY_COUNT * sizeof(float));
    }
    int failed = try_once(rigs, count, send, recv, false) || try_once(rigs, count, send, recv, true);
    for (int i = 0; i < count; i++) {
        rigs[i].machine->free(send[i]);
        rigs[i].machine->free(recv[i]);
    }
    return failed;
}

int rig_names_in_shm(void)
{
    DIR *dir = opendir("/dev/shm");
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += strstr(entry->d_name, "rondo") != NULL;
    if (dir)
        closedir(dir);
    return count;
}
