/* How a comm fails: its first failure is kept, ends all waits of its kernels and is told to the peers. */
#ifndef RONDO_COMM_FAILURE_H
#define RONDO_COMM_FAILURE_H

#include "comm/comm.h"
#include "comm/watch.h"

/* The watch's client for a comm. */
struct rondo_watch_client rondo_comm_watch_client(struct rondoComm *comm);

/* Notes a failure (the first counts) and ends the waits. Does not tell the peers. Any thread. */
__attribute__((format(printf, 3, 4))) void rondo_comm_failed(struct rondoComm *comm, rondoResult_t result,
                                                             const char *format, ...);

/* The comm's failure, with its text as the calling thread's; rondoSuccess while there is none. */
rondoResult_t rondo_comm_failure(struct rondoComm *comm);

/* Handles what the kernels have reported since, or another thread does it at the same time: it is done afterwards. */
void rondo_comm_read_reports(struct rondoComm *comm);

#endif
