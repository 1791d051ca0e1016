/* The list of kernels, which both compilers' translation units and the tables of names include.
 *
 * Latency asks for code of its own for the common cases only: sums of the three common float types, and movement of data.
 * Whatever else there is runs in the batch kernel, on functions per (type, operator) that all launches share. */
#ifndef RONDO_KERNELS_INSTANCES_H
#define RONDO_KERNELS_INSTANCES_H

#include "kernels/types.h"
#include "kernels/work.h"

/* X(DTYPE, OP, specialized for common numbers of ranks) */
#define RONDO_OPS_OF(X, DTYPE, SUM_SPECIALIZED) \
    X(DTYPE, SUM, SUM_SPECIALIZED)              \
    X(DTYPE, PROD, false)                       \
    X(DTYPE, MAX, false)                        \
    X(DTYPE, MIN, false)                        \
    X(DTYPE, AVG, false)

/* What the batch kernel reduces. */
#define RONDO_REDUCTIONS(X)      \
    RONDO_OPS_OF(X, F32, true)   \
    RONDO_OPS_OF(X, F16, true)   \
    RONDO_OPS_OF(X, BF16, true)  \
    RONDO_OPS_OF(X, I8, false)   \
    RONDO_OPS_OF(X, U8, false)   \
    RONDO_OPS_OF(X, I32, false)  \
    RONDO_OPS_OF(X, U32, false)  \
    RONDO_OPS_OF(X, I64, false)  \
    RONDO_OPS_OF(X, U64, false)  \
    RONDO_OPS_OF(X, F64, false)  \
    RONDO_OPS_OF(X, E4M3, false) \
    RONDO_OPS_OF(X, E5M2, false)

/* X(name, COLLECTIVE, ALGO, DTYPE, OP): kernels of one work, in parts, so that nvcc may work on several at once. */
#define RONDO_SINGLES_OF(X, DTYPE)                                        \
    X(all_reduce_oneshot_##DTYPE##_SUM, ALL_REDUCE, ONE_SHOT, DTYPE, SUM) \
    X(all_reduce_twoshot_##DTYPE##_SUM, ALL_REDUCE, TWO_SHOT, DTYPE, SUM) \
    X(reduce_scatter_##DTYPE##_SUM, REDUCE_SCATTER, ONE_SHOT, DTYPE, SUM)
#define RONDO_SINGLES_0(X) RONDO_SINGLES_OF(X, F32)
#define RONDO_SINGLES_1(X) RONDO_SINGLES_OF(X, F16)
#define RONDO_SINGLES_2(X) RONDO_SINGLES_OF(X, BF16)

/* Groups of such works in which each thread has one line. */
#define RONDO_GROUPS_OF(X, DTYPE) X(all_reduce_group_##DTYPE##_SUM, ALL_REDUCE, ONE_SHOT, DTYPE, SUM)
#define RONDO_GROUPS_0(X)         RONDO_GROUPS_OF(X, F32)
#define RONDO_GROUPS_1(X)         RONDO_GROUPS_OF(X, F16)
#define RONDO_GROUPS_2(X)         RONDO_GROUPS_OF(X, BF16)

/* The same for works that only move data; their type does not matter. */
#define RONDO_MOVES(X)                                 \
    X(all_gather, ALL_GATHER, ONE_SHOT, U8, SUM)       \
    X(all_to_all, ALL_TO_ALL, ONE_SHOT, U8, SUM)       \
    X(broadcast_oneshot, BROADCAST, ONE_SHOT, U8, SUM) \
    X(broadcast_twoshot, BROADCAST, TWO_SHOT, U8, SUM)

enum {
    RONDO_UNIT_MOVES = 3,
    RONDO_UNIT_BATCH = 4,
};

enum rondo_kernel_number {
#define X(name, COLLECTIVE, ALGO, DTYPE, OP) RONDO_KERNEL_##name,
    RONDO_SINGLES_0(X) RONDO_SINGLES_1(X) RONDO_SINGLES_2(X) RONDO_MOVES(X) RONDO_KERNEL_GROUPS,
    RONDO_KERNEL_BEFORE_GROUPS = RONDO_KERNEL_GROUPS - 1,
    RONDO_GROUPS_0(X) RONDO_GROUPS_1(X) RONDO_GROUPS_2(X)
#undef X
        RONDO_KERNEL_TRANSFERS, /* sends and receives alone: rondo_batch_args */
    RONDO_KERNEL_BATCH,         /* anything: rondo_batch_args */
    RONDO_KERNEL_LARGE,         /* the same with rondo_large_args */
    RONDO_KERNEL_COUNT
};

/* The kernel of one work of this kind, RONDO_KERNEL_BATCH if there is none of its own. */
unsigned rondo_kernel_single(unsigned collective, unsigned algo, unsigned dtype, unsigned redop);

/* The kernel of a group of works of this kind, RONDO_KERNEL_BATCH if there is none. */
unsigned rondo_kernel_group(unsigned collective, unsigned algo, unsigned dtype, unsigned redop);

/* The kernel's name, as profilers show it. */
const char *rondo_kernel_name(unsigned number);

/* The part of the list that it is in: RONDO_UNIT of the compilation that it comes from. */
unsigned rondo_kernel_unit(unsigned number);

#endif
