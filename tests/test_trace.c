/* RONDO_TRACE: what launches leave behind, and what rondo-trace makes of it. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/json.h"
#include "support/program.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 1000, MOST = 512 };

/* ---- reading it ---- */

struct seen {
    char name[80];
    unsigned lane, launch, epoch, graph;
    int meets;
    unsigned long long arrival, first, done;
};

struct trace {
    char *json;
    struct seen ops[MOST];
    size_t count;
};

static char *get(rondoComm_t comm, rondoDescribeFormat_t format)
{
    size_t bytes = 0;
    if (rondoCommTrace(comm, format, NULL, &bytes) != rondoSuccess)
        return NULL;
    bytes += 10000; /* launches may still end */
    char *text = malloc(bytes);
    if (rondoCommTrace(comm, format, text, &bytes) == rondoSuccess && strlen(text) + 1 == bytes)
        return text;
    free(text);
    return NULL;
}

static int read_trace(struct rig *rig, struct trace *trace)
{
    memset(trace, 0, sizeof *trace);
    trace->json = get(rig->comm, rondoDescribeJson);
    RIG_CHECK(trace->json, "no trace");
    if (json_is_wrong(rig, trace->json))
        return 1;
    for (const char *line = trace->json; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        struct seen *op = &trace->ops[trace->count];
        int pid = -1;
        if (strncmp(line, "{\"ph\": \"X\", \"cat\": \"op\"", 22) != 0)
            continue;
        RIG_CHECK(trace->count < MOST, "more than %d", MOST);
        const int got = sscanf(line,
                               "{\"ph\": \"X\", \"cat\": \"op\", \"name\": \"%79[^\"]\", \"pid\": %d, \"tid\": %u, "
                               "\"ts\": %*f, \"dur\": %*f, \"args\": {\"arrival\": \"%llu\", \"first\": \"%llu\", "
                               "\"done\": \"%llu\", \"launch\": %u, \"epoch\": %u, \"graph\": %u, \"meets\": %d",
                               op->name, &pid, &op->lane, &op->arrival, &op->first, &op->done, &op->launch, &op->epoch,
                               &op->graph, &op->meets);
        RIG_CHECK(got == 10 && pid == rig->rank, "%d of %.200s", got, line);
        trace->count++;
    }
    return 0;
}

/* Records of a lane are in order, one behind the other, and so are the times in each. */
static int in_order(struct rig *rig, const struct trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        const struct seen *op = &trace->ops[i], *before = op - 1;
        RIG_CHECK(op->arrival && op->arrival <= op->done, "%s: %llu, %llu", op->name, op->arrival, op->done);
        RIG_CHECK(!op->first || (op->arrival <= op->first && op->first <= op->done), "%s: %llu, %llu, %llu", op->name,
                  op->arrival, op->first, op->done);
        if (i == 0 || before->lane != op->lane)
            continue;
        RIG_CHECK(op->launch == before->launch + 1, "%s: %u after %u", op->name, op->launch, before->launch);
        RIG_CHECK(op->arrival >= before->arrival, "%s came before %s", op->name, before->name);
        RIG_CHECK(op->epoch - before->epoch < 1000, "epoch %u after %u", op->epoch, before->epoch);
    }
    return 0;
}

static size_t named(const struct trace *trace, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->count; i++)
        count += strcmp(trace->ops[i].name, name) == 0;
    return count;
}

static int make(struct rig *rig, int id)
{
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[id], rig->rank));
    return 0;
}

static int end(struct rig *rig)
{
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(rig->comm));
    return 0;
}

/* ---- off ---- */

static int nothing(struct rig *rig)
{
    size_t bytes = 0;
    RIG_REFUSED(rondoInvalidUsage, "RONDO_TRACE", rondoCommTrace(rig->comm, rondoDescribeText, NULL, &bytes));
    RIG_CHECK(!rig->comm->tracer && !rig->comm->anchor->trace.address && !rig->comm->anchor->trace.bytes, "memory");
    for (unsigned lane = 0; lane < rig->comm->anchor->lanes; lane++)
        RIG_CHECK(!rig->comm->lanes[lane].args.trace, "lane %u has a ring", lane);
    return 0;
}

Test(trace, is_off_by_default_and_takes_no_memory)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, nothing), 0);
}

/* ---- on ---- */

/* Launches: 11 that name what the comment says. */
static int issue(struct rig *rig, char *a, char *b)
{
    const int n = rig->ranks, me = rig->rank, next = (me + 1) % n, before = (me + n - 1) % n;
    RIG_OK(rondoAllReduce(a, b, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(rondoAllReduce(a, b, 33, rondoBfloat16, rondoMax, rig->comm, rig->stream));
    RIG_OK(rondoReduceScatter(a, b, 7, rondoInt64, rondoProd, rig->comm, rig->stream));
    RIG_OK(rondoAllGather(a, b, 9, rondoFloat, rig->comm, rig->stream));
    RIG_OK(rondoAllToAll(a, b, 11, rondoHalf, rig->comm, rig->stream));
    RIG_OK(rondoBroadcast(a, b, 13, rondoDouble, n - 1, rig->comm, rig->stream));
    RIG_OK(rondoReduce(a, b, 17, rondoUint8, rondoMax, n - 1, rig->comm, rig->stream));
    RIG_OK(rondoBarrier(rig->comm, rig->stream));
    RIG_OK(rondoAllReduce(a, b, 300000, rondoFloat, rondoSum, rig->comm, rig->stream)); /* of several steps */
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoSend(a, 21, rondoFloat, next, rig->comm, rig->stream));
    RIG_OK(rondoRecv(b, 21, rondoFloat, before, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoAllReduce(a, a, 5, rondoFloat, rondoMin, rig->comm, rig->stream));
    RIG_OK(rondoAllGather(b, b + 4 * COUNT, 5, rondoInt, rig->comm, rig->stream));
    RIG_OK(rondoSend(a + 4 * COUNT, 40000, rondoFloat, next, rig->comm, rig->stream));
    RIG_OK(rondoRecv(b + 8 * COUNT, 40000, rondoFloat, before, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    return 0;
}
enum { LAUNCHES = 11 };

static int has_all(struct rig *rig, const struct trace *trace, size_t times)
{
    char name[100];
    const char *const names[] = {"all_reduce sum float32 4000 B",    "all_reduce max bfloat16 66 B",
                                 "reduce_scatter prod int64 56 B",   "barrier",
                                 "all_reduce sum float32 1200000 B", "all_reduce min float32 20 B and 3 more"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        RIG_CHECK(named(trace, names[i]) == times, "%zu of %s in\n%s", named(trace, names[i]), names[i], trace->json);
    snprintf(name, sizeof name, "reduce max uint8 17 B root %d", rig->ranks - 1);
    RIG_CHECK(named(trace, name) == times, "%zu of %s", named(trace, name), name);
    return 0;
}

static int every_op(struct rig *rig)
{
    const struct machine *m = rig->machine;
    static _Thread_local struct trace trace;
    enum { REPLAYS = 3 };
    if (make(rig, 1))
        return 1;
    RIG_CHECK(rig->comm->lanes[0].args.trace_mask == 127, "%u", rig->comm->lanes[0].args.trace_mask);
    char *a = m->alloc(4000000), *b = m->alloc(4000000);
    m->fill(a, 0, 4000000);
    if (issue(rig, a, b))
        return 1;
    m->stream_sync(rig->stream);
    if (read_trace(rig, &trace) || in_order(rig, &trace) || has_all(rig, &trace, 1))
        return 1;
    RIG_CHECK(trace.count == LAUNCHES, "%zu", trace.count);
    for (size_t i = 0; i < trace.count; i++)
        RIG_CHECK(trace.ops[i].lane == RONDO_LANE_EAGER && !trace.ops[i].graph && trace.ops[i].meets == (i != 9),
                  "%zu: %s", i, trace.ops[i].name);
    free(trace.json);

    rondoPlan_t plan;
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (issue(rig, a, b))
        return 1;
    struct machine_graph *graph = m->capture_end(rig->stream);
    RIG_OK(rondoPlanBegin());
    if (issue(rig, a, b))
        return 1;
    RIG_OK(rondoPlanEnd(&plan));
    for (int i = 0; i < REPLAYS; i++)
        m->graph_launch(graph, rig->stream);
    RIG_OK(rondoPlanLaunch(plan, rig->stream));
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoPlanLaunch(plan, rig->stream));
    struct machine_graph *of_plan = m->capture_end(rig->stream);
    m->graph_launch(of_plan, rig->stream);
    m->stream_sync(rig->stream);
    if (read_trace(rig, &trace) || in_order(rig, &trace) || has_all(rig, &trace, 2 + REPLAYS + 1))
        return 1;
    RIG_CHECK(trace.count == (2 + REPLAYS + 1) * LAUNCHES, "%zu", trace.count);
    for (size_t i = 2 * LAUNCHES; i < trace.count; i++)
        RIG_CHECK(trace.ops[i].lane == RONDO_LANE_GRAPH && trace.ops[i].graph == 1 + (i >= (2 + REPLAYS) * LAUNCHES),
                  "%zu: lane %u graph %u", i, trace.ops[i].lane, trace.ops[i].graph);
    free(trace.json);
    char *text = get(rig->comm, rondoDescribeText);
    RIG_CHECK(text && strstr(text, "66 launches of 66; ") && strstr(text, "all_reduce sum float32 4000 B"), "%s", text);
    if (rig->rank == 0 && getenv("RONDO_TEST_SHOW"))
        printf("%s", text);
    free(text);
    RIG_OK(rondoPlanDestroy(plan));
    m->graph_destroy(graph);
    m->graph_destroy(of_plan);
    m->free(a);
    m->free(b);
    return end(rig);
}

Test(trace, has_a_record_of_each_launch_eager_or_replayed)
{
    setenv("RONDO_TRACE", "100", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, every_op), 0);
}

Test(trace, has_them_in_threads_of_one_process_too)
{
    setenv("RONDO_TRACE", "100", 1);
    cr_assert_eq(
        rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true, .layout = RIG_THREADS}, every_op), 0);
}

/* Large works, whose launches go by several protocols; direct ones once the buffers are mapped. */
static int large(struct rig *rig, bool direct)
{
    const size_t bytes = 8 << 20;
    static _Thread_local struct trace trace;
    void *a, *b, *handle;
    uint32_t ran = 0, launches = 0;
    if (make(rig, 2))
        return 1;
    RIG_OK(rondoMemAlloc(&a, bytes));
    RIG_OK(rondoMemAlloc(&b, bytes));
    RIG_OK(rondoCommRegister(rig->comm, a, bytes, &handle));
    RIG_OK(rondoCommRegister(rig->comm, b, bytes, &handle));
    const struct rondo_exports *exports = rig->comm->lanes[0].args.exports;
    for (; launches < 200 && (launches < 5 || direct);
         launches++) { /* all ranks alike: direct works are the same ones */
        RIG_OK(rondoAllReduce(a, b, bytes / 4, rondoFloat, rondoSum, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        RIG_OK(rig->comm->ops->read(rig->comm->device, &ran, &exports->ran, sizeof ran));
        if (ran >= 5)
            break;
        rondo_sleep_ns(10000000);
    }
    launches += ran >= 5;
    RIG_CHECK(!direct || ran, "never direct");
    if (read_trace(rig, &trace) || in_order(rig, &trace))
        return 1;
    RIG_CHECK(trace.count == launches && named(&trace, "all_reduce sum float32 8388608 B") == launches, "%zu, %u",
              trace.count, launches);
    for (size_t i = 0; i < trace.count; i++)
        RIG_CHECK(trace.ops[i].first, "no first data in %zu", i);
    free(trace.json);
    if (end(rig))
        return 1;
    RIG_OK(rondoMemFree(a));
    RIG_OK(rondoMemFree(b));
    return 0;
}

static int bulk(struct rig *rig)
{
    return large(rig, false);
}

static int direct(struct rig *rig)
{
    return large(rig, rig->alone);
}

Test(trace, has_records_of_bulk_works)
{
    setenv("RONDO_TRACE", "512", 1);
    setenv("RONDO_PROTO", "bulk", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, bulk), 0);
}

Test(trace, has_records_of_direct_works)
{
    setenv("RONDO_TRACE", "512", 1);
    setenv("RONDO_PROTO", "direct", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, direct), 0);
}

/* A rank's op waits for others. */
static int await_running(struct rig *rig)
{
    const uint64_t start = rondo_now_ns();
    for (bool busy = false; !busy;) {
        RIG_CHECK(since_ms(start) < 5000, "the op does not run");
        RIG_OK(rondo_lanes_busy(rig->comm->anchor, &busy));
    }
    return 0;
}

/* Two messages that wait for their receiver, which comes late, and of which the second comes later still: what counts is when the first
 * came, and the receiver for the first. */
static int late(struct rig *rig)
{
    enum { BYTES = 4 << 20, LATE_NS = 200000000 };
    static _Thread_local struct trace trace;
    if (make(rig, 4))
        return 1;
    char *a = rig->machine->alloc(2 * BYTES);
    rig->machine->fill(a, 0, 2 * BYTES);
    int *running = (int *)(void *)(rig->scratch + RIG_SCRATCH - 64); /* rank 0's first message waits */
    if (rig->rank == 1) {
        const uint64_t start = rondo_now_ns();
        while (!__atomic_load_n(running, __ATOMIC_SEQ_CST))
            RIG_CHECK(since_ms(start) < 10000, "a rank is missing");
        rondo_sleep_ns(LATE_NS);
        RIG_OK(rondoGroupStart());
    }
    for (int i = 0; i < 2; i++) {
        if (rig->rank == 1)
            RIG_OK(rondoRecv(a + i * BYTES, BYTES, rondoUint8, 0, rig->comm, rig->stream));
        else
            RIG_OK(rondoSend(a + i * BYTES, BYTES, rondoUint8, 1, rig->comm, rig->stream));
        if (rig->rank == 0 && i == 0) {
            if (await_running(rig))
                return 1;
            __atomic_store_n(running, 1, __ATOMIC_SEQ_CST);
        }
        if (rig->rank == 0)
            rig->machine->stream_sync(rig->stream);
        if (rig->rank == 0)
            rondo_sleep_ns(LATE_NS);
    }
    if (rig->rank == 1)
        RIG_OK(rondoGroupEnd());
    rig->machine->stream_sync(rig->stream);
    if (read_trace(rig, &trace) || in_order(rig, &trace))
        return 1;
    RIG_CHECK(trace.count == (rig->rank ? 1 : 2), "%zu", trace.count);
    const struct seen *op = &trace.ops[0];
    RIG_CHECK(rig->rank == 0 || op->done - op->first > LATE_NS / 2, "first %llu ns before the end",
              op->done - op->first);
    RIG_CHECK(rig->rank == 1 || op->first - op->arrival > LATE_NS / 2, "sent %llu ns after the arrival",
              op->first - op->arrival);
    free(trace.json);
    rig->machine->free(a);
    return end(rig);
}

Test(trace, has_the_first_of_several_messages)
{
    setenv("RONDO_TRACE", "16", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2), .no_comm = true}, late), 0);
}

static int wraps(struct rig *rig)
{
    static _Thread_local struct trace trace;
    enum { ROUNDS = 53 };
    if (make(rig, 3))
        return 1;
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    rig->machine->fill(a, 0, COUNT * sizeof *a);
    for (int i = 0; i < ROUNDS; i++)
        RIG_OK(rondoAllReduce(a, a, 1 + (size_t)i, rondoFloat, rondoSum, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    if (read_trace(rig, &trace) || in_order(rig, &trace))
        return 1;
    RIG_CHECK(trace.count == 16 && trace.ops[15].launch == ROUNDS - 1, "%zu", trace.count);
    RIG_CHECK(!strcmp(trace.ops[0].name, "all_reduce sum float32 152 B"), "%s", trace.ops[0].name);
    RIG_CHECK(trace.ops[0].epoch == (uint32_t)(37 - 20), "%u", trace.ops[0].epoch);
    free(trace.json);
    rig->machine->free(a);
    return end(rig);
}

Test(trace, keeps_the_last_launches)
{
    setenv("RONDO_TRACE", "16", 1);
    setenv("RONDO_EPOCH_START", "-20", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, wraps), 0);
}

static int refusals(struct rig *rig)
{
    size_t bytes = 10;
    char room[10] = "x";
    if (make(rig, 4))
        return 1;
    RIG_REFUSED(rondoInvalidArgument, "bytes is NULL", rondoCommTrace(rig->comm, rondoDescribeText, room, NULL));
    RIG_REFUSED(rondoInvalidArgument, "format 2", rondoCommTrace(rig->comm, (rondoDescribeFormat_t)2, room, &bytes));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommTrace(NULL, rondoDescribeText, room, &bytes));
    RIG_REFUSED(rondoInvalidArgument, "room for 10", rondoCommTrace(rig->comm, rondoDescribeText, room, &bytes));
    RIG_CHECK(room[0] == 'x', "written all the same");
    return end(rig);
}

Test(trace, refuses_what_cannot_be)
{
    setenv("RONDO_TRACE", "16", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, refusals), 0);
}

/* ---- merged ---- */

enum { LATE = 1, OPS = 12, PART = RIG_SCRATCH / 4 };

static int one_is_late(struct rig *rig)
{
    const struct machine *m = rig->machine;
    int *waiting = (int *)(void *)(rig->scratch + RIG_SCRATCH - 64); /* ranks' ops, of all that there were */
    if (make(rig, 5))
        return 1;
    float *a = m->alloc(COUNT * sizeof *a);
    m->fill(a, 0, COUNT * sizeof *a);
    for (int i = 0; i < OPS; i++) {
        const uint64_t start = rondo_now_ns();
        while (rig->rank == LATE && __atomic_load_n(waiting, __ATOMIC_SEQ_CST) < (i + 1) * (rig->ranks - 1))
            RIG_CHECK(since_ms(start) < 10000, "a rank is missing");
        if (rig->rank == LATE)
            rondo_sleep_ns(60000000);
        RIG_OK(rondoAllReduce(a, a, i % 2 ? COUNT : 10, rondoFloat, rondoSum, rig->comm, rig->stream));
        if (rig->rank != LATE && rig->ranks > 1) {
            if (await_running(rig))
                return 1;
            __atomic_add_fetch(waiting, 1, __ATOMIC_SEQ_CST);
        }
        m->stream_sync(rig->stream);
    }
    char *json = get(rig->comm, rondoDescribeJson);
    RIG_CHECK(json && strlen(json) < PART, "%zu bytes", json ? strlen(json) : 0);
    memcpy(rig->scratch + (size_t)rig->rank * PART, json, strlen(json) + 1);
    free(json);
    m->free(a);
    return end(rig);
}

/* The program's output; its exit status. */
static int run(const char *arguments, char *text, size_t room)
{
    char program[4096], command[6000];
    snprintf(command, sizeof command, "timeout 60 '%s' %s 2>&1", program_beside("rondo-trace", program, sizeof program),
             arguments);
    return program_run(command, text, room);
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
}

/* The number behind a text. */
static double number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    cr_assert(at, "no %s in\n%s", key, text);
    return strtod(at + strlen(key), NULL);
}

/* A trace whose clock is said to be a GPU's, and is so far ahead. */
static void set_ahead(const char *json, unsigned long long ns, char *out, size_t room)
{
    size_t at = 0;
    for (const char *c = json; *c && at + 30 < room;) {
        static const char *const keys[] = {"\"base\": \"", "\"arrival\": \"", "\"first\": \"", "\"done\": \""};
        const char *was = c;
        for (int k = 0; k < 4; k++)
            if (!strncmp(c, keys[k], strlen(keys[k]))) {
                char *behind;
                const unsigned long long t = strtoull(c + strlen(keys[k]), &behind, 10);
                at += (size_t)snprintf(out + at, room - at, "%s%llu", keys[k], t ? t + ns : 0);
                c = behind;
                break;
            }
        if (!strncmp(c, "\"clock\": \"host\"", 15)) {
            at += (size_t)snprintf(out + at, room - at, "\"clock\": \"device\"");
            c += 15;
        } else if (c == was) {
            out[at++] = *c++;
        }
    }
    out[at] = '\0';
}

/* What rondo-trace says of the ranks' files, all but the straggler's set ahead. */
static void merge(const char *scratch, int ranks, unsigned long long ahead)
{
    static char text[1 << 16], json[2 * PART], merged[4 * PART];
    char directory[] = "/tmp/rondo-trace-XXXXXX", arguments[1024], path[128], line[200];
    cr_assert_not_null(mkdtemp(directory));
    size_t at = (size_t)snprintf(arguments, sizeof arguments, "-o %s/merged.json", directory);
    for (int r = ranks; r-- > 0;) {
        snprintf(path, sizeof path, "%s/%d.json", directory, r);
        if (ahead)
            set_ahead(scratch + (size_t)r * PART, r == LATE ? 0 : ahead * (unsigned long long)(r + 1), json,
                      sizeof json);
        put_file(path, ahead ? json : scratch + (size_t)r * PART);
        at += (size_t)snprintf(arguments + at, sizeof arguments - at, " %s", path);
    }
    cr_assert_eq(run(arguments, text, sizeof text), 0, "%s", text);
    if (getenv("RONDO_TEST_SHOW"))
        printf("%s", text);
    snprintf(line, sizeof line, "%d of %d ranks; %d ops that all of these have recorded\n", ranks, ranks, OPS);
    cr_expect(strstr(text, line), "%s", text);
    snprintf(line, sizeof line, "straggler: rank %d: last in %d of %d ops", LATE, OPS, OPS);
    cr_expect(strstr(text, line), "%s", text);
    cr_expect(strstr(text, ahead ? "clocks: aligned within about " : "clocks: all ranks have the same\n"), "%s", text);
    const double waited = number_after(text, "each other rank then waited ");
    cr_expect(waited > 15000 && waited < 15000000, "%s", text);
    cr_expect(strstr(text, "all_reduce sum float32 4000 B ") && strstr(text, "all_reduce sum float32 40 B "), "%s",
              text);

    struct rig rig_here = {.rank = -1}, *rig = &rig_here;
    snprintf(path, sizeof path, "%s/merged.json", directory);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    merged[fread(merged, 1, sizeof merged - 1, file)] = '\0';
    fclose(file);
    cr_expect_eq(json_is_wrong(rig, merged), 0);
    for (int r = 0; r < ranks; r++) {
        snprintf(line, sizeof line, "\"cat\": \"op\", \"name\": \"all_reduce sum float32 40 B\", \"pid\": %d", r);
        cr_expect(strstr(merged, line), "%s", merged);
    }
    snprintf(arguments, sizeof arguments, "rm -r %s", directory);
    cr_assert_eq(system(arguments), 0);
}

Test(trace, names_the_rank_that_others_wait_for)
{
    setenv("RONDO_TRACE", "64", 1);
    static char scratch[RIG_SCRATCH];
    const int ranks = rig_ranks(3);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .no_comm = true, .scratch_copy = scratch}, one_is_late),
                 0);
    if (ranks < 2)
        return;
    if (strstr(scratch, "\"clock\": \"host\""))
        merge(scratch, ranks, 0);
    merge(scratch, ranks, 123456789);
}

Test(trace, tells_what_no_trace_is)
{
    char text[4096], path[] = "/tmp/rondo-trace-XXXXXX", arguments[100];
    const int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
    put_file(path, "{\"traceEvents\": []}\n");
    snprintf(arguments, sizeof arguments, "%s", path);
    cr_expect_eq(run(arguments, text, sizeof text), 2);
    cr_expect(strstr(text, "no trace as rondoCommTrace writes it"), "%s", text);
    unlink(path);
    cr_expect_eq(run(arguments, text, sizeof text), 2);
    cr_expect(strstr(text, "No such file"), "%s", text);
    cr_expect_eq(run("", text, sizeof text), 2);
    cr_expect(strstr(text, "usage: "), "%s", text);
    cr_expect_eq(run("--help", text, sizeof text), 0);
}
