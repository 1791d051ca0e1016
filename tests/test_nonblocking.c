/* Non-blocking comms: what would wait says so and goes on by itself; nothing of it is left behind. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/child.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 20000 };

static rondoConfig_t nonblocking(void)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

/* Threads of this process that work for non-blocking comms. */
static int workers(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof name, file))
            count += strcmp(name, "rondo-worker\n") == 0;
        if (file)
            fclose(file);
    }
    if (dir)
        closedir(dir);
    return count;
}

/* A thread that was joined may still be seen for a moment. */
static bool nobody_works(void)
{
    for (int wait = 0; wait < 5000 && workers(); wait++)
        usleep(1000);
    return workers() == 0;
}

/* ---- init, split, shrink, finalize ---- */

static int whole_life(struct rig *rig)
{
    rondoConfig_t config = nonblocking();
    rondoComm_t comm = NULL, split = NULL, shrunk = NULL;
    int other = rig->ranks - 1;
    RIG_CHECK(rondoCommInitRankConfig(&comm, rig->ranks, rig->ids[1], rig->rank, &config) == rondoInProgress, "init");
    RIG_CHECK(comm, "no handle");
    RIG_CHECK(child_await(comm) == rondoSuccess, "init");
    if (child_try(rig, comm, rig->rank, rig->ranks))
        return 1;
    /* a split inherits that it does not block */
    RIG_CHECK(rondoCommSplit(comm, 0, -rig->rank, &split, NULL) == rondoInProgress, "split");
    if (child_try(rig, comm, rig->rank, rig->ranks)) /* the parent is free meanwhile */
        return 1;
    RIG_CHECK(child_await(split) == rondoSuccess, "split");
    if (child_try(rig, split, rig->ranks - 1 - rig->rank, rig->ranks))
        return 1;
    if (rig->rank != other) {
        RIG_CHECK(rondoCommShrink(comm, &other, 1, &shrunk, NULL, RONDO_SHRINK_DEFAULT) == rondoInProgress, "shrink");
        RIG_CHECK(child_await(shrunk) == rondoSuccess, "shrink");
        if (child_try(rig, shrunk, rig->rank, rig->ranks - 1))
            return 1;
    }
    rondoComm_t none = comm;
    RIG_OK(rondoCommSplit(comm, RONDO_SPLIT_NOCOLOR, 0, &none, NULL));
    RIG_CHECK(!none, "a handle");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_CHECK(!rig->alone || nobody_works(), "%d threads", workers()); /* nobody is in progress, so nobody works */
    /* finalized and asked about; finalized only; neither */
    RIG_CHECK(rondoCommFinalize(comm) == rondoInProgress, "finalize");
    RIG_CHECK(child_await(comm) == rondoSuccess, "finalize");
    RIG_REFUSED(rondoInvalidUsage, "finalized", rondoCommFinalize(comm));
    RIG_OK(rondoCommDestroy(comm));
    RIG_CHECK(rondoCommFinalize(split) == rondoInProgress, "finalize");
    RIG_OK(rondoCommDestroy(split));
    RIG_OK(rondoCommDestroy(shrunk));
    return 0;
}

Test(nonblocking, comm_is_made_split_shrunk_and_finalized)
{
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(
            rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = layout, .no_comm = true}, whole_life), 0);
}

/* ---- a rank that does not come ---- */

static int in_progress(struct rig *rig, rondoComm_t comm, float *a)
{
    int value;
    void *handle;
    rondoComm_t other;
    rondoRedOp_t op;
    rondoResult_t state;
    float scalar = 2;
    RIG_OK(rondoCommGetAsyncError(comm, &state));
    RIG_CHECK(state == rondoInProgress, "state %d", state);
#define UNREADY(call) RIG_REFUSED(rondoInvalidArgument, "still being made", call)
    UNREADY(rondoCommCount(comm, &value));
    UNREADY(rondoCommRank(comm, &value));
    UNREADY(rondoCommDevice(comm, &value));
    UNREADY(rondoCommFinalize(comm));
    UNREADY(rondoCommDestroy(comm));
    UNREADY(rondoCommSplit(comm, 0, 0, &other, NULL));
    UNREADY(rondoCommShrink(comm, (int[]){1}, 1, &other, NULL, RONDO_SHRINK_ABORT));
    UNREADY(rondoCommRegister(comm, a, 4, &handle));
    UNREADY(rondoCommDeregister(comm, a));
    UNREADY(rondoRedOpCreatePreMulSum(&op, &scalar, rondoFloat, rondoScalarHostImmediate, comm));
    UNREADY(rondoAllReduce(a, a, 4, rondoFloat, rondoSum, comm, rig->stream));
    UNREADY(rondoSend(a, 4, rondoFloat, 0, comm, rig->stream));
    UNREADY(rondoBarrier(comm, rig->stream));
    RIG_CHECK(*rondoGetLastError(comm), "no text");
    return 0;
}

/* By id, or of a parent: the last rank never comes. */
static int absent(struct rig *rig)
{
    rondoConfig_t config = nonblocking();
    float *a = rig->machine->alloc(64);
    for (int split = 0; split < 2 && rig->rank != rig->ranks - 1; split++) {
        rondoComm_t comm = NULL;
        const uint64_t start = rondo_now_ns();
        const rondoResult_t result = split
                                         ? rondoCommSplit(rig->comm, 0, 0, &comm, &config)
                                         : rondoCommInitRankConfig(&comm, rig->ranks, rig->ids[1], rig->rank, &config);
        RIG_CHECK(result == rondoInProgress && since_ms(start) < 2000, "gave %d after %f ms", result, since_ms(start));
        if (in_progress(rig, comm, a))
            return 1;
        usleep(50000);
        if (in_progress(rig, comm, a))
            return 1;
        RIG_CHECK(workers() > 0, "nobody works");
        const uint64_t abort_start = rondo_now_ns();
        RIG_OK(rondoCommAbort(comm));
        RIG_CHECK(since_ms(abort_start) < 2000, "%f ms", since_ms(abort_start));
        rondoResult_t state;
        RIG_CHECK(rondoCommGetAsyncError(comm, &state) == rondoInvalidArgument, "not gone");
        RIG_CHECK(rondoCommAbort(comm) == rondoInvalidArgument, "twice");
        RIG_CHECK(!rig->alone || nobody_works(), "%d threads", workers());
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rig->machine->free(a);
    return child_try(rig, rig->comm, rig->rank, rig->ranks);
}

Test(nonblocking, comm_waits_for_an_absent_rank_until_it_is_aborted)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2)}, absent), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2), .layout = RIG_THREADS}, absent), 0);
}

/* A making that fails leaves a handle, which says why, and can be destroyed. */
static int fails_later(struct rig *rig)
{
    rondoConfig_t config = nonblocking();
    float *a = rig->machine->alloc(64);
    for (int aborted = 0; aborted < 2; aborted++) {
        rondoComm_t comm = NULL, other;
        int value;
        RIG_CHECK(rondoCommInitRankConfig(&comm, 2, rig->ids[1 + aborted], 0, &config) == rondoInProgress, "init");
        RIG_CHECK(child_await(comm) == rondoTimeout, "another end");
        RIG_CHECK(strstr(rondoGetLastError(NULL), "rank 1"), "the text names no rank");
        RIG_REFUSED(rondoTimeout, "rank 1", rondoCommCount(comm, &value));
        RIG_REFUSED(rondoTimeout, "rank 1", rondoAllReduce(a, a, 4, rondoFloat, rondoSum, comm, rig->stream));
        RIG_REFUSED(rondoTimeout, "rank 1", rondoCommFinalize(comm));
        RIG_CHECK(rondoCommShrink(comm, (int[]){1}, 1, &other, NULL, RONDO_SHRINK_ABORT) == rondoTimeout, "shrunk");
        RIG_OK(aborted ? rondoCommAbort(comm) : rondoCommDestroy(comm));
        RIG_CHECK(rondoCommDestroy(comm) == rondoInvalidArgument, "twice");
    }
    RIG_CHECK(nobody_works(), "%d threads", workers());
    rig->machine->free(a);
    return 0;
}

Test(nonblocking, comm_that_fails_later_says_why_and_is_destroyed)
{
    setenv("RONDO_INIT_TIMEOUT_MS", "1500", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, fails_later), 0);
}

/* ---- groups ---- */

static int grouped(struct rig *rig)
{
    rondoConfig_t config = nonblocking();
    rondoComm_t comms[2], splits[3];
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < 2; i++)
        RIG_OK(rondoCommInitRankConfig(&comms[i], rig->ranks, rig->ids[1 + i], rig->rank, &config));
    RIG_CHECK(!comms[0] && !comms[1], "a handle before the group's end");
    RIG_CHECK(rondoGroupEnd() == rondoInProgress, "another end");
    for (int i = 0; i < 2; i++)
        RIG_CHECK(child_await(comms[i]) == rondoSuccess, "comm %d", i);
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoCommSplit(comms[0], 0, 0, &splits[0], NULL));
    RIG_OK(rondoCommSplit(comms[1], rig->rank ? 0 : RONDO_SPLIT_NOCOLOR, 0, &splits[1], NULL));
    RIG_OK(rondoCommSplit(comms[0], 0, -rig->rank, &splits[2], NULL));
    RIG_CHECK(rondoGroupEnd() == rondoInProgress, "another end");
    for (int i = 0; i < 3; i++)
        RIG_CHECK(!splits[i] || child_await(splits[i]) == rondoSuccess, "split %d", i);
    if (child_try(rig, splits[0], rig->rank, rig->ranks) ||
        child_try(rig, splits[2], rig->ranks - 1 - rig->rank, rig->ranks) ||
        (rig->rank && child_try(rig, splits[1], rig->rank - 1, rig->ranks - 1)))
        return 1;
    /* one that blocks does not go with one that does not */
    rondoComm_t mixed[2];
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoCommSplit(comms[0], 0, 0, &mixed[0], NULL));
    config.blocking = 1;
    RIG_REFUSED(rondoInvalidArgument, "non-blocking", rondoCommSplit(comms[0], 0, 0, &mixed[1], &config));
    RIG_REFUSED(rondoInvalidArgument, "non-blocking", rondoGroupEnd());
    RIG_CHECK(!mixed[0] && !mixed[1], "a handle");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < 3; i++)
        RIG_OK(rondoCommDestroy(splits[i]));
    for (int i = 0; i < 2; i++)
        RIG_OK(rondoCommDestroy(comms[i]));
    return 0;
}

Test(nonblocking, comms_are_made_in_groups_of_their_own)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true}, grouped), 0);
}

/* ---- finalize ---- */

/* Rank 0 finalizes with an op under way that waits for the last rank, which comes later, or never: then it aborts. */
static int finalize_waits(struct rig *rig)
{
    rondoConfig_t config = nonblocking();
    const struct machine *m = rig->machine;
    const int late = rig->rank == rig->ranks - 1;
    float *a = m->alloc(COUNT * 4), *b = m->alloc(COUNT * 4);
    rig_input(rig, a, COUNT, rondoFloat, rondoSum);
    for (int never = 0; never < 2; never++) {
        rondoComm_t comm;
        rondoResult_t state;
        rondoCommInitRankConfig(&comm, rig->ranks, rig->ids[1 + never], rig->rank, &config);
        RIG_CHECK(child_await(comm) == rondoSuccess, "init");
        if (!late) {
            RIG_OK(rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, comm, rig->stream));
            const uint64_t start = rondo_now_ns();
            RIG_CHECK(rondoCommFinalize(comm) == rondoInProgress, "finalize");
            RIG_CHECK(since_ms(start) < 500, "%f ms", since_ms(start));
            RIG_REFUSED(rondoInvalidUsage, "being finalized",
                        rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, comm, rig->stream));
            RIG_REFUSED(rondoInvalidUsage, "being finalized", rondoCommFinalize(comm));
            RIG_OK(rondoCommGetAsyncError(comm, &state));
            RIG_CHECK(state == rondoInProgress, "state %d", state);
        }
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        if (late && !never)
            RIG_OK(rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, comm, rig->stream));
        if (!never) {
            RIG_CHECK(late || child_await(comm) == rondoSuccess, "finalize");
            m->stream_sync(rig->stream);
            RIG_CHECK(rig_wrong(rig, b, COUNT, rondoFloat, rondoSum) == 0, "the op");
        }
        const uint64_t start = rondo_now_ns();
        RIG_OK(never && !late ? rondoCommAbort(comm) : rondoCommDestroy(comm));
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
        m->stream_sync(rig->stream);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    m->free(a);
    m->free(b);
    return 0;
}

Test(nonblocking, finalize_waits_for_ops_by_itself_and_may_be_aborted)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, finalize_waits), 0);
}
