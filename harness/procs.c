#include "procs.h"

#include <errno.h>
#include <fcntl.h>
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POLL_US = 2000, SHARED_ALIGNMENT = 4096 };

/* The first argument of a program that is executed to run ranks. */
static char resume_word[] = "--procs-resume";

/* What all processes share. What the user shares follows, SHARED_OFFSET bytes behind its start. */
struct common {
    struct procs_options options; /* this and the next three: constant when the first process starts */
    pid_t supervisor;
    uintptr_t function;    /* packed */
    size_t argument;       /* bytes from the common's start, 0: NULL */
    atomic_int arrived;    /* ranks that are in the barrier */
    atomic_int generation; /* barriers that are complete */
    atomic_int failures;   /* ranks that failed so far; read by the supervisor and every waiter */
    atomic_int ended;      /* ranks whose function has returned, for whatever reason; read by every waiter */
    atomic_int returned[PROCS_MAX_RANKS];
    int value[PROCS_MAX_RANKS]; /* of those that returned; written before `returned` */
    double gathered[2][PROCS_MAX_RANKS];
    struct procs_outcome outcomes[PROCS_MAX_RANKS];
};

enum { SHARED_OFFSET = (sizeof(struct common) + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT };

/* Copied by fork, or made anew by the program that is executed; only the supervisor's changes after that. */
struct procs {
    struct procs_options options;
    struct common *common;
    size_t mapped;
    int memory; /* with `exec`, until the processes have started: a memfd. Else -1 */
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

static int map(struct procs *procs)
{
    int flags = procs->memory < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *memory = mmap(NULL, procs->mapped, PROT_READ | PROT_WRITE, flags, procs->memory, 0);
    if (memory == MAP_FAILED)
        return -1;
    procs->common = memory;
    return 0;
}

/* What follows from the options. */
static void set_up(struct procs *procs)
{
    int per = procs->options.ranks_per_process;
    procs->nprocesses = (procs->options.nranks + per - 1) / per;
    /* Spinning helps only while every rank has a CPU to spin on. */
    procs->spins = procs->options.nranks <= sysconf(_SC_NPROCESSORS_ONLN) ? 4000 : 0;
}

static void close_memory(struct procs *procs)
{
    if (procs->memory >= 0)
        close(procs->memory);
    procs->memory = -1;
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
    procs->mapped = SHARED_OFFSET + options->shared_bytes;
    procs->memory = options->exec ? memfd_create("procs", MFD_CLOEXEC) : -1;
    if ((options->exec && (procs->memory < 0 || ftruncate(procs->memory, (off_t)procs->mapped) != 0)) ||
        map(procs) != 0) {
        close_memory(procs);
        free(procs);
        return NULL;
    }
    procs->common->options = procs->options;
    set_up(procs);
    return procs;
}

void procs_destroy(struct procs *procs)
{
    if (!procs)
        return;
    close_memory(procs);
    munmap(procs->common, procs->mapped);
    free(procs);
}

void *procs_shared(const struct procs *procs)
{
    return (char *)procs->common + SHARED_OFFSET;
}

int procs_nranks(const struct procs *procs)
{
    return procs->options.nranks;
}

uintptr_t procs_pack(uintptr_t address)
{
    return address - (uintptr_t)procs_run;
}

uintptr_t procs_unpack(uintptr_t packed)
{
    return packed + (uintptr_t)procs_run;
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

static void run_ranks(struct procs *procs, int process)
{
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
    fflush(NULL);
}

/* Between fork and exec, where only what is safe in signal handlers is: other threads may have held any lock. */
static _Noreturn void execute(const struct procs *procs, char *const argv[])
{
    /* Before Linux 5.11 this fails, and descriptors without CLOEXEC come along, as with a fork. */
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    fcntl(procs->memory, F_SETFD, 0);
    execv("/proc/self/exe", argv);
    _exit(127);
}

void procs_resume(int argc, char **argv)
{
    struct procs procs = {.memory = -1};
    struct stat status;
    if (argc != 4 || strcmp(argv[1], resume_word) != 0)
        return;
    procs.memory = atoi(argv[2]);
    if (fstat(procs.memory, &status) != 0 || (procs.mapped = (size_t)status.st_size, map(&procs)) != 0) {
        fprintf(stderr, "%s: no shared memory: %s\n", argv[0], strerror(errno));
        _exit(1);
    }
    close_memory(&procs);
    procs.options = procs.common->options;
    procs.function = (procs_function)procs_unpack(procs.common->function);
    if (procs.common->argument)
        procs.argument = (char *)procs.common + procs.common->argument;
    set_up(&procs);
    run_ranks(&procs, atoi(argv[3]));
    exit(0);
}

static _Noreturn void run_process(struct procs *procs, int process, char *const argv[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* outlives exec */
    if (getppid() != procs->common->supervisor)
        _exit(1);
    if (procs->options.exec)
        execute(procs, argv);
    run_ranks(procs, process);
    _exit(0); /* not exit: what the parent registered with atexit is not ours to run */
}

/* ---- the supervisor ---- */

/* Records how a process ended for those of its ranks that did not return. If all returned 0, and it ended badly even
 * so (a sanitizer may have its say at the end), for all of them. */
static void record(struct procs *procs, int process, int status, enum procs_end stopped)
{
    struct common *common = procs->common;
    int first = process * procs->options.ranks_per_process;
    int end = first + procs->options.ranks_per_process;
    end = end < procs->options.nranks ? end : procs->options.nranks;
    int bad_end = status != 0 && stopped == PROCS_RETURNED;
    for (int rank = first; rank < end; rank++)
        bad_end = bad_end && atomic_load(&common->returned[rank]) && common->value[rank] == 0;
    for (int rank = first; rank < end; rank++) {
        struct procs_outcome *outcome = &common->outcomes[rank];
        if (atomic_load(&common->returned[rank]) && !bad_end) {
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

void procs_start(struct procs *procs, procs_function function, void *argument)
{
    struct common *common = procs->common;
    procs->function = function;
    procs->argument = argument;
    common->supervisor = getpid();
    common->function = procs_pack((uintptr_t)function);
    common->argument = argument ? (size_t)((char *)argument - (char *)common) : 0;
    if (procs->options.exec && common->argument >= procs->mapped) {
        fprintf(stderr, "procs: the argument is not in shared memory\n");
        abort();
    }
    fflush(NULL);
    for (int process = 0; process < procs->nprocesses; process++) {
        char memory_text[16], process_text[16];
        snprintf(memory_text, sizeof memory_text, "%d", procs->memory);
        snprintf(process_text, sizeof process_text, "%d", process);
        char *argv[] = {program_invocation_name, resume_word, memory_text, process_text, NULL};
        pid_t pid = fork();
        if (pid == 0)
            run_process(procs, process, argv);
        procs->pids[process] = pid;
        if (pid < 0)
            record(procs, process, 1 << 8, PROCS_RETURNED); /* as if it had exited with 1 */
    }
    close_memory(procs);
}

int procs_finish(struct procs *procs, struct procs_outcome *outcomes)
{
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

int procs_run(struct procs *procs, procs_function function, void *argument, struct procs_outcome *outcomes)
{
    procs_start(procs, function, argument);
    return procs_finish(procs, outcomes);
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
    /* For ThreadSanitizer: if the last to come was in another process, it has not seen what made the barrier complete.
     * But it has seen this process's ranks arrive, and knows with this load that all of them did so before. */
    atomic_load(&common->arrived);
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
