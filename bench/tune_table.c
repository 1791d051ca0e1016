#include "tune_table.h"

#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHAPES = 12 }; /* of a collective, as docs/tuning.md says */

static const double worth = 0.97; /* of the time without: what a shape's time must be below */

const struct tune_op tune_ops[TUNE_OPS] = {
    {"all_reduce", 1}, {"reduce_scatter", 0}, {"reduce", 1}, {"all_gather", 0}, {"all_to_all", 0}, {"broadcast", 1},
};

double tune_time(const struct tune_times *times, int op, int size)
{
    return times->us[op][size] > 0 ? times->us[op][size] : INFINITY;
}

int tune_cut(const double *below, const double *above, int count)
{
    double cost = 0, least = 0; /* of going over behind a size, relative to all above */
    int cut = 0;
    for (int i = 0; i < count; i++) {
        if (isfinite(below[i]) && isfinite(above[i]))
            cost += log(below[i] / above[i]);
        else
            cost += isfinite(above[i]) - isfinite(below[i]);
        if (cost < least) {
            least = cost;
            cut = i + 1;
        }
    }
    return cut;
}

/* Where to go over within what is two-shot; without shards, that is everything. */
static int cut_from(int start, const double *below, const double *above, int count)
{
    return start + tune_cut(below + start, above + start, count - start);
}

void tune_table_thresholds(struct tune_table *table, int op, const struct tune_sizes *sizes,
                           const struct tune_times ways[TUNE_WAYS])
{
    double now[TUNE_SIZES], next[TUNE_SIZES], best[TUNE_SIZES];
    const int count = sizes->count;
    for (int i = 0; i < count; i++) {
        now[i] = tune_time(&ways[TUNE_ONE_SHOT], op, i);
        next[i] = tune_time(&ways[TUNE_TWO_SHOT], op, i);
        best[i] = fmin(next[i], fmin(tune_time(&ways[TUNE_BULK], op, i), tune_time(&ways[TUNE_DIRECT], op, i)));
    }
    const int start = tune_ops[op].shards ? tune_cut(now, best, count) : 0;
    for (int i = 0; i < count; i++) {
        now[i] = tune_ops[op].shards ? next[i] : fmin(now[i], next[i]); /* without shards, twice the same */
        next[i] = tune_time(&ways[TUNE_BULK], op, i);
    }
    table->two_shot[op] = start;
    table->bulk[op] = cut_from(start, now, next, count);
    for (int i = 0; i < count; i++) {
        now[i] = i < table->bulk[op] ? now[i] : next[i];
        next[i] = tune_time(&ways[TUNE_DIRECT], op, i);
    }
    table->direct[op] = cut_from(start, now, next, count);
}

/* ---- shapes ---- */

/* Whether a time is the best so far, and takes note. */
static int take(struct tune_table *table, int op, int size, const struct tune_times *plain,
                const struct tune_times *times)
{
    const double us = tune_time(times, op, size), before = table->best[op][size];
    if (us >= worth * tune_time(plain, op, size) || (before > 0 && us >= before))
        return 0;
    table->best[op][size] = us;
    return 1;
}

void tune_table_threads(struct tune_table *table, const struct tune_sizes sizes[TUNE_OPS],
                        const struct tune_times *plain, const struct tune_times *times, int threads)
{
    for (int op = 0; op < TUNE_OPS; op++)
        for (int i = 0; i < sizes[op].count; i++)
            if (take(table, op, i, plain, times))
                table->threads[op][i] = threads;
}

void tune_table_channels(struct tune_table *table, const struct tune_sizes sizes[TUNE_OPS],
                         const struct tune_times *plain, const struct tune_times *times, int channels)
{
    for (int op = 0; op < TUNE_OPS; op++)
        for (int i = 0; i < sizes[op].count; i++)
            if (take(table, op, i, plain, times))
                table->channels[op][i] = channels;
}

/* ---- the file ---- */

static void write_threshold(FILE *file, int op, int ranks, const char *key, const struct tune_sizes *sizes, int cut)
{
    char text[32];
    if (cut < sizes->count)
        options_size_text(cut ? sizes->flow[cut] : 0, text, sizeof text); /* smaller ones were not measured */
    fprintf(file, "%s %d %s %s\n", tune_ops[op].name, ranks, key, cut < sizes->count ? text : "never");
}

static void write_number(FILE *file, const char *name, int number)
{
    if (number)
        fprintf(file, " %s %d", name, number);
    else
        fprintf(file, " %s any", name);
}

/* A line where the shape changes; the last ones are left out if there are too many. */
static void write_shapes(FILE *file, int op, int ranks, const struct tune_table *table, const struct tune_sizes *sizes)
{
    int threads = 0, channels = 0, lines = 0;
    for (int i = 0; i < sizes->count && lines < MOST_SHAPES; i++) {
        char text[32];
        if (table->threads[op][i] == threads && table->channels[op][i] == channels)
            continue;
        /* The last line that there is room for goes back to what is built in. */
        threads = lines == MOST_SHAPES - 1 ? 0 : table->threads[op][i];
        channels = lines == MOST_SHAPES - 1 ? 0 : table->channels[op][i];
        options_size_text(sizes->flow[i], text, sizeof text);
        fprintf(file, "%s %d shape %s", tune_ops[op].name, ranks, text);
        write_number(file, "threads", threads);
        write_number(file, "channels", channels);
        fprintf(file, "\n");
        lines++;
    }
}

static void write_times(FILE *file, int op, int ranks, const struct tune_sizes *sizes,
                        const struct tune_times ways[TUNE_WAYS])
{
    fprintf(file, "# %s %d: bytes, us one-shot, two-shot, bulk, direct\n", tune_ops[op].name, ranks);
    for (int i = 0; i < sizes->count; i++) {
        fprintf(file, "# %s %d: %9zu", tune_ops[op].name, ranks, sizes->flow[i]);
        for (int w = 0; w < TUNE_WAYS; w++)
            fprintf(file, " %9.2f", ways[w].us[op][i]);
        fprintf(file, "\n");
    }
}

/* Whether a line of an old file is to go: one about an op that was measured, with so many ranks, or the head. */
static int is_replaced(const char *line, const struct tune_sizes sizes[TUNE_OPS], int ranks)
{
    char name[64];
    int number;
    if (strncmp(line, "rondo-tune", 10) == 0 || strncmp(line, "# rondo-perf", 12) == 0)
        return 1;
    line += strspn(line, "# ");
    for (int op = 0; op < TUNE_OPS; op++)
        if (sizes[op].count && sscanf(line, "%63s %d", name, &number) == 2 && number == ranks &&
            strcmp(name, tune_ops[op].name) == 0)
            return 1;
    return 0;
}

static void keep_others(FILE *file, const char *path, const struct tune_sizes sizes[TUNE_OPS], int ranks)
{
    char line[1024];
    FILE *old = fopen(path, "r");
    while (old && fgets(line, sizeof line, old))
        if (!is_replaced(line, sizes, ranks))
            fputs(line, file);
    if (old)
        fclose(old);
}

int tune_table_write(const char *path, const struct tune_table *table, const struct tune_sizes sizes[TUNE_OPS],
                     const struct tune_times ways[TUNE_WAYS], int ranks)
{
    char draft[4096];
    snprintf(draft, sizeof draft, "%s.new", path);
    FILE *file = fopen(draft, "w");
    if (!file)
        return -1;
    fprintf(file, "rondo-tune 1\n# rondo-perf %d.%d.%d --tune\n", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH);
    keep_others(file, path, sizes, ranks);
    for (int op = 0; op < TUNE_OPS; op++) {
        if (!sizes[op].count)
            continue;
        write_times(file, op, ranks, &sizes[op], ways);
        if (tune_ops[op].shards)
            write_threshold(file, op, ranks, "two-shot", &sizes[op], table->two_shot[op]);
        write_threshold(file, op, ranks, "bulk", &sizes[op], table->bulk[op]);
        write_threshold(file, op, ranks, "direct", &sizes[op], table->direct[op]);
        write_shapes(file, op, ranks, table, &sizes[op]);
    }
    const int bad = ferror(file);
    if (fclose(file) != 0 || bad)
        return -1;
    return rename(draft, path);
}
