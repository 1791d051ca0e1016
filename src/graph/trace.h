/* What a launch will be called in the trace. */
#ifndef RONDO_GRAPH_TRACE_H
#define RONDO_GRAPH_TRACE_H

#include "comm/comm.h"

/* Writes into a launch's arguments, which are complete, the number by which the comm's tracer knows what it is. The comm has one. */
void rondo_trace_launch(struct rondoComm *comm, unsigned kernel, void *args);

#endif
