/* The matrix as a picture: a pair's path, best latency and bandwidth, on the color of its verdict. */
#include "doctor.h"
#include "mechanism.h"

#include <stdio.h>

enum { CELL = 92, LEFT = 84, TOP = 96, BOTTOM = 40, LEAST_WIDTH = 480 };

static const char *color_of(enum verdict verdict)
{
    static const char *const colors[] = {"#cfe8cf", "#f4b6b0", "#f6e3a8"};
    return colors[verdict];
}

static void put_text(FILE *file, double x, double y, int size, const char *anchor, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\">", x, y, size, anchor);
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(file, "&#%d;", *text);
        else
            fputc(*text, file);
    }
    fprintf(file, "</text>\n");
}

static const struct pair *pair_of(const struct doctor *doctor, int a, int b)
{
    for (int i = 0; i < doctor->pair_count; i++)
        if ((doctor->pairs[i].a == a && doctor->pairs[i].b == b) ||
            (doctor->pairs[i].a == b && doctor->pairs[i].b == a))
            return &doctor->pairs[i];
    return NULL;
}

/* Row `a` writes to column `b`. */
static void put_cell(const struct doctor *doctor, int a, int b, FILE *file)
{
    const struct pair *pair = pair_of(doctor, a, b);
    const double x = LEFT + b * CELL, y = TOP + a * CELL;
    double latency = 0, gbs = 0;
    char text[32];
    fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"white\"/>\n", x, y, CELL,
            CELL, pair ? color_of(pair->verdict) : "#eeeeee");
    path_text(doctor, a, b, text, sizeof text);
    put_text(file, x + CELL / 2.0, y + 32, 18, "middle", text);
    for (int m = 0; pair && m < mechanism_count; m++) {
        const struct outcome *outcome = &pair->outcomes[m];
        const double written = outcome->write_gbs[pair->a == a ? 0 : 1];
        if (outcome->kind != OUTCOME_WORKS)
            continue;
        latency = latency == 0 || outcome->latency_us < latency ? outcome->latency_us : latency;
        gbs = written > gbs ? written : gbs;
    }
    if (latency > 0) {
        snprintf(text, sizeof text, "%.2f µs", latency);
        put_text(file, x + CELL / 2.0, y + 54, 13, "middle", text);
        snprintf(text, sizeof text, "%.0f GB/s", gbs);
        put_text(file, x + CELL / 2.0, y + 74, 13, "middle", text);
    }
}

void report_svg(const struct doctor *doctor, FILE *file)
{
    const int count = doctor->seen->count;
    const int wide = LEFT + count * CELL + 20, height = TOP + count * CELL + BOTTOM;
    const int width = wide < LEAST_WIDTH ? LEAST_WIDTH : wide;
    char text[160];
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" fill=\"#222222\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, height, width, height, width, height);
    snprintf(text, sizeof text, "%s: %d devices (%s), %s", doctor->system.host, count, doctor->seen->row,
             verdict_name(doctor->verdict));
    put_text(file, 16, 32, 20, "start", text);
    put_text(file, 16, 56, 13, "start", "path; best one-way latency between kernels; best copy from row to column");
    for (int a = 0; a < count; a++) {
        snprintf(text, sizeof text, "GPU %d", a);
        put_text(file, LEFT - 10, TOP + a * CELL + CELL / 2.0 + 5, 14, "end", text);
        put_text(file, LEFT + a * CELL + CELL / 2.0, TOP - 10, 14, "middle", text);
        for (int b = 0; b < count; b++)
            put_cell(doctor, a, b, file);
    }
    fprintf(file, "</svg>\n");
}
