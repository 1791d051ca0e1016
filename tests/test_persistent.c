/* Plans that are made once and launched again and again: right results in every order, in captures, and after the end of what
 * they were made of. */
#include "comm/comm.h"
#include "support/rig.h"

#include "rondo/host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3001, SMALL = 5, GROUPED = 7, BUFFERS = GROUPED + 3 };

/* All-reduces in and out of a group, a ring of messages and a barrier. */
struct work {
    float *send[BUFFERS], *recv[BUFFERS];
};

static size_t count_of(int buffer)
{
    return buffer == 0 ? COUNT : buffer == 1 ? SMALL : 100u + (unsigned)buffer;
}

static struct work work_make(struct rig *rig)
{
    struct work work;
    for (int i = 0; i < BUFFERS; i++) {
        work.send[i] = rig->machine->alloc(COUNT * sizeof(float));
        work.recv[i] = rig->machine->alloc(COUNT * sizeof(float));
        rig->machine->fill(work.recv[i], 0x77, COUNT * sizeof(float));
        rig_input(rig, work.send[i], count_of(i), rondoFloat, rondoSum);
    }
    return work;
}

static void work_free(struct rig *rig, struct work *work)
{
    for (int i = 0; i < BUFFERS; i++) {
        rig->machine->free(work->send[i]);
        rig->machine->free(work->recv[i]);
    }
}

static int reduce(struct rig *rig, const struct work *work, int i, struct CUstream_st *stream)
{
    RIG_OK(rondoAllReduce(work->send[i], work->recv[i], count_of(i), rondoFloat, rondoSum, rig->comm, stream));
    return 0;
}

/* The last buffer gets the previous rank's. */
static int calls(struct rig *rig, const struct work *work, struct CUstream_st *stream)
{
    const int last = BUFFERS - 1, next = (rig->rank + 1) % rig->ranks,
              before = (rig->rank + rig->ranks - 1) % rig->ranks;
    if (reduce(rig, work, 0, stream) || reduce(rig, work, 1, stream))
        return 1;
    RIG_OK(rondoGroupStart());
    for (int i = 2; i < 2 + GROUPED; i++)
        if (reduce(rig, work, i, stream))
            return 1;
    RIG_OK(rondoSend(work->send[last], count_of(last), rondoFloat, next, rig->comm, stream));
    RIG_OK(rondoRecv(work->recv[last], count_of(last), rondoFloat, before, rig->comm, stream));
    RIG_OK(rondoGroupEnd());
    RIG_OK(rondoBarrier(rig->comm, stream));
    return 0;
}

/* Whether all results are there; they are poisoned again. */
static int right(struct rig *rig, const struct work *work, const char *when)
{
    struct rig other = *rig;
    float expected[COUNT], got[COUNT];
    for (int i = 0; i < BUFFERS - 1; i++) {
        const size_t wrong = rig_wrong(rig, work->recv[i], count_of(i), rondoFloat, rondoSum);
        RIG_CHECK(wrong == 0, "%zu wrong in buffer %d %s", wrong, i, when);
        rig->machine->fill(work->recv[i], 0x77, COUNT * sizeof(float));
    }
    const int last = BUFFERS - 1;
    float *scratch = rig->machine->alloc(COUNT * sizeof(float));
    other.rank = (rig->rank + rig->ranks - 1) % rig->ranks;
    rig_input(&other, scratch, count_of(last), rondoFloat, rondoSum);
    rig->machine->download(expected, scratch, count_of(last) * sizeof(float));
    rig->machine->download(got, work->recv[last], count_of(last) * sizeof(float));
    rig->machine->free(scratch);
    RIG_CHECK(memcmp(expected, got, count_of(last) * sizeof(float)) == 0, "another message %s", when);
    rig->machine->fill(work->recv[last], 0x77, COUNT * sizeof(float));
    return 0;
}

static int make(struct rig *rig, const struct work *work, rondoPlan_t *plan)
{
    RIG_OK(rondoPlanBegin());
    if (calls(rig, work, NULL))
        return 1;
    RIG_OK(rondoPlanEnd(plan));
    return 0;
}

/* Even rounds launch the plan, odd ranks call the ops in every third. */
static int again_and_again(struct rig *rig)
{
    struct CUstream_st *streams[] = {rig->stream, rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING)};
    struct work work = work_make(rig);
    rondoPlan_t plan;
    if (make(rig, &work, &plan))
        return 1;
    for (int round = 0; round < (RIG_SLOW ? 6 : 40); round++) {
        struct CUstream_st *stream = streams[round / 3 % 2];
        if (rig->rank % 2 && round % 3 == 0) {
            if (calls(rig, &work, stream))
                return 1;
        } else {
            RIG_OK(rondoPlanLaunch(plan, stream));
        }
        if (round % 4 == 3) { /* two at once, on two streams, whose end is the end of both */
            RIG_OK(rondoPlanLaunch(plan, streams[0]));
            RIG_OK(rondoPlanLaunch(plan, streams[1]));
            stream = streams[1];
        }
        rig->machine->stream_sync(stream);
        if (right(rig, &work, "after a launch"))
            return 1;
    }
    RIG_OK(rondoPlanLaunch(plan, streams[0]));
    RIG_OK(rondoPlanDestroy(plan)); /* while it runs */
    rig->machine->stream_sync(streams[0]);
    rig->machine->stream_destroy(streams[1]);
    const int failed = right(rig, &work, "after the plan's end");
    work_free(rig, &work);
    return failed;
}

Test(persistent, plan_runs_again_and_again_on_any_stream_beside_calls_of_its_ops)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, again_and_again), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, again_and_again), 0);
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 4, .layout = RIG_THREADS}, again_and_again), 0);
}

/* ---- captured ---- */

static int captured(struct rig *rig)
{
    struct work work = work_make(rig);
    rondoPlan_t plan;
    if (make(rig, &work, &plan))
        return 1;
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoPlanLaunch(plan, rig->stream));
    RIG_OK(rondoPlanLaunch(plan, rig->stream));
    struct machine_graph *graph = rig->machine->capture_end(rig->stream);
    struct CUstream_st *second = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    for (int replay = 0; replay < 5; replay++) {
        rig->machine->graph_launch(graph, rig->stream);
        if (replay % 2) {
            rig->machine->stream_sync(rig->stream); /* they use the same buffers */
            RIG_OK(rondoPlanLaunch(plan, second));
            rig->machine->stream_sync(second);
        }
        if (replay == 3)
            RIG_OK(rondoPlanDestroy(plan));
        if (replay == 3)
            break;
        rig->machine->stream_sync(rig->stream);
        if (right(rig, &work, "after a replay"))
            return 1;
    }
    rig->machine->graph_launch(graph, rig->stream);
    rig->machine->stream_sync(rig->stream);
    if (right(rig, &work, "after a replay without the plan"))
        return 1;
    rig->machine->graph_destroy(graph);
    rig->machine->stream_destroy(second);
    work_free(rig, &work);
    return 0;
}

Test(persistent, plan_can_be_captured_and_its_graph_does_not_need_it)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, captured), 0);
}

/* The host device's graphs say what is in them. */
static int same_nodes(struct rig *rig)
{
    struct work work = work_make(rig);
    size_t nodes[2], edges[2];
    rondoPlan_t plan;
    if (make(rig, &work, &plan))
        return 1;
    for (int way = 0; way < 2; way++) {
        rondoHostGraph_t graph;
        RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
        if (way)
            RIG_OK(rondoPlanLaunch(plan, rig->stream));
        else if (calls(rig, &work, rig->stream))
            return 1;
        RIG_OK(rondoHostStreamEndCapture(rig->stream, &graph));
        RIG_OK(rondoHostGraphGetNodes(graph, NULL, &nodes[way]));
        RIG_OK(rondoHostGraphGetEdges(graph, NULL, NULL, &edges[way]));
        RIG_OK(rondoHostGraphDestroy(graph));
    }
    RIG_CHECK(nodes[0] == nodes[1] && edges[0] == edges[1], "%zu nodes and %zu edges of calls, %zu and %zu of a plan",
              nodes[0], edges[0], nodes[1], edges[1]);
    RIG_CHECK(nodes[0] == 4, "%zu nodes", nodes[0]);
    RIG_OK(rondoPlanDestroy(plan));
    work_free(rig, &work);
    return rig_barrier(rig);
}

Test(persistent, plan_becomes_the_nodes_that_its_ops_become)
{
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3}, same_nodes), 0);
}

/* ---- the comm ends first ---- */

enum end { DESTROY, ABORT, FINALIZE, ENDS };

static int comm_first(struct rig *rig)
{
    struct work work = work_make(rig);
    for (int end = 0; end < ENDS; end++) {
        rondoPlan_t plan;
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[end], rig->rank));
        if (make(rig, &work, &plan))
            return 1;
        RIG_OK(rondoPlanLaunch(plan, rig->stream));
        rig->machine->stream_sync(rig->stream);
        if (right(rig, &work, "before the comm's end"))
            return 1;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        if (end == FINALIZE)
            RIG_OK(rondoCommFinalize(rig->comm));
        else
            RIG_OK(end == ABORT ? rondoCommAbort(rig->comm) : rondoCommDestroy(rig->comm));
        RIG_REFUSED(rondoInvalidUsage, end == FINALIZE ? "finalized" : "destroyed or aborted",
                    rondoPlanLaunch(plan, rig->stream));
        if (end == FINALIZE)
            RIG_OK(rondoCommDestroy(rig->comm));
        RIG_REFUSED(rondoInvalidUsage, "destroyed or aborted", rondoPlanLaunch(plan, rig->stream));
        rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        RIG_REFUSED(rondoInvalidUsage, "destroyed or aborted", rondoPlanLaunch(plan, rig->stream));
        rig->machine->graph_destroy(rig->machine->capture_end(rig->stream));
        RIG_OK(rondoPlanDestroy(plan));
    }
    work_free(rig, &work);
    return 0;
}

Test(persistent, plan_whose_comm_has_ended_is_refused)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, comm_first), 0);
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .layout = RIG_THREADS, .no_comm = true}, comm_first), 0);
}

/* Fault: a comm's struct is used again, and a plan that was made on the former would run on the new one. */
static int another_comm(struct rig *rig)
{
    enum { USES = 70 }; /* more than wait before one is used again, see comm/retired.c */
    float *buffer = rig->machine->alloc(64);
    rondoUniqueId id;
    rondoComm_t first, comms[USES];
    rondoPlan_t plan;
    int same = 0;
    RIG_OK(rondoGetUniqueId(&id));
    RIG_OK(rondoCommInitRank(&first, 1, id, 0));
    RIG_OK(rondoPlanBegin());
    RIG_OK(rondoAllReduce(buffer, buffer, 16, rondoFloat, rondoSum, first, rig->stream));
    RIG_OK(rondoPlanEnd(&plan));
    RIG_OK(rondoCommDestroy(first));
    for (int i = 0; i < USES; i++) {
        RIG_OK(rondoGetUniqueId(&id));
        RIG_OK(rondoCommInitRank(&comms[i], 1, id, 0));
        if (comms[i] == first) {
            same++;
            RIG_REFUSED(rondoInvalidUsage, "destroyed or aborted", rondoPlanLaunch(plan, rig->stream));
        }
        RIG_OK(rondoCommDestroy(comms[i]));
    }
    RIG_CHECK(same == 1, "the struct was used %d times", same);
    RIG_OK(rondoPlanDestroy(plan));
    rig->machine->free(buffer);
    return 0;
}

Test(persistent, plan_knows_its_comm_from_a_later_one_in_the_same_struct)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, another_comm), 0);
}

/* ---- errors ---- */

static int errors(struct rig *rig)
{
    struct work work = work_make(rig);
    rondoPlan_t plan = (rondoPlan_t)&work;
    rondoComm_t comm;
    RIG_REFUSED(rondoInvalidUsage, "without rondoPlanBegin", rondoPlanEnd(&plan));
    RIG_CHECK(!plan, "a plan");
    RIG_REFUSED(rondoInvalidArgument, "NULL", rondoPlanLaunch(NULL, rig->stream));
    RIG_REFUSED(rondoInvalidArgument, "not a plan", rondoPlanLaunch((rondoPlan_t)&work, rig->stream));
    RIG_REFUSED(rondoInvalidArgument, "not a plan", rondoPlanDestroy((rondoPlan_t)&work));
    RIG_OK(rondoPlanDestroy(NULL));

    RIG_OK(rondoPlanBegin());
    RIG_REFUSED(rondoInvalidUsage, "inside another plan", rondoPlanBegin());
    if (calls(rig, &work, NULL))
        return 1;
    RIG_REFUSED(rondoInvalidArgument, "datatype 77",
                rondoAllReduce(work.send[0], work.recv[0], 1, (rondoDataType_t)77, rondoSum, rig->comm, NULL));
    RIG_REFUSED(rondoInvalidArgument, "root is 99", rondoBcast(work.send[0], 1, rondoInt, 99, rig->comm, NULL));
    RIG_OK(rondoGroupStart());
    RIG_REFUSED(rondoInvalidUsage, "inside a group", rondoPlanEnd(&plan));
    RIG_OK(rondoGroupEnd());
    RIG_REFUSED(rondoInvalidArgument, "datatype 77", rondoPlanEnd(&plan));
    RIG_CHECK(!plan, "a plan");

    RIG_OK(rondoPlanBegin()); /* the first error is in a group, and its end says so too */
    RIG_OK(rondoGroupStart());
    RIG_REFUSED(rondoInvalidArgument, "root is 99", rondoBcast(work.send[0], 1, rondoInt, 99, rig->comm, NULL));
    RIG_REFUSED(rondoInvalidArgument, "root is 99", rondoGroupEnd());
    RIG_REFUSED(rondoInvalidUsage, "makes a plan", rondoCommInitRank(&comm, 1, rig->ids[1], 0));
    RIG_REFUSED(rondoInvalidArgument, "root is 99", rondoPlanEnd(&plan));

    RIG_OK(rondoPlanBegin());
    RIG_REFUSED(rondoInvalidArgument, "plan is NULL", rondoPlanEnd(NULL));
    RIG_OK(rondoGroupStart());
    RIG_REFUSED(rondoInvalidUsage, "inside a group", rondoPlanBegin());
    RIG_OK(rondoGroupEnd());

    if (make(rig, &work, &plan))
        return 1;
    RIG_OK(rondoGroupStart());
    RIG_REFUSED(rondoInvalidUsage, "inside a group", rondoPlanLaunch(plan, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "inside a group", rondoGroupEnd());
    RIG_OK(rondoPlanBegin());
    RIG_REFUSED(rondoInvalidUsage, "inside rondoPlanBegin", rondoPlanLaunch(plan, rig->stream));
    rondoPlan_t none;
    RIG_REFUSED(rondoInvalidUsage, "inside rondoPlanBegin", rondoPlanEnd(&none));
    RIG_OK(rondoPlanLaunch(plan, rig->stream)); /* nothing of all that was enqueued */
    rig->machine->stream_sync(rig->stream);
    if (right(rig, &work, "after errors"))
        return 1;
    RIG_OK(rondoPlanDestroy(plan));

    RIG_OK(rondoPlanBegin()); /* of nothing */
    RIG_OK(rondoAllReduce(NULL, NULL, 0, rondoFloat, rondoSum, rig->comm, NULL));
    RIG_OK(rondoPlanEnd(&plan));
    RIG_OK(rondoPlanLaunch(plan, rig->stream));
    RIG_OK(rondoPlanDestroy(plan));
    work_free(rig, &work);
    return rig_try(rig, 1);
}

Test(persistent, errors_inside_are_the_ends_error_and_there_is_no_plan)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, errors), 0);
}

/* ---- several comms ---- */

static int two_comms(struct rig *rig)
{
    struct work work = work_make(rig);
    rondoComm_t comms[2] = {rig->comm};
    rondoPlan_t plan;
    RIG_OK(rondoCommInitRank(&comms[1], rig->ranks, rig->ids[1], rig->rank));
    RIG_OK(rondoPlanBegin());
    for (int i = 0; i < 6; i++) {
        rig->comm = comms[i % 2];
        if (reduce(rig, &work, i, NULL))
            return 1;
    }
    RIG_OK(rondoGroupStart());
    for (int i = 6; i < BUFFERS; i++) {
        rig->comm = comms[i % 2];
        if (reduce(rig, &work, i, NULL))
            return 1;
    }
    RIG_OK(rondoGroupEnd());
    RIG_OK(rondoPlanEnd(&plan));
    for (int round = 0; round < 4; round++) {
        RIG_OK(rondoPlanLaunch(plan, rig->stream));
        rig->machine->stream_sync(rig->stream);
        for (int i = 0; i < BUFFERS; i++) {
            const size_t wrong = rig_wrong(rig, work.recv[i], count_of(i), rondoFloat, rondoSum);
            RIG_CHECK(wrong == 0, "%zu wrong in buffer %d", wrong, i);
            rig->machine->fill(work.recv[i], 0x77, COUNT * sizeof(float));
        }
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    RIG_OK(rondoCommDestroy(comms[1]));
    RIG_REFUSED(rondoInvalidUsage, "destroyed or aborted", rondoPlanLaunch(plan, rig->stream));
    RIG_OK(rondoPlanDestroy(plan));
    rig->comm = comms[0];
    work_free(rig, &work);
    return rig_try(rig, 1); /* nothing was launched on the comm that lives */
}

Test(persistent, plan_has_ops_of_two_comms)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, two_comms), 0);
}

static int two_devices(struct rig *rig)
{
    rondoComm_t comms[2];
    rondoPlan_t plan;
    float *buffer = rig->machine->alloc(64);
    RIG_OK(rondoCommInitAll(comms, 2, NULL));
    RIG_OK(rondoPlanBegin());
    RIG_OK(rondoAllReduce(buffer, buffer, 16, rondoFloat, rondoSum, comms[0], NULL));
    RIG_REFUSED(rondoInvalidUsage, "devices 0 and 1",
                rondoAllReduce(buffer, buffer, 16, rondoFloat, rondoSum, comms[1], NULL));
    RIG_REFUSED(rondoInvalidUsage, "devices 0 and 1", rondoPlanEnd(&plan));
    RIG_OK(rondoCommDestroy(comms[0]));
    RIG_OK(rondoCommDestroy(comms[1]));
    rig->machine->free(buffer);
    return 0;
}

Test(persistent, plan_is_of_one_device)
{
    if (rig_ranks(2) == 2)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, two_devices), 0);
}
