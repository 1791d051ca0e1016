/* A comm's host memory: everything allocated from an arena goes with it. Sits on jemalloc (an arena of its own, through
 * mallocx found as a weak symbol) where the process has it, else on libc. Thread-safe. */
#ifndef RONDO_COMMON_ARENA_H
#define RONDO_COMMON_ARENA_H

#include "rondo/rondo.h"

#include <stddef.h>

struct rondo_arena;

/* rondoSystemError if there is no memory. */
rondoResult_t rondo_arena_create(struct rondo_arena **arena);

/* Frees the arena and all that it holds. NULL is fine. */
void rondo_arena_destroy(struct rondo_arena *arena);

/* Zeroed memory, 16-byte aligned. rondoSystemError if there is none. */
rondoResult_t rondo_arena_alloc(struct rondo_arena *arena, size_t bytes, void **pointer);

/* Gives one allocation back early. NULL is fine. */
void rondo_arena_free(struct rondo_arena *arena, void *pointer);

/* Bytes that are allocated now, as asked for. */
size_t rondo_arena_bytes(const struct rondo_arena *arena);

/* Bytes over all arenas of the process: tests assert that it is 0 after the last destroy. */
size_t rondo_arena_total_bytes(void);

#endif
