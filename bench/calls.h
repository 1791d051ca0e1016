/* How an op of the table is called, in Rondo or any other library. What a library lacks is made of sends and receives in
 * a group. */
#ifndef RONDO_BENCH_CALLS_H
#define RONDO_BENCH_CALLS_H

#include "ops.h"

#include <stddef.h>

enum { UNEVEN_MAX_RANKS = 64 };

/* Parts of an all_to_allv, in elements, by peer. They grow with the distance from the sender to the receiver, wrapping at
 * the last rank: the n-th is n times the first, but for rounding, and every rank sends and receives as much. */
struct uneven {
    size_t send_count[UNEVEN_MAX_RANKS], send_at[UNEVEN_MAX_RANKS];
    size_t recv_count[UNEVEN_MAX_RANKS], recv_at[UNEVEN_MAX_RANKS];
};
void calls_uneven(const struct bench_place *place, struct uneven *uneven);

/* Members `issue` of the table. */
rondoResult_t call_all_reduce(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_all_gather(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_reduce_scatter(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_broadcast(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_reduce(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_all_to_all(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_gather(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_scatter(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_send_recv(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_all_to_allv(const struct bench_lib *lib, const struct bench_call *call);
rondoResult_t call_barrier(const struct bench_lib *lib, const struct bench_call *call);

#endif
