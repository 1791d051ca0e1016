/* Programs: what an executable graph runs, made from a graph and never changed. */
#ifndef RONDO_DEVICE_HOST_PROGRAM_H
#define RONDO_DEVICE_HOST_PROGRAM_H

#include "device/host_device.h"

#include <stdbool.h>

struct host_program;

/* Copies all that the graph holds. One reference. */
rondoResult_t host_program_create(rondoHostGraph_t graph, struct host_program **program);
void host_program_hold(struct host_program *program);
/* The last reference frees it; no run is under way then. */
void host_program_drop(struct host_program *program);

/* The most blocks that its launches need of the pool that it is run with. */
unsigned host_program_blocks(const struct host_program *program);

/* One run, on the calling thread and the program's own; one at a time. */
void host_program_run(struct host_program *program, struct host_pool *pool);

/* Whether two have the same nodes, but for what these are given, and the same edges. */
bool host_program_is_like(const struct host_program *one, const struct host_program *other);

#endif
