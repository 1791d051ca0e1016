/* Ops in conditional bodies, child graphs and clones: what eager ops give, bit for bit, and what is left when they end in
 * whatever order. On the host device: rondo/host.h has all of these. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/rig.h"

#include "rondo/host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 3000, MOST_STEPS = 40 };

/* ---- a decode loop: each step computes from the last one's result, reduces, and decides whether to go on ---- */

struct loop {
    struct rig *rig;
    float *x, *y;                      /* a step's input and output */
    int steps;                         /* done */
    int wanted;                        /* at most */
    int halt;                          /* atomic: no more of them */
    rondoHostConditional_t more;       /* of the while */
    rondoHostConditional_t even, kind; /* of what the body has */
    bool conditional;                  /* a graph runs that has these */
};

static void compute(void *argument)
{
    struct loop *l = argument;
    for (int i = 0; i < COUNT; i++)
        l->x[i] = 0.37f * l->y[i] + (float)(i % 7) / (float)(l->rig->rank + 3) + (float)l->steps * 1e-3f;
    if (l->conditional && l->even)
        rondoHostSetConditional(l->even, l->steps % 2 == 0);
    if (l->conditional && l->kind)
        rondoHostSetConditional(l->kind, (unsigned)l->steps % 4);
}

static bool goes_on(const struct loop *l)
{
    return l->steps < l->wanted && l->y[5] < 40.0f && !__atomic_load_n(&l->halt, __ATOMIC_RELAXED);
}

static void stop(void *argument)
{
    struct loop *l = argument;
    l->steps++;
    if (l->conditional)
        rondoHostSetConditional(l->more, goes_on(l));
}

static struct loop loop_make(struct rig *rig, int wanted)
{
    struct loop l = {.rig = rig, .wanted = wanted};
    l.x = rig->machine->alloc(COUNT * sizeof(float));
    l.y = rig->machine->alloc(COUNT * sizeof(float));
    return l;
}

static void loop_free(struct loop *l)
{
    l->rig->machine->free(l->x);
    l->rig->machine->free(l->y);
}

static void loop_reset(struct loop *l)
{
    l->steps = 0;
    memset(l->x, 0, COUNT * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        l->y[i] = (float)(i % 13) * 0.1f;
}

static rondoResult_t reduce(struct loop *l, struct CUstream_st *stream)
{
    return rondoAllReduce(l->x, l->y, COUNT, rondoFloat, rondoSum, l->rig->comm, stream);
}

static int plain_step(struct loop *l, struct CUstream_st *stream)
{
    struct rig *rig = l->rig;
    RIG_OK(rondoHostLaunch(compute, l, stream));
    RIG_OK(reduce(l, stream));
    RIG_OK(rondoHostLaunch(stop, l, stream));
    return 0;
}

static int begin_in(struct rig *rig, struct CUstream_st *stream, rondoHostGraph_t graph)
{
    RIG_OK(rondoHostStreamBeginCaptureToGraph(stream, graph, NULL, 0, rondoHostCaptureThreadLocal));
    return 0;
}

static int end_in(struct rig *rig, struct CUstream_st *stream, rondoHostGraph_t graph)
{
    rondoHostGraph_t ended;
    RIG_OK(rondoHostStreamEndCapture(stream, &ended));
    RIG_CHECK(ended == graph, "another graph");
    return 0;
}

/* A graph of one while node, whose body is to be filled. */
static int capture_while(struct loop *l, rondoHostGraph_t *graph, rondoHostGraph_t *body)
{
    struct rig *rig = l->rig;
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    RIG_OK(rondoHostStreamGetCaptureGraph(rig->stream, graph));
    RIG_OK(rondoHostConditionalCreate(&l->more, *graph, 1));
    RIG_OK(rondoHostStreamAddConditional(rig->stream, l->more, rondoHostWhile, body, 1));
    return end_in(rig, rig->stream, *graph);
}

static int eager_and_flat(struct loop *l, int (*step)(struct loop *, struct CUstream_st *), float *eager, int *steps)
{
    struct rig *rig = l->rig;
    rondoHostGraph_t graph;
    rondoHostGraphExec_t exec;
    l->conditional = false;
    loop_reset(l);
    do {
        if (step(l, rig->stream))
            return 1;
        RIG_OK(rondoHostStreamSynchronize(rig->stream));
    } while (goes_on(l));
    memcpy(eager, l->y, COUNT * sizeof(float));
    *steps = l->steps;
    if (step != plain_step) /* the host chooses */
        return 0;
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    if (step(l, rig->stream))
        return 1;
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &graph));
    RIG_OK(rondoHostGraphInstantiate(&exec, graph));
    RIG_OK(rondoHostGraphDestroy(graph));
    loop_reset(l);
    do {
        RIG_OK(rondoHostGraphLaunch(exec, rig->stream));
        RIG_OK(rondoHostStreamSynchronize(rig->stream));
    } while (goes_on(l));
    RIG_CHECK(l->steps == *steps && !memcmp(l->y, eager, COUNT * sizeof(float)), "captured differs from eager");
    RIG_OK(rondoHostGraphExecDestroy(exec));
    return 0;
}

/* Runs the while graph several times, beside eager ops of the same comm on another stream, and compares. */
static int run_and_compare(struct loop *l, rondoHostGraphExec_t exec, const float *eager, int steps)
{
    struct rig *rig = l->rig;
    struct CUstream_st *beside = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    float *other = rig->machine->alloc(COUNT * sizeof(float));
    for (int run = 0; run < 5; run++) {
        loop_reset(l);
        l->conditional = true;
        RIG_OK(rondoHostGraphLaunch(exec, rig->stream));
        for (int i = 0; i < 10; i++)
            RIG_OK(rondoAllReduce(other, other, COUNT, rondoInt8, rondoMax, rig->comm, beside));
        RIG_OK(rondoHostStreamSynchronize(rig->stream));
        RIG_CHECK(l->steps == steps, "%d steps, eagerly %d", l->steps, steps);
        RIG_CHECK(!memcmp(l->y, eager, COUNT * sizeof(float)), "the loop's result differs from eager ops'");
    }
    rig->machine->stream_sync(beside);
    rig->machine->stream_destroy(beside);
    rig->machine->free(other);
    rondoResult_t error;
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "async error %d", error);
    return 0;
}

static int decode_loop(struct rig *rig)
{
    struct loop l = loop_make(rig, MOST_STEPS);
    float *eager = malloc(COUNT * sizeof(float));
    rondoHostGraph_t graph, body;
    rondoHostGraphExec_t exec;
    int steps;
    if (eager_and_flat(&l, plain_step, eager, &steps))
        return 1;
    RIG_CHECK(steps > 3, "%d steps are few", steps);
    if (capture_while(&l, &graph, &body) || begin_in(rig, rig->stream, body) || plain_step(&l, rig->stream) ||
        end_in(rig, rig->stream, body))
        return 1;
    RIG_OK(rondoHostGraphInstantiate(&exec, graph));
    RIG_OK(rondoHostGraphDestroy(graph));
    if (run_and_compare(&l, exec, eager, steps))
        return 1;
    RIG_OK(rondoHostGraphExecDestroy(exec));
    loop_free(&l);
    free(eager);
    return rig_try(rig, 1);
}

static void on_host(int ranks, enum rig_layout layout, rig_body body)
{
    if (!rig_on_host())
        cr_skip_test("uses rondo/host.h");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = layout}, body), 0);
}

Test(graph_parts, a_decode_loop_in_one_while_graph_gives_what_eager_ops_give)
{
    for (int ranks = 2; ranks <= (RIG_SLOW ? 2 : 4); ranks++)
        on_host(ranks, RIG_PROCESSES, decode_loop);
    on_host(3, RIG_THREADS, decode_loop);
}

Test(graph_parts, a_decode_loop_is_the_same_through_copies)
{
    setenv("RONDO_P2P_DISABLE", "1", 1);
    setenv("RONDO_SHM_USE_CUDA_MEMCPY", "1", 1);
    on_host(3, RIG_PROCESSES, decode_loop);
}

/* ---- bodies in bodies ---- */

static int even_ops(struct loop *l, struct CUstream_st *stream)
{
    struct rig *rig = l->rig;
    RIG_OK(reduce(l, stream));
    RIG_OK(rondoBroadcast(l->y, l->y, 100, rondoFloat, rig->ranks - 1, rig->comm, stream));
    return 0;
}

static int odd_ops(struct loop *l, struct CUstream_st *stream)
{
    struct rig *rig = l->rig;
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoAllReduce(l->x, l->y, COUNT / 2, rondoFloat, rondoSum, rig->comm, stream));
    RIG_OK(
        rondoAllReduce(l->x + COUNT / 2, l->y + COUNT / 2, COUNT - COUNT / 2, rondoFloat, rondoMax, rig->comm, stream));
    RIG_OK(rondoGroupEnd());
    return 0;
}

/* One of three, or none. */
static int ops_of_kind(struct loop *l, int kind, struct CUstream_st *stream)
{
    struct rig *rig = l->rig;
    const int next = (rig->rank + 1) % rig->ranks, before = (rig->rank + rig->ranks - 1) % rig->ranks;
    if (kind == 0) {
        RIG_OK(rondoAllGather(l->x, l->y, COUNT / 8, rondoFloat, rig->comm, stream));
    } else if (kind == 1) {
        RIG_OK(rondoGroupStart());
        RIG_OK(rondoSend(l->x, 400, rondoFloat, next, rig->comm, stream));
        RIG_OK(rondoRecv(l->y + 600, 400, rondoFloat, before, rig->comm, stream));
        RIG_OK(rondoGroupEnd());
        RIG_OK(rondoAllReduce(l->y, l->y, COUNT, rondoFloat, rondoAvg, rig->comm, stream));
    } else if (kind == 2) {
        RIG_OK(rondoAllReduce(l->y, l->y, COUNT, rondoFloat, rondoMin, rig->comm, stream));
    }
    return 0;
}

static int chosen_step(struct loop *l, struct CUstream_st *stream)
{
    struct rig *rig = l->rig;
    const int kind = l->steps % 4;
    RIG_OK(rondoHostLaunch(compute, l, stream));
    if (l->steps % 2 == 0 ? even_ops(l, stream) : odd_ops(l, stream))
        return 1;
    if (ops_of_kind(l, kind, stream))
        return 1;
    RIG_OK(rondoHostLaunch(stop, l, stream));
    return 0;
}

static int nested(struct rig *rig)
{
    struct loop l = loop_make(rig, 13);
    float *eager = malloc(COUNT * sizeof(float));
    struct CUstream_st *inner = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    rondoHostGraph_t graph, body, branches[2], cases[3];
    rondoHostGraphExec_t exec;
    int steps;
    if (eager_and_flat(&l, chosen_step, eager, &steps))
        return 1;
    RIG_CHECK(steps > 3, "%d steps are few", steps);
    if (capture_while(&l, &graph, &body) || begin_in(rig, rig->stream, body))
        return 1;
    RIG_OK(rondoHostConditionalCreate(&l.even, body, 0));
    RIG_OK(rondoHostConditionalCreate(&l.kind, body, 0));
    RIG_OK(rondoHostLaunch(compute, &l, rig->stream));
    RIG_OK(rondoHostStreamAddConditional(rig->stream, l.even, rondoHostIf, branches, 2));
    for (int b = 0; b < 2; b++) /* while the body's own capture goes on */
        if (begin_in(rig, inner, branches[b]) || (b == 0 ? even_ops : odd_ops)(&l, inner) ||
            end_in(rig, inner, branches[b]))
            return 1;
    RIG_OK(rondoHostStreamAddConditional(rig->stream, l.kind, rondoHostSwitch, cases, 3));
    for (int c = 0; c < 3; c++)
        if (begin_in(rig, inner, cases[c]) || ops_of_kind(&l, c, inner) || end_in(rig, inner, cases[c]))
            return 1;
    RIG_OK(rondoHostLaunch(stop, &l, rig->stream));
    if (end_in(rig, rig->stream, body))
        return 1;
    RIG_OK(rondoHostGraphInstantiate(&exec, graph));
    RIG_OK(rondoHostGraphDestroy(graph));
    if (run_and_compare(&l, exec, eager, steps))
        return 1;
    RIG_OK(rondoHostGraphExecDestroy(exec));
    rig->machine->stream_destroy(inner);
    loop_free(&l);
    free(eager);
    return rig_try(rig, 1);
}

Test(graph_parts, ifs_and_switches_in_a_while_give_what_eager_ops_give)
{
    on_host(2, RIG_PROCESSES, nested);
    on_host(RIG_SLOW ? 2 : 4, RIG_THREADS, nested);
}

/* ---- child graphs, clones, updates ---- */

static rondoResult_t op(struct rig *rig, const float *send, float *recv, struct CUstream_st *stream)
{
    return rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, stream);
}

struct buffers {
    float *send, *recv;
};

static struct buffers buffers_make(struct rig *rig)
{
    struct buffers b = {rig->machine->alloc(COUNT * sizeof(float)), rig->machine->alloc(COUNT * sizeof(float))};
    rig_input(rig, b.send, COUNT, rondoFloat, rondoSum);
    memset(b.recv, 0x77, COUNT * sizeof(float));
    return b;
}

static void buffers_free(struct rig *rig, struct buffers *b)
{
    rig->machine->free(b->send);
    rig->machine->free(b->recv);
}

static bool untouched(const struct buffers *b)
{
    char bytes[COUNT * sizeof(float)];
    memset(bytes, 0x77, sizeof bytes);
    return !memcmp(b->recv, bytes, sizeof bytes);
}

/* Right, and wiped for the next time. */
static int right(struct rig *rig, struct buffers *b)
{
    const size_t wrong = rig_wrong(rig, b->recv, COUNT, rondoFloat, rondoSum);
    RIG_CHECK(wrong == 0, "%zu wrong", wrong);
    memset(b->recv, 0x77, COUNT * sizeof(float));
    return 0;
}

static int capture_ops(struct rig *rig, struct buffers *b, int count, rondoHostGraph_t *graph)
{
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    for (int i = 0; i < count; i++)
        RIG_OK(op(rig, b[i].send, b[i].recv, rig->stream));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, graph));
    return 0;
}

static int launch_once(struct rig *rig, rondoHostGraphExec_t exec)
{
    RIG_OK(rondoHostGraphLaunch(exec, rig->stream));
    RIG_OK(rondoHostStreamSynchronize(rig->stream));
    return 0;
}

static int children(struct rig *rig)
{
    struct buffers b[3] = {buffers_make(rig), buffers_make(rig), buffers_make(rig)};
    rondoHostGraph_t child, graph, clone;
    rondoHostGraphExec_t execs[3];
    if (capture_ops(rig, b, 2, &child))
        return 1;
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    RIG_OK(rondoHostStreamAddGraph(rig->stream, child));
    RIG_OK(op(rig, b[2].send, b[2].recv, rig->stream));
    RIG_OK(rondoHostStreamAddGraph(rig->stream, child));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &graph));
    RIG_OK(rondoHostGraphClone(&clone, graph));
    RIG_OK(rondoHostGraphInstantiate(&execs[0], graph));
    RIG_OK(rondoHostGraphInstantiate(&execs[1], graph));
    RIG_OK(rondoHostGraphInstantiate(&execs[2], clone));
    RIG_OK(rondoHostGraphDestroy(graph));
    RIG_OK(rondoHostGraphDestroy(child));
    for (int round = 0; round < 30; round++) {
        if (launch_once(rig, execs[round % 3]))
            return 1;
        for (int i = 0; i < 3; i++)
            if (right(rig, &b[i]))
                return 1;
    }
    RIG_OK(rondoHostGraphLaunch(execs[0], rig->stream)); /* one is destroyed while another runs, and while it does */
    RIG_OK(rondoHostGraphExecDestroy(execs[1]));
    RIG_OK(rondoHostGraphLaunch(execs[2], rig->stream));
    RIG_OK(rondoHostGraphExecDestroy(execs[0]));
    RIG_OK(rondoHostGraphExecDestroy(execs[2]));
    RIG_OK(rondoHostGraphDestroy(clone));
    RIG_OK(rondoHostStreamSynchronize(rig->stream));
    for (int i = 0; i < 3; i++) {
        if (right(rig, &b[i]))
            return 1;
        buffers_free(rig, &b[i]);
    }
    return rig_try(rig, 1);
}

Test(graph_parts, child_graphs_clones_and_several_executables_give_right_results)
{
    on_host(3, RIG_PROCESSES, children);
    on_host(2, RIG_THREADS, children);
}

static int updates(struct rig *rig)
{
    struct buffers b[4] = {buffers_make(rig), buffers_make(rig), buffers_make(rig), buffers_make(rig)};
    rondoHostGraph_t first, second, third;
    rondoHostGraphExec_t exec;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    const unsigned references = rondo_anchor_references(rig->comm->anchor);
    if (capture_ops(rig, b, 2, &first) || capture_ops(rig, b + 2, 2, &second) || capture_ops(rig, b, 3, &third))
        return 1;
    RIG_OK(rondoHostGraphInstantiate(&exec, first));
    RIG_CHECK(rondoHostGraphExecUpdate(exec, third) == rondoInvalidUsage, "a graph of another shape was taken");
    for (int round = 0; round < 20; round++) {
        struct buffers *now = b + round % 2 * 2, *others = b + (1 - round % 2) * 2;
        RIG_OK(rondoHostGraphExecUpdate(exec, round % 2 ? second : first));
        if (launch_once(rig, exec))
            return 1;
        RIG_CHECK(untouched(&others[0]) && untouched(&others[1]), "buffers of before the update were written");
        if (right(rig, &now[0]) || right(rig, &now[1]))
            return 1;
    }
    RIG_OK(rondoHostGraphDestroy(first));
    RIG_OK(rondoHostGraphDestroy(second));
    RIG_OK(rondoHostGraphDestroy(third));
    if (launch_once(rig, exec) || right(rig, &b[2]) || right(rig, &b[3]))
        return 1;
    RIG_OK(rondoHostGraphExecDestroy(exec));
    rondo_anchor_reap();
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int wait = 0; wait < 200 && rondo_anchor_references(rig->comm->anchor) > references; wait++)
        usleep(10000); /* a stream's thread drops those of what it ran */
    RIG_CHECK(rondo_anchor_references(rig->comm->anchor) == references, "%u references, %u before",
              rondo_anchor_references(rig->comm->anchor), references);
    for (int i = 0; i < 4; i++)
        buffers_free(rig, &b[i]);
    return rig_try(rig, 1);
}

Test(graph_parts, an_update_to_another_capture_of_the_same_ops_changes_their_buffers)
{
    on_host(2, RIG_PROCESSES, updates);
}

/* Two captures into one graph, which nothing else orders: the comm's ops are in order all the same. */
static int pieces(struct rig *rig)
{
    struct buffers b[4] = {buffers_make(rig), buffers_make(rig), buffers_make(rig), buffers_make(rig)};
    struct CUstream_st *other = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    rondoHostGraph_t graph;
    rondoHostGraphExec_t exec;
    size_t nodes = 0, edges = 0;
    RIG_OK(rondoHostGraphCreate(&graph));
    if (begin_in(rig, rig->stream, graph) || begin_in(rig, other, graph))
        return 1;
    for (int i = 0; i < 4; i++)
        RIG_OK(op(rig, b[i].send, b[i].recv, i % 2 ? other : rig->stream)); /* in turn */
    if (end_in(rig, rig->stream, graph) || end_in(rig, other, graph))
        return 1;
    RIG_OK(rondoHostGraphGetNodes(graph, NULL, &nodes));
    RIG_OK(rondoHostGraphGetEdges(graph, NULL, NULL, &edges));
    RIG_CHECK(nodes == 4 && edges == 3 + 2, "%zu nodes, %zu edges", nodes, edges); /* 2: of the streams */
    RIG_OK(rondoHostGraphInstantiate(&exec, graph));
    RIG_OK(rondoHostGraphDestroy(graph));
    for (int round = 0; round < 50; round++)
        RIG_OK(rondoHostGraphLaunch(exec, rig->stream));
    RIG_OK(rondoHostStreamSynchronize(rig->stream));
    for (int i = 0; i < 4; i++)
        if (right(rig, &b[i]))
            return 1;
    RIG_OK(rondoHostGraphExecDestroy(exec));
    rig->machine->stream_destroy(other);
    for (int i = 0; i < 4; i++)
        buffers_free(rig, &b[i]);
    return rig_try(rig, 1);
}

Test(graph_parts, ops_of_several_captures_into_one_graph_are_in_order)
{
    on_host(2, RIG_PROCESSES, pieces);
}

/* ---- ends ---- */

/* The comm, the graph and the executable of a while with ops end in every order. */
static int orders(struct rig *rig)
{
    static const int order[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    rondoUniqueId id;
    for (int round = 0; round < 6; round++) {
        if (rig->rank == 0)
            RIG_OK(rondoGetUniqueId((rondoUniqueId *)rig->scratch));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        memcpy(&id, rig->scratch, sizeof id);
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, id, rig->rank));
        struct loop l = loop_make(rig, 5);
        rondoHostGraph_t graph, body;
        rondoHostGraphExec_t exec;
        if (capture_while(&l, &graph, &body) || begin_in(rig, rig->stream, body) || plain_step(&l, rig->stream) ||
            end_in(rig, rig->stream, body))
            return 1;
        RIG_OK(rondoHostGraphInstantiate(&exec, graph));
        loop_reset(&l);
        l.conditional = true;
        if (launch_once(rig, exec))
            return 1;
        RIG_CHECK(l.steps == 5, "%d steps", l.steps);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        for (int i = 0; i < 3; i++) {
            if (order[round][i] == 0) {
                RIG_OK(round % 2 ? rondoCommDestroy(rig->comm) : rondoCommAbort(rig->comm));
            } else if (order[round][i] == 1) {
                RIG_OK(rondoHostGraphDestroy(graph));
            } else {
                RIG_OK(rondoHostGraphExecDestroy(exec));
            }
        }
        loop_free(&l);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    for (int wait = 0; wait < 100 && rig->alone && rondo_anchor_count(); wait++) {
        usleep(10000);
        rondo_anchor_reap();
    }
    RIG_CHECK(!rig->alone || rondo_anchor_count() == 0, "%u anchors are left", rondo_anchor_count());
    return 0;
}

Test(graph_parts, end_in_any_order_and_leave_nothing)
{
    if (!rig_on_host())
        cr_skip_test("uses rondo/host.h");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, orders), 0);
}

/* The comm ends while a loop with its ops runs, or before: the loop ends by itself, and quickly; its ops do nothing. */
static int loop_ends(struct rig *rig)
{
    const int way = atoi(getenv("RONDO_TEST_CASE"));
    struct loop l = loop_make(rig, way == 2 ? 200 : 1 << 30); /* abort ends what destroy would wait for */
    struct buffers b = buffers_make(rig);
    rondoHostGraph_t graph, body;
    rondoHostGraphExec_t exec;
    int *all_ended = (int *)(void *)rig->scratch;
    if (capture_while(&l, &graph, &body) || begin_in(rig, rig->stream, body))
        return 1;
    RIG_OK(op(rig, b.send, b.recv, rig->stream));
    RIG_OK(rondoHostLaunch(stop, &l, rig->stream));
    if (end_in(rig, rig->stream, body))
        return 1;
    RIG_OK(rondoHostGraphInstantiate(&exec, graph));
    RIG_OK(rondoHostGraphDestroy(graph));
    loop_reset(&l);
    l.conditional = true;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (way == 2) {
        RIG_OK(rondoCommDestroy(rig->comm));
        if (launch_once(rig, exec))
            return 1;
        RIG_CHECK(l.steps == 200 && untouched(&b), "a loop of a comm that is gone: %d steps", l.steps);
    } else {
        RIG_OK(rondoHostGraphLaunch(exec, rig->stream));
        usleep(20000);
        const uint64_t start = rondo_now_ns();
        if (way == 0 || rig->rank == 0)
            RIG_OK(rondoCommAbort(rig->comm));
        else
            RIG_CHECK(await_error(rig, 3000) == rondoRemoteError, "no error");
        RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
        __atomic_store_n(&l.halt, 1, __ATOMIC_RELAXED); /* goes_on */
        RIG_OK(rondoHostStreamSynchronize(rig->stream));
        RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
        if (way == 1 && rig->rank != 0)
            RIG_OK(rondoCommDestroy(rig->comm));
    }
    __atomic_add_fetch(all_ended, 1, __ATOMIC_RELAXED);
    RIG_OK(rondoHostGraphExecDestroy(exec));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_CHECK(__atomic_load_n(all_ended, __ATOMIC_RELAXED) == rig->ranks, "a loop has not ended");
    buffers_free(rig, &b);
    loop_free(&l);
    return 0;
}

Test(graph_parts, a_loop_ends_whose_comm_has_ended)
{
    if (!rig_on_host())
        cr_skip_test("uses rondo/host.h");
    for (int way = 0; way < 3; way++) {
        setenv("RONDO_TEST_CASE", way == 0 ? "0" : way == 1 ? "1" : "2", 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .keep_comm = true}, loop_ends), 0, "way %d", way);
    }
}
