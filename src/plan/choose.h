/* Which exchange, and in what shape. Measured on H200 (docs/decisions/0003); pure functions of size and limits. */
#ifndef RONDO_PLAN_CHOOSE_H
#define RONDO_PLAN_CHOOSE_H

#include "plan/plan.h"

struct rondo_shape {
    unsigned channels, threads;
};

/* The exchange for a launch whose works of this kind have flows of this many bytes in all. */
enum rondo_algo rondo_choose_algo(const struct rondo_limits *limits, unsigned collective, uint64_t bytes);

/* Whether a collective can be two-shot at all. */
bool rondo_has_shards(unsigned collective);

/* Blocks and threads for a work whose span has this many lines. */
struct rondo_shape rondo_choose_shape(const struct rondo_limits *limits, uint64_t span);

#endif
