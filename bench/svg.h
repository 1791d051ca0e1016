/* A plot of latency over size, both logarithmic: a line per library, and per op, type and reduction if there are
 * several. */
#ifndef RONDO_BENCH_SVG_H
#define RONDO_BENCH_SVG_H

#include "report.h"

/* Writes to report->svg; graph times, or eager ones if there are no others. */
void svg_plot(const struct report *report);

#endif
