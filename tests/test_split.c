/* Comms that are split from another: which ranks get together, in every layout and order, beside ops of the parent, and how it
 * fails. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/child.h"
#include "support/rank_group.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 3000 };

/* Letters that nobody took, or that nobody will send. */
static int letters_left(const struct rig *rig)
{
    return rig->comm->inbox.letters != NULL;
}

/* ---- who gets together ---- */

/* Two colors, and keys against the order of the ranks. */
static int by_color_and_key(struct rig *rig)
{
    const int color = rig->rank % 2, ranks = (rig->ranks + 1 - color) / 2;
    rondoComm_t comm = NULL;
    RIG_OK(rondoCommSplit(rig->comm, color * 7, -rig->rank, &comm, NULL));
    if (child_try(rig, comm, ranks - 1 - rig->rank / 2, ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    RIG_CHECK(!letters_left(rig), "letters");
    return child_try(rig, rig->comm, rig->rank, rig->ranks);
}

Test(split, gets_ranks_of_a_color_together_in_the_order_of_their_keys)
{
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_PAIRS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .layout = layout}, by_color_and_key), 0);
}

/* Equal keys, the largest numbers, and a child of each rank alone. */
static int odd_numbers(struct rig *rig)
{
    rondoComm_t comms[4] = {0};
    RIG_OK(rondoCommSplit(rig->comm, INT_MAX, INT_MIN, &comms[0], NULL));
    RIG_OK(rondoCommSplit(comms[0], rig->rank, 0, &comms[1], NULL));
    RIG_OK(rondoCommSplit(comms[1], 3, 0, &comms[2], NULL));
    RIG_OK(rondoCommSplit(comms[0], 0, rig->rank == rig->ranks - 1 ? INT_MIN : INT_MAX, &comms[3], NULL));
    if (child_try(rig, comms[0], rig->rank, rig->ranks) || child_try(rig, comms[1], 0, 1) ||
        child_try(rig, comms[2], 0, 1) || child_try(rig, comms[3], (rig->rank + 1) % rig->ranks, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < 4; i++)
        RIG_OK(rondoCommDestroy(comms[i]));
    return 0;
}

Test(split, takes_any_key_and_color_and_may_be_of_a_split)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, odd_numbers), 0);
}

/* Rank 0 wants no part, and is gone before the others have begun. */
static int without_color(struct rig *rig)
{
    rondoComm_t comm = (rondoComm_t)(uintptr_t)16;
    if (rig->rank == 0) {
        RIG_OK(rondoCommSplit(rig->comm, RONDO_SPLIT_NOCOLOR, 5, &comm, NULL));
        RIG_CHECK(!comm, "a handle");
        RIG_OK(rondoCommDestroy(rig->comm));
        return rig_barrier(rig);
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    usleep(50000); /* most likely the watch has heard of it by now */
    RIG_OK(rondoCommSplit(rig->comm, 1, 0, &comm, NULL));
    RIG_OK(rondoCommDestroy(rig->comm));
    if (child_try(rig, comm, rig->rank - 1, rig->ranks - 1))
        return 1;
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(split, of_a_rank_without_color_is_no_comm_and_no_wait)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .keep_comm = true}, without_color), 0);
}

/* ---- groups ---- */

/* Several splits of one parent in one group; they are one after the other on all ranks. */
static int several_in_a_group(struct rig *rig)
{
    rondoComm_t comms[3];
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoCommSplit(rig->comm, 0, rig->rank, &comms[0], NULL));
    RIG_OK(rondoCommSplit(rig->comm, rig->rank ? 4 : RONDO_SPLIT_NOCOLOR, 0, &comms[1], NULL));
    RIG_OK(rondoCommSplit(rig->comm, 0, -rig->rank, &comms[2], NULL));
    RIG_CHECK(!comms[0] && !comms[2], "a handle before the group's end");
    RIG_OK(rondoGroupEnd());
    if (child_try(rig, comms[0], rig->rank, rig->ranks) ||
        child_try(rig, comms[2], rig->ranks - 1 - rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(!comms[1] == (rig->rank == 0), "a comm without a color, or none with one");
    if (comms[1] && child_try(rig, comms[1], rig->rank - 1, rig->ranks - 1))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < 3; i++)
        RIG_OK(rondoCommDestroy(comms[i]));
    RIG_CHECK(!letters_left(rig), "letters");
    return 0;
}

Test(split, may_be_several_in_a_group)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_PAIRS}, several_in_a_group), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4)}, several_in_a_group), 0);
}

/* All ranks of the parent are one thread's. */
static int by_one_thread(struct rig *rig)
{
    const int ranks = rig_ranks_most(4);
    rondoComm_t parents[4];
    struct rig rigs[4];
    RIG_OK(rondoCommInitAll(parents, ranks, NULL));
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < ranks; i++) {
        rigs[i] = *rig;
        rig->machine->set_device(rig_device(rig, i));
        rigs[i].stream = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
        rigs[i].rank = i / 2;
        rigs[i].ranks = i % 2 ? ranks / 2 : (ranks + 1) / 2;
        RIG_OK(rondoCommSplit(parents[i], i % 2, 0, &rigs[i].comm, NULL));
    }
    RIG_OK(rondoGroupEnd());
    if (children_try(rigs, ranks))
        return 1;
    for (int i = 0; i < ranks; i++) {
        RIG_OK(rondoCommDestroy(i % 2 ? parents[i] : rigs[i].comm));
        RIG_OK(rondoCommDestroy(i % 2 ? rigs[i].comm : parents[i]));
        rig->machine->stream_destroy(rigs[i].stream);
    }
    return 0;
}

Test(split, may_be_of_several_ranks_of_one_thread_in_a_group)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, by_one_thread), 0);
}

/* A group with an error makes nothing, and the splits in it have not happened. */
static int group_with_an_error(struct rig *rig)
{
    rondoComm_t comm = NULL, other;
    if (rig->rank == 0) {
        RIG_OK(rondoGroupStart());
        RIG_OK(rondoCommSplit(rig->comm, 0, 0, &other, NULL));
        RIG_REFUSED(rondoInvalidArgument, "color", rondoCommSplit(rig->comm, -2, 0, &comm, NULL));
        RIG_REFUSED(rondoInvalidArgument, "color", rondoGroupEnd());
        RIG_CHECK(!other && !comm, "a handle");
    }
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &comm, NULL));
    if (child_try(rig, comm, rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    return 0;
}

Test(split, in_a_group_that_fails_has_not_happened)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, group_with_an_error), 0);
}

/* ---- beside the parent ---- */

/* The parent's ops wait for the last rank, eagerly and in a replay, all the while that the comm is split. */
static int beside_ops(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *send = m->alloc(COUNT * 4), *recv[2] = {m->alloc(COUNT * 4), m->alloc(COUNT * 4)};
    struct CUstream_st *other = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    rondoComm_t comm;
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(send, recv[0], COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int late = 0; late < 2; late++) {
        if ((rig->rank == rig->ranks - 1) == late) {
            m->graph_launch(graph, rig->stream);
            RIG_OK(rondoAllReduce(send, recv[1], COUNT, rondoFloat, rondoSum, rig->comm, other));
        }
        if (late)
            break;
        RIG_OK(rondoCommSplit(rig->comm, 0, 0, &comm, NULL));
        RIG_CHECK(rig->rank == rig->ranks - 1 || (!m->stream_done(rig->stream) && !m->stream_done(other)),
                  "the parent's ops are over");
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* the last rank joins in when all have looked */
    }
    m->stream_sync(rig->stream);
    m->stream_sync(other);
    for (int i = 0; i < 2; i++)
        RIG_CHECK(rig_wrong(rig, recv[i], COUNT, rondoFloat, rondoSum) == 0, "parent's op %d", i);
    if (child_try(rig, comm, rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    m->graph_destroy(graph);
    m->stream_destroy(other);
    m->free(send);
    m->free(recv[0]);
    m->free(recv[1]);
    return 0;
}

Test(split, goes_on_beside_ops_of_the_parent_that_wait)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, beside_ops), 0);
}

/* Parents and children end in an order of each rank's own; what is left works. */
static int ends_in_any_order(struct rig *rig)
{
    rondoComm_t child, grandchild;
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &child, NULL));
    RIG_OK(rondoCommSplit(child, 0, 0, &grandchild, NULL));
    if (rig->rank % 2)
        RIG_OK(rondoCommDestroy(rig->comm));
    else
        RIG_OK(rondoCommAbort(child));
    if (child_try(rig, grandchild, rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(rig->rank % 2 ? child : rig->comm));
    if (child_try(rig, grandchild, rig->rank, rig->ranks))
        return 1;
    RIG_OK(rondoCommDestroy(grandchild));
    return 0;
}

Test(split, comms_and_their_parents_end_in_any_order)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .keep_comm = true}, ends_in_any_order), 0);
}

static int configs(struct rig *rig)
{
    rondoComm_t comm, inherits, own;
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.minCTAs = 2;
    config.maxCTAs = 3;
    config.bufferKiB = 128;
    config.timeoutMs = 54321;
    config.commName = "parent";
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &comm, &config));
    RIG_OK(rondoCommSplit(comm, 0, 0, &inherits, NULL));
    config = (rondoConfig_t)RONDO_CONFIG_INITIALIZER;
    config.commName = "child";
    RIG_OK(rondoCommSplit(comm, 0, 0, &own, &config));
    RIG_CHECK(!memcmp(&inherits->config, &comm->config, sizeof comm->config) && comm->config.max_ctas == 3 &&
                  inherits->config.timeout_ms == 54321 && !strcmp(inherits->config.name, "parent"),
              "not inherited");
    RIG_CHECK(own->config.timeout_ms == rig->comm->config.timeout_ms && !strcmp(own->config.name, "child") &&
                  own->config.buffer_kib == rig->comm->config.buffer_kib,
              "inherited");
    /* a config that ranks disagree on */
    rondoComm_t none;
    config.bufferKiB = 128 << (rig->rank == 1);
    RIG_REFUSED(rondoInvalidArgument, "disagree", rondoCommSplit(comm, 0, 0, &none, &config));
    RIG_CHECK(!none, "a handle");
    config.magic = 0;
    RIG_REFUSED(rondoInvalidArgument, "RONDO_CONFIG_INITIALIZER", rondoCommSplit(comm, 0, 0, &none, &config));
    if (child_try(rig, own, rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(comm));
    RIG_OK(rondoCommDestroy(inherits));
    RIG_OK(rondoCommDestroy(own));
    return 0;
}

Test(split, inherits_the_config_or_takes_another)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, configs), 0);
}

static int many(struct rig *rig)
{
    rondoComm_t comm;
    int fds = 0, threads = 0;
    for (int round = 0; round < (RIG_SLOW ? 10 : 40); round++) {
        RIG_OK(rondoCommSplit(rig->comm, (rig->rank + round) % 3 ? 0 : RONDO_SPLIT_NOCOLOR, 0, &comm, NULL));
        RIG_OK(rondoCommDestroy(comm));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        if (round == 4) {
            fds = count_fds();
            threads = count_threads();
        }
    }
    RIG_CHECK(!letters_left(rig), "letters");
    RIG_CHECK(!rig->alone || (count_fds() <= fds && count_threads() <= threads), "%d fds, were %d; %d threads, were %d",
              count_fds(), fds, count_threads(), threads);
    return 0;
}

Test(split, leaves_nothing_however_often)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4)}, many), 0);
}

/* ---- how it fails ---- */

static int refused(struct rig *rig)
{
    rondoComm_t comm = (rondoComm_t)(uintptr_t)16;
    RIG_REFUSED(rondoInvalidArgument, "newcomm is NULL", rondoCommSplit(rig->comm, 0, 0, NULL, NULL));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommSplit(NULL, 0, 0, &comm, NULL));
    RIG_CHECK(!comm, "a handle");
    RIG_REFUSED(rondoInvalidArgument, "color is -2", rondoCommSplit(rig->comm, -2, 0, &comm, NULL));
    RIG_OK(rondoCommFinalize(rig->comm));
    RIG_REFUSED(rondoInvalidUsage, "finalized", rondoCommSplit(rig->comm, 0, 0, &comm, NULL));
    RIG_OK(rondoCommDestroy(rig->comm));
    RIG_REFUSED(rondoInvalidArgument, "destroyed", rondoCommSplit(rig->comm, 0, 0, &comm, NULL));
    return 0;
}

Test(split, is_refused_for_bad_arguments)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .keep_comm = true}, refused), 0);
}

/* The last rank never calls, or dies in the meantime. */
static int absent(struct rig *rig)
{
    rondoComm_t comm;
    char name[32];
    snprintf(name, sizeof name, "rank %d", rig->ranks - 1);
    if (rig->rank != rig->ranks - 1) {
        const uint64_t start = rondo_now_ns();
        RIG_REFUSED(rondoTimeout, name, rondoCommSplit(rig->comm, 0, 0, &comm, NULL));
        RIG_CHECK(rondo_now_ns() - start > 2990000000 && since_ms(start) < 20000, "%f ms", since_ms(start));
        RIG_CHECK(!comm, "a handle");
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return child_try(rig, rig->comm, rig->rank, rig->ranks); /* the parent is well */
}

Test(split, waits_for_an_absent_rank_no_longer_than_configured)
{
    setenv("RONDO_INIT_TIMEOUT_MS", RIG_SLOW ? "6000" : "3000", 1); /* the parent is to be made within this too */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, absent), 0);
}

static int dying(struct rig *rig)
{
    rondoComm_t comm;
    char name[32];
    snprintf(name, sizeof name, "rank %d", rig->ranks - 1);
    if (rig->rank == rig->ranks - 1) {
        usleep(50000);
        kill(getpid(), SIGKILL);
    }
    const uint64_t start = rondo_now_ns();
    RIG_REFUSED(rondoRemoteError, name, rondoCommSplit(rig->comm, 0, 0, &comm, NULL));
    RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
    RIG_OK(rondoCommDestroy(rig->comm));
    rig->scratch[rig->rank] = 1;
    return 0;
}

Test(split, hears_of_a_rank_that_dies)
{
    const int ranks = rig_ranks(3);
    char *scratch = malloc(RIG_SCRATCH);
    rig_run(
        &(struct rig_options){
            .ranks = ranks, .keep_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        dying);
    for (int r = 0; r < ranks - 1; r++)
        cr_assert(scratch[r], "rank %d", r);
    free(scratch);
}

/* Rank 0 splits, the others shrink without it, as far as they know. */
static int disagreeing(struct rig *rig)
{
    rondoComm_t comm;
    int last = rig->ranks - 1;
    if (rig->rank == last)
        return rig_barrier(rig);
    RIG_CHECK(rig->rank || rondoCommSplit(rig->comm, 0, 0, &comm, NULL) != rondoSuccess, "made");
    if (rig->rank)
        RIG_REFUSED(rondoInvalidUsage, "rank 0 for a split",
                    rondoCommShrink(rig->comm, &last, 1, &comm, NULL, RONDO_SHRINK_DEFAULT));
    RIG_CHECK(!comm, "a handle");
    return rig_barrier(rig);
}

Test(split, and_shrink_at_once_are_told_apart)
{
    if (rig_ranks(3) < 3)
        cr_skip_test("needs three devices");
    setenv("RONDO_INIT_TIMEOUT_MS", RIG_SLOW ? "6000" : "3000", 1); /* rank 0 waits for the last rank */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3}, disagreeing), 0);
}

struct caller {
    struct rig *rig;
    rondoComm_t comm;
    rondoResult_t result;
    char text[256];
};

static void *call_split(void *argument)
{
    struct caller *c = argument;
    c->result = rondoCommSplit(c->rig->comm, 0, 0, &c->comm, NULL);
    snprintf(c->text, sizeof c->text, "%s", rondoGetLastError(NULL));
    return NULL;
}

/* Rank 0 waits in a split that rank 1 never makes, until another thread ends the new comm, or the parent. */
static int ended_by_a_thread(struct rig *rig)
{
    for (int parent = 0; parent < 2 && rig->rank == 0; parent++) {
        struct caller caller = {.rig = rig};
        rondoComm_t handle = NULL;
        pthread_t thread;
        pthread_create(&thread, NULL, call_split, &caller);
        while (!handle)
            handle = __atomic_load_n(&caller.comm, __ATOMIC_SEQ_CST);
        usleep(30000);
        const uint64_t start = rondo_now_ns();
        RIG_CHECK(rondoCommDestroy(handle) == rondoInvalidArgument, "destroyed");
        RIG_OK(rondoCommAbort(parent ? rig->comm : handle));
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
        pthread_join(thread, NULL);
        RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
        RIG_CHECK(caller.result == rondoInvalidUsage && strstr(caller.text, parent ? "parent" : "aborted"), "%d: %s",
                  caller.result, caller.text);
        RIG_CHECK(!caller.comm, "a handle");
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank)
        RIG_OK(rondoCommDestroy(rig->comm));
    return 0;
}

Test(split, ends_when_another_thread_ends_it_or_the_parent)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .keep_comm = true}, ended_by_a_thread), 0);
}
