#include "graph/capture.h"

#include "common/result.h"

static struct rondo_capture_record *find(struct rondoComm *comm, uint64_t id)
{
    for (unsigned i = 0; i < RONDO_CAPTURES; i++)
        if (comm->captures[i].id == id)
            return &comm->captures[i];
    return NULL;
}

/* The graph's share in the comm's life: kernels that it replays find their lane's words, and there the news that the comm
 * has ended. Graphs that are cloned or instantiated hold it too. */
static rondoResult_t own(struct rondoComm *comm, void *graph)
{
    rondo_anchor_reap();
    rondo_anchor_hold(comm->anchor);
    rondoResult_t result = comm->ops->graph_own(comm->device, graph, rondo_anchor_drop_later, comm->anchor);
    if (result != rondoSuccess)
        rondo_anchor_drop(comm->anchor);
    return result;
}

rondoResult_t rondo_capture_begin(struct rondoComm *comm, struct CUstream_st *stream,
                                  const struct rondo_capture *capture, struct rondo_capture_record **out)
{
    struct rondo_capture_record *record = find(comm, capture->id);
    if (!record) {
        RONDO_TRY(own(comm, capture->graph));
        record = &comm->captures[comm->next_capture];
        comm->next_capture = (comm->next_capture + 1) % RONDO_CAPTURES;
        *record = (struct rondo_capture_record){.id = capture->id};
    } else if (record->last_node) {
        bool follows;
        RONDO_TRY(comm->ops->capture_follows(comm->device, capture, record->last_node, &follows));
        if (!follows)
            RONDO_TRY(comm->ops->capture_depend(comm->device, stream, record->last_node));
    }
    *out = record;
    return rondoSuccess;
}

rondoResult_t rondo_capture_end(struct rondoComm *comm, struct CUstream_st *stream, struct rondo_capture_record *record)
{
    struct rondo_capture capture;
    RONDO_TRY(comm->ops->stream_capture(comm->device, stream, &capture));
    if (!capture.active || capture.tail_count != 1)
        return rondo_fail(rondoInternalError, "a captured launch left %zu tails", capture.tail_count);
    record->last_node = capture.tails[0];
    return rondoSuccess;
}
