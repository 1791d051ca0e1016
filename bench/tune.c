#include "tune.h"

#include "tune_table.h"

#include "number.h"
#include "ops.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_WRONG = 1, STATUS_FILE = 2, MOST_SETTINGS = 3 };

/* Parameters that a run may force; in all others they are unset. */
static const char *const parameters[] = {"RONDO_ALGO", "RONDO_PROTO", "RONDO_THREADS", "RONDO_MAX_CTAS",
                                         "RONDO_TUNE_FILE"};

struct setting {
    const char *name;
    const char *value;
};

/* What one run forces. */
struct forced {
    const char *title;
    struct setting settings[MOST_SETTINGS];
};

static const struct forced exchanges[TUNE_WAYS] = {
    [TUNE_ONE_SHOT] = {"one-shot, lines", {{"RONDO_ALGO", "oneshot"}, {"RONDO_PROTO", "line"}}},
    [TUNE_TWO_SHOT] = {"two-shot, lines", {{"RONDO_ALGO", "twoshot"}, {"RONDO_PROTO", "line"}}},
    [TUNE_BULK] = {"two-shot, bulk", {{"RONDO_ALGO", "twoshot"}, {"RONDO_PROTO", "bulk"}}},
    [TUNE_DIRECT] = {"two-shot, direct", {{"RONDO_ALGO", "twoshot"}, {"RONDO_PROTO", "direct"}}},
};

static const char *const threads[] = {"64", "128", "256", "512"};
static const char *const channels[] = {"4", "8", "16", "32", "64"};
enum { THREADS = sizeof threads / sizeof *threads, CHANNELS = sizeof channels / sizeof *channels };

static void force(const struct forced *forced)
{
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        unsetenv(parameters[i]);
    for (int i = 0; i < MOST_SETTINGS && forced->settings[i].name; i++)
        setenv(forced->settings[i].name, forced->settings[i].value, 1);
}

/* The number behind a key of a line that rondo-perf wrote. */
static double number_of(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? strtod(at + strlen(key), NULL) : NAN;
}

/* The n-th line of an op is of the n-th size. */
static void read_times(FILE *file, size_t type_bytes, struct tune_sizes sizes[TUNE_OPS], struct tune_times *times)
{
    char line[2048];
    rewind(file);
    memset(times, 0, sizeof *times);
    for (int at[TUNE_OPS] = {0}; fgets(line, sizeof line, file);)
        for (int op = 0; op < TUNE_OPS; op++) {
            char key[64];
            snprintf(key, sizeof key, "\"op\": \"%s\"", tune_ops[op].name);
            if (!strstr(line, key) || !strstr(line, "\"mode\": \"graph\"") || at[op] == TUNE_SIZES)
                continue;
            sizes[op].flow[at[op]] = (size_t)number_of(line, "\"count\": ") * type_bytes;
            times->us[op][at[op]++] = number_of(line, "\"us\": ");
            sizes[op].count = at[op] > sizes[op].count ? at[op] : sizes[op].count;
        }
}

static size_t type_bytes(const struct bench_options *options)
{
    return (size_t)number_types[__builtin_ctz(options->types)].bytes;
}

/* One run; nothing of it is shown but its title. */
static int measure(const struct tune_how *how, const struct forced *forced, struct tune_sizes sizes[TUNE_OPS],
                   struct tune_times *times)
{
    struct bench_options options = *how->options;
    struct report report = {.options = &options, .device = how->device, .text = fopen("/dev/null", "w")};
    report.json = tmpfile();
    if (!report.text || !report.json) {
        fprintf(stderr, "rondo-perf: no file for a run's results: %s\n", strerror(errno));
        return STATUS_WRONG;
    }
    printf("# measuring %s\n", forced->title);
    fflush(NULL); /* the ranks are forked */
    force(forced);
    options.tune = NULL;
    const int status = how->run(how->argument, &options, &report);
    read_times(report.json, type_bytes(&options), sizes, times);
    fclose(report.json);
    fclose(report.text);
    return status ? STATUS_WRONG : 0;
}

/* Everything that was measured, for the table's sake and for what is told at the end. */
struct tuning {
    struct tune_sizes sizes[TUNE_OPS];
    struct tune_times ways[TUNE_WAYS], plain, by_threads[THREADS], by_channels[CHANNELS], last;
    struct tune_table table;
};

static int write_table(const struct tune_how *how, const struct tuning *t)
{
    const char *path = how->options->tune;
    if (tune_table_write(path, &t->table, t->sizes, t->ways, how->options->nranks) == 0)
        return 0;
    fprintf(stderr, "rondo-perf: %s: %s\n", path, strerror(errno));
    return STATUS_FILE;
}

/* Threads first, then channels with the threads that were best. On the host device blocks have one thread. */
static int measure_shapes(const struct tune_how *how, struct tuning *t)
{
    const char *path = how->options->tune;
    const int host = strcmp(how->device, "host") == 0;
    int status =
        measure(how, &(struct forced){"the thresholds found", {{"RONDO_TUNE_FILE", path}}}, t->sizes, &t->plain);
    char title[64];
    for (int i = 0; i < THREADS && !host && status == 0; i++) {
        snprintf(title, sizeof title, "blocks of %s threads", threads[i]);
        const struct forced forced = {title, {{"RONDO_TUNE_FILE", path}, {"RONDO_THREADS", threads[i]}}};
        status = measure(how, &forced, t->sizes, &t->by_threads[i]);
        tune_table_threads(&t->table, t->sizes, &t->plain, &t->by_threads[i], atoi(threads[i]));
    }
    status = status ? status : write_table(how, t);
    for (int i = 0; i < CHANNELS && status == 0; i++) {
        snprintf(title, sizeof title, "at most %s channels", channels[i]);
        const struct forced forced = {title, {{"RONDO_TUNE_FILE", path}, {"RONDO_MAX_CTAS", channels[i]}}};
        status = measure(how, &forced, t->sizes, &t->by_channels[i]);
        tune_table_channels(&t->table, t->sizes, &t->plain, &t->by_channels[i], atoi(channels[i]));
    }
    return status ? status : write_table(how, t);
}

/* The best of all that was forced. */
static double best_of(const struct tuning *t, int op, int size)
{
    double best = INFINITY;
    for (int w = 0; w < TUNE_WAYS; w++)
        best = fmin(best, tune_time(&t->ways[w], op, size));
    for (int i = 0; i < THREADS; i++)
        best = fmin(best, tune_time(&t->by_threads[i], op, size));
    for (int i = 0; i < CHANNELS; i++)
        best = fmin(best, tune_time(&t->by_channels[i], op, size));
    return best;
}

/* The table against everything that was forced: where it is more than 5 % slower. */
static void tell(const struct tuning *t)
{
    int slower = 0, cells = 0;
    for (int op = 0; op < TUNE_OPS; op++)
        for (int size = 0; size < t->sizes[op].count; size++) {
            const double us = tune_time(&t->last, op, size), best = best_of(t, op, size);
            cells += isfinite(us) && isfinite(best);
            if (!isfinite(us) || us <= 1.05 * best)
                continue;
            slower++;
            printf("#   %s, %zu bytes: %.2f us by the table, %.2f forced\n", tune_ops[op].name, t->sizes[op].flow[size],
                   us, best);
        }
    printf("# in %d of %d cells something forced was more than 5 %% faster than the table\n", slower, cells);
}

static void choose(struct tuning *t)
{
    for (int op = 0; op < TUNE_OPS; op++)
        tune_table_thresholds(&t->table, op, &t->sizes[op], t->ways);
}

int tune(const struct tune_how *how)
{
    struct tuning *t = calloc(1, sizeof *t);
    struct bench_options options = *how->options;
    const struct tune_how mine = {&options, how->device, how->run, how->argument};
    FILE *file = fopen(options.tune, "a"); /* before hours of measuring */
    int status = !t || !file ? STATUS_FILE : 0;
    if (status)
        fprintf(stderr, "rondo-perf: --tune %s: %s\n", options.tune, strerror(errno));
    if (file)
        fclose(file);
    unsigned ops = 0;
    for (int i = 0; i < bench_op_count; i++)
        for (int op = 0; op < TUNE_OPS; op++)
            ops |= strcmp(bench_ops[i].name, tune_ops[op].name) ? 0 : 1u << i;
    options.ops &= ops;
    for (int w = 0; w < TUNE_WAYS && status == 0; w++)
        status = measure(&mine, &exchanges[w], t->sizes, &t->ways[w]);
    if (status == 0) {
        choose(t);
        status = write_table(&mine, t);
    }
    status = status ? status : measure_shapes(&mine, t);
    if (status == 0)
        status = measure(&mine, &(struct forced){"the table", {{"RONDO_TUNE_FILE", options.tune}}}, t->sizes, &t->last);
    if (status == 0) {
        tell(t);
        printf("# %s holds the table of %d ranks\n", options.tune, options.nranks);
    }
    free(t);
    return status;
}
