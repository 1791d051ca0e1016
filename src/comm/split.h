/* Comms that are made of ranks of another one, the parent: split, shrink and grow. Every rank that takes part sends each other one
 * letter over the parent's connections: what it asks for, and where it listens. From the same letters all compute the same
 * children, whose ranks then connect with each other; those of a grow join by an id, as the new ranks do. The parent's lanes are not touched: its ops go on meanwhile. */
#ifndef RONDO_COMM_SPLIT_H
#define RONDO_COMM_SPLIT_H

#include "rondo/rondo.h"

#include <stdbool.h>
#include <stdint.h>

struct rondoComm;
struct rondo_split;

enum rondo_split_kind {
    RONDO_SPLIT = 1,
    RONDO_SHRINK,
    RONDO_SHRINK_ABORTING, /* ends the parent's ops, and may follow a failure of the parent */
    RONDO_GROW,
};

struct rondo_split_request {
    struct rondoComm *parent;
    enum rondo_split_kind kind;
    int color, key;    /* of RONDO_SPLIT; color is RONDO_SPLIT_NOCOLOR or not negative */
    uint64_t excluded; /* of shrinks: a bit for each rank that does not take part */
    int ranks;         /* of RONDO_GROW: that there will be */
    bool gives_id;     /* of RONDO_GROW: this rank has been given the id */
    rondoUniqueId id;
};

/* Whether the parent can have this done now. Holds it inside the call: rondo_comm_leave must follow a success. */
rondoResult_t rondo_split_enter(const struct rondo_split_request *request);

/* Sends the letters; does not block. Of one parent all ranks begin theirs in the same order. *split is NULL for
 * RONDO_SPLIT_NOCOLOR: nothing more is to be done. Errors as enter's, and rondoSystemError, which the others are told. */
rondoResult_t rondo_split_begin(const struct rondo_split_request *request, struct rondo_split **split);

/* Waits for the others' letters, for the parent's ops where it must, and connects with the ranks of the child: sets its rank,
 * ranks, key and bootstrap; the child's `cancelled` ends the waits. rondoRemoteError: a rank ended; rondoTimeout, naming the
 * ranks that did not call; rondoInvalidUsage: ranks ask for different things, or the parent was destroyed meanwhile;
 * rondoInvalidArgument: they differ in what they say of it. If that comes of the letters, who joins a grow hears of it.
 * *ready is how the wait for the parent's ops went, for the child's ranks to agree on. */
rondoResult_t rondo_split_meet(struct rondo_split *split, struct rondoComm *child, rondoResult_t *ready);

/* NULL is fine. */
void rondo_split_free(struct rondo_split *split);

#endif
