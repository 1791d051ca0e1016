/* Where comm structs come from and go to. The memory of a struct is never given back, only used again: a handle that was
 * destroyed is then seen to be dead instead of being a dangling pointer, as long as no later comm has taken it. */
#ifndef RONDO_COMM_RETIRED_H
#define RONDO_COMM_RETIRED_H

#include "comm/comm.h"

/* A zeroed struct with its locks made. */
rondoResult_t rondo_comm_obtain(struct rondoComm **comm);

/* Frees all that the comm has, in reverse order of its making, partly made ones included, and retires the struct. No
 * kernel of it runs or may touch its links any more. */
void rondo_comm_free(struct rondoComm *comm);

#endif
