/* The links of a comm: which path goes from each rank to each other, the memory that these paths need, its mappings, and the
 * mailboxes' addresses that follow from all that. Made at init, by all ranks together. */
#ifndef RONDO_COMM_LINKS_H
#define RONDO_COMM_LINKS_H

#include "comm/comm.h"

struct rondo_card;

/* Chooses paths, makes and maps memory, opens the lanes, and starts the mover if there is something to copy. What fails to map
 * for a pair is replaced: by the next kind of device memory for all, then by host memory for that pair, with one warning. On an
 * error what was made is the comm's to close. */
rondoResult_t rondo_links_make(struct rondoComm *comm, const struct rondo_card *cards);

/* Logs the path to each peer. */
void rondo_links_log(const struct rondoComm *comm, const struct rondo_card *cards);

/* Closes all mappings of peers' memory. Idempotent; comm->links may be NULL. */
void rondo_links_close(struct rondoComm *comm);

#endif
