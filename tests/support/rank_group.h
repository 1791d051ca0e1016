/* Runs a function once per rank of a future comm, in threads, processes, or both, below the level of comms. Processes
 * other than the calling one execute the test program again (harness/procs.h). */
#ifndef RONDO_TESTS_RANK_GROUP_H
#define RONDO_TESTS_RANK_GROUP_H

#include "rondo/rondo.h"

#include <stdint.h>
#include <sys/types.h>

enum { GROUP_RANKS = 64, GROUP_SCRATCH_BYTES = 4096 };

enum layout {
    THREADS,   /* all in the calling process */
    PROCESSES, /* one each */
    MIXED,     /* rank 0, 3, 6 … in the calling process, 1, 4, 7 … in a second, 2, 5, 8 … in a third */
};

struct procs;

struct outcome {
    rondoResult_t result; /* -1: the rank did not end its function */
    char text[512];       /* rondo_last_error */
    double ms;            /* that the function took */
    pid_t pid;            /* of its process */
};

/* In memory that all processes share. */
struct group {
    int nranks;
    enum layout layout;
    rondoUniqueId id;
    struct procs *procs; /* the calling process's own */
    uintptr_t function;  /* packed */
    int ready;           /* atomic: ranks that wait to start */
    int go;              /* atomic: how far the test is, for the functions too (1 when they start) */
    struct outcome outcomes[GROUP_RANKS];
    _Alignas(16) unsigned char scratch[GROUP_SCRATCH_BYTES]; /* zero at first, for the functions */
};

typedef rondoResult_t (*rank_function)(struct group *group, int rank);

/* Makes an id, runs `function`, one of the test program's, for each rank and, if it is not NULL, `meanwhile` in the calling
 * thread, and waits for all. Free with group_free. */
struct group *group_run(int nranks, enum layout layout, rank_function function, void (*meanwhile)(struct group *group));
void group_free(struct group *group);

/* The process that runs a rank: 0 the calling one, else the number of another. */
int group_process(enum layout layout, int rank);

/* Waits until *word (atomic) is at least `value`, at most 10 s. */
void group_await(const int *word, int value);

/* Descriptors of this process, and those of its threads that are named rondo-… (sanitizers and Criterion have their
 * own). */
int count_fds(void);
int count_threads(void);
/* Waits up to 2 s for threads that are ending, then counts. */
int settled_threads(int expected);

#endif
