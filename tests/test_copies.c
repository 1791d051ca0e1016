/* Ops whose data copy engines move (RONDO_CTA_POLICY_ZERO): the same results as by kernels, whatever the op, and as many copies as
 * there are flows, no more and no less. Ends that are not in order are test_copies_ends's. */
#include "comm/comm.h"
#include "comm/exports.h"
#include "common/clock.h"
#include "kernels/copies.h"
#include "rondo/host.h"
#include "support/copied.h"
#include "support/faults.h"
#include "support/flicker.h"
#include "transport/mover.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(copies, .init = copied_init, .timeout = 300);

static const enum item_kind kinds[] = {ITEM_ALL_GATHER, ITEM_ALL_TO_ALL, ITEM_BROADCAST,   ITEM_GATHER,
                                       ITEM_SCATTER,    ITEM_MESSAGES,   ITEM_ALL_TO_ALLV, ITEM_ALL_GATHERV};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* How an item is: in place, of an odd length, at an odd place. */
enum variant { PLAIN, IN_PLACE, ODD, ODD_PLACE, VARIANTS };

/* Every rank has something for some, and for itself. */
static struct item item_of(enum item_kind kind, enum variant variant, int ranks)
{
    struct item item = {.kind = kind, .type = rondoFloat32, .count = 20000, .shift = (size_t)kind, .root = ranks - 1};
    item.in_place = variant == IN_PLACE && kind != ITEM_MESSAGES && kind != ITEM_ALL_TO_ALLV;
    if (variant >= ODD) {
        item.type = rondoUint8;
        item.count = 80003;
        item.root = 0;
    }
    item.offset = variant == ODD_PLACE ? 3 : 0;
    item.messages = 5;
    for (size_t m = 0; m < item.messages; m++) { /* two to the next rank, one within, and one back */
        item.from[m] = m < 4 ? 0 : 1;
        item.to[m] = m < 2 ? 1 : m == 4 ? 0 : (int)(m - 2) % ranks;
        item.lengths[m] = m == 3 ? 0 : item.count + m;
    }
    for (int s = 0; s < ranks; s++)
        for (int r = 0; r < ranks; r++)
            item.counts[s][r] = (kind == ITEM_ALL_GATHERV ? s == 1 && ranks > 2 : (s + r) % 3 == 1)
                                    ? 0
                                    : item.count + (size_t)(s * 5 + r);
    return item;
}

/* ---- results ---- */

static int every_op(struct rig *rig)
{
    for (int k = 0; k < KINDS; k++)
        for (int variant = 0; variant < VARIANTS; variant++) {
            struct item item = item_of(kinds[k], (enum variant)variant, rig->ranks);
            item_prepare(&item, rig);
            int failed = copied_rounds(&item, rig, NULL);
            if (!failed) {
                struct machine_graph *graph = copied_capture(&item, rig);
                failed = copied_rounds(&item, rig, graph);
                rig->machine->graph_destroy(graph);
            }
            item_free(&item, rig);
            if (failed)
                return 1;
        }
    return 0;
}

static int on_shared_memory(struct rig *rig, rig_body body)
{
    copied_begin(rig);
    const int failed = body(rig);
    copied_end(rig);
    return failed || rig_barrier(rig); /* who has left answers no letters */
}

static int moved(struct rig *rig)
{
    return on_shared_memory(rig, every_op);
}

/* By engines that take up to 5 ms for a copy, each its own. */
static int moved_late(struct rig *rig)
{
    faults_install();
    __atomic_store_n(&faults.copy_delay_us, 5000, __ATOMIC_RELAXED);
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    if (moved(rig))
        return 1;
    RIG_OK(rondoCommDestroy(rig->comm));
    return 0;
}

Test(copies, move_what_kernels_would_between_threads)
{
    for (int ranks = 2; ranks <= 5; ranks++)
        if (rig_runs_with(ranks))
            cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = RIG_THREADS}, moved), 0);
}

Test(copies, move_what_kernels_would_between_processes)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, moved), 0);
    if (rig_runs_with(3))
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3}, moved), 0);
}

Test(copies, move_what_kernels_would_in_launches_of_many_blocks, .timeout = 400)
{
    setenv("RONDO_MAX_CTAS", "7", 1);
    setenv("RONDO_EPOCH_START", "-40", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS}, moved), 0);
}

Test(copies, take_their_time_and_end_in_any_order)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true, .apart = true}, moved_late), 0);
}

/* Numbers of requests wrap. */
static int wrapping(struct rig *rig)
{
    const struct rondoComm *comm = rig->comm;
    const uint32_t number = UINT32_MAX - 2;
    struct item item = item_of(ITEM_ALL_GATHER, PLAIN, rig->ranks);
    copied_begin(rig);
    for (unsigned lane = 0; lane < comm->anchor->lanes; lane++)
        for (unsigned r = 0; r < (unsigned)rig->ranks; r++) {
            struct rondo_copy *copy = rondo_lane_copy(&comm->limits, comm->anchor->copies.host, lane, r);
            struct rondo_copies *copies = comm->lanes[lane].args.copies;
            __atomic_store_n(&copy->taken, number, __ATOMIC_SEQ_CST);
            __atomic_store_n(&copy->number, number, __ATOMIC_SEQ_CST);
            RIG_OK(comm->ops->write(comm->device, &copies->numbers[r], &number, sizeof number));
        }
    usleep(20000); /* what the thread saw between the two is over: it took a request of no bytes */
    const uint64_t before = copied_count(rig);
    item_prepare(&item, rig);
    if (copied_rounds(&item, rig, NULL) || copied_rounds(&item, rig, NULL))
        return 1;
    RIG_CHECK(copied_count(rig) - before >= 8 * (unsigned)(rig->ranks - 1), "too few to wrap");
    item_free(&item, rig);
    copied_end(rig);
    return rig_barrier(rig);
}

Test(copies, have_numbers_that_wrap)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS}, wrapping), 0);
}

/* What cannot be copied, for its peers do not reach it, is right too; nor is anything copied that is reduced. */
static int by_mailbox(struct rig *rig)
{
    for (int k = 0; k < KINDS; k++) {
        struct item item = item_of(kinds[k], PLAIN, rig->ranks);
        uint64_t copies;
        item_prepare(&item, rig);
        if (copied_round(&item, rig, NULL, &copies) || copied_round(&item, rig, NULL, &copies))
            return 1;
        if (kinds[k] == ITEM_ALL_GATHER || kinds[k] == ITEM_ALL_TO_ALL || kinds[k] == ITEM_BROADCAST)
            RIG_CHECK(copies == 0, "kind %d: %llu copies", (int)kinds[k], (unsigned long long)copies);
        item_free(&item, rig);
    }
    return 0;
}

static int reduced(struct rig *rig)
{
    static const enum item_kind reductions[] = {ITEM_ALL_REDUCE, ITEM_REDUCE_SCATTER, ITEM_REDUCE};
    for (int k = 0; k < 3; k++) {
        struct item item = item_of(reductions[k], PLAIN, rig->ranks);
        item_prepare(&item, rig);
        if (copied_rounds(&item, rig, NULL))
            return 1;
        item_free(&item, rig);
    }
    return 0;
}

static int not_moved(struct rig *rig)
{
    return by_mailbox(rig) || on_shared_memory(rig, reduced);
}

Test(copies, are_not_made_of_unknown_memory_nor_of_reductions)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS}, not_moved), 0);
}

/* ---- kernels do not store ---- */

/* While the engines of all ranks stand still, nothing comes from peers, and no op ends. */
static int held_up(struct rig *rig)
{
    faults_install();
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    copied_begin(rig);
    for (int k = 0; k < KINDS; k++) {
        struct item item = item_of(kinds[k], PLAIN, rig->ranks);
        item_prepare(&item, rig);
        if (copied_rounds(&item, rig, NULL))
            return 1;
        char *got = malloc(item.bytes);
        item_fill(&item, rig);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        __atomic_store_n(&faults.stalled, 1, __ATOMIC_SEQ_CST);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        const uint64_t before = copied_count(rig);
        RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
        usleep(150000);
        const bool given = copied_count(rig) != before;
        rig->machine->download(got, item.memory, item.bytes);
        size_t stored = 0;
        for (size_t i = 0; i < item.bytes; i++)
            stored += got[i] != item.before[i];
        RIG_CHECK(stored <= item_kept(&item, rig->rank), "kind %d: %zu bytes were stored", (int)kinds[k], stored);
        RIG_CHECK(!given || !rig->machine->stream_done(rig->stream), "kind %d: it ended before its copies",
                  (int)kinds[k]);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        __atomic_store_n(&faults.stalled, 0, __ATOMIC_SEQ_CST);
        rig->machine->stream_sync(rig->stream);
        if (item_check(&item, rig))
            return 1;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        free(got);
        item_free(&item, rig);
    }
    copied_end(rig);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    RIG_OK(rondoCommDestroy(rig->comm));
    return 0;
}

Test(copies, are_all_that_moves_the_data)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true, .apart = true}, held_up), 0);
}

/* ---- memory that comes and goes while kernels run ---- */

static int flickering(struct rig *rig)
{
    copied_begin(rig);
    for (int k = 0; k < KINDS; k++) {
        struct item item = item_of(kinds[k], k % 2 ? PLAIN : IN_PLACE, rig->ranks);
        struct flicker f;
        uint64_t copies;
        item_prepare(&item, rig);
        struct machine_graph *graph = copied_capture(&item, rig);
        if (copied_rounds(&item, rig, graph))
            return 1;
        flicker_begin(&f, rig);
        int failed = 0;
        for (int round = 0; round < (RIG_SLOW ? 6 : 30) && !failed; round++)
            failed = copied_round(&item, rig, graph, &copies);
        flicker_end(&f);
        rig->machine->graph_destroy(graph);
        item_free(&item, rig);
        if (failed)
            return 1;
    }
    copied_end(rig);
    return rig_barrier(rig);
}

Test(copies, are_made_of_a_whole_launch_or_of_nothing)
{
    setenv("RONDO_MAX_CTAS", "7", 1);
    for (int ranks = 2; ranks <= 4; ranks++)
        if (rig_runs_with(ranks))
            cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = RIG_THREADS}, flickering), 0);
}

/* ---- beside other ops ---- */

/* In one group: an all-gather, messages, and, in a second round, a reduction too, which makes it a batch. On several lanes at once. */
static int grouped(struct rig *rig)
{
    struct item items[3] = {item_of(ITEM_ALL_GATHER, PLAIN, rig->ranks), item_of(ITEM_MESSAGES, ODD, rig->ranks),
                            item_of(ITEM_ALL_REDUCE, PLAIN, rig->ranks)};
    struct CUstream_st *beside = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    copied_begin(rig);
    for (int count = 2; count <= 3; count++) {
        for (int i = 0; i < count; i++)
            item_prepare(&items[i], rig);
        rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        RIG_OK(rondoGroupStart());
        for (int i = 0; i < count; i++)
            RIG_OK(item_issue(&items[i], rig, rig->comm, rig->stream));
        RIG_OK(rondoGroupEnd());
        struct machine_graph *graph = rig->machine->capture_end(rig->stream);
        struct item eager = item_of(ITEM_BROADCAST, ODD, rig->ranks);
        item_prepare(&eager, rig);
        if (copied_rounds(&eager, rig, NULL))
            return 1;
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < count; i++)
                item_fill(&items[i], rig);
            item_fill(&eager, rig);
            RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
            for (int i = 0; i < 2; i++) { /* not in the same order on all ranks */
                if (i == (rig->rank & 1))
                    rig->machine->graph_launch(graph, rig->stream);
                else
                    RIG_OK(item_issue(&eager, rig, rig->comm, beside));
            }
            rig->machine->stream_sync(rig->stream);
            rig->machine->stream_sync(beside);
            for (int i = 0; i < count; i++)
                if (item_check(&items[i], rig))
                    return 1;
            if (item_check(&eager, rig))
                return 1;
            RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        }
        rig->machine->graph_destroy(graph);
        item_free(&eager, rig);
        for (int i = 0; i < count; i++)
            item_free(&items[i], rig);
    }
    copied_end(rig);
    rig->machine->stream_destroy(beside);
    return rig_barrier(rig);
}

Test(copies, go_along_with_other_ops)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, grouped), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS}, grouped), 0);
}

/* A loop's body: the op, and a step that ends the loop after so many. */
struct loop {
    rondoHostConditional_t more;
    int left;
};

static void count_down(void *argument)
{
    struct loop *loop = argument;
    rondoHostSetConditional(loop->more, --loop->left > 0);
}

static int looped(struct rig *rig)
{
    enum { STEPS = 5 };
    const uint64_t start = rondo_now_ns();
    struct item item = item_of(ITEM_ALL_GATHER, PLAIN, rig->ranks);
    struct loop loop = {.left = 0};
    rondoHostGraph_t graph, body, ended;
    rondoHostGraphExec_t exec;
    uint64_t copies = 0;
    copied_begin(rig);
    item_prepare(&item, rig);
    RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
    RIG_OK(rondoHostStreamGetCaptureGraph(rig->stream, &graph));
    RIG_OK(rondoHostConditionalCreate(&loop.more, graph, 1));
    RIG_OK(rondoHostStreamAddConditional(rig->stream, loop.more, rondoHostWhile, &body, 1));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &ended));
    RIG_OK(rondoHostStreamBeginCaptureToGraph(rig->stream, body, NULL, 0, rondoHostCaptureThreadLocal));
    RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
    RIG_OK(rondoHostLaunch(count_down, &loop, rig->stream));
    RIG_OK(rondoHostStreamEndCapture(rig->stream, &ended));
    RIG_OK(rondoHostGraphInstantiate(&exec, graph));
    const uint64_t expected = STEPS * copied_expected(&item, rig->ranks);
    while (copies != expected) { /* all ranks see the same number */
        RIG_CHECK(since_ms(start) < 20000, "%llu copies", (unsigned long long)copies);
        loop.left = STEPS;
        if (copied_round(&item, rig, (struct machine_graph *)(void *)exec, &copies))
            return 1;
        RIG_CHECK(loop.left == 0, "%d steps are left", loop.left);
    }
    RIG_OK(rondoHostGraphExecDestroy(exec));
    RIG_OK(rondoHostGraphDestroy(graph));
    item_free(&item, rig);
    copied_end(rig);
    return rig_barrier(rig);
}

Test(copies, are_made_in_the_body_of_a_loop)
{
    if (!rig_on_host())
        cr_skip_test("the loop is the host device's");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, looped), 0);
}

/* ---- what chooses them ---- */

static int chosen(struct rig *rig)
{
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    static const char *const ops[] = {"all_gather", "all_to_all", "broadcast", "send", "gather", "all_to_allv"};
    for (int o = 0; o < 6; o++) {
        RIG_OK(rondoCommExplain(rig->comm, ops[o], 1 << 24, rondoFloat, rondoSum, &choice));
        RIG_CHECK(strstr(choice.why, "copy engines"), "%s: %s", ops[o], choice.why);
        RIG_CHECK(strncmp(choice.protocol, "copy/", 5) == 0, "%s: %s", ops[o], choice.protocol);
        RIG_OK(rondoCommExplain(rig->comm, ops[o], 1000, rondoFloat, rondoSum, &choice));
        RIG_CHECK(strncmp(choice.protocol, "copy/", 5) != 0, "%s: %s", ops[o], choice.protocol);
    }
    RIG_OK(rondoCommExplain(rig->comm, "all_reduce", 1 << 24, rondoFloat, rondoSum, &choice));
    RIG_CHECK(strstr(choice.protocol, "copy") == NULL, "%s", choice.protocol);
    return rig_barrier(rig);
}

Test(copies, are_chosen_by_size_and_told_of)
{
    unsetenv("RONDO_PROTO");
    unsetenv("RONDO_ALGO");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, chosen), 0);
}

static int described(struct rig *rig)
{
    struct item item = item_of(ITEM_ALL_GATHER, PLAIN, rig->ranks);
    void *source;
    char text[4096];
    copied_begin(rig);
    item_prepare(&item, rig);
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
    struct machine_graph *graph = rig->machine->capture_end_with(rig->stream, &source);
    for (int format = rondoDescribeText; format <= rondoDescribeJson; format++) {
        size_t bytes = sizeof text;
        RIG_OK(rondoGraphDescribe(source, (rondoDescribeFormat_t)format, text, &bytes));
        RIG_CHECK(strstr(text, "copy/line") || strstr(text, "copy/bulk"), "%s", text);
        RIG_CHECK(strstr(text, format == rondoDescribeText ? "1 node: 1 kernel of Rondo's" : "\"nodes\": 1,"), "%s",
                  text);
    }
    rig->machine->graph_destroy(graph);
    rig->machine->source_destroy(source);
    item_free(&item, rig);
    copied_end(rig);
    return rig_barrier(rig);
}

Test(copies, are_described_as_such_and_captured_as_one_node)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, described), 0);
}

static int without(struct rig *rig)
{
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    RIG_CHECK(!rig->comm->mover && !rig->comm->limits.copies, "there is a thread for copies");
    RIG_OK(rondoCommExplain(rig->comm, "all_gather", 1 << 24, rondoFloat, rondoSum, &choice));
    RIG_CHECK(strstr(choice.protocol, "copy") == NULL && strstr(choice.why, "copy engines") == NULL, "%s",
              choice.protocol);
    return rig_barrier(rig);
}

Test(copies, are_not_prepared_for_where_nothing_asks_for_them)
{
    setenv("RONDO_CTA_POLICY", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, without), 0);
}

Test(copies, are_not_prepared_for_where_ranks_do_not_reach_each_other)
{
    setenv("RONDO_P2P_DISABLE", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, without), 0);
}

static int disagreeing(struct rig *rig)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.ctaPolicy = rig->rank == 1 ? RONDO_CTA_POLICY_ZERO : RONDO_CTA_POLICY_EFFICIENCY;
    RIG_REFUSED(rondoInvalidArgument, "ctaPolicy: 2 on rank 1, 1 on rank 0",
                rondoCommInitRankConfig(&rig->comm, rig->ranks, rig->ids[1], rig->rank, &config));
    return 0;
}

Test(copies, are_made_by_all_ranks_or_by_none)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true}, disagreeing), 0);
}
