/* What links are made of: for links.c, areas.c and selftest.c. */
#ifndef RONDO_COMM_LINKS_IMPL_H
#define RONDO_COMM_LINKS_IMPL_H

#include "comm/comm.h"
#include "transport/link.h"
#include "transport/path.h"

struct rondo_links {
    enum rondo_mem_kind kind;                    /* of device memory that peers map */
    size_t mailbox;                              /* bytes, of all lanes */
    struct rondo_path *paths;                    /* from rank s to rank r: [s * ranks + r] */
    uint8_t *verdicts;                           /* what rank r found of rank p: [r * ranks + p] */
    struct rondo_link (*open)[RONDO_AREA_COUNT]; /* by rank */
};

static inline const struct rondo_path *rondo_path_of(const struct rondoComm *comm, int sender, int receiver)
{
    return &comm->links->paths[sender * comm->ranks + receiver];
}

/* What a rank found of a pair. */
static inline enum rondo_pair_verdict rondo_verdict_of(const struct rondoComm *comm, int rank, int peer)
{
    return (enum rondo_pair_verdict)(comm->links->verdicts[rank * comm->ranks + peer] & ~RONDO_PAIR_NVLINK);
}

#endif
