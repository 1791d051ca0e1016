/* Paths that break: what cannot be had, mapped or seen is replaced on all ranks, with a warning that says why; ranks that die,
 * abort or leave while something is on its way leave nothing. */
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

enum { COUNT = 20000, ALL = 1u << RONDO_MEM_SHAREABLE | 1u << RONDO_MEM_LEGACY };

/* ---- what is replaced ---- */

/* Rank 1's faults, the settings of all, and what becomes of the paths of three ranks. */
static const struct fallback {
    const char *name;
    struct faults faults;
    struct way way;
    const char *tails[3][3];
    const char *warning; /* one rank says it, once */
    int warnings;        /* of all ranks, a pair's or a rank's each */
} fallbacks[] = {
    {"no import of cuMem memory",
     {.no_import = 1u << RONDO_MEM_SHAREABLE},
     {.tail = ""},
     {{NULL, "P2P/IPC", "P2P/IPC"}, {"P2P/IPC", NULL, "P2P/IPC"}, {"P2P/IPC", "P2P/IPC", NULL}},
     "rank 1: CUMEM memory of rank 0 cannot be mapped: a test's fault",
     2},
    {"no import of any",
     {.no_import = ALL},
     {.tail = ""},
     {{NULL, "SHM/direct/direct", "P2P/CUMEM"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"P2P/CUMEM", "SHM/direct/direct", NULL}},
     "rank 1: CUMEM memory of rank 0 cannot be mapped: a test's fault",
     2},
    {"no import of any, reads",
     {.no_import = ALL},
     {.tail = "", .settings = {"P2P_READ_ENABLE=1", "SHM_LOCALITY=1"}},
     {{NULL, "SHM/direct/direct", "P2P/CUMEM/read"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"P2P/CUMEM/read", "SHM/direct/direct", NULL}},
     "rank 1: CUMEM memory of rank 0 cannot be mapped: a test's fault",
     2},
    {"no import of any, copies",
     {.no_import = ALL},
     {.tail = "", .settings = {"P2P_USE_CUDA_MEMCPY=1", "SHM_USE_CUDA_MEMCPY=1"}},
     {{NULL, "SHM/CE/direct", "P2P/CUMEM/CE"},
      {"SHM/CE/direct", NULL, "SHM/CE/direct"},
      {"P2P/CUMEM/CE", "SHM/CE/direct", NULL}},
     "rank 1: CUMEM memory of rank 0 cannot be mapped: a test's fault",
     2},
    {"no export of cuMem memory",
     {.no_export = 1u << RONDO_MEM_SHAREABLE},
     {.tail = ""},
     {{NULL, "P2P/IPC", "P2P/IPC"}, {"P2P/IPC", NULL, "P2P/IPC"}, {"P2P/IPC", "P2P/IPC", NULL}},
     "rank 1: CUMEM memory cannot be used: a test's fault",
     3},
    {"no memory to share",
     {.no_alloc = ALL},
     {.tail = ""},
     {{NULL, "SHM/direct/direct", "SHM/direct/direct"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"SHM/direct/direct", "SHM/direct/direct", NULL}},
     "rank 1: CUMEM memory cannot be used: a test's fault",
     3},
    {"cuMem memory that others do not see",
     {.unseen = 1u << RONDO_MEM_SHAREABLE},
     {.tail = ""},
     {{NULL, "SHM/direct/direct", "P2P/CUMEM"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"P2P/CUMEM", "SHM/direct/direct", NULL}},
     "rank 0: what rank 1's kernel stored for it in device memory was not seen by it",
     2},
    {"legacy memory that others do not see, copies",
     {.unseen = 1u << RONDO_MEM_LEGACY},
     {.tail = "", .settings = {"CUMEM_ENABLE=0", "P2P_USE_CUDA_MEMCPY=1"}},
     {{NULL, "SHM/direct/direct", "P2P/IPC/CE"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"P2P/IPC/CE", "SHM/direct/direct", NULL}},
     "rank 0: what rank 1's kernel stored for it in device memory was not seen by it",
     2},
    {"reads of other memory than the sender's",
     {.unseen = 1u << RONDO_MEM_SHAREABLE},
     {.tail = "", .settings = {"P2P_READ_ENABLE=1"}},
     {{NULL, "SHM/direct/direct", "P2P/CUMEM/read"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"P2P/CUMEM/read", "SHM/direct/direct", NULL}},
     "rank 1: what rank 0's kernel stored for it in device memory came to it as something else",
     2},
    {"maps that take their time",
     {.map_delay_ms = 300},
     {.tail = ""},
     {{NULL, "P2P/CUMEM", "P2P/CUMEM"}, {"P2P/CUMEM", NULL, "P2P/CUMEM"}, {"P2P/CUMEM", "P2P/CUMEM", NULL}},
     NULL,
     0},
    {"a device that does not run the test's kernel",
     {.hold_streams_ms = 2500},
     {.tail = ""},
     {{NULL, "P2P/CUMEM", "P2P/CUMEM"}, {"P2P/CUMEM", NULL, "P2P/CUMEM"}, {"P2P/CUMEM", "P2P/CUMEM", NULL}},
     "rank 1: its paths are not tested",
     1},
};

static int falls_back(struct rig *rig)
{
    if (rig->rank == 1) {
        faults = fallbacks[atoi(getenv("RONDO_TEST_CASE"))].faults;
        faults_install();
    }
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    const int failed = rig_try(rig, 1);
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

static void choose_case(size_t number)
{
    char text[16];
    snprintf(text, sizeof text, "%zu", number);
    setenv("RONDO_TEST_CASE", text, 1);
}

Test(path_faults, of_memory_are_replaced_on_all_ranks_with_one_warning, .timeout = 100)
{
    if (rig_ranks(3) < 3 || !rig_on_host())
        cr_skip_test("three ranks of the host device");
    for (size_t f = 0; f < sizeof fallbacks / sizeof *fallbacks; f++) {
        const struct fallback *fallback = &fallbacks[f];
        way_set(&fallback->way);
        choose_case(f);
        log_begin();
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, falls_back), 0, "%s",
                     fallback->name);
        for (int s = 0; s < 3; s++)
            for (int r = 0; r < 3; r++)
                cr_expect(s == r || log_has_path(s, r, fallback->tails[s][r]), "%s", fallback->name);
        if (fallback->warning)
            cr_expect_eq(log_count_with(fallback->warning), 1, "%s", fallback->name);
        cr_expect_eq(log_count_with(" WARN "), fallback->warnings, "%s: %d warnings", fallback->name,
                     log_count_with(" WARN "));
        log_end();
    }
    cr_assert_eq(rig_names_in_shm(), 0);
}

/* All ranks are in one process, whose devices cannot use each other's memory. */
static int has_no_pointers(struct rig *rig)
{
    if (rig->rank == 0) {
        faults.no_attach = true;
        faults_install();
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    const int failed = rig_try(rig, 1);
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

Test(path_faults, of_pointers_within_a_process_are_replaced_too)
{
    const struct way way = {.tail = "SHM/direct/direct", .layout = RIG_THREADS};
    way_set(&way);
    log_begin();
    cr_assert_eq(
        rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS, .no_comm = true}, has_no_pointers),
        0);
    cr_expect(log_has_paths(&way, rig_ranks(2)));
    cr_expect_eq(log_count_with(" WARN "), rig_ranks(2)); /* by each that cannot */
    log_end();
}

/* ---- what cannot be replaced ---- */

static const struct refusal {
    struct faults faults; /* rank 1's */
    struct way way;
    int result;       /* of ranks without the fault; -1: any */
    const char *word; /* in its text */
} refusals[] = {
    {{0},
     {.tail = "", .settings = {"P2P_DISABLE=1", "SHM_DISABLE=1"}},
     rondoInvalidUsage,
     "P2P cannot be used (the log of a rank says why), and SHM_DISABLE forbids host memory"},
    {{.no_import = ALL},
     {.tail = "", .settings = {"SHM_DISABLE=1"}},
     rondoInvalidUsage,
     "P2P cannot be used (memory could not be mapped), and SHM_DISABLE forbids host memory"},
    {{.no_import = 1u << RONDO_MEM_HOST}, {.tail = "", .settings = {"P2P_DISABLE=1"}}, -1, "rank 1"},
    {{.no_alloc = 1u << RONDO_MEM_HOST}, {.tail = "", .settings = {"P2P_DISABLE=1"}}, -1, "rank 1"},
    {{.unseen = 1u << RONDO_MEM_HOST}, {.tail = "", .settings = {"P2P_DISABLE=1"}}, -1, "rank 1"},
    {{.broken = 1}, {.tail = "", .settings = {"P2P_USE_CUDA_MEMCPY=1"}}, -1, "rank 1"},
};

static int is_refused(struct rig *rig)
{
    const struct refusal *refusal = &refusals[atoi(getenv("RONDO_TEST_CASE"))];
    rondoUniqueId id = rig->ids[1];
    if (rig->rank == 1) {
        faults = refusal->faults;
        faults_install();
    }
    const uint64_t start = rondo_now_ns();
    const rondoResult_t result = rondoCommInitRank(&rig->comm, rig->ranks, id, rig->rank);
    RIG_CHECK(result != rondoSuccess && result != rondoTimeout, "gave %d", result);
    RIG_CHECK(since_ms(start) < 5000, "%f ms", since_ms(start));
    if (rig->rank != 1) {
        RIG_CHECK(refusal->result < 0 || (int)result == refusal->result, "gave %d", result);
        RIG_CHECK(strstr(rondoGetLastError(NULL), refusal->word), "no \"%s\"", refusal->word);
    }
    return 0;
}

Test(path_faults, for_which_there_is_no_way_are_a_clear_error_on_all_ranks, .timeout = 100)
{
    if (rig_ranks(3) < 3 || !rig_on_host())
        cr_skip_test("three ranks of the host device");
    for (size_t f = 0; f < sizeof refusals / sizeof *refusals; f++) {
        way_set(&refusals[f].way);
        choose_case(f);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, is_refused), 0,
                     "case %zu", f);
    }
    cr_assert_eq(rig_names_in_shm(), 0);
}

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

Test(path_faults, of_a_rank_that_is_killed_leave_nothing_to_the_others, .timeout = 200)
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

Test(path_faults, of_copies_that_stand_still_do_not_keep_an_abort, .timeout = 100)
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
    __atomic_store_n(&faults.broken, rig->rank == 0, __ATOMIC_RELEASE);
    if (rig->rank == 0)
        RIG_OK(rondoSend(buffer, 100, rondoInt8, 1, rig->comm, rig->stream));
    const uint64_t start = rondo_now_ns();
    const rondoResult_t error = await_error(rig, 3000);
    RIG_CHECK(error == (rig->rank ? rondoRemoteError : rondoSystemError), "error %d", error);
    RIG_CHECK(strstr(rondoGetLastError(rig->comm), "a copy between it and rank 1 failed"), "another error");
    m->stream_sync(rig->stream);
    RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
    RIG_OK(rondoCommDestroy(rig->comm));
    m->free(buffer);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(path_faults, of_copies_are_told_to_who_waits_for_them)
{
    way_set(&(struct way){.tail = "", .settings = {"P2P_USE_CUDA_MEMCPY=1"}});
    cr_assert_eq(
        rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true, .apart = true}, broken_behind_a_send), 0);
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

Test(path_faults, do_not_befall_what_was_sent_before_a_destroy, .timeout = 100)
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
        faults.unseen = ALL;
    config.blocking = 0;
    const rondoResult_t begun = rondoCommInitRankConfig(&rig->comm, rig->ranks, rig->ids[3], rig->rank, &config);
    RIG_CHECK(begun == rondoInProgress || begun == rondoSuccess, "gave %d", begun);
    const uint64_t start = rondo_now_ns();
    if (rig->rank == 0) {
        usleep(150000);
        RIG_OK(rondoCommAbort(rig->comm));
    } else {
        const rondoResult_t result = child_await(rig->comm);
        RIG_CHECK(result == rondoRemoteError, "gave %d", result);
        RIG_OK(rondoCommAbort(rig->comm));
    }
    RIG_CHECK(since_ms(start) < 2500, "%f ms", since_ms(start));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(path_faults, in_a_self_test_do_not_keep_an_abort)
{
    if (!rig_on_host())
        cr_skip_test("the fault is the host device's");
    way_set(&(struct way){.tail = ""});
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true, .apart = true}, aborted_in_init), 0);
}

/* Another thread's stream is capturing all the time. */
static int made_in_capture(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(COUNT * 4);
    m->fill(a, 0, COUNT * 4);
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    rondoComm_t second;
    m->capture_begin(rig->stream, MACHINE_CAPTURE_GLOBAL);
    RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream));
    RIG_OK(rondoCommInitRank(&second, rig->ranks, rig->ids[2], rig->rank));
    RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, second, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    m->graph_destroy(graph);
    m->free(a);
    const int failed = rig_try(rig, 1);
    RIG_OK(rondoCommDestroy(second));
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

Test(path_faults, do_not_come_of_a_comm_that_is_made_while_streams_capture)
{
    for (int w = 0; w < ways_count(); w++) {
        way_set(&ways[w]);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = ways[w].layout, .no_comm = true},
                             made_in_capture),
                     0, "way %d, %s", w, ways[w].tail);
    }
}
