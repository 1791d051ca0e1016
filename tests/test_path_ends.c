/* Ranks that die, abort or leave while something is on its way between them, and copies that fail: an error in bounded time, and
 * nothing is left. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/child.h"
#include "support/draw.h"
#include "support/faults.h"
#include "support/holdings.h"
#include "support/ways.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COUNT = 20000 };

/* ---- an end while something is on its way ---- */

/* What each survivor writes into scratch: 1 for well, else a digit for what went wrong. */
static void note(struct rig *rig, char what)
{
    rig->scratch[RIG_SCRATCH / 2 + rig->rank] = what;
}

/* What comes once per process, and a comm that is there for the test. */
static int warm_up(struct rig *rig, struct holdings *before)
{
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    if (rig_try(rig, 1) || rig_barrier(rig))
        return 1;
    RIG_OK(rondoCommDestroy(rig->comm));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int wait = 0; wait < 30; wait++) {
        rondo_anchor_reap();
        usleep(1000);
    }
    *before = holdings();
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[2], rig->rank));
    return 0;
}

static struct machine_graph *capture_all_reduces(struct rig *rig, float *a)
{
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < 10; i++)
        if (rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream) != rondoSuccess)
            return NULL;
    return rig->machine->capture_end(rig->stream);
}

/* The last rank is killed in the middle of replays. */
static int killed(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct holdings before;
    if (warm_up(rig, &before))
        return note(rig, '2'), 1;
    float *a = m->alloc(COUNT * 4);
    m->fill(a, 0, COUNT * 4);
    struct machine_graph *graph = capture_all_reduces(rig, a);
    struct draw dice = {(uint64_t)getppid()};
    if (rig_barrier(rig))
        return 1;
    for (int i = 0; i < 20; i++)
        m->graph_launch(graph, rig->stream);
    if (rig->rank == rig->ranks - 1) {
        usleep(draw_below(&dice, 5000));
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 30; i++)
        m->graph_launch(graph, rig->stream);
    const uint64_t start = rondo_now_ns();
    if (await_error(rig, 5000) != rondoRemoteError)
        return note(rig, '3'), 1;
    if (since_ms(start) > 2000 || !strstr(rondoGetLastError(rig->comm), "rank"))
        return note(rig, '4'), 1;
    m->stream_sync(rig->stream);
    if (rondoCommDestroy(rig->comm) != rondoSuccess || since_ms(start) > 5000)
        return note(rig, '5'), 1;
    m->graph_destroy(graph);
    m->free(a);
    note(rig, nothing_more(rig, &before) ? '6' : '1');
    return 0;
}

Test(path_ends, after_a_kill_leave_nothing_to_the_others, .timeout = 200)
{
    const int ranks = rig_ranks(3);
    char *scratch = malloc(RIG_SCRATCH);
    for (int w = 0; w < ways_count(); w++) {
        if (ways[w].layout != RIG_PROCESSES)
            continue;
        way_set(&ways[w]);
        rig_run(
            &(struct rig_options){
                .ranks = ranks, .no_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
            killed);
        for (int r = 0; r < ranks - 1; r++)
            cr_assert_eq(scratch[RIG_SCRATCH / 2 + r], '1', "way %d, %s: rank %d came as far as %c", w, ways[w].tail, r,
                         scratch[RIG_SCRATCH / 2 + r] ? scratch[RIG_SCRATCH / 2 + r] : '0');
    }
    cr_assert_eq(rig_names_in_shm(), 0);
    free(scratch);
}

/* Rank 0 aborts while its copies stand still, and those that it was given are yet to come. */
static int aborted_in_copies(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct holdings before;
    faults_install();
    if (warm_up(rig, &before))
        return 1;
    float *a = m->alloc(COUNT * 4);
    m->fill(a, 0, COUNT * 4);
    __atomic_store_n(&faults.stalled, rig->rank == 0, __ATOMIC_RELEASE);
    for (int i = 0; i < 5; i++)
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* all have called before one aborts */
    const uint64_t start = rondo_now_ns();
    usleep(100000);
    if (rig->rank) {
        const rondoResult_t error = await_error(rig, 3000);
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
    } else {
        __atomic_store_n(&faults.copy_delay_us, 20000, __ATOMIC_RELAXED);
        __atomic_store_n(&faults.stalled, 0, __ATOMIC_RELEASE);
    }
    RIG_OK(rondoCommAbort(rig->comm));
    RIG_CHECK(since_ms(start) < 4000, "%f ms", since_ms(start));
    m->stream_sync(rig->stream);
    m->free(a);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(path_ends, by_an_abort_do_not_wait_for_copies_that_stand_still, .timeout = 100)
{
    for (int w = 0; w < ways_count(); w++) {
        if (!ways[w].copies || ways[w].layout != RIG_PROCESSES)
            continue;
        way_set(&ways[w]);
        cr_assert_eq(
            rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true, .apart = true}, aborted_in_copies), 0,
            "way %d, %s", w, ways[w].tail);
    }
}

/* Rank 0's copies fail once it has sent: no kernel of its own waits that would report it, and rank 1 learns of it all the same. */
static int broken_behind_a_send(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct holdings before;
    faults_install();
    if (warm_up(rig, &before))
        return 1;
    char *buffer = m->alloc(COUNT);
    if (rig->rank == 1)
        RIG_OK(rondoRecv(buffer, 100, rondoInt8, 0, rig->comm, rig->stream));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* an op after the failure would be refused */
    __atomic_store_n(&faults.broken, rig->rank == 0, __ATOMIC_RELEASE);
    if (rig->rank == 0)
        RIG_OK(rondoSend(buffer, 100, rondoInt8, 1, rig->comm, rig->stream));
    const uint64_t start = rondo_now_ns();
    const rondoResult_t error = await_error(rig, 3000);
    RIG_CHECK(error == (rig->rank ? rondoRemoteError : rondoSystemError), "error %d", error);
    RIG_CHECK(strstr(rondoGetLastError(rig->comm), "a copy between it and rank 1 failed"), "another error");
    m->stream_sync(rig->stream);
    RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
    if (getenv("RONDO_TEST_STAYS"))
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(rig->comm));
    m->free(buffer);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(path_ends, by_a_failed_copy_are_told_to_who_waits_for_it)
{
    way_set(&(struct way){.tail = "", .settings = {"P2P_USE_CUDA_MEMCPY=1"}});
    for (int stays = 0; stays < 2; stays++) { /* it destroys its comm at once, or once the other has learned of it */
        if (stays)
            setenv("RONDO_TEST_STAYS", "1", 1);
        cr_assert_eq(
            rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true, .apart = true}, broken_behind_a_send),
            0, "stays %d", stays);
    }
}

/* Rank 0 sends, and destroys its comm at once: what it sent arrives, however late it is copied. */
static int sent_and_left(struct rig *rig)
{
    const struct machine *m = rig->machine;
    enum { BYTES = 5000 };
    struct holdings before;
    char *buffer = m->alloc(BYTES), host[BYTES];
    if (rig->rank == 0 || rig->alone)
        faults_install();
    if (rig_barrier(rig) || warm_up(rig, &before))
        return 1;
    __atomic_store_n(&faults.copy_delay_us, 100000, __ATOMIC_RELAXED);
    m->fill(buffer, rig->rank ? 0 : 0x55, BYTES);
    if (rig->rank == 1)
        RIG_OK(rondoRecv(buffer, BYTES, rondoInt8, 0, rig->comm, rig->stream));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* an op after a peer has left would be refused */
    if (rig->rank == 0)
        RIG_OK(rondoSend(buffer, BYTES, rondoInt8, 1, rig->comm, rig->stream));
    else if (rig->rank == 1)
        m->stream_sync(rig->stream);
    RIG_OK(rondoCommDestroy(rig->comm));
    m->stream_sync(rig->stream);
    m->download(host, buffer, BYTES);
    for (int i = 0; i < BYTES && rig->rank == 1; i++)
        RIG_CHECK(host[i] == 0x55, "byte %d is 0x%02x", i, (unsigned char)host[i]);
    m->free(buffer);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return rig->alone ? nothing_more(rig, &before) : 0;
}

Test(path_ends, by_a_destroy_come_after_what_was_sent, .timeout = 100)
{
    for (int w = 0; w < ways_count(); w++) {
        way_set(&ways[w]);
        cr_assert_eq(
            rig_run(
                &(struct rig_options){.ranks = rig_ranks(2), .layout = ways[w].layout, .no_comm = true, .apart = true},
                sent_and_left),
            0, "way %d, %s", w, ways[w].tail);
    }
}

/* ---- the self-test and what goes on around it ---- */

/* Rank 1's stores are not seen, so that the self-test takes its time; rank 0 aborts its init meanwhile. */
static int aborted_in_init(struct rig *rig)
{
    struct holdings before;
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    faults_install();
    if (warm_up(rig, &before))
        return 1;
    RIG_OK(rondoCommDestroy(rig->comm));
    if (rig->rank == 1)
        faults.unseen = 1u << RONDO_MEM_SHAREABLE;
    config.blocking = 0;
    const rondoResult_t begun = rondoCommInitRankConfig(&rig->comm, rig->ranks, rig->ids[3], rig->rank, &config);
    RIG_CHECK(begun == rondoInProgress || begun == rondoSuccess, "gave %d", begun);
    const uint64_t start = rondo_now_ns();
    if (rig->rank == 0) {
        usleep(150000);
        RIG_OK(rondoCommAbort(rig->comm));
    } else {
        rondoResult_t result = child_await(rig->comm);
        if (result == rondoSuccess) /* rank 0 was late */
            result = await_error(rig, 3000);
        RIG_CHECK(result == rondoRemoteError, "gave %d", result);
        RIG_OK(rondoCommAbort(rig->comm));
    }
    RIG_CHECK(since_ms(start) < 2500, "%f ms", since_ms(start));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(path_ends, by_an_abort_come_in_the_self_test_too)
{
    if (!rig_on_host())
        cr_skip_test("the fault is the host device's");
    way_set(&(struct way){.tail = ""});
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true, .apart = true}, aborted_in_init), 0);
}
