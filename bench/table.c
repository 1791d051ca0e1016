#include "table.h"

#include "explain.h"
#include "ops.h"
#include "run.h"

#include <string.h>
#include <unistd.h>

/* A library's column, wide enough for "nccl 2.28.9". */
static const int lib_width = 14;

static void times_text(double value, char *text, size_t room)
{
    snprintf(text, room, value < 100 ? "%.2f" : value < 1000 ? "%.1f" : "%.0f", value);
}

static void print_number(FILE *out, double value, int width)
{
    char text[32];
    times_text(value, text, sizeof text);
    fprintf(out, " %*s", width, text);
}

static void print_options(FILE *out, const struct report *report)
{
    const struct bench_options *options = report->options;
    char from[32];
    char to[32];
    options_size_text(options->min_bytes, from, sizeof from);
    options_size_text(options->max_bytes, to, sizeof to);
    fprintf(out, "# rondo-perf %d.%d.%d: %s to %s, %s%s", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH, from, to,
            options->in_place ? "in place" : "out of place", options->check ? "" : ", results not checked");
    if (options->group > 1)
        fprintf(out, ", groups of %d calls", options->group);
    if (options->compute_us > 0)
        fprintf(out, ", after %g us of compute (subtracted)", options->compute_us);
    fprintf(out, "\n# eager%s: %d ops after %d; graph: ", options->plan ? " (Rondo: launches of plans)" : "",
            options->iterations, options->warmup);
    if (options->ops_per_graph)
        fprintf(out, "%d ops", options->ops_per_graph);
    else
        fprintf(out, "20 ops (4 from 16M)");
    if (options->replays >= 0)
        fprintf(out, ", %d replays\n", options->replays);
    else
        fprintf(out, ", 50 replays (10 from 16M)\n");
}

static void print_columns(FILE *out, int lib_count)
{
    int lib = lib_count > 1 ? lib_width + 1 : 0;
    fprintf(out, "#\n#%43s%*s  %-43s   %-42s\n", "", lib, "", "-------------------- eager --------------------",
            "-------------------- graph --------------------");
    fprintf(out, "#%10s %13s %9s %7s%*s  %9s %7s %8s %8s %7s   %9s %9s %9s %8s %8s %7s%s\n", "size", "count", "type",
            "redop", lib, lib ? "lib" : "", "time", "host", "algbw", "busbw", "#wrong", "time", "min", "p99", "algbw",
            "busbw", "#wrong", lib ? "   ratio" : "");
    fprintf(out, "#%10s %13s %9s %7s%*s  %9s %7s %8s %8s %7s   %9s %9s %9s %8s %8s %7s\n", "(B)", "(elements)", "", "",
            lib, "", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "");
}

void table_header(struct report *report, const struct run_about *about, const struct bench_lib *libs,
                  const double *init_ms, int lib_count)
{
    FILE *out = report->text;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    print_options(out, report);
    fprintf(out, "# %d ranks, %s, device %s, on %s\n", report->options->nranks,
            report->options->threads ? "threads of one process" : "one process each", report->device, host);
    for (int rank = 0; rank < report->options->nranks; rank++)
        fprintf(out, "#   rank %2d  pid %7d  device %2d  %s\n", rank, (int)about[rank].pid, about[rank].number,
                about[rank].device);
    for (int i = 0; i < lib_count; i++)
        fprintf(out, "# %s %s, comm init %.1f ms\n", libs[i].name, libs[i].version, init_ms[i]);
    fflush(out);
}

void table_op(struct report *report, const struct bench_op *op, const struct bench_lib *libs, int lib_count)
{
    FILE *out = report->text;
    int in_place = report->options->in_place && op->in_place;
    fprintf(out, "#\n# %s", op->name);
    if (op->rooted)
        fprintf(out, ", root %d", report->options->root);
    if (op->has_data)
        fprintf(out, "; size: %s", op->size);
    if (op->has_data && report->options->in_place && !op->in_place)
        fprintf(out, "; out of place, it knows no other way");
    fprintf(out, "\n");
    for (int i = 0; i < lib_count; i++) {
        const char *lacks = bench_op_lacks(op, &libs[i], in_place);
        if (lacks)
            fprintf(out, "# %s %s %s\n", libs[i].name, libs[i].version, lacks);
    }
    if (report->options->explain)
        explain_header(report);
    else
        print_columns(out, lib_count);
    fflush(out);
}

static void print_wrong(FILE *out, const struct bench_result *result)
{
    if (result->checked)
        fprintf(out, " %7.0f", result->wrong);
    else
        fprintf(out, " %7s", "N/A");
}

static void print_eager(FILE *out, const struct bench_result *eager)
{
    fprintf(out, " ");
    if (!eager->measured) {
        fprintf(out, " %9s %7s %8s %8s %7s", "-", "-", "-", "-", "-");
        return;
    }
    print_number(out, eager->times.us, 9);
    print_number(out, eager->times.host_us, 7);
    fprintf(out, " %8.2f %8.2f", eager->algbw, eager->busbw);
    print_wrong(out, eager);
}

static void print_graph(FILE *out, const struct bench_result *graph)
{
    fprintf(out, "  ");
    if (!graph->measured) {
        fprintf(out, " %9s %9s %9s %8s %8s %7s", "-", "-", "-", "-", "-", "-");
        return;
    }
    print_number(out, graph->times.us, 9);
    print_number(out, graph->times.min, 9);
    print_number(out, graph->times.p99, 9);
    fprintf(out, " %8.2f %8.2f", graph->algbw, graph->busbw);
    print_wrong(out, graph);
}

void table_row(struct report *report, const struct bench_result *eager, const struct bench_result *graph)
{
    FILE *out = report->text;
    fprintf(out, " %10zu %13zu %9s %7s", graph->bytes, graph->count, graph->type, graph->redop);
    if (report->options->lib_count > 0) {
        char lib[64];
        snprintf(lib, sizeof lib, "%s %s", graph->lib, graph->version);
        fprintf(out, " %*.*s", lib_width, lib_width, lib);
    }
    print_eager(out, eager);
    print_graph(out, graph);
    if (report->options->lib_count > 0 && graph->measured && report->rondo_us > 0)
        fprintf(out, " %7.2f", graph->times.us / report->rondo_us);
    fprintf(out, "\n");
    fflush(out);
}

void table_footer(struct report *report, double wrong)
{
    if (report->options->explain)
        return;
    if (report->options->check)
        fprintf(report->text, "# wrong elements: %.0f %s\n", wrong, wrong > 0 ? "FAILED" : "OK");
    else
        fprintf(report->text, "# results were not checked\n");
    fflush(report->text);
}
