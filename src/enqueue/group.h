/* The calling thread's group: what its calls have put in, until the outermost end issues it. */
#ifndef RONDO_ENQUEUE_GROUP_H
#define RONDO_ENQUEUE_GROUP_H

#include "comm/comm.h"
#include "plan/plan.h"

#include <stdbool.h>

/* Whether the calling thread is inside a group. */
bool rondo_group_active(void);

/* Notes the first error of a group, or outside of groups of the plan that is being made, and gives it back. */
rondoResult_t rondo_group_error(rondoResult_t result);

/* Issues a checked collective, at the group's end or, outside of groups, now. */
rondoResult_t rondo_group_add(struct rondoComm *comm, const struct rondo_task *task, struct CUstream_st *stream);

/* The same for a send or a receive. One to the rank itself finds its other half at the group's end. */
rondoResult_t rondo_group_add_message(struct rondoComm *comm, const struct rondo_message *message,
                                      struct CUstream_st *stream);

/* Whether the calling thread's group has ops of blocking comms and of non-blocking ones. */
bool rondo_group_mixes_blocking(void);

/* Ends a group as rondoGroupEnd does, but nothing is issued or made. */
rondoResult_t rondo_group_discard(void);

/* Makes a comm, at the group's end or now. *comm is NULL until then. */
rondoResult_t rondo_group_add_comm(const struct rondo_comm_request *request, rondoComm_t *comm);

#endif
