/* The kernels for the host device: the same bodies, one function each, and the table that the device launches from. */
#include "device/host_kernels.h"
#include "kernels/entry.h"
#include "kernels/instances.h"

#define SINGLE(DTYPE, OP, specialized)                                             \
    RONDO_KERNEL oneshot_##DTYPE##_##OP(const void *args)                          \
    {                                                                              \
        rondo_single_body(RONDO_ONE_SHOT, RONDO_##DTYPE, RONDO_##OP, false, args); \
    }                                                                              \
    RONDO_KERNEL twoshot_##DTYPE##_##OP(const void *args)                          \
    {                                                                              \
        rondo_single_body(RONDO_TWO_SHOT, RONDO_##DTYPE, RONDO_##OP, false, args); \
    }
RONDO_REDUCTIONS(SINGLE)

RONDO_REDUCTIONS(RONDO_BATCH_REDUCE)

static bool batch_reduce(struct rondo_run run)
{
    switch (run.work->dtype * RONDO_REDOP_COUNT + run.work->redop) {
#define CASE(DTYPE, OP, specialized)                    \
    case RONDO_##DTYPE *RONDO_REDOP_COUNT + RONDO_##OP: \
        return rondo_batch_reduce_##DTYPE##_##OP(run);
        RONDO_REDUCTIONS(CASE)
    default:
        return false;
    }
}

RONDO_KERNEL batch(const void *args)
{
    rondo_batch_body(args, batch_reduce);
}

void (*const rondo_host_kernels[])(const void *args) = {
#define ENTRY(DTYPE, OP, specialized)                                                             \
    [(RONDO_ONE_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_##          \
        OP] = oneshot_##DTYPE##_##OP,                                                             \
        [(RONDO_TWO_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_##OP] = \
            twoshot_##DTYPE##_##OP,
    RONDO_REDUCTIONS(ENTRY)[RONDO_KERNEL_BATCH] = batch,
};
const unsigned rondo_host_kernel_count = RONDO_KERNEL_COUNT;
