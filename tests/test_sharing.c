/* Large ops that run at the same time: of two comms, or an eager one and a replay of the same comm. Each rank begins with another
 * one, and lets the other follow when all have begun, so that nothing ends unless both find a place on the device. */
#include "common/clock.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHAIN = 3, MOST = 4 << 20 }; /* ops one after another; elements */

/* Ops on a stream of their own: eager, or a graph. */
struct chain {
    rondoComm_t comm;
    struct CUstream_st *stream;
    struct machine_graph *graph; /* NULL: eager */
    float *in, *out[CHAIN];
    size_t counts[CHAIN];
};

static int issue(struct rig *rig, const struct chain *c)
{
    for (int i = 0; i < CHAIN; i++)
        RIG_OK(rondoAllReduce(c->in, c->out[i], c->counts[i], rondoFloat, rondoSum, c->comm, c->stream));
    return 0;
}

static int chain_make(struct rig *rig, struct chain *c, rondoComm_t comm, const size_t counts[CHAIN], bool captured)
{
    const struct machine *m = rig->machine;
    *c = (struct chain){.comm = comm, .stream = m->stream_create(MACHINE_STREAM_NONBLOCKING)};
    c->in = m->alloc(MOST * sizeof(float));
    rig_input(rig, c->in, MOST, rondoFloat, rondoSum);
    for (int i = 0; i < CHAIN; i++) {
        c->counts[i] = rig_on_host() ? counts[i] / 16 : counts[i];
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

static int chain_check(struct rig *rig, const struct chain *c)
{
    rig->machine->stream_sync(c->stream);
    for (int i = 0; i < CHAIN; i++) {
        const size_t wrong = rig_wrong(rig, c->out[i], c->counts[i], rondoFloat, rondoSum);
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

static const size_t sizes[][CHAIN] = {{16 << 10, 16 << 10, 16 << 10},
                                      {256 << 10, 256 << 10, 256 << 10},
                                      {4 << 20, 4 << 20, 4 << 20},
                                      {1 << 20, 8 << 10, 4 << 20}};

static int of_two_comms(struct rig *rig)
{
    rondoComm_t other;
    RIG_OK(rondoCommInitRank(&other, rig->ranks, rig->ids[1], rig->rank));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int captured = 0; captured < 2; captured++) {
            struct chain chains[2];
            if (chain_make(rig, &chains[0], rig->comm, sizes[s], captured) ||
                chain_make(rig, &chains[1], other, sizes[s], captured) || cross(rig, chains))
                return 1;
            chain_free(rig, &chains[0]);
            chain_free(rig, &chains[1]);
        }
    RIG_OK(rondoCommDestroy(other));
    return 0;
}

static int eager_and_replayed(struct rig *rig)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct chain chains[2];
        if (chain_make(rig, &chains[0], rig->comm, sizes[s], false) ||
            chain_make(rig, &chains[1], rig->comm, sizes[s], true) || cross(rig, chains))
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
