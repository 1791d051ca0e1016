/* Legacy IPC mailboxes: the owner must not free what a peer still maps, however their comms end. On the host device such
 * memory is gone for a peer once its owner frees it, so that a touch of it kills the process. */
#include "comm/comm.h"
#include "comm/parting.h"
#include "common/clock.h"
#include "support/forks.h"
#include "support/rank_group.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a word of every page of the peers' mailboxes as this rank maps them. */
static int touch(struct rig *rig)
{
    const struct rondoComm *comm = rig->comm;
    uint32_t word;
    for (int r = 0; r < rig->ranks; r++)
        for (size_t at = 0; r != rig->rank && at < comm->anchor->areas[RONDO_AREA_INBOX].bytes; at += 4096)
            RIG_OK(comm->ops->read(comm->device, &word, comm->lanes[0].args.to[r] + at, sizeof word));
    return 0;
}

/* Soon nothing of the comms is left here. */
static int all_freed(struct rig *rig)
{
    for (int wait = 0; wait < 300 && (rondo_partings_count() || rondo_anchor_count()); wait++) {
        usleep(10000);
        rondo_partings_reap();
        rondo_anchor_reap();
    }
    RIG_CHECK(rondo_partings_count() == 0, "%u mailboxes wait for their peers", rondo_partings_count());
    RIG_CHECK(!rig->alone || rondo_anchor_count() == 0, "%u anchors left", rondo_anchor_count());
    return 0;
}

static int one_after_another(struct rig *rig)
{
    RIG_CHECK(rig->ranks == 1 || rig->comm->anchor->areas[RONDO_AREA_INBOX].kind == RONDO_MEM_LEGACY, "other memory");
    if (rig_try(rig, 1))
        return 1;
    for (int r = 0; r < rig->ranks; r++) {
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        if (r == rig->rank) {
            const uint64_t start = rondo_now_ns();
            RIG_OK(r % 2 ? rondoCommAbort(rig->comm) : rondoCommDestroy(rig->comm));
            RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
            if (r < rig->ranks - 1 && rig->alone)
                RIG_CHECK(rondo_partings_count() == 1, "the mailbox was freed before its peers had ended");
        }
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        if (r < rig->rank && touch(rig))
            return 1;
    }
    return all_freed(rig);
}

Test(parting, keeps_a_mailbox_for_peers_that_end_later)
{
    setenv("RONDO_CUMEM_ENABLE", "0", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .keep_comm = true}, one_after_another), 0);
}

Test(parting, keeps_a_mailbox_for_peers_in_the_same_and_other_processes)
{
    setenv("RONDO_CUMEM_ENABLE", "0", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .layout = RIG_PAIRS, .keep_comm = true},
                         one_after_another),
                 0);
    if (!rig_on_host()) /* CUDA cannot open its own process's handles */
        return;
    setenv("RONDO_P2P_DIRECT_DISABLE", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 4, .layout = RIG_PAIRS, .keep_comm = true}, one_after_another),
                 0);
}

static int together(struct rig *rig)
{
    rondoUniqueId id;
    int fds = 0;
    for (int cycle = 0; cycle < 30; cycle++) {
        if (rig->rank == 0)
            RIG_OK(rondoGetUniqueId((rondoUniqueId *)rig->scratch));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        memcpy(&id, rig->scratch, sizeof id);
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, id, rig->rank));
        if (cycle % 8 == 0 && rig_try(rig, 1))
            return 1;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(rondoCommDestroy(rig->comm));
        if (cycle == 3) {
            if (all_freed(rig))
                return 1;
            fds = count_fds();
        }
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    if (all_freed(rig))
        return 1;
    for (int wait = 0; wait < 100 && count_fds() > fds; wait++)
        usleep(10000); /* the last root */
    RIG_CHECK(count_fds() <= fds, "%d fds, before %d", count_fds(), fds);
    return rig_barrier(rig);
}

Test(parting, leaves_nothing_where_all_end_at_once)
{
    setenv("RONDO_CUMEM_ENABLE", "0", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true}, together), 0);
}

/* The peer dies with the memory mapped, and a child of it lives on: nobody waits for the child. */
static int dead_peer(struct rig *rig)
{
    if (rig_try(rig, 1))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank == 1) {
        if (rig_on_host() && fork() == 0) {
            for (int wait = 0; wait < 1500 && !__atomic_load_n(&rig->scratch[1], __ATOMIC_ACQUIRE); wait++)
                usleep(10000);
            _exit(0);
        }
        kill(getpid(), SIGKILL);
    }
    usleep(50000);
    const uint64_t start = rondo_now_ns();
    rondoCommDestroy(rig->comm);
    const bool in_time = since_ms(start) < 2000 && !all_freed(rig) && since_ms(start) < 2500;
    rig->scratch[0] = in_time ? '1' : '2';
    __atomic_store_n(&rig->scratch[1], 1, __ATOMIC_RELEASE); /* the child may end */
    return 0;
}

Test(parting, does_not_wait_for_the_dead)
{
    setenv("RONDO_CUMEM_ENABLE", "0", 1);
    char *scratch = malloc(RIG_SCRATCH);
    rig_run(
        &(struct rig_options){.ranks = 2, .keep_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        dead_peer);
    cr_assert_eq(scratch[0], '1');
    free(scratch);
}

/* A forked child frees its copies: the parent and its peers go on. */
static int forked(struct rig *rig)
{
    if (fork() == 0) {
        rondoCommDestroy(rig->comm);
        _exit(0);
    }
    usleep(300000);
    return rig_try(rig, 1) || rig_barrier(rig);
}

Test(parting, of_a_forked_child_takes_nothing_from_its_parent)
{
    if (!rig_on_host() || !FORKED_CHILDREN_WORK)
        cr_skip_test("CUDA does not survive a fork, nor does the heap of a sanitizer");
    setenv("RONDO_CUMEM_ENABLE", "0", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, forked), 0);
}
