#include "procs.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_US = 2000, SHARED_ALIGNMENT = 4096 };

/* What all processes share. */
struct common {
    atomic_int arrived;    /* ranks that are in the barrier */
    atomic_int generation; /* barriers that are complete */
    atomic_int failures;   /* ranks that failed so far; read by the supervisor and every waiter */
    atomic_int ended;      /* ranks whose function has returned, for whatever reason; read by every waiter */
    atomic_int returned[PROCS_MAX_RANKS];
    int value[PROCS_MAX_RANKS]; /* of those that returned; written before `returned` */
    double gathered[2][PROCS_MAX_RANKS];
    struct procs_outcome outcomes[PROCS_MAX_RANKS];
};

/* Copied by fork; only the supervisor's changes after that. */
struct procs {
    struct procs_options options;
    struct common *common;
    void *shared;
    size_t mapped;
    int nprocesses;
    int spins; /* before a waiter yields */
    pid_t pids[PROCS_MAX_RANKS];
    procs_function function;
    void *argument;
};

struct thread {
    struct procs *procs;
    int rank;
    pthread_t id;
};

static uint64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

struct procs *procs_create(const struct procs_options *options)
{
    struct procs *procs = calloc(1, sizeof *procs);
    if (!procs || options->nranks < 1 || options->nranks > PROCS_MAX_RANKS) {
        free(procs);
        return NULL;
    }
    procs->options = *options;
    if (procs->options.ranks_per_process <= 0)
        procs->options.ranks_per_process = 1;
    if (procs->options.grace_ms == 0)
        procs->options.grace_ms = 2000;
    int per = procs->options.ranks_per_process;
    procs->nprocesses = (options->nranks + per - 1) / per;
    /* Spinning helps only while every rank has a CPU to spin on. */
    procs->spins = options->nranks <= sysconf(_SC_NPROCESSORS_ONLN) ? 4000 : 0;
    size_t head = (sizeof *procs->common + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT;
    procs->mapped = head + options->shared_bytes;
    void *memory = mmap(NULL, procs->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        free(procs);
        return NULL;
    }
    procs->common = memory;
    procs->shared = (char *)memory + head;
    return procs;
}

void procs_destroy(struct procs *procs)
{
    if (!procs)
        return;
    munmap(procs->common, procs->mapped);
    free(procs);
}

void *procs_shared(const struct procs *procs)
{
    return procs->shared;
}

int procs_nranks(const struct procs *procs)
{
    return procs->options.nranks;
}

/* ---- a rank's process ---- */

static void *run_rank(void *pointer)
{
    struct thread *thread = pointer;
    struct common *common = thread->procs->common;
    int value = thread->procs->function(thread->procs, thread->rank, thread->procs->argument);
    common->value[thread->rank] = value;
    if (value != 0)
        common->outcomes[thread->rank].first = atomic_fetch_add(&common->failures, 1) == 0;
    atomic_store(&common->returned[thread->rank], 1);
    atomic_fetch_add(&common->ended, 1);
    return NULL;
}

static _Noreturn void run_process(struct procs *procs, int process, pid_t supervisor)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(1);
    int first = process * procs->options.ranks_per_process;
    int last = first + procs->options.ranks_per_process;
    if (last > procs->options.nranks)
        last = procs->options.nranks;
    struct thread threads[PROCS_MAX_RANKS];
    for (int rank = first; rank < last; rank++) {
        threads[rank] = (struct thread){.procs = procs, .rank = rank};
        if (last - first > 1 && pthread_create(&threads[rank].id, NULL, run_rank, &threads[rank]) != 0)
            _exit(1);
    }
    if (last - first == 1)
        run_rank(&threads[first]);
    for (int rank = first; last - first > 1 && rank < last; rank++)
        pthread_join(threads[rank].id, NULL);
    /* Not exit: what the parent registered with atexit is not ours to run. */
    fflush(NULL);
    _exit(0);
}

/* ---- the supervisor ---- */

/* Records how a process ended for those of its ranks that did not return. */
static void record(struct procs *procs, int process, int status, enum procs_end stopped)
{
    struct common *common = procs->common;
    int per = procs->options.ranks_per_process;
    for (int rank = process * per; rank < (process + 1) * per && rank < procs->options.nranks; rank++) {
        struct procs_outcome *outcome = &common->outcomes[rank];
        if (atomic_load(&common->returned[rank])) {
            outcome->end = PROCS_RETURNED;
            outcome->value = common->value[rank];
            continue;
        }
        outcome->end = WIFSIGNALED(status) ? PROCS_KILLED : PROCS_EXITED;
        outcome->value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
        if (stopped != PROCS_RETURNED && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            outcome->end = stopped;
        outcome->first = atomic_fetch_add(&common->failures, 1) == 0;
    }
}

static void kill_all(struct procs *procs)
{
    for (int process = 0; process < procs->nprocesses; process++)
        if (procs->pids[process] > 0)
            kill(procs->pids[process], SIGKILL);
}

static int reap(struct procs *procs, enum procs_end stopped)
{
    int alive = 0;
    for (int process = 0; process < procs->nprocesses; process++) {
        if (procs->pids[process] <= 0)
            continue;
        int status;
        if (waitpid(procs->pids[process], &status, WNOHANG) != procs->pids[process]) {
            alive++;
            continue;
        }
        procs->pids[process] = 0;
        record(procs, process, status, stopped);
    }
    return alive;
}

static int is_over(uint64_t since, int limit_ms)
{
    return now_ms() - since > (uint64_t)limit_ms;
}

static void supervise(struct procs *procs)
{
    const struct procs_options *options = &procs->options;
    uint64_t start = now_ms();
    uint64_t failed_at = 0;
    uint64_t moved_at = start; /* when the last barrier became complete */
    int generation = 0;
    enum procs_end stopped = PROCS_RETURNED; /* becomes why the supervisor kills */
    while (reap(procs, stopped) > 0) {
        if (!failed_at && atomic_load(&procs->common->failures) > 0)
            failed_at = now_ms();
        if (generation != atomic_load(&procs->common->generation)) {
            generation = atomic_load(&procs->common->generation);
            moved_at = now_ms();
        }
        if (stopped == PROCS_RETURNED) {
            if (options->time_limit_ms > 0 && is_over(start, options->time_limit_ms))
                stopped = PROCS_TIMED_OUT;
            else if (failed_at && options->grace_ms >= 0 && is_over(failed_at, options->grace_ms))
                stopped = PROCS_STOPPED;
            else if (options->stall_limit_ms > 0 && is_over(moved_at, options->stall_limit_ms))
                stopped = PROCS_STALLED;
            if (stopped != PROCS_RETURNED)
                kill_all(procs);
        }
        usleep(POLL_US);
    }
}

int procs_run(struct procs *procs, procs_function function, void *argument, struct procs_outcome *outcomes)
{
    procs->function = function;
    procs->argument = argument;
    pid_t supervisor = getpid();
    fflush(NULL);
    for (int process = 0; process < procs->nprocesses; process++) {
        pid_t pid = fork();
        if (pid == 0)
            run_process(procs, process, supervisor);
        procs->pids[process] = pid;
        if (pid < 0)
            record(procs, process, 1 << 8, PROCS_RETURNED); /* as if it had exited with 1 */
    }
    supervise(procs);
    int failures = 0;
    for (int rank = 0; rank < procs->options.nranks; rank++) {
        const struct procs_outcome *outcome = &procs->common->outcomes[rank];
        failures += outcome->end != PROCS_RETURNED || outcome->value != 0;
        if (outcomes)
            outcomes[rank] = *outcome;
    }
    return failures;
}

void procs_describe(const struct procs_outcome *outcome, char *text, size_t room)
{
    switch (outcome->end) {
    case PROCS_RETURNED:
        snprintf(text, room, outcome->value ? "failed" : "succeeded");
        break;
    case PROCS_EXITED:
        snprintf(text, room, "exited with status %d", outcome->value);
        break;
    case PROCS_KILLED:
        snprintf(text, room, "was killed by signal %d (%s)", outcome->value, strsignal(outcome->value));
        break;
    case PROCS_STOPPED:
        snprintf(text, room, "was stopped because another rank failed");
        break;
    case PROCS_TIMED_OUT:
        snprintf(text, room, "did not end within the time limit");
        break;
    case PROCS_STALLED:
        snprintf(text, room, "was stopped because the ranks made no progress");
        break;
    }
}

/* ---- among ranks ---- */

/* Waits politely: spins, then yields, then sleeps (a rank that verifies hundreds of MiB must get the CPU). */
static void pause_for(const struct procs *procs, int turn)
{
    if (turn < procs->spins) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (turn < procs->spins + 2000) {
        sched_yield();
    } else {
        usleep(50);
    }
}

int procs_barrier(struct procs *procs)
{
    struct common *common = procs->common;
    int generation = atomic_load(&common->generation);
    if (atomic_fetch_add(&common->arrived, 1) == procs->options.nranks - 1) {
        atomic_store(&common->arrived, 0); /* before the generation: the next barrier's arrivals follow that */
        atomic_fetch_add(&common->generation, 1);
        return 0;
    }
    int turn = 0;
    while (atomic_load(&common->generation) == generation) {
        /* Who has returned took part in every barrier before that, so those are complete by then. */
        int lost = atomic_load(&common->failures) > 0 || atomic_load(&common->ended) > 0;
        if (lost && atomic_load(&common->generation) == generation)
            return -1;
        pause_for(procs, turn);
        turn += turn < INT32_MAX;
    }
    return 0;
}

int procs_all_gather(struct procs *procs, int rank, double mine, double all[])
{
    struct common *common = procs->common;
    /* Two halves, so that one barrier is enough: who writes the same half again has passed the barrier in between,
     * and so has everybody who read it. Other barriers in between do no harm. */
    static _Thread_local unsigned turn;
    double *half = common->gathered[turn++ & 1];
    half[rank] = mine;
    if (procs_barrier(procs) != 0)
        return -1;
    memcpy(all, half, sizeof(double) * (size_t)procs->options.nranks);
    return 0;
}

int procs_max(struct procs *procs, int rank, double *value)
{
    double all[PROCS_MAX_RANKS];
    if (procs_all_gather(procs, rank, *value, all) != 0)
        return -1;
    for (int peer = 0; peer < procs->options.nranks; peer++)
        *value = all[peer] > *value ? all[peer] : *value;
    return 0;
}

int procs_sum(struct procs *procs, int rank, double *value)
{
    double all[PROCS_MAX_RANKS];
    if (procs_all_gather(procs, rank, *value, all) != 0)
        return -1;
    *value = 0;
    for (int peer = 0; peer < procs->options.nranks; peer++)
        *value += all[peer];
    return 0;
}
