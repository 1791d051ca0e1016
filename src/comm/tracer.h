/* A comm's trace: rings of records that its launches leave (kernels/trace.h), and what these launches were. There is none, and it
 * takes no memory, unless RONDO_TRACE asks for it. */
#ifndef RONDO_COMM_TRACER_H
#define RONDO_COMM_TRACER_H

#include "rondo/rondo.h"

#include "common/arena.h"
#include "kernels/work.h"

#include <pthread.h>
#include <stdbool.h>

/* What a launch is, but for its buffers. All bytes count: set it to zero first. */
struct rondo_traced {
    uint64_t bytes; /* of its first op: of one flow, see kernels/work.h */
    uint64_t total; /* of all ops */
    uint32_t works, messages;
    uint16_t kernel;    /* kernels/instances.h */
    uint16_t peer;      /* its first op's, or root */
    uint8_t collective; /* its first op's: enum rondo_collective; RONDO_TRANSFERS: a message, see kind */
    uint8_t algo, dtype, redop;
    uint8_t kind; /* enum rondo_transfer_kind */
    uint8_t bulk, direct;
    uint8_t barrier; /* there are no works, but all ranks meet */
};

struct rondo_tracer;

/* For rings of as many entries (a power of two). */
rondoResult_t rondo_tracer_create(struct rondo_arena *arena, unsigned entries, struct rondo_tracer **tracer);
void rondo_tracer_destroy(struct rondo_tracer *tracer);

unsigned rondo_tracer_entries(const struct rondo_tracer *tracer);

/* The number of a kind of launch, from 1 on; a new one if need be. 0: there were too many. */
uint32_t rondo_tracer_add(struct rondo_tracer *tracer, const struct rondo_traced *traced);

/* false: no launch has this number. */
bool rondo_tracer_find(struct rondo_tracer *tracer, uint32_t number, struct rondo_traced *traced);

#endif
