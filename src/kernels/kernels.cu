/* The kernels for GPUs. Compiled RONDO_KERNEL_UNITS times, each with its part of the list (RONDO_UNIT). */
#include "kernels/entry.h"
#include "kernels/instances.h"

#define SINGLE(DTYPE, OP, specialized)                                                              \
    RONDO_KERNEL rondo_all_reduce_oneshot_##DTYPE##_##OP(RONDO_ARGS(struct rondo_single_args) args) \
    {                                                                                               \
        rondo_single_body(RONDO_ONE_SHOT, RONDO_##DTYPE, RONDO_##OP, specialized, &args);           \
    }                                                                                               \
    RONDO_KERNEL rondo_all_reduce_twoshot_##DTYPE##_##OP(RONDO_ARGS(struct rondo_single_args) args) \
    {                                                                                               \
        rondo_single_body(RONDO_TWO_SHOT, RONDO_##DTYPE, RONDO_##OP, specialized, &args);           \
    }

#if RONDO_UNIT == 0
RONDO_REDUCTIONS_0(SINGLE)
#elif RONDO_UNIT == 1
RONDO_REDUCTIONS_1(SINGLE)
#elif RONDO_UNIT == 2
RONDO_REDUCTIONS_2(SINGLE)
#elif RONDO_UNIT == 3
RONDO_REDUCTIONS_3(SINGLE)
#elif RONDO_UNIT == 4

RONDO_REDUCTIONS(RONDO_BATCH_REDUCE)

RONDO_FN bool batch_reduce(struct rondo_run run)
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

RONDO_KERNEL rondo_all_reduce_batch(RONDO_ARGS(struct rondo_batch_args) args)
{
    rondo_batch_body(&args, batch_reduce);
}

#else
#error "RONDO_UNIT says which part of the list to compile"
#endif
