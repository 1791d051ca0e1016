/* The ring's order, when it puts less on slow pairs, and its launches: pure functions. */
#include "comm/ring.h"
#include "kernels/instances.h"
#include "plan/choose.h"
#include "plan/plan.h"
#include "plan/unpack.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* ---- islands ---- */

/* Costs of pairs of ranks whose islands these letters name: "aabb". */
static struct rondo_limits islands(const char *names, uint8_t *costs)
{
    struct rondo_limits limits = {.ranks = (unsigned)strlen(names)};
    for (unsigned s = 0; s < limits.ranks; s++)
        for (unsigned r = 0; r < limits.ranks; r++)
            costs[s * limits.ranks + r] = names[s] == names[r] ? RONDO_RING_DEVICE : RONDO_RING_HOST;
    rondo_ring_choose(&limits, costs);
    return limits;
}

static void check_order(const char *names, const char *expected)
{
    uint8_t costs[RONDO_MAX_RANKS * RONDO_MAX_RANKS];
    const struct rondo_limits limits = islands(names, costs);
    char order[RONDO_MAX_RANKS + 1] = "";
    for (unsigned p = 0; p < limits.ranks; p++) {
        order[p] = (char)('0' + limits.ring.ranks[p]);
        cr_expect_eq(limits.ring.places[limits.ring.ranks[p]], p);
    }
    cr_expect_str_eq(order, expected, "of %s", names);
}

Test(ring_choice, puts_ranks_of_an_island_side_by_side)
{
    check_order("aaaa", "0123");
    check_order("aabb", "0123");
    check_order("abab", "0213");
    check_order("abba", "0312");
    check_order("abcabc", "031425");
    check_order("abcd", "0123");
}

/* Links within a node before links of the node, before the others. */
Test(ring_choice, goes_on_to_the_rank_that_is_joined_best)
{
    enum { D = RONDO_RING_DEVICE, H = RONDO_RING_HOST, F = RONDO_RING_FAR };
    static const uint8_t costs[] = {D, F, H, F, /**/ F, D, F, H, /**/ H, F, D, D, /**/ F, H, D, D};
    struct rondo_limits limits = {.ranks = 4};
    rondo_ring_choose(&limits, costs);
    static const uint8_t expected[] = {0, 2, 3, 1};
    cr_expect(!memcmp(limits.ring.ranks, expected, sizeof expected));
}

/* A message of n parts, two islands of n/2: n^2/2 ordered pairs are slow. Reckoned by hand, see docs/decisions/0008. */
Test(ring_choice, reckons_what_crosses_slow_pairs)
{
    static const struct {
        const char *names;
        unsigned collective, width;
        uint64_t flat, ring;
    } cases[] = {
        {"aabb", RONDO_ALL_REDUCE, 1, 16, 4 + 4},      {"aabb", RONDO_ALL_REDUCE, 2, 16, 8 + 4},
        {"aabb", RONDO_ALL_REDUCE, 4, 16, 16 + 4},     {"aaaabbbb", RONDO_ALL_REDUCE, 1, 64, 8 + 8},
        {"aaaabbbb", RONDO_ALL_REDUCE, 4, 64, 32 + 8}, {"aabb", RONDO_REDUCE_SCATTER, 1, 8, 4 + 2},
        {"aabb", RONDO_REDUCE_SCATTER, 2, 8, 8 + 2},   {"aaaabbbb", RONDO_REDUCE_SCATTER, 2, 32, 16 + 4},
        {"aabb", RONDO_ALL_GATHER, 1, 8, 4},           {"aaaabbbb", RONDO_ALL_GATHER, 1, 32, 8},
        {"aabb", RONDO_BROADCAST, 1, 4 * 8, 4 * 4},    {"aabb", RONDO_REDUCE, 1, 5 * 8, 4 * 4 + 2 * 4},
        {"abab", RONDO_ALL_REDUCE, 1, 16, 3 * 4 + 4},  {"abab", RONDO_ALL_GATHER, 1, 8, 4},
        {"aaaa", RONDO_ALL_REDUCE, 1, 0, 0},
    };
    uint8_t costs[RONDO_MAX_RANKS * RONDO_MAX_RANKS];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rondo_limits limits = islands(cases[i].names, costs);
        cr_expect_eq(rondo_ring_flat_load(&limits, costs, cases[i].collective), cases[i].flat, "case %zu", i);
        cr_expect_eq(rondo_ring_load(&limits, costs, cases[i].collective, cases[i].width), cases[i].ring, "case %zu",
                     i);
    }
}

static unsigned widest(const char *names, unsigned collective)
{
    uint8_t costs[RONDO_MAX_RANKS * RONDO_MAX_RANKS];
    return islands(names, costs).ring_widest[collective];
}

Test(ring_choice, is_for_comms_that_have_fast_pairs_and_slow_ones)
{
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++) {
        cr_expect_eq(widest("aaaa", c), 0);
        cr_expect_eq(widest("abcd", c), 0, "all are slow alike");
        cr_expect_eq(widest("ab", c), 0);
        cr_expect_eq(widest("aaaabbbb", c) > 0, c != RONDO_ALL_TO_ALL);
    }
    cr_expect_eq(widest("aabb", RONDO_ALL_REDUCE), 2);
    cr_expect_eq(widest("aaaabbbb", RONDO_ALL_REDUCE), 4);
    cr_expect_eq(widest("aabb", RONDO_REDUCE_SCATTER), 1);
    cr_expect_eq(widest("abab", RONDO_ALL_REDUCE), 0, "sums go by rank, and every other pair is slow");
    cr_expect_gt(widest("abab", RONDO_BROADCAST), 0);
}

/* ---- launches ---- */

static struct rondo_limits limits_of(unsigned ranks, uint64_t half)
{
    struct rondo_limits limits = {.ranks = ranks,
                                  .line_bytes = 16,
                                  .min_channels = 1,
                                  .max_channels = 128,
                                  .max_threads = 512,
                                  .max_per_thread = 4,
                                  .forced_algo = RONDO_RING};
    memset(limits.bulk_from, 0xff, sizeof limits.bulk_from);
    rondo_limits_preset(&limits);
    rondo_limits_fit(&limits, half);
    return limits;
}

static void plan_next(const struct rondo_limits *limits, const struct rondo_task *task,
                      struct rondo_plan_launch *launch)
{
    struct rondo_group_plan plan = {.limits = limits, .tasks = task, .task_count = 1};
    memset(launch, 0, sizeof *launch);
    rondo_plan_begin(&plan);
    rondo_plan_next(&plan, launch);
}

static struct rondo_task task_of(unsigned collective, size_t count, unsigned dtype, unsigned redop)
{
    return (struct rondo_task){.send = (void *)0x10000,
                               .recv = (void *)0x20000,
                               .count = count,
                               .collective = (uint8_t)collective,
                               .dtype = (uint8_t)dtype,
                               .redop = (uint8_t)redop};
}

/* Its streams and tokens lie within a pair's slot, and its blocks are there. */
static void check_fit(const struct rondo_limits *limits, const struct rondo_plan_launch *launch)
{
    const struct rondo_work *work = &launch->args.ring.work;
    const uint64_t slot = limits->half_lines / (limits->ranks - 1),
                   bulk_slot = limits->bulk_lines / (limits->ranks - 1);
    const uint64_t tokens = rondo_ring_token_lines(work->collective, work->channels);
    const uint64_t lines = (uint64_t)rondo_ring_kinds(work->collective) * work->channels * RONDO_RING_DEPTH *
                           work->step_lines * rondo_ring_width(work->collective, work->dtype, work->redop);
    cr_assert_eq(work->algo, RONDO_RING);
    cr_assert_gt(work->step_lines, 0);
    cr_assert_leq(work->bulk ? tokens : tokens + lines, slot);
    cr_assert(!work->bulk || lines <= bulk_slot);
    cr_assert_eq(work->channels, launch->blocks);
    cr_assert_leq(launch->blocks, limits->max_channels);
    cr_assert_leq(launch->threads, limits->max_threads);
    cr_assert_eq(launch->steps, 1);
    cr_assert_eq(launch->args_bytes, rondo_kernel_args_bytes(RONDO_KERNEL_RING));
}

Test(ring_choice, plans_streams_that_fit_for_every_op_and_size)
{
    static const unsigned ranks[] = {2, 3, 4, 8, 16, 64};
    static const uint64_t halves[] = {64 << 10, 1 << 20, 8 << 20};
    size_t rings = 0, flat = 0;
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
        for (size_t h = 0; h < sizeof halves / sizeof *halves; h++)
            for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
                for (unsigned dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++)
                    for (uint64_t count = 1; count < 1ull << 38; count = count * 7 + 1) {
                        struct rondo_limits limits = limits_of(ranks[r], halves[h]);
                        struct rondo_plan_launch launch;
                        limits.bulk_from[c] = count % 3 ? 1 << 20 : UINT64_MAX;
                        limits.posts = count % 2;
                        limits.max_channels = 1 + (unsigned)(count % 128);
                        const struct rondo_task task = task_of(c, count, dtype, RONDO_AVG);
                        plan_next(&limits, &task, &launch);
                        if (launch.kernel == RONDO_KERNEL_RING)
                            check_fit(&limits, &launch);
                        rings += launch.kernel == RONDO_KERNEL_RING;
                        flat += launch.kernel != RONDO_KERNEL_RING && c != RONDO_ALL_TO_ALL && halves[h] > 64 << 10;
                    }
    cr_expect_gt(rings, 5000);
    cr_expect_eq(flat, 0, "%zu had no room in a megabyte", flat);
}

Test(ring_choice, gives_ranks_the_same_launch_wherever_their_buffers_are)
{
    struct rondo_limits limits = limits_of(4, 1 << 20);
    struct rondo_plan_launch here, there;
    limits.check = 1;
    struct rondo_task task = task_of(RONDO_ALL_REDUCE, 70000, RONDO_BF16, RONDO_SUM);
    plan_next(&limits, &task, &here);
    task.send = (const char *)task.send + 2;
    plan_next(&limits, &task, &there);
    struct rondo_work *a = &here.args.ring.work, *b = &there.args.ring.work;
    cr_expect(a->aligned && !b->aligned);
    a->send = b->send, a->aligned = b->aligned, a->words = b->words;
    cr_expect(!memcmp(&here, &there, sizeof here));
    cr_expect_neq(here.args.ring.head.signature, 0);
}

/* Partial results of sums of narrow floats are as wide as what they are added in. */
Test(ring_choice, is_by_the_width_of_partial_results)
{
    struct rondo_limits limits = limits_of(4, 1 << 20);
    limits.forced_algo = -1;
    limits.ring_from[RONDO_ALL_REDUCE] = 1000;
    static const struct {
        unsigned dtype, redop, width;
    } cases[] = {
        {RONDO_F32, RONDO_SUM, 1},  {RONDO_F64, RONDO_AVG, 1},  {RONDO_BF16, RONDO_SUM, 2}, {RONDO_F16, RONDO_MAX, 1},
        {RONDO_E4M3, RONDO_SUM, 4}, {RONDO_E5M2, RONDO_MIN, 1}, {RONDO_I8, RONDO_PROD, 1},  {RONDO_U8, RONDO_AVG, 4},
        {RONDO_I32, RONDO_SUM, 1},  {RONDO_U32, RONDO_AVG, 2},  {RONDO_I64, RONDO_AVG, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rondo_task task = task_of(RONDO_ALL_REDUCE, 1000, cases[i].dtype, cases[i].redop);
        cr_expect_eq(rondo_ring_width(RONDO_ALL_REDUCE, cases[i].dtype, cases[i].redop), cases[i].width, "case %zu", i);
        for (unsigned most = 0; most <= RONDO_RING_WIDEST; most++) {
            limits.ring_widest[RONDO_ALL_REDUCE] = (uint8_t)most;
            cr_expect_eq(rondo_choose_ring(&limits, &task, 1000), cases[i].width <= most, "case %zu, %u", i, most);
            cr_expect(!rondo_choose_ring(&limits, &task, 999));
        }
    }
}

/* Ranks of which one has messages and the other none run the same ring; and a group's messages come behind it. */
Test(ring_choice, leaves_messages_to_the_next_launch)
{
    const struct rondo_limits limits = limits_of(2, 1 << 20);
    const struct rondo_task task = task_of(RONDO_ALL_GATHER, 1000, RONDO_F32, RONDO_SUM);
    struct rondo_message message = {
        .buffer = (void *)0x30000, .bytes = 100, .kind = RONDO_SEND, .element = 4, .peer = 1};
    struct rondo_group_plan plan = {
        .limits = &limits, .tasks = &task, .task_count = 1, .messages = &message, .message_count = 1};
    struct rondo_plan_launch launch;
    struct rondo_unpacked unpacked;
    rondo_plan_begin(&plan);
    rondo_plan_next(&plan, &launch);
    cr_expect_eq(launch.kernel, RONDO_KERNEL_RING);
    rondo_unpack(launch.kernel, &launch.args, &unpacked);
    cr_expect(unpacked.work_count == 1 && unpacked.works->algo == RONDO_RING && !unpacked.barrier);
    cr_expect_eq(unpacked.transfer_count, 0);
    cr_expect(!rondo_plan_done(&plan));
    rondo_plan_next(&plan, &launch);
    cr_expect_eq(launch.messages, 1);
    cr_expect(rondo_plan_done(&plan));
}
