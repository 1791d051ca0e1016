/* Traces of a comm's ranks, merged. */
#ifndef RONDO_TRACE_TRACE_H
#define RONDO_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_RANKS = 64 };

/* A launch of one rank; its times are the rank's. */
struct record {
    const char *name; /* owned by the rank's lines */
    size_t name_bytes;
    unsigned lane, epoch;
    bool meets; /* all ranks hear from all in it */
    int64_t arrival, first, done;
};

/* A file. */
struct rank {
    const char *path;
    char *text; /* owned: the file, its lines ended by 0 */
    char **lines;
    size_t line_count;
    char comm[17];
    bool host_clock; /* the clock is the machine's, not a GPU's */
    int rank, ranks;
    int64_t base;           /* what its events count from */
    struct record *records; /* by lane and epoch */
    size_t record_count;
    int64_t offset; /* its clock less the first file's */
    int64_t error;  /* the offset is right within about this */
};

/* An op that all files have: rank r's record is records[r], in the order of the files. */
struct op {
    const struct record *records[MOST_RANKS];
};

struct merged {
    struct rank ranks[MOST_RANKS]; /* by rank */
    int count;
    struct op *ops; /* owned */
    size_t op_count;
};

/* Prints what is wrong, and gives false. */
bool trace_read(const char *path, struct rank *rank);
void trace_free(struct merged *merged);

/* After all were read: puts them in order, finds common ops, aligns the clocks. Prints what is wrong, and gives false. */
bool trace_match(struct merged *merged);

void trace_summary(const struct merged *merged, FILE *out);

/* false: it could not be written. */
bool trace_write(const struct merged *merged, FILE *out);

#endif
