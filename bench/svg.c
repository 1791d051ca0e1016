#include "svg.h"

#include "ops.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 960,
    HEIGHT = 600,
    LEFT = 80,
    RIGHT = 30,
    TOP = 76,
    BOTTOM = 70,
    MAX_SERIES = 24,
    LEGEND_ROW = 20,
    MAX_INSIDE = 6, /* more series have their legend beside the plot */
};

/* Distinguishable for most eyes (Okabe and Ito); Rondo's comes first. */
static const char *const colors[] = {"#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444"};

struct plot {
    const struct report *report;
    FILE *file;
    const char *mode;
    const char *op;                                /* of this chart */
    double x_min, x_max;                           /* log2 of bytes */
    double y_min, y_max;                           /* log10 of microseconds */
    const struct bench_result *series[MAX_SERIES]; /* the first result of each */
    int series_count;
    int left_out;      /* results of series beyond MAX_SERIES */
    int types, redops; /* 1: they differ among the series */
};

static int belongs(const struct plot *plot, const struct bench_result *result)
{
    return result->op == plot->op && !strcmp(result->mode, "graph") == !strcmp(plot->mode, "graph") &&
           result->times.us > 0 && result->bytes > 0;
}

static int same_series(const struct bench_result *a, const struct bench_result *b)
{
    return a->lib_index == b->lib_index && a->type == b->type && a->redop == b->redop;
}

static double x_of(const struct plot *plot, double bytes)
{
    return LEFT + (log2(bytes) - plot->x_min) / (plot->x_max - plot->x_min) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *plot, double us)
{
    return HEIGHT - BOTTOM - (log10(us) - plot->y_min) / (plot->y_max - plot->y_min) * (HEIGHT - TOP - BOTTOM);
}

/* The next of …, 1, 2, 5, 10, … below or above. */
static double nice(double us, int above)
{
    static const double steps[] = {1, 2, 5, 10};
    double decade = pow(10, floor(log10(us) + 1e-9));
    double found = decade;
    for (int i = 0; i < 4; i++) {
        if (above && decade * steps[i] >= us * (1 - 1e-9))
            return decade * steps[i];
        if (!above && decade * steps[i] <= us * (1 + 1e-9))
            found = decade * steps[i];
    }
    return found;
}

/* Sizes that divide by the ranks are a little below powers of two: the axis ends where its labels are. */
static double near_whole(double power)
{
    return fabs(power - round(power)) < 0.05 ? round(power) : power;
}

/* Finds the series and the ranges. Returns the number of points. */
static int survey(struct plot *plot)
{
    double least_bytes = INFINITY, most_bytes = 0, least_us = INFINITY, most_us = 0;
    int points = 0;
    for (size_t i = 0; i < plot->report->result_count; i++) {
        const struct bench_result *result = &plot->report->results[i];
        if (!belongs(plot, result))
            continue;
        int known = 0;
        for (int s = 0; s < plot->series_count; s++)
            known |= same_series(plot->series[s], result);
        if (!known && plot->series_count == MAX_SERIES) {
            plot->left_out++;
            continue;
        }
        if (!known)
            plot->series[plot->series_count++] = result;
        plot->types |= result->type != plot->series[0]->type;
        plot->redops |= result->redop != plot->series[0]->redop;
        points++;
        least_bytes = fmin(least_bytes, (double)result->bytes);
        most_bytes = fmax(most_bytes, (double)result->bytes);
        least_us = fmin(least_us, result->times.us);
        most_us = fmax(most_us, result->times.us);
    }
    if (points == 0)
        return 0;
    plot->x_min = near_whole(log2(least_bytes));
    plot->x_max = near_whole(log2(most_bytes));
    if (plot->x_max <= plot->x_min) {
        plot->x_min -= 1;
        plot->x_max += 1;
    }
    plot->y_min = log10(nice(least_us * 0.9, 0));
    plot->y_max = log10(nice(most_us * 1.1, 1));
    return points;
}

/* ---- drawing ---- */

static void draw_text(const struct plot *plot, double x, double y, int size, const char *anchor, const char *text)
{
    fprintf(plot->file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\">", x, y, size, anchor);
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(plot->file, "&#%d;", *text);
        else
            fputc(*text, plot->file);
    }
    fprintf(plot->file, "</text>\n");
}

static void draw_line(const struct plot *plot, double x1, double y1, double x2, double y2, const char *color)
{
    fprintf(plot->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2,
            color);
}

static void draw_title(const struct plot *plot)
{
    const struct bench_result *first = plot->series[0];
    const struct bench_options *options = plot->report->options;
    char text[256];
    snprintf(text, sizeof text, "%s, %d ranks, device %s: latency %s", plot->op, first->ranks, first->device,
             strcmp(plot->mode, "graph") == 0 ? "in graph replays" : "of eager ops");
    draw_text(plot, LEFT, 32, 20, "start", text);
    const char *type = plot->types ? "" : first->type;
    const char *redop = plot->redops || strcmp(first->redop, "none") == 0 ? "" : first->redop;
    int used = snprintf(text, sizeof text, "%s%s%s%smean of the slowest rank", type, *type && *redop ? " " : "", redop,
                        *type || *redop ? ", " : "");
    if (options->group > 1)
        used += snprintf(text + used, sizeof text - (size_t)used, ", groups of %d calls", options->group);
    if (options->compute_us > 0)
        used += snprintf(text + used, sizeof text - (size_t)used, ", after %g µs of compute", options->compute_us);
    if (first->root >= 0)
        used += snprintf(text + used, sizeof text - (size_t)used, ", root %d", first->root);
    snprintf(text + used, sizeof text - (size_t)used, "%s", first->in_place ? ", in place" : "");
    draw_text(plot, LEFT, 56, 14, "start", text);
}

static void draw_x_axis(const struct plot *plot)
{
    int step = 1 + (int)(plot->x_max - plot->x_min) / 12; /* powers of two from label to label */
    for (int power = (int)ceil(plot->x_min - 1e-9); power <= plot->x_max + 1e-9; power++) {
        char text[32];
        double x = x_of(plot, ldexp(1, power));
        if ((power - (int)ceil(plot->x_min - 1e-9)) % step != 0)
            continue;
        draw_line(plot, x, TOP, x, HEIGHT - BOTTOM + 6, "#dddddd");
        options_size_text((size_t)1 << power, text, sizeof text);
        draw_text(plot, x, HEIGHT - BOTTOM + 24, 14, "middle", text);
    }
    draw_text(plot, LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 18, 15, "middle", "size (bytes)");
}

static void draw_y_axis(const struct plot *plot)
{
    static const int steps[] = {1, 2, 5};
    for (int decade = (int)floor(plot->y_min); decade <= (int)ceil(plot->y_max); decade++) {
        for (int i = 0; i < 3; i++) {
            double us = steps[i] * pow(10, decade);
            if (log10(us) < plot->y_min - 1e-9 || log10(us) > plot->y_max + 1e-9)
                continue;
            char text[32];
            draw_line(plot, LEFT - 6, y_of(plot, us), WIDTH - RIGHT, y_of(plot, us), i ? "#eeeeee" : "#cccccc");
            snprintf(text, sizeof text, "%g", us);
            draw_text(plot, LEFT - 12, y_of(plot, us) + 5, 14, "end", text);
        }
    }
    fprintf(plot->file, "<g transform=\"rotate(-90 22 %d)\">", (TOP + HEIGHT - BOTTOM) / 2);
    draw_text(plot, 22, (TOP + HEIGHT - BOTTOM) / 2.0, 15, "middle", "time per op (µs)");
    fprintf(plot->file, "</g>\n");
}

/* A series' color, and dashes once the colors are used up. */
static void set_stroke(const struct plot *plot, int series)
{
    int count = (int)(sizeof colors / sizeof *colors);
    fprintf(plot->file, "stroke=\"%s\" stroke-width=\"2.5\"%s", colors[series % count],
            series >= count ? " stroke-dasharray=\"6 3\"" : "");
}

static void draw_series(const struct plot *plot, int series)
{
    const struct report *report = plot->report;
    fprintf(plot->file, "<polyline fill=\"none\" ");
    set_stroke(plot, series);
    fprintf(plot->file, " points=\"");
    for (int dots = 0; dots < 2; dots++) {
        for (size_t i = 0; i < report->result_count; i++) {
            const struct bench_result *result = &report->results[i];
            if (!belongs(plot, result) || !same_series(plot->series[series], result))
                continue;
            double x = x_of(plot, (double)result->bytes);
            double y = y_of(plot, result->times.us);
            if (dots)
                fprintf(plot->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y,
                        colors[series % (int)(sizeof colors / sizeof *colors)]);
            else
                fprintf(plot->file, "%.1f,%.1f ", x, y);
        }
        fputs(dots ? "" : "\"/>\n", plot->file);
    }
}

static int legend_width(const struct plot *plot)
{
    return 170 + 80 * (plot->types + plot->redops);
}

static int legend_inside(const struct plot *plot)
{
    return plot->series_count <= MAX_INSIDE;
}

/* In the upper left corner, where latency curves are not, while there is room. */
static void draw_legend(const struct plot *plot)
{
    int left = legend_inside(plot) ? LEFT + 12 : WIDTH;
    int top = legend_inside(plot) ? TOP + 10 : TOP;
    int rows = plot->series_count + (plot->left_out > 0);
    fprintf(plot->file,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"white\" fill-opacity=\"0.85\" "
            "stroke=\"#cccccc\"/>\n",
            left, top, legend_width(plot), rows * LEGEND_ROW + 12);
    for (int s = 0; s < plot->series_count; s++) {
        const struct bench_result *result = plot->series[s];
        char text[160];
        double y = top + 16 + s * LEGEND_ROW;
        snprintf(text, sizeof text, "%s %s%s%s%s%s", result->lib, result->version, plot->types ? " " : "",
                 plot->types ? result->type : "", plot->redops ? " " : "", plot->redops ? result->redop : "");
        fprintf(plot->file, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" ", left + 8, y, left + 34, y);
        set_stroke(plot, s);
        fprintf(plot->file, "/>\n");
        draw_text(plot, left + 42, y + 5, 14, "start", text);
    }
    if (plot->left_out > 0)
        draw_text(plot, left + 42, top + 21 + plot->series_count * LEGEND_ROW, 14, "start", "(others are not drawn)");
}

/* Surveys one op's results; 0 if there is nothing to draw. */
static int plot_op(struct plot *plot, const struct report *report, const char *op)
{
    *plot = (struct plot){.report = report, .file = report->svg, .mode = "graph", .op = op};
    if (survey(plot) > 0)
        return 1;
    plot->mode = "eager";
    return survey(plot) > 0;
}

static int chart_width(const struct plot *plot)
{
    return WIDTH + (legend_inside(plot) ? 0 : legend_width(plot) + RIGHT);
}

static void draw_chart(const struct plot *plot, int number)
{
    fprintf(plot->file, "<g transform=\"translate(0 %d)\">\n", number * HEIGHT);
    draw_title(plot);
    draw_x_axis(plot);
    draw_y_axis(plot);
    fprintf(plot->file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888888\"/>\n", LEFT,
            TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    for (int series = plot->series_count - 1; series >= 0; series--)
        draw_series(plot, series);
    draw_legend(plot);
    fprintf(plot->file, "</g>\n");
}

void svg_plot(const struct report *report)
{
    struct plot plot;
    int charts = 0;
    int width = WIDTH;
    for (int op = 0; op < bench_op_count; op++) {
        if (!plot_op(&plot, report, bench_ops[op].name))
            continue;
        charts++;
        width = chart_width(&plot) > width ? chart_width(&plot) : width;
    }
    int height = HEIGHT * (charts ? charts : 1);
    fprintf(report->svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" fill=\"#222222\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, height, width, height, width, height);
    for (int op = 0, number = 0; op < bench_op_count; op++)
        if (plot_op(&plot, report, bench_ops[op].name))
            draw_chart(&plot, number++);
    fprintf(report->svg, "</svg>\n");
    fflush(report->svg);
}
