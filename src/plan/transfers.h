/* The messages' part of a launch: rounds, ends and blocks. */
#ifndef RONDO_PLAN_TRANSFERS_H
#define RONDO_PLAN_TRANSFERS_H

#include "plan/plan.h"

/* By kind and peer, otherwise in order. */
void rondo_messages_sort(struct rondo_message *messages, size_t count);

/* Writes the next round's transfers and ends into the launch's arguments, a batch's, from start + *at on, and moves *at behind them.
 * Says how many messages the launch has, and whether they are direct. Returns the number of blocks; how many threads suit them. *lean
 * is cleared if they give threads more than a line, or their arguments are not small. */
unsigned rondo_plan_transfers(struct rondo_group_plan *plan, char *start, size_t *at, struct rondo_plan_launch *launch,
                              unsigned *threads, bool *lean);

#endif
