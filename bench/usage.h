/* The text of --help. */
#ifndef RONDO_BENCH_USAGE_H
#define RONDO_BENCH_USAGE_H

void usage_print(void);

#endif
