/* Comms that were made of a rig's comm: whether they are what they should be, and work. */
#ifndef RONDO_TESTS_CHILD_H
#define RONDO_TESTS_CHILD_H

#include "support/rig.h"

/* `rigs` with comms of the calling thread (NULL: none), each with its rank, ranks and stream in the new comm; all ranks of
 * these comms call it. Eager and captured all-reduces. 0: they work. */
int children_try(struct rig *rigs, int count);

/* The same for one. It must have that rank of that many. */
int child_try(const struct rig *rig, rondoComm_t comm, int rank, int ranks);

/* Polls a non-blocking comm until it is no longer in progress, 20 s at most. */
rondoResult_t child_await(rondoComm_t comm);

#endif
