/* Agreement among the ranks of a comm that is being made. */
#ifndef RONDO_COMM_VOTE_H
#define RONDO_COMM_VOTE_H

#include "comm/comm.h"

/* Whether all ranks are well: one rank's failure is everyone's. Also orders what all did before against what any does after.
 * `what`: what was done, for the text. */
rondoResult_t rondo_comm_vote(struct rondoComm *comm, rondoResult_t mine, const char *what);

#endif
