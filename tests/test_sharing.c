/* Large ops that run at the same time: of two comms, or an eager one and a replay of the same comm. Each rank begins with another
 * one, and lets the other follow when all have begun, so that nothing ends unless both find a place on the device. */
#include "common/clock.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHAIN = 3, MOST = 4 << 20, PARTS = 100 }; /* ops one after another; elements; ops of a group */

enum kind { ALL_REDUCES, BROADCASTS, REDUCES, GROUPS /* of all-reduces */ };

/* What ops, of how many elements. */
struct shape {
    enum kind kind;
    size_t counts[CHAIN];
};

/* Ops on a stream of their own: eager, or a graph. */
struct chain {
    enum kind kind;
    int root;
    rondoComm_t comm;
    struct CUstream_st *stream;
    struct machine_graph *graph; /* NULL: eager */
    float *in, *out[CHAIN];
    size_t counts[CHAIN];
};

static rondoResult_t issue_group(const struct chain *c, int i)
{
    const size_t part = c->counts[i] / PARTS;
    rondoGroupStart();
    for (size_t at = 0; at < c->counts[i]; at += part)
        rondoAllReduce(c->in + at, c->out[i] + at, part, rondoFloat, rondoSum, c->comm, c->stream);
    return rondoGroupEnd();
}

static rondoResult_t issue_one(const struct chain *c, int i)
{
    switch (c->kind) {
    case BROADCASTS:
        return rondoBroadcast(c->in, c->out[i], c->counts[i], rondoFloat, c->root, c->comm, c->stream);
    case REDUCES:
        return rondoReduce(c->in, c->out[i], c->counts[i], rondoFloat, rondoSum, c->root, c->comm, c->stream);
    case GROUPS:
        return issue_group(c, i);
    default:
        return rondoAllReduce(c->in, c->out[i], c->counts[i], rondoFloat, rondoSum, c->comm, c->stream);
    }
}

static int issue(struct rig *rig, const struct chain *c)
{
    for (int i = 0; i < CHAIN; i++)
        RIG_OK(issue_one(c, i));
    return 0;
}

static int chain_make(struct rig *rig, struct chain *c, rondoComm_t comm, const struct shape *shape, int number,
                      bool captured)
{
    const struct machine *m = rig->machine;
    *c = (struct chain){.kind = shape->kind,
                        .root = number % rig->ranks,
                        .comm = comm,
                        .stream = m->stream_create(MACHINE_STREAM_NONBLOCKING)};
    c->in = m->alloc(MOST * sizeof(float));
    rig_input(rig, c->in, MOST, rondoFloat, rondoSum);
    for (int i = 0; i < CHAIN; i++) {
        c->counts[i] = rig_on_host() ? shape->counts[i] / 16 : shape->counts[i];
        c->out[i] = m->alloc(c->counts[i] * sizeof(float));
    }
    if (!captured)
        return 0;
    m->capture_begin(c->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (issue(rig, c))
        return 1;
    c->graph = m->capture_end(c->stream);
    return 0;
}

static void chain_free(struct rig *rig, struct chain *c)
{
    const struct machine *m = rig->machine;
    if (c->graph)
        m->graph_destroy(c->graph);
    m->stream_destroy(c->stream);
    m->free(c->in);
    for (int i = 0; i < CHAIN; i++)
        m->free(c->out[i]);
}

static int chain_run(struct rig *rig, struct chain *c)
{
    for (int i = 0; i < CHAIN; i++)
        rig->machine->fill(c->out[i], 0x77, c->counts[i] * sizeof(float));
    if (!c->graph)
        return issue(rig, c);
    rig->machine->graph_launch(c->graph, c->stream);
    return 0;
}

/* Elements that are not as the root has them. */
static size_t not_sent(struct rig *rig, const struct chain *c, int i)
{
    struct rig root = *rig;
    const size_t bytes = c->counts[i] * sizeof(float);
    float *sent = malloc(bytes), *came = malloc(bytes), *scratch = rig->machine->alloc(bytes);
    size_t wrong = 0;
    root.rank = c->root;
    rig_input(&root, scratch, c->counts[i], rondoFloat, rondoSum);
    rig->machine->download(sent, scratch, bytes);
    rig->machine->download(came, c->out[i], bytes);
    for (size_t e = 0; e < c->counts[i]; e++)
        wrong += sent[e] != came[e];
    rig->machine->free(scratch);
    free(sent);
    free(came);
    return wrong;
}

static int chain_check(struct rig *rig, const struct chain *c)
{
    rig->machine->stream_sync(c->stream);
    for (int i = 0; i < CHAIN && (c->kind != REDUCES || c->root == rig->rank); i++) {
        const size_t wrong =
            c->kind == BROADCASTS ? not_sent(rig, c, i) : rig_wrong(rig, c->out[i], c->counts[i], rondoFloat, rondoSum);
        RIG_CHECK(wrong == 0, "op %d: %zu of %zu wrong", i, wrong, c->counts[i]);
    }
    return 0;
}

static int cross(struct rig *rig, struct chain chains[2])
{
    for (int round = 0; round < (RIG_SLOW ? 1 : 4); round++) {
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        for (int i = 0; i < 2; i++) {
            if (chain_run(rig, &chains[(rig->rank + round + i) % 2]))
                return 1;
            usleep(5000); /* it has taken its place by now, most likely */
            RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        }
        for (int i = 0; i < 2; i++)
            if (chain_check(rig, &chains[i]))
                return 1;
    }
    return 0;
}

/* Those that are rooted, and groups, have blocks, or threads in each of them, that hear from nobody: fault: one of these let the next launch
 * in before the peers had come. */
static const struct shape shapes[] = {
    {ALL_REDUCES, {16 << 10, 16 << 10, 16 << 10}},    {ALL_REDUCES, {256 << 10, 256 << 10, 256 << 10}},
    {ALL_REDUCES, {4 << 20, 4 << 20, 4 << 20}},       {ALL_REDUCES, {1 << 20, 8 << 10, 4 << 20}},
    {BROADCASTS, {256 << 10, 256 << 10, 256 << 10}},  {BROADCASTS, {768 << 10, 768 << 10, 768 << 10}},
    {REDUCES, {256 << 10, 256 << 10, 256 << 10}},     {REDUCES, {768 << 10, 768 << 10, 768 << 10}},
    {GROUPS, {PARTS * 800, PARTS * 800, PARTS * 800}}};

static int of_two_comms(struct rig *rig)
{
    rondoComm_t other;
    RIG_OK(rondoCommInitRank(&other, rig->ranks, rig->ids[1], rig->rank));
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int captured = 0; captured < 2; captured++) {
            struct chain chains[2];
            if (chain_make(rig, &chains[0], rig->comm, &shapes[s], 0, captured) ||
                chain_make(rig, &chains[1], other, &shapes[s], 1, captured) || cross(rig, chains))
                return 1;
            chain_free(rig, &chains[0]);
            chain_free(rig, &chains[1]);
        }
    RIG_OK(rondoCommDestroy(other));
    return 0;
}

static int eager_and_replayed(struct rig *rig)
{
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct chain chains[2];
        if (chain_make(rig, &chains[0], rig->comm, &shapes[s], 0, false) ||
            chain_make(rig, &chains[1], rig->comm, &shapes[s], 1, true) || cross(rig, chains))
            return 1;
        chain_free(rig, &chains[0]);
        chain_free(rig, &chains[1]);
    }
    return 0;
}

static void run(rig_body body)
{
    setenv("RONDO_TIMEOUT_MS", "20000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, body), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .layout = RIG_THREADS}, body), 0);
}

Test(sharing, ops_of_two_comms_may_cross, .timeout = 300)
{
    run(of_two_comms);
}

Test(sharing, an_eager_op_and_a_replay_may_cross, .timeout = 300)
{
    run(eager_and_replayed);
}
