/* The drop-in's comms: how they are made, with which configs, watched, and ended; NCCL's semantics in each. */
#include "comm/bootstrap_wire.h"
#include "comm/root.h"
#include "common/clock.h"
#include "nccl/nccl.h"
#include "support/child.h"
#include "support/nccl_config.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 2000 };

static const struct rig_options two = {.ranks = 2, .no_comm = true}, three = {.ranks = 3, .no_comm = true};

static void needs_two(void)
{
    if (rig_ranks(2) < 2)
        cr_skip_test("needs two ranks");
}

/* ---- making comms ---- */

static int every_way(struct rig *rig)
{
    ncclConfig_t config = config_of(22809, offsetof(ncclConfig_t, graphUsageMode));
    ncclUniqueId ids[2] = {rig->ids[3], rig->ids[4]};
    ncclComm_t comm, split, shrunk;
    int other = rig->ranks - 1;
    config.commName = "named";
    RIG_OK(ncclCommInitRank(&comm, rig->ranks, rig->ids[1], rig->rank));
    if (child_try(rig, comm, rig->rank, rig->ranks))
        return 1;
    RIG_OK(ncclCommDestroy(comm));
    RIG_OK(ncclCommInitRankConfig(&comm, rig->ranks, rig->ids[2], rig->rank, &config));
    if (child_try(rig, comm, rig->rank, rig->ranks))
        return 1;
    RIG_OK(ncclCommSplit(comm, rig->rank == other, 0, &split, &config));
    if (child_try(rig, split, rig->rank == other ? 0 : rig->rank, rig->rank == other ? 1 : rig->ranks - 1))
        return 1;
    RIG_OK(ncclCommDestroy(split));
    split = comm;
    RIG_OK(ncclCommSplit(comm, RONDO_SPLIT_NOCOLOR, 0, &split, NULL));
    RIG_CHECK(!split, "a comm of no color");
    if (rig->rank != other) {
        RIG_OK(ncclCommShrink(comm, &other, 1, &shrunk, &config, RONDO_SHRINK_DEFAULT));
        if (child_try(rig, shrunk, rig->rank, rig->ranks - 1))
            return 1;
        RIG_OK(ncclCommDestroy(shrunk));
        other = rig->rank;
        RIG_CHECK(ncclCommShrink(comm, &other, 1, &shrunk, NULL, 0) == rondoInvalidArgument && !shrunk, "itself");
        RIG_CHECK(ncclCommShrink(comm, NULL, 0, &shrunk, NULL, 0) == rondoInvalidArgument, "no list");
    }
    RIG_OK(ncclCommDestroy(comm));
    RIG_OK(ncclCommInitRankScalable(&comm, rig->ranks, rig->rank, 2, ids, &config));
    if (child_try(rig, comm, rig->rank, rig->ranks))
        return 1;
    RIG_OK(ncclCommFinalize(comm));
    RIG_REFUSED(rondoInvalidArgument, "finalized", ncclCommFinalize(comm));
    RIG_OK(ncclCommDestroy(comm));
    return 0;
}

Test(nccl_comms, are_made_in_every_way)
{
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++) {
        struct rig_options options = three;
        options.ranks = rig_ranks(3);
        options.layout = layout;
        cr_assert_eq(rig_run(&options, every_way), 0);
    }
}

static int all_in_one(struct rig *rig)
{
    enum { RANKS = 2 };
    const int same[RANKS] = {0, 0};
    ncclComm_t comms[RANKS] = {NULL, NULL};
    ncclUniqueId id;
    struct rig rigs[RANKS];
    RIG_OK(ncclCommInitAll(comms, 0, NULL));
    RIG_CHECK(ncclCommInitAll(comms, -1, NULL) == rondoInvalidArgument, "ndev");
    RIG_CHECK(ncclCommInitAll(NULL, 1, NULL) == rondoInvalidArgument, "comms");
    RIG_CHECK(ncclCommInitAll(comms, RANKS, same) == rondoInvalidUsage, "the same device twice");
    RIG_CHECK(ncclGetUniqueId(NULL) == rondoInvalidArgument, "id");
    for (int grouped = 0; grouped < 2; grouped++) {
        if (!grouped) {
            RIG_OK(ncclCommInitAll(comms, RANKS, NULL));
        } else {
            RIG_OK(ncclGetUniqueId(&id));
            RIG_OK(ncclGroupStart());
            for (int r = 0; r < RANKS; r++) {
                rig->machine->set_device(r);
                RIG_OK(ncclCommInitRank(&comms[r], RANKS, id, r));
            }
            RIG_OK(ncclGroupEnd());
        }
        for (int r = 0; r < RANKS; r++) {
            rig->machine->set_device(r);
            rigs[r] = *rig;
            rigs[r].rank = r;
            rigs[r].ranks = RANKS;
            rigs[r].comm = comms[r];
            rigs[r].stream = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
        }
        if (rig_try(rigs, RANKS))
            return 1;
        for (int r = RANKS - 1; r >= 0; r--) { /* in whatever order */
            RIG_OK(ncclCommDestroy(comms[r]));
            rig->machine->stream_destroy(rigs[r].stream);
        }
    }
    return 0;
}

Test(nccl_comms, of_all_devices_are_made_in_one_call_or_group_by_one_thread)
{
    needs_two();
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, all_in_one), 0);
}

static int alone(struct rig *rig)
{
    ncclComm_t comm;
    ncclUniqueId ids[3];
    for (int i = 0; i < 3; i++)
        RIG_OK(ncclGetUniqueId(&ids[i]));
    RIG_CHECK(rondo_root_count() >= 3, "%d roots", rondo_root_count());
    RIG_CHECK(ncclCommInitRankScalable(&comm, 1, 0, 2, ids, NULL) == rondoInvalidArgument, "more ids than ranks");
    RIG_CHECK(ncclCommInitRankScalable(&comm, 1, 0, 0, ids, NULL) == rondoInvalidArgument, "no id");
    RIG_CHECK(ncclCommInitRankScalable(&comm, 1, 0, 1, NULL, NULL) == rondoInvalidArgument, "NULL");
    RIG_OK(ncclCommInitRank(&comm, 1, ids[0], 0));
    if (child_try(rig, comm, 0, 1))
        return 1;
    RIG_OK(ncclCommGetUniqueId(comm, &ids[0]));
    RIG_CHECK(ncclCommGetUniqueId(NULL, &ids[0]) == rondoInvalidArgument, "comm");
    RIG_OK(ncclCommDestroy(comm));
    RIG_OK(ncclCommInitRank(&comm, 1, ids[0], 0));
    RIG_OK(ncclCommDestroy(comm));
    return 0;
}

Test(nccl_comms, of_one_rank_work)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, alone), 0);
}

static int twice(struct rig *rig)
{
    ncclComm_t comm;
    ncclResult_t error;
    int value;
    RIG_OK(ncclCommInitRank(&comm, rig->ranks, rig->ids[1], rig->rank));
    RIG_OK(ncclCommDestroy(comm));
    RIG_CHECK(ncclCommDestroy(comm) == rondoInvalidArgument, "destroyed twice");
    RIG_CHECK(ncclCommAbort(comm) == rondoInvalidArgument, "aborted after");
    RIG_CHECK(ncclCommFinalize(comm) == rondoInvalidArgument, "finalized after");
    RIG_CHECK(ncclCommGetAsyncError(comm, &error) == rondoInvalidArgument, "asked after");
    RIG_CHECK(ncclCommCount(comm, &value) == rondoInvalidArgument, "count after");
    RIG_CHECK(ncclAllReduce(&value, &value, 1, rondoInt, rondoSum, comm, rig->stream) == rondoInvalidArgument, "used");
    RIG_OK(ncclCommFinalize(NULL));
    RIG_OK(ncclCommDestroy(NULL));
    RIG_OK(ncclCommAbort(NULL));
    RIG_CHECK(ncclCommGetAsyncError(NULL, &error) == rondoInvalidArgument, "NULL");
    RIG_CHECK(ncclCommSplit(NULL, 0, 0, &comm, NULL) == rondoInvalidArgument, "NULL");
    RIG_CHECK(ncclCommShrink(NULL, &value, 1, &comm, NULL, 0) == rondoInvalidArgument, "NULL");
    return 0;
}

Test(nccl_comms, that_are_null_or_dead_give_errors_and_no_crash)
{
    needs_two();
    cr_assert_eq(rig_run(&two, twice), 0);
}

/* ---- non-blocking ---- */

static int nonblocking(struct rig *rig)
{
    ncclConfig_t config = config_of(22809, offsetof(ncclConfig_t, graphUsageMode));
    ncclComm_t comm, split;
    int value;
    config.blocking = 0;
    if (rig->rank == 0) { /* alone for now */
        RIG_CHECK(ncclCommInitRankConfig(&comm, rig->ranks, rig->ids[1], 0, &config) == rondoInProgress, "init");
        ncclResult_t error;
        RIG_OK(ncclCommGetAsyncError(comm, &error));
        RIG_CHECK(error == rondoInProgress, "%d", error);
        RIG_CHECK(ncclCommCount(comm, &value) == rondoInvalidArgument, "count before it is ready");
        RIG_CHECK(ncclAllReduce(&value, &value, 1, rondoInt, rondoSum, comm, rig->stream) == rondoInvalidArgument,
                  "used before it is ready");
        RIG_CHECK(ncclCommFinalize(comm) == rondoInvalidArgument, "finalized before it is ready");
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank != 0)
        RIG_CHECK(ncclCommInitRankConfig(&comm, rig->ranks, rig->ids[1], rig->rank, &config) == rondoInProgress,
                  "init");
    RIG_CHECK(child_await(comm) == rondoSuccess, "init");
    if (child_try(rig, comm, rig->rank, rig->ranks))
        return 1;
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclCommSplit(comm, 0, -rig->rank, &split, NULL));
    RIG_CHECK(ncclGroupEnd() == rondoInProgress, "group");
    RIG_CHECK(child_await(split) == rondoSuccess, "split");
    if (child_try(rig, split, rig->ranks - 1 - rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(ncclCommFinalize(comm) == rondoInProgress, "finalize");
    RIG_CHECK(ncclCommFinalize(comm) == rondoInvalidArgument, "finalized twice");
    RIG_CHECK(child_await(comm) == rondoSuccess, "finalize");
    RIG_OK(ncclCommDestroy(comm));
    RIG_OK(ncclCommDestroy(split));
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclCommInitRankConfig(&comm, rig->ranks, rig->ids[2], rig->rank, &config));
    RIG_CHECK(ncclCommInitRank(&split, rig->ranks, rig->ids[3], rig->rank) == rondoInvalidArgument, "mixed");
    RIG_CHECK(ncclGroupEnd() == rondoInvalidArgument, "mixed");
    return 0;
}

Test(nccl_comms, that_do_not_block_are_in_progress_and_good_for_nothing_until_they_are_ready)
{
    needs_two();
    cr_assert_eq(rig_run(&two, nonblocking), 0);
}

/* ---- a watchdog ---- */

/* Shared by a rank's two threads. */
struct watched {
    ncclComm_t comm;
    int issued; /* atomic: ops so far */
    int stop;   /* atomic */
    ncclResult_t polled, aborted;
};

/* Polls, and when the other thread is well under way, aborts. */
static void *watchdog(void *argument)
{
    struct watched *w = argument;
    ncclResult_t error = rondoSuccess;
    while (__atomic_load_n(&w->issued, __ATOMIC_ACQUIRE) < 50 && w->polled == rondoSuccess && error == rondoSuccess)
        w->polled = ncclCommGetAsyncError(w->comm, &error);
    w->aborted = ncclCommAbort(w->comm);
    __atomic_store_n(&w->stop, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* One rank issues eager and captured ops, waits for none, and its watchdog aborts; the others see an error. */
static int aborted_under_way(struct rig *rig)
{
    struct watched w = {.comm = rig->comm};
    float *a = rig->machine->alloc(COUNT * sizeof *a), *b = rig->machine->alloc(COUNT * sizeof *b);
    struct CUstream_st *other = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    pthread_t thread;
    ncclResult_t issued = rondoSuccess, error = rondoSuccess;
    rig->machine->fill(a, 0, COUNT * sizeof *a);
    if (rig->rank != 0) {
        const uint64_t start = rondo_now_ns();
        while (error == rondoSuccess && since_ms(start) < 20000) {
            RIG_OK(ncclCommGetAsyncError(rig->comm, &error));
            usleep(1000);
        }
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
        RIG_CHECK(strlen(ncclGetErrorString(error)) > 0, "no text");
        RIG_OK(ncclCommAbort(rig->comm));
    } else {
        pthread_create(&thread, NULL, watchdog, &w);
        while (!__atomic_load_n(&w.stop, __ATOMIC_ACQUIRE)) {
            issued = ncclAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream);
            rig->machine->capture_begin(other, MACHINE_CAPTURE_THREAD_LOCAL);
            ncclAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, other);
            rig->machine->graph_destroy(rig->machine->capture_end(other));
            __atomic_add_fetch(&w.issued, 1, __ATOMIC_RELEASE);
            usleep(100);
        }
        pthread_join(thread, NULL);
        RIG_CHECK(w.polled == rondoSuccess && w.aborted == rondoSuccess, "polled %d, aborted %d", w.polled, w.aborted);
        issued = ncclAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream);
        RIG_CHECK(issued == rondoInvalidArgument, "issued %d", issued);
    }
    rig->machine->stream_sync(rig->stream);
    rig->machine->stream_destroy(other);
    rig->machine->free(a);
    rig->machine->free(b);
    return 0;
}

Test(nccl_comms, are_polled_and_aborted_by_a_watchdog_while_others_issue_and_capture)
{
    needs_two();
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .layout = layout, .keep_comm = true}, aborted_under_way),
                     0);
}

/* Several threads poll one comm while its ops run. */
static void *poller(void *argument)
{
    struct watched *w = argument;
    ncclResult_t error = rondoSuccess;
    while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
        const ncclResult_t polled = ncclCommGetAsyncError(w->comm, &error);
        if (polled != rondoSuccess || error != rondoSuccess)
            __atomic_store_n(&w->polled, polled ? polled : error, __ATOMIC_RELAXED);
        if (!ncclGetLastError(w->comm))
            __atomic_store_n(&w->polled, rondoInternalError, __ATOMIC_RELAXED);
    }
    return NULL;
}

static int polled(struct rig *rig)
{
    enum { POLLERS = 3, OPS = 200 };
    struct watched w = {.comm = rig->comm};
    pthread_t threads[POLLERS];
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    rig->machine->fill(a, 0, COUNT * sizeof *a);
    for (int i = 0; i < POLLERS; i++)
        pthread_create(&threads[i], NULL, poller, &w);
    for (int i = 0; i < OPS; i++)
        RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    __atomic_store_n(&w.stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < POLLERS; i++)
        pthread_join(threads[i], NULL);
    RIG_CHECK(w.polled == rondoSuccess, "polled %d", w.polled);
    rig->machine->free(a);
    return 0;
}

Test(nccl_comms, may_be_polled_by_many_threads_while_they_are_used)
{
    needs_two();
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, polled), 0);
}

/* ---- the end ---- */

/* The last op waits for a slow rank for longer than Rondo's own finalize would. */
static int slow_end(struct rig *rig)
{
    enum { SLOW_US = 2500000 };
    float *a = rig->machine->alloc(COUNT * sizeof *a), *b = rig->machine->alloc(COUNT * sizeof *b);
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        ncclComm_t comm;
        RIG_OK(ncclCommInitRank(&comm, rig->ranks, rig->ids[1 + destroyed], rig->rank));
        rig_input(rig, a, COUNT, rondoFloat, rondoSum);
        const uint64_t start = rondo_now_ns();
        if (rig->rank == 0)
            rig->machine->compute(SLOW_US, rig->stream);
        RIG_OK(ncclAllReduce(a, b, COUNT, rondoFloat, rondoSum, comm, rig->stream));
        if (!destroyed)
            RIG_OK(ncclCommFinalize(comm));
        RIG_OK(ncclCommDestroy(comm));
        RIG_CHECK(rondo_now_ns() - start >= SLOW_US / 2 * 1000ull, "it did not wait");
        RIG_CHECK(rig_wrong(rig, b, COUNT, rondoFloat, rondoSum) == 0, "wrong results");
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    rig->machine->free(a);
    rig->machine->free(b);
    return 0;
}

Test(nccl_comms, are_finalized_and_destroyed_after_their_ops_however_long_these_take)
{
    needs_two();
    cr_assert_eq(rig_run(&two, slow_end), 0);
}

/* Rank 0 sends what rank 1 receives long after rank 0 has gone, and so does what the two others have for each other. */
static int gone_before(struct rig *rig)
{
    enum { LATE_US = 2500000 };
    const size_t bytes = COUNT * sizeof(float);
    float *a = rig->machine->alloc(bytes), *b = rig->machine->alloc(bytes);
    const int root = rig->ranks - 1;
    ncclComm_t comm;
    RIG_OK(ncclCommInitRank(&comm, rig->ranks, rig->ids[1], rig->rank));
    rig_input(rig, a, COUNT, rondoFloat, rondoSum);
    if (rig->rank == 1)
        rig->machine->compute(LATE_US, rig->stream);
    RIG_OK(ncclReduce(a, b, COUNT, rondoFloat, rondoSum, root, comm, rig->stream));
    if (rig->rank == 0) {
        RIG_OK(ncclSend(a, 10, rondoFloat, root, comm, rig->stream));
        RIG_OK(ncclCommDestroy(comm));
    } else {
        rig->machine->stream_sync(rig->stream);
    }
    RIG_CHECK(rig->rank != root || rig_wrong(rig, b, COUNT, rondoFloat, rondoSum) == 0, "reduced wrong");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank == root) {
        float sent[10], given[10];
        RIG_OK(ncclRecv(b, 10, rondoFloat, 0, comm, rig->stream));
        RIG_OK(ncclRecv(b + 10, 10, rondoFloat, 1, comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        const struct rig first = {.machine = rig->machine, .rank = 0, .ranks = rig->ranks};
        rig_input(&first, a, 10, rondoFloat, rondoSum);
        rig->machine->download(given, a, sizeof given);
        rig->machine->download(sent, b, sizeof sent);
        RIG_CHECK(memcmp(sent, given, sizeof sent) == 0, "received wrong");
    } else if (rig->rank == 1) {
        RIG_OK(ncclSend(a, 10, rondoFloat, root, comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
    }
    if (rig->rank != 0)
        RIG_OK(ncclCommDestroy(comm));
    rig->machine->free(a);
    rig->machine->free(b);
    return 0;
}

Test(nccl_comms, go_on_among_the_others_when_a_rank_has_ended_its_own)
{
    if (rig_ranks(3) < 3)
        cr_skip_test("needs three ranks");
    cr_assert_eq(rig_run(&three, gone_before), 0);
}

/* A peer that never comes: another thread's abort ends the finalize. */
static void *finalizer(void *argument)
{
    struct watched *w = argument;
    w->polled = ncclCommFinalize(w->comm);
    return NULL;
}

static int aborted_finalize(struct rig *rig)
{
    struct watched w = {.comm = rig->comm};
    pthread_t thread;
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    if (rig->rank == 0) {
        RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        pthread_create(&thread, NULL, finalizer, &w);
        usleep(1500000);
        const uint64_t start = rondo_now_ns();
        RIG_OK(ncclCommAbort(rig->comm));
        pthread_join(thread, NULL);
        RIG_CHECK(since_ms(start) < 2500, "%f ms", since_ms(start));
        RIG_CHECK(w.polled != rondoSuccess, "finalized without the other");
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank != 0)
        RIG_OK(ncclCommAbort(rig->comm));
    rig->machine->stream_sync(rig->stream);
    rig->machine->free(a);
    return 0;
}

Test(nccl_comms, that_wait_for_their_ops_in_finalize_can_be_aborted)
{
    needs_two();
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .keep_comm = true}, aborted_finalize), 0);
}

/* ---- another host ---- */

Test(nccl_comms, of_an_id_from_another_host_are_refused_at_once_and_that_host_is_named)
{
    ncclUniqueId id;
    ncclComm_t comm = (ncclComm_t)(void *)&id;
    struct rondo_id read;
    cr_assert_eq(ncclGetUniqueId(&id), rondoSuccess);
    memcpy(&read, &id, sizeof read);
    memset(read.boot, 7, sizeof read.boot);
    strcpy(read.host, "elsewhere");
    memcpy(&id, &read, sizeof id);
    const uint64_t start = rondo_now_ns();
    cr_assert_eq(ncclCommInitRank(&comm, 2, id, 1), rondoInvalidUsage);
    cr_expect(strstr(ncclGetLastError(NULL), "host elsewhere"), "%s", ncclGetLastError(NULL));
    cr_expect_null(comm);
    cr_expect_lt(since_ms(start), 1000);
}

Test(nccl_comms, have_no_id_from_an_address_alone)
{
    ncclUniqueId id;
    setenv("NCCL_COMM_ID", "127.0.0.1:4000", 1);
    cr_assert_eq(ncclGetUniqueId(&id), rondoInvalidUsage);
    cr_expect(strstr(ncclGetLastError(NULL), "NCCL_COMM_ID"));
}
