/* Memory that ranks give each other to map, beside what test_direct.c shows of it: who holds it, how much of it, and for how long. */
#include "comm/comm.h"
#include "comm/exports.h"
#include "comm/failure.h"
#include "common/clock.h"
#include "rondo/host.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20, WAIT_MS = 20000 };

static int await_exports(struct rig *rig, unsigned count)
{
    const uint64_t start = rondo_now_ns();
    while (rondo_exporter_count(rig->comm->exporter) != count)
        RIG_CHECK(since_ms(start) < WAIT_MS, "%u exports, not %u", rondo_exporter_count(rig->comm->exporter), count);
    return 0;
}

/* ---- whose hold it is ---- */

static rondoResult_t capture_into(struct rig *rig, rondoHostGraph_t graph, float *buffer, int ops)
{
    rondoResult_t result = rondoHostStreamBeginCaptureToGraph(rig->stream, graph, NULL, 0, rondoHostCaptureThreadLocal);
    for (int i = 0; i < ops && result == rondoSuccess; i++)
        result = rondoAllReduce(buffer, buffer, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream);
    if (result == rondoSuccess)
        result = rondoHostStreamEndCapture(rig->stream, &graph);
    return result;
}

/* A graph and its node come to lie where others of this comm lay, which allocators do that give back first what they got last. What it
 * holds does not go with the hold of anything else. */
static int successors(struct rig *rig)
{
    rondoHostGraph_t graph;
    void *handle, *buffers[3];
    for (int i = 0; i < 3; i++)
        RIG_OK(rondoMemAlloc(&buffers[i], COUNT * sizeof(float)));
    RIG_OK(rondoHostGraphCreate(&graph));
    RIG_OK(capture_into(rig, graph, buffers[0], 1));
    RIG_OK(rondoHostGraphDestroy(graph));
    RIG_OK(rondoHostGraphCreate(&graph));
    RIG_OK(rondoCommRegister(rig->comm, buffers[1], COUNT * sizeof(float), &handle));
    RIG_OK(capture_into(rig, graph, buffers[0], 1));
    RIG_OK(capture_into(rig, graph, buffers[2], 1));
    if (await_exports(rig, 3))
        return 1;
    RIG_OK(rondoCommDeregister(rig->comm, handle));
    if (await_exports(rig, 2))
        return 1;
    rondo_sleep_ns(200000000);
    if (await_exports(rig, 2))
        return 1;
    RIG_OK(rondoHostGraphDestroy(graph));
    if (await_exports(rig, 0))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    for (int i = 0; i < 3; i++)
        RIG_OK(rondoMemFree(buffers[i]));
    return 0;
}

Test(exports, of_a_graph_are_not_those_of_its_predecessor)
{
    if (!rig_on_host())
        cr_skip_test("graphs of the host device");
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_ALGO", "twoshot", 1); /* only those may be direct */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, successors), 0);
}

/* Nor is the order of its ops its predecessor's. */
static int orders(struct rig *rig)
{
    float *buffer;
    rondoHostGraph_t graph;
    rondoHostNode_t nodes[3], from[8], to[8];
    size_t node_count = 3, edge_count = 8;
    RIG_OK(rondoMemAlloc((void **)&buffer, COUNT * sizeof(float)));
    RIG_OK(rondoHostGraphCreate(&graph));
    RIG_OK(capture_into(rig, graph, buffer, 1));
    RIG_OK(rondoHostGraphDestroy(graph));
    RIG_OK(rondoHostGraphCreate(&graph));
    RIG_OK(capture_into(rig, graph, buffer, 2));
    RIG_OK(capture_into(rig, graph, buffer, 1));
    RIG_OK(rondoHostGraphGetNodes(graph, nodes, &node_count));
    RIG_OK(rondoHostGraphGetEdges(graph, from, to, &edge_count));
    RIG_CHECK(node_count == 3 && edge_count == 2, "%zu nodes, %zu edges", node_count, edge_count);
    for (int e = 0; e < 2; e++)
        RIG_CHECK(from[e] == nodes[e] && to[e] == nodes[e + 1], "the ops are not in a row");
    RIG_OK(rondoHostGraphDestroy(graph));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    RIG_OK(rondoMemFree(buffer));
    return 0;
}

Test(exports, and_neither_is_its_order_of_ops)
{
    if (!rig_on_host())
        cr_skip_test("graphs of the host device");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, orders), 0);
}

/* ---- many at a time ---- */

enum { MANY = 500, SMALL = 1 << 12 };

static int await_usable(struct rig *rig, unsigned count)
{
    const struct rondoComm *comm = rig->comm;
    const struct rondo_exports *table = rondo_lanes_exports(comm->anchor, (unsigned)comm->ranks);
    const uint64_t start = rondo_now_ns();
    uint32_t usable[RONDO_EXPORTS_MAX];
    for (unsigned found = 0; found != count;) {
        RIG_CHECK(since_ms(start) < WAIT_MS, "%u usable, not %u", found, count);
        RIG_OK(comm->ops->read(comm->device, usable, table->usable, sizeof usable));
        found = 0;
        for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++)
            found += usable[n];
    }
    return 0;
}

/* More offers at once than sockets hold: none is lost. */
static int many(struct rig *rig)
{
    float *buffers[MANY];
    rondoHostGraph_t graph;
    for (int i = 0; i < MANY; i++)
        RIG_OK(rondoMemAlloc((void **)&buffers[i], SMALL * (size_t)rig->ranks * sizeof(float)));
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    for (int i = 0; i < MANY; i++)
        RIG_OK(rondoAllGather(buffers[i] + SMALL * rig->rank, buffers[i], SMALL, rondoFloat, rig->comm, rig->stream));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &graph));
    if (await_usable(rig, MANY))
        return 1;
    RIG_OK(rondoHostGraphDestroy(graph));
    if (await_exports(rig, 0))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    for (int i = 0; i < MANY; i++)
        RIG_OK(rondoMemFree(buffers[i]));
    return 0;
}

Test(exports, of_many_at_once_all_come_about, .timeout = 100)
{
    if (!rig_on_host())
        cr_skip_test("graphs of the host device");
    setenv("RONDO_PROTO", "direct", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3}, many), 0);
}

/* ---- the end ---- */

/* Once a comm has failed, kernels of its peers may be anywhere: nothing is taken back from them until they end their comms. */
static int failed(struct rig *rig)
{
    void *buffer, *handle;
    RIG_OK(rondoMemAlloc(&buffer, COUNT * sizeof(float)));
    RIG_OK(rondoCommRegister(rig->comm, buffer, COUNT * sizeof(float), &handle));
    if (await_usable(rig, 1))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    rondo_comm_failed(rig->comm, rondoTimeout, "as the test wants it");
    RIG_OK(rondoCommDeregister(rig->comm, handle));
    rondo_sleep_ns(200000000);
    if (await_exports(rig, 1))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    RIG_OK(rondoCommDestroy(rig->comm));
    RIG_OK(rondoMemFree(buffer));
    return 0;
}

Test(exports, stay_when_the_comm_has_failed)
{
    setenv("RONDO_PROTO", "direct", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .keep_comm = true}, failed), 0);
}
