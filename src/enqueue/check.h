/* Arguments of ops: refused here, with a text, before anything is enqueued. */
#ifndef RONDO_ENQUEUE_CHECK_H
#define RONDO_ENQUEUE_CHECK_H

#include "rondo/rondo.h"

#include "comm/comm.h"
#include "plan/plan.h"

rondoResult_t rondo_check_type(int datatype);

/* An operator of Rondo's or of the comm's: fills in the task's redop, scaling and scalar. The type is valid. */
rondoResult_t rondo_check_op(struct rondoComm *comm, int op, int datatype, struct rondo_task *task);

/* A rank of the comm. `name`: the argument's. */
rondoResult_t rondo_check_rank(const struct rondoComm *comm, const char *name, int rank);

/* A buffer of `parts` times `count` elements: not NULL, aligned to the type, and its end is an address. None of it is 0, the
 * type is valid. */
rondoResult_t rondo_check_buffer(const char *name, const void *buffer, size_t parts, size_t count, unsigned datatype);

/* With CHECK_POINTERS: the comm's device can reach the buffer. */
rondoResult_t rondo_check_reach(const struct rondoComm *comm, const char *name, const void *buffer);

/* The buffers have nothing in common, or `place`, the part of one of them that the other is in place, is that other. Sizes in
 * bytes; the buffers were checked. */
struct rondo_overlap {
    const void *send, *recv;
    size_t send_bytes, recv_bytes;
    const void *place, *other;
};
rondoResult_t rondo_check_overlap(const struct rondo_overlap *overlap);

/* rondo_check_overlap of a collective's buffers on this rank, for flows of `bytes`. */
rondoResult_t rondo_check_in_place(unsigned collective, size_t rank, size_t ranks, const void *send, const void *recv,
                                   size_t bytes);

#endif
