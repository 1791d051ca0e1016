#include "procs.h"

#include "support/forks.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, ROUNDS = 300 };

/* Processes go on from a fork (Criterion's has threads), or execute the program again. */
enum { FIRST_WAY = !FORKED_CHILDREN_WORK };

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int run(struct procs_options options, procs_function function, struct procs_outcome *outcomes)
{
    struct procs *procs = procs_create(&options);
    cr_assert(procs != NULL);
    int failures = procs_run(procs, function, NULL, outcomes);
    procs_destroy(procs);
    return failures;
}

static int exchange(struct procs *procs, int rank, void *argument)
{
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        double all[PROCS_MAX_RANKS];
        double sum = rank + round;
        double most = rank * round;
        if (procs_all_gather(procs, rank, rank * 1000 + round, all) != 0)
            return 1;
        for (int peer = 0; peer < procs_nranks(procs); peer++)
            if (all[peer] != peer * 1000 + round)
                return 2;
        if (round % 3 == 0 && procs_barrier(procs) != 0)
            return 3;
        if (procs_sum(procs, rank, &sum) != 0 || sum != RANKS * (RANKS - 1) / 2 + RANKS * round)
            return 4;
        if (procs_max(procs, rank, &most) != 0 || most != (RANKS - 1) * round)
            return 5;
    }
    return 0;
}

Test(procs, gather_in_processes_in_threads_and_in_both)
{
    for (int exec = FIRST_WAY; exec < 2; exec++)
        for (int per = 1; per <= RANKS; per++) {
            struct procs_outcome outcomes[RANKS];
            struct procs_options options = {.nranks = RANKS, .ranks_per_process = per, .exec = exec};
            int failures = run(options, exchange, outcomes);
            cr_expect_eq(failures, 0, "exec %d, %d ranks per process: %d failures, rank 0 returned %d", exec, per,
                         failures, outcomes[0].value);
        }
}

/* Rank 2 goes in one of several ways, the others wait for it. */
static int lose_one(struct procs *procs, int rank, void *argument)
{
    (void)argument;
    procs_barrier(procs);
    const char *way = getenv("WAY");
    if (rank == 2 && strcmp(way, "kill") == 0)
        raise(SIGKILL);
    if (rank == 2 && strcmp(way, "exit") == 0)
        _exit(9);
    if (rank == 2)
        return 5;
    return procs_barrier(procs) == -1 ? 0 : 1;
}

static void loses_one(const char *way, int exec, enum procs_end end, int value)
{
    struct procs_outcome outcomes[RANKS];
    double start = now_s();
    setenv("WAY", way, 1);
    cr_expect_eq(run((struct procs_options){.nranks = RANKS, .exec = exec}, lose_one, outcomes), 1, "%s", way);
    cr_expect_lt(now_s() - start, 10, "%s", way);
    for (int rank = 0; rank < RANKS; rank++) {
        cr_expect_eq(outcomes[rank].end, rank == 2 ? end : PROCS_RETURNED, "%s, rank %d", way, rank);
        cr_expect_eq(outcomes[rank].value, rank == 2 ? value : 0, "%s, rank %d", way, rank);
        cr_expect_eq(outcomes[rank].first, rank == 2, "%s, rank %d", way, rank);
    }
}

Test(procs, barriers_fail_when_a_rank_is_lost)
{
    for (int exec = FIRST_WAY; exec < 2; exec++) {
        loses_one("kill", exec, PROCS_KILLED, SIGKILL);
        loses_one("exit", exec, PROCS_EXITED, 9);
        loses_one("return", exec, PROCS_RETURNED, 5);
    }
}

static int get_stuck(struct procs *procs, int rank, void *argument)
{
    (void)argument;
    (void)procs;
    if (rank == 1 && getenv("WAY"))
        return 3;
    for (;;)
        pause();
}

Test(procs, what_is_stuck_is_killed_after_a_failure_or_at_the_time_limit)
{
    for (int exec = FIRST_WAY; exec < 2; exec++) {
        struct procs_outcome outcomes[RANKS];
        double start = now_s();
        unsetenv("WAY");
        cr_expect_eq(
            run((struct procs_options){.nranks = RANKS, .time_limit_ms = 100, .exec = exec}, get_stuck, outcomes),
            RANKS);
        cr_expect_eq(outcomes[3].end, PROCS_TIMED_OUT);
        setenv("WAY", "return", 1);
        cr_expect_eq(run((struct procs_options){.nranks = RANKS, .grace_ms = 100, .exec = exec}, get_stuck, outcomes),
                     RANKS);
        cr_expect_eq(outcomes[0].end, PROCS_STOPPED);
        cr_expect_eq(outcomes[1].end, PROCS_RETURNED);
        cr_expect_lt(now_s() - start, 20);
    }
}

/* What executed processes have, and have not, of the one that started them. */
static int look_around(struct procs *procs, int rank, void *argument)
{
    int *numbers = argument;
    if (numbers != (int *)procs_shared(procs) + 10 || numbers[RANKS] != 77)
        return 1;
    numbers[rank] = rank + 1;
    for (int fd = 3; fd < 100; fd++) /* ThreadSanitizer's and others' own are closed on exec */
        if (fcntl(fd, F_GETFD) != -1 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
            return 100 + fd;
    return 0;
}

Test(procs, that_are_executed_share_the_shared_memory_and_no_descriptors)
{
    struct procs_options options = {.nranks = RANKS, .ranks_per_process = 2, .shared_bytes = 4096, .exec = 1};
    struct procs_outcome outcomes[RANKS];
    struct procs *procs = procs_create(&options);
    int *numbers = (int *)procs_shared(procs) + 10;
    int fd = dup(0); /* not closed on exec */
    cr_assert(fd > 2);
    numbers[RANKS] = 77;
    cr_expect_eq(procs_run(procs, look_around, numbers, outcomes), 0, "%d", outcomes[0].value);
    for (int rank = 0; rank < RANKS; rank++)
        cr_expect_eq(numbers[rank], rank + 1);
    procs_destroy(procs);
    close(fd);
}

static void fail_at_exit(void)
{
    _exit(6);
}

static int end_badly(struct procs *procs, int rank, void *argument)
{
    (void)procs;
    (void)argument;
    if (rank == 1)
        atexit(fail_at_exit);
    return 0;
}

Test(procs, ranks_fail_whose_process_ends_badly_after_they_returned)
{
    struct procs_outcome outcomes[RANKS];
    struct procs_options options = {.nranks = RANKS, .exec = 1};
    cr_expect_eq(run(options, end_badly, outcomes), 1);
    cr_expect(outcomes[1].end == PROCS_EXITED && outcomes[1].value == 6);
}

/* Each rank says who it is, and sleeps. */
static int sleep_on(struct procs *procs, int rank, void *argument)
{
    (void)argument;
    pid_t *pids = procs_shared(procs);
    __atomic_store_n(&pids[rank], getpid(), __ATOMIC_RELEASE);
    while (pause() == -1)
        continue;
    return 0;
}

/* The supervisor is a child of the test, to be killed. */
Test(procs, end_with_their_supervisor, .timeout = 20)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans become the test's children, which can wait for them */
    for (int exec = FIRST_WAY; exec < 2; exec++) {
        struct procs *procs = procs_create(&(struct procs_options){.nranks = 2, .shared_bytes = 4096, .exec = exec});
        pid_t supervisor = fork(), *pids = procs_shared(procs);
        if (supervisor == 0)
            _exit(procs_run(procs, sleep_on, NULL, NULL));
        for (int rank = 0; rank < 2; rank++)
            while (!__atomic_load_n(&pids[rank], __ATOMIC_ACQUIRE))
                usleep(1000);
        kill(supervisor, SIGKILL);
        for (int i = 0; i < 3; i++) {
            int status;
            pid_t ended = wait(&status);
            cr_expect(ended == supervisor || ended == pids[0] || ended == pids[1], "%d", ended);
            cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        procs_destroy(procs);
    }
}
