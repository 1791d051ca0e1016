/* Runs a function once per rank, in processes of one or more ranks (threads) each, under a supervisor that never hangs:
 * a rank that dies or fails makes every barrier fail, and what is stuck elsewhere is killed soon after.
 *
 * Processes are forked from the caller, and go on in its memory. That is sound only if the caller has one thread and has
 * not used CUDA. Or, with `exec`, they execute the program again, share with the caller what is in the shared memory,
 * and have nothing else in common: then the caller may be in any state. */
#ifndef RONDO_HARNESS_PROCS_H
#define RONDO_HARNESS_PROCS_H

#include <stddef.h>
#include <stdint.h>

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
    int exec;            /* 1: processes execute the program again, which must call procs_resume */
};

enum procs_end {
    PROCS_RETURNED,  /* value: what the function returned */
    PROCS_EXITED,    /* value: the process's exit status; also if it is not 0 although the function returned 0 */
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

/* Returns how many ranks did not return 0. `outcomes` has nranks elements, or is NULL. Once per object. With `exec`, the
 * function is one of the program itself, and the argument in the shared memory, or NULL. */
int procs_run(struct procs *procs, procs_function function, void *argument, struct procs_outcome *outcomes);

/* The same in two steps. In between the caller may do something else; it supervises nothing then. */
void procs_start(struct procs *procs, procs_function function, void *argument);
int procs_finish(struct procs *procs, struct procs_outcome *outcomes);

/* To be called first of all, with main's arguments, by programs that use `exec`. In a process that is to run ranks it
 * does so, and ends the process; else it returns. */
void procs_resume(int argc, char **argv);

/* Processes that execute a program have it at different addresses: turns the address of one of its functions into what
 * may be put into shared memory, and that into the function's address in the process that calls. */
uintptr_t procs_pack(uintptr_t address);
uintptr_t procs_unpack(uintptr_t packed);

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
