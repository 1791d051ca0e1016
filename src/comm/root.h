/* The root: the thread behind a unique id, at which the ranks of the future comm report. */
#ifndef RONDO_COMM_ROOT_H
#define RONDO_COMM_ROOT_H

#include "rondo/rondo.h"

#include "comm/bootstrap_wire.h"

/* Listens at the address that `RONDO_SOCKET_IFNAME` chooses, fills in the id and starts a detached thread. It ends by
 * itself when it has served all ranks, or some minutes after it has told them that the comm cannot be. */
rondoResult_t rondo_root_start(struct rondo_id *id);

/* Ends the root of this id if it is in this process; else does nothing. Does not wait for it. */
void rondo_root_stop(const struct rondo_id *id);

/* Fails the comm of this id's root, if it is in this process: all that have joined are told, and `others` that are yet to
 * come, for as long as an init may take. */
void rondo_root_fail(const struct rondo_id *id, int others, rondoResult_t result, const char *text);

/* Roots that live in this process, for tests. */
int rondo_root_count(void);

#endif
