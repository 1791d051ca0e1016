/* Comms that grow, as all ranks of a rig call for it. */
#ifndef RONDO_TESTS_GROWING_H
#define RONDO_TESTS_GROWING_H

#include "support/rig.h"

/* Skips the test where there are fewer. */
void growing_needs(int ranks);

/* A comm of the first ranks; NULL on the others. 0: it is made. */
int growing_make_old(struct rig *rig, int ranks, rondoComm_t *comm);

/* An id that the giver makes of its comm, for all. 0: all have it. */
int growing_share_id(struct rig *rig, rondoComm_t comm, int giver, rondoUniqueId *id);

/* The call: of those that have the comm, only the giver gives the id; the others join by it, each as its rank of the rig. */
rondoResult_t growing_call(struct rig *rig, rondoComm_t comm, int ranks, const rondoUniqueId *id, int giver,
                           rondoComm_t *grown);

#endif
