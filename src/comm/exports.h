/* Memory of users that peers are given to map, so that kernels reach it directly (kernels/direct.h).
 *
 * A rank's exporter numbers the allocations that it was asked about: those of captured ops, for as long as their graphs live, and
 * registered ones, and rondoMemAlloc's. A thread of its own offers them to the peers, by letters over the watch, and maps what they offer. Once all
 * peers have mapped an allocation, the kernels learn that it is usable; until then, and if anything fails, ops go by
 * mailbox. Nobody waits for any of this. */
#ifndef RONDO_COMM_EXPORTS_H
#define RONDO_COMM_EXPORTS_H

#include "rondo/rondo.h"

#include "kernels/work.h"

#include <stddef.h>
#include <stdint.h>

struct rondoComm;
struct rondo_exporter;
struct rondo_exports_hold;

/* For a comm whose lanes are open. *exporter may be NULL: its ranks do not reach each other's memory. */
rondoResult_t rondo_exporter_create(struct rondoComm *comm, struct rondo_exporter **exporter);

/* Ends its thread; letters are ignored from now on. Before the watch goes. NULL is fine, here and below. */
void rondo_exporter_stop(struct rondo_exporter *exporter);

/* Unmaps what peers have offered (`unmap`; no kernel uses it any more), and lets go of the comm. Graphs may keep it alive. */
void rondo_exporter_close(struct rondo_exporter *exporter, int unmap);

/* A peer's letter, from the watch, and its descriptor (-1: none), which is taken over. */
void rondo_exporter_letter(struct rondo_exporter *exporter, int rank, const void *bytes, size_t count, int fd);

/* A hold on memory, for a graph or a registration; NULL: out of memory. Dropping it makes no device call, so a graph may do it. */
struct rondo_exports_hold *rondo_exports_hold_create(struct rondo_exporter *exporter);
void rondo_exports_hold_drop(void *hold);

/* Where a buffer lies in exported memory, which is exported if it can be and was not. `hold` keeps it so. *number:
 * RONDO_EXPORT_NONE if it lies in none. Does not block; captures may be under way. */
void rondo_exports_place(struct rondo_exports_hold *hold, const void *buffer, size_t bytes, uint16_t *number,
                         uint64_t *at);

/* The same for an eager op, of memory that nobody has registered: if it is rondoMemAlloc's. It stays exported until it is freed.
 * Under the comm's lock. */
void rondo_exporter_place(struct rondo_exporter *exporter, const void *buffer, size_t bytes, uint16_t *number,
                          uint64_t *at);

/* Allocations that have a number now: tests look for what graphs left. */
unsigned rondo_exporter_count(struct rondo_exporter *exporter);

/* Direct works that this rank has run. Blocks for a copy. */
rondoResult_t rondo_exporter_ran(struct rondo_exporter *exporter, uint32_t *ran);

#endif
