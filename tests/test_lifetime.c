/* What is left of comms, graphs and ranks after their end, in whatever order and way they end: nothing. */
#include "comm/comm.h"
#include "common/arena.h"
#include "common/clock.h"
#include "support/draw.h"
#include "support/forks.h"
#include "support/holdings.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 5000 };

/* An id of rank 0's for all. */
static int next_id(struct rig *rig, rondoUniqueId *id)
{
    if (rig->rank == 0)
        RIG_OK(rondoGetUniqueId((rondoUniqueId *)rig->scratch));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    memcpy(id, rig->scratch, sizeof *id);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

/* ---- cycles ---- */

static int init_cycles(struct rig *rig)
{
    struct holdings before;
    rondoUniqueId id;
    for (int cycle = 0; cycle < (RIG_SLOW ? 45 : 205); cycle++) {
        if (cycle == 5) /* what is made once per process is there by now */
            before = holdings();
        if (next_id(rig, &id))
            return 1;
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, id, rig->rank));
        if (cycle % 20 == 3 && rig_try(rig, 1))
            return 1;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(cycle % 3 ? rondoCommDestroy(rig->comm) : rondoCommAbort(rig->comm));
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(lifetime, of_two_hundred_comms_leaves_nothing, .timeout = 120)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, init_cycles), 0);
}

static int graph_cycles(struct rig *rig)
{
    const struct machine *m = rig->machine;
    const int cycles = rig_on_host() && !RIG_SLOW ? 10000 : 2000;
    float *a = m->alloc(COUNT * sizeof *a);
    struct holdings before;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* peers in this process hold references too */
    const unsigned references = rondo_anchor_references(rig->comm->anchor);
    for (int cycle = 0; cycle < cycles + 50; cycle++) {
        if (cycle == 50)
            before = holdings();
        m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        for (int i = 0; i < 3; i++)
            RIG_OK(rondoAllReduce(a, a, 10, rondoFloat, rondoMax, rig->comm, rig->stream));
        RIG_OK(rondoGroupStart());
        for (int i = 0; i < 3; i++) /* side by side: the ops of a group may run at the same time */
            RIG_OK(rondoAllReduce(a + 64 * i, a + 64 * i, 10, rondoFloat, rondoMax, rig->comm, rig->stream));
        RIG_OK(rondoGroupEnd());
        struct machine_graph *graph = m->capture_end(rig->stream);
        if (cycle % 100 == 0) {
            m->graph_launch(graph, rig->stream);
            m->stream_sync(rig->stream);
        }
        m->graph_destroy(graph);
    }
    for (int wait = 0; wait < 200 && rondo_anchor_references(rig->comm->anchor) > references; wait++)
        usleep(10000);
    RIG_CHECK(rondo_anchor_references(rig->comm->anchor) == references, "%u references, %u before",
              rondo_anchor_references(rig->comm->anchor), references);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    m->free(a);
    return nothing_more(rig, &before) || rig_barrier(rig);
}

Test(lifetime, of_ten_thousand_graphs_leaves_nothing, .timeout = 120)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, graph_cycles), 0);
}

/* A peer's anchor may be gone when one looks for it. */
Test(lifetime, of_an_anchor_is_over_for_who_comes_late)
{
    struct rondo_anchor *first, *second;
    cr_assert_eq(rondo_anchor_create(&rondo_device_host, 0, &first), rondoSuccess);
    cr_assert_eq(rondo_anchor_create(&rondo_device_host, 0, &second), rondoSuccess);
    const uint64_t first_id = first->id, second_id = second->id;
    cr_assert_eq(rondo_anchor_find(first_id), first);
    cr_assert_eq(rondo_anchor_references(first), 2);
    rondo_anchor_drop(first);
    rondo_anchor_drop(first);
    cr_assert_eq(rondo_anchor_find(first_id), NULL);
    cr_assert_eq(rondo_anchor_find(second_id), second);
    rondo_anchor_drop_later(second);
    rondo_anchor_drop_later(second);
    cr_assert_eq(rondo_anchor_find(second_id), NULL);
    rondo_anchor_reap();
    cr_assert_eq(rondo_anchor_count(), 0);
}

/* ---- ranks that are killed ---- */

static void note(struct rig *rig, char what)
{
    rig->scratch[RIG_SCRATCH / 2 + rig->rank] = what;
}

/* The victim dies at a random moment: in init, in eager ops, in a capture, in replays, in destroy. */
static int killed_anywhere(struct rig *rig)
{
    const struct machine *m = rig->machine;
    const int victim = rig->ranks - 1, round = atoi(getenv("RONDO_TEST_ROUND"));
    struct draw dice = {(unsigned)round * 7919u + 1};
    rondoUniqueId id;
    for (int warm = 0; warm < 2; warm++) { /* default streams, the watch and what else comes once */
        if (next_id(rig, &id) || rondoCommInitRank(&rig->comm, rig->ranks, id, rig->rank) || rig_try(rig, 1) ||
            rig_barrier(rig) || rondoCommDestroy(rig->comm) || rig_barrier(rig))
            return note(rig, '2'), 1;
    }
    const struct holdings before = holdings();
    if (next_id(rig, &id))
        return note(rig, '3'), 1;
    if (rig->rank == victim) {
        pid_t self = getpid();
        if (fork() == 0) { /* who kills it: not a rank */
            usleep((useconds_t)(draw_below(&dice, round % 3 ? 40000 : 6000)));
            kill(self, SIGKILL);
            _exit(0);
        }
    }
    uint64_t last_well = rondo_now_ns();
    rondoResult_t result = rondoCommInitRank(&rig->comm, rig->ranks, id, rig->rank);
    if (result != rondoSuccess) {
        /* a timeout: it died before anybody had heard of it */
        const bool told = result == rondoRemoteError || result == rondoTimeout;
        note(rig, told && since_ms(last_well) < 6000 && !nothing_more(rig, &before) ? '1' : '4');
        return 0;
    }
    float *a = m->alloc(COUNT * sizeof *a);
    m->fill(a, 0, COUNT * sizeof *a);
    while (result == rondoSuccess) {
        last_well = rondo_now_ns();
        m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        for (int i = 0; i < 5 && result == rondoSuccess; i++)
            result = rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream);
        struct machine_graph *graph = m->capture_end(rig->stream);
        for (int i = 0; i < 5 && result == rondoSuccess; i++) {
            m->graph_launch(graph, rig->stream);
            result = rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream);
        }
        m->stream_sync(rig->stream); /* returns when the victim is dead */
        m->graph_destroy(graph);
        const rondoResult_t query = rondoCommGetAsyncError(rig->comm, &result);
        if (query != rondoSuccess)
            return note(rig, '5'), 0;
    }
    if (await_error(rig, 2000) != rondoRemoteError || since_ms(last_well) > 1500)
        return note(rig, '6'), 0;
    if (!strstr(rondoGetLastError(rig->comm), "rank"))
        return note(rig, '7'), 0;
    const uint64_t start = rondo_now_ns();
    if (rondoCommDestroy(rig->comm) != rondoSuccess || since_ms(start) > 2000)
        return note(rig, '8'), 0;
    m->free(a);
    note(rig, nothing_more(rig, &before) ? '9' : '1');
    return 0;
}

Test(lifetime, of_survivors_of_a_kill_at_any_moment_leaves_nothing, .timeout = 200)
{
    const int ranks = rig_ranks(3);
    char *scratch = malloc(RIG_SCRATCH), text[16];
    setenv("RONDO_INIT_TIMEOUT_MS", "4000", 1);
    for (int round = 0; round < (RIG_SLOW ? 10 : 40); round++) {
        snprintf(text, sizeof text, "%d", round);
        setenv("RONDO_TEST_ROUND", text, 1);
        rig_run(
            &(struct rig_options){
                .ranks = ranks, .no_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
            killed_anywhere);
        for (int r = 0; r < ranks - 1; r++)
            cr_assert_eq(scratch[RIG_SCRATCH / 2 + r], '1', "round %d: rank %d came as far as %c", round, r,
                         scratch[RIG_SCRATCH / 2 + r] ? scratch[RIG_SCRATCH / 2 + r] : '0');
    }
    cr_assert_eq(rig_names_in_shm(), 0);
    free(scratch);
}

/* ---- forks ---- */

/* A child after init: ends by itself, or frees its copies first. The comm does not notice. */
static int forked(struct rig *rig)
{
    for (int way = 0; way < 3; way++) {
        pid_t child = fork();
        if (child == 0) {
            if (way == 1)
                rondoCommDestroy(rig->comm);
            if (way == 2)
                rondoCommAbort(rig->comm);
            _exit(7);
        }
        int status;
        if (rig_try(rig, 1))
            return 1;
        RIG_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child: %x",
                  (unsigned)status);
        rondoResult_t error;
        usleep(50000);
        RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
        RIG_CHECK(error == rondoSuccess, "error %d", error);
        if (rig_try(rig, 1))
            return 1;
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

Test(lifetime, of_a_forked_child_does_its_parent_no_harm)
{
    if (!rig_on_host() || !FORKED_CHILDREN_WORK)
        cr_skip_test("CUDA does not survive a fork, nor does the heap of a sanitizer");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, forked), 0);
}

/* Rank 1 leaves, and dies, while a child of it holds all its descriptors: rank 0 learns of both. */
static int child_holds_on(struct rig *rig)
{
    int go[2];
    if (rig->rank == 1) {
        if (pipe(go))
            return 1;
        if (fork() == 0) {
            char byte;
            close(go[1]);
            if (read(go[0], &byte, 1)) /* until the rank is gone, and some time more */
                byte = 0;
            for (int wait = 0; wait < 1500 && !__atomic_load_n(&rig->scratch[0], __ATOMIC_ACQUIRE); wait++)
                usleep(10000);
            _exit(0);
        }
        if (rig_try(rig, 1) || rig_barrier(rig))
            return 1;
        usleep(20000);
        kill(getpid(), SIGKILL);
    }
    if (rig_try(rig, 1) || rig_barrier(rig))
        return 1;
    const uint64_t start = rondo_now_ns();
    const rondoResult_t error = await_error(rig, 3000);
    note(rig, error == rondoRemoteError && since_ms(start) < 1100 ? '1' : '2');
    __atomic_store_n(&rig->scratch[0], 1, __ATOMIC_RELEASE); /* the child may end */
    rondoCommDestroy(rig->comm);
    return 0;
}

Test(lifetime, of_a_rank_that_died_is_over_though_its_child_lives)
{
    if (!rig_on_host())
        cr_skip_test("CUDA does not survive a fork");
    char *scratch = malloc(RIG_SCRATCH);
    rig_run(
        &(struct rig_options){.ranks = 2, .keep_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        child_holds_on);
    cr_assert_eq(scratch[RIG_SCRATCH / 2], '1');
    free(scratch);
}

/* ---- the process ends with everything alive ---- */

/* Where the leak checker finds what is not to be destroyed. */
static struct machine_graph *kept[16];

static int exit_alive(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(COUNT * sizeof *a), *b = m->alloc(COUNT * sizeof *b);
    m->fill(a, 0, COUNT * sizeof *a);
    m->fill(b, 0, COUNT * sizeof *b);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < 5; i++)
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    kept[rig->rank] = graph;
    for (int i = 0; i < (RIG_SLOW ? 10 : 50); i++) { /* at the same time as each other, so not on the same buffer */
        m->graph_launch(graph, rig->stream);
        RIG_OK(rondoAllReduce(b, b, COUNT, rondoFloat, rondoMax, rig->comm, m->stream_create(0)));
    }
    note(rig, '1');
    if (atoi(getenv("RONDO_TEST_ROUND")) % 2)
        m->stream_sync(rig->stream);
    rig_barrier(rig); /* a rank that ends is an error for one that still issues */
    return 0;         /* the process ends */
}

Test(lifetime, of_a_process_may_end_with_everything_alive)
{
    char *scratch = malloc(RIG_SCRATCH);
    for (int round = 0; round < 6; round++) {
        setenv("RONDO_TEST_ROUND", round % 2 ? "1" : "0", 1);
        const uint64_t start = rondo_now_ns();
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3),
                                                   .layout = round % 3 == 2 ? RIG_THREADS : RIG_PROCESSES,
                                                   .keep_comm = true,
                                                   .may_fail = true,
                                                   .scratch_copy = scratch},
                             exit_alive),
                     0);
        cr_assert(since_ms(start) < 10000, "%f ms", since_ms(start));
        cr_assert_eq(scratch[RIG_SCRATCH / 2], '1');
    }
    free(scratch);
}

/* ---- orders of ending ---- */

static int queued_work(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(COUNT * sizeof *a), *b = m->alloc(COUNT * sizeof *b);
    /* work that ends soon: destroy waits for it */
    rig_input(rig, a, COUNT, rondoFloat, rondoSum);
    m->fill(b, 0x77, COUNT * sizeof *b);
    m->compute(150e3, rig->stream);
    for (int i = 0; i < 5; i++)
        RIG_OK(rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    uint64_t start = rondo_now_ns();
    RIG_OK(rondoCommDestroy(rig->comm));
    RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
    m->stream_sync(rig->stream);
    RIG_CHECK(rig_wrong(rig, b, COUNT, rondoFloat, rondoSum) == 0, "destroy did not wait for queued ops");
    /* work that does not: destroy gives up in time, and what is queued then does nothing */
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    m->fill(b, 0x77, COUNT * sizeof *b);
    m->compute(5000e3, rig->stream);
    for (int i = 0; i < 20; i++)
        RIG_OK(rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    start = rondo_now_ns();
    RIG_OK(rondoCommDestroy(rig->comm));
    RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
    RIG_CHECK(!m->stream_done(rig->stream), "the test's own compute was too short");
    m->stream_sync(rig->stream);
    char byte;
    m->download(&byte, b, 1);
    RIG_CHECK(byte == 0x77, "an op ran after its comm's end");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    m->free(a);
    m->free(b);
    return 0;
}

Test(lifetime, of_a_comm_ends_behind_queued_work_or_before_it)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .keep_comm = true}, queued_work), 0);
}

/* A call of another thread is inside for longer than anybody waits: what it may use is there until it is out. */
static int held_up(struct rig *rig)
{
    for (int aborted = 0; aborted < 2; aborted++) {
        struct rondoComm *comm = rig->comm;
        RIG_OK(rondo_comm_enter(comm));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        const uint64_t start = rondo_now_ns();
        RIG_OK(aborted ? rondoCommAbort(comm) : rondoCommDestroy(comm));
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
        RIG_CHECK(rondoCommDestroy(comm) == rondoInvalidArgument, "destroyed twice");
        RIG_CHECK(rondo_comm_enter(comm) == rondoInvalidArgument, "another call gets in");
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        for (int inside = 1; inside >= 0; inside--) { /* it gets out between two comms */
            RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1 + 2 * aborted + inside], rig->rank));
            RIG_CHECK((comm->anchor != NULL) == (inside == 1) && (comm->bootstrap != NULL) == (inside == 1),
                      "%s while a call was %s", comm->anchor ? "not freed" : "freed", inside ? "inside" : "out");
            if (rig_try(rig, 1) || rig_barrier(rig))
                return 1;
            if (inside) {
                RIG_OK(rondoCommDestroy(rig->comm));
                rondo_comm_leave(comm);
            }
        }
    }
    RIG_OK(rondoCommDestroy(rig->comm));
    return 0;
}

Test(lifetime, of_a_comm_that_a_call_is_held_up_in_goes_on_until_that_is_out)
{
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(
            rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = layout, .keep_comm = true}, held_up), 0);
}

/* The comm ends inside a capture with its ops; the graph is made, launched and destroyed afterwards. */
static int ends_in_capture(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(COUNT * sizeof *a);
    char byte;
    for (int way = 0; way < 2; way++) {
        if (way)
            RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
        m->fill(a, 0x77, COUNT * sizeof *a);
        m->capture_begin(rig->stream, MACHINE_CAPTURE_RELAXED);
        for (int i = 0; i < 3; i++)
            RIG_OK(rondoAllReduce(a, a, COUNT, rondoInt8, rondoSum, rig->comm, rig->stream));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* ops after a peer's end would be refused */
        RIG_OK(way ? rondoCommAbort(rig->comm) : rondoCommDestroy(rig->comm));
        RIG_CHECK(rondoAllReduce(a, a, COUNT, rondoInt8, rondoSum, rig->comm, rig->stream) == rondoInvalidArgument,
                  "accepted");
        struct machine_graph *graph = m->capture_end(rig->stream);
        for (int i = 0; i < 3; i++)
            m->graph_launch(graph, rig->stream);
        m->stream_sync(rig->stream);
        m->download(&byte, a, 1);
        RIG_CHECK(byte == 0x77, "a replay of a comm that is gone wrote");
        m->graph_destroy(graph);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    m->free(a);
    for (int wait = 0; wait < 100 && rig->alone && rondo_anchor_count(); wait++) {
        usleep(10000);
        rondo_anchor_reap();
    }
    return 0;
}

Test(lifetime, of_a_comm_may_end_inside_a_capture)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .keep_comm = true}, ends_in_capture), 0);
}
