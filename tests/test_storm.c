/* Everything at once: comms of different settings, and on each of them eager ops, plans, captured ops and captured plans, on memory of
 * several kinds, on two streams, in random groups, against a plain reference; and ends in the midst of it. A failure names its seed;
 * RONDO_TEST_SEED=N runs that one alone, RONDO_TEST_STEPS=N as many steps. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/item.h"
#include "support/mappable.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 6, MOST_ITEMS = 4, STEPS = RIG_SLOW ? 15 : 60, STREAMS = 2, RUNS = 3 };
enum { PLAIN, ZERO, LANED, COMMS }; /* comms, by their settings */

enum way { EAGER, PLANNED, CAPTURED, PLAN_CAPTURED, WAYS };

/* Ops that are run again and again. */
struct slot {
    struct item items[MOST_ITEMS];
    unsigned count; /* 0: the slot is empty */
    int comm, lane;
    bool grouped, registered, shared; /* shared: on memory of rondoMemAlloc */
    enum way way;
    struct machine_graph *graph; /* NULL: not captured */
    rondoPlan_t plan;            /* NULL: not planned, or its graph was made of it */
    void *handles[MOST_ITEMS];
};

struct storm {
    struct rig *rig;
    struct rig plain, shared; /* machines by kind of memory */
    struct machine sharing;
    rondoComm_t comms[COMMS];
    struct CUstream_st *streams[STREAMS];
    struct slot slots[SLOTS];
    struct draw draw; /* the same on all ranks */
    unsigned jitter;  /* the rank's own */
    long seed, step;
};

static _Thread_local struct storm storm;

static int storm_open(struct rig *rig, long seed)
{
    memset(&storm, 0, sizeof storm);
    storm.rig = rig;
    storm.sharing = mappable_machine(rig->machine);
    storm.plain = storm.shared = *rig;
    storm.shared.machine = &storm.sharing;
    storm.seed = rig_parameter("RONDO_TEST_SEED", seed);
    storm.draw = (struct draw){(uint64_t)storm.seed};
    storm.jitter = (unsigned)rig->rank;
    for (int s = 0; s < STREAMS; s++)
        storm.streams[s] = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    for (int c = 0; c < COMMS; c++) {
        rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
        if (c == ZERO) {
            config.ctaPolicy = RONDO_CTA_POLICY_ZERO;
            config.maxCTAs = 3;
        }
        if (c == LANED) {
            config.bufferKiB = 64;
            config.maxCTAs = 7;
            config.graphLanes = STREAMS;
        }
        RIG_OK(rondoCommInitRankConfig(&storm.comms[c], rig->ranks, rig->ids[1 + c], rig->rank, &config));
    }
    return 0;
}

/* ---- slots ---- */

static struct rig *rig_of(const struct slot *slot)
{
    return slot->shared ? &storm.shared : &storm.plain;
}

/* Graphs of a lane must not overlap. */
static struct CUstream_st *stream_of(const struct slot *slot)
{
    return storm
        .streams[slot->graph ? (unsigned)(slot->comm + slot->lane) % STREAMS : draw_below(&storm.draw, STREAMS)];
}

static int issue(const struct slot *slot, struct CUstream_st *stream)
{
    struct rig *rig = rig_of(slot);
    if (slot->grouped)
        RIG_OK(rondoGroupStart());
    for (unsigned i = 0; i < slot->count; i++)
        RIG_OK(item_issue(&slot->items[i], rig, storm.comms[slot->comm], stream));
    if (slot->grouped)
        RIG_OK(rondoGroupEnd());
    return 0;
}

static int capture(struct slot *slot)
{
    struct rig *rig = rig_of(slot);
    if (slot->comm != LANED)
        slot->lane = 0;
    RIG_OK(rondoCommSetGraphLane(storm.comms[slot->comm], slot->lane)); /* a rank may have no op in some captures */
    rig->machine->capture_begin(storm.streams[0], MACHINE_CAPTURE_THREAD_LOCAL);
    if (slot->plan)
        RIG_OK(rondoPlanLaunch(slot->plan, storm.streams[0]));
    else if (issue(slot, storm.streams[0]))
        return 1;
    slot->graph = rig->machine->capture_end(storm.streams[0]);
    RIG_OK(rondoPlanDestroy(slot->plan));
    slot->plan = NULL;
    return 0;
}

static int slot_open(struct slot *slot)
{
    struct draw *draw = &storm.draw;
    *slot = (struct slot){.count = 1 + draw_below(draw, MOST_ITEMS),
                          .comm = (int)draw_below(draw, COMMS),
                          .lane = (int)draw_below(draw, STREAMS),
                          .grouped = draw_below(draw, 3) == 0,
                          .registered = draw_below(draw, 4) == 0,
                          .shared = draw_below(draw, 3) != 0,
                          .way = (enum way)draw_below(draw, WAYS)};
    struct rig *rig = rig_of(slot);
    for (unsigned i = 0; i < slot->count; i++) {
        struct item *item = &slot->items[i];
        item_draw(item, draw, rig->ranks, 8 + draw_below(draw, 8));
        item_prepare(item, rig);
        if (slot->registered)
            RIG_OK(rondoCommRegister(storm.comms[slot->comm], item->memory, item->bytes, &slot->handles[i]));
    }
    if (slot->way == PLANNED || slot->way == PLAN_CAPTURED) {
        RIG_OK(rondoPlanBegin());
        if (issue(slot, NULL))
            return 1;
        RIG_OK(rondoPlanEnd(&slot->plan));
    }
    return slot->way >= CAPTURED ? capture(slot) : 0;
}

static int slot_start(const struct slot *slot)
{
    struct rig *rig = rig_of(slot);
    struct CUstream_st *stream = stream_of(slot);
    if (slot->graph)
        rig->machine->graph_launch(slot->graph, stream);
    else if (slot->plan)
        RIG_OK(rondoPlanLaunch(slot->plan, stream));
    else
        return issue(slot, stream);
    return 0;
}

static int slot_check(const struct slot *slot)
{
    int wrong = 0;
    for (unsigned i = 0; i < slot->count; i++)
        wrong |= item_check(&slot->items[i], rig_of(slot));
    return wrong;
}

static int slot_close(struct slot *slot)
{
    struct rig *rig = rig_of(slot);
    if (slot->graph)
        rig->machine->graph_destroy(slot->graph);
    RIG_OK(rondoPlanDestroy(slot->plan));
    for (unsigned i = 0; i < slot->count; i++) {
        RIG_OK(rondoCommDeregister(storm.comms[slot->comm], slot->handles[i]));
        item_free(&slot->items[i], rig);
    }
    slot->count = 0;
    return 0;
}

static int report(const struct slot *slot)
{
    const struct rig *rig = storm.rig;
    rondoComm_t comm = storm.comms[slot->comm];
    rondoResult_t error = rondoSuccess;
    usleep(100000); /* what befell the comm has become known by then */
    rondoCommGetAsyncError(comm, &error);
    fprintf(stderr, "RONDO_TEST_SEED=%ld fails on rank %d of %d in step %ld, comm %d, async error %d (%s)\n",
            storm.seed, rig->rank, rig->ranks, storm.step, slot->comm, (int)error, rondoGetLastError(comm));
    for (unsigned i = 0; i < slot->count; i++) {
        char text[160];
        item_describe(&slot->items[i], text, sizeof text);
        fprintf(stderr, "  way %d%s%s%s: %s\n", (int)slot->way, slot->grouped ? ", grouped" : "",
                slot->registered ? ", registered" : "", slot->shared ? ", shared" : "", text);
    }
    return 1;
}

/* ---- steps ---- */

/* Different ones, that are not empty. */
static int choose(struct slot *chosen[RUNS], unsigned *count)
{
    *count = 0;
    for (int i = 0; i < RUNS; i++) {
        struct slot *slot = &storm.slots[draw_below(&storm.draw, SLOTS)];
        bool there = false;
        for (unsigned k = 0; k < *count; k++)
            there |= chosen[k] == slot;
        if (there)
            continue;
        chosen[(*count)++] = slot;
        if (!slot->count && slot_open(slot))
            return report(slot);
    }
    return 0;
}

/* Several slots at once. */
static int step(void)
{
    struct slot *chosen[RUNS];
    unsigned count;
    int failed = choose(chosen, &count);
    for (unsigned k = 0; k < count && !failed; k++)
        for (unsigned i = 0; i < chosen[k]->count; i++)
            item_fill(&chosen[k]->items[i], rig_of(chosen[k]));
    for (unsigned k = 0; k < count && !failed; k++) {
        if (rand_r(&storm.jitter) % 8 == 0)
            usleep((unsigned)rand_r(&storm.jitter) % 2000);
        failed = slot_start(chosen[k]) ? report(chosen[k]) : 0;
    }
    for (int s = 0; s < STREAMS && !failed; s++)
        storm.rig->machine->stream_sync(storm.streams[s]);
    for (unsigned k = 0; k < count && !failed; k++)
        failed = slot_check(chosen[k]) ? report(chosen[k]) : 0;
    for (unsigned k = 0; k < count && !failed; k++)
        if (draw_below(&storm.draw, 4) == 0)
            failed = slot_close(chosen[k]);
    return failed;
}

static int steps(long count)
{
    int failed = 0;
    for (storm.step = 0; storm.step < count && !failed; storm.step++)
        failed = step();
    return failed;
}

static int storms(struct rig *rig)
{
    int failed = storm_open(rig, 1000 + rig->ranks) || steps(rig_parameter("RONDO_TEST_STEPS", STEPS));
    for (int s = 0; s < SLOTS && !failed; s++)
        if (storm.slots[s].count)
            failed = slot_close(&storm.slots[s]);
    RIG_CHECK(!failed && rig_barrier(rig) == 0, "a rank is missing");
    for (int c = 0; c < COMMS; c++)
        RIG_OK(rondoCommDestroy(storm.comms[c]));
    for (int s = 0; s < STREAMS; s++)
        rig->machine->stream_destroy(storm.streams[s]);
    return 0;
}

static void run(int ranks, enum rig_layout layout)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = layout, .no_comm = true}, storms), 0);
}

TestSuite(storm, .timeout = 600);

Test(storm, of_everything_between_threads)
{
    for (int ranks = 2; ranks <= rig_ranks(5); ranks++)
        if (rig_runs_with(ranks))
            run(ranks, RIG_THREADS);
}

Test(storm, of_everything_between_processes)
{
    run(rig_ranks(2), RIG_PROCESSES);
    run(rig_ranks(3), RIG_PROCESSES);
    run(rig_ranks(8), RIG_PAIRS);
}

Test(storm, of_everything_directly)
{
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
    run(rig_ranks(2), RIG_THREADS);
    run(rig_ranks(4), RIG_PROCESSES);
}

Test(storm, of_everything_round_the_ring)
{
    setenv("RONDO_ALGO", "ring", 1);
    run(rig_ranks(3), RIG_THREADS);
    run(rig_ranks(7), RIG_PROCESSES);
}

Test(storm, of_everything_with_traces_and_checks)
{
    setenv("RONDO_TRACE", "32", 1);
    setenv("RONDO_CHECK", "1", 1);
    setenv("RONDO_EPOCH_START", "-30", 1);
    run(rig_ranks(3), RIG_THREADS);
}

/* ---- ends in the midst of it ---- */

/* Calls may be refused, as the comm may have ended. */
static void start_all(void)
{
    for (int s = 0; s < SLOTS; s++) {
        const struct slot *slot = &storm.slots[s];
        struct CUstream_st *stream = stream_of(slot);
        if (slot->graph)
            storm.rig->machine->graph_launch(slot->graph, stream);
        else if (slot->plan)
            rondoPlanLaunch(slot->plan, stream);
        for (unsigned i = 0; i < slot->count && !slot->graph && !slot->plan; i++)
            item_issue(&slot->items[i], rig_of(slot), storm.comms[slot->comm], stream);
    }
}

static int await_streams(struct rig *rig)
{
    const uint64_t start = rondo_now_ns();
    for (int s = 0; s < STREAMS; s++)
        while (!rig->machine->stream_done(storm.streams[s])) {
            RIG_CHECK(since_ms(start) < 10000, "ops still run, RONDO_TEST_SEED=%ld", storm.seed);
            usleep(1000);
        }
    return 0;
}

/* What is left after the comms: graphs, of which some are replayed once more, plans, memory. */
static int leave(struct rig *rig)
{
    for (int s = 0; s < SLOTS; s++) {
        struct slot *slot = &storm.slots[s];
        if (slot->graph && s % 2)
            rig->machine->graph_launch(slot->graph, storm.streams[0]);
        rig->machine->stream_sync(storm.streams[0]);
        if (slot->graph)
            rig->machine->graph_destroy(slot->graph);
        RIG_OK(rondoPlanDestroy(slot->plan));
        for (unsigned i = 0; i < slot->count; i++)
            item_free(&slot->items[i], rig_of(slot));
    }
    for (int s = 0; s < STREAMS; s++)
        rig->machine->stream_destroy(storm.streams[s]);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    const uint64_t start = rondo_now_ns();
    for (rondo_anchor_reap(); rondo_anchor_count(); rondo_anchor_reap()) {
        RIG_CHECK(since_ms(start) < 10000, "%u anchors are left, RONDO_TEST_SEED=%ld", rondo_anchor_count(),
                  storm.seed);
        usleep(1000);
    }
    return rig_barrier(rig);
}

/* One rank aborts or destroys its comms after a while; the others' ops come to their ends, and nothing is left of them. */
static int ended(struct rig *rig)
{
    int failed = storm_open(rig, 2000 + rig->ranks);
    const long before = (long)draw_below(&storm.draw, RIG_SLOW ? 10 : 30);
    const bool ends = (int)draw_below(&storm.draw, (unsigned)rig->ranks) == rig->rank;
    const bool destroys = draw_below(&storm.draw, 2);
    failed = failed || steps(before);
    for (int s = 0; s < SLOTS && !failed; s++)
        if (!storm.slots[s].count)
            failed = slot_open(&storm.slots[s]);
    RIG_CHECK(!failed && rig_barrier(rig) == 0, "a rank is missing");
    for (int round = 0; round < (ends ? 3 : 20); round++)
        start_all();
    for (int c = 0; c < COMMS && ends; c++)
        RIG_OK(destroys ? rondoCommDestroy(storm.comms[c]) : rondoCommAbort(storm.comms[c]));
    if (await_streams(rig))
        return 1;
    for (int c = 0; c < COMMS && !ends; c++)
        RIG_OK(rondoCommDestroy(storm.comms[c]));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing, RONDO_TEST_SEED=%ld", storm.seed);
    return leave(rig);
}

static void end(int ranks, enum rig_layout layout)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = layout, .no_comm = true}, ended), 0);
}

Test(storm, that_ends_between_threads)
{
    for (int ranks = 2; ranks <= rig_ranks(4); ranks++)
        if (rig_runs_with(ranks))
            end(ranks, RIG_THREADS);
}

Test(storm, that_ends_between_processes)
{
    end(rig_ranks(2), RIG_PROCESSES);
    end(rig_ranks(3), RIG_PROCESSES);
    end(rig_ranks(6), RIG_PAIRS);
}
