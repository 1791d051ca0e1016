/* What Rondo does not have: refused, with a text, never done by halves. */
#ifndef RONDO_NCCL_REFUSAL_H
#define RONDO_NCCL_REFUSAL_H

#include "nccl/types.h"

/* ncclInvalidUsage, also for the group that the calling thread is in. `why`: what there is not, and what to do instead. */
ncclResult_t rondo_nccl_refuse(const char *function, const char *why);

/* The same for calls on a comm, which must be one. */
ncclResult_t rondo_nccl_refuse_comm(ncclComm_t comm, const char *function, const char *why);

#endif
