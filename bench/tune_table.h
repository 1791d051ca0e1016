/* From times to thresholds, and to the file of them. */
#ifndef RONDO_BENCH_TUNE_TABLE_H
#define RONDO_BENCH_TUNE_TABLE_H

#include <stddef.h>

enum { TUNE_OPS = 6, TUNE_SIZES = 40 };

enum tune_way { TUNE_ONE_SHOT, TUNE_TWO_SHOT, TUNE_BULK, TUNE_DIRECT, TUNE_WAYS };

struct tune_op {
    const char *name;
    int shards; /* whether it can be two-shot */
};
extern const struct tune_op tune_ops[TUNE_OPS];

/* What was measured of an op: bytes of a flow, which is what thresholds are about. */
struct tune_sizes {
    int count;
    size_t flow[TUNE_SIZES];
};

/* A run's, by op and size; 0: not measured. */
struct tune_times {
    double us[TUNE_OPS][TUNE_SIZES];
};

/* INFINITY where it was not measured. */
double tune_time(const struct tune_times *times, int op, int size);

/* By op. Indices of sizes: from there on; that count: never. Shapes are by size, 0: as built in, and go with the best time so far. */
struct tune_table {
    int two_shot[TUNE_OPS], bulk[TUNE_OPS], direct[TUNE_OPS];
    int threads[TUNE_OPS][TUNE_SIZES], channels[TUNE_OPS][TUNE_SIZES];
    double best[TUNE_OPS][TUNE_SIZES];
};

/* Where to go over from `below` to `above`, times by size: the index that costs least over all sizes, measured by ratios. */
int tune_cut(const double *below, const double *above, int count);

void tune_table_thresholds(struct tune_table *table, int op, const struct tune_sizes *sizes,
                           const struct tune_times ways[TUNE_WAYS]);

/* Takes a shape for the sizes at which it was clearly faster than `plain`, and than what was taken before. */
void tune_table_threads(struct tune_table *table, const struct tune_sizes sizes[TUNE_OPS],
                        const struct tune_times *plain, const struct tune_times *times, int threads);
void tune_table_channels(struct tune_table *table, const struct tune_sizes sizes[TUNE_OPS],
                         const struct tune_times *plain, const struct tune_times *times, int channels);

/* Writes the file, with the times as comments; what it says of other numbers of ranks stays. 0, or -1 with errno. */
int tune_table_write(const char *path, const struct tune_table *table, const struct tune_sizes sizes[TUNE_OPS],
                     const struct tune_times ways[TUNE_WAYS], int ranks);

#endif
