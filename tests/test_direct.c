/* Works that go from buffer to buffer: captured ones, once the peers have mapped what the graph holds, and eager ones on
 * registered buffers. Whether they did is read from the kernels' own count. */
#include "comm/comm.h"
#include "comm/exports.h"
#include "common/clock.h"
#include "support/flicker.h"
#include "support/mappable.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whatever their size. Ops with shards are direct as two-shot only. */
static void force(void)
{
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
}

TestSuite(direct, .init = force);

enum { COUNT = 260001, GUARD = 4096, WAIT_MS = 20000 }; /* elements of a flow: an odd end */

enum op {
    ALL_REDUCE,
    REDUCE_SCATTER,
    REDUCE,
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    WORKS,
    RING = WORKS,
    GATHER,
    SCATTER,
    OPS
};

static const char *const names[] = {"all-reduce", "reduce-scatter",   "reduce", "all-gather", "all-to-all",
                                    "broadcast",  "send and receive", "gather", "scatter"};

/* A call on buffers that have room for all ranks' parts and a guard behind them. */
struct call {
    struct rig *rig;
    enum op op;
    rondoDataType_t type;
    size_t count, element;
    int root;
    bool in_place;
    size_t offset; /* of the buffers, in elements */
    char *send, *recv;
    size_t bytes;     /* of each buffer, in all */
    rondoPlan_t plan; /* NULL: none of it was made */
};

static bool has_parts(const struct call *c, bool send)
{
    return c->op == ALL_TO_ALL || c->op == (send ? REDUCE_SCATTER : ALL_GATHER) || c->op == (send ? SCATTER : GATHER);
}

static void call_free(struct call *c)
{
    mappable_free(c->rig, c->send);
    mappable_free(c->rig, c->recv);
}

static struct call call_make(struct rig *rig, enum op op, rondoDataType_t type, size_t element, size_t count)
{
    struct call c = {.rig = rig, .op = op, .type = type, .count = count, .element = element, .root = rig->ranks - 1};
    c.bytes = (count * (size_t)rig->ranks + 64) * element + GUARD;
    c.send = mappable_get(rig, c.bytes);
    c.recv = mappable_get(rig, c.bytes);
    return c;
}

static char *send_of(const struct call *c)
{
    return c->send + c->offset * c->element;
}

/* In place, the receive buffer is where the op says. */
static char *recv_of(const struct call *c)
{
    const size_t part = (size_t)c->rig->rank * c->count * c->element;
    if (!c->in_place)
        return c->recv + c->offset * c->element;
    return c->op == REDUCE_SCATTER ? send_of(c) + part : send_of(c);
}

/* To the next rank, from the one before. */
static rondoResult_t issue_ring(const struct call *c)
{
    const struct rig *rig = c->rig;
    const int next = (rig->rank + 1) % rig->ranks, last = (rig->rank + rig->ranks - 1) % rig->ranks;
    rondoGroupStart();
    rondoSend(send_of(c), c->count, c->type, next, rig->comm, rig->stream);
    rondoRecv(recv_of(c), c->count, c->type, last, rig->comm, rig->stream);
    return rondoGroupEnd();
}

static rondoResult_t issue(const struct call *c)
{
    const struct rig *rig = c->rig;
    char *send = send_of(c), *recv = recv_of(c);
    const size_t part = (size_t)rig->rank * c->count * c->element;
    switch (c->op) {
    case ALL_REDUCE:
        return rondoAllReduce(send, recv, c->count, c->type, rondoSum, rig->comm, rig->stream);
    case REDUCE_SCATTER:
        return rondoReduceScatter(send, recv, c->count, c->type, rondoSum, rig->comm, rig->stream);
    case REDUCE:
        return rondoReduce(send, recv, c->count, c->type, rondoSum, c->root, rig->comm, rig->stream);
    case ALL_GATHER:
        return rondoAllGather(c->in_place ? recv + part : send, recv, c->count, c->type, rig->comm, rig->stream);
    case ALL_TO_ALL:
        return rondoAllToAll(send, recv, c->count, c->type, rig->comm, rig->stream);
    case RING:
        return issue_ring(c);
    case GATHER:
        return rondoGather(send, recv, c->count, c->type, c->root, rig->comm, rig->stream);
    case SCATTER:
        return rondoScatter(send, recv, c->count, c->type, c->root, rig->comm, rig->stream);
    default:
        return rondoBroadcast(send, recv, c->count, c->type, c->root, rig->comm, rig->stream);
    }
}

/* Small whole numbers, exact in every type used here and under any order of sums. Element i of what rank r sends to all or, by
 * parts, to rank p. */
static int value(int round, int r, int p, size_t i)
{
    return (int)((i * 7 + (size_t)r * 3 + (size_t)p * 5 + (size_t)round) % 11);
}

static void put(const struct call *c, char *to, size_t i, int v)
{
    if (c->type == rondoFloat32)
        ((float *)(void *)to)[i] = (float)v;
    else
        ((uint8_t *)(void *)to)[i] = (uint8_t)v;
}

static int get(const struct call *c, const char *from, size_t i)
{
    return c->type == rondoFloat32 ? (int)((const float *)(const void *)from)[i]
                                   : ((const uint8_t *)(const void *)from)[i];
}

static void fill(const struct call *c, int round)
{
    const struct rig *rig = c->rig;
    char *host = malloc(c->bytes);
    const size_t parts = has_parts(c, true) ? (size_t)rig->ranks : 1;
    const size_t at = c->in_place && c->op == ALL_GATHER ? (size_t)rig->rank * c->count : 0;
    memset(host, 0x55, c->bytes);
    for (size_t p = 0; p < parts; p++)
        for (size_t i = 0; i < c->count; i++)
            put(c, host, c->offset + at + p * c->count + i, value(round, rig->rank, (int)p, i));
    rig->machine->upload(c->send, host, c->bytes);
    rig->machine->fill(c->recv, 0x77, c->bytes);
    free(host);
}

/* What element i of the receive buffer, part p, must be. */
static int expected(const struct call *c, int round, int p, size_t i)
{
    const int me = c->rig->rank, ranks = c->rig->ranks;
    int sum = 0;
    if (c->op == ALL_GATHER || c->op == GATHER)
        return value(round, p, 0, i);
    if (c->op == RING)
        return value(round, (me + ranks - 1) % ranks, 0, i);
    if (c->op == SCATTER)
        return value(round, c->root, me, i);
    if (c->op == ALL_TO_ALL)
        return value(round, p, me, i);
    if (c->op == BROADCAST)
        return value(round, c->root, 0, i);
    for (int r = 0; r < ranks; r++)
        sum += value(round, r, c->op == REDUCE_SCATTER ? me : 0, i);
    return sum;
}

static int check(const struct call *c, int round, const char *what)
{
    struct rig *rig = c->rig;
    const size_t parts = has_parts(c, false) ? (size_t)rig->ranks : 1;
    const char *area = c->in_place ? c->send : c->recv;
    const size_t first = (size_t)(recv_of(c) - area), end = first + parts * c->count * c->element;
    char *host = malloc(c->bytes);
    size_t wrong = 0;
    if ((c->op == REDUCE || c->op == GATHER) && rig->rank != c->root) {
        free(host);
        return 0;
    }
    rig->machine->download(host, area, c->bytes);
    for (size_t p = 0; p < parts; p++)
        for (size_t i = 0; i < c->count; i++)
            wrong += get(c, host + first, p * c->count + i) != expected(c, round, (int)p, i);
    for (size_t b = 0; b < c->bytes && !c->in_place; b++)
        wrong += (b < first || b >= end) && host[b] != 0x77;
    free(host);
    RIG_CHECK(wrong == 0, "%s, %s, round %d: %zu wrong", names[c->op], what, round, wrong);
    return 0;
}

static uint32_t ran(struct rig *rig)
{
    uint32_t n = 0;
    rondo_exporter_ran(rig->comm->exporter, &n);
    return n;
}

/* One round: fresh data, on all ranks; the graph, or else the plan, or the call; a look at the result. */
static int run_round(struct call *c, struct machine_graph *graph, int round, const char *what)
{
    struct rig *rig = c->rig;
    fill(c, round);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    if (graph)
        rig->machine->graph_launch(graph, rig->stream);
    else
        RIG_OK(c->plan ? rondoPlanLaunch(c->plan, rig->stream) : issue(c));
    rig->machine->stream_sync(rig->stream);
    return check(c, round, what);
}

/* Runs the graph, or the call, until it has run directly: the ranks do the same number of rounds. 0: it has. */
static int until_direct(struct call *c, struct machine_graph *graph, const char *what)
{
    struct rig *rig = c->rig;
    const uint32_t before = ran(rig);
    const uint64_t start = rondo_now_ns();
    int *direct =
        (int *)(void *)rig->scratch; /* of this round and the next, which ranks begin before others end this one */
    int done = 0;
    if (rig->rank == 0)
        direct[0] = 0;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    for (int round = 0; !done; round++) {
        RIG_CHECK(since_ms(start) < WAIT_MS, "%s, %s: not direct after %d rounds", names[c->op], what, round);
        if (run_round(c, graph, round, what))
            return 1;
        if (ran(rig) != before)
            __atomic_add_fetch(&direct[round % 2], 1, __ATOMIC_SEQ_CST);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        done = __atomic_load_n(&direct[round % 2], __ATOMIC_SEQ_CST);
        if (rig->rank == 0)
            __atomic_store_n(&direct[(round + 1) % 2], 0, __ATOMIC_SEQ_CST);
        done = c->op >= WORKS && done < rig->ranks ? 0 : done; /* each pair agrees for itself */
        RIG_CHECK(done == 0 || done == rig->ranks || c->op >= WORKS, "%d ranks went directly", done);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    }
    return 0;
}

static struct machine_graph *capture(struct call *c)
{
    c->rig->machine->capture_begin(c->rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (issue(c) != rondoSuccess)
        fprintf(stderr, "rank %d: %s\n", c->rig->rank, rondoGetLastError(NULL));
    return c->rig->machine->capture_end(c->rig->stream);
}

static int captured(struct rig *rig)
{
    for (int op = 0; op < OPS; op++)
        for (int variant = 0; variant < 4; variant++) {
            const bool bytes = variant == 2;
            if (op >= WORKS && variant % 2)
                continue;
            struct call c = call_make(rig, (enum op)op, bytes ? rondoUint8 : rondoFloat32, bytes ? 1 : 4,
                                      bytes                                                 ? 4 * COUNT / 16 * 16
                                      : op == ALL_REDUCE || op == BROADCAST || op == REDUCE ? COUNT
                                                                                            : COUNT / 4 * 4);
            c.in_place = variant == 1 && op != ALL_TO_ALL;
            c.offset = variant == 3 ? 4 : 0;
            struct machine_graph *graph = capture(&c);
            if (until_direct(&c, graph, "captured"))
                return 1;
            rig->machine->graph_destroy(graph);
            call_free(&c);
        }
    return 0;
}

Test(direct, captured_ops_become_direct, .timeout = 400)
{
    for (int ranks = 2; ranks <= 4; ranks++)
        if (rig_runs_with(ranks)) {
            cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = RIG_THREADS}, captured), 0);
            cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks}, captured), 0);
        }
}

/* ---- what is not direct ---- */

static int rounds(struct call *c, struct machine_graph *graph, int count, const char *what)
{
    struct rig *rig = c->rig;
    for (int round = 0; round < count; round++) {
        if (run_round(c, graph, round, what))
            return 1;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    }
    return 0;
}

/* Rounds of a call that must go by mailbox, and right. */
static int by_mailbox(struct call *c, struct machine_graph *graph, int count, const char *what)
{
    struct rig *rig = c->rig;
    const uint32_t before = ran(rig);
    if (rounds(c, graph, count, what))
        return 1;
    RIG_CHECK(ran(rig) == before, "%s, %s: %u direct", names[c->op], what, ran(rig) - before);
    return 0;
}

/* Exports go away some time after their graphs. */
static int await_exports(struct rig *rig, unsigned count)
{
    const uint64_t start = rondo_now_ns();
    while (rondo_exporter_count(rig->comm->exporter) != count)
        RIG_CHECK(since_ms(start) < WAIT_MS, "%u exports, not %u", rondo_exporter_count(rig->comm->exporter), count);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone"); /* who leaves answers no letters */
    return 0;
}

static int mailboxes(struct rig *rig)
{
    for (int op = 0; op < WORKS; op++) {
        /* One rank's buffers lie where whole lines do not. */
        struct call odd = call_make(rig, (enum op)op, rondoUint8, 1, 4 * COUNT / 16 * 16);
        odd.offset = rig->rank == 1;
        struct machine_graph *graph = capture(&odd);
        if (by_mailbox(&odd, graph, 8, "unaligned"))
            return 1;
        rig->machine->graph_destroy(graph);
        /* Eager, and nothing is registered. */
        odd.offset = 0;
        if (by_mailbox(&odd, NULL, 3, "eager"))
            return 1;
        call_free(&odd);
    }
    /* Peers read what they have not yet sent. */
    struct call in_place = call_make(rig, ALL_TO_ALL, rondoFloat32, 4, COUNT / 4 * 4);
    in_place.in_place = true;
    struct machine_graph *graph = capture(&in_place);
    if (by_mailbox(&in_place, graph, 8, "in place"))
        return 1;
    rig->machine->graph_destroy(graph);
    call_free(&in_place);
    return await_exports(rig, 0);
}

Test(direct, what_cannot_be_direct_goes_by_mailbox, .timeout = 200)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS}, mailboxes), 0);
}

/* A message is direct if its receiver's buffer is aligned and can be reached, whatever its sender's is. */
static int messages(struct rig *rig)
{
    struct call c = call_make(rig, RING, rondoUint8, 1, 4 * COUNT);
    const int odd = rig->rank == 1;
    char *const send = c.send, *const recv = c.recv;
    struct machine_graph *graph;
    c.send += odd; /* fill and check know nothing of it */
    c.bytes -= 1;
    graph = capture(&c);
    if (until_direct(&c, graph, "sent from an odd place"))
        return 1;
    rig->machine->graph_destroy(graph);
    c.send = send;
    c.recv += 1;
    graph = capture(&c);
    if (by_mailbox(&c, graph, 8, "received in an odd place") || by_mailbox(&c, NULL, 3, "eager"))
        return 1;
    rig->machine->graph_destroy(graph);
    c.recv = recv;
    call_free(&c);
    return await_exports(rig, 0);
}

Test(direct, messages_are_direct_where_receivers_allow, .timeout = 200)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS}, messages), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, messages), 0);
}

/* Registered buffers serve eager calls, as long as they are registered. One has a registration, the other is a part of one. */
static int registered(struct rig *rig)
{
    void *handles[2];
    struct call c = call_make(rig, ALL_REDUCE, rondoFloat32, 4, COUNT);
    c.offset = 8;
    RIG_OK(rondoCommRegister(rig->comm, send_of(&c), c.count * 4, &handles[0]));
    RIG_OK(rondoCommRegister(rig->comm, c.recv, c.bytes, &handles[1]));
    if (until_direct(&c, NULL, "registered"))
        return 1;
    RIG_OK(rondoCommDeregister(rig->comm, handles[0]));
    if (!mappable_is_mem_alloc(rig) && by_mailbox(&c, NULL, 3, "deregistered"))
        return 1;
    RIG_OK(rondoCommDeregister(rig->comm, handles[1]));
    call_free(&c);
    return await_exports(rig, 0);
}

/* Memory of rondoMemAlloc needs no registration. It is exported until it is freed, for as many comms as use it. */
static int allocated(struct rig *rig)
{
    static const enum op ops[] = {ALL_REDUCE, ALL_GATHER, RING};
    struct rig other = *rig;
    RIG_OK(rondoCommInitRank(&other.comm, rig->ranks, rig->ids[1], rig->rank));
    for (int round = 0; round < 3; round++) {
        struct call c = {.rig = rig, .op = ops[round], .type = rondoFloat32, .element = 4, .count = COUNT / 4 * 4};
        c.bytes = (c.count * (size_t)rig->ranks + 64) * 4 + GUARD;
        RIG_OK(rondoMemAlloc((void **)&c.send, c.bytes));
        RIG_OK(rondoMemAlloc((void **)&c.recv, c.bytes));
        if (until_direct(&c, NULL, "rondoMemAlloc's"))
            return 1;
        c.rig = &other;
        if (until_direct(&c, NULL, "rondoMemAlloc's, another comm"))
            return 1;
        RIG_CHECK(rondo_exporter_count(rig->comm->exporter) > 0 && rondo_exporter_count(other.comm->exporter) > 0,
                  "no exports");
        RIG_OK(rondoMemFree(c.send));
        RIG_OK(rondoMemFree(c.recv));
        if (await_exports(rig, 0) || await_exports(&other, 0))
            return 1;
    }
    RIG_OK(rondoCommDestroy(other.comm));
    return 0;
}

/* Fault: plans, which were made when nothing was known of their buffers, went by mailbox whenever they were launched eagerly. */
static int planned(struct rig *rig)
{
    static const enum op ops[] = {ALL_REDUCE, RING};
    for (int i = 0; i < 2; i++) {
        void *handles[2];
        struct call c = call_make(rig, ops[i], rondoFloat32, 4, COUNT);
        RIG_OK(rondoPlanBegin());
        RIG_OK(issue(&c));
        RIG_OK(rondoPlanEnd(&c.plan));
        RIG_OK(rondoCommRegister(rig->comm, c.send, c.bytes, &handles[0]));
        RIG_OK(rondoCommRegister(rig->comm, c.recv, c.bytes, &handles[1]));
        if (until_direct(&c, NULL, "of a plan"))
            return 1;
        RIG_OK(rondoCommDeregister(rig->comm, handles[0]));
        RIG_OK(rondoCommDeregister(rig->comm, handles[1]));
        if (!mappable_is_mem_alloc(rig) && by_mailbox(&c, NULL, 3, "of a plan, deregistered"))
            return 1;
        RIG_OK(rondoPlanDestroy(c.plan));
        call_free(&c);
        if (await_exports(rig, 0))
            return 1;
    }
    return 0;
}

/* The same memory in several graphs is exported once. */
static int shared(struct rig *rig)
{
    struct machine_graph *graphs[3];
    struct call c = call_make(rig, ALL_REDUCE, rondoFloat32, 4, COUNT);
    for (int i = 0; i < 3; i++)
        graphs[i] = capture(&c);
    if (until_direct(&c, graphs[0], "first graph"))
        return 1;
    for (int i = 0; i < 3; i++) {
        if (until_direct(&c, graphs[i], "one of three graphs"))
            return 1;
        RIG_CHECK(rondo_exporter_count(rig->comm->exporter) == 2, "%u exports",
                  rondo_exporter_count(rig->comm->exporter));
        rig->machine->graph_destroy(graphs[i]);
    }
    if (await_exports(rig, 0))
        return 1;
    call_free(&c);
    return 0;
}

/* Graphs outlive their comm: they do nothing, and their holds are void. */
static int outlived(struct rig *rig)
{
    struct call c = call_make(rig, ALL_REDUCE, rondoFloat32, 4, COUNT);
    struct machine_graph *graph = capture(&c);
    if (until_direct(&c, graph, "captured"))
        return 1;
    RIG_OK(rondoCommDestroy(rig->comm));
    fill(&c, 3);
    rig->machine->graph_launch(graph, rig->stream);
    rig->machine->stream_sync(rig->stream);
    rig->machine->graph_destroy(graph);
    call_free(&c);
    return 0;
}

static int run_in_every_layout(rig_body body, bool keep_comm)
{
    struct rig_options options = {.ranks = rig_ranks(2), .layout = RIG_THREADS, .keep_comm = keep_comm};
    int failed = rig_run(&options, body);
    options.layout = RIG_PROCESSES;
    return failed + rig_run(&options, body);
}

Test(direct, eager_ops_on_registered_buffers_are_direct, .timeout = 200)
{
    cr_assert_eq(run_in_every_layout(registered, false), 0);
}

Test(direct, eager_ops_on_memory_of_rondoMemAlloc_are_direct, .timeout = 200)
{
    cr_assert_eq(run_in_every_layout(allocated, false), 0);
}

Test(direct, plans_on_registered_buffers_are_direct, .timeout = 200)
{
    cr_assert_eq(run_in_every_layout(planned, false), 0);
}

Test(direct, memory_of_several_graphs_is_exported_once, .timeout = 200)
{
    cr_assert_eq(run_in_every_layout(shared, false), 0);
}

Test(direct, graphs_outlive_their_comm, .timeout = 200)
{
    cr_assert_eq(run_in_every_layout(outlived, true), 0);
}

/* ---- memory that comes and goes while kernels run ---- */

static int flickering(struct rig *rig)
{
    for (int op = 0; op < OPS; op++)
        for (int variant = 0; variant < 2; variant++) {
            struct call c = call_make(rig, (enum op)op, rondoFloat32, 4,
                                      op == ALL_REDUCE || op == BROADCAST || op == REDUCE ? COUNT : COUNT / 16 * 4);
            struct flicker f;
            c.in_place = variant == 1 && op != ALL_TO_ALL && op < WORKS;
            struct machine_graph *graph = capture(&c);
            if (until_direct(&c, graph, "captured"))
                return 1;
            flicker_begin(&f, rig);
            const int failed = rounds(&c, graph, RIG_SLOW ? 6 : 12, "flickering");
            flicker_end(&f);
            if (failed)
                return 1;
            rig->machine->graph_destroy(graph);
            call_free(&c);
        }
    return 0;
}

Test(direct, blocks_of_a_launch_may_go_different_ways, .timeout = 200)
{
    setenv("RONDO_MAX_CTAS", "7", 1);
    for (int ranks = 2; ranks <= 4; ranks++)
        if (rig_runs_with(ranks))
            cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = RIG_THREADS}, flickering), 0);
}

/* ---- abrupt ends ---- */

/* A rank aborts while direct replays are under way; the others' come to an end. */
static int abort_in(struct rig *rig, enum op op)
{
    struct call c = call_make(rig, op, rondoFloat32, 4, COUNT);
    struct machine_graph *graph = capture(&c);
    if (until_direct(&c, graph, "captured"))
        return 1;
    for (int i = 0; i < 20; i++)
        rig->machine->graph_launch(graph, rig->stream);
    if (rig->rank == 0) {
        RIG_OK(rondoCommAbort(rig->comm));
    } else {
        for (int i = 0; i < 200; i++)
            rig->machine->graph_launch(graph, rig->stream);
        RIG_CHECK(await_error(rig, 5000) == rondoRemoteError, "no error");
        RIG_OK(rondoCommDestroy(rig->comm));
    }
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone"); /* its kernels may have been in this one's buffers */
    rig->machine->graph_destroy(graph);
    call_free(&c);
    return 0;
}

static int abort_in_works(struct rig *rig)
{
    return abort_in(rig, ALL_REDUCE);
}

static int abort_in_messages(struct rig *rig)
{
    return abort_in(rig, RING);
}

Test(direct, an_abort_ends_replays, .timeout = 200)
{
    cr_assert_eq(run_in_every_layout(abort_in_works, true), 0);
    cr_assert_eq(run_in_every_layout(abort_in_messages, true), 0);
}

/* ---- a group's messages are each rank's own ---- */

/* A large collective with a message between two ranks only: these have a launch more than the others. */
static int with_a_message(struct rig *rig)
{
    for (int op = 0; op < WORKS; op++) {
        struct call c = call_make(rig, (enum op)op, rondoFloat32, 4, COUNT / 4 * 4);
        rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        RIG_OK(rondoGroupStart());
        RIG_OK(issue(&c));
        if (rig->rank == 0)
            RIG_OK(rondoSend(c.send, 1, rondoFloat32, 1, rig->comm, rig->stream));
        if (rig->rank == 1)
            RIG_OK(rondoRecv(c.recv + c.bytes - GUARD, 1, rondoFloat32, 0, rig->comm, rig->stream));
        RIG_OK(rondoGroupEnd());
        struct machine_graph *graph = rig->machine->capture_end(rig->stream);
        for (int round = 0; round < 3; round++) {
            fill(&c, round);
            rig->machine->graph_launch(graph, rig->stream);
            rig->machine->stream_sync(rig->stream);
            rig->machine->fill(c.recv + c.bytes - GUARD, 0x77, 4);
            if (check(&c, round, "with a message"))
                return 1;
        }
        rig->machine->graph_destroy(graph);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        call_free(&c);
    }
    return 0;
}

Test(direct, a_group_may_have_messages_on_some_ranks_only, .timeout = 100)
{
    if (rig_ranks(3) == 3)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = RIG_THREADS}, with_a_message), 0);
}
