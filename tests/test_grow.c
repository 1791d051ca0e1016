/* Comms that grow: which ranks get together, in every layout, and with which configs. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/child.h"
#include "support/growing.h"
#include "support/holdings.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* ---- who gets together ---- */

/* Two ranks become all; both comms work, and each without the other. */
static int from_two(struct rig *rig)
{
    rondoComm_t comm, grown = NULL;
    rondoUniqueId id;
    if (growing_make_old(rig, 2, &comm) || growing_share_id(rig, comm, 1, &id))
        return 1;
    RIG_OK(growing_call(rig, comm, rig->ranks, &id, 1, &grown));
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
    growing_needs(5);
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
    if (growing_make_old(rig, 1, &one) || growing_share_id(rig, one, 0, &id))
        return 1;
    two = NULL;
    if (rig->rank < 2)
        RIG_OK(growing_call(rig, one, 2, &id, 0, &two));
    if ((two && child_try(rig, two, rig->rank, 2)) || growing_share_id(rig, two, 1, &id))
        return 1;
    RIG_OK(rondoCommGrow(two, 3, &id, rig->rank, &three, NULL));
    if (child_try(rig, three, rig->rank, 3))
        return 1;
    if (rig->rank != 1)
        RIG_OK(rondoCommShrink(three, &excluded, 1, &shrunk, NULL, RONDO_SHRINK_DEFAULT));
    if (growing_share_id(rig, shrunk, 2, &id))
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
    growing_needs(3);
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
    growing_needs(4);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, by_one_thread), 0);
}

static int many(struct rig *rig)
{
    struct holdings before;
    rondoComm_t comm, grown;
    rondoUniqueId id;
    if (growing_make_old(rig, 1, &comm))
        return 1;
    for (int round = 0; round < (RIG_SLOW ? 10 : 30); round++) {
        if (growing_share_id(rig, comm, 0, &id))
            return 1;
        if (round == 4)
            before = holdings();
        RIG_OK(growing_call(rig, comm, rig->ranks, &id, 0, &grown));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(rondoCommDestroy(grown));
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before) || rondoCommDestroy(comm) != rondoSuccess;
}

Test(grow, leaves_nothing_however_often)
{
    growing_needs(3);
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
    if (growing_share_id(rig, comm, 0, &id))
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
    if (growing_share_id(rig, comm, 1, &id))
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
    if (growing_share_id(rig, comm, 0, &id))
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
    growing_needs(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true}, configs), 0);
}

/* Each rank waits in its own way: the old ones not, the new one does; then the other way round. */
static int nonblocking(struct rig *rig)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    rondoComm_t comm, grown;
    rondoUniqueId id;
    config.blocking = 0;
    if (growing_make_old(rig, 1, &comm))
        return 1;
    for (int round = 0; round < 2; round++) {
        const bool waits = (rig->rank == 0) == round;
        if (growing_share_id(rig, comm, 0, &id))
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
    growing_needs(2);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, nonblocking), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .layout = RIG_THREADS, .no_comm = true}, nonblocking), 0);
}
