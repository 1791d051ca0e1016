/* Paths: which way what one rank has for another takes. Pure data: the choice is a function of what all ranks said, so all of them
 * make the same one for every pair.
 *
 * Three questions make a path: may the two reach each other's device memory, or does host memory lie between them; on whose side
 * do lines wait; who moves them there and away, kernels or copy engines. */
#ifndef RONDO_TRANSPORT_PATH_H
#define RONDO_TRANSPORT_PATH_H

#include "rondo/rondo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From one rank to another. */
struct rondo_path {
    bool host;          /* through host memory; else device memory */
    bool at_sender;     /* lines wait on the sender's side, in a mailbox for this receiver; else in the receiver's */
    bool sender_copies; /* kernels fill a mailbox of the sender's device; a copy engine takes it to where lines wait */
    bool receiver_copies; /* a copy engine takes them from there to the receiver's device (host memory only) */
    uint8_t relay;        /* 1 + the rank in whose device memory lines wait, which both reach; 0: none, as above */
};

/* What a rank says at init, in its card. Where two ranks say different things of what only one can do, the sender's word counts. */
struct rondo_path_wish {
    uint8_t p2p_copies;
    uint8_t shm_disable, shm_locality, shm_copy_mode; /* of shm_copy_mode 0: kernels move all */
};

/* What the environment asks of this rank. */
void rondo_path_wish_fill(struct rondo_path_wish *wish);

/* Whether a pair may go by device memory, as one of its ranks found; a later one is worse. */
enum rondo_pair_verdict {
    RONDO_PAIR_FINE,
    RONDO_PAIR_READS,         /* and it is better that receivers read */
    RONDO_PAIR_REFUSED,       /* eligibility.h; the rank's log says why */
    RONDO_PAIR_NOT_MAPPED,    /* the peer's memory could not be mapped */
    RONDO_PAIR_NOT_SEEN,      /* what one stored was not seen by the other's running kernel */
    RONDO_PAIR_NOT_RELAYED,   /* nor was it through a third one's memory */
    RONDO_PAIR_NVLINK = 0x80, /* added: they are joined by NVLink */
};
const char *rondo_pair_verdict_text(unsigned verdict);

/* The path from a rank with wish `sender` to one with wish `receiver`, who came to a verdict each. rondoInvalidUsage: neither
 * device nor host memory may be used. */
rondoResult_t rondo_path_choose(const struct rondo_path_wish *sender, const struct rondo_path_wish *receiver,
                                enum rondo_pair_verdict senders, enum rondo_pair_verdict receivers,
                                struct rondo_path *path);

/* For a pair that must not go by device memory, whatever the reason: whether it may go through that of a third rank, given what the
 * three found of each other: both are joined to it by NVLink, and it works. */
bool rondo_path_may_relay(uint8_t pair_found, const uint8_t found[4]);

/* The log's name for it. `mapping`: "direct pointer", "CUMEM" or "IPC". */
void rondo_path_text(const struct rondo_path *path, const char *mapping, char *text, size_t room);

#endif
