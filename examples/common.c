#include "common.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64 };

const struct device *device = &host_device;

/* What the ranks share. */
struct meeting {
    rondoUniqueId id;
    int there; /* atomic: the id is */
};

void fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    exit(1);
}

double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

void meet(struct rank *rank, struct CUstream_st *stream)
{
    RONDO(rondoBarrier(rank->comm, stream));
    device->wait(stream);
}

void describe(const struct graph *graph, const char *what)
{
    size_t bytes = 0;
    RONDO(rondoGraphDescribe(graph->body, rondoDescribeText, NULL, &bytes));
    char *text = malloc(bytes);
    if (!text)
        fail("out of memory");
    RONDO(rondoGraphDescribe(graph->body, rondoDescribeText, text, &bytes));
    printf("%s: %s", what, text);
    free(text);
}

/* As Rondo does: RONDO_DEVICE, else GPUs where there are some. */
static void choose_device(void)
{
#ifdef EXAMPLES_WITH_CUDA
    const char *wanted = getenv("RONDO_DEVICE");
    if (wanted && *wanted ? strcmp(wanted, "cuda") == 0 : access("/dev/nvidia0", F_OK) == 0)
        device = &cuda_device;
#endif
}

/* The id travels through shared memory; a real program would use MPI, a file or a socket. */
static int run_rank(struct meeting *meeting, struct rank *rank, int (*body)(struct rank *rank))
{
    device->begin(rank->rank);
    if (rank->rank == 0) {
        RONDO(rondoGetUniqueId(&meeting->id));
        __atomic_store_n(&meeting->there, 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&meeting->there, __ATOMIC_ACQUIRE))
        usleep(1000);
    RONDO(rondoCommInitRank(&rank->comm, rank->ranks, meeting->id, rank->rank));
    const int status = body(rank);
    RONDO(rondoCommDestroy(rank->comm));
    return status;
}

static int await_ranks(const pid_t *ranks, int count)
{
    int failed = 0;
    for (int left = count; left > 0; left--) {
        int status;
        if (wait(&status) < 0)
            return 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        for (int r = 0; r < count && !failed; r++)
            kill(ranks[r], SIGTERM); /* they would wait for the one that is gone */
        failed = 1;
    }
    return failed;
}

int run_ranks(int argc, char **argv, const char *name, int (*body)(struct rank *rank))
{
    struct rank rank = {.ranks = argc > 1 ? atoi(argv[1]) : 2};
    pid_t ranks[MOST_RANKS];
    if (rank.ranks < 1 || rank.ranks > MOST_RANKS)
        fail("usage: %s [RANKS, 1 to %d]", argv[0], MOST_RANKS);
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (meeting == MAP_FAILED)
        fail("no shared memory");
    choose_device();
    printf("%s: %d ranks, device %s\n", name, rank.ranks, device->name);
    fflush(stdout);
    for (; rank.rank < rank.ranks; rank.rank++) {
        ranks[rank.rank] = fork(); /* before anything else: neither CUDA nor Rondo survives it */
        if (ranks[rank.rank] == 0)
            exit(run_rank(meeting, &rank, body));
        if (ranks[rank.rank] < 0)
            fail("no process for rank %d", rank.rank);
    }
    const int failed = await_ranks(ranks, rank.ranks);
    printf("%s\n", failed ? "FAILED" : "all results are right");
    return failed;
}
