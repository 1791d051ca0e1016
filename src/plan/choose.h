/* Which exchange, and in what shape. Pure functions of size and limits, which hold the thresholds. */
#ifndef RONDO_PLAN_CHOOSE_H
#define RONDO_PLAN_CHOOSE_H

#include "plan/plan.h"

struct rondo_shape {
    unsigned channels, threads;
};

/* The exchange for a launch whose works of this kind have flows of this many bytes in all. */
enum rondo_algo rondo_choose_algo(const struct rondo_limits *limits, unsigned collective, uint64_t bytes);

/* Whether such a work goes round the ring, if it has a launch for itself: what the limits say. */
bool rondo_choose_ring(const struct rondo_limits *limits, const struct rondo_task *task, uint64_t bytes);

/* Whether a collective can be two-shot at all. */
bool rondo_has_shards(unsigned collective);

/* Blocks and threads for a work of this collective, flow and span in lines; RONDO_COLLECTIVE_COUNT: for a group of works. `may_be_lean`: it
 * has a lean kernel if no thread has more than a line. */
struct rondo_shape rondo_choose_shape(const struct rondo_limits *limits, unsigned collective, uint64_t bytes,
                                      uint64_t span, bool may_be_lean);

/* The rule of a table that decides about that; NULL: none. */
const struct rondo_shape_rule *rondo_shape_rule_of(const struct rondo_limits *limits, unsigned collective,
                                                   uint64_t bytes);

#endif
