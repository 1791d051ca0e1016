/* How Rondo would run a row, and why. */
#ifndef RONDO_BENCH_EXPLAIN_H
#define RONDO_BENCH_EXPLAIN_H

#include "measure.h"
#include "report.h"

void explain_header(struct report *report);
void explain_row(struct report *report, rondoComm_t comm, const struct bench_case *what);

#endif
