/* Items whose data copy engines move: how often they do, and rounds of them. */
#ifndef RONDO_TESTS_COPIED_H
#define RONDO_TESTS_COPIED_H

#include "support/item.h"

/* A suite's .init: the policy under which copy engines move data, whatever its size. Broadcasts are copied as two-shot only. */
void copied_init(void);

/* Makes the rig's memory such as peers of other processes map, and as eager ops may use directly: rondoMemAlloc's. */
void copied_begin(struct rig *rig);
void copied_end(struct rig *rig);

/* Copies that this rank's engines were given so far. */
uint64_t copied_count(const struct rig *rig);

/* Copies that all ranks of an item make together. */
uint64_t copied_expected(const struct item *item, int ranks);

/* One round of the graph, or else of the call, on all ranks, with fresh data; *copies: those that all ranks made together. 0: the
 * results are right. */
int copied_round(struct item *item, struct rig *rig, struct machine_graph *graph, uint64_t *copies);

/* Rounds until copy engines move all of the item, and some more, in each of which they do, exactly. 0: they do. */
int copied_rounds(struct item *item, struct rig *rig, struct machine_graph *graph);

struct machine_graph *copied_capture(const struct item *item, struct rig *rig);

#endif
