/* What NCCL's programs do about ranks that are lost and ranks that come: revoke, shrink and grow, with NCCL's codes. */
#include "common/clock.h"
#include "nccl/nccl.h"
#include "support/child.h"
#include "support/growing.h"
#include "support/nccl_config.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 2000 };

/* ---- revoke ---- */

/* An op waits for rank 0, which is late for ever; then all revoke, and go on with a comm of the same ranks. */
static int revoked(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    ncclComm_t split, shrunk = NULL;
    ncclResult_t error = rondoRemoteError;
    int last = rig->ranks - 1;
    RIG_OK(ncclCommRevoke(NULL, 0));
    RIG_CHECK(ncclCommRevoke(rig->comm, 1) == rondoInvalidArgument, "flags");
    if (rig->rank != 0)
        RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(ncclGroupStart());
    RIG_OK(ncclCommRevoke(rig->comm, 0));
    RIG_OK(ncclGroupEnd());
    rig->machine->stream_sync(rig->stream);
    RIG_OK(ncclCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "its error is %d", error);
    RIG_REFUSED(rondoInvalidUsage, "revoked", ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "revoked", ncclSend(a, 4, rondoFloat, 0, rig->comm, rig->stream));
    RIG_REFUSED(rondoInvalidArgument, "revoked before", ncclCommRevoke(rig->comm, 0));
    RIG_REFUSED(rondoInvalidArgument, "revoked before", ncclCommFinalize(rig->comm));
    RIG_OK(ncclCommSplit(rig->comm, 0, rig->rank, &split, NULL));
    if (child_try(rig, split, rig->rank, rig->ranks))
        return 1;
    if (rig->rank != last) {
        RIG_OK(ncclCommShrink(rig->comm, &last, 1, &shrunk, NULL, RONDO_SHRINK_DEFAULT));
        if (child_try(rig, shrunk, rig->rank, last))
            return 1;
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rig->rank ? ncclCommDestroy(rig->comm) : ncclCommAbort(rig->comm));
    RIG_CHECK(ncclCommRevoke(rig->comm, 0) == rondoInvalidArgument, "revoked after its end");
    RIG_OK(ncclCommFinalize(split));
    RIG_OK(ncclCommDestroy(split));
    RIG_OK(ncclCommDestroy(shrunk));
    rig->machine->free(a);
    return 0;
}

Test(nccl_recovery, a_revoked_comm_takes_no_ops_and_is_well_as_a_parent)
{
    growing_needs(3);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = layout, .keep_comm = true}, revoked), 0);
}

/* The comms of one thread, one after the other: those that are not revoked yet hear of it from the others. */
static int by_one_thread(struct rig *rig)
{
    enum { RANKS = 3 };
    ncclComm_t comms[RANKS], splits[RANKS];
    ncclConfig_t config = config_of(22809, offsetof(ncclConfig_t, graphUsageMode));
    ncclResult_t error;
    ncclUniqueId id;
    config.blocking = 0;
    RIG_OK(ncclGetUniqueId(&id));
    RIG_OK(ncclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        rig->machine->set_device(rig_device(rig, i));
        RIG_OK(ncclCommInitRankConfig(&comms[i], RANKS, id, i, &config));
    }
    RIG_CHECK(ncclGroupEnd() == rondoInProgress, "init");
    for (int i = 0; i < RANKS; i++)
        RIG_CHECK(child_await(comms[i]) == rondoSuccess, "init");
    for (int i = 0; i < RANKS; i++) {
        RIG_OK(ncclCommRevoke(comms[i], 0));
        usleep(50000);
    }
    RIG_OK(ncclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        RIG_OK(ncclCommGetAsyncError(comms[i], &error));
        RIG_CHECK(error == rondoSuccess, "the error of %d is %d", i, error);
        RIG_OK(ncclCommSplit(comms[i], 0, i, &splits[i], NULL));
    }
    RIG_CHECK(ncclGroupEnd() == rondoInProgress, "split");
    for (int i = 0; i < RANKS; i++)
        RIG_CHECK(child_await(splits[i]) == rondoSuccess, "split");
    for (int i = 0; i < RANKS; i++) {
        RIG_OK(ncclCommDestroy(comms[i]));
        RIG_OK(ncclCommDestroy(splits[i]));
    }
    return 0;
}

Test(nccl_recovery, revokes_non_blocking_comms_one_by_one)
{
    growing_needs(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, by_one_thread), 0);
}

/* ---- grow ---- */

/* Old ranks are there with a config of their own, which NCCL's new ranks know nothing of. */
static int grown(struct rig *rig)
{
    ncclConfig_t config = config_of(22809, offsetof(ncclConfig_t, graphUsageMode));
    ncclComm_t comm = NULL, all = NULL;
    ncclUniqueId id;
    const int old = rig->ranks - 1;
    config.maxCTAs = 3;
    if (rig->rank < old)
        RIG_OK(ncclCommInitRankConfig(&comm, old, rig->ids[1], rig->rank, &config));
    for (int round = 0; round < 3; round++) { /* the root's id only; everyone's; with a config that does not block */
        if (growing_share_id(rig, comm, 0, &id))
            return 1;
        config.blocking = 0;
        const ncclResult_t result = ncclCommGrow(comm, rig->ranks, round != 1 && rig->rank && comm ? NULL : &id,
                                                 comm ? -1 : rig->rank, &all, round == 2 ? &config : NULL);
        RIG_CHECK(result == (round == 2 ? rondoInProgress : rondoSuccess), "gave %d", result);
        RIG_CHECK(child_await(all) == rondoSuccess, "grown");
        if (child_try(rig, all, rig->rank, rig->ranks) || (comm && child_try(rig, comm, rig->rank, old)))
            return 1;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(ncclCommDestroy(all));
    }
    RIG_OK(ncclCommDestroy(comm));
    return 0;
}

Test(nccl_recovery, grows_a_comm_by_a_rank)
{
    growing_needs(3);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = layout, .no_comm = true}, grown), 0);
}

static int refused(struct rig *rig)
{
    ncclComm_t comm, none = (ncclComm_t)(void *)rig;
    ncclUniqueId id, other;
    RIG_OK(ncclCommInitRank(&comm, 1, rig->ids[1], 0));
    RIG_OK(ncclCommGetUniqueId(comm, &id));
    RIG_OK(ncclCommGetUniqueId(comm, &other));
    RIG_CHECK(memcmp(&id, &other, sizeof id), "the same id twice");
    RIG_CHECK(ncclCommGetUniqueId(NULL, &id) == rondoInvalidArgument, "comm");
    RIG_CHECK(ncclCommGetUniqueId(comm, NULL) == rondoInvalidArgument, "id");
    RIG_CHECK(ncclCommGrow(comm, 1, &id, -1, &none, NULL) == rondoInvalidArgument && !none, "no more ranks");
    RIG_CHECK(ncclCommGrow(comm, 2, &id, 3, &none, NULL) == rondoInvalidArgument, "another rank");
    RIG_CHECK(ncclCommGrow(comm, 2, &id, -1, NULL, NULL) == rondoInvalidArgument, "newcomm");
    RIG_CHECK(ncclCommGrow(NULL, 2, NULL, 1, &none, NULL) == rondoInvalidArgument, "no id");
    RIG_CHECK(ncclCommGrow(NULL, 2, &id, 5, &none, NULL) == rondoInvalidArgument, "no such rank");
    RIG_CHECK(ncclCommGrow(NULL, 2, &id, -1, &none, NULL) == rondoInvalidArgument, "no rank");
    RIG_OK(ncclCommDestroy(comm));
    return 0;
}

Test(nccl_recovery, refuses_to_grow_where_nccl_does)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, refused), 0);
}

/* ---- all of it ---- */

/* A rank dies within an op; the others revoke the comm and shrink it, a new process takes the dead one's place. Here it was there
 * before: the last rank, which has no part in the first comm. */
static int replaced(struct rig *rig)
{
    const int spare = rig->ranks - 1, victim = 1;
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    ncclComm_t comm = NULL, shrunk = NULL, whole = NULL;
    int excluded = victim;
    rig->machine->fill(a, 0, COUNT * sizeof *a);
    if (rig->rank != spare) {
        RIG_OK(ncclCommInitRank(&comm, spare, rig->ids[1], rig->rank));
        RIG_OK(ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        if (rig->rank == victim)
            kill(getpid(), SIGKILL);
        ncclAllReduce(a, a, COUNT, rondoFloat, rondoSum, comm, rig->stream);
        rig->machine->stream_sync(rig->stream);
        RIG_OK(ncclCommRevoke(comm, 0));
        RIG_OK(ncclCommShrink(comm, &excluded, 1, &shrunk, NULL, RONDO_SHRINK_DEFAULT));
        RIG_OK(ncclCommDestroy(comm));
    }
    char *const made = rig->scratch + 1024; /* the id, then 1 once it is there: no barrier with a dead rank */
    if (rig->rank == 0) {
        RIG_OK(ncclCommGetUniqueId(shrunk, (ncclUniqueId *)made));
        __atomic_store_n(made + sizeof(ncclUniqueId), 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(made + sizeof(ncclUniqueId), __ATOMIC_ACQUIRE))
        usleep(1000);
    const int rank = rig->rank == spare ? spare - 1 : rig->rank - (rig->rank > victim);
    RIG_OK(ncclCommGrow(shrunk, spare, rank && shrunk ? NULL : (ncclUniqueId *)made, shrunk ? -1 : rank, &whole, NULL));
    RIG_OK(ncclCommDestroy(shrunk));
    if (child_try(rig, whole, rank, spare))
        return 1;
    RIG_OK(ncclCommDestroy(whole));
    rig->machine->free(a);
    rig->scratch[rig->rank] = 1;
    return 0;
}

Test(nccl_recovery, puts_a_new_rank_in_the_place_of_a_dead_one)
{
    growing_needs(4);
    char *scratch = malloc(RIG_SCRATCH);
    rig_run(
        &(struct rig_options){.ranks = 4, .no_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        replaced);
    for (int r = 0; r < 4; r++)
        cr_assert(scratch[r] || r == 1, "rank %d", r);
    free(scratch);
}
