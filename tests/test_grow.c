/* Comms that grow: which ranks get together, in every layout, with which configs, and how it fails, for old ranks and new ones. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/child.h"
#include "support/holdings.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void needs(int ranks)
{
    if (rig_ranks(ranks) < ranks)
        cr_skip_test("needs %d ranks", ranks);
}

/* A comm of the first ranks; NULL on the others. */
static int make_old(struct rig *rig, int ranks, rondoComm_t *comm)
{
    *comm = NULL;
    if (rig->rank < ranks)
        RIG_OK(rondoCommInitRank(comm, ranks, rig->ids[1], rig->rank));
    return 0;
}

/* An id that the giver makes of its comm, for all. */
static int share_id(struct rig *rig, rondoComm_t comm, int giver, rondoUniqueId *id)
{
    if (rig->rank == giver)
        RIG_OK(rondoCommGetUniqueId(comm, (rondoUniqueId *)rig->scratch));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    memcpy(id, rig->scratch, sizeof *id);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

/* As all ranks of the rig are to call it: only the giver of the old ones gives the id. */
static rondoResult_t grow(struct rig *rig, rondoComm_t comm, int ranks, const rondoUniqueId *id, int giver,
                          rondoComm_t *grown)
{
    return rondoCommGrow(comm, ranks, comm && rig->rank != giver ? NULL : id, comm ? -1 : rig->rank, grown, NULL);
}

/* ---- who gets together ---- */

/* Two ranks become all; both comms work, and each without the other. */
static int from_two(struct rig *rig)
{
    rondoComm_t comm, grown = NULL;
    rondoUniqueId id;
    if (make_old(rig, 2, &comm) || share_id(rig, comm, 1, &id))
        return 1;
    RIG_OK(grow(rig, comm, rig->ranks, &id, 1, &grown));
    if (child_try(rig, grown, rig->rank, rig->ranks) || (comm && child_try(rig, comm, rig->rank, 2)) ||
        child_try(rig, grown, rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(!comm || !comm->inbox.letters, "letters");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    if (child_try(rig, grown, rig->rank, rig->ranks))
        return 1;
    RIG_OK(rondoCommDestroy(grown));
    return 0;
}

Test(grow, makes_five_ranks_of_two_and_leaves_the_old_comm_as_it_was)
{
    needs(5);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_PAIRS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 5, .layout = layout, .no_comm = true}, from_two), 0);
}

/* One rank becomes two, these three; without the second one, and with it again as the last. All old ranks give the id and their
 * number once. */
static int again_and_again(struct rig *rig)
{
    rondoComm_t one, two, three = NULL, shrunk = NULL, last = NULL;
    rondoUniqueId id;
    int excluded = 1;
    if (make_old(rig, 1, &one) || share_id(rig, one, 0, &id))
        return 1;
    two = NULL;
    if (rig->rank < 2)
        RIG_OK(grow(rig, one, 2, &id, 0, &two));
    if ((two && child_try(rig, two, rig->rank, 2)) || share_id(rig, two, 1, &id))
        return 1;
    RIG_OK(rondoCommGrow(two, 3, &id, rig->rank, &three, NULL));
    if (child_try(rig, three, rig->rank, 3))
        return 1;
    if (rig->rank != 1)
        RIG_OK(rondoCommShrink(three, &excluded, 1, &shrunk, NULL, RONDO_SHRINK_DEFAULT));
    if (share_id(rig, shrunk, 2, &id))
        return 1;
    const int rank = rig->rank ? 3 - rig->rank : 0; /* rank 2 is 1 after the shrink, and rank 1 the last */
    RIG_OK(rondoCommGrow(shrunk, 3, shrunk && rig->rank == 0 ? NULL : &id, shrunk ? -1 : 2, &last, NULL));
    if (child_try(rig, last, rank, 3) || child_try(rig, three, rig->rank, 3))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rondoComm_t all[] = {one, two, three, shrunk, last};
    for (int i = 0; i < 5; i++)
        RIG_OK(rondoCommDestroy(all[i]));
    return 0;
}

Test(grow, may_follow_a_grow_and_a_shrink)
{
    needs(3);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = layout, .no_comm = true}, again_and_again), 0);
}

/* The old ranks and the new ones are one thread's, in one group beside a split; the id is an ordinary one. */
static int by_one_thread(struct rig *rig)
{
    enum { OLD = 2, ALL = 4 };
    rondoComm_t old[OLD], splits[OLD];
    struct rig rigs[ALL];
    rondoUniqueId id;
    RIG_OK(rondoCommInitAll(old, OLD, NULL));
    RIG_OK(rondoGetUniqueId(&id));
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < ALL; i++) {
        rigs[i] = *rig;
        rig->machine->set_device(rig_device(rig, i));
        rigs[i].stream = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
        rigs[i].rank = i;
        rigs[i].ranks = ALL;
        if (i < OLD)
            RIG_OK(rondoCommSplit(old[i], 0, 0, &splits[i], NULL));
        RIG_OK(rondoCommGrow(i < OLD ? old[i] : NULL, ALL, i == 1 ? NULL : &id, i < OLD ? -1 : i, &rigs[i].comm, NULL));
        RIG_CHECK(!rigs[i].comm, "a handle before the group's end");
    }
    RIG_OK(rondoGroupEnd());
    if (children_try(rigs, ALL))
        return 1;
    for (int i = 0; i < ALL; i++) {
        RIG_OK(rondoCommDestroy(rigs[i].comm));
        RIG_OK(rondoCommDestroy(i < OLD ? old[i] : NULL));
        RIG_OK(rondoCommDestroy(i < OLD ? splits[i] : NULL));
        rig->machine->stream_destroy(rigs[i].stream);
    }
    return 0;
}

Test(grow, may_be_of_all_ranks_of_one_thread_in_a_group)
{
    needs(4);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, by_one_thread), 0);
}

static int many(struct rig *rig)
{
    struct holdings before;
    rondoComm_t comm, grown;
    rondoUniqueId id;
    if (make_old(rig, 1, &comm))
        return 1;
    for (int round = 0; round < (RIG_SLOW ? 10 : 30); round++) {
        if (share_id(rig, comm, 0, &id))
            return 1;
        if (round == 4)
            before = holdings();
        RIG_OK(grow(rig, comm, rig->ranks, &id, 0, &grown));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(rondoCommDestroy(grown));
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before) || rondoCommDestroy(comm) != rondoSuccess;
}

Test(grow, leaves_nothing_however_often)
{
    needs(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, many), 0);
}

/* ---- configs ---- */

static int configs(struct rig *rig)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER, own = RONDO_CONFIG_INITIALIZER;
    rondoComm_t comm = NULL, grown;
    rondoUniqueId id;
    const int is_new = rig->rank == 2;
    config.minCTAs = 2;
    config.maxCTAs = 3;
    config.bufferKiB = 128;
    config.timeoutMs = 54321;
    config.graphLanes = 2;
    if (!is_new)
        RIG_OK(rondoCommInitRankConfig(&comm, 2, rig->ids[1], rig->rank, &config));
    /* the old ranks' own config; the new one's is their number where that counts */
    if (share_id(rig, comm, 0, &id))
        return 1;
    own.commName = "new";
    own.timeoutMs = 1234;
    RIG_OK(rondoCommGrow(comm, 3, rig->rank == 1 ? NULL : &id, is_new ? 2 : -1, &grown, is_new ? &own : NULL));
    RIG_CHECK(grown->config.min_ctas == 2 && grown->config.max_ctas == 3 && grown->config.buffer_kib == 128 &&
                  grown->config.graph_lanes == 2 && grown->config.timeout_ms == (is_new ? 1234 : 54321),
              "another config");
    RIG_CHECK(is_new == !strcmp(grown->config.name, "new"), "its name is %s", grown->config.name);
    if (child_try(rig, grown, rig->rank, 3))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(grown));
    /* one of their own */
    if (share_id(rig, comm, 1, &id))
        return 1;
    own = (rondoConfig_t)RONDO_CONFIG_INITIALIZER;
    own.bufferKiB = 256;
    RIG_OK(rondoCommGrow(comm, 3, rig->rank == 0 ? NULL : &id, is_new ? 2 : -1, &grown, is_new ? NULL : &own));
    RIG_CHECK(grown->config.buffer_kib == 256, "%d KiB", grown->config.buffer_kib);
    if (child_try(rig, grown, rig->rank, 3))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(grown));
    /* what the new one says is another number */
    if (share_id(rig, comm, 0, &id))
        return 1;
    own.bufferKiB = 512;
    RIG_REFUSED(rondoInvalidArgument, "disagree on bufferKiB",
                rondoCommGrow(comm, 3, rig->rank == 1 ? NULL : &id, is_new ? 2 : -1, &grown, is_new ? &own : NULL));
    RIG_CHECK(!grown, "a handle");
    own.magic = 0;
    RIG_REFUSED(rondoInvalidArgument, "RONDO_CONFIG_INITIALIZER",
                rondoCommGrow(comm, 3, &id, is_new ? 2 : -1, &grown, &own));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow, takes_configs_and_new_ranks_take_what_all_must_have_alike)
{
    needs(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true}, configs), 0);
}

/* Each rank waits in its own way: the old ones not, the new one does; then the other way round. */
static int nonblocking(struct rig *rig)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    rondoComm_t comm, grown;
    rondoUniqueId id;
    config.blocking = 0;
    if (make_old(rig, 1, &comm))
        return 1;
    for (int round = 0; round < 2; round++) {
        const bool waits = (rig->rank == 0) == round;
        if (share_id(rig, comm, 0, &id))
            return 1;
        const rondoResult_t result =
            rondoCommGrow(comm, rig->ranks, &id, comm ? -1 : rig->rank, &grown, waits ? NULL : &config);
        RIG_CHECK(result == (waits ? rondoSuccess : rondoInProgress), "gave %d", result);
        RIG_CHECK(child_await(grown) == rondoSuccess, "grown");
        if (child_try(rig, grown, rig->rank, rig->ranks))
            return 1;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(rondoCommDestroy(grown));
    }
    /* nobody joins: it is in progress until it is aborted */
    if (rig->rank == 0) {
        rondoResult_t state;
        RIG_OK(rondoCommGetUniqueId(comm, &id));
        RIG_CHECK(rondoCommGrow(comm, 2, &id, 0, &grown, &config) == rondoInProgress, "not in progress");
        if (child_try(rig, comm, 0, 1)) /* the old comm is free meanwhile */
            return 1;
        RIG_OK(rondoCommGetAsyncError(grown, &state));
        RIG_CHECK(state == rondoInProgress, "state %d", state);
        const uint64_t start = rondo_now_ns();
        RIG_OK(rondoCommAbort(grown));
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
    }
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow, blocks_or_not_as_each_ranks_config_says)
{
    needs(2);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, nonblocking), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .layout = RIG_THREADS, .no_comm = true}, nonblocking), 0);
}

/* ---- what is refused ---- */

static int refused(struct rig *rig)
{
    rondoComm_t comm, none = (rondoComm_t)(uintptr_t)16;
    rondoUniqueId id;
    if (make_old(rig, 1, &comm))
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

Test(grow, is_refused_for_bad_arguments)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, refused), 0);
}

/* A group with an error makes nothing; the grow in it has not happened. */
static int group_with_an_error(struct rig *rig)
{
    rondoComm_t comm, grown = NULL, other;
    rondoUniqueId id;
    if (make_old(rig, 1, &comm) || share_id(rig, comm, 0, &id))
        return 1;
    RIG_OK(rondoGroupStart());
    RIG_OK(grow(rig, comm, 2, &id, 0, &grown));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 1", rondoCommGrow(NULL, 1, &id, 1, &other, NULL));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 1", rondoGroupEnd());
    RIG_CHECK(!grown, "a handle");
    RIG_OK(grow(rig, comm, 2, &id, 0, &grown)); /* by the same id, which is not used up */
    if (child_try(rig, grown, rig->rank, 2))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(grown));
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow, in_a_group_that_fails_has_not_happened)
{
    needs(2);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, group_with_an_error), 0);
}

/* ---- ranks that do not agree ---- */

/* The old ranks find out by themselves; the new one, which is there already or comes later, is told by whoever made its id. */
static int disagreeing(struct rig *rig)
{
    rondoComm_t comm, none = NULL;
    rondoUniqueId id, other;
    const int is_new = rig->rank == 2;
    if (make_old(rig, 2, &comm))
        return 1;
    for (int way = 0; way < 4; way++) {
        const bool late = way % 2;
        if (share_id(rig, comm, 0, &id))
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

Test(grow, of_ranks_that_disagree_fails_on_all_at_once)
{
    needs(3);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = layout, .no_comm = true}, disagreeing), 0);
}

/* The new rank takes an old one's number, then speaks of other ranks. */
static int wrong_newcomer(struct rig *rig)
{
    rondoComm_t comm, none;
    rondoUniqueId id;
    if (make_old(rig, 2, &comm))
        return 1;
    for (int way = 0; way < 2; way++) {
        if (share_id(rig, comm, 0, &id))
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

Test(grow, of_a_new_rank_that_is_there_already_or_counts_otherwise_fails_on_all)
{
    needs(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true}, wrong_newcomer), 0);
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

Test(grow, and_split_at_once_are_told_apart)
{
    needs(2);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, grow_and_split), 0);
}

/* ---- ranks that do not come ---- */

/* First a new rank never joins, then an old one never calls. */
static int absent(struct rig *rig)
{
    rondoComm_t comm, none = NULL;
    rondoUniqueId id;
    if (make_old(rig, 2, &comm) || share_id(rig, comm, 0, &id))
        return 1;
    uint64_t start = rondo_now_ns();
    if (rig->rank != 3) {
        RIG_REFUSED(rondoTimeout, "rank 3", grow(rig, comm, 4, &id, 0, &none));
        RIG_CHECK(rondo_now_ns() - start > 2990000000 && since_ms(start) < 20000, "%f ms", since_ms(start));
    }
    if (share_id(rig, comm, 0, &id))
        return 1;
    start = rondo_now_ns();
    if (rig->rank == 0)
        RIG_REFUSED(rondoTimeout, "rank 1 did not take part in a grow", grow(rig, comm, 4, &id, 0, &none));
    else if (rig->rank > 1) /* their own time is over at about the same moment */
        RIG_CHECK(grow(rig, comm, 4, &id, 0, &none) != rondoSuccess, "made");
    RIG_CHECK(since_ms(start) < 20000 && !none, "%f ms", since_ms(start));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(grow, waits_for_an_absent_rank_no_longer_than_configured)
{
    needs(4);
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
    c->result = grow(c->rig, c->old, c->rig->ranks, &c->id, 0, &c->comm);
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
    if (make_old(rig, 2, &caller.old) || share_id(rig, caller.old, 0, &caller.id))
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
    RIG_CHECK(strstr(caller.text, "rank 2") && !caller.comm, "%s", caller.text);
    if (caller.old && child_try(rig, caller.old, rig->rank, 2))
        return 1;
    RIG_OK(rondoCommDestroy(caller.old));
    said[rig->rank] = 1;
    return 0;
}

Test(grow, hears_of_a_new_rank_that_dies)
{
    needs(4);
    char *scratch = malloc(RIG_SCRATCH);
    setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
    rig_run(&(struct rig_options){.ranks = 4, .no_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
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
    if (share_id(rig, rig->comm, 0, &caller.id))
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

Test(grow, ends_when_another_thread_aborts_it)
{
    needs(2);
    setenv("RONDO_INIT_TIMEOUT_MS", "8000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, aborted), 0);
}
