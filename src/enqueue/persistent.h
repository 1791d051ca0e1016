/* Plans that users keep. While the calling thread makes one, what its calls would launch goes into it. */
#ifndef RONDO_ENQUEUE_PERSISTENT_H
#define RONDO_ENQUEUE_PERSISTENT_H

#include "comm/comm.h"
#include "graph/launch.h"

#include <stdbool.h>

/* Whether the calling thread makes a plan. */
bool rondo_plan_making(void);

/* Notes the first error of the plan that is being made, if there is one, and gives it back. */
rondoResult_t rondo_plan_error(rondoResult_t result);

/* Adds what a group or a call of its own has for one comm, which was entered. */
rondoResult_t rondo_plan_add(struct rondoComm *comm, const struct rondo_launch_request *request);

#endif
