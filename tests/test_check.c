/* RONDO_CHECK: ranks that run different ops are told so. */
#include "support/draw.h"
#include "support/item.h"
#include "support/rig.h"

#include "comm/comm.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000 };

/* What the ranks run: rank 1 the other thing. */
enum difference { SIZE, TYPE, OPERATOR, ROOT, COLLECTIVE, NUMBER, BARRIER, DIFFERENCES };

static const char *const words[DIFFERENCES] = {
    [SIZE] = "rank 0 all-reduce of 4000 bytes, F32, SUM, rank 1 all-reduce of 3996 bytes, F32, SUM",
    [TYPE] = "rank 0 all-reduce of 4000 bytes, F32, SUM, rank 1 all-reduce of 4000 bytes, I32, SUM",
    [OPERATOR] = "rank 0 all-reduce of 4000 bytes, F32, SUM, rank 1 all-reduce of 4000 bytes, F32, MAX",
    [ROOT] = "rank 0 broadcast of 4000 bytes, root 0, rank 1 broadcast of 4000 bytes, root 1",
    [COLLECTIVE] = "rank 0 all-reduce of 4000 bytes, F32, SUM, rank 1 broadcast of 4000 bytes, root 0",
    [NUMBER] = "rank 0 all-reduce of 4000 bytes, F32, SUM, rank 1 a group of 2 collectives",
    [BARRIER] = "rank 0 all-reduce of 4000 bytes, F32, SUM, rank 1 a barrier",
};

static rondoResult_t issue(struct rig *rig, enum difference difference, float *a, float *b)
{
    const bool other = rig->rank == 1;
    if (difference == ROOT || (difference == COLLECTIVE && other))
        return rondoBroadcast(a, b, COUNT, rondoFloat, difference == ROOT && other, rig->comm, rig->stream);
    if (difference == BARRIER && other)
        return rondoBarrier(rig->comm, rig->stream);
    if (difference == NUMBER && other) {
        rondoGroupStart();
        rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream);
        rondoAllReduce(a + COUNT, b + COUNT, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream);
        return rondoGroupEnd();
    }
    return rondoAllReduce(a, b, difference == SIZE && other ? COUNT - 1 : COUNT,
                          difference == TYPE && other ? rondoInt32 : rondoFloat,
                          difference == OPERATOR && other ? rondoMax : rondoSum, rig->comm, rig->stream);
}

static int differ(struct rig *rig, bool captured)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(2 * COUNT * sizeof *a), *b = m->alloc(2 * COUNT * sizeof *b);
    _Static_assert((int)DIFFERENCES < (int)RIG_IDS, "a comm's id for each");
    for (int d = 0; d < DIFFERENCES; d++) {
        struct machine_graph *graph = NULL;
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1 + d], rig->rank));
        if (captured)
            m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        RIG_OK(issue(rig, (enum difference)d, a, b));
        if (captured) {
            graph = m->capture_end(rig->stream);
            m->graph_launch(graph, rig->stream);
        }
        RIG_CHECK(await_error(rig, 5000) != rondoSuccess, "difference %d, captured %d", d, captured);
        rondoCommGetAsyncError(rig->comm, &(rondoResult_t){rondoSuccess});
        RIG_CHECK(rondoAllReduce(a, b, 1, rondoFloat, rondoSum, rig->comm, rig->stream) != rondoSuccess, "it goes on");
        RIG_CHECK(strstr(rondoGetLastError(NULL), words[d]), "difference %d says: %s", d, rondoGetLastError(NULL));
        m->stream_sync(rig->stream); /* the kernels have ended */
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(rondoCommAbort(rig->comm));
        if (captured)
            m->graph_destroy(graph);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    m->free(a);
    m->free(b);
    return 0;
}

static int differ_eagerly(struct rig *rig)
{
    return differ(rig, false);
}

static int differ_in_replays(struct rig *rig)
{
    return differ(rig, true);
}

Test(check, names_the_ranks_that_run_different_ops_and_both_ops, .timeout = 100)
{
    setenv("RONDO_CHECK", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2), .no_comm = true}, differ_eagerly), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2), .no_comm = true}, differ_in_replays), 0);
}

static int every_op(struct rig *rig)
{
    struct draw draw = {5};
    for (int i = 0; i < 60; i++) {
        struct item item;
        item_draw(&item, &draw, rig->ranks, 12);
        item_prepare(&item, rig);
        item_fill(&item, rig);
        RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        const int failed = item_check(&item, rig);
        item_free(&item, rig);
        if (failed)
            return 1;
    }
    return 0;
}

Test(check, lets_ranks_be_that_run_the_same, .timeout = 100)
{
    setenv("RONDO_CHECK", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, every_op), 0);
    setenv("RONDO_P2P_USE_CUDA_MEMCPY", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, every_op), 0);
}
