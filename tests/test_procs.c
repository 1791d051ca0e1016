#include "procs.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, ROUNDS = 300 };

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
    for (int per = 1; per <= RANKS; per++) {
        struct procs_outcome outcomes[RANKS];
        int failures = run((struct procs_options){.nranks = RANKS, .ranks_per_process = per}, exchange, outcomes);
        cr_expect_eq(failures, 0, "%d ranks per process: %d failures, rank 0 returned %d", per, failures,
                     outcomes[0].value);
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

static void loses_one(const char *way, enum procs_end end, int value)
{
    struct procs_outcome outcomes[RANKS];
    double start = now_s();
    setenv("WAY", way, 1);
    cr_expect_eq(run((struct procs_options){.nranks = RANKS}, lose_one, outcomes), 1, "%s", way);
    cr_expect_lt(now_s() - start, 1.5, "%s", way);
    for (int rank = 0; rank < RANKS; rank++) {
        cr_expect_eq(outcomes[rank].end, rank == 2 ? end : PROCS_RETURNED, "%s, rank %d", way, rank);
        cr_expect_eq(outcomes[rank].value, rank == 2 ? value : 0, "%s, rank %d", way, rank);
        cr_expect_eq(outcomes[rank].first, rank == 2, "%s, rank %d", way, rank);
    }
}

Test(procs, barriers_fail_when_a_rank_is_lost)
{
    loses_one("kill", PROCS_KILLED, SIGKILL);
    loses_one("exit", PROCS_EXITED, 9);
    loses_one("return", PROCS_RETURNED, 5);
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
    struct procs_outcome outcomes[RANKS];
    double start = now_s();
    cr_expect_eq(run((struct procs_options){.nranks = RANKS, .time_limit_ms = 100}, get_stuck, outcomes), RANKS);
    cr_expect_eq(outcomes[3].end, PROCS_TIMED_OUT);
    setenv("WAY", "return", 1);
    cr_expect_eq(run((struct procs_options){.nranks = RANKS, .grace_ms = 100}, get_stuck, outcomes), RANKS);
    cr_expect_eq(outcomes[0].end, PROCS_STOPPED);
    cr_expect_eq(outcomes[1].end, PROCS_RETURNED);
    cr_expect_lt(now_s() - start, 3);
}
