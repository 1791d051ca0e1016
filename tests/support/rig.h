/* A rank with a comm, a stream and buffers, on whichever device this machine has: what tests of whole ops start from.
 * Ranks run in processes that execute the test program again, so they share with the test what is in scratch only. */
#ifndef RONDO_TESTS_RIG_H
#define RONDO_TESTS_RIG_H

#include "rondo/rondo.h"

#include "harness/machine.h"
#include "harness/procs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rig {
    const struct machine *machine;
    struct procs *procs;
    int rank, ranks;
    bool alone;         /* the only rank of its process */
    rondoUniqueId *ids; /* shared by all ranks; ids[0] was used for `comm` */
    char *scratch;      /* shared by all ranks, RIG_SCRATCH bytes, zero at first */
    rondoComm_t comm;
    struct CUstream_st *stream;
};

enum { RIG_SCRATCH = 1 << 20, RIG_IDS = 8 };

/* Under ThreadSanitizer kernels take twenty times as long: tests of many rounds take fewer. */
#ifdef __SANITIZE_THREAD__
enum { RIG_SLOW = 1 };
#else
enum { RIG_SLOW = 0 };
#endif

/* 0: passed. */
typedef int (*rig_body)(struct rig *rig);

/* One process for each rank, for all, for two. ThreadSanitizer, which sees no race between processes, makes the first into
 * the second, unless `apart` is set. */
enum rig_layout { RIG_PROCESSES, RIG_THREADS, RIG_PAIRS };

struct rig_options {
    int ranks;
    enum rig_layout layout;
    bool no_comm;       /* the body makes and destroys comms of its own */
    bool keep_comm;     /* the body destroys or aborts it */
    bool may_fail;      /* ranks may end in any way: the body reports through scratch */
    bool apart;         /* even under ThreadSanitizer: ranks end their processes, or look at what these hold */
    char *scratch_copy; /* RIG_SCRATCH bytes, or NULL: what was in scratch at the end */
};

/* Runs the body, a function of the test program, on all ranks. How many failed; 200 s at most. */
int rig_run(const struct rig_options *options, rig_body body);

/* A number that the environment sets, for tests that draw: `preset` if it does not. */
long rig_parameter(const char *name, long preset);

/* The ranks that a test which runs with any number, from `wanted` on, should use: RONDO_TEST_RANKS_LEAST or `wanted`, whichever is more, but no
 * more than the machine has. */
int rig_ranks(int wanted);

/* The same for a test whose ranks have parts of their own: at most `wanted`. */
int rig_ranks_most(int wanted);

/* Whether tests that run over many numbers of ranks run with this one: those that the machine has, two under
 * ThreadSanitizer. */
bool rig_runs_with(int ranks);

/* Whether tests run on the host device. Unlike machine_find, it leaves CUDA alone. */
bool rig_on_host(void);

/* All ranks call it. 0: all have come; -1: one never will. */
int rig_barrier(struct rig *rig);

/* Prints and counts as a failure. */
#define RIG_CHECK(condition, ...)                                                              \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d rank %d: %s: ", __FILE__, __LINE__, rig->rank, #condition); \
            fprintf(stderr, __VA_ARGS__);                                                      \
            fprintf(stderr, " (%s)\n", rondoGetLastError(NULL));                               \
            return 1;                                                                          \
        }                                                                                      \
    } while (0)
#define RIG_OK(call) RIG_CHECK((call) == rondoSuccess, "failed")

/* The call fails with this code, and the text about it holds this word. */
#define RIG_REFUSED(code, word, call)                                                    \
    do {                                                                                 \
        const rondoResult_t result_ = (call);                                            \
        RIG_CHECK(result_ == (code), "gave %d", result_);                                \
        RIG_CHECK(strstr(rondoGetLastError(NULL), word), "no \"%s\" in the text", word); \
    } while (0)

/* Milliseconds since rondo_now_ns() was `start`, for upper limits of time. A third of them, as other programs may have the
 * machine, and at times all of it; under ThreadSanitizer a tenth, as all takes longer there. */
double since_ms(uint64_t start);

/* The comm's error; rondoSuccess if none comes within the limit, which is since_ms's. */
rondoResult_t await_error(struct rig *rig, double limit_ms);

/* The device for a rank, where its process sees them all. */
int rig_device(const struct rig *rig, int rank);

/* Whether comms work: `count` ranks that the calling thread has (comm, rank, ranks and stream of each are set) run an
 * all-reduce, eagerly and captured, and look at the results. The other ranks do the same. 0: they do. */
int rig_try(struct rig *rigs, int count);

/* Fills a send buffer with a rank's data, and counts the wrong elements of a result; see harness/data.h. */
void rig_input(const struct rig *rig, void *device, size_t count, rondoDataType_t type, rondoRedOp_t op);
size_t rig_wrong(const struct rig *rig, const void *device, size_t count, rondoDataType_t type, rondoRedOp_t op);

/* Names in /dev/shm that are Rondo's. */
int rig_names_in_shm(void);

#endif
