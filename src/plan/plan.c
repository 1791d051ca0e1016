#include "plan/plan.h"

#include "kernels/instances.h"
#include "plan/choose.h"

#include <string.h>

_Static_assert(sizeof(struct rondo_batch_args) <= 4096, "a batch fits into the arguments that every driver takes");

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t task_bytes(const struct rondo_task *task)
{
    return (uint64_t)task->count * rondo_dtype_bytes(task->dtype);
}

/* Slots of span lines each that a work takes in a mailbox half. */
static uint64_t slots_of(const struct rondo_limits *limits, enum rondo_algo algo)
{
    return (uint64_t)(limits->ranks - 1) * (algo == RONDO_TWO_SHOT ? 2 : 1);
}

static uint64_t span_of(const struct rondo_limits *limits, enum rondo_algo algo, uint64_t bytes)
{
    uint64_t lines = divide_up(bytes, limits->line_bytes);
    return algo == RONDO_TWO_SHOT ? divide_up(lines, limits->ranks) : lines;
}

/* What a work is whatever its shape. */
static void work_start(const struct rondo_limits *limits, const struct rondo_task *task, enum rondo_algo algo,
                       struct rondo_work *work)
{
    memset(work, 0, sizeof *work);
    work->send = task->send;
    work->recv = task->recv;
    work->bytes = task_bytes(task);
    work->span = span_of(limits, algo, work->bytes);
    work->algo = (uint8_t)algo;
    work->dtype = task->dtype;
    work->redop = task->redop;
    work->aligned = (((uintptr_t)task->send | (uintptr_t)task->recv) & (limits->line_bytes - 1)) == 0;
    work->steps = 1;
}

/* A launch of one task, in as many steps as the mailbox asks for. */
static void plan_single(const struct rondo_limits *limits, const struct rondo_task *task,
                        struct rondo_plan_launch *launch)
{
    struct rondo_work *work = &launch->args.single.work;
    const enum rondo_algo algo = rondo_choose_algo(limits, task_bytes(task));
    work_start(limits, task, algo, work);

    struct rondo_shape shape = rondo_choose_shape(limits, algo, work->span);
    const uint64_t slots = slots_of(limits, algo);
    const uint64_t room = slots ? limits->half_lines / slots : limits->half_lines;
    if ((uint64_t)shape.channels * shape.threads > room) {
        shape.threads = shape.threads < room ? shape.threads : (unsigned)room;
        shape.channels = (unsigned)(room / shape.threads);
    }
    const uint64_t stride = (uint64_t)shape.channels * shape.threads;
    uint64_t per_thread = divide_up(work->span, stride);
    if (per_thread > room / stride)
        per_thread = room / stride;
    if (per_thread > limits->max_per_thread)
        per_thread = limits->max_per_thread;
    work->step_lines = (uint32_t)(stride * per_thread);
    work->steps = (uint32_t)divide_up(work->span, work->step_lines);
    work->channels = (uint16_t)shape.channels;

    launch->kernel = rondo_kernel_single(algo, work->dtype, work->redop);
    launch->blocks = shape.channels;
    launch->threads = shape.threads;
    launch->steps = work->steps;
    launch->works = 1;
    launch->algo = algo;
    launch->args_bytes = sizeof launch->args.single;
}

/* How many of the tasks fit side by side into one step of the mailbox, counted as two-shot, which takes the least
 * room; *bytes is their sum. */
static size_t batch_extent(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                           uint64_t *bytes)
{
    const uint64_t slots = slots_of(limits, RONDO_TWO_SHOT);
    uint64_t used = 0;
    size_t taken = 0;
    *bytes = 0;
    while (taken < count && taken < RONDO_BATCH_WORKS) {
        const uint64_t more = task_bytes(&tasks[taken]);
        used += slots * span_of(limits, RONDO_TWO_SHOT, more);
        if (used > limits->half_lines)
            break;
        *bytes += more;
        taken++;
    }
    return taken;
}

static uint64_t batch_lines(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                            enum rondo_algo algo)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < count; i++)
        lines += span_of(limits, algo, task_bytes(&tasks[i]));
    return lines;
}

/* Lays the works side by side in the mailbox and on the channels: a work of more than a channel's quota gets channels of
 * its own, smaller ones share a channel until it is full. */
static void plan_batch(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                       enum rondo_algo algo, struct rondo_plan_launch *launch)
{
    struct rondo_batch_args *args = &launch->args.batch;
    const uint64_t total = batch_lines(limits, tasks, count, algo);
    const struct rondo_shape shape = rondo_choose_shape(limits, algo, total);
    const uint64_t quota = divide_up(total, shape.channels);
    const uint64_t slots = slots_of(limits, algo);
    unsigned channel = 0;
    uint64_t filled = 0, line = 0;

    for (size_t i = 0; i < count; i++) {
        struct rondo_work *work = &args->works[i];
        work_start(limits, &tasks[i], algo, work);
        work->line0 = (uint32_t)line;
        work->step_lines = (uint32_t)work->span;
        line += slots * work->span;

        if (filled && filled + work->span > quota && channel + 1 < limits->max_channels)
            channel++, filled = 0;
        uint64_t channels = filled ? 1 : divide_up(work->span, quota);
        if (channels > limits->max_channels - channel)
            channels = limits->max_channels - channel;
        work->channel0 = (uint16_t)channel;
        work->channels = (uint16_t)channels;
        for (unsigned c = channel; c < channel + channels; c++) {
            if (c > channel || !filled)
                args->first[c] = (uint8_t)i;
            args->last[c] = (uint8_t)i;
        }
        filled = channels > 1 ? quota : filled + work->span;
        channel += (unsigned)channels - 1;
    }
    launch->kernel = RONDO_KERNEL_BATCH;
    launch->blocks = channel + 1;
    launch->threads = shape.threads;
    launch->steps = 1;
    launch->works = (unsigned)count;
    launch->algo = algo;
    launch->args_bytes = offsetof(struct rondo_batch_args, works) + count * sizeof args->works[0];
}

void rondo_plan_next(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                     struct rondo_plan_launch *launch)
{
    uint64_t bytes;
    const size_t taken = count > 1 ? batch_extent(limits, tasks, count, &bytes) : 1;
    if (taken <= 1) {
        plan_single(limits, tasks, launch);
        return;
    }
    enum rondo_algo algo = rondo_choose_algo(limits, bytes);
    if (slots_of(limits, algo) * batch_lines(limits, tasks, taken, algo) > limits->half_lines)
        algo = RONDO_TWO_SHOT;
    plan_batch(limits, tasks, taken, algo, launch);
}
