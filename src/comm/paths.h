/* Which path goes from each rank of a comm to each other, and what follows from that for its plans. */
#ifndef RONDO_COMM_PATHS_H
#define RONDO_COMM_PATHS_H

#include "comm/comm.h"

struct rondo_card;

/* Sets comm->links->paths from what the ranks found of each other (links->verdicts) and asked for, the limits that depend on the
 * paths, and so the mailboxes' size: where each rank has a mailbox for every peer, all of them together get what one gets
 * elsewhere. The same on all ranks. rondoInvalidUsage: some pair may use neither device nor host memory. */
rondoResult_t rondo_paths_choose(struct rondoComm *comm, const struct rondo_card *cards);

#endif
