#include "report.h"

#include "ops.h"
#include "records.h"
#include "svg.h"
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_file(FILE **file, const char *path, char *text, size_t room)
{
    if (!path)
        return 0;
    *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (*file)
        return 0;
    snprintf(text, room, "%s: %s", path, strerror(errno));
    return -1;
}

static int count_bits(unsigned bits)
{
    return __builtin_popcount(bits);
}

/* Rows to come; those that a library cannot run are counted too. */
static int count_rows(const struct bench_options *options)
{
    int sizes = 0;
    int rows = 0;
    for (size_t bytes = options->min_bytes; bytes; bytes = options_next_size(options, bytes))
        sizes++;
    for (int op = 0; op < bench_op_count; op++) {
        int redops = bench_ops[op].reduces ? count_bits(options->redops) : 1;
        if (options->ops >> op & 1)
            rows += bench_ops[op].has_data ? sizes * redops * count_bits(options->types) : 1;
    }
    return rows * (1 + options->lib_count);
}

int report_open(struct report *report, const struct bench_options *options, const char *device, char *text, size_t room)
{
    *report = (struct report){.options = options, .device = device, .text = stdout};
    if (open_file(&report->json, options->json, text, room) != 0 ||
        open_file(&report->csv, options->csv, text, room) != 0 ||
        open_file(&report->svg, options->svg, text, room) != 0)
        return -1;
    if (report->json == stdout || report->csv == stdout || report->svg == stdout)
        report->text = stderr;
    report->progress = isatty(STDERR_FILENO);
    report->total = count_rows(options);
    return 0;
}

void report_begin(struct report *report, const struct run_about *about, const struct bench_lib *libs,
                  const double *init_ms, int lib_count)
{
    table_header(report, about, libs, init_ms, lib_count);
    if (report->csv)
        records_csv_header(report->csv, report->options->group);
}

void report_op(struct report *report, const struct bench_op *op, const struct bench_lib *libs, int lib_count)
{
    if (report->progress)
        fprintf(stderr, "\r\033[K");
    table_op(report, op, libs, lib_count);
}

void report_progress(struct report *report, const char *op, const char *type, size_t bytes, const char *lib)
{
    char size[32];
    if (!report->progress)
        return;
    options_size_text(bytes, size, sizeof size);
    fprintf(stderr, "\r\033[K[%d/%d] %s %s %s %s", report->done + 1, report->total, op, type, size, lib);
    fflush(stderr);
}

static void keep(struct report *report, const struct bench_result *result)
{
    size_t count = report->result_count;
    if ((count & (count - 1)) == 0) { /* grow at powers of two */
        size_t room = count ? 2 * count : 1;
        struct bench_result *grown = realloc(report->results, room * sizeof *grown);
        if (!grown)
            return;
        report->results = grown;
    }
    report->results[report->result_count++] = *result;
}

void report_row(struct report *report, const struct bench_result *eager, const struct bench_result *graph)
{
    const struct bench_result *both[] = {eager, graph};
    if (report->progress)
        fprintf(stderr, "\r\033[K");
    report->done++;
    if (graph->lib_index == 0)
        report->rondo_us = graph->times.us;
    table_row(report, eager, graph);
    for (int i = 0; i < 2; i++) {
        if (!both[i]->measured)
            continue;
        if (report->json)
            records_json(report->json, both[i]);
        if (report->csv)
            records_csv(report->csv, both[i]);
        keep(report, both[i]);
    }
}

void report_end(struct report *report, double wrong)
{
    table_footer(report, wrong);
    if (report->svg)
        svg_plot(report);
    free(report->results);
}
