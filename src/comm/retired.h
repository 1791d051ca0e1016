/* Where comm structs come from and go to. The memory of a struct is never given back, only used again: a handle that was
 * destroyed is then seen to be dead instead of being a dangling pointer, as long as no later comm has taken it. */
#ifndef RONDO_COMM_RETIRED_H
#define RONDO_COMM_RETIRED_H

#include "comm/comm.h"

/* A zeroed struct with its locks made. */
rondoResult_t rondo_comm_obtain(struct rondoComm **comm);

/* Frees all that the comm has but for the struct with what is embedded in it, in reverse order of its making, partly made
 * ones included. A second time does nothing. No kernel of it runs or may touch its links any more. */
void rondo_comm_strip(struct rondoComm *comm);

/* Retires the struct, after strip. */
void rondo_comm_retire(struct rondoComm *comm);

/* For a comm that has ended but for a call of another thread, which is held up inside: it is stripped and retired once that is gone and
 * a comm is made. */
void rondo_comm_linger(struct rondoComm *comm);

#endif
