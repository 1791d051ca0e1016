/* The drop-in's ops and groups: NCCL's semantics in the corners that callers rely on. */
#include "nccl/device_api.h"
#include "nccl/nccl.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- every collective ---- */

static int moved(struct rig *rig, const float *memory, int from, size_t first, const char *what)
{
    float host[COUNT];
    rig->machine->download(host, memory, sizeof host);
    for (size_t i = 0; i < COUNT; i++)
        RIG_CHECK(host[i] == (float)(from * 100000) + (float)(first + i), "%s: element %zu is %f", what, i,
                  (double)host[i]);
    return 0;
}

/* Element i of a rank's buffer is 100000 * rank + i. */
static int collectives(struct rig *rig)
{
    const size_t n = (size_t)rig->ranks, me = (size_t)rig->rank;
    const int root = rig->ranks - 1;
    float *host = malloc(n * COUNT * sizeof *host);
    float *send = rig->machine->alloc(n * COUNT * sizeof *send), *recv = rig->machine->alloc(n * COUNT * sizeof *recv);
    for (size_t i = 0; i < n * COUNT; i++)
        host[i] = (float)(rig->rank * 100000) + (float)i;
    rig->machine->upload(send, host, n * COUNT * sizeof *host);
    const ncclComm_t c = rig->comm;
    struct CUstream_st *const s = rig->stream;

    RIG_OK(ncclAllGather(send, recv, COUNT, rondoFloat, c, s));
    rig->machine->stream_sync(s);
    for (int r = 0; r < rig->ranks; r++)
        if (moved(rig, recv + (size_t)r * COUNT, r, 0, "all-gather"))
            return 1;
    RIG_OK(ncclAlltoAll(send, recv, COUNT, rondoFloat, c, s));
    rig->machine->stream_sync(s);
    for (int r = 0; r < rig->ranks; r++)
        if (moved(rig, recv + (size_t)r * COUNT, r, me * COUNT, "all-to-all"))
            return 1;
    RIG_OK(ncclBroadcast(rig->rank == root ? send : NULL, recv, COUNT, rondoFloat, root, c, s));
    rig->machine->stream_sync(s);
    if (moved(rig, recv, root, 0, "broadcast"))
        return 1;
    RIG_OK(ncclGather(send, rig->rank == root ? recv : NULL, COUNT, rondoFloat, root, c, s));
    rig->machine->stream_sync(s);
    for (int r = 0; r < rig->ranks && rig->rank == root; r++)
        if (moved(rig, recv + (size_t)r * COUNT, r, 0, "gather"))
            return 1;
    RIG_OK(ncclScatter(rig->rank == root ? send : NULL, recv, COUNT, rondoFloat, root, c, s));
    rig->machine->stream_sync(s);
    if (moved(rig, recv, root, me * COUNT, "scatter"))
        return 1;
    RIG_OK(ncclBcast(send, COUNT, rondoFloat, 0, c, s));
    rig->machine->stream_sync(s);
    if (moved(rig, send, 0, 0, "bcast"))
        return 1;
    free(host);
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(nccl_corners, every_collective_that_moves_data_moves_it_to_where_it_belongs)
{
    cr_assert_eq(both_layouts(collectives, 3), 0);
}

static int reduced(struct rig *rig, ncclResult_t issued, float *recv, ncclRedOp_t op, const char *what)
{
    RIG_CHECK(issued == rondoSuccess, "%s", what);
    rig->machine->stream_sync(rig->stream);
    const size_t wrong = rig_wrong(rig, recv, COUNT, rondoFloat, op);
    RIG_CHECK(wrong == 0, "%s: %zu wrong", what, wrong);
    return 0;
}

static int reductions(struct rig *rig)
{
    const size_t bytes = COUNT * sizeof(float);
    float *send = rig->machine->alloc(bytes), *recv = rig->machine->alloc(bytes);
    for (ncclRedOp_t op = rondoSum; op < rondoNumOps; op++) {
        const int root = (int)op % rig->ranks;
        rig_input(rig, send, COUNT, rondoFloat, op);
        if (reduced(rig, ncclAllReduce(send, recv, COUNT, rondoFloat, op, rig->comm, rig->stream), recv, op,
                    "all-reduce"))
            return 1;
        rig->machine->fill(recv, 0, bytes);
        RIG_OK(ncclReduce(send, rig->rank == root ? recv : NULL, COUNT, rondoFloat, op, root, rig->comm, rig->stream));
        if (rig->rank == root && reduced(rig, rondoSuccess, recv, op, "reduce"))
            return 1;
        rig->machine->stream_sync(rig->stream);
        if (reduced(rig, ncclAllReduce(send, send, COUNT, rondoFloat, op, rig->comm, rig->stream), send, op,
                    "in place"))
            return 1;
    }
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(nccl_corners, every_reduction_is_right_out_of_place_and_in_place)
{
    cr_assert_eq(both_layouts(reductions, 3), 0);
}

/* ---- in place ---- */

static int in_place(struct rig *rig)
{
    const size_t n = (size_t)rig->ranks, me = (size_t)rig->rank;
    float *all = rig->machine->alloc(n * COUNT * sizeof *all), *host = malloc(COUNT * sizeof *host);
    for (size_t i = 0; i < COUNT; i++)
        host[i] = (float)(rig->rank * 100000) + (float)i;
    rig->machine->upload(all + me * COUNT, host, COUNT * sizeof *host);
    RIG_OK(ncclAllGather(all + me * COUNT, all, COUNT, rondoFloat, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    for (int r = 0; r < rig->ranks; r++)
        if (moved(rig, all + (size_t)r * COUNT, r, 0, "all-gather"))
            return 1;
    RIG_OK(ncclReduceScatter(all, all + me * COUNT, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    if (moved(rig, all + me * COUNT, rig->rank, 0, "reduce-scatter"))
        return 1;
    rig->machine->free(all);
    free(host);
    return 0;
}

Test(nccl_corners, all_gather_and_reduce_scatter_are_in_place_at_the_ranks_own_part)
{
    cr_assert_eq(both_layouts(in_place, 3), 0);
}

/* ---- nothing ---- */

static int nothing(struct rig *rig)
{
    const ncclComm_t c = rig->comm;
    struct CUstream_st *const s = rig->stream;
    RIG_OK(ncclAllReduce(NULL, NULL, 0, rondoFloat, rondoSum, c, s));
    RIG_OK(ncclReduce(NULL, NULL, 0, rondoFloat, rondoSum, 0, c, s));
    RIG_OK(ncclBroadcast(NULL, NULL, 0, rondoFloat, 0, c, s));
    RIG_OK(ncclBcast(NULL, 0, rondoFloat, 0, c, s));
    RIG_OK(ncclAllGather(NULL, NULL, 0, rondoFloat, c, s));
    RIG_OK(ncclReduceScatter(NULL, NULL, 0, rondoFloat, rondoSum, c, s));
    RIG_OK(ncclAlltoAll(NULL, NULL, 0, rondoFloat, c, s));
    RIG_OK(ncclGather(NULL, NULL, 0, rondoFloat, 0, c, s));
    RIG_OK(ncclScatter(NULL, NULL, 0, rondoFloat, 0, c, s));
    rig->machine->stream_sync(s);
    RIG_CHECK(ncclAllReduce(NULL, NULL, 0, (ncclDataType_t)99, rondoSum, c, s) == rondoInvalidArgument, "type");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

Test(nccl_corners, collectives_of_nothing_succeed)
{
    cr_assert_eq(both_layouts(nothing, 2), 0);
}

/* Scratch's first word says that rank 0 is about to send. */
static int empty_messages(struct rig *rig)
{
    int *sent = (int *)(void *)rig->scratch;
    if (rig->rank == 0) {
        rig->machine->compute(100000, rig->stream);
        rig->machine->stream_sync(rig->stream);
        __atomic_store_n(sent, 1, __ATOMIC_SEQ_CST);
        RIG_OK(ncclSend(NULL, 0, rondoFloat, 1, rig->comm, rig->stream));
    } else if (rig->rank == 1) {
        RIG_OK(ncclRecv(NULL, 0, rondoFloat, 0, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        RIG_CHECK(__atomic_load_n(sent, __ATOMIC_SEQ_CST), "received before it was sent");
    }
    RIG_CHECK(ncclSend(NULL, 0, rondoFloat, rig->ranks, rig->comm, rig->stream) == rondoInvalidArgument, "peer");
    RIG_CHECK(ncclRecv(NULL, 0, (ncclDataType_t)-1, 0, rig->comm, rig->stream) == rondoInvalidArgument, "type");
    /* in a group, to oneself and around */
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclSend(NULL, 0, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_OK(ncclRecv(NULL, 0, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_OK(ncclSend(NULL, 0, rondoInt8, (rig->rank + 1) % rig->ranks, rig->comm, rig->stream));
    RIG_OK(ncclRecv(NULL, 0, rondoInt8, (rig->rank + rig->ranks - 1) % rig->ranks, rig->comm, rig->stream));
    RIG_OK(ncclGroupEnd());
    rig->machine->stream_sync(rig->stream);
    return 0;
}

Test(nccl_corners, messages_of_nothing_pair_and_the_receive_waits_for_the_send)
{
    cr_assert_eq(both_layouts(empty_messages, 2), 0);
}

/* ---- to oneself ---- */

static int to_oneself(struct rig *rig)
{
    const size_t bytes = COUNT * sizeof(float);
    float *a = rig->machine->alloc(bytes), *b = rig->machine->alloc(bytes), host[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        host[i] = (float)(rig->rank * 100000) + (float)i;
    rig->machine->upload(a, host, bytes);
    RIG_REFUSED(rondoInvalidUsage, "other half", ncclSend(a, COUNT, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "other half", ncclRecv(b, COUNT, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclSend(a, COUNT, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "other half", ncclGroupEnd());
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclRecv(b, COUNT, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_OK(ncclSend(a, COUNT, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_OK(ncclGroupEnd());
    RIG_OK(ncclGroupStart()); /* the same buffer: nothing to do */
    RIG_OK(ncclSend(a, COUNT, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_OK(ncclRecv(a, COUNT, rondoFloat, rig->rank, rig->comm, rig->stream));
    RIG_OK(ncclGroupEnd());
    rig->machine->stream_sync(rig->stream);
    const int wrong = moved(rig, b, rig->rank, 0, "copy") || moved(rig, a, rig->rank, 0, "same buffer");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rig->machine->free(a);
    rig->machine->free(b);
    return wrong;
}

Test(nccl_corners, messages_to_oneself_need_their_other_half)
{
    cr_assert_eq(both_layouts(to_oneself, 2), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1}, to_oneself), 0);
}

/* ---- bad arguments ---- */

static int bad_arguments(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    const ncclComm_t c = rig->comm;
    struct CUstream_st *const s = rig->stream;
    RIG_REFUSED(rondoInvalidArgument, "root", ncclBroadcast(a, a, COUNT, rondoFloat, -1, c, s));
    RIG_REFUSED(rondoInvalidArgument, "root", ncclReduce(a, a, COUNT, rondoFloat, rondoSum, rig->ranks, c, s));
    RIG_REFUSED(rondoInvalidArgument, "datatype", ncclAllGather(a, a, 1, (ncclDataType_t)12, c, s));
    RIG_REFUSED(rondoInvalidArgument, "op 7", ncclAllReduce(a, a, COUNT, rondoFloat, (ncclRedOp_t)7, c, s));
    RIG_REFUSED(rondoInvalidArgument, "op", ncclAllReduce(a, a, COUNT, rondoFloat, (ncclRedOp_t)-1, c, s));
    RIG_REFUSED(rondoInvalidArgument, "peer", ncclSend(a, COUNT, rondoFloat, rig->ranks, c, s));
    RIG_REFUSED(rondoInvalidArgument, "NULL", ncclAllReduce(NULL, a, COUNT, rondoFloat, rondoSum, c, s));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, NULL, s));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", ncclSend(a, COUNT, rondoFloat, 0, NULL, s));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", ncclSend(a, 0, rondoFloat, 0, NULL, s));
    RIG_CHECK(strstr(ncclGetLastError(c), "comm is NULL"), "the comm of GetLastError does not matter");
    rig->machine->free(a);
    return rig_try(rig, 1);
}

Test(nccl_corners, bad_arguments_are_refused_and_the_comm_stays_well)
{
    cr_assert_eq(both_layouts(bad_arguments, 2), 0);
}

/* GPUs do not reach what malloc gives; on the host device it is device memory. */
static int checked_pointers(struct rig *rig)
{
    float *device = rig->machine->alloc(COUNT * sizeof *device), *host = calloc(COUNT, sizeof *host);
    const ncclComm_t c = rig->comm;
    if (!rig_on_host()) {
        RIG_REFUSED(rondoInvalidArgument, "sendbuff",
                    ncclAllReduce(host, device, 1, rondoFloat, rondoSum, c, rig->stream));
        RIG_REFUSED(rondoInvalidArgument, "recvbuff",
                    ncclAllReduce(device, host, 1, rondoFloat, rondoSum, c, rig->stream));
        RIG_REFUSED(rondoInvalidArgument, "sendbuff", ncclSend(host, 1, rondoFloat, 0, c, rig->stream));
        RIG_REFUSED(rondoInvalidArgument, "recvbuff", ncclRecv(host, 1, rondoFloat, 0, c, rig->stream));
    } else {
        RIG_OK(ncclAllReduce(host, device, 1, rondoFloat, rondoSum, c, rig->stream));
        rig->machine->stream_sync(rig->stream);
    }
    free(host);
    rig->machine->free(device);
    return rig_try(rig, 1);
}

Test(nccl_corners, buffers_that_the_device_cannot_reach_are_refused_where_pointers_are_checked)
{
    setenv("NCCL_CHECK_POINTERS", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, checked_pointers), 0);
}

/* ---- operators ---- */

static int operators(struct rig *rig)
{
    const size_t bytes = COUNT * sizeof(float);
    float *a = rig->machine->alloc(bytes), host[COUNT], scalar = (float)(rig->rank + 2), expected = 0;
    ncclRedOp_t op;
    for (size_t i = 0; i < COUNT; i++)
        host[i] = 1;
    for (int r = 0; r < rig->ranks; r++)
        expected += (float)(r + 2);
    rig->machine->upload(a, host, bytes);
    RIG_OK(ncclRedOpCreatePreMulSum(&op, &scalar, rondoFloat, rondoScalarHostImmediate, rig->comm));
    scalar = 1000; /* it was read */
    RIG_REFUSED(rondoInvalidArgument, "datatype", ncclAllReduce(a, a, COUNT, rondoHalf, op, rig->comm, rig->stream));
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, op, rig->comm, rig->stream));
    RIG_OK(ncclRedOpDestroy(op, rig->comm)); /* the call has its copy */
    RIG_OK(ncclGroupEnd());
    rig->machine->stream_sync(rig->stream);
    rig->machine->download(host, a, bytes);
    for (size_t i = 0; i < COUNT; i++)
        RIG_CHECK(host[i] == expected, "element %zu is %f", i, (double)host[i]);
    RIG_CHECK(ncclAllReduce(a, a, COUNT, rondoFloat, op, rig->comm, rig->stream) == rondoInvalidArgument, "used after");
    RIG_CHECK(ncclRedOpDestroy(op, rig->comm) == rondoInvalidArgument, "destroyed twice");
    RIG_CHECK(ncclRedOpDestroy(rondoSum, rig->comm) == rondoInvalidArgument, "a built-in operator");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rig->machine->free(a);
    return 0;
}

Test(nccl_corners, an_operator_is_copied_by_the_call_that_uses_it)
{
    cr_assert_eq(both_layouts(operators, 2), 0);
}

/* ---- memory ---- */

static int memory(struct rig *rig)
{
    const ncclComm_t c = rig->comm;
    char *block = NULL;
    void *handle = NULL, *pointer = &handle;
    ncclWindow_t window = (ncclWindow_t)(void *)rig;
    RIG_OK(ncclMemAlloc((void **)&block, 1 << 16));
    RIG_OK(ncclCommRegister(c, block, 1 << 16, &handle));
    RIG_OK(ncclCommDeregister(c, handle));
    RIG_REFUSED(rondoInvalidUsage, "not a registration", ncclCommDeregister(c, handle));
    RIG_OK(ncclCommDeregister(c, NULL));
    RIG_CHECK(ncclCommDeregister(NULL, NULL) == rondoInvalidArgument, "comm");
    RIG_OK(ncclCommWindowRegister(c, block, 1 << 16, &window, 1));
    RIG_CHECK(!window, "a window");
    RIG_OK(ncclCommWindowDeregister(c, window));
    RIG_REFUSED(rondoInvalidArgument, "aligned", ncclCommWindowRegister(c, block + 64, 4096, &window, 0));
    RIG_REFUSED(rondoInvalidArgument, "NULL", ncclCommWindowRegister(c, NULL, 4096, &window, 0));
    RIG_REFUSED(rondoInvalidArgument, "size", ncclCommWindowRegister(c, block, 0, &window, 0));
    RIG_CHECK(ncclCommWindowRegister(NULL, block, 4096, &window, 0) == rondoInvalidArgument, "comm");
    RIG_CHECK(ncclCommWindowDeregister(c, (ncclWindow_t)(void *)rig) == rondoInvalidArgument, "no window");
    RIG_CHECK(ncclWinGetUserPtr(c, NULL, &pointer) == rondoInvalidArgument && !pointer, "no window");
    RIG_OK(ncclMemFree(block));
    RIG_OK(ncclMemFree(NULL));
    RIG_CHECK(ncclMemFree(&handle) == rondoInvalidArgument, "no memory of ncclMemAlloc");
    return 0;
}

Test(nccl_corners, there_are_no_windows_and_nccl_says_so_with_success_and_null)
{
    cr_assert_eq(both_layouts(memory, 2), 0);
}

/* ---- what there is not ---- */

static int refused(struct rig *rig)
{
    const ncclComm_t c = rig->comm;
    const ncclTeam_t team = ncclTeamWorld(c);
    void *pointer = rig;
    RIG_REFUSED(rondoInvalidUsage, "ncclCommSuspend", ncclCommSuspend(c, 1));
    RIG_REFUSED(rondoInvalidUsage, "ncclCommResume", ncclCommResume(c));
    RIG_REFUSED(rondoInvalidUsage, "ncclPutSignal",
                ncclPutSignal(NULL, 0, rondoFloat, 0, NULL, 0, 0, 0, 0, c, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "ncclSignal", ncclSignal(0, 0, 0, 0, c, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "ncclWaitSignal", ncclWaitSignal(0, NULL, c, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "ncclDevCommCreate", ncclDevCommCreate(c, NULL, NULL));
    RIG_REFUSED(rondoInvalidUsage, "ncclDevCommDestroy", ncclDevCommDestroy(c, NULL));
    RIG_REFUSED(rondoInvalidUsage, "ncclLsaBarrier", ncclLsaBarrierCreateRequirement(team, 1, NULL, NULL));
    RIG_REFUSED(rondoInvalidUsage, "ncclGinBarrier", ncclGinBarrierCreateRequirement(c, team, 1, NULL, NULL));
    RIG_REFUSED(rondoInvalidUsage, "ncclLLA2A", ncclLLA2ACreateRequirement(1, 1, NULL, NULL));
    RIG_REFUSED(rondoInvalidUsage, "ncclGinInbox", ncclGinInboxA2ACreateRequirement());
    RIG_REFUSED(rondoInvalidUsage, "ncclGinOutbox", ncclGinOutboxCreateRequirement());
    RIG_REFUSED(rondoInvalidUsage, "ncclGetPeer", ncclGetPeerDevicePointer(NULL, 0, 0, &pointer));
    RIG_CHECK(!pointer, "a pointer");
    RIG_REFUSED(rondoInvalidUsage, "ncclGetLsaDevice", ncclGetLsaDevicePointer(NULL, 0, 0, &pointer));
    RIG_REFUSED(rondoInvalidUsage, "ncclGetLsaMultimem", ncclGetLsaMultimemDevicePointer(NULL, 0, &pointer));
    RIG_REFUSED(rondoInvalidUsage, "ncclGetMultimem",
                ncclGetMultimemDevicePointer(NULL, 0, (ncclMultimemHandle_t){NULL}, &pointer));
    RIG_CHECK(ncclSignal(0, 0, 0, 0, NULL, rig->stream) == rondoInvalidArgument, "comm");
    RIG_CHECK(ncclCommSuspend(NULL, 1) == rondoInvalidArgument, "comm");
    return rig_try(rig, 1);
}

Test(nccl_corners, what_rondo_has_not_is_refused_with_a_text)
{
    cr_assert_eq(both_layouts(refused, 2), 0);
}

/* ---- what comms say of themselves ---- */

static int queries(struct rig *rig)
{
    struct {
        ncclCommProperties_t head;
        unsigned char more[24]; /* of a later version */
    } properties;
    uint64_t total, persistent, suspended = 7;
    int value;
    const ncclComm_t c = rig->comm;
    memset(&properties, 0xff, sizeof properties);
    properties.head.size = sizeof properties;
    properties.head.magic = NCCL_MAGIC;
    properties.head.version = 23007;
    RIG_OK(ncclCommQueryProperties(c, &properties.head));
    RIG_CHECK(properties.head.rank == rig->rank && properties.head.nRanks == rig->ranks, "rank");
    RIG_CHECK(!properties.head.deviceApiSupport && !properties.head.multimemSupport, "features");
    for (size_t i = 0; i < sizeof properties.more; i++)
        RIG_CHECK(properties.more[i] == 0, "byte %zu", i);
    properties.head.magic = 0;
    RIG_CHECK(ncclCommQueryProperties(c, &properties.head) == rondoInvalidUsage, "magic");
    RIG_CHECK(ncclCommQueryProperties(c, NULL) == rondoInvalidArgument, "NULL");
    RIG_OK(ncclCommMemStats(c, ncclStatGpuMemTotal, &total));
    RIG_OK(ncclCommMemStats(c, ncclStatGpuMemPersist, &persistent));
    RIG_OK(ncclCommMemStats(c, ncclStatGpuMemSuspended, &suspended));
    RIG_CHECK(total > 65536 && total == persistent && suspended == 0, "%llu bytes", (unsigned long long)total);
    RIG_CHECK(ncclCommMemStats(c, (ncclCommMemStat_t)9, &total) == rondoInvalidArgument, "stat");
    RIG_OK(ncclCommCount(c, &value));
    RIG_CHECK(value == rig->ranks, "%d", value);
    RIG_OK(ncclCommUserRank(c, &value));
    RIG_CHECK(value == rig->rank, "%d", value);
    RIG_OK(ncclCommCuDevice(c, &value));
    RIG_CHECK(value == properties.head.cudaDev, "%d", value);
    const ncclTeam_t world = ncclTeamWorld(c), lsa = ncclTeamLsa(c), rail = ncclTeamRail(c), none = ncclTeamWorld(NULL);
    RIG_CHECK(world.nRanks == rig->ranks && world.rank == rig->rank && world.stride == 1, "world");
    RIG_CHECK(lsa.nRanks == rig->ranks && lsa.rank == rig->rank, "lsa");
    RIG_CHECK(rail.nRanks == 1 && rail.rank == 0 && none.nRanks == 0, "rail");
    RIG_CHECK(ncclTeamRankToWorld(c, rail, 0) == rig->rank && ncclTeamRankToLsa(c, world, 0) == 0, "ranks");
    RIG_CHECK(ncclLLA2ACalcSlots(3, 12) == 6, "slots");
    RIG_CHECK(ncclCommCount(NULL, &value) == rondoInvalidArgument, "comm");
    RIG_CHECK(ncclCommCount(c, NULL) == rondoInvalidArgument, "count");
    return 0;
}

Test(nccl_corners, comms_say_who_and_where_they_are_and_what_they_have)
{
    cr_assert_eq(both_layouts(queries, 3), 0);
}
