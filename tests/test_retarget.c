/* Captured ops that get other buffers: results are where the moves say, bit for bit, and nowhere else. */
#include "support/rig.h"

#include "rondo/host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, POISON = 0x77 };

/* One memory for all buffers of a graph, and what the ops make of it. */
enum {
    SEND = 0,
    RECV = 12288,
    GROUP_SEND = 24576,
    GROUP_RECV = 28672,
    MESSAGE = 32768,
    IN_PLACE = 43008,
    GATHER = 45056
};
enum { COUNT = 2049, SMALL = 37 };

static void memory_fill(struct rig *rig, char *memory)
{
    rig->machine->fill(memory, POISON, ROOM);
    rig_input(rig, memory + SEND, COUNT, rondoFloat, rondoSum);
    rig_input(rig, memory + GROUP_SEND, SMALL, rondoHalf, rondoMax);
    rig_input(rig, memory + IN_PLACE, SMALL, rondoFloat, rondoSum);
    rig_input(rig, memory + GATHER + (size_t)rig->rank * SMALL * 4, SMALL, rondoFloat, rondoSum);
}

static char *memory_make(struct rig *rig, size_t offset)
{
    char *memory = (char *)rig->machine->alloc(ROOM + 64) + offset;
    memory_fill(rig, memory);
    return memory;
}

enum { OPS = 6 };

static int ops(struct rig *rig, char *memory, struct CUstream_st *stream)
{
    const int next = (rig->rank + 1) % rig->ranks, before = (rig->rank + rig->ranks - 1) % rig->ranks;
    RIG_OK(rondoAllReduce(memory + SEND, memory + RECV, COUNT, rondoFloat, rondoSum, rig->comm, stream));
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoAllReduce(memory + GROUP_SEND, memory + GROUP_RECV, SMALL, rondoHalf, rondoMax, rig->comm, stream));
    RIG_OK(rondoAllReduce(memory + IN_PLACE, memory + IN_PLACE, SMALL, rondoFloat, rondoSum, rig->comm, stream));
    RIG_OK(rondoSend(memory + SEND, COUNT, rondoFloat, next, rig->comm, stream));
    RIG_OK(rondoRecv(memory + MESSAGE, COUNT, rondoFloat, before, rig->comm, stream));
    RIG_OK(rondoGroupEnd());
    RIG_OK(rondoAllGather(memory + GATHER + (size_t)rig->rank * SMALL * 4, memory + GATHER, SMALL, rondoFloat,
                          rig->comm, stream));
    return 0;
}

/* What memory holds after the ops, by ops that are called on memory of their own. */
static int expected(struct rig *rig, char *host)
{
    char *memory = memory_make(rig, 0);
    if (ops(rig, memory, rig->stream))
        return 1;
    rig->machine->stream_sync(rig->stream);
    rig->machine->download(host, memory, ROOM);
    rig->machine->free(memory);
    return 0;
}

static int holds(struct rig *rig, const char *memory, const char *wanted, const char *what)
{
    char *got = malloc(ROOM);
    rig->machine->download(got, memory, ROOM);
    size_t at = 0;
    while (at < ROOM && got[at] == wanted[at])
        at++;
    free(got);
    RIG_CHECK(at == ROOM, "%s differs at %zu", what, at);
    return 0;
}

static int retarget(struct rig *rig, struct machine_graph *graph, void *source, const rondoMove_t *moves, size_t count,
                    size_t wanted)
{
    size_t changed = 99;
    RIG_OK(rondoGraphRetarget(graph, source, moves, count, &changed));
    RIG_CHECK(changed == wanted, "%zu ops were changed, not %zu", changed, wanted);
    return 0;
}

/* ---- all of it, on all ranks or on one, to memory of any alignment, and back ---- */

static int moves_all(struct rig *rig)
{
    const struct machine *m = rig->machine;
    char *wanted = malloc(ROOM), *untouched = malloc(ROOM), *memory[4];
    const size_t offsets[4] = {0, 32, 8, 24}; /* the largest type has 4 bytes, lines up to 16 */
    void *source;
    if (expected(rig, wanted))
        return 1;
    for (int i = 0; i < 4; i++)
        memory[i] = memory_make(rig, offsets[i]);
    m->download(untouched, memory[3], ROOM);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (ops(rig, memory[0], rig->stream))
        return 1;
    struct machine_graph *graph = m->capture_end_with(rig->stream, &source);
    int at = 0;
    for (int round = 0; round < 12; round++) {
        const int to = round % 4;
        const bool here = round < 6 || round % rig->ranks == rig->rank; /* later on one rank at a time */
        if (here && to != at) {
            const rondoMove_t move = {memory[at], memory[to], ROOM};
            if (retarget(rig, graph, source, &move, 1, OPS))
                return 1;
            at = to;
        }
        m->graph_launch(graph, rig->stream);
        m->stream_sync(rig->stream);
        for (int i = 0; i < 4; i++)
            if (holds(rig, memory[i], i == at ? wanted : untouched, i == at ? "what was moved to" : "other memory"))
                return 1;
        memory_fill(rig, memory[at]);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    m->graph_destroy(graph);
    m->source_destroy(source);
    for (int i = 0; i < 4; i++)
        m->free(memory[i] - offsets[i]);
    free(wanted);
    free(untouched);
    return 0;
}

Test(retarget, moves_all_buffers_of_a_graph_on_all_ranks_and_on_one)
{
    if (rig_ranks(2) < 2)
        return; /* a message to oneself is a copy */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, moves_all), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, moves_all), 0);
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 4, .layout = RIG_THREADS}, moves_all), 0);
}

/* ---- which launches ---- */

/* Launches follow one another with a retarget between each: each has the buffers of its time. */
static int launches_before(struct rig *rig)
{
    enum { TARGETS = 5 };
    const struct machine *m = rig->machine;
    float *send = m->alloc(COUNT * 4), *recv[TARGETS];
    void *source;
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    for (int i = 0; i < TARGETS; i++) {
        recv[i] = m->alloc(COUNT * 4);
        m->fill(recv[i], POISON, COUNT * 4);
    }
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(send, recv[0], COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end_with(rig->stream, &source);
    for (int i = 0; i < TARGETS; i++) {
        const rondoMove_t move = {recv[i], recv[i + 1 < TARGETS ? i + 1 : i], COUNT * 4};
        m->graph_launch(graph, rig->stream);
        if (retarget(rig, graph, source, &move, 1, i + 1 < TARGETS))
            return 1;
    }
    m->stream_sync(rig->stream);
    for (int i = 0; i < TARGETS; i++)
        RIG_CHECK(rig_wrong(rig, recv[i], COUNT, rondoFloat, rondoSum) == 0, "wrong in target %d", i);
    m->graph_destroy(graph);
    m->source_destroy(source);
    for (int i = 0; i < TARGETS; i++)
        m->free(recv[i]);
    m->free(send);
    return 0;
}

Test(retarget, leaves_launches_before_it_their_buffers)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, launches_before), 0);
}

/* ---- several moves, also in a circle ---- */

static int swaps(struct rig *rig)
{
    const struct machine *m = rig->machine;
    char *a = m->alloc(COUNT * 4), *b = m->alloc(COUNT * 4);
    void *source;
    const rondoMove_t swap[] = {{a, b, COUNT * 4}, {b, a, COUNT * 4}};
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end_with(rig->stream, &source);
    for (int round = 0; round < 4; round++) {
        char *send = round % 2 ? b : a, *recv = round % 2 ? a : b;
        m->fill(recv, POISON, COUNT * 4);
        rig_input(rig, send, COUNT, rondoFloat, rondoSum);
        m->graph_launch(graph, rig->stream);
        m->stream_sync(rig->stream);
        RIG_CHECK(rig_wrong(rig, recv, COUNT, rondoFloat, rondoSum) == 0, "wrong in round %d", round);
        if (retarget(rig, graph, source, swap, 2, 1))
            return 1;
    }
    if (retarget(rig, graph, source, NULL, 0, 0))
        return 1;
    m->graph_destroy(graph);
    m->source_destroy(source);
    m->free(a);
    m->free(b);
    return 0;
}

Test(retarget, moves_in_a_circle)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, swaps), 0);
}

/* ---- what is refused ---- */

static int refusals(struct rig *rig)
{
    const struct machine *m = rig->machine;
    char *wanted = malloc(ROOM), *memory = memory_make(rig, 0), *other = memory_make(rig, 0);
    struct machine_graph *graph;
    size_t changed = 99;
    void *source;
    if (expected(rig, wanted))
        return 1;
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (ops(rig, memory, rig->stream))
        return 1;
    graph = m->capture_end_with(rig->stream, &source);
    const struct {
        rondoMove_t move;
        const char *word;
    } cases[] = {
        {{memory + SEND, other, 4 * COUNT - 1}, "in part"},
        {{memory + SEND + 4, other, ROOM}, "in part"},
        {{memory + GATHER + 4, other, SMALL * 4}, "in part"},
        {{memory, other + 2, ROOM}, "not aligned"},
        {{memory + SEND, memory + RECV + 16, 4 * COUNT}, "overlap"},      /* of one op */
        {{memory + MESSAGE, memory + SEND, 4 * COUNT}, "overlap"},        /* of two messages */
        {{memory + GROUP_RECV, memory + IN_PLACE, 2 * SMALL}, "overlap"}, /* of two ops of a group */
        {{NULL, other, 1}, "from NULL"},
        {{memory, NULL, 1}, "to NULL"},
        {{memory, other, SIZE_MAX}, "beyond the address space"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        RIG_REFUSED(rondoInvalidArgument, cases[i].word,
                    rondoGraphRetarget(graph, source, &cases[i].move, 1, &changed));
    RIG_REFUSED(rondoInvalidArgument, "exec is NULL", rondoGraphRetarget(NULL, source, &cases[0].move, 1, NULL));
    RIG_REFUSED(rondoInvalidArgument, "graph is NULL", rondoGraphRetarget(graph, NULL, &cases[0].move, 1, NULL));
    RIG_REFUSED(rondoInvalidArgument, "moves is NULL", rondoGraphRetarget(graph, source, NULL, 1, NULL));
    RIG_CHECK(changed == 99, "changed %zu", changed);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    if (holds(rig, memory, wanted, "what was refused to move"))
        return 1;
    const rondoMove_t none = {other, memory, ROOM}; /* nothing lies there */
    if (retarget(rig, graph, source, &none, 1, 0))
        return 1;
    m->graph_destroy(graph);
    m->source_destroy(source);
    m->free(memory);
    m->free(other);
    free(wanted);
    return 0;
}

Test(retarget, refuses_what_ops_are_refused_for_and_changes_nothing)
{
    if (rig_ranks(2) < 2)
        return;
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, refusals), 0);
}

/* ---- graphs in graphs, and several executables: the host device's own calls ---- */

struct loop {
    rondoHostConditional_t handle;
    int left;
};

static void count_down(void *argument)
{
    struct loop *loop = argument;
    rondoHostSetConditional(loop->handle, --loop->left > 0);
}

static int reduce(struct rig *rig, const float *send, float *recv)
{
    RIG_OK(rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    return 0;
}

/* An all-reduce in a child graph, one in a WHILE body. */
static int inside(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *send = m->alloc(COUNT * 4), *recv[4];
    rondoHostGraph_t child, whole, body;
    rondoHostGraphExec_t exec;
    struct loop loop;
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    for (int i = 0; i < 4; i++) {
        recv[i] = m->alloc(COUNT * 4);
        m->fill(recv[i], POISON, COUNT * 4);
    }
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    if (reduce(rig, send, recv[0]))
        return 1;
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &child));
    RIG_OK(rondoHostGraphCreate(&whole));
    RIG_OK(rondoHostConditionalCreate(&loop.handle, whole, 1));
    RIG_OK(rondoHostStreamBeginCaptureToGraph(rig->stream, whole, NULL, 0, rondoHostCaptureThreadLocal));
    RIG_OK(rondoHostStreamAddGraph(rig->stream, child));
    RIG_OK(rondoHostStreamAddConditional(rig->stream, loop.handle, rondoHostWhile, &body, 1));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &whole));
    RIG_OK(rondoHostStreamBeginCaptureToGraph(rig->stream, body, NULL, 0, rondoHostCaptureThreadLocal));
    if (reduce(rig, send, recv[1]))
        return 1;
    RIG_OK(rondoHostLaunch(count_down, &loop, rig->stream));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &body));
    RIG_OK(rondoHostGraphInstantiate(&exec, whole));
    const rondoMove_t all[] = {{recv[0], recv[2], COUNT * 4}, {recv[1], recv[3], COUNT * 4}};
    const rondoMove_t one = {recv[3], recv[1], COUNT * 4};
    if (retarget(rig, (struct machine_graph *)exec, whole, all, 2, 2) ||
        retarget(rig, (struct machine_graph *)exec, body, &one, 1, 1))
        return 1;
    loop.left = 3;
    RIG_OK(rondoHostGraphLaunch(exec, rig->stream));
    m->stream_sync(rig->stream);
    RIG_CHECK(loop.left == 0, "%d rounds left", loop.left);
    for (int i = 0; i < 4; i++)
        RIG_CHECK((rig_wrong(rig, recv[i], COUNT, rondoFloat, rondoSum) == 0) == (i == 1 || i == 2), "buffer %d", i);
    RIG_OK(rondoHostGraphExecDestroy(exec));
    RIG_OK(rondoHostGraphDestroy(whole));
    RIG_OK(rondoHostGraphDestroy(child));
    for (int i = 0; i < 4; i++)
        m->free(recv[i]);
    m->free(send);
    return 0;
}

/* Of two executables one is moved, then the other is brought along; and an executable that is not the graph's. */
static int executables(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *send = m->alloc(COUNT * 4), *recv = m->alloc(COUNT * 4), *other = m->alloc(COUNT * 4);
    rondoHostGraph_t graph, strange;
    rondoHostGraphExec_t exec[3];
    const rondoMove_t move = {recv, other, COUNT * 4};
    size_t changed = 99;
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    if (reduce(rig, send, recv))
        return 1;
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &graph));
    RIG_OK(rondoHostGraphCreate(&strange));
    RIG_OK(rondoHostGraphInstantiate(&exec[0], graph));
    RIG_OK(rondoHostGraphInstantiate(&exec[1], graph));
    RIG_OK(rondoHostGraphInstantiate(&exec[2], strange));
    RIG_REFUSED(rondoInvalidArgument, "not instantiated from this graph",
                rondoGraphRetarget(exec[2], graph, &move, 1, &changed));
    RIG_CHECK(changed == 99, "changed %zu", changed);
    if (retarget(rig, (struct machine_graph *)exec[0], graph, &move, 1, 1))
        return 1;
    for (int round = 0; round < 4; round++) {
        m->fill(recv, POISON, COUNT * 4);
        m->fill(other, POISON, COUNT * 4);
        RIG_OK(rondoHostGraphLaunch(exec[round % 2], rig->stream));
        m->stream_sync(rig->stream);
        const bool moved = round % 2 == 0 || round == 3;
        RIG_CHECK(rig_wrong(rig, moved ? other : recv, COUNT, rondoFloat, rondoSum) == 0, "wrong in round %d", round);
        RIG_CHECK(rig_wrong(rig, moved ? recv : other, COUNT, rondoFloat, rondoSum) == COUNT, "both in round %d",
                  round);
        if (round == 1)
            RIG_OK(rondoHostGraphExecUpdate(exec[1], graph));
    }
    for (int i = 0; i < 3; i++)
        RIG_OK(rondoHostGraphExecDestroy(exec[i]));
    RIG_OK(rondoHostGraphDestroy(graph));
    RIG_OK(rondoHostGraphDestroy(strange));
    m->free(send);
    m->free(recv);
    m->free(other);
    return 0;
}

Test(retarget, reaches_child_graphs_and_bodies)
{
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, inside), 0);
}

Test(retarget, changes_one_executable_and_the_graph_for_others_to_follow)
{
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, executables), 0);
}
