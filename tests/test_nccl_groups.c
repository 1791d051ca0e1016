/* The drop-in's groups and captures: NCCL's semantics in the corners that callers rely on. */
#include "nccl/nccl.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 3001 };

static int both_layouts(rig_body body, int ranks)
{
    if (rig_ranks(ranks) < 2)
        cr_skip_test("one rank only");
    int failed = 0;
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        failed += rig_run(&(struct rig_options){.ranks = rig_ranks(ranks), .layout = layout}, body);
    return failed;
}

/* ---- groups ---- */

static int group_errors(struct rig *rig)
{
    ncclSimInfo_t info = {sizeof info, NCCL_SIM_INFO_MAGIC, 22809, 5};
    const size_t bytes = COUNT * sizeof(float);
    float *a = rig->machine->alloc(bytes);
    RIG_REFUSED(rondoInvalidUsage, "without", ncclGroupEnd());
    RIG_REFUSED(rondoInvalidUsage, "without", ncclGroupSimulateEnd(NULL));
    RIG_REFUSED(rondoInvalidUsage, "without", ncclGroupSimulateEnd(&info));
    rig->machine->fill(a, 0, bytes);
    /* the first error is the group's, and nothing of the group was issued */
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_CHECK(ncclBroadcast(a, a, COUNT, rondoFloat, 99, rig->comm, rig->stream) == rondoInvalidArgument, "root");
    RIG_CHECK(ncclCommGrow(rig->comm, 9, NULL, -1, NULL, NULL) == rondoInvalidArgument, "grow");
    RIG_REFUSED(rondoInvalidArgument, "root is 99", ncclGroupEnd());
    /* what is refused is the group's error too */
    RIG_OK(ncclGroupStart());
    RIG_CHECK(ncclSignal(0, 0, 0, 0, rig->comm, rig->stream) == rondoInvalidUsage, "signal");
    RIG_REFUSED(rondoInvalidUsage, "one-sided", ncclGroupEnd());
    /* simulated: nothing runs, so one rank alone may do it */
    if (rig->rank == 0) {
        RIG_OK(ncclGroupStart());
        RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        RIG_OK(ncclGroupSimulateEnd(&info));
        RIG_CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT, "%f", (double)info.estimatedTime);
        rig->machine->stream_sync(rig->stream);
        RIG_OK(ncclGroupStart());
        RIG_CHECK(ncclBroadcast(a, a, COUNT, rondoFloat, 99, rig->comm, rig->stream) == rondoInvalidArgument, "root");
        RIG_REFUSED(rondoInvalidArgument, "root is 99", ncclGroupSimulateEnd(&info));
        info.magic = 1;
        RIG_OK(ncclGroupStart());
        RIG_REFUSED(rondoInvalidArgument, "simInfo", ncclGroupSimulateEnd(&info));
    }
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(ncclGroupEnd());
    RIG_OK(ncclGroupSimulateEnd(NULL)); /* a plain end */
    rig->machine->stream_sync(rig->stream);
    rig->machine->free(a);
    return rig_try(rig, 1);
}

Test(nccl_groups, give_their_first_error_and_issue_nothing_then)
{
    cr_assert_eq(both_layouts(group_errors, 2), 0);
}

static int mixed_group(struct rig *rig)
{
    ncclConfig_t config;
    ncclComm_t other;
    ncclResult_t state;
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    memset(&config, 0, sizeof config);
    config.size = offsetof(ncclConfig_t, cgaClusterSize);
    config.magic = NCCL_MAGIC;
    config.version = 21400;
    RIG_CHECK(ncclCommSplit(rig->comm, 0, rig->rank, &other, &config) == rondoInProgress, "split");
    do
        RIG_OK(ncclCommGetAsyncError(other, &state));
    while (state == rondoInProgress);
    RIG_CHECK(state == rondoSuccess, "%d", state);
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, other, rig->stream));
    RIG_REFUSED(rondoInvalidArgument, "non-blocking", ncclGroupEnd());
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rig->machine->stream_sync(rig->stream);
    rig->machine->free(a);
    RIG_OK(ncclCommDestroy(other));
    return rig_try(rig, 1);
}

Test(nccl_groups, of_blocking_and_non_blocking_comms_are_refused)
{
    cr_assert_eq(both_layouts(mixed_group, 2), 0);
}

/* ---- captures ---- */

static int captured(struct rig *rig)
{
    const size_t bytes = COUNT * sizeof(float);
    float *send = rig->machine->alloc(bytes), *recv = rig->machine->alloc(bytes);
    struct CUstream_st *other = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(ncclAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, other));
    RIG_REFUSED(rondoInvalidUsage, "capture", ncclGroupEnd());
    RIG_OK(ncclAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(ncclSend(NULL, 0, rondoFloat, (rig->rank + 1) % rig->ranks, rig->comm, rig->stream));
    RIG_OK(ncclRecv(NULL, 0, rondoFloat, (rig->rank + rig->ranks - 1) % rig->ranks, rig->comm, rig->stream));
    struct machine_graph *graph = rig->machine->capture_end(rig->stream);
    for (int replay = 0; replay < 20; replay++) {
        rig->machine->fill(recv, 0, bytes);
        rig->machine->graph_launch(graph, rig->stream);
        rig->machine->stream_sync(rig->stream);
        RIG_CHECK(rig_wrong(rig, recv, COUNT, rondoFloat, rondoSum) == 0, "replay %d", replay);
    }
    rig->machine->graph_destroy(graph);
    rig->machine->stream_destroy(other);
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(nccl_groups, are_captured_whole_or_not_at_all_and_replayed)
{
    cr_assert_eq(both_layouts(captured, 2), 0);
}
