/* How growing a comm fails, for its old ranks and the new ones: all hear of it, and the comm is as it was. */
#include "common/clock.h"
#include "support/child.h"
#include "support/growing.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is refused ---- */

static int refused(struct rig *rig)
{
    rondoComm_t comm, none = (rondoComm_t)(uintptr_t)16;
    rondoUniqueId id;
    if (growing_make_old(rig, 1, &comm))
        return 1;
    RIG_REFUSED(rondoInvalidArgument, "id is NULL", rondoCommGetUniqueId(comm, NULL));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommGetUniqueId(NULL, &id));
    RIG_OK(rondoCommGetUniqueId(comm, &id));
    RIG_REFUSED(rondoInvalidArgument, "newcomm is NULL", rondoCommGrow(comm, 2, &id, -1, NULL, NULL));
    RIG_REFUSED(rondoInvalidArgument, "above 1", rondoCommGrow(comm, 1, &id, -1, &none, NULL));
    RIG_CHECK(!none, "a handle");
    RIG_REFUSED(rondoInvalidArgument, "above 1", rondoCommGrow(comm, -3, &id, -1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "at most 64", rondoCommGrow(comm, 65, &id, -1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "rank is 1", rondoCommGrow(comm, 2, &id, 1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "rank is -2", rondoCommGrow(comm, 2, &id, -2, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "gives an id", rondoCommGrow(comm, 2, NULL, -1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "are NULL", rondoCommGrow(NULL, 2, NULL, 1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "rank is 2", rondoCommGrow(NULL, 2, &id, 2, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "rank is -1", rondoCommGrow(NULL, 2, &id, -1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "rank is 0", rondoCommGrow(NULL, 2, &id, 0, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 1", rondoCommGrow(NULL, 1, &id, 1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 65", rondoCommGrow(NULL, 65, &id, 1, &none, NULL));
    memset(&id, 7, sizeof id);
    RIG_REFUSED(rondoInvalidArgument, "unique id", rondoCommGrow(NULL, 2, &id, 1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "unique id", rondoCommGrow(comm, 2, &id, -1, &none, NULL));
    if (child_try(rig, comm, 0, 1))
        return 1;
    RIG_OK(rondoCommFinalize(comm));
    RIG_REFUSED(rondoInvalidUsage, "finalized", rondoCommGrow(comm, 2, &id, -1, &none, NULL));
    RIG_OK(rondoCommDestroy(comm));
    RIG_REFUSED(rondoInvalidArgument, "destroyed", rondoCommGrow(comm, 2, &id, -1, &none, NULL));
    RIG_REFUSED(rondoInvalidArgument, "destroyed", rondoCommGetUniqueId(comm, &id));
    RIG_CHECK(!none, "a handle");
    return 0;
}

Test(grow_ends, is_refused_for_bad_arguments)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, refused), 0);
}

/* A group with an error makes nothing; the grow in it has not happened. */
static int group_with_an_error(struct rig *rig)
{
    rondoComm_t comm, grown = NULL, other;
    rondoUniqueId id;
    if (growing_make_old(rig, 1, &comm) || growing_share_id(rig, comm, 0, &id))
        return 1;
    RIG_OK(rondoGroupStart());
    RIG_OK(growing_call(rig, comm, 2, &id, 0, &grown));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 1", rondoCommGrow(NULL, 1, &id, 1, &other, NULL));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 1", rondoGroupEnd());
    RIG_CHECK(!grown, "a handle");
    RIG_OK(growing_call(rig, comm, 2, &id, 0, &grown)); /* by the same id, which is not used up */
    if (child_try(rig, grown, rig->rank, 2))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(grown));
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow_ends, in_a_group_that_fails_has_not_happened)
{
    growing_needs(2);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, group_with_an_error), 0);
}

/* ---- ranks that do not agree ---- */

/* The old ranks find out by themselves; the new one, which is there already or comes later, is told by whoever made its id. */
static int disagreeing(struct rig *rig)
{
    rondoComm_t comm, none = NULL;
    rondoUniqueId id, other;
    const int is_new = rig->rank == 2;
    if (growing_make_old(rig, 2, &comm))
        return 1;
    for (int way = 0; way < 4; way++) {
        const bool late = way % 2;
        if (growing_share_id(rig, comm, 0, &id))
            return 1;
        const uint64_t start = rondo_now_ns();
        if (is_new) {
            if (late) /* the old ranks are through with it */
                RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
            RIG_REFUSED(rondoRemoteError, "cannot grow", rondoCommGrow(NULL, 3, &id, 2, &none, NULL));
        } else if (way < 2) {
            RIG_OK(rondoCommGetUniqueId(comm, &other));
            RIG_REFUSED(rondoInvalidArgument, "0 and 1 give different ids",
                        rondoCommGrow(comm, 3, rig->rank ? &other : &id, -1, &none, NULL));
        } else {
            RIG_REFUSED(rondoInvalidArgument, "different numbers",
                        rondoCommGrow(comm, 3 + rig->rank, &id, -1, &none, NULL));
        }
        RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
        RIG_CHECK(!none, "a handle");
        if (late && !is_new)
            RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    if (comm && child_try(rig, comm, rig->rank, 2))
        return 1;
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow_ends, of_ranks_that_disagree_fails_on_all_at_once)
{
    growing_needs(3);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = layout, .no_comm = true}, disagreeing), 0);
}

/* The new rank takes an old one's number, then speaks of other ranks. */
static int wrong_newcomer(struct rig *rig)
{
    rondoComm_t comm, none;
    rondoUniqueId id;
    if (growing_make_old(rig, 2, &comm))
        return 1;
    for (int way = 0; way < 2; way++) {
        if (growing_share_id(rig, comm, 0, &id))
            return 1;
        const rondoResult_t result = comm ? rondoCommGrow(comm, 3, rig->rank ? NULL : &id, -1, &none, NULL)
                                          : rondoCommGrow(NULL, 3 + way, &id, 1 + way, &none, NULL);
        RIG_CHECK(result == rondoInvalidArgument, "gave %d", result);
        RIG_CHECK(strstr(rondoGetLastError(NULL), way ? "there are" : "rank 1 joins twice"), "another text");
        RIG_CHECK(!none, "a handle");
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow_ends, of_a_new_rank_that_is_there_already_or_counts_otherwise_fails_on_all)
{
    growing_needs(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true}, wrong_newcomer), 0);
}

/* The new rank takes the id for one that makes a comm of its own. */
static int newcomer_by_init(struct rig *rig)
{
    rondoComm_t comm, none = NULL;
    rondoUniqueId id;
    if (growing_make_old(rig, 2, &comm) || growing_share_id(rig, comm, 0, &id))
        return 1;
    const rondoResult_t result =
        comm ? rondoCommGrow(comm, 3, &id, -1, &none, NULL) : rondoCommInitRank(&none, 3, id, rig->rank);
    /* Who hears of it by another's giving up is told what that one found. */
    RIG_CHECK(result == rondoInvalidUsage || result == rondoRemoteError, "result %d", result);
    RIG_CHECK(strstr(rondoGetLastError(NULL), "some call rondoCommInitRank and some rondoCommGrow"), "%s",
              rondoGetLastError(NULL));
    RIG_CHECK(!none, "a handle");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (comm && child_try(rig, comm, rig->rank, 2))
        return 1;
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow_ends, of_a_new_rank_that_calls_for_a_comm_of_its_own_says_so)
{
    growing_needs(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true}, newcomer_by_init), 0);
}

/* Rank 0 grows, rank 1 splits. */
static int grow_and_split(struct rig *rig)
{
    rondoComm_t none;
    rondoUniqueId id;
    RIG_OK(rondoGetUniqueId(&id));
    if (rig->rank == 0)
        RIG_REFUSED(rondoInvalidUsage, "rank 1 for a split", rondoCommGrow(rig->comm, 3, &id, -1, &none, NULL));
    else
        RIG_REFUSED(rondoInvalidUsage, "rank 0 for a grow", rondoCommSplit(rig->comm, 0, 0, &none, NULL));
    RIG_CHECK(!none, "a handle");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return child_try(rig, rig->comm, rig->rank, rig->ranks);
}

Test(grow_ends, and_split_at_once_are_told_apart)
{
    growing_needs(2);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, grow_and_split), 0);
}

/* ---- ranks that do not come ---- */

/* First a new rank never joins, then an old one never calls. */
static int absent(struct rig *rig)
{
    rondoComm_t comm, none = NULL;
    rondoUniqueId id;
    if (growing_make_old(rig, 2, &comm))
        return 1;
    uint64_t start = rondo_now_ns(); /* before anybody calls: whoever waited longest ends it for all */
    if (growing_share_id(rig, comm, 0, &id))
        return 1;
    if (rig->rank != 3) {
        RIG_REFUSED(rondoTimeout, "rank 3", growing_call(rig, comm, 4, &id, 0, &none));
        RIG_CHECK(rondo_now_ns() - start > 2990000000 && since_ms(start) < 20000, "%f ms", since_ms(start));
    }
    if (growing_share_id(rig, comm, 0, &id))
        return 1;
    start = rondo_now_ns();
    if (rig->rank == 0)
        RIG_REFUSED(rondoTimeout, "rank 1 did not take part in a grow", growing_call(rig, comm, 4, &id, 0, &none));
    else if (rig->rank > 1) /* their own time is over at about the same moment */
        RIG_CHECK(growing_call(rig, comm, 4, &id, 0, &none) != rondoSuccess, "made");
    RIG_CHECK(since_ms(start) < 20000 && !none, "%f ms", since_ms(start));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow_ends, waits_for_an_absent_rank_no_longer_than_configured)
{
    growing_needs(4);
    setenv("RONDO_INIT_TIMEOUT_MS", RIG_SLOW ? "6000" : "3000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 4, .no_comm = true}, absent), 0);
}

struct caller {
    struct rig *rig;
    rondoComm_t old, comm;
    rondoUniqueId id;
    rondoResult_t result;
    char text[256];
};

static void *call_grow(void *argument)
{
    struct caller *c = argument;
    c->result = growing_call(c->rig, c->old, c->rig->ranks, &c->id, 0, &c->comm);
    snprintf(c->text, sizeof c->text, "%s", rondoGetLastError(NULL));
    return NULL;
}

/* In a thread, until it waits for others, or is about to. */
static rondoComm_t begin_growing(struct caller *caller, pthread_t *thread)
{
    rondoComm_t handle = NULL;
    pthread_create(thread, NULL, call_grow, caller);
    while (!handle)
        handle = __atomic_load_n(&caller->comm, __ATOMIC_SEQ_CST);
    usleep(100000);
    return handle;
}

/* A new rank is killed while it waits for another one, which comes afterwards. */
static int dying(struct rig *rig)
{
    struct caller caller = {.rig = rig};
    pthread_t thread;
    char *const said = rig->scratch + 1024;
    if (growing_make_old(rig, 2, &caller.old) || growing_share_id(rig, caller.old, 0, &caller.id))
        return 1;
    if (rig->rank == 2) {
        begin_growing(&caller, &thread);
        said[2] = 1;
        kill(getpid(), SIGKILL);
    }
    while (rig->rank == 3 && !__atomic_load_n(&said[2], __ATOMIC_ACQUIRE))
        usleep(1000);
    call_grow(&caller);
    /* a timeout: it died before anybody had heard of it */
    RIG_CHECK(caller.result == rondoRemoteError || caller.result == rondoTimeout, "gave %d", caller.result);
    /* or another one gave up because of it, and that was heard first */
    RIG_CHECK(strstr(caller.text, "rank 2") || strstr(caller.text, "gave up"), "%s", caller.text);
    RIG_CHECK(!caller.comm, "there is a comm");
    if (caller.old && child_try(rig, caller.old, rig->rank, 2))
        return 1;
    RIG_OK(rondoCommDestroy(caller.old));
    said[rig->rank] = 1;
    for (int i = 0; i < 30000 && !__atomic_load_n(&said[3], __ATOMIC_ACQUIRE); i++)
        usleep(1000); /* the id's root is rank 0's, and rank 3 may not have come yet */
    return 0;
}

Test(grow_ends, hears_of_a_new_rank_that_dies)
{
    growing_needs(4);
    char *scratch = malloc(RIG_SCRATCH);
    setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
    rig_run(
        &(struct rig_options){.ranks = 4, .no_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        dying);
    for (int r = 0; r < 4; r++)
        cr_assert(scratch[1024 + r], "rank %d", r);
    free(scratch);
}

/* Rank 0 waits for new ranks that never come, and rank 1 with it, until another thread of rank 0 aborts. */
static int aborted(struct rig *rig)
{
    struct caller caller = {.rig = rig};
    pthread_t thread;
    caller.old = rig->rank < 2 ? rig->comm : NULL;
    if (growing_share_id(rig, rig->comm, 0, &caller.id))
        return 1;
    rig->ranks++; /* one more than there will be */
    if (rig->rank == 0) {
        rondoComm_t handle = begin_growing(&caller, &thread);
        const uint64_t start = rondo_now_ns();
        RIG_CHECK(rondoCommDestroy(handle) == rondoInvalidArgument, "destroyed");
        RIG_OK(rondoCommAbort(handle));
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
        pthread_join(thread, NULL);
        RIG_CHECK(caller.result == rondoInvalidUsage && strstr(caller.text, "aborted"), "%d: %s", caller.result,
                  caller.text);
    } else {
        call_grow(&caller);
        RIG_CHECK(caller.result == rondoRemoteError || caller.result == rondoTimeout, "gave %d", caller.result);
    }
    RIG_CHECK(!caller.comm, "a handle");
    rig->ranks--;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return child_try(rig, rig->comm, rig->rank, rig->ranks);
}

Test(grow_ends, ends_when_another_thread_aborts_it)
{
    growing_needs(2);
    setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, aborted), 0);
}
