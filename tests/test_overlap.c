/* Two launches that run at the same time on one lane: a program's error that must come out as such, in bounded time, with
 * no harm to anybody else. Captured ops of one comm in two graphs are how it happens. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/rig.h"

#include "rondo/host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

/* Whether a launch runs on the graph lane, and has shown it. */
static bool graph_lane_busy(struct rig *rig)
{
    uint32_t busy = 0;
    const struct rondo_channel *channel = rig->comm->lanes[RONDO_LANE_GRAPH].args.channels;
    rig->comm->ops->read(rig->comm->device, &busy, &channel->busy, sizeof busy);
    return busy != 0;
}

struct capture {
    char *buffer;
    struct CUstream_st *stream;
    struct machine_graph *graph;
};

static int capture_make(struct rig *rig, struct capture *c, size_t count)
{
    const struct machine *m = rig->machine;
    c->buffer = m->alloc(ROOM);
    c->stream = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    m->capture_begin(c->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(c->buffer, c->buffer, count, rondoInt32, rondoSum, rig->comm, c->stream));
    c->graph = m->capture_end(c->stream);
    return 0;
}

static void capture_end(struct rig *rig, struct capture *c)
{
    rig->machine->graph_destroy(c->graph);
    rig->machine->stream_destroy(c->stream);
    rig->machine->free(c->buffer);
}

/* Rank 0's first graph waits for rank 1, which has not launched it; its second graph begins meanwhile. */
static int overlap(struct rig *rig)
{
    static const size_t counts[][2] = {{1, 1}, {1, 5000}, {5000, 1}, {5000, 5000}};
    const size_t *count = counts[atoi(getenv("RONDO_TEST_CASE"))];
    const bool at_once = getenv("RONDO_TEST_AT_ONCE") != NULL;
    struct capture one, two;
    if (capture_make(rig, &one, count[0]) || capture_make(rig, &two, count[1]))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    const uint64_t start = rondo_now_ns();
    rondoResult_t error;
    if (rig->rank == 0) {
        rig->machine->graph_launch(one.graph, one.stream);
        while (!at_once && !graph_lane_busy(rig) && since_ms(start) < 5000)
            usleep(1000);
        RIG_CHECK(at_once || graph_lane_busy(rig), "the first graph does not show");
        rig->machine->graph_launch(two.graph, two.stream);
        error = await_error(rig, 5000);
        RIG_CHECK(error == rondoInvalidUsage, "error %d", error);
        RIG_CHECK(strstr(rondoGetLastError(NULL), "at the same time on the graph lane of rank 0"), "another text");
        for (int i = 0; i < 2; i++) { /* both are named */
            char name[80];
            snprintf(name, sizeof name, "graph %d (all-reduce of %zu bytes)", i + 1, 4 * count[i]);
            RIG_CHECK(strstr(rondoGetLastError(NULL), name), "no \"%s\"", name);
        }
        rig->machine->stream_sync(one.stream);
        rig->machine->stream_sync(two.stream);
        RIG_CHECK(since_ms(start) < 5000, "%f ms", since_ms(start));
    } else {
        error = await_error(rig, 8000);
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
        RIG_CHECK(strstr(rondoGetLastError(NULL), "rank 0"), "the text names no rank");
    }
    RIG_CHECK(rondoAllReduce(one.buffer, one.buffer, 4, rondoInt32, rondoSum, rig->comm, rig->stream) == error,
              "an op");
    capture_end(rig, &one);
    capture_end(rig, &two);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

Test(overlap, of_two_graphs_is_an_error_on_all_ranks)
{
    static const char *const cases[] = {"0", "1", "2", "3"};
    for (int c = 0; c < 4; c++) {
        setenv("RONDO_TEST_CASE", cases[c], 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, overlap), 0, "case %d", c);
    }
}

/* Fault: on GPUs, of two that began before either had waited for long none was found out, and both hung. */
Test(overlap, of_two_graphs_that_begin_together_is_an_error_on_all_ranks)
{
    static const char *const cases[] = {"0", "1", "2", "3"};
    setenv("RONDO_TEST_AT_ONCE", "1", 1);
    for (int c = 0; c < 4; c++) {
        setenv("RONDO_TEST_CASE", cases[c], 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, overlap), 0, "case %d", c);
    }
}

Test(overlap, of_two_graphs_is_an_error_in_two_shots_of_three_ranks)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_TEST_CASE", "3", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS}, overlap), 0);
}

/* Two executables of one graph. */
static int twice(struct rig *rig)
{
    const struct machine *m = rig->machine;
    rondoHostGraph_t graph;
    rondoHostGraphExec_t execs[2];
    float *buffer = m->alloc(ROOM);
    struct CUstream_st *streams[2] = {rig->stream, m->stream_create(MACHINE_STREAM_NONBLOCKING)};
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    RIG_OK(rondoBroadcast(buffer, buffer, 10, rondoFloat, 1, rig->comm, rig->stream));
    RIG_OK(rondoBarrier(rig->comm, rig->stream));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &graph));
    for (int i = 0; i < 2; i++)
        RIG_OK(rondoHostGraphInstantiate(&execs[i], graph));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    const uint64_t start = rondo_now_ns();
    rondoResult_t error;
    for (int i = 0; i < 2 && rig->rank == 0; i++) {
        RIG_OK(rondoHostGraphLaunch(execs[i], streams[i]));
        while (!graph_lane_busy(rig) && since_ms(start) < 5000)
            usleep(1000);
    }
    error = await_error(rig, 8000);
    RIG_CHECK(error == (rig->rank == 0 ? rondoInvalidUsage : rondoRemoteError), "error %d", error);
    RIG_CHECK(strstr(rondoGetLastError(NULL), "graph 1 (broadcast of 40 bytes and 1 op more) and again"),
              "another text");
    for (int i = 0; i < 2; i++) {
        RIG_OK(rondoHostStreamSynchronize(streams[i]));
        RIG_OK(rondoHostGraphExecDestroy(execs[i]));
    }
    RIG_CHECK(since_ms(start) < 8000, "%f ms", since_ms(start));
    RIG_OK(rondoHostGraphDestroy(graph));
    m->stream_destroy(streams[1]);
    m->free(buffer);
    return rig_barrier(rig);
}

Test(overlap, of_two_executables_of_one_graph_says_so)
{
    if (!rig_on_host())
        cr_skip_test("uses rondo/host.h");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, twice), 0);
}

/* Graphs on two streams, again and again, with nothing that orders them: each result is right or the comm says that it is
 * not; nothing hangs. What the overlap does to results must not be silent. */
static int race(struct rig *rig)
{
    struct capture one, two;
    rondoResult_t error = rondoSuccess;
    const uint64_t start = rondo_now_ns();
    if (capture_make(rig, &one, 300) || capture_make(rig, &two, 200))
        return 1;
    for (int round = 0; round < 300 && error == rondoSuccess; round++) {
        rig_input(rig, one.buffer, 300, rondoInt32, rondoSum);
        rig_input(rig, two.buffer, 200, rondoInt32, rondoSum);
        rig->machine->graph_launch(round % 2 ? one.graph : two.graph, round % 2 ? one.stream : two.stream);
        rig->machine->graph_launch(round % 2 ? two.graph : one.graph, round % 2 ? two.stream : one.stream);
        rig->machine->stream_sync(one.stream);
        rig->machine->stream_sync(two.stream);
        const size_t wrong = rig_wrong(rig, one.buffer, 300, rondoInt32, rondoSum) +
                             rig_wrong(rig, two.buffer, 200, rondoInt32, rondoSum);
        if (wrong)
            error = await_error(rig, 3000);
        RIG_CHECK(!wrong || error != rondoSuccess, "%zu wrong in round %d without a word", wrong, round);
        RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    }
    RIG_CHECK(since_ms(start) < 30000, "%f ms", since_ms(start));
    capture_end(rig, &one);
    capture_end(rig, &two);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

Test(overlap, never_corrupts_silently, .timeout = 120)
{
    if (!rig_on_host())
        cr_skip_test("GPUs see an overlap only once a launch has waited for some time; see kernels/launch.h");
    for (int run = 0; run < 5; run++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, race), 0);
}

/* Graphs that the program does order do not alarm, on however many streams. */
static int ordered(struct rig *rig)
{
    struct capture one, two;
    struct machine_event *event = rig->machine->event_create();
    rondoResult_t error;
    if (capture_make(rig, &one, 3000) || capture_make(rig, &two, 20))
        return 1;
    for (int round = 0; round < 500; round++) {
        struct capture *first = round % 2 ? &one : &two, *second = round % 2 ? &two : &one;
        rig->machine->graph_launch(first->graph, first->stream);
        rig->machine->event_record(event, first->stream);
        rig->machine->event_wait(event, second->stream);
        rig->machine->graph_launch(second->graph, second->stream);
    }
    rig->machine->stream_sync(one.stream);
    rig->machine->stream_sync(two.stream);
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "error %d", error);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    capture_end(rig, &one);
    capture_end(rig, &two);
    rig->machine->event_destroy(event);
    return 0;
}

Test(overlap, is_not_what_ordered_graphs_on_two_streams_are)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, ordered), 0);
}
