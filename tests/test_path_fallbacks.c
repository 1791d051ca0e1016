/* What cannot be had, mapped or seen is replaced on all ranks, with a warning that says why, or is a clear error on all. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/faults.h"
#include "support/holdings.h"
#include "support/ways.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALL = 1u << RONDO_MEM_SHAREABLE | 1u << RONDO_MEM_LEGACY };

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

Test(path_fallbacks, replace_memory_on_all_ranks_with_one_warning, .timeout = 100)
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

/* ---- what a test that did not come about leaves ---- */

enum { WORDS = 64 << 10, ROUNDS = 60 };

/* Rank 1's device runs its self-test's kernel late, when the others' have ended: the lines that these stored for it stay. */
static int exchanges_by_bulk(struct rig *rig)
{
    if (rig->rank == 1) {
        faults.hold_streams_ms = 2700;
        faults_install();
    }
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    int32_t *buffer = rig->machine->alloc(WORDS * sizeof *buffer), *host = malloc(WORDS * sizeof *host);
    size_t wrong = 0;
    for (int round = 0; round < ROUNDS && !wrong; round++) {
        for (int i = 0; i < WORDS; i++)
            host[i] = round * WORDS + i;
        rig->machine->upload(buffer, host, WORDS * sizeof *host);
        RIG_OK(rondoAllReduce(buffer, buffer, WORDS, rondoInt32, rondoSum, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        rig->machine->download(host, buffer, WORDS * sizeof *host);
        for (int i = 0; i < WORDS; i++)
            wrong += host[i] != rig->ranks * (round * WORDS + i);
        RIG_CHECK(!wrong, "%zu wrong in round %d", wrong, round);
    }
    free(host);
    rig->machine->free(buffer);
    RIG_OK(rondoCommDestroy(rig->comm));
    return 0;
}

/* The self-test shared a row of tokens with the bulk protocol: what it left was taken for the end of a peer's results. */
Test(path_fallbacks, leave_no_token_for_the_bulk_protocol, .timeout = 100)
{
    if (rig_ranks(3) < 3 || !rig_on_host())
        cr_skip_test("three ranks of the host device");
    setenv("RONDO_PROTO", "bulk", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_TIMEOUT_MS", "20000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, exchanges_by_bulk), 0);
}

/* Rank 1's device runs no kernel for four seconds, in which the paths are chosen anew, for what rank 0 does not see of rank 2: the
 * first test's kernel then comes to memory that is gone. */
static int is_late_for_the_first_test(struct rig *rig)
{
    if (rig->rank == 1) {
        setenv("RONDO_P2P_DISABLE", "1", 1);
        faults.hold_streams_ms = 4000;
    }
    if (rig->rank == 2)
        faults.unseen = 1u << RONDO_MEM_SHAREABLE;
    if (rig->rank)
        faults_install();
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    const int failed = rig_try(rig, 1);
    usleep(4500000); /* what runs late has run */
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

/* The next test's record was the last one's, which had told it to end. */
Test(path_fallbacks, end_for_a_kernel_of_an_earlier_test, .timeout = 100)
{
    if (rig_ranks(3) < 3 || !rig_on_host())
        cr_skip_test("three ranks of the host device");
    setenv("RONDO_TIMEOUT_MS", "20000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, is_late_for_the_first_test),
                 0);
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

Test(path_fallbacks, replace_pointers_within_a_process)
{
    const struct way way = {.tail = "SHM/direct/direct", .layout = RIG_THREADS};
    way_set(&way);
    log_begin();
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2), .layout = RIG_THREADS, .no_comm = true},
                         has_no_pointers),
                 0);
    cr_expect(log_has_paths(&way, rig_ranks_most(2)));
    cr_expect_eq(log_count_with(" WARN "), rig_ranks_most(2)); /* by each that cannot */
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
    return rig_barrier(rig); /* else the end of a process may be heard of first */
}

Test(path_fallbacks, that_do_not_exist_are_a_clear_error_on_all_ranks, .timeout = 100)
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

/* ---- each step of init ---- */

/* Rank 1's init fails at its n-th call of the device layer that may: n = 1, 2, … until there are no more. */
static int fails_at_each_call(struct rig *rig)
{
    rondoUniqueId *id = (rondoUniqueId *)(void *)rig->scratch;
    volatile int *results = (volatile int *)(void *)(rig->scratch + 4096), *more = results + 8;
    struct holdings before;
    faults_install();
    *more = 1;
    for (int n = 0; *more; n++) {
        if (rig->rank == 0)
            RIG_OK(rondoGetUniqueId(id));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        faults.calls = 0;
        faults.fail_at = rig->rank == 1 ? n : 0; /* of the first, 0, nothing fails */
        const uint64_t start = rondo_now_ns();
        rig->comm = NULL;
        const rondoResult_t result = rondoCommInitRank(&rig->comm, rig->ranks, *id, rig->rank);
        const bool fired = faults.calls >= n;
        faults.fail_at = 0;
        results[rig->rank] = result;
        RIG_CHECK(since_ms(start) < 8000, "call %d, %f ms", n, since_ms(start));
        RIG_CHECK(result != rondoTimeout, "call %d", n);
        if (rig->rank == 1 && result != rondoSuccess)
            RIG_CHECK(strstr(rondoGetLastError(NULL), "a test's fault"), "call %d", n);
        if (result != rondoSuccess && rig->rank != 1)
            RIG_CHECK(strstr(rondoGetLastError(NULL), "rank "), "call %d", n); /* 0, where that hears nothing of 1 */
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        for (int r = 0; r < rig->ranks; r++)
            RIG_CHECK((results[r] == rondoSuccess) == (result == rondoSuccess), "call %d, rank %d", n, r);
        if (rig->rank == 1)
            *more = fired;
        if (result == rondoSuccess) {
            if (rig_try(rig, 1))
                return 1;
            RIG_OK(rondoCommDestroy(rig->comm));
        }
        if (n == 0)
            before = holdings();
        else if (nothing_more(rig, &before)) {
            fprintf(stderr, "call %d\n", n);
            return 1;
        }
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    return 0;
}

Test(path_fallbacks, end_every_failure_of_init_on_all_ranks_and_leave_nothing, .timeout = 300)
{
    static const struct way some[] = {
        {.tail = ""},
        {.tail = "", .settings = {"P2P_USE_CUDA_MEMCPY=1", "CUMEM_ENABLE=0"}},
        {.tail = "", .settings = {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=3"}},
    };
    if (rig_ranks(3) < 3 || !rig_on_host())
        cr_skip_test("three ranks of the host device");
    for (size_t w = 0; w < sizeof some / sizeof *some; w++) {
        way_set(&some[w]);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, fails_at_each_call), 0,
                     "way %zu", w);
    }
}
