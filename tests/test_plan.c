/* Plans as pure data: no device, no comm. */
#include "comm/lane.h"
#include "comm/limits.h"
#include "plan/plan.h"

#include "kernels/instances.h"
#include "plan/choose.h"
#include "support/draw.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct rondo_limits gpu_limits(unsigned ranks)
{
    struct rondo_limits limits = {.ranks = ranks,
                                  .lanes = 2,
                                  .line_bytes = 16,
                                  .min_channels = 1,
                                  .max_channels = 128,
                                  .max_threads = 512,
                                  .lean_threads = 512,
                                  .kernel_threads = 512,
                                  .max_per_thread = 4,
                                  .half_lines = 8192 * 32,
                                  .bulk_lines = 8192 * 64,
                                  .bulk_from = {4 << 20, 4 << 20, 4 << 20, 4 << 20, 4 << 20, 4 << 20},
                                  .fifo_lines = 4096,
                                  .fifo_channels = 16,
                                  .forced_algo = -1};
    rondo_limits_preset(&limits);
    return limits;
}

static struct rondo_task task_of(size_t count, unsigned dtype)
{
    return (struct rondo_task){.send = (void *)0x10000,
                               .recv = (void *)0x20000,
                               .count = count,
                               .collective = RONDO_ALL_REDUCE,
                               .dtype = (uint8_t)dtype,
                               .redop = RONDO_SUM};
}

/* The next launch of tasks alone. */
static void plan_next(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                      struct rondo_plan_launch *launch)
{
    struct rondo_group_plan plan = {.limits = limits, .tasks = tasks, .task_count = count};
    rondo_plan_begin(&plan);
    rondo_plan_next(&plan, launch);
}

static struct rondo_work *work_of(struct rondo_plan_launch *launch, unsigned w)
{
    struct rondo_batch_head *head = &launch->args.batch.head;
    if (launch->kernel < RONDO_KERNEL_GROUPS)
        return &launch->args.single.work;
    return (struct rondo_work *)((char *)head + head->works_at) + w;
}

static struct rondo_channel_works channel_of(const struct rondo_plan_launch *launch, unsigned c)
{
    const struct rondo_batch_head *head = &launch->args.batch.head;
    return ((const struct rondo_channel_works *)((const char *)head + head->channels_at))[c];
}

static uint64_t slots(const struct rondo_limits *limits, const struct rondo_work *work)
{
    return (uint64_t)(limits->ranks - 1) * (work->algo == RONDO_TWO_SHOT ? 2 : 1);
}

static bool is_lean(const struct rondo_plan_launch *launch)
{
    return launch->kernel >= RONDO_KERNEL_LEANS && launch->kernel < RONDO_KERNEL_GROUPS;
}

/* What must hold of every work: it fits into the mailbox, its steps cover it, its channels are there. */
static void check_work(const struct rondo_limits *limits, const struct rondo_plan_launch *launch,
                       const struct rondo_work *work)
{
    const uint64_t shards = work->algo == RONDO_TWO_SHOT ? limits->ranks : 1;
    cr_assert_leq(work->line0 + slots(limits, work) * work->step_lines,
                  work->bulk ? limits->bulk_lines : limits->half_lines);
    cr_assert_eq(work->bulk,
                 launch->works == 1 && limits->ranks > 1 && work->bytes >= limits->bulk_from[work->collective]);
    cr_assert_geq((uint64_t)work->steps * work->step_lines, work->span);
    cr_assert_geq(work->span * shards * limits->line_bytes, work->bytes);
    cr_assert_gt(work->channels, 0);
    cr_assert_leq(work->channel0 + work->channels, launch->blocks);
    cr_assert_leq(launch->blocks, limits->max_channels);
    cr_assert_leq(launch->threads, is_lean(launch) ? limits->lean_threads : limits->max_threads);
    if (work->steps > 1 && work->algo == RONDO_TWO_SHOT && limits->half_lines >= 2 * limits->ranks * limits->ranks)
        cr_assert_geq(work->step_lines, limits->ranks);
    if (work->steps > 1)
        cr_assert_eq(work->step_lines % (work->channels * launch->threads), 0);
}

/* Whatever has all blocks that it may have leaves room for another one like it, on devices with that many multiprocessors. */
Test(plan, leaves_room_for_two_launches)
{
    static const unsigned processors[] = {132, 108, 148, 78, 66, 46, 20};
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++)
        for (unsigned channels = 1; channels <= processors[i] && channels <= RONDO_MAX_CHANNELS; channels++) {
            struct rondo_limits limits = {.max_channels = channels, .max_threads = 512, .kernel_threads = 512};
            rondo_limits_share(&limits, processors[i]);
            const unsigned in_a_processor = 65536 / RONDO_MAX_REGISTERS / limits.max_threads;
            const unsigned leans = 65536 / RONDO_LEAN_REGISTERS / limits.lean_threads;
            cr_assert(2 * channels <= processors[i] * in_a_processor, "%u blocks of %u threads on %u processors",
                      channels, limits.max_threads, processors[i]);
            cr_assert(2 * channels <= processors[i] * leans, "%u lean blocks of %u threads on %u processors", channels,
                      limits.lean_threads, processors[i]);
            cr_assert_geq(limits.lean_threads, limits.max_threads);
            /* Fault: on small devices, launches that came in pairs took all of it. */
            cr_assert(4 * limits.large <= processors[i] * 512 && limits.large <= RONDO_LARGE_LAUNCH_THREADS);
            cr_assert(limits.max_threads == 512 || 4 * limits.max_threads * channels > processors[i] * 512,
                      "%u blocks of %u threads could have more on %u processors", channels, limits.max_threads,
                      processors[i]);
            cr_assert_eq(limits.max_threads * limits.max_per_thread, 2048);
        }
}

/* With messages, too: they come behind what would leave none together with them. */
Test(plan, leaves_room_for_two_launches_with_messages)
{
    static const unsigned ranks[] = {2, 4, 8};
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
        for (size_t count = 1; count < 64 << 20; count *= 2) {
            struct rondo_limits limits = gpu_limits(ranks[r]);
            struct rondo_plan_launch launch;
            struct rondo_task task = task_of(count, RONDO_F32);
            struct rondo_message messages[2 * 8];
            size_t number = 0;
            unsigned works = 0, taken = 0;
            rondo_limits_share(&limits, 132);
            rondo_limits_fit(&limits, 8 << 20);
            for (unsigned p = 1; p < ranks[r]; p++)
                for (unsigned kind = RONDO_SEND; kind <= RONDO_RECV; kind++)
                    messages[number++] = (struct rondo_message){.kind = (uint8_t)kind,
                                                                .peer = (uint16_t)p,
                                                                .buffer = (void *)0x100000,
                                                                .bytes = count * 4,
                                                                .element = 4};
            struct rondo_group_plan plan = {
                .limits = &limits, .tasks = &task, .task_count = 1, .messages = messages, .message_count = number};
            rondo_plan_begin(&plan);
            while (!rondo_plan_done(&plan)) {
                rondo_plan_next(&plan, &launch);
                works += launch.works;
                taken += launch.messages;
                const bool lean = is_lean(&launch) || launch.kernel == RONDO_KERNEL_TRANSFERS_LEAN;
                const unsigned registers = lean ? RONDO_LEAN_REGISTERS : RONDO_MAX_REGISTERS;
                cr_assert_leq(2 * launch.blocks * launch.threads * registers, 132 * 65536,
                              "%u blocks of %u threads, %zu elements", launch.blocks, launch.threads, count);
            }
            cr_assert_eq(works, 1);
            cr_assert_eq(taken, number);
        }
}

static void check_room(const struct rondo_plan_launch *launch, unsigned ranks, size_t bytes, unsigned half_kib)
{
    const bool lean = is_lean(launch) || launch->kernel == RONDO_KERNEL_TRANSFERS_LEAN;
    const unsigned registers = lean ? RONDO_LEAN_REGISTERS : RONDO_MAX_REGISTERS;
    cr_assert_leq(2 * launch->blocks * launch->threads * registers, 132 * 65536,
                  "%u blocks of %u threads of kernel %u: %u ranks, %zu bytes, %u KiB", launch->blocks, launch->threads,
                  launch->kernel, ranks, bytes, half_kib);
    cr_assert_leq(launch->args_bytes, rondo_kernel_args_bytes(launch->kernel), "%u ranks, %zu bytes", ranks, bytes);
}

/* Messages alone, to all ranks and within this one; and works in mailboxes of any size, which may have to do with less than a line a
 * thread at once. */
Test(plan, leaves_room_for_two_launches_of_any_kind)
{
    static const unsigned ranks[] = {2, 3, 4, 8, 16, 32};
    static const unsigned halves_kib[] = {512, 2048, 4096, 6144, 8192};
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
        for (size_t h = 0; h < sizeof halves_kib / sizeof *halves_kib; h++)
            for (size_t bytes = 16; bytes < 4 << 20; bytes += bytes / 7 / 16 * 16 + 16) {
                struct rondo_limits limits = gpu_limits(ranks[r]);
                struct rondo_message messages[2 * 32 + 1];
                struct rondo_plan_launch launch;
                size_t number = 0;
                rondo_limits_share(&limits, 132);
                rondo_limits_fit(&limits, halves_kib[h] << 10);
                limits.messages_direct_from = limits.messages_copied_from = UINT64_MAX;
                for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
                    limits.bulk_from[c] = limits.direct_from[c] = limits.copied_from[c] = UINT64_MAX;
                for (unsigned p = 0; p < ranks[r]; p++)
                    for (unsigned kind = RONDO_SEND; kind <= RONDO_RECV; kind++)
                        if (p || kind == RONDO_SEND)
                            messages[number++] = (struct rondo_message){.kind = (uint8_t)(p ? kind : RONDO_COPY),
                                                                        .peer = (uint16_t)p,
                                                                        .buffer = (void *)0x100000,
                                                                        .from = p ? NULL : (const void *)0x200000,
                                                                        .bytes = bytes,
                                                                        .element = 4};
                struct rondo_group_plan plan = {.limits = &limits, .messages = messages, .message_count = number};
                for (rondo_plan_begin(&plan); !rondo_plan_done(&plan);) {
                    rondo_plan_next(&plan, &launch);
                    check_room(&launch, ranks[r], bytes, halves_kib[h]);
                }
                for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++) {
                    struct rondo_task task = task_of(bytes / 4, RONDO_F32);
                    task.collective = (uint8_t)c;
                    plan_next(&limits, &task, 1, &launch);
                    check_room(&launch, ranks[r], bytes, halves_kib[h]);
                }
            }
}

Test(plan, covers_any_size_within_the_mailbox)
{
    static const unsigned ranks[] = {1, 2, 3, 4, 8, 16, 64};
    static const uint32_t halves[] = {4096, 65536, 524288};
    for (size_t r = 0; r < 7; r++)
        for (size_t h = 0; h < 3; h++)
            for (int algo = -1; algo <= RONDO_TWO_SHOT; algo++) /* rings: test_ring_choice */
                for (uint64_t count = 1; count < 1ull << 40; count = count * 7 + 1) {
                    struct rondo_limits limits = gpu_limits(ranks[r]);
                    struct rondo_plan_launch launch;
                    limits.half_lines = halves[h];
                    limits.bulk_lines = 2 * halves[h];
                    limits.bulk_from[RONDO_ALL_REDUCE] = count % 2 ? UINT64_MAX : count % 5 ? 1 : 4 << 20;
                    limits.forced_algo = algo;
                    limits.max_channels = 1 + (unsigned)(count % 128);
                    limits.forced_threads = count % 3 ? 0 : 1;
                    const struct rondo_task task = task_of(count, RONDO_BF16);
                    plan_next(&limits, &task, 1, &launch);
                    const struct rondo_work *work = work_of(&launch, 0);
                    cr_assert_eq(launch.works, 1);
                    cr_assert_eq(launch.steps, work->steps);
                    cr_assert_eq(work->bytes, count * 2);
                    check_work(&limits, &launch, work);
                }
}

Test(plan, puts_a_group_of_small_ops_into_one_launch)
{
    struct rondo_limits limits = gpu_limits(4);
    struct rondo_task tasks[32];
    struct rondo_plan_launch launch;
    for (int i = 0; i < 32; i++)
        tasks[i] = task_of(2048, RONDO_F32);
    plan_next(&limits, tasks, 32, &launch);
    cr_assert_eq(launch.works, 32);
    cr_assert_eq(launch.steps, 1);
    cr_assert_eq(launch.kernel, RONDO_KERNEL_all_reduce_group_F32);
}

Test(plan, lays_the_works_of_a_batch_side_by_side)
{
    struct draw dice = {5};
    for (int round = 0; round < 2000; round++) {
        struct rondo_limits limits = gpu_limits(2 + draw_below(&dice, 7));
        struct rondo_task tasks[100];
        struct rondo_plan_launch launch;
        const size_t count = 2 + draw_below(&dice, 99);
        limits.max_channels = 1 + draw_below(&dice, 128);
        limits.half_lines = 4096u << draw_below(&dice, 7);
        limits.bulk_lines = 2 * limits.half_lines;
        for (size_t i = 0; i < count; i++) {
            const size_t size = 1 + draw_below(&dice, 1u << draw_below(&dice, 18));
            tasks[i] = task_of(size, draw_below(&dice, RONDO_DTYPE_COUNT));
        }
        for (size_t done = 0; done < count; done += launch.works) {
            plan_next(&limits, tasks + done, count - done, &launch);
            cr_assert_gt(launch.works, 0);
            if (launch.works == 1) {
                check_work(&limits, &launch, work_of(&launch, 0));
                continue;
            }
            uint64_t next = 0;
            for (unsigned w = 0; w < launch.works; w++) {
                const struct rondo_work *work = work_of(&launch, w);
                check_work(&limits, &launch, work);
                cr_assert_eq(work->line0, next);
                cr_assert_eq(work->steps, 1);
                next = work->line0 + slots(&limits, work) * work->step_lines;
                for (unsigned c = work->channel0; c < work->channel0 + work->channels; c++)
                    cr_assert(channel_of(&launch, c).first <= w && w <= channel_of(&launch, c).last);
            }
            for (unsigned c = 0; c < launch.blocks; c++) /* no channel runs what is another's */
                for (unsigned w = channel_of(&launch, c).first; w <= channel_of(&launch, c).last; w++) {
                    const struct rondo_work *work = work_of(&launch, w);
                    cr_assert(work->channel0 <= c && c < work->channel0 + work->channels);
                }
        }
    }
}

/* What rondo_lean_group goes by: a block's threads have a line of its works each, from where the first of them stands. */
static void check_lean(const struct rondo_plan_launch *launch, const struct rondo_work *works)
{
    uint64_t had[RONDO_BATCH_WORKS] = {0};
    for (unsigned b = 0; b < launch->blocks; b++)
        for (unsigned t = 0; t < launch->threads; t++) {
            unsigned w = channel_of(launch, b).first;
            uint64_t i = (uint64_t)(b - works[w].channel0) * launch->threads + t;
            for (; w < channel_of(launch, b).last && i >= works[w].span; w++)
                i -= works[w].span;
            had[w] += i < works[w].span;
        }
    for (unsigned w = 0; w < launch->works; w++)
        cr_assert_eq(had[w], works[w].span, "work %u of %u: %llu of %llu lines", w, launch->works,
                     (unsigned long long)had[w], (unsigned long long)works[w].span);
}

Test(plan, gives_a_thread_to_each_line_of_a_group_of_one_line_a_thread)
{
    struct draw dice = {7};
    unsigned lean = 0;
    for (int round = 0; round < 20000; round++) {
        struct rondo_limits limits = gpu_limits(2u << draw_below(&dice, 3));
        struct rondo_task tasks[RONDO_BATCH_WORKS];
        struct rondo_plan_launch launch;
        const size_t count = 2 + draw_below(&dice, RONDO_BATCH_WORKS - 1);
        const unsigned bits = 4 + draw_below(&dice, 13);
        limits.max_channels = round % 2 ? 128 : 1 + draw_below(&dice, 128);
        for (size_t i = 0; i < count; i++)
            tasks[i] = task_of(1 + draw_below(&dice, 1u << draw_below(&dice, bits)), RONDO_F32);
        plan_next(&limits, tasks, count, &launch);
        if (launch.kernel != RONDO_KERNEL_all_reduce_group_F32)
            continue;
        check_lean(&launch, work_of(&launch, 0));
        lean++;
    }
    cr_assert_gt(lean, 1000);
}

Test(plan, does_not_depend_on_where_the_buffers_are)
{
    struct rondo_limits limits = gpu_limits(4);
    struct rondo_plan_launch here, there;
    struct rondo_task a[3] = {task_of(5, RONDO_F16), task_of(70000, RONDO_F32), task_of(100, RONDO_I8)}, b[3];
    memcpy(b, a, sizeof b);
    for (int i = 0; i < 3; i++)
        b[i].send = (const char *)b[i].send + 8, b[i].recv = (char *)b[i].recv + 40;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    plan_next(&limits, a, 3, &here);
    plan_next(&limits, b, 3, &there);
    for (unsigned w = 0; w < here.works; w++) {
        struct rondo_work *x = work_of(&here, w), *y = work_of(&there, w);
        cr_assert_eq(x->aligned, 1);
        cr_assert_eq(y->aligned, 0);
        x->send = y->send, x->recv = y->recv, x->aligned = y->aligned;
    }
    cr_assert(!memcmp(&here, &there, sizeof here));
}

Test(plan, prefers_one_shot_for_small_messages_and_two_ranks)
{
    const struct rondo_limits two = gpu_limits(2), four = gpu_limits(4), eight = gpu_limits(8);
    cr_assert_eq(rondo_choose_algo(&two, RONDO_ALL_REDUCE, 1 << 20), RONDO_ONE_SHOT);
    cr_assert_eq(rondo_choose_algo(&four, RONDO_ALL_REDUCE, 256 << 10), RONDO_ONE_SHOT);
    cr_assert_eq(rondo_choose_algo(&four, RONDO_ALL_REDUCE, 512 << 10), RONDO_TWO_SHOT);
    cr_assert_eq(rondo_choose_algo(&eight, RONDO_ALL_REDUCE, 128 << 10), RONDO_ONE_SHOT);
    cr_assert_eq(rondo_choose_algo(&eight, RONDO_ALL_REDUCE, 256 << 10), RONDO_TWO_SHOT);
}

/* docs/eight-gpus.md: 0.7 to 1.0 us more for two-shot to make up for. */
Test(plan, stays_one_shot_longer_where_that_has_a_lean_kernel)
{
    uint64_t from[10];
    for (unsigned ranks = 2; ranks < 10; ranks++)
        from[ranks] = gpu_limits(ranks).two_shot_from[RONDO_ALL_REDUCE];
    cr_expect_eq(from[2], (4 << 20) + 1);
    cr_expect_eq(from[3], 630001);
    cr_expect_eq(from[4], 466667);
    cr_expect_eq(from[5], 175001);
    cr_expect_eq(from[8], 133334);
    cr_expect_lt(from[7], from[8], "7 ranks have no lean kernels");
}

/* What a rank has for another, of the size from which on works are direct, does not fit into one step of lines; half of it does. */
Test(plan, leaves_what_fits_into_one_step_to_lines)
{
    for (unsigned ranks = 2; ranks <= 8; ranks++) {
        struct rondo_limits limits = gpu_limits(ranks);
        struct rondo_plan_launch launch;
        rondo_limits_share(&limits, 132);
        rondo_limits_fit(&limits, 8 << 20);
        for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
            limits.direct_from[c] = limits.bulk_from[c] = UINT64_MAX;
        struct rondo_task task = task_of((rondo_limits_direct_parts(ranks) + 3) / 4, RONDO_F32);
        task.collective = RONDO_ALL_GATHER;
        plan_next(&limits, &task, 1, &launch);
        cr_expect_gt(launch.steps, 1, "%u ranks", ranks);
        task.count /= 2;
        plan_next(&limits, &task, 1, &launch);
        cr_expect_eq(launch.steps, 1, "%u ranks", ranks);
    }
    cr_expect_eq(rondo_limits_direct_parts(2), 6 << 20);
    cr_expect_eq(rondo_limits_direct_parts(4), (8 << 20) / 3 + 1);
    cr_expect_gt(rondo_limits_direct_parts(4), 2 << 20, "an all-gather of 8 MiB");
    cr_expect_gt(rondo_limits_direct_parts(8), 1 << 20, "an all-gather of 8 MiB");
}

/* What GPUs have by default; the bound is for 4 ranks. */
Test(plan, has_room_in_64_mebibytes_on_up_to_four_gpus)
{
    for (unsigned ranks = 2; ranks <= 4; ranks++) {
        struct rondo_limits limits = gpu_limits(ranks);
        limits.max_channels = 128;
        rondo_limits_fit(&limits, 8192 * 1024);
        const size_t bytes = rondo_lanes_mailbox_bytes(&limits) + rondo_lanes_control_bytes(limits.lanes, ranks);
        cr_assert_leq(bytes, 64u << 20, "%zu bytes with %u ranks", bytes, ranks);
        cr_assert_geq(bytes, 50u << 20, "%zu bytes with %u ranks: room is left", bytes, ranks);
    }
}

/* Blocks of forced sizes in the smallest mailboxes had steps of fewer lines than there are ranks: owners of the last shards then heard
 * from nobody in the step before the last. */
Test(plan, gives_each_of_several_steps_a_line_for_every_rank)
{
    static const unsigned threads[] = {0, 32, 48, 64, 100, 512};
    for (unsigned ranks = 2; ranks <= RONDO_MAX_RANKS; ranks++)
        for (unsigned t = 0; t < sizeof threads / sizeof *threads; t++)
            for (unsigned bulk = 0; bulk < 2; bulk++) {
                struct rondo_limits limits = gpu_limits(ranks);
                struct rondo_plan_launch launch;
                const struct rondo_task task = task_of(1 << 20, RONDO_F32);
                limits.forced_threads = threads[t];
                limits.forced_algo = RONDO_TWO_SHOT;
                limits.bulk_from[RONDO_ALL_REDUCE] = bulk ? 1 : UINT64_MAX;
                rondo_limits_fit(&limits, 64 << 10);
                plan_next(&limits, &task, 1, &launch);
                const struct rondo_work *work = work_of(&launch, 0);
                cr_assert(work->steps == 1 || work->step_lines >= ranks, "%u ranks, %u threads: steps of %u lines",
                          ranks, threads[t], work->step_lines);
                cr_assert_leq(slots(&limits, work) * work->step_lines, bulk ? limits.bulk_lines : limits.half_lines);
            }
}
