#include "graph/trace.h"

#include "comm/tracer.h"
#include "plan/unpack.h"

#include <string.h>

void rondo_trace_launch(struct rondoComm *comm, unsigned kernel, void *args)
{
    struct rondo_unpacked ops;
    struct rondo_traced traced;
    memset(&traced, 0, sizeof traced);
    rondo_unpack(kernel, args, &ops);
    traced.kernel = (uint16_t)kernel;
    traced.works = (uint32_t)ops.work_count;
    traced.messages = (uint32_t)ops.transfer_count;
    traced.collective = RONDO_TRANSFERS;
    traced.barrier = ops.barrier;
    for (size_t i = 0; i < ops.work_count; i++)
        traced.total += ops.works[i].bytes;
    for (size_t i = 0; i < ops.transfer_count; i++)
        traced.total += ops.transfers[i].bytes;
    if (ops.work_count) {
        traced.bytes = ops.works->bytes;
        traced.collective = ops.works->collective;
        traced.algo = ops.works->algo;
        traced.dtype = ops.works->dtype;
        traced.redop = ops.works->redop;
        traced.peer = ops.works->root;
        traced.bulk = ops.works->bulk;
        traced.direct = ops.works->direct;
    } else if (ops.transfer_count) {
        traced.bytes = ops.transfers->bytes;
        traced.kind = ops.ends->kind;
        traced.peer = ops.ends->peer;
    }
    ops.lane->what = rondo_tracer_add(comm->tracer, &traced);
}
