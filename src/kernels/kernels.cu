/* The kernels for GPUs. Compiled RONDO_KERNEL_UNITS times, each with its part of the list (RONDO_UNIT). */
#include "kernels/entry.h"
#include "kernels/instances.h"

#define SINGLE(name, COLLECTIVE, ALGO, DTYPE, OP)                                                                 \
    RONDO_KERNEL rondo_##name(RONDO_ARGS(struct rondo_single_args) args)                                          \
    {                                                                                                             \
        rondo_single_body(RONDO_##COLLECTIVE, RONDO_##ALGO, RONDO_##DTYPE, RONDO_##OP,                            \
                          rondo_dtype_bytes(rondo_reduces(RONDO_##COLLECTIVE) ? RONDO_##DTYPE : args.work.dtype), \
                          &args);                                                                                 \
    }

#define GROUP(name, COLLECTIVE, ALGO, DTYPE, OP)                                     \
    RONDO_KERNEL rondo_##name(RONDO_ARGS(struct rondo_batch_args) args)              \
    {                                                                                \
        rondo_group_body(RONDO_##COLLECTIVE, RONDO_##DTYPE, RONDO_##OP, &args.head); \
    }

#if RONDO_UNIT == 0
RONDO_SINGLES_0(SINGLE)
RONDO_GROUPS_0(GROUP)
#elif RONDO_UNIT == 1
RONDO_SINGLES_1(SINGLE)
RONDO_GROUPS_1(GROUP)
#elif RONDO_UNIT == 2
RONDO_SINGLES_2(SINGLE)
RONDO_GROUPS_2(GROUP)
#elif RONDO_UNIT == 3
RONDO_MOVES(SINGLE)
RONDO_KERNEL rondo_transfers(RONDO_ARGS(struct rondo_batch_args) args)
{
    rondo_transfers_body(&args.head);
}
#elif RONDO_UNIT == 4

RONDO_KERNEL rondo_batch(RONDO_ARGS(struct rondo_batch_args) args)
{
    rondo_batch_body(&args.head);
}
RONDO_KERNEL rondo_batch_large(RONDO_ARGS(struct rondo_large_args) args)
{
    rondo_batch_body(&args.head);
}

#else
#error "RONDO_UNIT says which part of the list to compile"
#endif
