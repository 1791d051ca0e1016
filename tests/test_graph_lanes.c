/* Graphs on lanes of their own: replays that run at the same time, in different order on different ranks. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/mailbox.h"
#include "support/rig.h"
#include "support/ways.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(graph_lanes, .timeout = 200);

/* ---- a graph with ops of several kinds ---- */

enum { SMALL = 300, LARGE = 90000 }; /* the latter goes by the bulk protocol on the host device */

struct part {
    float *in[3], *out[3];
    float *mail[2];
    struct CUstream_st *stream;
    struct machine_graph *graph;
};

static const size_t counts[] = {SMALL, LARGE, 1};

static int issue(struct rig *rig, struct part *p, struct CUstream_st *stream)
{
    const int next = (rig->rank + 1) % rig->ranks, before = (rig->rank + rig->ranks - 1) % rig->ranks;
    for (int i = 0; i < 3; i++)
        RIG_OK(rondoAllReduce(p->in[i], p->out[i], counts[i], rondoFloat, rondoSum, rig->comm, stream));
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoSend(p->mail[0], LARGE, rondoFloat, next, rig->comm, stream));
    RIG_OK(rondoRecv(p->mail[1], LARGE, rondoFloat, before, rig->comm, stream));
    RIG_OK(rondoGroupEnd());
    return 0;
}

static int part_make(struct rig *rig, struct part *p)
{
    const struct machine *m = rig->machine;
    for (int i = 0; i < 3; i++) {
        p->in[i] = m->alloc(counts[i] * sizeof(float));
        p->out[i] = m->alloc(counts[i] * sizeof(float));
        rig_input(rig, p->in[i], counts[i], rondoFloat, rondoSum);
    }
    for (int i = 0; i < 2; i++)
        p->mail[i] = m->alloc(LARGE * sizeof(float));
    p->stream = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    m->fill(p->mail[0], rig->rank + 1, LARGE * sizeof(float));
    m->capture_begin(p->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (issue(rig, p, p->stream))
        return 1;
    p->graph = m->capture_end(p->stream);
    return 0;
}

/* Right, and wiped for the next time. */
static int part_check(struct rig *rig, struct part *p)
{
    const struct machine *m = rig->machine;
    const char expected = (char)((rig->rank + rig->ranks - 1) % rig->ranks + 1);
    char *mail = malloc(LARGE * sizeof(float));
    m->stream_sync(p->stream);
    for (int i = 0; i < 3; i++) {
        const size_t wrong = rig_wrong(rig, p->out[i], counts[i], rondoFloat, rondoSum);
        RIG_CHECK(wrong == 0, "%zu of %zu wrong", wrong, counts[i]);
        m->fill(p->out[i], 0x77, counts[i] * sizeof(float));
    }
    m->download(mail, p->mail[1], LARGE * sizeof(float));
    for (size_t i = 0; i < LARGE * sizeof(float); i++)
        RIG_CHECK(mail[i] == expected, "byte %zu of a message is %d", i, mail[i]);
    m->fill(p->mail[1], 0x77, LARGE * sizeof(float));
    free(mail);
    return 0;
}

static void part_free(struct rig *rig, struct part *p)
{
    const struct machine *m = rig->machine;
    m->graph_destroy(p->graph);
    m->stream_destroy(p->stream);
    for (int i = 0; i < 3; i++) {
        m->free(p->in[i]);
        m->free(p->out[i]);
    }
    for (int i = 0; i < 2; i++)
        m->free(p->mail[i]);
}

static int no_error(struct rig *rig)
{
    rondoResult_t error;
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "async error %d (%s)", error, rondoGetLastError(rig->comm));
    return 0;
}

/* ---- replays at the same time ---- */

enum { PARTS = 3 };

/* Each rank's first replay is another graph than its neighbour's, and all of these have begun before any rank launches what the
 * others wait for; eager ops come last. */
static int crossed(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct part parts[PARTS], eager;
    const int rounds = RIG_SLOW ? 2 : 5;
    for (int i = 0; i < PARTS; i++)
        if (part_make(rig, &parts[i]))
            return 1;
    if (part_make(rig, &eager))
        return 1;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < PARTS; i++) {
            m->graph_launch(parts[(rig->rank + i) % PARTS].graph, parts[(rig->rank + i) % PARTS].stream);
            if (i == 0) {
                RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
                usleep(2000);
            }
        }
        if (issue(rig, &eager, eager.stream))
            return 1;
        for (int i = 0; i < PARTS; i++)
            if (part_check(rig, &parts[i]))
                return 1;
        if (part_check(rig, &eager))
            return 1;
    }
    for (int i = 0; i < PARTS * (RIG_SLOW ? 4 : 20); i++) { /* with nothing that orders them */
        struct part *p = &parts[(rig->rank + i) % PARTS];
        m->graph_launch(p->graph, p->stream);
    }
    for (int i = 0; i < PARTS; i++)
        if (part_check(rig, &parts[i]))
            return 1;
    if (no_error(rig) || mailboxes_check(rig) || rig_try(rig, 1))
        return 1;
    for (int i = 0; i < PARTS; i++)
        part_free(rig, &parts[i]);
    part_free(rig, &eager);
    return 0;
}

static void run(int ranks, enum rig_layout layout, rig_body body)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = layout}, body), 0);
}

/* The captures are dealt out: four of them, of which the last is for its buffers only. */
Test(graph_lanes, let_replays_run_at_the_same_time_in_different_order_on_different_ranks)
{
    setenv("RONDO_GRAPH_LANES", "3", 1);
    run(rig_ranks(2), RIG_PROCESSES, crossed);
    run(rig_ranks(3), RIG_THREADS, crossed);
    if (!RIG_SLOW)
        run(rig_ranks(4), RIG_PROCESSES, crossed);
}

Test(graph_lanes, are_the_same_on_every_path)
{
    setenv("RONDO_GRAPH_LANES", "3", 1);
    setenv("RONDO_BUFFER_KIB", "256", 1);
    for (int w = 0; w < ways_count(); w++) {
        way_set(&ways[w]);
        if (RIG_SLOW && w % 4)
            continue;
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = ways[w].layout}, crossed), 0,
                     "way %d", w);
    }
}

/* ---- which lane a capture is on ---- */

static uint32_t epoch_of(struct rig *rig, int lane)
{
    uint32_t epoch = 0;
    const struct rondo_channel *channel = rig->comm->lanes[RONDO_LANE_GRAPH + lane].args.channels;
    rig->comm->ops->read(rig->comm->device, &epoch, &channel->epoch, sizeof epoch);
    return epoch;
}

/* The lane that a capture made now runs on. */
static int lane_of_capture(struct rig *rig, int ops)
{
    const struct machine *m = rig->machine;
    uint32_t before[RONDO_MAX_GRAPH_LANES];
    const int lanes = (int)rig->comm->anchor->lanes - RONDO_LANE_GRAPH;
    int found = -1;
    float *buffer = m->alloc(SMALL * sizeof(float));
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < ops; i++)
        if (rondoAllReduce(buffer, buffer, SMALL, rondoInt8, rondoMax, rig->comm, rig->stream) != rondoSuccess)
            return -2;
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int l = 0; l < lanes; l++)
        before[l] = epoch_of(rig, l);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    for (int l = 0; l < lanes; l++)
        if (epoch_of(rig, l) != before[l])
            found = found == -1 && epoch_of(rig, l) == before[l] + (uint32_t)ops ? l : -3;
    m->graph_destroy(graph);
    m->free(buffer);
    return found;
}

static int choices(struct rig *rig)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    RIG_CHECK(rig->comm->anchor->lanes == 2, "%u lanes by default", rig->comm->anchor->lanes);
    RIG_CHECK(lane_of_capture(rig, 2) == 0, "another lane than the only one");
    RIG_OK(rondoCommSetGraphLane(rig->comm, 0));
    RIG_REFUSED(rondoInvalidArgument, "lanes 0 to 0", rondoCommSetGraphLane(rig->comm, 1));
    const size_t bytes = rondo_lanes_mailbox_bytes(&rig->comm->limits);
    RIG_OK(rondoCommDestroy(rig->comm));
    config.graphLanes = 3;
    RIG_OK(rondoCommInitRankConfig(&rig->comm, rig->ranks, rig->ids[1], rig->rank, &config));
    RIG_CHECK(rondo_lanes_mailbox_bytes(&rig->comm->limits) == bytes / 2 * 4, "not twice the %zu bytes", bytes);
    for (int i = 0; i < 7; i++)
        RIG_CHECK(lane_of_capture(rig, 1 + i % 3) == i % 3, "capture %d is not dealt out", i);
    for (int lane = 2; lane >= 0; lane--) {
        RIG_OK(rondoCommSetGraphLane(rig->comm, lane));
        for (int i = 0; i < 2; i++)
            RIG_CHECK(lane_of_capture(rig, 2) == lane, "another lane than %d", lane);
    }
    RIG_REFUSED(rondoInvalidArgument, "lane is 3", rondoCommSetGraphLane(rig->comm, 3));
    RIG_REFUSED(rondoInvalidArgument, "lane is -2", rondoCommSetGraphLane(rig->comm, -2));
    RIG_REFUSED(rondoInvalidArgument, "comm", rondoCommSetGraphLane(NULL, 0));
    RIG_OK(rondoCommSetGraphLane(rig->comm, RONDO_GRAPH_LANE_DEAL)); /* from the first one again */
    for (int i = 0; i < 4; i++)
        RIG_CHECK(lane_of_capture(rig, 1) == i % 3, "capture %d is not dealt out anew", i);

    rondoComm_t child; /* has what its parent has */
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &child, NULL));
    RIG_CHECK(child->anchor->lanes == 4, "%u lanes in a split", child->anchor->lanes);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(child));
    return rig_try(rig, 1);
}

Test(graph_lanes, are_dealt_out_or_given)
{
    run(rig_ranks(2), RIG_PROCESSES, choices);
}

/* A capture stays on its lane, whatever is said in its middle, on whichever of its streams. */
static int keeps(struct rig *rig)
{
    const struct machine *m = rig->machine;
    uint32_t before = epoch_of(rig, 1), other = epoch_of(rig, 0);
    float *buffer = m->alloc(SMALL * sizeof(float));
    RIG_OK(rondoCommSetGraphLane(rig->comm, 1));
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < 3; i++) {
        RIG_OK(rondoAllReduce(buffer, buffer, SMALL, rondoInt8, rondoMax, rig->comm, rig->stream));
        RIG_OK(rondoCommSetGraphLane(rig->comm, 0));
    }
    struct machine_graph *graph = m->capture_end(rig->stream);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    RIG_CHECK(epoch_of(rig, 1) == before + 3 && epoch_of(rig, 0) == other, "a capture changed its lane");
    m->graph_destroy(graph);
    m->free(buffer);
    return rig_barrier(rig);
}

Test(graph_lanes, do_not_change_within_a_capture)
{
    setenv("RONDO_GRAPH_LANES", "2", 1);
    run(rig_ranks(2), RIG_PROCESSES, keeps);
}

/* ---- what goes wrong ---- */

static int differing(struct rig *rig)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.graphLanes = 1 + rig->rank;
    RIG_REFUSED(rondoInvalidArgument, "graphLanes: 2 on rank 1, 1 on rank 0",
                rondoCommInitRankConfig(&rig->comm, rig->ranks, rig->ids[1], rig->rank, &config));
    return 0;
}

Test(graph_lanes, are_the_same_number_on_all_ranks)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, differing), 0);
}

/* Two graphs of one lane overlap, while that of another runs: the error says which lane. */
static int overlap(struct rig *rig)
{
    struct part parts[3];
    const uint64_t start = rondo_now_ns();
    for (int i = 0; i < 3; i++) {
        RIG_OK(rondoCommSetGraphLane(rig->comm, i == 0 ? 0 : 1));
        if (part_make(rig, &parts[i]))
            return 1;
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank == 0) {
        for (int i = 0; i < 3; i++) {
            rig->machine->graph_launch(parts[i].graph, parts[i].stream);
            usleep(20000); /* long enough to show */
        }
        const rondoResult_t error = await_error(rig, 5000);
        RIG_CHECK(error == rondoInvalidUsage, "error %d", error);
        RIG_CHECK(strstr(rondoGetLastError(NULL), "graph lane 1 of rank 0"), "another text");
        RIG_CHECK(strstr(rondoGetLastError(NULL), "graph 2 (all-reduce of 1200 bytes and 4 ops more)") &&
                      strstr(rondoGetLastError(NULL), "graph 3 (all-reduce of 1200 bytes and 4 ops more)"),
                  "another text");
    } else {
        const rondoResult_t error = await_error(rig, 8000);
        RIG_CHECK(error == rondoRemoteError, "error %d", error);
    }
    for (int i = 0; i < 3; i++)
        rig->machine->stream_sync(parts[i].stream);
    RIG_CHECK(since_ms(start) < 10000, "%f ms", since_ms(start));
    for (int i = 0; i < 3; i++)
        part_free(rig, &parts[i]);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

Test(graph_lanes, must_not_be_overlapped_on)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32",
           1); /* or the graphs may wait for each other in one of the GPU's queues */
    setenv("RONDO_GRAPH_LANES", "2", 1);
    run(rig_ranks(2), RIG_PROCESSES, overlap);
}

/* ---- the comm ends while replays of several lanes run ---- */

static int ends(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct part parts[PARTS];
    for (int i = 0; i < PARTS; i++)
        if (part_make(rig, &parts[i]))
            return 1;
    for (int i = 0; i < PARTS && rig->rank == 0; i++) /* they wait for the others, for ever */
        m->graph_launch(parts[i].graph, parts[i].stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    usleep(20000);
    const uint64_t start = rondo_now_ns();
    RIG_OK(rondoCommAbort(rig->comm));
    for (int i = 0; i < PARTS; i++)
        m->stream_sync(parts[i].stream);
    RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
    for (int i = 0; i < PARTS; i++) { /* replayed when the comm is gone */
        m->fill(parts[i].out[0], 0x77, SMALL * sizeof(float));
        m->graph_launch(parts[i].graph, parts[i].stream);
        m->stream_sync(parts[i].stream);
        unsigned char byte;
        m->download(&byte, parts[i].out[0], 1);
        RIG_CHECK(byte == 0x77, "a replay of a comm that is gone wrote");
        part_free(rig, &parts[i]);
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

Test(graph_lanes, end_all_with_the_comm)
{
    setenv("RONDO_GRAPH_LANES", "3", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .keep_comm = true}, ends), 0);
}
