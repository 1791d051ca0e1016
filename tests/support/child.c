#include "support/child.h"

#include "common/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { COUNT = 2003, REPLAYS = 3 };

/* A comm's device need not be the one of its new rank. */
static int enter(struct rig *rig)
{
    int device, rank, ranks;
    RIG_OK(rondoCommDevice(rig->comm, &device));
    RIG_OK(rondoCommRank(rig->comm, &rank));
    RIG_OK(rondoCommCount(rig->comm, &ranks));
    RIG_CHECK(rank == rig->rank && ranks == rig->ranks, "it is rank %d of %d, not of %d", rank, ranks, rig->ranks);
    rig->machine->set_device(device);
    return 0;
}

static int run(struct rig *rigs, int count, float *const *send, float *const *recv, bool captured)
{
    struct machine_graph *graphs[PROCS_MAX_RANKS];
    struct rig *rig = rigs;
    for (int i = 0; i < count; i++) {
        rig = &rigs[i];
        if (!rig->comm)
            continue;
        if (enter(rig))
            return 1;
        rig->machine->fill(recv[i], 0x77, COUNT * sizeof(float));
        rig_input(rig, send[i], COUNT, rondoFloat, rondoSum);
    }
    for (int i = 0; i < count && captured; i++)
        if (rigs[i].comm)
            rigs[i].machine->capture_begin(rigs[i].stream, /* graphs are made of some while others are captured */
                                           count > 1 ? MACHINE_CAPTURE_RELAXED : MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < count; i++)
        if (rigs[i].comm)
            RIG_OK(rondoAllReduce(send[i], recv[i], COUNT, rondoFloat, rondoSum, rigs[i].comm, rigs[i].stream));
    RIG_OK(rondoGroupEnd());
    for (int i = 0; i < count && captured; i++) {
        if (!rigs[i].comm)
            continue;
        graphs[i] = rigs[i].machine->capture_end(rigs[i].stream);
        for (int replay = 0; replay < REPLAYS; replay++)
            rigs[i].machine->graph_launch(graphs[i], rigs[i].stream);
    }
    for (int i = 0; i < count; i++) {
        rig = &rigs[i];
        if (!rig->comm)
            continue;
        rig->machine->stream_sync(rig->stream);
        const size_t wrong = rig_wrong(rig, recv[i], COUNT, rondoFloat, rondoSum);
        RIG_CHECK(wrong == 0, "%zu wrong, captured %d", wrong, captured);
        if (captured)
            rig->machine->graph_destroy(graphs[i]);
    }
    return 0;
}

int children_try(struct rig *rigs, int count)
{
    float *send[PROCS_MAX_RANKS], *recv[PROCS_MAX_RANKS];
    for (int i = 0; i < count; i++) {
        if (rigs[i].comm && enter(&rigs[i]))
            return 1;
        send[i] = rigs[i].machine->alloc(COUNT * sizeof(float));
        recv[i] = rigs[i].machine->alloc(COUNT * sizeof(float));
    }
    const int failed = run(rigs, count, send, recv, false) || run(rigs, count, send, recv, true);
    for (int i = 0; i < count; i++) {
        rigs[i].machine->free(send[i]);
        rigs[i].machine->free(recv[i]);
    }
    return failed;
}

int child_try(const struct rig *parent, rondoComm_t comm, int rank, int ranks)
{
    struct rig child = *parent, *rig = &child;
    RIG_CHECK(comm, "there is no comm");
    child.comm = comm;
    child.rank = rank;
    child.ranks = ranks;
    return children_try(&child, 1);
}

rondoResult_t child_await(rondoComm_t comm)
{
    const uint64_t end = rondo_now_ns() + 20000000000ull;
    rondoResult_t state = rondoInProgress;
    while (state == rondoInProgress && rondo_now_ns() < end) {
        const rondoResult_t result = rondoCommGetAsyncError(comm, &state);
        if (result != rondoSuccess)
            return result;
        if (state == rondoInProgress)
            usleep(500);
    }
    return state;
}
