/* A rank's trace as it is told: everything is read before the first word is written. */
#ifndef RONDO_ENQUEUE_TRACE_H
#define RONDO_ENQUEUE_TRACE_H

#include "comm/comm.h"
#include "comm/tracer.h"
#include "enqueue/describe.h"

enum { RONDO_TRACE_NAME_BYTES = 128 };

/* One launch. */
struct rondo_trace_record {
    unsigned lane;
    struct rondo_trace_entry entry;
    struct rondo_traced what;
    bool known; /* `what` says something */
};

struct rondo_trace_view {
    const struct rondoComm *comm;
    struct rondo_trace_record *records; /* lane by lane, in order; owned */
    size_t count;
    uint64_t base;                      /* the first arrival */
    uint64_t launches[RONDO_MAX_LANES]; /* modulo 2^32: of how many these are the last */
};

/* "all_reduce sum float32 4096 B and 2 more": equal for equal ops. */
void rondo_trace_name(const struct rondo_trace_record *record, char name[RONDO_TRACE_NAME_BYTES]);

void rondo_trace_text(const struct rondo_trace_view *view, struct rondo_describe_text *text);
void rondo_trace_json(const struct rondo_trace_view *view, struct rondo_describe_text *text);

#endif
