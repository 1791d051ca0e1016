/* A rank's areas: the memory in which lines wait, as the comm's paths ask for it, and where in it and in the peers' the mailboxes
 * lie. */
#ifndef RONDO_COMM_AREAS_H
#define RONDO_COMM_AREAS_H

#include "comm/links_impl.h"

/* Whether an area is host memory; the others are device memory. */
bool rondo_area_is_host(enum rondo_area area);

/* Whether a rank maps an area of a peer's. */
bool rondo_area_is_mapped(const struct rondoComm *comm, int rank, int peer, enum rondo_area area);

/* Makes this rank's areas, and says what there is of them. On an error some may be there, and descriptors in `fds`, which are the
 * caller's to close. */
rondoResult_t rondo_areas_make(struct rondoComm *comm, struct rondo_offer *mine, int *fds);

/* Idempotent. No peer may have them mapped. */
void rondo_areas_free(struct rondoComm *comm);

/* This rank's mailbox for a receiver; of an inbox, that for all senders. */
struct rondo_box rondo_own_box(const struct rondoComm *comm, enum rondo_area area, int receiver);

/* The mailbox in which lines wait on the path between this rank and another. */
struct rondo_box rondo_waiting_box(const struct rondoComm *comm, int sender, int receiver);

/* Where posts to a receiver's mover go. `box`: the mailbox, in host memory. */
struct rondo_post_ring *rondo_shared_ring(const struct rondoComm *comm, char *box, int sender);

#endif
