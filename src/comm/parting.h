/* Memory that peers may still have mapped. Legacy IPC memory must not be freed while another process maps it; cuMem handles,
 * memfds and pointers within a process are counted, and need none of this.
 *
 * The rule: a rank first closes its own mappings, then says its last word on each control socket. It frees its mailbox
 * when every peer has said its last word, or has died. It waits for that only a moment, as peers may live on for long:
 * the rest is done by a later reap; a process that ends takes its memory along. A rank whose kernels do not end never
 * says that word. */
#ifndef RONDO_COMM_PARTING_H
#define RONDO_COMM_PARTING_H

#include "comm/bootstrap.h"
#include "device/anchor.h"

/* Takes over both, and one reference of the anchor. The links are closed. */
void rondo_part(struct rondo_bootstrap *bootstrap, struct rondo_anchor *anchor);

/* Frees what no peer has mapped any more. Does not block. Called wherever comms are made or destroyed. */
void rondo_partings_reap(void);

/* Those that wait, for tests. */
unsigned rondo_partings_count(void);

#endif
