/* Who this process is, to ranks that cannot see it. */
#ifndef RONDO_COMM_BOOTSTRAP_HOST_H
#define RONDO_COMM_BOOTSTRAP_HOST_H

#include "rondo/rondo.h"

#include "comm/bootstrap_wire.h"

/* Never fails: what cannot be read is zero. */
void rondo_host_read(struct rondo_host *host);

/* Whether processes with these identities run on one host. */
int rondo_host_same(const struct rondo_host *a, const struct rondo_host *b);

/* Whether a process id of the one means the same process to the other. */
int rondo_host_same_pids(const struct rondo_host *a, const struct rondo_host *b);

/* This process's random token: the same at each call, another in each process, also after fork. */
rondoResult_t rondo_process_token(uint8_t token[RONDO_TOKEN_BYTES]);

/* "rank 2", "ranks 1, 2 and 5": those of `count` ranks whose entry in `chosen` is not 0; long lists are cut short. */
void rondo_rank_list(const unsigned char *chosen, int count, char *text, size_t bytes);

#endif
