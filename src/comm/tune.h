/* A table of the sizes from which on exchanges, protocols and shapes are used, from a file that docs/tuning.md describes. What it
 * does not name stays as it is built in. */
#ifndef RONDO_COMM_TUNE_H
#define RONDO_COMM_TUNE_H

#include "rondo/rondo.h"

#include "comm/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct rondo_arena;
struct rondo_tune;

/* Reads a file. No path, or an empty one: *tune is NULL. rondoInvalidArgument, with the line's number, if the file cannot be read or
 * a line is none of the format's. The table is the arena's. */
rondoResult_t rondo_tune_load(const char *path, struct rondo_arena *arena, struct rondo_tune **tune);

/* For ranks to compare: of what a table says, however it is written. 0: NULL. */
uint64_t rondo_tune_hash(const struct rondo_tune *tune);

/* Whether a table (or NULL) sets this; *from is the threshold, of shapes the first one. */
bool rondo_tune_find(const struct rondo_tune *tune, unsigned ranks, unsigned collective, enum rondo_tune_key key,
                     uint64_t *from);

/* The rules of a collective, ascending, RONDO_SHAPE_RULES at most. How many. */
unsigned rondo_tune_shapes(const struct rondo_tune *tune, unsigned ranks, unsigned collective,
                           struct rondo_shape_rule *rules);

#endif
