/* Runs a function once per rank, in forked processes of one or more ranks (threads) each, under a supervisor that
 * never hangs: a rank that dies or fails makes every barrier fail, and what is stuck elsewhere is killed soon after.
 *
 * The calling process only supervises. It must have one thread, and must not have used CUDA, when it calls
 * procs_run. */
#ifndef RONDO_HARNESS_PROCS_H
#define RONDO_HARNESS_PROCS_H

#include <stddef.h>

enum { PROCS_MAX_RANKS = 64 };

struct procs;

/* Returns 0 for success; anything else counts as a failure of the rank. Ending the process fails all its ranks. */
typedef int (*procs_function)(struct procs *procs, int rank, void *argument);

struct procs_options {
    int nranks;
    int ranks_per_process; /* threads in each process; 0: 1 */
    int time_limit_ms;     /* for the whole run; 0: none */
    int stall_limit_ms;    /* without any barrier becoming complete; 0: none */
    int grace_ms; /* how long the others go on after a failure; 0: 2000; negative: until they end by themselves */
    size_t shared_bytes; /* zeroed memory that all ranks and the caller of procs_run share */
};

enum procs_end {
    PROCS_RETURNED,  /* value: what the function returned */
    PROCS_EXITED,    /* value: the process's exit status */
    PROCS_KILLED,    /* value: the signal */
    PROCS_STOPPED,   /* killed by the supervisor because another rank failed */
    PROCS_TIMED_OUT, /* killed by the supervisor at the time limit */
    PROCS_STALLED,   /* killed by the supervisor because no barrier became complete for too long */
};

struct procs_outcome {
    enum procs_end end;
    int value;
    int first; /* 1: no rank failed before this one */
};

/* NULL where memory cannot be had. */
struct procs *procs_create(const struct procs_options *options);
void procs_destroy(struct procs *procs);

/* Returns how many ranks did not return 0. `outcomes` has nranks elements, or is NULL. Once per object. */
int procs_run(struct procs *procs, procs_function function, void *argument, struct procs_outcome *outcomes);

/* One line without its end: "was killed by signal 9 (Killed)". */
void procs_describe(const struct procs_outcome *outcome, char *text, size_t room);

/* The shared memory. */
void *procs_shared(const struct procs *procs);
int procs_nranks(const struct procs *procs);

/* ---- for ranks; all of them call these in the same order ---- */

/* 0 when all ranks have come, -1 if one never will: it failed, died, or returned. */
int procs_barrier(struct procs *procs);

/* all[r] is rank r's `mine`. 0, or -1 as above. */
int procs_all_gather(struct procs *procs, int rank, double mine, double all[]);

/* *value becomes the greatest, or the sum, over ranks. 0, or -1 as above. */
int procs_max(struct procs *procs, int rank, double *value);
int procs_sum(struct procs *procs, int rank, double *value);

#endif
