/* The table for people: nccl-tests' columns, eager and graph side by side. */
#ifndef RONDO_BENCH_TABLE_H
#define RONDO_BENCH_TABLE_H

#include "report.h"

void table_header(struct report *report, const struct run_about *about, const struct bench_lib *libs,
                  const double *init_ms, int lib_count);
/* The head of an op's block. */
void table_op(struct report *report, const struct bench_op *op, const struct bench_lib *libs, int lib_count);
void table_row(struct report *report, const struct bench_result *eager, const struct bench_result *graph);
void table_footer(struct report *report, double wrong);

#endif
