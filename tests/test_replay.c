/* Captures and replays: beside eager ops, forked, many graphs, near the epochs' wrap, freed without a leak. */
#include "comm/comm.h"
#include "support/draw.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 18 };

struct pair {
    char *send, *recv;
    size_t count;
    rondoDataType_t type;
};

static void pair_make(struct rig *rig, struct pair *pair, size_t count, rondoDataType_t type)
{
    *pair = (struct pair){rig->machine->alloc(ROOM), rig->machine->alloc(ROOM), count, type};
    rig->machine->fill(pair->recv, 0x77, ROOM);
    rig_input(rig, pair->send, count, type, rondoSum);
}

static void pair_free(struct rig *rig, struct pair *pair)
{
    rig->machine->free(pair->send);
    rig->machine->free(pair->recv);
}

static rondoResult_t reduce(struct rig *rig, const struct pair *pair, struct CUstream_st *stream)
{
    return rondoAllReduce(pair->send, pair->recv, pair->count, pair->type, rondoSum, rig->comm, stream);
}

static int check(struct rig *rig, struct pair *pairs, int count, const char *when)
{
    for (int i = 0; i < count; i++) {
        size_t wrong = rig_wrong(rig, pairs[i].recv, pairs[i].count, pairs[i].type, rondoSum);
        RIG_CHECK(wrong == 0, "%zu wrong in buffer %d %s", wrong, i, when);
        rig->machine->fill(pairs[i].recv, 0x77, ROOM);
    }
    return 0;
}

/* ---- every capture mode, several ops, several replays ---- */

static int capture_modes(struct rig *rig)
{
    static const enum machine_capture_mode modes[] = {MACHINE_CAPTURE_GLOBAL, MACHINE_CAPTURE_THREAD_LOCAL,
                                                      MACHINE_CAPTURE_RELAXED};
    struct pair pairs[3];
    pair_make(rig, &pairs[0], 5, rondoHalf);
    pair_make(rig, &pairs[1], 3000, rondoFloat);
    pair_make(rig, &pairs[2], 777, rondoInt64);
    for (int m = 0; m < 3; m++) {
        struct CUstream_st *stream =
            rig->machine->stream_create(m % 2 ? MACHINE_STREAM_BLOCKING : MACHINE_STREAM_NONBLOCKING);
        rig->machine->capture_begin(stream, modes[m]);
        for (int i = 0; i < 3; i++)
            RIG_OK(reduce(rig, &pairs[i], stream));
        RIG_OK(rondoGroupStart());
        for (int i = 0; i < 3; i++)
            RIG_OK(reduce(rig, &pairs[i], stream));
        RIG_OK(rondoGroupEnd());
        struct machine_graph *graph = rig->machine->capture_end(stream);
        for (int replay = 0; replay < 5; replay++) {
            rig->machine->graph_launch(graph, stream);
            rig->machine->stream_sync(stream);
            if (check(rig, pairs, 3, "after a replay"))
                return 1;
        }
        rig->machine->graph_destroy(graph);
        rig->machine->stream_destroy(stream);
    }
    for (int i = 0; i < 3; i++)
        pair_free(rig, &pairs[i]);
    return 0;
}

Test(replay, repeats_captures_of_every_mode)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, capture_modes), 0);
    /* one thread captures in global mode while another calls what that mode forbids: that is CUDA's rule, not ours */
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = RIG_THREADS}, capture_modes), 0);
}

/* ---- soak ---- */

static int soak_rounds(void)
{
    const char *asked = getenv("RONDO_TEST_SOAK");
    return asked ? atoi(asked) : RIG_SLOW ? 400 : rig_on_host() ? 4000 : 20000;
}

/* Lets the epochs of both lanes wrap, or change their sign, on the way: few of the rounds have an eager op. */
static void start_before(long epoch)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", epoch - soak_rounds() / 8);
    setenv("RONDO_EPOCH_START", text, 1);
}

/* Graphs of several sizes and eager ops of several sizes, drawn alike on all ranks; replays on one stream, eager ops on
 * another, in an order of each rank's own; one rank late at random. */
static int soak(struct rig *rig)
{
    enum { GRAPHS = 4, OPS = 6, EAGER = 4 };
    const struct machine *m = rig->machine;
    struct pair captured[GRAPHS][OPS], eager[EAGER];
    struct machine_graph *graphs[GRAPHS];
    struct CUstream_st *second = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    struct draw shared = {11}, own = {100u + (unsigned)rig->rank};
    for (int g = 0; g < GRAPHS; g++) {
        for (int i = 0; i < OPS; i++)
            pair_make(rig, &captured[g][i], 1 + draw_below(&shared, 9000), (rondoDataType_t)((g + i) % rondoNumTypes));
        m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        for (int i = 0; i < OPS; i++)
            RIG_OK(reduce(rig, &captured[g][i], rig->stream));
        graphs[g] = m->capture_end(rig->stream);
    }
    for (int i = 0; i < EAGER; i++)
        pair_make(rig, &eager[i], 1 + draw_below(&shared, 9000), (rondoDataType_t)(i * 3 % rondoNumTypes));
    const int rounds = soak_rounds(), period = rounds / 4 + 1;
    for (int round = 0; round < rounds; round++) {
        const unsigned g = draw_below(&shared, GRAPHS), e = draw_below(&shared, EAGER);
        const bool both = draw_below(&shared, 3) == 0, graph_first = draw_below(&own, 2);
        if (draw_below(&own, 512) == 0)
            usleep(200);
        if (graph_first)
            m->graph_launch(graphs[g], rig->stream);
        if (both)
            RIG_OK(reduce(rig, &eager[e], second));
        if (!graph_first)
            m->graph_launch(graphs[g], rig->stream);
        if (round % period == period - 1) {
            m->stream_sync(rig->stream);
            m->stream_sync(second);
            if (check(rig, captured[g], OPS, "of a graph in the soak"))
                return 1;
            if (both && check(rig, &eager[e], 1, "of an eager op in the soak"))
                return 1;
            rondoResult_t error;
            RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
            RIG_CHECK(error == rondoSuccess, "async error %d", error);
        }
    }
    m->stream_sync(rig->stream);
    m->stream_sync(second);
    for (int g = 0; g < GRAPHS; g++) {
        m->graph_destroy(graphs[g]);
        for (int i = 0; i < OPS; i++)
            pair_free(rig, &captured[g][i]);
    }
    for (int i = 0; i < EAGER; i++)
        pair_free(rig, &eager[i]);
    m->stream_destroy(second);
    return 0;
}

Test(replay, survives_random_interleavings_of_graphs_and_eager_ops, .timeout = 300)
{
    start_before(0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, soak), 0);
}

Test(replay, survives_random_interleavings_between_threads_in_two_shots, .timeout = 300)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    start_before(2147483648);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS}, soak), 0);
}

/* ---- forks ---- */

/* Two branches that both hold ops of the comm, fork and join by events: the ops must be put in order. */
static int forked(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct CUstream_st *branch = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    struct machine_event *fork_event = m->event_create(), *join_event = m->event_create();
    struct pair pairs[4];
    for (int i = 0; i < 4; i++)
        pair_make(rig, &pairs[i], 500 + (size_t)i, rondoFloat);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    m->event_record(fork_event, rig->stream);
    m->event_wait(fork_event, branch);
    RIG_OK(reduce(rig, &pairs[0], rig->stream));
    RIG_OK(reduce(rig, &pairs[1], branch));
    RIG_OK(reduce(rig, &pairs[2], rig->stream));
    RIG_OK(reduce(rig, &pairs[3], branch));
    m->event_record(join_event, branch);
    m->event_wait(join_event, rig->stream);
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int replay = 0; replay < 200; replay++)
        m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    if (check(rig, pairs, 4, "of a forked capture"))
        return 1;
    rondoResult_t error;
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "async error %d", error);
    m->graph_destroy(graph);
    m->event_destroy(fork_event);
    m->event_destroy(join_event);
    m->stream_destroy(branch);
    for (int i = 0; i < 4; i++)
        pair_free(rig, &pairs[i]);
    return 0;
}

Test(replay, orders_the_ops_of_forked_branches)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, forked), 0);
}

/* ---- what captures hold ---- */

static int many_captures(struct rig *rig)
{
    const struct machine *m = rig->machine;
    const int captures = strcmp(m->name, "host") == 0 && !RIG_SLOW ? 10000 : 2000;
    struct pair pair;
    pair_make(rig, &pair, 100, rondoFloat);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* peers in this process hold references too, now all do */
    const unsigned references = rondo_anchor_references(rig->comm->anchor);
    const size_t arena = rondo_arena_bytes(rig->comm->arena);
    for (int i = 0; i < captures; i++) {
        m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        RIG_OK(reduce(rig, &pair, rig->stream));
        RIG_OK(reduce(rig, &pair, rig->stream));
        m->graph_destroy(m->capture_end(rig->stream));
    }
    for (int wait = 0; wait < 200 && rondo_anchor_references(rig->comm->anchor) > references; wait++)
        usleep(10000); /* CUDA calls destructors when it likes */
    RIG_CHECK(rondo_anchor_references(rig->comm->anchor) == references, "%u references after %d captures, %u before",
              rondo_anchor_references(rig->comm->anchor), captures, references);
    RIG_CHECK(rondo_arena_bytes(rig->comm->arena) == arena, "%zu bytes more",
              rondo_arena_bytes(rig->comm->arena) - arena);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* one that left would be an error for the other */
    pair_free(rig, &pair);
    return 0;
}

Test(replay, leaks_nothing_over_thousands_of_captures, .timeout = 120)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, many_captures), 0);
}

/* ---- graphs that outlive their comm ---- */

static int outlive(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct pair pair;
    pair_make(rig, &pair, 1000, rondoFloat);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < 5; i++)
        RIG_OK(reduce(rig, &pair, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    if (check(rig, &pair, 1, "before the comm's end"))
        return 1;
    RIG_OK(rondoCommDestroy(rig->comm));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream); /* returns: the launch found its lane stopped */
    char byte;
    m->download(&byte, pair.recv, 1);
    RIG_CHECK(byte == 0x77, "a replay after the comm's end wrote results");
    m->graph_destroy(graph);
    pair_free(rig, &pair);
    return 0;
}

Test(replay, does_nothing_after_the_comm_was_destroyed)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .keep_comm = true}, outlive), 0);
    cr_assert_eq(
        rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS, .keep_comm = true}, outlive), 0);
}
