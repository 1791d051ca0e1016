#include "calls.h"

#include "library.h"
#include "number.h"

#include "procs.h"

_Static_assert((int)UNEVEN_MAX_RANKS >= (int)PROCS_MAX_RANKS, "parts for every rank");

/* ---- sends and receives in a group ---- */

static const char *element(const struct bench_call *call, size_t index)
{
    return (const char *)call->send + index * (size_t)number_types[call->type].bytes;
}

static char *result(const struct bench_call *call, size_t index)
{
    return (char *)call->recv + index * (size_t)number_types[call->type].bytes;
}

static rondoResult_t send_to(const struct bench_lib *lib, const struct bench_call *call, int peer, size_t at,
                             size_t count)
{
    if (count == 0) /* both sides leave it out */
        return rondoSuccess;
    return lib->send(element(call, at), count, call->type, peer, call->comm, call->stream);
}

static rondoResult_t receive_from(const struct bench_lib *lib, const struct bench_call *call, int peer, size_t at,
                                  size_t count)
{
    if (count == 0)
        return rondoSuccess;
    return lib->recv(result(call, at), count, call->type, peer, call->comm, call->stream);
}

/* Runs `messages` in a group. The first error inside is the call's. */
static rondoResult_t grouped(const struct bench_lib *lib, const struct bench_call *call,
                             rondoResult_t (*messages)(const struct bench_lib *lib, const struct bench_call *call))
{
    rondoResult_t begun = lib->group_start();
    if (begun != rondoSuccess)
        return begun;
    rondoResult_t inside = messages(lib, call);
    rondoResult_t ended = lib->group_end();
    return inside != rondoSuccess ? inside : ended;
}

static rondoResult_t all_to_all_messages(const struct bench_lib *lib, const struct bench_call *call)
{
    const struct bench_place *place = &call->place;
    rondoResult_t error = rondoSuccess;
    for (int peer = 0; peer < place->nranks && error == rondoSuccess; peer++) {
        size_t at = (size_t)peer * place->count;
        error = send_to(lib, call, peer, at, place->count);
        if (error == rondoSuccess)
            error = receive_from(lib, call, peer, at, place->count);
    }
    return error;
}

/* In place, the root's own part lies where it belongs: the send and the receive have the same buffer, which libraries
 * take for nothing to do. */
static rondoResult_t gather_messages(const struct bench_lib *lib, const struct bench_call *call)
{
    const struct bench_place *place = &call->place;
    rondoResult_t error = send_to(lib, call, place->root, 0, place->count);
    for (int peer = 0; peer < place->nranks && place->rank == place->root && error == rondoSuccess; peer++)
        error = receive_from(lib, call, peer, (size_t)peer * place->count, place->count);
    return error;
}

static rondoResult_t scatter_messages(const struct bench_lib *lib, const struct bench_call *call)
{
    const struct bench_place *place = &call->place;
    rondoResult_t error = receive_from(lib, call, place->root, 0, place->count);
    for (int peer = 0; peer < place->nranks && place->rank == place->root && error == rondoSuccess; peer++)
        error = send_to(lib, call, peer, (size_t)peer * place->count, place->count);
    return error;
}

static rondoResult_t ring_messages(const struct bench_lib *lib, const struct bench_call *call)
{
    const struct bench_place *place = &call->place;
    rondoResult_t error = send_to(lib, call, (place->rank + 1) % place->nranks, 0, place->count);
    if (error != rondoSuccess)
        return error;
    return receive_from(lib, call, (place->rank + place->nranks - 1) % place->nranks, 0, place->count);
}

static rondoResult_t uneven_messages(const struct bench_lib *lib, const struct bench_call *call)
{
    struct uneven uneven;
    rondoResult_t error = rondoSuccess;
    calls_uneven(&call->place, &uneven);
    for (int peer = 0; peer < call->place.nranks && error == rondoSuccess; peer++) {
        error = send_to(lib, call, peer, uneven.send_at[peer], uneven.send_count[peer]);
        if (error == rondoSuccess)
            error = receive_from(lib, call, peer, uneven.recv_at[peer], uneven.recv_count[peer]);
    }
    return error;
}

/* ---- uneven parts ---- */

/* The part of `count` elements that goes to the rank at this distance. */
static size_t uneven_part(size_t count, int distance, int nranks)
{
    size_t d = (size_t)distance;
    size_t n = (size_t)nranks;
    return count * (d + 1) * (d + 2) / (n * (n + 1)) - count * d * (d + 1) / (n * (n + 1));
}

void calls_uneven(const struct bench_place *place, struct uneven *uneven)
{
    int n = place->nranks;
    size_t send_at = 0;
    size_t recv_at = 0;
    for (int peer = 0; peer < n; peer++) {
        uneven->send_count[peer] = uneven_part(place->count, (peer - place->rank + n) % n, n);
        uneven->recv_count[peer] = uneven_part(place->count, (place->rank - peer + n) % n, n);
        uneven->send_at[peer] = send_at;
        uneven->recv_at[peer] = recv_at;
        send_at += uneven->send_count[peer];
        recv_at += uneven->recv_count[peer];
    }
}

/* ---- the calls ---- */

rondoResult_t call_all_reduce(const struct bench_lib *lib, const struct bench_call *call)
{
    return lib->all_reduce(call->send, call->recv, call->place.count, call->type, call->redop, call->comm,
                           call->stream);
}

rondoResult_t call_all_gather(const struct bench_lib *lib, const struct bench_call *call)
{
    return lib->all_gather(call->send, call->recv, call->place.count, call->type, call->comm, call->stream);
}

rondoResult_t call_reduce_scatter(const struct bench_lib *lib, const struct bench_call *call)
{
    return lib->reduce_scatter(call->send, call->recv, call->place.count, call->type, call->redop, call->comm,
                               call->stream);
}

rondoResult_t call_broadcast(const struct bench_lib *lib, const struct bench_call *call)
{
    return lib->broadcast(call->send, call->recv, call->place.count, call->type, call->place.root, call->comm,
                          call->stream);
}

rondoResult_t call_reduce(const struct bench_lib *lib, const struct bench_call *call)
{
    return lib->reduce(call->send, call->recv, call->place.count, call->type, call->redop, call->place.root, call->comm,
                       call->stream);
}

rondoResult_t call_all_to_all(const struct bench_lib *lib, const struct bench_call *call)
{
    if (!lib->all_to_all)
        return grouped(lib, call, all_to_all_messages);
    return lib->all_to_all(call->send, call->recv, call->place.count, call->type, call->comm, call->stream);
}

rondoResult_t call_gather(const struct bench_lib *lib, const struct bench_call *call)
{
    if (!lib->gather)
        return grouped(lib, call, gather_messages);
    return lib->gather(call->send, call->recv, call->place.count, call->type, call->place.root, call->comm,
                       call->stream);
}

rondoResult_t call_scatter(const struct bench_lib *lib, const struct bench_call *call)
{
    if (!lib->scatter)
        return grouped(lib, call, scatter_messages);
    return lib->scatter(call->send, call->recv, call->place.count, call->type, call->place.root, call->comm,
                        call->stream);
}

rondoResult_t call_send_recv(const struct bench_lib *lib, const struct bench_call *call)
{
    return grouped(lib, call, ring_messages);
}

rondoResult_t call_all_to_allv(const struct bench_lib *lib, const struct bench_call *call)
{
    struct uneven uneven;
    if (!lib->all_to_allv)
        return grouped(lib, call, uneven_messages);
    calls_uneven(&call->place, &uneven);
    return lib->all_to_allv(call->send, uneven.send_count, uneven.send_at, call->recv, uneven.recv_count,
                            uneven.recv_at, call->type, call->comm, call->stream);
}

rondoResult_t call_barrier(const struct bench_lib *lib, const struct bench_call *call)
{
    return lib->barrier(call->comm, call->stream);
}
