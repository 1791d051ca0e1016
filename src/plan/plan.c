#include "plan/plan.h"

#include "kernels/instances.h"
#include "kernels/signature.h"
#include "plan/choose.h"
#include "plan/ring.h"
#include "plan/transfers.h"

#include <string.h>

_Static_assert(sizeof(struct rondo_batch_args) <= RONDO_BATCH_BYTES,
               "a batch fits into the arguments that drivers take");

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

size_t rondo_send_parts(unsigned collective, size_t ranks)
{
    return collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_TO_ALL ? ranks : 1;
}

size_t rondo_recv_parts(unsigned collective, size_t ranks)
{
    return collective == RONDO_ALL_GATHER || collective == RONDO_ALL_TO_ALL ? ranks : 1;
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

/* Zero in the bits that are zero in all places which this rank loads from and stores to. */
static uintptr_t places_of(const struct rondo_task *task)
{
    const bool parts = task->collective == RONDO_REDUCE_SCATTER || task->collective == RONDO_ALL_GATHER ||
                       task->collective == RONDO_ALL_TO_ALL;
    return (uintptr_t)task->send | (uintptr_t)task->recv | (parts ? (uintptr_t)task_bytes(task) : 0);
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
    work->scalar = task->scalar;
    work->root = task->root;
    work->collective = task->collective;
    work->algo = (uint8_t)algo;
    work->dtype = task->dtype;
    work->redop = task->redop;
    work->scaling = task->scaling;
    work->aligned = (places_of(task) & (limits->line_bytes - 1)) == 0;
    work->words = ((places_of(task) | work->bytes) & 3) == 0;
    work->steps = 1;
}

/* Whether there is a lean kernel for it if no thread has more than a line. Where posts are made or signatures compared, or inputs scaled,
 * the batch's code runs it. */
static bool may_be_lean(const struct rondo_limits *limits, const struct rondo_task *task, enum rondo_algo algo)
{
    return rondo_limits_lean(limits->ranks) && algo == RONDO_ONE_SHOT && !limits->posts && !limits->check &&
           !task->scaling && task_bytes(task) < limits->bulk_from[task->collective];
}

static bool is_lean(const struct rondo_limits *limits, const struct rondo_task *task, const struct rondo_work *work,
                    const struct rondo_shape *shape)
{
    return may_be_lean(limits, task, (enum rondo_algo)work->algo) && work->steps == 1 &&
           work->step_lines == shape->channels * shape->threads;
}

/* A work that has the launch for itself, in as many steps as the mailbox asks for. */
static struct rondo_shape plan_steps(const struct rondo_limits *limits, const struct rondo_task *task,
                                     enum rondo_algo algo, struct rondo_work *work)
{
    work_start(limits, task, algo, work);
    const uint64_t slots = slots_of(limits, algo);
    work->direct = limits->ranks > 1 && work->bytes >= limits->direct_from[task->collective] &&
                   (algo == RONDO_TWO_SHOT || !rondo_has_shards(task->collective));
    work->bulk = limits->ranks > 1 && work->bytes >= limits->bulk_from[task->collective];
    const uint32_t half = work->bulk ? limits->bulk_lines : limits->half_lines;
    const uint64_t room = slots ? half / slots : half;
    const bool lean = !work->direct && may_be_lean(limits, task, algo) && work->span + limits->lean_threads <= room;
    struct rondo_shape shape = rondo_choose_shape(limits, task->collective, work->bytes, work->span, lean);
    if ((uint64_t)shape.channels * shape.threads > room) {
        shape.threads = shape.threads < room ? shape.threads : (unsigned)room;
        shape.channels = (unsigned)(room / shape.threads);
    }
    /* The last shards lack up to ranks - 1 lines. Were that more than a step, their owners would hear from nobody in a step
     * before others' last one. The mailbox has room for so many lines (rondo_limits_fit). */
    while (shape.channels > 1 &&
           room / (shape.channels * shape.threads) * shape.channels * shape.threads < limits->ranks)
        shape.channels--;
    if (room >= limits->ranks && room / shape.threads * shape.threads < limits->ranks) /* and there is one channel */
        shape.threads = limits->ranks;
    const uint64_t stride = (uint64_t)shape.channels * shape.threads;
    const uint64_t fewest = divide_up(limits->ranks, stride);
    const uint64_t usual = (work->bulk ? 2 : 1) * limits->max_per_thread, most = fewest > usual ? fewest : usual;
    uint64_t per_thread = divide_up(work->span, stride);
    if (per_thread > room / stride)
        per_thread = room / stride;
    if (per_thread > most)
        per_thread = most;
    work->step_lines = (uint32_t)(stride * per_thread);
    work->steps = (uint32_t)divide_up(work->span, work->step_lines);
    work->channels = (uint16_t)shape.channels;
    /* The batch's code, which these have, knows no direct works; and launches that give no thread more than a line have code that is
     * shorter than offers. */
    if (limits->check || task->scaling ||
        (algo == RONDO_ONE_SHOT && !work->bulk && work->steps == 1 && work->step_lines == stride))
        work->direct = 0;
    work->copied = work->direct && limits->copies && work->bytes >= limits->copied_from[task->collective];
    return shape;
}

/* Rooted works are one-shot in a single step only: without shards, a root and its peers do not all hear from each other. */
static struct rondo_shape plan_one(const struct rondo_limits *limits, const struct rondo_task *task,
                                   struct rondo_work *work)
{
    const enum rondo_algo algo = rondo_choose_algo(limits, task->collective, task_bytes(task));
    struct rondo_shape shape = plan_steps(limits, task, algo, work);
    if (work->steps > 1 && algo == RONDO_ONE_SHOT && limits->ranks > 1 &&
        (task->collective == RONDO_REDUCE || task->collective == RONDO_BROADCAST))
        shape = plan_steps(limits, task, RONDO_TWO_SHOT, work);
    return shape;
}

/* Whether every rank hears from every rank in a work of this kind, from which follows that all have come to its launch. */
static bool hears_all(unsigned collective)
{
    return collective != RONDO_REDUCE && collective != RONDO_BROADCAST && collective != RONDO_BARRIER;
}

/* How many of the tasks fit side by side into one step of the mailbox; those with shards are counted as two-shot, which takes
 * less room. Barriers take none. */
static size_t batch_extent(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count)
{
    uint64_t used = 0;
    size_t taken = 0;
    while (taken < count && taken < RONDO_BATCH_WORKS) {
        const struct rondo_task *task = &tasks[taken];
        const enum rondo_algo algo = rondo_has_shards(task->collective) ? RONDO_TWO_SHOT : RONDO_ONE_SHOT;
        if (task->collective != RONDO_BARRIER)
            used += slots_of(limits, algo) * span_of(limits, algo, task_bytes(task));
        if (used > limits->half_lines)
            break;
        taken++;
    }
    return taken;
}

/* Exchanges by kind of collective, for a batch. */
struct algos {
    enum rondo_algo of[RONDO_COLLECTIVE_COUNT];
};

/* Lines of all works' spans, and of all their slots. */
struct extent {
    uint64_t lines, slots;
};

static struct extent extent_of(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                               const struct algos *algos)
{
    struct extent extent = {0, 0};
    for (size_t i = 0; i < count; i++) {
        if (tasks[i].collective == RONDO_BARRIER)
            continue;
        const enum rondo_algo algo = algos->of[tasks[i].collective];
        const uint64_t span = span_of(limits, algo, task_bytes(&tasks[i]));
        extent.lines += span;
        extent.slots += span * slots_of(limits, algo);
    }
    return extent;
}

static struct extent choose_algos(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                                  struct algos *algos)
{
    uint64_t bytes[RONDO_COLLECTIVE_COUNT + 1] = {0};
    for (size_t i = 0; i < count; i++)
        bytes[tasks[i].collective] += task_bytes(&tasks[i]);
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
        algos->of[c] = rondo_choose_algo(limits, c, bytes[c]);
    struct extent extent = extent_of(limits, tasks, count, algos);
    if (extent.slots <= limits->half_lines)
        return extent;
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
        if (rondo_has_shards(c))
            algos->of[c] = RONDO_TWO_SHOT;
    return extent_of(limits, tasks, count, algos);
}

/* Lays the works side by side in the mailbox and on the channels: a work of more than a channel's quota gets channels of
 * its own, smaller ones share a channel until it is full. */
static struct rondo_shape plan_many(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count,
                                    struct rondo_channel_works *table, struct rondo_work *works)
{
    struct algos algos;
    const struct extent extent = choose_algos(limits, tasks, count, &algos);
    struct rondo_shape shape = rondo_choose_shape(limits, RONDO_COLLECTIVE_COUNT, 0, extent.lines, false);
    const uint64_t quota = divide_up(extent.lines, shape.channels);
    unsigned channel = 0, w = 0;
    uint64_t filled = 0, line = 0;

    for (size_t i = 0; i < count; i++) {
        if (tasks[i].collective == RONDO_BARRIER)
            continue;
        struct rondo_work *work = &works[w];
        work_start(limits, &tasks[i], algos.of[tasks[i].collective], work);
        work->line0 = (uint32_t)line;
        work->step_lines = (uint32_t)work->span;
        line += slots_of(limits, work->algo) * work->span;

        if (filled && filled + work->span > quota && channel + 1 < limits->max_channels)
            channel++, filled = 0;
        uint64_t channels = filled ? 1 : divide_up(work->span, quota);
        if (channels > limits->max_channels - channel)
            channels = limits->max_channels - channel;
        work->channel0 = (uint16_t)channel;
        work->channels = (uint16_t)channels;
        for (unsigned c = channel; c < channel + channels; c++) {
            if (c > channel || !filled)
                table[c].first = (uint8_t)w;
            table[c].last = (uint8_t)w;
        }
        filled = channels > 1 ? quota : filled + work->span;
        channel += (unsigned)channels - 1;
        w++;
    }
    shape.channels = channel + 1;
    return shape;
}

/* What the ranks of a launch compare. Its works are in the same order on all of them. */
static uint64_t signature_of(const struct rondo_task *tasks, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u, packed = 0; /* FNV-1a */
    for (size_t i = 0; i < count; i++) {
        const struct rondo_task *task = &tasks[i];
        const bool reduces = task->collective <= RONDO_REDUCE;
        const struct rondo_signed what = {
            .kind = task->collective == RONDO_BARRIER ? (unsigned)RONDO_SIGNED_BARRIER : 1u + task->collective,
            .dtype = reduces ? task->dtype : 0,
            .redop = reduces ? task->redop : 0,
            .scaled = task->scaling != RONDO_UNSCALED,
            .root = task->root,
            .bytes = task->collective == RONDO_BARRIER ? 0 : task_bytes(task),
        };
        packed = rondo_signature_pack(&what);
        for (unsigned b = 0; b < 64; b += 8)
            hash = (hash ^ (packed >> b & 255)) * 0x100000001b3u;
    }
    return count == 1 ? packed : rondo_signature_of_group(hash, (unsigned)count);
}

/* The tasks' part of a batch, put behind the head. */
static void plan_exchange(const struct rondo_limits *limits, const struct rondo_task *tasks, size_t count, size_t *at,
                          struct rondo_plan_launch *launch)
{
    struct rondo_batch_head *head = &launch->args.batch.head;
    struct rondo_work *works = (struct rondo_work *)((char *)head + *at);
    struct rondo_channel_works table[RONDO_MAX_CHANNELS] = {{0, 0}};
    struct rondo_shape shape = {1, 1};
    size_t work_count = 0;
    bool heard = false;
    for (size_t i = 0; i < count; i++) {
        heard |= hears_all(tasks[i].collective);
        work_count += tasks[i].collective != RONDO_BARRIER;
    }
    launch->steps = 1;
    if (work_count == 0) {
        table[0].first = 1; /* one channel without works */
    } else if (count == 1) {
        shape = plan_one(limits, tasks, works);
        launch->steps = works->steps;
    } else {
        shape = plan_many(limits, tasks, count, table, works);
    }
    head->exchange_blocks = (uint16_t)shape.channels;
    head->tokens = !heard;
    head->works_at = (uint16_t)*at;
    *at += work_count * sizeof *works;
    head->channels_at = (uint16_t)*at;
    memcpy((char *)head + *at, table, shape.channels * sizeof *table);
    *at += (shape.channels * sizeof *table + 7) / 8 * 8;
    launch->threads = shape.threads;
}

/* The one work has a kernel of its own, or none. */
static bool plan_single(const struct rondo_limits *limits, const struct rondo_task *task,
                        struct rondo_plan_launch *launch)
{
    struct rondo_work *work = &launch->args.single.work;
    if (limits->check)
        return false;
    if (task->collective == RONDO_BARRIER) {
        launch->kernel = RONDO_KERNEL_BARRIER;
        launch->blocks = 1;
        launch->threads = limits->max_threads < 64 ? limits->max_threads : 64;
        launch->steps = 1;
        launch->works = 1;
        launch->messages = 0;
        launch->direct = false;
        launch->args_bytes = sizeof launch->args.single;
        return true;
    }
    if (task->scaling || limits->posts) /* the batch's code makes posts */
        return false;
    const struct rondo_shape shape = plan_one(limits, task, work);
    launch->kernel = is_lean(limits, task, work, &shape)
                         ? rondo_kernel_lean(work->collective, work->dtype)
                         : rondo_kernel_single(work->collective, work->algo, work->dtype);
    if (launch->kernel == RONDO_KERNEL_BATCH)
        return false;
    launch->blocks = shape.channels;
    launch->threads = shape.threads;
    launch->steps = work->steps;
    launch->works = 1;
    launch->messages = 0;
    launch->direct = work->direct;
    launch->args_bytes = sizeof launch->args.single;
    return true;
}

/* The one work goes round the ring, if it is to and the mailbox has room for that. */
static bool plan_ring(const struct rondo_limits *limits, const struct rondo_task *task,
                      struct rondo_plan_launch *launch)
{
    struct rondo_ring_args *args = &launch->args.ring;
    struct rondo_ring_shape shape;
    if (!rondo_choose_ring(limits, task, task_bytes(task)) || !rondo_ring_shape(limits, task, task_bytes(task), &shape))
        return false;
    memset((char *)args + sizeof args->head.lane, 0, sizeof *args - sizeof args->head.lane);
    work_start(limits, task, RONDO_RING, &args->work);
    args->work.bulk = shape.bulk;
    args->work.step_lines = shape.chunk;
    args->work.channels = (uint16_t)shape.channels;
    args->order = limits->ring;
    args->head.signature = limits->check ? signature_of(task, 1) : 0;
    args->head.steps = 1;
    args->head.exchange_blocks = (uint16_t)shape.channels;
    args->head.works_at = offsetof(struct rondo_ring_args, work);
    args->head.channels_at = args->head.transfers_at = offsetof(struct rondo_ring_args, order);
    launch->kernel = RONDO_KERNEL_RING;
    launch->blocks = shape.channels;
    launch->threads = shape.threads;
    launch->steps = 1;
    launch->works = 1;
    launch->messages = 0;
    launch->direct = false;
    launch->args_bytes = sizeof *args;
    return true;
}

/* The kernel for works that are all of one kind and give no thread more than a line. */
static unsigned group_kernel(const struct rondo_group_plan *plan, const struct rondo_batch_head *head, size_t count,
                             unsigned threads)
{
    const struct rondo_work *works = (const struct rondo_work *)((const char *)head + head->works_at);
    const unsigned ranks = plan->limits->ranks;
    uint64_t lines[RONDO_MAX_CHANNELS] = {0};
    if (plan->limits->posts || plan->limits->check || (ranks != 2 && ranks != 4 && ranks != 8))
        return RONDO_KERNEL_BATCH;
    for (size_t i = 0; i < count; i++) {
        const struct rondo_task *task = &plan->tasks[plan->tasks_done + i];
        const struct rondo_work *work = &works[i];
        if (task->collective == RONDO_BARRIER || task->scaling || work->collective != works->collective ||
            work->algo != works->algo || work->dtype != works->dtype || work->redop != works->redop)
            return RONDO_KERNEL_BATCH;
        lines[work->channel0] += work->span;
        if (work->channels > 1 ? work->span > (uint64_t)work->channels * threads : lines[work->channel0] > threads)
            return RONDO_KERNEL_BATCH;
        /* Its last channel is no place for others: their lines would not begin with the threads of a block. */
        if (work->channels > 1)
            lines[work->channel0 + work->channels - 1] = threads;
    }
    return rondo_kernel_group(works->collective, works->algo, works->dtype);
}

static void plan_batch(struct rondo_group_plan *plan, size_t count, bool messages, struct rondo_plan_launch *launch)
{
    struct rondo_batch_head *head = &launch->args.batch.head;
    char *const start = (char *)head;
    size_t at = sizeof *head;
    unsigned message_threads = 0, ends = 0;
    bool bulk = false, lean = !count && messages;
    memset((char *)head + sizeof head->lane, 0, sizeof *head - sizeof head->lane);
    launch->direct = false;
    launch->threads = 1;
    launch->steps = 0;
    launch->works = (unsigned)count;
    if (count)
        plan_exchange(plan->limits, plan->tasks + plan->tasks_done, count, &at, launch);
    if (count == 1 && plan->tasks[plan->tasks_done].collective != RONDO_BARRIER)
        bulk = ((const struct rondo_work *)(start + head->works_at))->bulk;
    if (plan->limits->check && count)
        head->signature = signature_of(plan->tasks + plan->tasks_done, count);
    head->steps = launch->steps;
    head->transfers_at = (uint16_t)at;
    launch->messages = 0;
    if (messages)
        ends = rondo_plan_transfers(plan, start, &at, launch, &message_threads, &lean);

    if (launch->steps <= 1 && !bulk && message_threads > launch->threads) /* they need not match the peers' then */
        launch->threads = message_threads;
    launch->blocks = head->exchange_blocks + ends;
    launch->args_bytes = at;
    launch->kernel = at > sizeof launch->args.batch              ? RONDO_KERNEL_LARGE
                     : lean                                      ? RONDO_KERNEL_TRANSFERS_LEAN
                     : !count && at <= sizeof launch->args.small ? RONDO_KERNEL_TRANSFERS
                     : !count                                    ? RONDO_KERNEL_BATCH
                     : ends || count == 1                        ? RONDO_KERNEL_BATCH
                                                                 : group_kernel(plan, head, count, launch->threads);
}

void rondo_plan_begin(struct rondo_group_plan *plan)
{
    plan->tasks_done = plan->messages_done = 0;
    plan->messages_left = plan->message_count;
    rondo_messages_sort(plan->messages, plan->message_count);
}

bool rondo_plan_done(const struct rondo_group_plan *plan)
{
    return plan->tasks_done == plan->task_count && plan->messages_left == 0;
}

/* Whether works and messages in one launch would leave no place on the device for another one. */
static bool is_crowded(const struct rondo_limits *limits, const struct rondo_plan_launch *launch)
{
    return limits->room && launch->works && launch->messages && launch->blocks * launch->threads > limits->room;
}

void rondo_plan_next(struct rondo_group_plan *plan, struct rondo_plan_launch *launch)
{
    const struct rondo_task *tasks = plan->tasks + plan->tasks_done;
    const size_t left = plan->task_count - plan->tasks_done;
    size_t count = left;
    if (left > 1) {
        count = batch_extent(plan->limits, tasks, left);
        count = count ? count : 1;
    }
    const size_t messages_done = plan->messages_done;
    const bool messages = plan->messages_left && count == left;
    const bool ring = count == 1 && plan_ring(plan->limits, tasks, launch);
    const bool single = !ring && count == 1 && plan_single(plan->limits, tasks, launch);
    /* A direct work has a kernel of its own on all ranks, and so has a ring, whichever of them have messages: these come behind it. */
    if (!ring && (!single || (messages && !launch->direct)))
        plan_batch(plan, count, messages, launch);
    if (is_crowded(plan->limits, launch)) { /* they come behind it here too, whatever the peers do with theirs */
        plan->messages_done = messages_done;
        if (!single || !plan_single(plan->limits, tasks, launch))
            plan_batch(plan, count, false, launch);
    }
    plan->tasks_done += launch->works;
    plan->messages_left -= launch->messages;
}
