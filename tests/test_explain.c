/* What rondoCommExplain says is what a launch would be: the tables of plan.c as seen from outside. */
#include "comm/limits.h"
#include "enqueue/why.h"
#include "kernels/types.h"
#include "plan/plan.h"
#include "tests/support/rig.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const ops[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",  "reduce",
                                  "all_to_all", "gather",     "scatter",        "send",       "recv",
                                  "send_recv",  "barrier",    "all_to_allv",    "all_gatherv"};
enum { OP_COUNT = sizeof ops / sizeof *ops };

static int every_op(struct rig *rig)
{
    const size_t counts[] = {1, 1000, 100000, 10000000, (size_t)1 << 33};
    for (int op = 0; op < OP_COUNT; op++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (int type = 0; type < rondoNumTypes; type++) {
                rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
                RIG_OK(rondoCommExplain(rig->comm, ops[op], counts[i], (rondoDataType_t)type, rondoMax, &choice));
                RIG_CHECK(choice.size == sizeof choice && choice.algorithm[0] && choice.protocol[0], "%s", ops[op]);
                RIG_CHECK(strncmp(choice.kernel, "rondo_", 6) == 0, "%s: %s", ops[op], choice.kernel);
                RIG_CHECK(choice.channels > 0 && choice.threads > 0, "%s", ops[op]);
                RIG_CHECK((choice.steps == 0) == (strcmp(choice.algorithm, "fifo") == 0), "%s: %zu steps", ops[op],
                          choice.steps);
            }
    return rig_try(rig, 1); /* nothing of that was enqueued */
}

Test(explain, knows_every_op_of_every_type_and_size)
{
    for (int ranks = 1; ranks <= rig_ranks(4); ranks++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks}, every_op), 0);
}

#define EXPLAIN(...)      RIG_OK(rondoCommExplain(rig->comm, __VA_ARGS__, &choice))
#define SAYS(field, text) RIG_CHECK(strcmp(choice.field, text) == 0, "%s", choice.field)

static int known_choices(struct rig *rig)
{
    const bool line = rig->ranks == 2 || rig->ranks == 4 || rig->ranks == 8;
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    EXPLAIN("all_reduce", 64, rondoFloat, rondoSum);
    SAYS(algorithm, "one-shot");
    SAYS(kernel, line ? "rondo_all_reduce_oneshot_line_F32" : "rondo_all_reduce_oneshot_F32");
    SAYS(protocol, rig_on_host() ? "line8" : "line16");
    RIG_CHECK(choice.steps == 1, "%zu", choice.steps);
    EXPLAIN("all_reduce", (size_t)1 << 28, rondoFloat, rondoSum);
    SAYS(algorithm, "two-shot");
    SAYS(kernel, "rondo_all_reduce_twoshot_F32");
    RIG_CHECK(choice.steps > 1, "%zu", choice.steps);
    EXPLAIN("all_reduce", 64, rondoHalf, rondoProd);
    SAYS(algorithm, "one-shot");
    SAYS(kernel, line ? "rondo_all_reduce_oneshot_line_F16" : "rondo_all_reduce_oneshot_F16");
    EXPLAIN("all_reduce", (size_t)1 << 28, rondoInt8, rondoMax);
    SAYS(algorithm, "two-shot");
    SAYS(kernel, "rondo_all_reduce_twoshot_I8");
    EXPLAIN("all_gather", 64, rondoHalf, rondoSum);
    SAYS(kernel, line ? "rondo_all_gather_line" : "rondo_all_gather");
    EXPLAIN("send", 64, rondoHalf, rondoSum);
    SAYS(algorithm, "fifo");
    SAYS(kernel, rig_on_host() ? "rondo_transfers" : "rondo_transfers_line"); /* by one thread */
    RIG_CHECK(choice.channels == 1, "%d", choice.channels);
    EXPLAIN("all_to_allv", 64, rondoHalf, rondoSum);
    RIG_CHECK(choice.channels == 2 * rig->ranks - 1, "%d", choice.channels);
    EXPLAIN("barrier", 0, (rondoDataType_t)77, rondoSum);
    SAYS(algorithm, "tokens");
    SAYS(kernel, "rondo_barrier");
    return rig_barrier(rig); /* nobody leaves before: it would be noticed */
}

Test(explain, says_what_the_plan_chooses)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(3)}, known_choices), 0);
}

/* Operators, counts of 0, and the sizes of older and newer callers. */
static int corners(struct rig *rig)
{
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    rondoRedOp_t op;
    float scalar = 2;
    RIG_OK(rondoRedOpCreatePreMulSum(&op, &scalar, rondoFloat, rondoScalarHostImmediate, rig->comm));
    EXPLAIN("reduce", 5, rondoFloat, op);
    SAYS(kernel, "rondo_batch");
    RIG_OK(rondoRedOpDestroy(op, rig->comm));
    EXPLAIN("all_reduce", 0, rondoFloat, rondoSum);
    SAYS(algorithm, "");
    SAYS(protocol, "");
    SAYS(kernel, "");
    RIG_CHECK(choice.channels == 0 && choice.threads == 0 && choice.steps == 0, "%d", choice.channels);

    struct {
        rondoChoice_t known;
        uint64_t later;
    } newer = {{sizeof newer, NULL, NULL, NULL, 0, 0, 0, ""}, 77};
    RIG_OK(rondoCommExplain(rig->comm, "broadcast", 5, rondoInt8, rondoSum, &newer.known));
    RIG_CHECK(newer.later == 77 && newer.known.size == sizeof newer && newer.known.channels > 0, "a newer caller's");
    rondoChoice_t older = {offsetof(rondoChoice_t, threads), NULL, NULL, NULL, 0, 77, 77, ""};
    RIG_OK(rondoCommExplain(rig->comm, "broadcast", 5, rondoInt8, rondoSum, &older));
    RIG_CHECK(older.channels > 0 && older.threads == 77 && older.steps == 77, "an older caller's");
    return rig_barrier(rig); /* nobody leaves before: it would be noticed */
}

Test(explain, fills_structs_of_older_and_newer_callers)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, corners), 0);
}

#define REFUSED(text, ...)                                                                                \
    do {                                                                                                  \
        RIG_CHECK(rondoCommExplain(__VA_ARGS__) == rondoInvalidArgument, "accepted");                     \
        RIG_CHECK(strstr(rondoGetLastError(NULL), text), "without \"%s\"", text);                         \
        RIG_CHECK(!choice.algorithm && !choice.kernel && choice.channels == 0, "the choice was touched"); \
    } while (0)

static int refusals(struct rig *rig)
{
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    rondoChoice_t none = {.size = 0};
    REFUSED("frobnicate", rig->comm, "frobnicate", 1, rondoFloat, rondoSum, &choice);
    REFUSED("op is NULL", rig->comm, NULL, 1, rondoFloat, rondoSum, &choice);
    REFUSED("choice is NULL", rig->comm, "reduce", 1, rondoFloat, rondoSum, NULL);
    REFUSED("INITIALIZER", rig->comm, "reduce", 1, rondoFloat, rondoSum, &none);
    REFUSED("datatype 256", rig->comm, "reduce", 1, (rondoDataType_t)256, rondoSum, &choice);
    REFUSED("datatype -1", rig->comm, "send", 1, (rondoDataType_t)-1, rondoSum, &choice);
    REFUSED("op", rig->comm, "reduce", 1, rondoFloat, (rondoRedOp_t)77, &choice);
    REFUSED("address space", rig->comm, "all_gather", SIZE_MAX / 4, rondoFloat, rondoSum, &choice);
    REFUSED("comm", NULL, "reduce", 1, rondoFloat, rondoSum, &choice);
    return rig_barrier(rig); /* nobody leaves before: it would be noticed */
}

Test(explain, refuses_what_it_does_not_know)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, refusals), 0);
}

/* What a comm of GPUs that NVLink joins has by default, from 16 MiB on direct; of the host device if its lines have 8 bytes. */
static struct rondo_limits limits_of(unsigned ranks, unsigned line_bytes)
{
    struct rondo_limits limits = {.ranks = ranks,
                                  .lanes = 2,
                                  .line_bytes = line_bytes,
                                  .min_channels = 1,
                                  .max_channels = 128,
                                  .max_threads = 256,
                                  .lean_threads = 512,
                                  .kernel_threads = 512,
                                  .max_per_thread = 8,
                                  .forced_algo = -1};
    rondo_limits_preset(&limits);
    rondo_limits_fit(&limits, 8 << 20);
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++) {
        limits.direct_from[c] = 16 << 20;
        limits.bulk_from[c] = 32 << 20;
        limits.ring_from[c] = 1 << 20;
    }
    return limits;
}

/* What is said of such an op. */
static const char *why_of(const struct rondo_limits *limits, unsigned collective, size_t bytes)
{
    static char text[sizeof((rondoChoice_t *)0)->why];
    const struct rondo_task task = {
        .collective = (uint8_t)collective, .dtype = RONDO_F32, .redop = RONDO_SUM, .count = bytes / 4};
    struct rondo_group_plan plan = {.limits = limits, .tasks = &task, .task_count = 1};
    struct rondo_plan_launch launch;
    rondo_plan_begin(&plan);
    rondo_plan_next(&plan, &launch);
    rondo_why(limits, &launch.args.single.work, launch.threads, text, sizeof text);
    return text;
}

#define TELLS(limits, collective, bytes, words)                             \
    do {                                                                    \
        const char *why = why_of(limits, collective, bytes);                \
        cr_expect(strstr(why, words), "\"%s\" without \"%s\"", why, words); \
    } while (0)

Test(explain, tells_what_was_measured_from_what_was_reckoned)
{
    const struct rondo_limits two = limits_of(2, 16), four = limits_of(4, 16), eight = limits_of(8, 16),
                              host = limits_of(4, 8);
    char text[240];
    TELLS(&two, RONDO_ALL_REDUCE, 1024,
          "one-shot, two-shot from 4194305 (measured, H200); lines, bulk from 32M (measured, H200); ");
    TELLS(&two, RONDO_ALL_REDUCE, 32 << 20, "direct, where buffers allow, from 16M (measured, H200), else bulk ");
    TELLS(&four, RONDO_ALL_REDUCE, 1024,
          "one-shot, two-shot from 466667 (reckoned); lines, bulk from 32M (extrapolated); ");
    TELLS(&eight, RONDO_BROADCAST, 1 << 20, "two-shot from 133334 (reckoned); ");
    TELLS(&eight, RONDO_ALL_REDUCE, 32 << 20, "direct, where buffers allow, from 16M (extrapolated), else bulk ");
    TELLS(&eight, RONDO_ALL_GATHER, 32 << 20, "direct, where buffers allow, from 16M (reckoned), else bulk ");
    TELLS(&host, RONDO_ALL_REDUCE, 32 << 20, "two-shot from 466667 (built in); ");
    TELLS(&host, RONDO_ALL_REDUCE, 32 << 20, "bulk from 32M (built in); ");
    rondo_why_message(&two, text, sizeof text);
    cr_expect(strstr(text, "(measured, H200)"), "%s", text);
    rondo_why_message(&four, text, sizeof text);
    cr_expect(strstr(text, "(extrapolated)"), "%s", text);
}

Test(explain, names_a_table_before_all_else)
{
    struct rondo_limits eight = limits_of(8, 16);
    eight.tuned[RONDO_ALL_REDUCE] = 1u << RONDO_TUNE_TWO_SHOT | 1u << RONDO_TUNE_DIRECT;
    TELLS(&eight, RONDO_ALL_REDUCE, 32 << 20,
          "two-shot from 133334 (table); direct, where buffers allow, from 16M (table), ");
    TELLS(&eight, RONDO_ALL_REDUCE, 32 << 20, "else bulk from 32M (extrapolated); ");
    TELLS(&eight, RONDO_REDUCE, 32 << 20, "two-shot from 133334 (reckoned); ");
}

Test(explain, has_room_for_all_that_it_says)
{
    for (unsigned ranks = 2; ranks <= 8; ranks++) {
        struct rondo_limits limits = limits_of(ranks, 16);
        memset(limits.ring_widest, 1, sizeof limits.ring_widest);
        for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
            limits.ring_from[c] = UINT64_MAX;
        for (unsigned c = RONDO_ALL_REDUCE; c <= RONDO_BROADCAST; c++) {
            const char *why = why_of(&limits, c, 32 << 20), *end = strstr(why, "at most 128 channels");
            cr_expect(end && !end[strlen("at most 128 channels")], "%s", why);
        }
    }
}
