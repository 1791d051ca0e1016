/* Random works that may be direct, captured and on registered buffers: graphs and registrations come and go, and their memory with
 * them, while replays and eager ops run, all against a plain reference. Nobody waits for peers but in the ops. A failure names
 * its seed; RONDO_TEST_SEED=N runs that one alone, RONDO_TEST_STEPS=N as many steps. */
#include "comm/comm.h"
#include "comm/exports.h"
#include "common/clock.h"
#include "common/env.h"
#include "support/item.h"
#include "support/mappable.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLOTS = 5, MOST_ITEMS = 3, STEPS = RIG_SLOW ? 40 : 150, WAIT_MS = 20000 };

/* Ops in one graph, or on registered buffers. */
struct slot {
    struct item items[MOST_ITEMS];
    unsigned count; /* 0: the slot is empty */
    bool grouped;
    struct machine_graph *graph; /* NULL: eager */
    void *handles[MOST_ITEMS];   /* NULL: not registered */
};

static void slot_draw(struct slot *slot, struct draw *draw, int ranks)
{
    *slot = (struct slot){.count = 1 + draw_below(draw, MOST_ITEMS), .grouped = draw_below(draw, 4) == 0};
    for (unsigned i = 0; i < slot->count; i++) {
        struct item *item = &slot->items[i];
        do
            item_draw(item, draw, ranks, 13);
        while (item->kind > ITEM_ALL_TO_ALL && draw_below(draw, 3) == 0);
        if (draw_below(draw, 3)) { /* whole lines everywhere */
            item->offset = 0;
            item->count = item->count / 16 * 16;
        }
    }
}

static int issue(struct slot *slot, struct rig *rig)
{
    if (slot->grouped)
        RIG_OK(rondoGroupStart());
    for (unsigned i = 0; i < slot->count; i++)
        RIG_OK(item_issue(&slot->items[i], rig, rig->comm, rig->stream));
    if (slot->grouped)
        RIG_OK(rondoGroupEnd());
    return 0;
}

static int slot_open(struct slot *slot, struct draw *draw, struct rig *rig)
{
    slot_draw(slot, draw, rig->ranks);
    const unsigned way = draw_below(draw, 5);
    for (unsigned i = 0; i < slot->count; i++)
        item_prepare(&slot->items[i], rig);
    for (unsigned i = 0; i < slot->count && way >= 3; i++)
        if (way == 3 || (int)i % rig->ranks == rig->rank) /* all ranks register, or some */
            RIG_OK(rondoCommRegister(rig->comm, slot->items[i].memory, slot->items[i].bytes, &slot->handles[i]));
    if (way >= 3)
        return 0;
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (issue(slot, rig))
        return 1;
    slot->graph = rig->machine->capture_end(rig->stream);
    return 0;
}

static int slot_run(struct slot *slot, struct rig *rig)
{
    int failed = 0;
    for (unsigned i = 0; i < slot->count; i++)
        item_fill(&slot->items[i], rig);
    if (slot->graph)
        rig->machine->graph_launch(slot->graph, rig->stream);
    else if (issue(slot, rig))
        return 1;
    rig->machine->stream_sync(rig->stream);
    for (unsigned i = 0; i < slot->count; i++)
        failed |= item_check(&slot->items[i], rig);
    return failed;
}

static int slot_close(struct slot *slot, struct rig *rig)
{
    if (slot->graph)
        rig->machine->graph_destroy(slot->graph);
    for (unsigned i = 0; i < slot->count; i++) {
        RIG_OK(rondoCommDeregister(rig->comm, slot->handles[i]));
        item_free(&slot->items[i], rig);
    }
    slot->count = 0;
    return 0;
}

static void report(const struct slot *slot, const struct rig *rig, uint64_t seed, long step)
{
    rondoResult_t error = rondoSuccess;
    usleep(100000); /* what befell the comm has become known by then */
    rondoCommGetAsyncError(rig->comm, &error);
    fprintf(stderr, "RONDO_TEST_SEED=%llu fails on rank %d of %d in step %ld, async error %d (%s)\n",
            (unsigned long long)seed, rig->rank, rig->ranks, step, (int)error, rondoGetLastError(NULL));
    for (unsigned i = 0; i < slot->count; i++) {
        char text[160];
        item_describe(&slot->items[i], text, sizeof text);
        fprintf(stderr, "  %s %s\n", slot->graph ? "captured" : "eager", text);
    }
}

static int steps(struct rig *rig, uint64_t seed)
{
    static _Thread_local struct slot slots[SLOTS];
    struct draw draw = {seed};
    const long count = rig_parameter("RONDO_TEST_STEPS", STEPS);
    int failed = 0;
    for (long step = 0; step < count && !failed; step++) {
        struct slot *slot = &slots[draw_below(&draw, SLOTS)];
        if (!slot->count)
            failed = slot_open(slot, &draw, rig);
        const unsigned runs = draw_below(&draw, 4);
        for (unsigned i = 0; i < runs && !failed; i++)
            failed = slot_run(slot, rig);
        if (failed)
            report(slot, rig, seed, step);
        else if (draw_below(&draw, 4) == 0)
            failed = slot_close(slot, rig);
    }
    for (int s = 0; s < SLOTS && !failed; s++)
        if (slots[s].count)
            failed = slot_close(&slots[s], rig);
    return failed;
}

static int mixed(struct rig *rig)
{
    const long seed = rig_parameter("RONDO_TEST_SEED", -1);
    const uint64_t start = rondo_now_ns();
    const struct machine *machine = rig->machine;
    const struct machine shared = mappable_machine(machine);
    uint32_t ran = 0;
    if (rig_on_host())
        rig->machine = &shared;
    const int failed = steps(rig, seed >= 0 ? (uint64_t)seed : (uint64_t)rig->ranks);
    rig->machine = machine;
    if (!failed)
        RIG_OK(rondo_exporter_ran(rig->comm->exporter, &ran));
    if (seed >= 0)
        fprintf(stderr, "RONDO_TEST_SEED=%ld: %u direct\n", seed, ran);
    RIG_CHECK(failed || ran || !rondo_env()->proto, "nothing was direct");
    while (!failed && rondo_exporter_count(rig->comm->exporter))
        RIG_CHECK(since_ms(start) < 5 * WAIT_MS, "%u exports are left", rondo_exporter_count(rig->comm->exporter));
    return failed || rig_barrier(rig); /* who has left answers no letters */
}

static void run(int ranks, enum rig_layout layout)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = layout}, mixed), 0);
}

Test(direct_mix, of_works_between_threads, .timeout = 300)
{
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_MAX_CTAS", "3", 1);
    for (int ranks = 2; ranks <= rig_ranks(8); ranks++)
        if (ranks <= 4 || !RIG_SLOW)
            run(ranks, RIG_THREADS);
}

Test(direct_mix, of_works_between_processes, .timeout = 300)
{
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_MAX_CTAS", "2", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1); /* by mailbox, several steps */
    run(rig_ranks(2), RIG_PROCESSES);
    run(rig_ranks(5), RIG_PROCESSES);
    if (!RIG_SLOW) /* it does not see that a peer in another process answers between mapping and use */
        run(rig_ranks(6), RIG_PAIRS);
}

Test(direct_mix, of_works_of_sizes_that_choose_for_themselves, .timeout = 300)
{
    setenv("RONDO_EPOCH_START", "-40", 1);
    run(rig_ranks(3), RIG_PROCESSES);
}

/* The same with copy engines. */
Test(direct_mix, of_works_that_are_copied, .timeout = 300)
{
    if (!rig_on_host())
        return; /* GPUs make no copies yet */
    setenv("RONDO_CTA_POLICY", "2", 1);
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_MAX_CTAS", "3", 1);
    run(rig_ranks(2), RIG_THREADS);
    run(rig_ranks(4), RIG_THREADS);
    run(rig_ranks(3), RIG_PROCESSES);
}
