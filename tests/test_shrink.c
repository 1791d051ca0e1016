/* Comms shrunk to some ranks of another: while all are well, and when others are dead or hang. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/child.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 20000 };

/* ---- all are well ---- */

/* Without rank 1, then of those without their last; the parent goes on, all ranks' and with them its splits. */
static int while_well(struct rig *rig)
{
    int one = 1, last = rig->ranks - 2;
    rondoComm_t comm = NULL, smaller = NULL, split = NULL;
    const int rank = rig->rank ? rig->rank - 1 : 0;
    if (rig->rank != 1) {
        RIG_OK(rondoCommShrink(rig->comm, &one, 1, &comm, NULL, RONDO_SHRINK_DEFAULT));
        if (child_try(rig, comm, rank, rig->ranks - 1))
            return 1;
        if (rank != last) {
            RIG_OK(rondoCommShrink(comm, &last, 1, &smaller, NULL, RONDO_SHRINK_DEFAULT));
            if (child_try(rig, smaller, rank, rig->ranks - 2))
                return 1;
        }
    }
    if (child_try(rig, rig->comm, rig->rank, rig->ranks))
        return 1;
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &split, NULL));
    if (child_try(rig, split, rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    RIG_OK(rondoCommDestroy(split));
    RIG_OK(rondoCommDestroy(smaller));
    RIG_CHECK(!rig->comm->inbox.letters, "letters");
    return 0;
}

Test(shrink, leaves_the_parent_and_the_excluded_rank_as_they_were)
{
    if (rig_ranks(4) < 3)
        cr_skip_test("needs three devices");
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .layout = layout}, while_well), 0);
}

/* A replay is waited for once it runs, which the comm sees by its lanes. */
static int await_running(struct rig *rig)
{
    const uint64_t start = rondo_now_ns();
    bool busy = false;
    while (!busy) {
        RIG_CHECK(since_ms(start) < 5000, "the replay does not run");
        RIG_OK(rondo_lanes_busy(rig->comm->anchor, &busy));
        usleep(1000);
    }
    return 0;
}

/* Ops of the parent that wait for the excluded rank hold the shrink up, eager ones and replays. */
static int waits_for_ops(struct rig *rig)
{
    const struct machine *m = rig->machine;
    int *const entered = (int *)(void *)rig->scratch;
    int last = rig->ranks - 1;
    float *send = m->alloc(COUNT * 4), *recv = m->alloc(COUNT * 4);
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    for (int captured = 0; captured < 2; captured++) {
        rondoComm_t comm;
        struct machine_graph *graph = NULL;
        if (captured) {
            m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
            RIG_OK(rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
            graph = m->capture_end(rig->stream);
        }
        while (rig->rank == last && __atomic_load_n(entered, __ATOMIC_SEQ_CST) < (captured + 1) * last)
            usleep(1000);
        if (rig->rank == last)
            usleep(100000); /* the others are inside by now, most likely */
        if (captured)
            m->graph_launch(graph, rig->stream);
        else
            RIG_OK(rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        if (rig->rank != last) {
            if (captured && await_running(rig))
                return 1;
            __atomic_add_fetch(entered, 1, __ATOMIC_SEQ_CST);
            RIG_OK(rondoCommShrink(rig->comm, &last, 1, &comm, NULL, RONDO_SHRINK_DEFAULT));
            RIG_CHECK(rig_wrong(rig, recv, COUNT, rondoFloat, rondoSum) == 0, "the op was not done, captured %d",
                      captured);
            if (child_try(rig, comm, rig->rank, last))
                return 1;
            RIG_OK(rondoCommDestroy(comm));
        }
        m->stream_sync(rig->stream);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        if (captured)
            m->graph_destroy(graph);
        m->fill(recv, 0, COUNT * 4);
    }
    m->free(send);
    m->free(recv);
    return 0;
}

Test(shrink, waits_for_ops_of_the_parent)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, waits_for_ops), 0);
}

/* ---- ranks that hang or are dead ---- */

/* Issues what the excluded ranks never join, shrinks, and finds all as it should be. */
static int abort_and_go_on(struct rig *rig, int *excluded, int count, struct machine_graph *graph, float *a)
{
    const struct machine *m = rig->machine;
    const uint64_t start = rondo_now_ns();
    struct CUstream_st *other = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    float *b = m->alloc(COUNT * 4); /* the graph's run beside it */
    rondoComm_t comm = NULL;
    rondoResult_t error;
    int rank = rig->rank;
    for (int i = 0; i < count; i++)
        rank -= excluded[i] < rig->rank;
    if (graph)
        m->graph_launch(graph, rig->stream);
    rondoAllReduce(b, b, COUNT, rondoFloat, rondoSum, rig->comm, other); /* may see the failure already */
    RIG_OK(rondoCommShrink(rig->comm, excluded, count, &comm, NULL, RONDO_SHRINK_ABORT));
    m->stream_sync(rig->stream);
    m->stream_sync(other);
    RIG_CHECK(since_ms(start) < 4000, "%f ms", since_ms(start));
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoInvalidUsage || error == rondoRemoteError, "the parent says %d", error);
    RIG_CHECK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream) == error, "an op");
    if (child_try(rig, comm, rank, rig->ranks - count))
        return 1;
    RIG_OK(rondoCommDestroy(rig->comm));
    if (child_try(rig, comm, rank, rig->ranks - count))
        return 1;
    RIG_OK(rondoCommDestroy(comm));
    m->stream_destroy(other);
    m->free(b);
    return 0;
}

/* Rank 1 hangs, which to the others is a rank that makes no calls. */
static int with_a_rank_that_hangs(struct rig *rig)
{
    const struct machine *m = rig->machine;
    int excluded[] = {1, 1};
    float *a = m->alloc(COUNT * 4);
    rondoResult_t error;
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank != 1 && abort_and_go_on(rig, excluded, 1, graph, a))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank == 1) { /* it comes to, and finds out */
        for (int wait = 0; wait < 2000; wait++) {
            RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
            if (error != rondoSuccess)
                break;
            usleep(1000);
        }
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
        RIG_CHECK(strstr(rondoGetLastError(NULL), "shrank"), "another text");
        RIG_OK(rondoCommDestroy(rig->comm));
    }
    m->graph_destroy(graph);
    m->free(a);
    return 0;
}

Test(shrink, with_abort_does_without_a_rank_that_hangs)
{
    if (rig_ranks(4) < 3)
        cr_skip_test("needs three devices");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .keep_comm = true}, with_a_rank_that_hangs), 0);
    cr_assert_eq(
        rig_run(&(struct rig_options){.ranks = 3, .layout = RIG_THREADS, .keep_comm = true}, with_a_rank_that_hangs),
        0);
}

/* The last rank is killed, or stopped so that it reads nothing any more, in the midst of replays. */
static int with_a_rank_that_is(struct rig *rig, int signal)
{
    const struct machine *m = rig->machine;
    int last = rig->ranks - 1;
    float *a = m->alloc(COUNT * 4);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < 5; i++)
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < 10; i++)
        m->graph_launch(graph, rig->stream);
    if (rig->rank == last) {
        *(pid_t *)(void *)(rig->scratch + 64) = getpid();
        __atomic_store_n(&rig->scratch[32], 1, __ATOMIC_SEQ_CST);
        kill(getpid(), signal);
        return 0; /* woken by the last survivor */
    }
    while (!__atomic_load_n(&rig->scratch[32], __ATOMIC_SEQ_CST))
        usleep(500);
    if (abort_and_go_on(rig, &last, 1, graph, a))
        return 1;
    m->graph_destroy(graph);
    m->free(a);
    rig->scratch[rig->rank] = 1;
    if (signal == SIGSTOP && __atomic_add_fetch((int *)(void *)(rig->scratch + 128), 1, __ATOMIC_SEQ_CST) == last)
        kill(*(pid_t *)(void *)(rig->scratch + 64), SIGKILL);
    return 0;
}

static int with_a_killed_rank(struct rig *rig)
{
    return with_a_rank_that_is(rig, SIGKILL);
}

static int with_a_stopped_rank(struct rig *rig)
{
    return with_a_rank_that_is(rig, SIGSTOP);
}

static void survive(rig_body body)
{
    const int ranks = rig_ranks(4);
    char *scratch = calloc(1, RIG_SCRATCH);
    rig_run(
        &(struct rig_options){
            .ranks = ranks, .keep_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        body);
    for (int r = 0; r < ranks - 1; r++)
        cr_assert(scratch[r], "rank %d", r);
    free(scratch);
}

Test(shrink, with_abort_does_without_a_killed_rank)
{
    if (rig_ranks(4) < 2)
        cr_skip_test("needs two devices");
    for (int round = 0; round < 3; round++)
        survive(with_a_killed_rank);
}

Test(shrink, with_abort_does_without_a_stopped_rank)
{
    if (rig_ranks(4) < 2)
        cr_skip_test("needs two devices");
    survive(with_a_stopped_rank);
}

/* ---- what is refused ---- */

static int refused(struct rig *rig)
{
    int self = rig->rank, other = 1 - rig->rank, none = 2, negative = -1;
    rondoComm_t comm = (rondoComm_t)(uintptr_t)16;
    rondoResult_t error;
    const rondoComm_t parent = rig->comm;
    RIG_REFUSED(rondoInvalidArgument, "newcomm is NULL", rondoCommShrink(parent, &other, 1, NULL, NULL, 0));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommShrink(NULL, &other, 1, &comm, NULL, 0));
    RIG_CHECK(!comm, "a handle");
    RIG_REFUSED(rondoInvalidArgument, "excludeRanksList is NULL", rondoCommShrink(parent, NULL, 1, &comm, NULL, 0));
    RIG_REFUSED(rondoInvalidArgument, "excludeRanksCount is 0", rondoCommShrink(parent, &other, 0, &comm, NULL, 0));
    RIG_REFUSED(rondoInvalidArgument, "itself", rondoCommShrink(parent, &self, 1, &comm, NULL, RONDO_SHRINK_ABORT));
    RIG_REFUSED(rondoInvalidArgument, "is 2, must be 0 to 1", rondoCommShrink(parent, &none, 1, &comm, NULL, 0));
    RIG_REFUSED(rondoInvalidArgument, "is -1, must be", rondoCommShrink(parent, &negative, 1, &comm, NULL, 0));
    RIG_REFUSED(rondoInvalidArgument, "shrinkFlags is 2", rondoCommShrink(parent, &other, 1, &comm, NULL, 2));
    RIG_OK(rondoCommGetAsyncError(parent, &error));
    RIG_CHECK(error == rondoSuccess, "a refused call had an effect: %d", error);
    if (child_try(rig, parent, rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank == 0) { /* alone, as rank 1 does not call */
        RIG_OK(rondoCommShrink(parent, &other, 1, &comm, NULL, RONDO_SHRINK_ABORT));
        if (child_try(rig, comm, 0, 1))
            return 1;
        RIG_OK(rondoCommDestroy(comm));
        RIG_REFUSED(rondoInvalidUsage, "shrank", rondoCommShrink(parent, &other, 1, &comm, NULL, RONDO_SHRINK_DEFAULT));
        RIG_REFUSED(rondoInvalidUsage, "shrank", rondoCommSplit(parent, 0, 0, &comm, NULL));
        RIG_CHECK(!comm, "a handle");
    }
    return 0;
}

Test(shrink, is_refused_for_bad_arguments)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2)}, refused), 0);
}

/* Rank 0 leaves out the last, rank 1 the last two. */
static int different_lists(struct rig *rig)
{
    int excluded[] = {rig->ranks - 1, rig->ranks - 2};
    rondoComm_t comm;
    if (rig->rank < 2)
        RIG_REFUSED(rondoInvalidArgument, "exclude different ranks",
                    rondoCommShrink(rig->comm, excluded, 1 + rig->rank, &comm, NULL, RONDO_SHRINK_DEFAULT));
    else if (rig->rank == 2)
        RIG_CHECK(rondoCommShrink(rig->comm, excluded, 1, &comm, NULL, RONDO_SHRINK_DEFAULT) != rondoSuccess, "made");
    return rig_barrier(rig);
}

Test(shrink, of_ranks_that_exclude_different_ones_is_refused)
{
    if (rig_ranks(4) < 4)
        cr_skip_test("needs four devices");
    setenv("RONDO_INIT_TIMEOUT_MS", RIG_SLOW ? "6000" : "3000", 1); /* rank 2 waits for rank 1 */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 4}, different_lists), 0);
}
