/* How the ranks of a comm find each other, and the control plane that they keep.
 *
 * rondo_bootstrap_id starts a root: a thread of this process that listens on TCP. Each rank sends the root the secret
 * from the id, its rank, nranks, host identity and the name of its own abstract Unix socket; once all ranks are in, the
 * root sends everyone the table and ends. The ranks (one host only, for now) then connect pairwise over the Unix
 * sockets, checking the secret again, and keep these connections: they carry the init exchanges, descriptors, and
 * afterwards the watch's messages; their end is how the death of a process shows. Strangers who connect anywhere are
 * dropped without effect, however slow or long.
 *
 * A bootstrap is used by one thread at a time. Every wait is bounded by the timeout given to join and looks at
 * *cancel at least every 50 ms. A rank starts its watch after its last exchange: from then on the sockets are the
 * watch's. */
#ifndef RONDO_COMM_BOOTSTRAP_H
#define RONDO_COMM_BOOTSTRAP_H

#include "rondo/rondo.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rondo_bootstrap;

/* Makes an id and starts its root. The root lives until it has served all ranks, or as long as the process; in a forked
 * child it does not exist. rondoInvalidUsage: RONDO_SOCKET_IFNAME names no interface with an address. */
rondoResult_t rondo_bootstrap_id(rondoUniqueId *id);

/* Ends the id's root if it is in this process: nobody will join. */
void rondo_bootstrap_forget(const rondoUniqueId *id);

/* Tells those who join by the id that the comm cannot be, and why, if its root is in this process: `others` are to hear of it,
 * who get rondoRemoteError. Else they time out. */
void rondo_bootstrap_refuse(const rondoUniqueId *id, int others, const char *text);

/* Joins. Blocks until all ranks have, or `timeout_ms` is over (rondoTimeout, naming the missing ranks where known),
 * or *cancel becomes non-zero (rondoInvalidUsage; set it with an atomic store; it may be NULL, else must outlive the
 * bootstrap). rondoInvalidArgument: not an id, or one whose root does not know it; a rank that is not of
 * 0..nranks-1, ranks that disagree on nranks, the same rank twice (all ranks get it, but for a rank that says nranks
 * is 1). rondoInvalidUsage: a rank on another host (named). rondoRemoteError: a rank, or the root's process, ended
 * meanwhile. rondoSystemError: the root cannot be reached for 3 s. With nranks 1 nothing is connected, and the root
 * of the id ends if it is in this process. */
rondoResult_t rondo_bootstrap_join(const rondoUniqueId *id, int rank, int nranks, int timeout_ms,
                                   const volatile int *cancel, struct rondo_bootstrap **bootstrap);

/* A bootstrap between ranks that tell each other their members by means of their own, without a root. First each rank
 * listens and fills in its member; *listener is the caller's to close. */
struct rondo_member;
rondoResult_t rondo_bootstrap_listen(struct rondo_member *self, int *listener);

/* Then they connect, once all of them listen: every rank with the same table, in rank order, and the same secret, which nobody else
 * knows. */
struct rondo_meeting {
    int rank, nranks, timeout_ms;
    const volatile int *cancel;
    int listener;
    const struct rondo_member *table;
    const uint8_t *secret; /* RONDO_SECRET_BYTES */
};

/* Blocks and fails as join does; a rank whose listener is closed is rondoRemoteError. */
rondoResult_t rondo_bootstrap_meet(const struct rondo_meeting *meeting, struct rondo_bootstrap **bootstrap);

/* Every rank gives `bytes` and gets everyone's, in rank order; `mine` may be its place in `all`. rondoRemoteError: a
 * rank died, left or failed (named, with its reason where it gave one); rondoTimeout, naming the ranks that are
 * behind; rondoInternalError: ranks call different exchanges or sizes. After an error the bootstrap is only good for
 * closing (later exchanges give the same error), and the others have been told. A rank that fails locally between exchanges calls rondo_bootstrap_abort,
 * then closes. */
rondoResult_t rondo_bootstrap_all_gather(struct rondo_bootstrap *bootstrap, const void *mine, void *all, size_t bytes);

/* Every rank offers descriptor `mine` (-1: none) to all; fds[r] is rank r's as received (own entry and absent ones -1),
 * close-on-exec and the caller's to close. Errors as above; then no fds are left open and all entries are -1. */
rondoResult_t rondo_bootstrap_exchange_fds(struct rondo_bootstrap *bootstrap, int mine, int *fds);

/* Tells the others why this rank gives up (their exchange, or their watch, reports it). Does not block. */
void rondo_bootstrap_abort(struct rondo_bootstrap *bootstrap, const char *text);

/* The connection to a rank (-1 for oneself), its process id as the kernel tells it (0: in another pid namespace), and
 * whether it is this very process (1 for oneself). The socket is owned by the bootstrap. */
int rondo_bootstrap_socket(const struct rondo_bootstrap *bootstrap, int rank);
pid_t rondo_bootstrap_pid(const struct rondo_bootstrap *bootstrap, int rank);
int rondo_bootstrap_same_process(const struct rondo_bootstrap *bootstrap, int rank);

/* A descriptor that becomes readable when the rank's process ends, owned by the bootstrap; -1: there is none (oneself,
 * the same process, another pid namespace, an old kernel); -2: the process has already ended. */
int rondo_bootstrap_pidfd(const struct rondo_bootstrap *bootstrap, int rank);

/* The last word to all peers: nothing of theirs is mapped here any more. From a forked child it does nothing. */
void rondo_bootstrap_hush(struct rondo_bootstrap *bootstrap);

/* Whether all peers have said their last word, or ended. `own_process`: those of this process count too. Does not block;
 * what peers said before is thrown away. */
int rondo_bootstrap_all_hushed(struct rondo_bootstrap *bootstrap, int own_process);

/* Closes all connections. NULL is fine. */
void rondo_bootstrap_close(struct rondo_bootstrap *bootstrap);

#endif
