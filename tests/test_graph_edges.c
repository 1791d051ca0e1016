/* What captures hold: ops are kernel nodes and nothing else, and depend on what their streams and the comm's order say, and
 * on nothing else. */
#include "comm/comm.h"
#include "support/draw.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 4, COMMS = 2, BUFFERS = 8, COUNT = 64, MOST = 60 };

/* ---- what is to be there: sets of nodes are bits ---- */

typedef uint64_t set;

struct model {
    int nodes;
    bool is_op[MOST];
    set needs[MOST];  /* edges into a node */
    set before[MOST]; /* all that it comes after */
    set tails[STREAMS];
    int last[COMMS]; /* op, -1: none */
};

static void model_init(struct model *m)
{
    memset(m, 0, sizeof *m);
    for (int c = 0; c < COMMS; c++)
        m->last[c] = -1;
}

/* The nodes and all that they come after. */
static set closure(const struct model *m, set nodes)
{
    set all = nodes;
    for (int i = 0; i < m->nodes; i++)
        if (nodes >> i & 1)
            all |= m->before[i];
    return all;
}

static int model_add(struct model *m, set needs, bool is_op)
{
    const int n = m->nodes++;
    m->needs[n] = needs;
    m->before[n] = closure(m, needs);
    m->is_op[n] = is_op;
    return n;
}

static void model_work(struct model *m, int stream)
{
    m->tails[stream] = (set)1 << model_add(m, m->tails[stream], false);
}

/* Ops of one comm on these streams, in one group. An edge from the comm's last op is there only if the streams give none. */
static void model_op(struct model *m, int comm, unsigned streams)
{
    set needs = 0;
    for (int s = 0; s < STREAMS; s++)
        if (streams >> s & 1)
            needs |= m->tails[s];
    if (m->last[comm] >= 0 && !(closure(m, needs) >> m->last[comm] & 1))
        needs |= (set)1 << m->last[comm];
    m->last[comm] = model_add(m, needs, true);
    for (int s = 0; s < STREAMS; s++)
        if (streams >> s & 1)
            m->tails[s] = (set)1 << m->last[comm];
}

/* ---- a capture and its model, side by side ---- */

struct both {
    struct rig *rig;
    struct model model;
    rondoComm_t comms[COMMS];
    struct CUstream_st *streams[STREAMS];
    float *buffers[BUFFERS];
    int used; /* buffers that unordered ops may not share, in turn */
};

static int both_make(struct rig *rig, struct both *b)
{
    memset(b, 0, sizeof *b);
    b->rig = rig;
    b->comms[0] = rig->comm;
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &b->comms[1], NULL));
    for (int s = 0; s < STREAMS; s++)
        b->streams[s] = s ? rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING) : rig->stream;
    for (int i = 0; i < BUFFERS; i++)
        b->buffers[i] = rig->machine->alloc(COUNT * sizeof(float));
    return 0;
}

static int both_free(struct both *b)
{
    struct rig *rig = b->rig;
    for (int s = 1; s < STREAMS; s++)
        rig->machine->stream_destroy(b->streams[s]);
    for (int i = 0; i < BUFFERS; i++)
        rig->machine->free(b->buffers[i]);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(b->comms[1]));
    return 0;
}

static void begin(struct both *b)
{
    model_init(&b->model);
    b->rig->machine->capture_begin(b->streams[0], MACHINE_CAPTURE_RELAXED);
}

static void follow(struct both *b, int to, int from)
{
    const struct machine *m = b->rig->machine;
    struct machine_event *event = m->event_create();
    m->event_record(event, b->streams[from]);
    m->event_wait(event, b->streams[to]);
    m->event_destroy(event);
    b->model.tails[to] |= b->model.tails[from];
}

static void work(struct both *b, int stream)
{
    b->rig->machine->compute(1, b->streams[stream]);
    model_work(&b->model, stream);
}

static rondoResult_t call(struct both *b, int comm, int stream)
{
    float *buffer = b->buffers[b->used++ % BUFFERS];
    return rondoAllReduce(buffer, buffer, COUNT, rondoFloat, rondoMax, b->comms[comm], b->streams[stream]);
}

static int op(struct both *b, int comm, int stream)
{
    struct rig *rig = b->rig;
    RIG_OK(call(b, comm, stream));
    model_op(&b->model, comm, 1u << stream);
    return 0;
}

/* Ops of a group on one comm, on each of some streams. */
static int group(struct both *b, int comm, unsigned streams)
{
    struct rig *rig = b->rig;
    RIG_OK(rondoGroupStart());
    for (int s = 0; s < STREAMS; s++)
        if (streams >> s & 1)
            RIG_OK(call(b, comm, s));
    RIG_OK(rondoGroupEnd());
    model_op(&b->model, comm, streams);
    return 0;
}

static int check(struct both *b, const struct machine_shape *shape)
{
    struct rig *rig = b->rig;
    const struct model *m = &b->model;
    set found[MOST] = {0};
    RIG_CHECK((int)shape->nodes == m->nodes, "%zu nodes, not %d", shape->nodes, m->nodes);
    for (int i = 0; i < m->nodes; i++)
        RIG_CHECK(shape->kernel[i] || !m->is_op[i], "node %d is no kernel", i);
    for (size_t e = 0; e < shape->edges; e++) {
        RIG_CHECK(m->needs[shape->to[e]] >> shape->from[e] & 1, "node %zu need not wait for %zu", shape->to[e],
                  shape->from[e]);
        found[shape->to[e]] |= (set)1 << shape->from[e];
    }
    for (int i = 0; i < m->nodes; i++)
        RIG_CHECK(found[i] == m->needs[i], "node %d waits for 0x%llx, not 0x%llx", i, (unsigned long long)found[i],
                  (unsigned long long)m->needs[i]);
    return 0;
}

static int end(struct both *b, struct machine_shape *shape)
{
    for (int s = 1; s < STREAMS; s++)
        if (b->model.tails[s] & ~closure(&b->model, b->model.tails[0]))
            follow(b, 0, s);
    b->rig->machine->capture_shape(b->streams[0], shape);
    return check(b, shape);
}

/* ---- cases that a reader can follow ---- */

/* Whether there is an edge. */
static bool edge(const struct machine_shape *shape, size_t from, size_t to)
{
    for (size_t e = 0; e < shape->edges; e++)
        if (shape->from[e] == from && shape->to[e] == to)
            return true;
    return false;
}

static int cases(struct rig *rig)
{
    struct both b;
    struct machine_shape shape;
    if (both_make(rig, &b))
        return 1;

    begin(&b); /* a chain: an edge for each step */
    for (int i = 0; i < 5; i++)
        if (op(&b, 0, 0))
            return 1;
    if (end(&b, &shape))
        return 1;
    RIG_CHECK(shape.nodes == 5 && shape.edges == 4, "%zu nodes, %zu edges", shape.nodes, shape.edges);
    for (size_t e = 0; e < 4; e++)
        RIG_CHECK(shape.programmatic[e] || !rig->comm->info.programmatic, "edge %zu is not programmatic", e);

    begin(&b); /* a fork whose branches use one comm: an edge between them */
    if (op(&b, 0, 0))
        return 1;
    follow(&b, 1, 0);
    if (op(&b, 0, 0) || op(&b, 0, 1))
        return 1;
    follow(&b, 0, 1);
    if (op(&b, 0, 0) || end(&b, &shape))
        return 1;
    RIG_CHECK(shape.nodes == 4 && edge(&shape, 0, 1) && edge(&shape, 0, 2) && edge(&shape, 1, 2) &&
                  edge(&shape, 1, 3) && edge(&shape, 2, 3) && shape.edges == 5,
              "%zu edges", shape.edges);

    begin(&b); /* whose branches use two comms: none */
    if (op(&b, 0, 0))
        return 1;
    follow(&b, 1, 0);
    if (op(&b, 0, 0) || op(&b, 1, 1))
        return 1;
    follow(&b, 0, 1);
    if (op(&b, 1, 0) || end(&b, &shape))
        return 1;
    RIG_CHECK(shape.nodes == 4 && edge(&shape, 0, 1) && edge(&shape, 0, 2) && edge(&shape, 1, 3) &&
                  edge(&shape, 2, 3) && shape.edges == 4,
              "%zu edges", shape.edges);

    begin(&b); /* a group over three streams: one node, from which each goes on */
    work(&b, 0);
    for (int s = 1; s < 3; s++) {
        follow(&b, s, 0);
        work(&b, s);
    }
    if (group(&b, 0, 7))
        return 1;
    for (int s = 0; s < 3; s++)
        work(&b, s);
    if (end(&b, &shape))
        return 1;
    RIG_CHECK(shape.nodes == 7 && edge(&shape, 0, 3) && edge(&shape, 1, 3) && edge(&shape, 2, 3) &&
                  edge(&shape, 3, 4) && edge(&shape, 3, 5) && edge(&shape, 3, 6) && shape.edges == 2 + 3 + 3,
              "%zu edges", shape.edges);
    return both_free(&b);
}

Test(graph_edges, are_those_that_streams_and_the_comms_order_give)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, cases), 0);
}

/* ---- random captures ---- */

static int random_captures(struct rig *rig)
{
    struct both b;
    struct machine_shape shape;
    struct draw draw = {2026};
    if (both_make(rig, &b))
        return 1;
    for (int round = 0; round < (RIG_SLOW ? 40 : 200); round++) {
        begin(&b);
        for (int s = 1; s < STREAMS; s++)
            follow(&b, s, (int)draw_below(&draw, (unsigned)s));
        while (b.model.nodes < MOST - 4) {
            const int what = (int)draw_below(&draw, 8), comm = (int)draw_below(&draw, COMMS),
                      s = (int)draw_below(&draw, STREAMS), t = (int)draw_below(&draw, STREAMS);
            if (what < 3) {
                if (op(&b, comm, s))
                    return 1;
            } else if (what == 3) {
                if (group(&b, comm, 1u << s | 1u << t))
                    return 1;
            } else if (what < 6) {
                work(&b, s);
            } else if (s != t) {
                follow(&b, s, t);
            }
        }
        if (end(&b, &shape))
            return 1;
    }
    if (both_free(&b))
        return 1;
    return rig_try(rig, 1);
}

Test(graph_edges, are_the_least_in_random_captures_of_two_comms)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, random_captures), 0);
}

/* ---- threads ---- */

/* A stream's ops come from a thread of its own, one after another in an order that all ranks know. */
struct taker {
    struct both *both;
    int comm, stream, failed;
    int *turn, mine; /* atomic; when it is its turn */
};

static void *take(void *argument)
{
    struct taker *t = argument;
    t->both->rig->machine->set_device(rig_device(t->both->rig, t->both->rig->rank));
    while (__atomic_load_n(t->turn, __ATOMIC_ACQUIRE) != t->mine)
        continue;
    t->failed = op(t->both, t->comm, t->stream);
    __atomic_store_n(t->turn, t->mine + 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Issues eager ops of both comms until told to stop; how many. */
struct eager {
    struct both *both;
    struct CUstream_st *stream;
    float *buffer;
    int failed;
};

static void *issue_eagerly(void *argument)
{
    struct eager *e = argument;
    struct rig *rig = e->both->rig;
    rig->machine->set_device(rig_device(rig, rig->rank));
    for (int i = 0; i < (RIG_SLOW ? 60 : 400) && !e->failed; i++)
        e->failed = rondoAllReduce(e->buffer, e->buffer, COUNT, rondoFloat, rondoMax, e->both->comms[i % COMMS],
                                   e->stream) != rondoSuccess;
    return NULL;
}

static int threads(struct rig *rig)
{
    enum { TAKERS = 9 };
    struct both b;
    struct machine_shape shape;
    if (both_make(rig, &b))
        return 1;
    struct eager eager = {&b, rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING),
                          rig->machine->alloc(COUNT * sizeof(float)), 0};
    pthread_t issuer;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* to allocate may wait for the other ranks' kernels */
    pthread_create(&issuer, NULL, issue_eagerly, &eager);
    for (int round = 0; round < (RIG_SLOW ? 3 : 10); round++) {
        struct taker takers[TAKERS];
        pthread_t ids[TAKERS];
        int turn = 0;
        begin(&b);
        work(&b, 0);
        for (int s = 1; s < 3; s++)
            follow(&b, s, 0);
        for (int i = 0; i < TAKERS; i++) {
            takers[i] = (struct taker){&b, i % 4 == 3, i % 3, 0, &turn, i};
            pthread_create(&ids[i], NULL, take, &takers[i]);
        }
        for (int i = 0; i < TAKERS; i++) {
            pthread_join(ids[i], NULL);
            RIG_CHECK(!takers[i].failed, "op %d", i);
        }
        if (end(&b, &shape))
            return 1;
    }
    pthread_join(issuer, NULL);
    RIG_CHECK(!eager.failed, "an eager op failed");
    rig->machine->stream_sync(eager.stream);
    rig->machine->stream_destroy(eager.stream);
    rig->machine->free(eager.buffer);
    if (both_free(&b))
        return 1;
    return rig_try(rig, 1);
}

Test(graph_edges, are_the_same_over_threads_and_while_another_issues_eager_ops)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, threads), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS}, threads), 0);
}
