/* What rondoGraphDescribe says is what was captured. */
#include "comm/comm.h"
#include "plan/plan.h"
#include "plan/unpack.h"
#include "support/draw.h"
#include "support/json.h"
#include "support/rig.h"

#include "rondo/host.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- from launches back to what they were made of ---- */

enum { TASKS = 230, MESSAGES = 900 };

/* The launch holds these tasks in order, and as many messages as it says. */
static void same(const struct rondo_plan_launch *launch, const struct rondo_task *tasks, const struct rondo_unpacked *u)
{
    size_t works = 0, ends = 0;
    for (unsigned i = 0; i < launch->works; i++) {
        if (tasks[i].collective == RONDO_BARRIER)
            continue;
        cr_assert_lt(works, u->work_count);
        cr_expect_eq(u->works[works].collective, tasks[i].collective);
        cr_expect(u->works[works].send == tasks[i].send && u->works[works].recv == tasks[i].recv);
        works++;
    }
    cr_assert_eq(works, u->work_count);
    cr_assert_eq(u->barrier, launch->works && !works);
    cr_assert_eq(u->transfer_count, launch->messages);
    for (size_t e = 0; e < u->end_count; e++) {
        cr_expect_eq(u->ends[e].first, ends);
        ends = u->ends[e].end;
    }
    cr_expect_eq(ends, u->transfer_count);
}

Test(describe, unpacks_what_the_plan_packs)
{
    static struct rondo_task tasks[TASKS];
    static struct rondo_message messages[MESSAGES];
    static struct rondo_plan_launch launch;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct draw draw = {seed};
        struct rondo_limits limits = {.ranks = 2 + draw_below(&draw, 7),
                                      .line_bytes = 16,
                                      .min_channels = 1,
                                      .max_channels = 32,
                                      .max_threads = 512,
                                      .kernel_threads = 512,
                                      .max_per_thread = 4,
                                      .forced_algo = -1,
                                      .check = draw_below(&draw, 2)};
        memset(limits.bulk_from, 0xff, sizeof limits.bulk_from);
        rondo_limits_preset(&limits);
        rondo_limits_fit(&limits, 1 << 20);
        struct rondo_group_plan plan = {.limits = &limits, .tasks = tasks, .messages = messages};
        plan.task_count = draw_size(&draw, 8) % TASKS;
        plan.message_count = draw_below(&draw, 3) ? 0 : draw_size(&draw, 10) % MESSAGES;
        for (size_t i = 0; i < plan.task_count; i++)
            tasks[i] = (struct rondo_task){.send = (void *)(uintptr_t)(16 * i + 4096),
                                           .recv = (void *)(uintptr_t)(16 * i + 65536),
                                           .count = 1 + draw_size(&draw, 12),
                                           .collective = (uint8_t)draw_below(&draw, RONDO_BARRIER + 1),
                                           .dtype = RONDO_F32};
        for (size_t i = 0; i < plan.message_count; i++)
            messages[i] = (struct rondo_message){.buffer = (void *)(uintptr_t)(16 * i + 4096),
                                                 .bytes = 1 + draw_size(&draw, 14),
                                                 .kind = (uint8_t)draw_below(&draw, 2),
                                                 .element = 1,
                                                 .peer = (uint16_t)(1 + draw_below(&draw, limits.ranks - 1))};
        rondo_plan_begin(&plan);
        while (!rondo_plan_done(&plan)) {
            struct rondo_unpacked unpacked;
            const struct rondo_task *first = tasks + plan.tasks_done;
            rondo_plan_next(&plan, &launch);
            rondo_unpack(launch.kernel, &launch.args, &unpacked);
            same(&launch, first, &unpacked);
            cr_assert_leq(launch.args_bytes, rondo_kernel_args_bytes(launch.kernel));
        }
    }
}

/* ---- captured ---- */

enum { COUNT = 1000 };

struct described {
    char *text, *json;
};

static int describe(struct rig *rig, void *graph, struct described *d)
{
    for (int format = rondoDescribeText; format <= rondoDescribeJson; format++) {
        size_t bytes = 0, again;
        RIG_OK(rondoGraphDescribe(graph, (rondoDescribeFormat_t)format, NULL, &bytes));
        char *buffer = malloc(bytes);
        again = bytes;
        RIG_OK(rondoGraphDescribe(graph, (rondoDescribeFormat_t)format, buffer, &again));
        RIG_CHECK(again == bytes && strlen(buffer) + 1 == bytes, "%zu bytes, then %zu", bytes, again);
        again = bytes - 1;
        buffer[0] = 'x';
        RIG_REFUSED(rondoInvalidArgument, "there is room for",
                    rondoGraphDescribe(graph, (rondoDescribeFormat_t)format, buffer, &again));
        RIG_CHECK(buffer[0] == 'x' && again == bytes, "written all the same");
        RIG_OK(rondoGraphDescribe(graph, (rondoDescribeFormat_t)format, buffer, &again));
        *(format == rondoDescribeText ? &d->text : &d->json) = buffer;
    }
    return 0;
}

static void described_free(struct described *d)
{
    free(d->text);
    free(d->json);
}

static int occurrences(const char *in, const char *of)
{
    int count = 0;
    for (const char *at = strstr(in, of); at; at = strstr(at + 1, of))
        count++;
    return count;
}

#define SAYS(text, format, ...)                                              \
    do {                                                                     \
        char wanted_[400];                                                   \
        snprintf(wanted_, sizeof wanted_, format, __VA_ARGS__);              \
        RIG_CHECK(strstr(text, wanted_), "no \"%s\" in\n%s", wanted_, text); \
    } while (0)

static int every_op(struct rig *rig)
{
    const struct machine *m = rig->machine;
    const int n = rig->ranks, me = rig->rank, next = (me + 1) % n, before = (me + n - 1) % n;
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    struct machine_graph *graph;
    struct described d;
    void *source;
    config.commName = "a \"named\" one";
    RIG_OK(rondoCommInitRankConfig(&rig->comm, n, rig->ids[0], me, &config));
    char *a = m->alloc((size_t)n * COUNT * 8), *b = m->alloc((size_t)n * COUNT * 8);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(rondoAllReduce(a, b, 33, rondoBfloat16, rondoMax, rig->comm, rig->stream));
    RIG_OK(rondoReduceScatter(a, b, 7, rondoInt64, rondoProd, rig->comm, rig->stream));
    RIG_OK(rondoAllGather(a, b, 9, rondoFloat8e4m3, rig->comm, rig->stream));
    RIG_OK(rondoAllToAll(a, b, 11, rondoHalf, rig->comm, rig->stream));
    RIG_OK(rondoBroadcast(a, b, 13, rondoDouble, 1, rig->comm, rig->stream));
    RIG_OK(rondoReduce(a, b, 17, rondoUint8, rondoAvg, n - 1, rig->comm, rig->stream));
    RIG_OK(rondoBarrier(rig->comm, rig->stream));
    m->compute(1, rig->stream);
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoAllReduce(a, a, 5, rondoFloat, rondoMin, rig->comm, rig->stream));
    RIG_OK(rondoAllGather(b, b + 4 * COUNT, 5, rondoInt, rig->comm, rig->stream));
    RIG_OK(rondoSend(a, 21, rondoFloat, next, rig->comm, rig->stream));
    RIG_OK(rondoRecv(b, 21, rondoFloat, before, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    graph = m->capture_end_with(rig->stream, &source);
    if (describe(rig, source, &d) || json_is_wrong(rig, d.json))
        return 1;
    m->graph_destroy(graph);
    if (me == 0 && getenv("RONDO_TEST_SHOW"))
        printf("%s\n%s", d.text, d.json);

    SAYS(d.text, "10 nodes: 9 kernels of Rondo's with 12 ops, %s; 9 edges",
         rig_on_host() ? "0 other kernels, 1 other node" : "1 other kernel, 0 other nodes");
    SAYS(d.text, "\n  %d  rondo_all_reduce_oneshot_%sF32, ", 0, rig_on_host() ? "" : "line_"); /* of one thread */
    SAYS(d.text, "comm a \"named\" one rank %d of %d, graph lane, graph 1\n", me, n);
    SAYS(d.text, "all_reduce sum %d float32 (%d bytes), one-shot, line%d, ", COUNT, 4 * COUNT, rig_on_host() ? 8 : 16);
    SAYS(d.text, "all_reduce max %d bfloat16 (66 bytes)", 33);
    SAYS(d.text, "reduce_scatter prod %d int64 (56 bytes)", 7);
    SAYS(d.text, "all_gather %d float8e4m3 (9 bytes)", 9);
    SAYS(d.text, "all_to_all %d float16 (22 bytes)", 11);
    SAYS(d.text, "broadcast %d float64 (104 bytes), root 1", 13);
    SAYS(d.text, "reduce avg %d uint8 (17 bytes), root %d", 17, n - 1);
    SAYS(d.text, "barrier, tokens, line%d", rig_on_host() ? 8 : 16);
    SAYS(d.text, "all_reduce min %d float32 (20 bytes)", 5);
    SAYS(d.text, "all_gather %d int32 (20 bytes)", 5);
    SAYS(d.text, "send 84 bytes to rank %d, fifo, line", next);
    SAYS(d.text, "recv 84 bytes from rank %d, fifo, line", before);

    SAYS(d.json,
         "\"comm\": \"a \\\"named\\\" one\", \"rank\": %d, \"ranks\": %d, \"ended\": false, \"lane\": 0, "
         "\"capture\": 1, \"ops\": [",
         me, n);
    SAYS(d.json,
         "{\"op\": \"all_reduce\", \"type\": \"float32\", \"count\": %d, \"redop\": \"sum\", \"scaled\": false, "
         "\"bytes\": %d, \"algorithm\": \"one-shot\", \"protocol\": \"line%d\", \"channels\": ",
         COUNT, 4 * COUNT, rig_on_host() ? 8 : 16);
    SAYS(d.json, "{\"op\": \"send\", \"bytes\": 84, \"peer\": %d, \"algorithm\": \"fifo\"", next);
    SAYS(d.json, "\"totals\": {\"nodes\": 10, \"kernels\": %d, \"rondo_kernels\": 9, \"ops\": 12, ",
         rig_on_host() ? 9 : 10);
    RIG_CHECK(occurrences(d.json, "\"node\": ") == 10 && occurrences(d.json, "\"op\": ") == 12, "%s", d.json);
    RIG_CHECK(occurrences(d.json, "{\"from\": ") == 9, "%s", d.json);
    described_free(&d);

    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(rig->comm)); /* the graph's ops have their memory, and nothing to do with it */
    if (describe(rig, source, &d))
        return 1;
    RIG_CHECK(occurrences(d.text, ", graph lane, graph 1, has ended\n") == 9, "%s", d.text);
    RIG_CHECK(occurrences(d.json, "\"ended\": true") == 9, "%s", d.json);
    described_free(&d);
    m->source_destroy(source);
    m->free(a);
    m->free(b);
    return 0;
}

Test(describe, says_of_every_op_what_it_is)
{
    if (rig_ranks(2) < 2)
        return; /* a message to oneself is a copy */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, every_op), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .no_comm = true}, every_op), 0);
}

/* ---- lanes ---- */

/* Of ops, and of a plan of them. */
static int lanes(struct rig *rig)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    float *buffer = rig->machine->alloc(64);
    struct described d;
    rondoPlan_t plan;
    void *source;
    config.graphLanes = 3;
    RIG_OK(rondoCommInitRankConfig(&rig->comm, rig->ranks, rig->ids[0], rig->rank, &config));
    RIG_OK(rondoPlanBegin());
    RIG_OK(rondoAllReduce(buffer, buffer, 16, rondoFloat, rondoSum, rig->comm, NULL));
    RIG_OK(rondoPlanEnd(&plan));
    for (int lane = 0; lane < 3; lane++)
        for (int planned = 0; planned < 2; planned++) {
            RIG_OK(rondoCommSetGraphLane(rig->comm, lane));
            rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
            if (planned)
                RIG_OK(rondoPlanLaunch(plan, rig->stream));
            else
                RIG_OK(rondoAllReduce(buffer, buffer, 16, rondoFloat, rondoSum, rig->comm, rig->stream));
            struct machine_graph *graph = rig->machine->capture_end_with(rig->stream, &source);
            if (describe(rig, source, &d))
                return 1;
            SAYS(d.text, ", graph lane %d, graph %d\n", lane, 2 * lane + planned + 1);
            SAYS(d.json, "\"lane\": %d, ", lane);
            described_free(&d);
            rig->machine->graph_destroy(graph);
            rig->machine->source_destroy(source);
        }
    RIG_OK(rondoPlanDestroy(plan));
    rig->machine->free(buffer);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(rig->comm));
    return 0;
}

Test(describe, says_which_lane)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, lanes), 0);
}

/* ---- shapes: the host device's own calls ---- */

static void nothing(void *argument)
{
    (void)argument;
}

static int reduce(struct rig *rig, float *buffer, size_t count, struct CUstream_st *stream)
{
    RIG_OK(rondoAllReduce(buffer, buffer, count, rondoFloat, rondoSum, rig->comm, stream));
    return 0;
}

static int shapes(struct rig *rig)
{
    float *buffer = rig->machine->alloc(COUNT * sizeof(float));
    rondoHostStream_t second = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING), stream = rig->stream;
    rondoHostGraph_t child, graph, clone, body, whole;
    rondoHostConditional_t handle;
    rondoHostEvent_t event;
    struct described d, of_clone;
    RIG_OK(rondoHostEventCreate(&event));

    RIG_OK(rondoHostStreamBeginCapture(stream, rondoHostCaptureThreadLocal));
    if (reduce(rig, buffer, 1, stream) || reduce(rig, buffer, 2, stream))
        return 1;
    RIG_OK(rondoHostStreamEndCapture(stream, &child));

    RIG_OK(rondoHostStreamBeginCapture(stream, rondoHostCaptureThreadLocal)); /* a fork, and a child */
    if (reduce(rig, buffer, 3, stream))
        return 1;
    RIG_OK(rondoHostEventRecord(event, stream));
    RIG_OK(rondoHostStreamWaitEvent(second, event));
    RIG_OK(rondoHostLaunch(nothing, NULL, second));
    RIG_OK(rondoHostStreamAddGraph(stream, child));
    RIG_OK(rondoHostEventRecord(event, second));
    RIG_OK(rondoHostStreamWaitEvent(stream, event));
    RIG_OK(rondoHostMemsetAsync(buffer, 0, 4, stream));
    RIG_OK(rondoHostStreamEndCapture(stream, &graph));
    RIG_OK(rondoHostGraphClone(&clone, graph));
    if (describe(rig, graph, &d) || describe(rig, clone, &of_clone) || json_is_wrong(rig, d.json))
        return 1;
    RIG_CHECK(!strcmp(d.text, of_clone.text) && !strcmp(d.json, of_clone.json), "the clone is\n%s", of_clone.text);
    SAYS(d.text, "%d nodes: 3 kernels of Rondo's with 3 ops, 0 other kernels, 3 other nodes; 5 edges\n", 6);
    SAYS(d.text, "\n  %d  host\n", 1);
    SAYS(d.text, "\n  %d  graph, after 0\n        0  rondo_all_reduce_oneshot_line_F32, ", 2);
    SAYS(d.text, "\n  %d  memset, after 2 1\n", 3);
    SAYS(d.json, "\"type\": \"graph\", \"rondo\": false, \"graphs\": [{\"nodes\": [{\"node\": %d, \"type\": \"kernel\"",
         0);
    described_free(&d);
    described_free(&of_clone);

    RIG_OK(rondoHostGraphCreate(&whole));
    RIG_OK(rondoHostConditionalCreate(&handle, whole, 0));
    RIG_OK(rondoHostStreamBeginCaptureToGraph(stream, whole, NULL, 0, rondoHostCaptureThreadLocal));
    RIG_OK(rondoHostStreamAddConditional(stream, handle, rondoHostWhile, &body, 1));
    RIG_OK(rondoHostStreamEndCapture(stream, &whole));
    RIG_OK(rondoHostStreamBeginCaptureToGraph(stream, body, NULL, 0, rondoHostCaptureThreadLocal));
    if (reduce(rig, buffer, 4, stream))
        return 1;
    RIG_OK(rondoHostStreamEndCapture(stream, &body));
    if (describe(rig, whole, &d) || describe(rig, body, &of_clone))
        return 1;
    SAYS(d.text,
         "2 nodes: 1 kernel of Rondo's with 1 op, 0 other kernels, 1 other node; 0 edges\n  %d  while\n        0  "
         "rondo_",
         0);
    SAYS(of_clone.text, "%d node: 1 kernel of Rondo's with 1 op, 0 other kernels, 0 other nodes; 0 edges\n", 1);
    described_free(&d);
    described_free(&of_clone);

    RIG_OK(rondoHostGraphDestroy(whole));
    RIG_OK(rondoHostGraphDestroy(clone));
    RIG_OK(rondoHostGraphDestroy(graph));
    RIG_OK(rondoHostGraphDestroy(child));
    RIG_OK(rondoHostGraphCreate(&graph));
    if (describe(rig, graph, &d) || json_is_wrong(rig, d.json))
        return 1;
    SAYS(d.text, "%d nodes: 0 kernels of Rondo's with 0 ops, 0 other kernels, 0 other nodes; 0 edges\n", 0);
    described_free(&d);
    RIG_OK(rondoHostGraphDestroy(graph));
    RIG_OK(rondoHostEventDestroy(event));
    rig->machine->stream_destroy(second);
    rig->machine->free(buffer);
    return rig_barrier(rig);
}

Test(describe, shows_forks_children_clones_and_bodies)
{
    if (rig_on_host())
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, shapes), 0);
}

static int refusals(struct rig *rig)
{
    char room[100];
    size_t bytes = sizeof room;
    void *source;
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    struct machine_graph *graph = rig->machine->capture_end_with(rig->stream, &source);
    RIG_REFUSED(rondoInvalidArgument, "graph is NULL", rondoGraphDescribe(NULL, rondoDescribeText, room, &bytes));
    RIG_REFUSED(rondoInvalidArgument, "bytes is NULL", rondoGraphDescribe(source, rondoDescribeText, room, NULL));
    RIG_REFUSED(rondoInvalidArgument, "format 2", rondoGraphDescribe(source, (rondoDescribeFormat_t)2, room, &bytes));
    if (rig_on_host())
        RIG_REFUSED(rondoInvalidArgument, "not a graph", rondoGraphDescribe(room, rondoDescribeText, room, &bytes));
    RIG_CHECK(bytes == sizeof room, "%zu", bytes);
    rig->machine->graph_destroy(graph);
    rig->machine->source_destroy(source);
    return 0;
}

Test(describe, refuses_what_is_no_graph)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1}, refusals), 0);
}
