/* Results for programs: JSON, one object per line, and CSV with the same fields.
 *
 * lib, version, op, bytes, count, type, redop, ranks, device, mode, us, us_min, us_p50, us_p99, us_max, algbw,
 * busbw, wrong, algo, proto, channels, host_us; then `group` where ops are groups; then `root`. wrong is null (CSV: empty)
 * if unchecked; host_us is left out (CSV: empty) if not eager, root if the op has none. bytes, count, algo, proto and
 * channels are of one call, times and bandwidths of the whole group. */
#ifndef RONDO_BENCH_RECORDS_H
#define RONDO_BENCH_RECORDS_H

#include "result.h"

#include <stdio.h>

void records_json(FILE *file, const struct bench_result *result);
void records_csv_header(FILE *file, int group);
void records_csv(FILE *file, const struct bench_result *result);

#endif
