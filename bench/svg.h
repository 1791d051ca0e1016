/* Plots of latency over size, both logarithmic: a chart per op, one below the other; in it a line per library, and per
 * type and reduction if there are several. Ops without a size are left out. */
#ifndef RONDO_BENCH_SVG_H
#define RONDO_BENCH_SVG_H

#include "report.h"

/* Writes to report->svg; graph times, or eager ones if there are no others. */
void svg_plot(const struct report *report);

#endif
