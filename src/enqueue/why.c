#include "enqueue/why.h"

#include "common/env.h"
#include "kernels/instances.h"
#include "plan/choose.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *at;
    size_t room, used;
};

/* Appends; what there is no room for is left out. */
__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text->at + text->used, text->room - text->used, format, arguments);
    va_end(arguments);
    text->used += length < 0 ? 0 : (size_t)length;
    if (text->used >= text->room)
        text->used = text->room - 1;
}

/* As tables write it: "64K", "280001", "never". */
static void add_size(struct text *text, uint64_t size)
{
    static const char units[] = {0, 'K', 'M', 'G'};
    unsigned unit = 0;
    if (size == UINT64_MAX) {
        add(text, "never");
        return;
    }
    while (size && size % 1024 == 0 && unit < 3) {
        size /= 1024;
        unit++;
    }
    add(text, "%llu%s", (unsigned long long)size, (char[]){units[unit], 0});
}

/* Where what is built in comes from. The host device's is chosen so that all is used; what was measured was on two H200s. For more
 * ranks, where to go over to two-shot and, of parts, to direct works is reckoned by what those take, and so are rings
 * (docs/eight-gpus.md, docs/decisions/0008); all else is as between two. */
static const char *origin(const struct rondo_limits *limits, unsigned collective, enum rondo_tune_key key)
{
    const bool by_ranks = key == RONDO_TUNE_TWO_SHOT || (key == RONDO_TUNE_DIRECT && !rondo_has_shards(collective));
    if (limits->line_bytes == 8) /* the host device */
        return "built in";
    if (key == RONDO_TUNE_RING)
        return "reckoned";
    return limits->ranks <= 2 ? "measured, H200" : by_ranks ? "reckoned" : "extrapolated";
}

/* "from 64K (table)" */
static void add_threshold(struct text *text, const struct rondo_limits *limits, unsigned collective,
                          enum rondo_tune_key key, uint64_t from)
{
    const bool by_table = limits->tuned[collective] >> key & 1;
    add(text, from == UINT64_MAX ? "" : "from ");
    add_size(text, from);
    add(text, " (%s)", by_table ? "table" : origin(limits, collective, key));
}

/* Whether it goes round the ring, and the word for it. */
static bool why_ring(struct text *text, const struct rondo_limits *limits, const struct rondo_work *work)
{
    const unsigned c = work->collective;
    const unsigned width = rondo_ring_width(c, work->dtype, work->redop);
    const bool by_table = limits->tuned[c] >> RONDO_TUNE_RING & 1, ring = work->algo == RONDO_RING;
    if (limits->ranks == 1)
        return false;
    if (limits->forced_algo == RONDO_RING)
        add(text, ring                    ? "ring by RONDO_ALGO; "
                  : c == RONDO_ALL_TO_ALL ? "there is no ring for it; "
                                          : "no room for a ring; ");
    else if (limits->forced_algo < 0 && width <= limits->ring_widest[c]) {
        add(text, ring ? "ring " : work->bytes < limits->ring_from[c] ? "no ring, " : "no room for a ring ");
        add_threshold(text, limits, c, RONDO_TUNE_RING, limits->ring_from[c]);
        add(text, by_table ? "; " : " as slow pairs carry less; ");
    }
    return ring;
}

static void why_algo(struct text *text, const struct rondo_limits *limits, const struct rondo_work *work)
{
    const uint64_t from = limits->two_shot_from[work->collective];
    const char *name = rondo_algo_name(work->algo);
    if (why_ring(text, limits, work) || !rondo_has_shards(work->collective) || limits->ranks == 1)
        return;
    if (work->algo == RONDO_TWO_SHOT && rondo_choose_algo(limits, work->collective, work->bytes) == RONDO_ONE_SHOT) {
        add(text, "two-shot as one-shot would take several steps; ");
        return;
    }
    if (limits->forced_algo >= 0 && limits->forced_algo != RONDO_RING) {
        add(text, "%s by RONDO_ALGO; ", name);
        return;
    }
    add(text, work->algo == RONDO_TWO_SHOT ? "%s " : "%s, two-shot ", name);
    add_threshold(text, limits, work->collective, RONDO_TUNE_TWO_SHOT, from);
    add(text, "; ");
}

static bool is_forced(const char *proto)
{
    return proto && (!strcmp(proto, "line") || !strcmp(proto, "bulk") || !strcmp(proto, "direct"));
}

static void why_protocol(struct text *text, const struct rondo_limits *limits, const struct rondo_work *work)
{
    const char *proto = rondo_env()->proto;
    const unsigned c = work->collective;
    if (limits->ranks == 1)
        return;
    if (is_forced(proto)) {
        add(text, "protocol by RONDO_PROTO=%s%s; ", proto, work->copied ? ", by copy engines" : "");
        return;
    }
    if (work->copied) {
        add(text, "copy engines, where buffers allow, from ");
        add_size(text, limits->copied_from[c]);
        add(text, " (ctaPolicy), else ");
    } else if (work->direct) {
        add(text, "direct, where buffers allow, ");
        add_threshold(text, limits, c, RONDO_TUNE_DIRECT, limits->direct_from[c]);
        add(text, ", else ");
    }
    add(text, work->bulk ? "bulk " : "lines, bulk ");
    add_threshold(text, limits, c, RONDO_TUNE_BULK, limits->bulk_from[c]);
    add(text, "; ");
}

static void why_shape(struct text *text, const struct rondo_limits *limits, const struct rondo_work *work,
                      unsigned threads)
{
    const struct rondo_shape_rule *rule = rondo_shape_rule_of(limits, work->collective, work->bytes);
    const bool ruled = rule && rule->channels && rule->channels < limits->max_channels;
    const char *by = limits->forced_threads             ? "by RONDO_THREADS"
                     : rule && rule->threads == threads ? "(table)"
                                                        : "(built in)";
    add(text, "%u thread%s %s, at most %u channels%s", threads, threads == 1 ? "" : "s", by,
        ruled ? rule->channels : limits->max_channels, ruled ? " (table)" : "");
}

void rondo_why(const struct rondo_limits *limits, const struct rondo_work *work, unsigned threads, char *out,
               size_t room)
{
    struct text text = {out, room, 0};
    out[0] = '\0';
    why_algo(&text, limits, work);
    why_protocol(&text, limits, work);
    why_shape(&text, limits, work, threads);
}

void rondo_why_message(const struct rondo_limits *limits, char *out, size_t room)
{
    struct text text = {out, room, 0};
    out[0] = '\0';
    if (is_forced(rondo_env()->proto)) {
        add(&text, "protocol by RONDO_PROTO=%s", rondo_env()->proto);
        return;
    }
    add(&text, "direct, where the receiver's buffer allows, %s",
        limits->messages_direct_from == UINT64_MAX ? "" : "from ");
    add_size(&text, limits->messages_direct_from);
    add(&text, " (%s)", origin(limits, RONDO_ALL_TO_ALL, RONDO_TUNE_BULK)); /* one size for any number of ranks */
    if (limits->copies) {
        add(&text, ", by copy engines from ");
        add_size(&text, limits->messages_copied_from);
        add(&text, " (ctaPolicy)");
    }
}
