/* Random groups of all ops, types, sizes, places, comms and streams, eager and captured, against a plain reference. A failure
 * names its seed; RONDO_TEST_SEED=N runs that one alone, RONDO_TEST_GROUPS=N as many. */
#include "comm/comm.h"
#include "support/faults.h"
#include "support/item.h"
#include "support/mailbox.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_ITEMS = 24, COMMS = 2, STREAMS = 2 };

struct group {
    struct item items[MOST_ITEMS];
    unsigned count;
    unsigned replays; /* 0: eager */
};

struct place {
    rondoComm_t comms[COMMS];
    struct CUstream_st *streams[STREAMS];
};

static void group_draw(struct group *group, struct draw *draw, int ranks)
{
    group->count = 1 + (draw_below(draw, 3) ? draw_below(draw, MOST_ITEMS) : 0);
    group->replays = draw_below(draw, 2) ? 1 + draw_below(draw, 3) : 0;
    for (unsigned i = 0; i < group->count; i++) {
        item_draw(&group->items[i], draw, ranks, draw_below(draw, 6) ? 9 : 15);
        group->items[i].comm = draw_below(draw, 4) == 0;
        group->items[i].stream = draw_below(draw, 4) == 0;
    }
}

static int issue(struct group *group, struct rig *rig, const struct place *place)
{
    RIG_OK(rondoGroupStart());
    for (unsigned i = 0; i < group->count; i++) {
        const struct item *item = &group->items[i];
        RIG_OK(item_issue(item, rig, place->comms[item->comm], place->streams[item->stream]));
    }
    RIG_OK(rondoGroupEnd());
    return 0;
}

static void fill(const struct group *group, const struct rig *rig)
{
    for (unsigned i = 0; i < group->count; i++)
        item_fill(&group->items[i], rig);
}

static int check(const struct group *group, struct rig *rig)
{
    int failed = 0;
    for (unsigned i = 0; i < group->count; i++)
        failed |= item_check(&group->items[i], rig);
    return failed;
}

static int run_eager(struct group *group, struct rig *rig, const struct place *place)
{
    fill(group, rig);
    if (issue(group, rig, place))
        return 1;
    for (int s = 0; s < STREAMS; s++)
        rig->machine->stream_sync(place->streams[s]);
    return check(group, rig);
}

/* All streams join the capture of the first. */
static int run_captured(struct group *group, struct rig *rig, const struct place *place)
{
    const struct machine *m = rig->machine;
    struct machine_event *fork = m->event_create(), *join = m->event_create();
    m->capture_begin(place->streams[0], MACHINE_CAPTURE_THREAD_LOCAL);
    m->event_record(fork, place->streams[0]);
    m->event_wait(fork, place->streams[1]);
    if (issue(group, rig, place))
        return 1;
    m->event_record(join, place->streams[1]);
    m->event_wait(join, place->streams[0]);
    struct machine_graph *graph = m->capture_end(place->streams[0]);
    int failed = 0;
    for (unsigned i = 0; i < group->replays && !failed; i++) {
        fill(group, rig);
        m->graph_launch(graph, place->streams[0]);
        m->stream_sync(place->streams[0]);
        failed = check(group, rig);
    }
    m->graph_destroy(graph);
    m->event_destroy(fork);
    m->event_destroy(join);
    return failed;
}

static void report(const struct group *group, const struct rig *rig, uint64_t seed)
{
    rondoResult_t error = rondoSuccess;
    usleep(100000); /* what befell the comm has become known by then */
    rondoCommGetAsyncError(rig->comm, &error);
    fprintf(stderr, "RONDO_TEST_SEED=%llu fails with %d ranks, %u replays, async error %d (%s)\n",
            (unsigned long long)seed, rig->ranks, group->replays, (int)error, rondoGetLastError(NULL));
    for (unsigned i = 0; i < group->count && rig->rank == 0; i++) {
        char text[160];
        item_describe(&group->items[i], text, sizeof text);
        fprintf(stderr, "  %s\n", text);
    }
}

static int run_seed(struct rig *rig, const struct place *place, uint64_t seed)
{
    struct draw draw = {seed};
    struct group group;
    group_draw(&group, &draw, rig->ranks);
    for (unsigned i = 0; i < group.count; i++)
        item_prepare(&group.items[i], rig);
    const int failed = group.replays ? run_captured(&group, rig, place) : run_eager(&group, rig, place);
    if (failed)
        report(&group, rig, seed);
    for (unsigned i = 0; i < group.count; i++)
        item_free(&group.items[i], rig);
    return failed;
}

static int random_groups(struct rig *rig)
{
    const long seed = rig_parameter("RONDO_TEST_SEED", -1),
               groups = seed >= 0 ? 1 : rig_parameter("RONDO_TEST_GROUPS", RIG_SLOW ? 20 : 150);
    struct place place = {.comms = {rig->comm}};
    int failed = 0;
    RIG_OK(rondoCommInitRank(&place.comms[1], rig->ranks, rig->ids[1], rig->rank));
    for (int s = 0; s < STREAMS; s++)
        place.streams[s] = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    for (long i = 0; i < groups && !failed; i++)
        failed = run_seed(rig, &place, seed >= 0 ? (uint64_t)seed : (uint64_t)i * 64 + (uint64_t)rig->ranks);
    failed = failed || mailboxes_check(rig);
    for (int s = 0; s < STREAMS; s++)
        rig->machine->stream_destroy(place.streams[s]);
    RIG_OK(rondoCommDestroy(place.comms[1]));
    return failed;
}

static void run(int ranks, enum rig_layout layout)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = layout}, random_groups), 0);
}

Test(groups, are_right_between_processes)
{
    for (int ranks = 1; ranks <= rig_ranks(5); ranks++)
        run(ranks, RIG_PROCESSES);
}

Test(groups, are_right_between_eight_ranks)
{
    if (rig_ranks(8) == 8)
        run(8, RIG_PAIRS);
}

Test(groups, are_right_between_threads_in_two_shots)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    run(rig_ranks(4), RIG_THREADS);
}

Test(groups, are_right_in_small_mailboxes_over_many_channels)
{
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_MAX_CTAS", "16", 1);
    run(rig_ranks(3), RIG_PROCESSES);
}

/* Messages come in launches of their own on one rank, on another where they are many, and with the works on the others. */
static int crowded_groups(struct rig *rig)
{
    rig->comm->limits.room = rig->rank == 0 ? 1 : rig->rank == 1 ? 6 * rig->comm->limits.max_threads : 0;
    return random_groups(rig);
}

Test(groups, are_right_where_some_ranks_have_no_room_for_all_at_once)
{
    setenv("RONDO_MAX_CTAS", "7", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, crowded_groups), 0);
}

/* The smallest FIFOs that there are: with less than 64 lines each, the lanes of a warp waited for each other. */
Test(groups, are_right_in_the_smallest_fifos)
{
    if (rig_on_host())
        cr_skip_test("a thread there is alone in its warp");
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_MAX_CTAS", "128", 1);
    run(rig_ranks(4), RIG_PROCESSES);
}

Test(groups, are_right_near_the_wrap_of_epochs_and_positions)
{
    setenv("RONDO_EPOCH_START", "-40", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    run(rig_ranks(3), RIG_PROCESSES);
}

/* ---- comms whose paths, protocols and sizes are drawn too ---- */

enum { MIXES = RIG_SLOW ? 2 : 6, MIX_MOST_RANKS = 11 };

static void put(const char *name, const char *const *values, unsigned count, struct draw *draw)
{
    const char *value = values[draw_below(draw, count)];
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}
#define PUT(draw, name, ...) \
    put(name, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), draw)

/* What all ranks must have alike; returns how many there are. */
static int mix_all(uint64_t seed)
{
    struct draw draw = {seed * 1000};
    PUT(&draw, "RONDO_PROTO", "bulk", "bulk", "line", NULL);
    PUT(&draw, "RONDO_ALGO", "oneshot", "twoshot", "twoshot", NULL);
    PUT(&draw, "RONDO_BUFFER_KIB", "64", "65", "100", "300", NULL);
    PUT(&draw, "RONDO_MAX_CTAS", "1", "3", "7", "16", NULL);
    PUT(&draw, "RONDO_EPOCH_START", "-3", "0", "7", NULL);
    return 2 + (int)draw_below(&draw, MIX_MOST_RANKS - 1);
}

/* What each may have for itself. */
static void mix_one(uint64_t seed, int rank)
{
    struct draw draw = {seed * 1000 + 1 + (uint64_t)rank};
    PUT(&draw, "RONDO_P2P_DISABLE", NULL, NULL, "1");
    PUT(&draw, "RONDO_P2P_USE_CUDA_MEMCPY", NULL, "1");
    PUT(&draw, "RONDO_P2P_READ_ENABLE", NULL, "1");
    PUT(&draw, "RONDO_SHM_USE_CUDA_MEMCPY", NULL, "1");
    PUT(&draw, "RONDO_SHM_MEMCPY_MODE", "1", "2", "3");
    PUT(&draw, "RONDO_SHM_LOCALITY", "1", "2");
}

/* Rank 0 has what the test has: it has made the ids, so its environment is read already. */
static int mixed_groups(struct rig *rig)
{
    const uint64_t seed = (uint64_t)rig_parameter("RONDO_TEST_MIX", 0);
    if (rig->rank)
        mix_one(seed, rig->rank);
    if (seed % 2) {
        faults.copy_delay_us = 200;
        faults_install();
    }
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[2], rig->rank));
    const int failed = random_groups(rig);
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

Test(groups, are_right_over_paths_and_protocols_of_all_kinds, .timeout = 300)
{
    const long first = rig_parameter("RONDO_TEST_MIX", -1);
    char text[24];
    if (!rig_on_host() || rig_ranks(MIX_MOST_RANKS) < MIX_MOST_RANKS)
        cr_skip_test("many ranks of the host device");
    setenv("RONDO_TEST_GROUPS", "30", 0);
    for (long mix = first < 0 ? 0 : first; mix < (first < 0 ? 0 : first) + rig_parameter("RONDO_TEST_MIXES", MIXES);
         mix++) {
        const int ranks = mix_all((uint64_t)mix);
        mix_one((uint64_t)mix, 0);
        snprintf(text, sizeof text, "%ld", mix);
        setenv("RONDO_TEST_MIX", text, 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .no_comm = true, .apart = true}, mixed_groups), 0,
                     "RONDO_TEST_MIX=%ld RONDO_TEST_MIXES=1, %d ranks", mix, ranks);
    }
}
