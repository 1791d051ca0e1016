/* The self-test of comm init: whether each path brings a peer's stores to this rank's kernel while both run. */
#ifndef RONDO_COMM_SELFTEST_H
#define RONDO_COMM_SELFTEST_H

#include "comm/comm.h"

/* All ranks call it, once the lanes are open and the mover runs. findings: enum rondo_selftest_finding for each peer, of its
 * stores as this rank saw them; what a kernel that could not run would have said is RONDO_SELFTEST_UNTESTED. Takes as long as one
 * launch where all is well, some 0.5 s where a pair is not. May be ended by rondo_comm_cancel. On an error too no kernel uses the
 * paths any more, or they stay as they are for good. */
rondoResult_t rondo_selftest_run(struct rondoComm *comm, uint8_t findings[RONDO_MAX_RANKS]);

#endif
