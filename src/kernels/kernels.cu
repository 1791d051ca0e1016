/* The kernels for GPUs. Compiled RONDO_UNIT_COUNT times, each with its part of the list (RONDO_UNIT). */
#include "kernels/entry.h"
#include "kernels/instances.h"
#include "kernels/selftest.h"
#if RONDO_UNIT == 9
#include "kernels/ring.h"
#endif

#define SINGLE(name, COLLECTIVE, ALGO, DTYPE, tuned)                                      \
    RONDO_KERNEL rondo_##name(RONDO_ARGS(struct rondo_single_args) args)                  \
    {                                                                                     \
        rondo_single_body(RONDO_##COLLECTIVE, RONDO_##ALGO, RONDO_##DTYPE, tuned, &args); \
    }
#define LEAN(name, COLLECTIVE, ALGO, DTYPE, tuned)                            \
    RONDO_KERNEL_LEAN rondo_##name(RONDO_ARGS(struct rondo_single_args) args) \
    {                                                                         \
        rondo_lean_body(RONDO_##COLLECTIVE, RONDO_##DTYPE, tuned, &args);     \
    }
#define GROUP(name, COLLECTIVE, ALGO, DTYPE, tuned)                             \
    RONDO_KERNEL rondo_##name(RONDO_ARGS(struct rondo_batch_args) args)         \
    {                                                                           \
        rondo_group_body(RONDO_##COLLECTIVE, RONDO_##DTYPE, tuned, &args.head); \
    }

#if RONDO_UNIT == 0
RONDO_PART_0(RONDO_SINGLES_OF, SINGLE)
RONDO_PART_0(RONDO_LEANS_OF, LEAN)
RONDO_PART_0(RONDO_GROUPS_OF, GROUP)
#elif RONDO_UNIT == 1
RONDO_PART_1(RONDO_SINGLES_OF, SINGLE)
RONDO_PART_1(RONDO_LEANS_OF, LEAN)
RONDO_PART_1(RONDO_GROUPS_OF, GROUP)
#elif RONDO_UNIT == 2
RONDO_PART_2(RONDO_SINGLES_OF, SINGLE)
RONDO_PART_2(RONDO_LEANS_OF, LEAN)
RONDO_PART_2(RONDO_GROUPS_OF, GROUP)
#elif RONDO_UNIT == 3
RONDO_PART_3(RONDO_SINGLES_OF, SINGLE)
RONDO_PART_3(RONDO_LEANS_OF, LEAN)
RONDO_PART_3(RONDO_GROUPS_OF, GROUP)
#elif RONDO_UNIT == 4
RONDO_PART_4(RONDO_SINGLES_OF, SINGLE)
RONDO_PART_4(RONDO_LEANS_OF, LEAN)
RONDO_PART_4(RONDO_GROUPS_OF, GROUP)
#elif RONDO_UNIT == 5
RONDO_PART_5(RONDO_SINGLES_OF, SINGLE)
RONDO_PART_5(RONDO_LEANS_OF, LEAN)
RONDO_PART_5(RONDO_GROUPS_OF, GROUP)
#elif RONDO_UNIT == 6
RONDO_PART_6(RONDO_SINGLES_OF, SINGLE)
RONDO_PART_6(RONDO_LEANS_OF, LEAN)
RONDO_PART_6(RONDO_GROUPS_OF, GROUP)
#elif RONDO_UNIT == 7
RONDO_MOVES(SINGLE)
RONDO_LEAN_MOVES(LEAN)
RONDO_KERNEL rondo_barrier(RONDO_ARGS(struct rondo_single_args) args)
{
    rondo_barrier_body(&args.lane);
}
RONDO_KERNEL rondo_transfers(RONDO_ARGS(struct rondo_small_args) args)
{
    rondo_transfers_body(&args.head);
}
RONDO_KERNEL_LEAN rondo_transfers_line(RONDO_ARGS(struct rondo_small_args) args)
{
    rondo_transfers_lean_body(&args.head);
}
RONDO_KERNEL rondo_selftest(RONDO_ARGS(struct rondo_selftest_args) args)
{
    rondo_selftest_body(&args);
}
#elif RONDO_UNIT == 8
RONDO_KERNEL rondo_batch(RONDO_ARGS(struct rondo_batch_args) args)
{
    rondo_batch_body(&args.head);
}
RONDO_KERNEL rondo_batch_large(RONDO_ARGS(struct rondo_large_args) args)
{
    rondo_batch_body(&args.head);
}
#elif RONDO_UNIT == 9
RONDO_KERNEL rondo_ring(RONDO_ARGS(struct rondo_ring_args) args)
{
    rondo_ring_body(&args);
}
#else
#error "RONDO_UNIT says which part of the list to compile"
#endif
