/* Ranks that die, abort, leave or never come: a clear error in bounded time, and nothing left behind. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/draw.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 20000 };

/* What each survivor writes into scratch: 1 for well, else a digit for what went wrong. */
static void note(struct rig *rig, char what)
{
    rig->scratch[rig->rank] = what;
}

/* The last rank is killed while all are in the middle of replays; the others must notice, and get out. */
static int killed_in_replays(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *send = m->alloc(COUNT * 4), *recv = m->alloc(COUNT * 4);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < 10; i++)
        RIG_OK(rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* none dies while another still captures */
    const int victim = rig->ranks - 1;
    struct draw dice = {(uint64_t)getppid()};
    const int replays = 3 + (int)draw_below(&dice, 40);
    for (int i = 0; i < replays; i++)
        m->graph_launch(graph, rig->stream);
    if (rig->rank == victim) {
        usleep(draw_below(&dice, 3000));
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 20; i++)
        m->graph_launch(graph, rig->stream);
    const uint64_t start = rondo_now_ns();
    rondoResult_t error = await_error(rig, 5000);
    char name[32];
    snprintf(name, sizeof name, "rank %d", victim);
    if (error != rondoRemoteError)
        return note(rig, '2'), 1;
    if (since_ms(start) > 1000)
        return note(rig, '3'), 1;
    if (!strstr(rondoGetLastError(rig->comm), name))
        return note(rig, '4'), 1;
    m->stream_sync(rig->stream); /* its kernels return */
    if (since_ms(start) > 2000)
        return note(rig, '5'), 1;
    if (rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream) != rondoRemoteError)
        return note(rig, '6'), 1;
    if (rondoCommDestroy(rig->comm) != rondoSuccess || since_ms(start) > 4000)
        return note(rig, '7'), 1;
    m->graph_destroy(graph);
    note(rig, '1');
    return 0;
}

Test(failure, of_a_killed_rank_is_noticed_by_all_within_a_second, .timeout = 200)
{
    const int ranks = rig_ranks(4);
    char *scratch = malloc(RIG_SCRATCH);
    for (int round = 0; round < 5; round++) {
        rig_run(
            &(struct rig_options){
                .ranks = ranks, .keep_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
            killed_in_replays);
        for (int r = 0; r < ranks - 1; r++)
            cr_assert_eq(scratch[r], '1', "rank %d came as far as %c", r, scratch[r] ? scratch[r] : '0');
    }
    cr_assert_eq(rig_names_in_shm(), 0);
    free(scratch);
}

/* Rank 0 issues an op that the others never join. */
static int never_comes(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * 4);
    if (rig->rank == 0) {
        const uint64_t start = rondo_now_ns();
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        const rondoResult_t error = await_error(rig, 1000);
        RIG_CHECK(error == rondoTimeout, "error %d", error);
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
        const char *text = rondoGetLastError(rig->comm);
        RIG_CHECK(strstr(text, "rank 0 waited") && strstr(text, "for rank 1") && strstr(text, "80000 bytes"), "%s",
                  text);
    } else {
        const rondoResult_t error = await_error(rig, 5000); /* it is told */
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rig->machine->free(a);
    return 0;
}

Test(failure, of_a_rank_to_arrive_is_a_timeout_that_names_it)
{
    setenv("RONDO_TIMEOUT_MS", "300", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, never_comes), 0);
}

/* Rank 0 waits in a kernel for ever; the last rank aborts, and so does rank 0. */
static int aborted(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * 4);
    if (rig->rank != rig->ranks - 1) {
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        const rondoResult_t error = await_error(rig, 3000);
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
        rig->machine->stream_sync(rig->stream);
    } else {
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        usleep(50000);
    }
    const uint64_t start = rondo_now_ns();
    RIG_OK(rondoCommAbort(rig->comm));
    RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
    RIG_CHECK(rondoCommAbort(rig->comm) == rondoInvalidArgument, "twice");
    RIG_CHECK(rondoAllReduce(a, a, 4, rondoFloat, rondoSum, rig->comm, rig->stream) == rondoInvalidArgument,
              "afterwards");
    rig->machine->free(a);
    return 0;
}

Test(failure, by_an_abort_ends_the_waits_of_all_ranks)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .keep_comm = true}, aborted), 0);
    cr_assert_eq(
        rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS, .keep_comm = true}, aborted), 0);
}

/* Destroy while a kernel waits for a rank that will never come. */
static int destroyed(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * 4);
    if (rig->rank == 0) {
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        const uint64_t start = rondo_now_ns();
        RIG_OK(rondoCommDestroy(rig->comm));
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
        rig->machine->stream_sync(rig->stream);
    } else {
        const rondoResult_t error = await_error(rig, 4000);
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
        RIG_OK(rondoCommDestroy(rig->comm));
    }
    rig->machine->free(a);
    return 0;
}

Test(failure, to_end_in_order_still_lets_destroy_return)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .keep_comm = true, .may_fail = true}, destroyed),
                 0);
}

/* A rank that destroyed its comm in order is no error for the others, until they want something of it. */
static int left(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * 4);
    RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    if (rig->rank != 0) {
        rig->machine->stream_sync(rig->stream);
        RIG_OK(rondoCommDestroy(rig->comm));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    } else {
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        const uint64_t start = rondo_now_ns();
        while (__atomic_load_n(&rig->comm->left_rank, __ATOMIC_ACQUIRE) < 0 && since_ms(start) < 5000)
            usleep(1000);
        rondoResult_t error;
        rig->machine->stream_sync(rig->stream);
        RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
        RIG_CHECK(error == rondoSuccess, "error %d", error);
        RIG_CHECK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream) == rondoRemoteError,
                  "an op");
        RIG_CHECK(strstr(rondoGetLastError(NULL), "has left"), "%s", rondoGetLastError(NULL));
        RIG_OK(rondoCommDestroy(rig->comm));
    }
    rig->machine->free(a);
    return 0;
}

Test(failure, is_not_what_an_orderly_leave_is)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .keep_comm = true}, left), 0);
}
