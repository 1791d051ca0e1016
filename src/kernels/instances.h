/* The list of kernels, which both compilers' translation units and the tables of names include.
 *
 * A launch of one work runs code that was made for its collective, exchange and type (data movement: for any type); the
 * operator is a branch. What else there is (groups of different works, scaled inputs, works beside transfers) runs in the batch
 * kernel. */
#ifndef RONDO_KERNELS_INSTANCES_H
#define RONDO_KERNELS_INSTANCES_H

#include "kernels/types.h"
#include "kernels/work.h"

#include <stddef.h>

/* X(name, COLLECTIVE, ALGO, DTYPE, tuned): kernels of one work. `tuned`: works of many lines have code of their own for common
 * numbers of ranks. */
#define RONDO_SINGLES_OF(X, DTYPE, tuned)                             \
    X(all_reduce_oneshot_##DTYPE, ALL_REDUCE, ONE_SHOT, DTYPE, tuned) \
    X(all_reduce_twoshot_##DTYPE, ALL_REDUCE, TWO_SHOT, DTYPE, tuned) \
    X(reduce_scatter_##DTYPE, REDUCE_SCATTER, ONE_SHOT, DTYPE, tuned) \
    X(reduce_oneshot_##DTYPE, REDUCE, ONE_SHOT, DTYPE, false)         \
    X(reduce_twoshot_##DTYPE, REDUCE, TWO_SHOT, DTYPE, false)

/* Of one work that goes by lines and gives no thread more than one (lean.h). */
#define RONDO_LEANS_OF(X, DTYPE, tuned)                                    \
    X(all_reduce_oneshot_line_##DTYPE, ALL_REDUCE, ONE_SHOT, DTYPE, tuned) \
    X(reduce_scatter_line_##DTYPE, REDUCE_SCATTER, ONE_SHOT, DTYPE, tuned) \
    X(reduce_oneshot_line_##DTYPE, REDUCE, ONE_SHOT, DTYPE, tuned)

/* Groups of works of one kind in which each thread has one line. */
#define RONDO_GROUPS_OF(X, DTYPE, tuned) X(all_reduce_group_##DTYPE, ALL_REDUCE, ONE_SHOT, DTYPE, tuned)

/* The types in parts, so that nvcc may work on several at once. A(X, DTYPE, tuned) gives a type's kernels. */
#define RONDO_PART_0(A, X) A(X, F32, true) A(X, I32, false)
#define RONDO_PART_1(A, X) A(X, F16, true) A(X, U32, false)
#define RONDO_PART_2(A, X) A(X, BF16, true) A(X, F64, false)
#define RONDO_PART_3(A, X) A(X, I8, false) A(X, I64, false)
#define RONDO_PART_4(A, X) A(X, U8, false) A(X, U64, false)
#define RONDO_PART_5(A, X) A(X, E4M3, false)
#define RONDO_PART_6(A, X) A(X, E5M2, false)
#define RONDO_PARTS(A, X) \
    RONDO_PART_0(A, X)    \
    RONDO_PART_1(A, X) RONDO_PART_2(A, X) RONDO_PART_3(A, X) RONDO_PART_4(A, X) RONDO_PART_5(A, X) RONDO_PART_6(A, X)

/* Works that only move data; their type does not matter. */
#define RONDO_MOVES(X)                                  \
    X(all_gather, ALL_GATHER, ONE_SHOT, U8, true)       \
    X(all_to_all, ALL_TO_ALL, ONE_SHOT, U8, true)       \
    X(broadcast_oneshot, BROADCAST, ONE_SHOT, U8, true) \
    X(broadcast_twoshot, BROADCAST, TWO_SHOT, U8, true)
#define RONDO_LEAN_MOVES(X)                            \
    X(all_gather_line, ALL_GATHER, ONE_SHOT, U8, true) \
    X(all_to_all_line, ALL_TO_ALL, ONE_SHOT, U8, true) \
    X(broadcast_oneshot_line, BROADCAST, ONE_SHOT, U8, true)

enum {
    RONDO_UNIT_MOVES = 7,
    RONDO_UNIT_BATCH = 8,
    RONDO_UNIT_RING = 9,
    RONDO_UNIT_COUNT,
};

enum rondo_kernel_number {
#define X(name, COLLECTIVE, ALGO, DTYPE, tuned) RONDO_KERNEL_##name,
    RONDO_PARTS(RONDO_SINGLES_OF, X) RONDO_MOVES(X) RONDO_KERNEL_LEANS, /* the first that is lean */
    RONDO_KERNEL_BEFORE_LEANS = RONDO_KERNEL_LEANS - 1, /* so that the next one has RONDO_KERNEL_LEANS's number */
    RONDO_PARTS(RONDO_LEANS_OF, X) RONDO_LEAN_MOVES(X) RONDO_KERNEL_GROUPS, /* the first of a group */
    RONDO_KERNEL_BEFORE_GROUPS = RONDO_KERNEL_GROUPS - 1,
    RONDO_PARTS(RONDO_GROUPS_OF, X)
#undef X
        RONDO_KERNEL_BARRIER,    /* a barrier alone: rondo_single_args without a work */
    RONDO_KERNEL_TRANSFERS,      /* sends and receives alone: rondo_small_args */
    RONDO_KERNEL_TRANSFERS_LEAN, /* the same, if they give no thread more than a line */
    RONDO_KERNEL_BATCH,          /* anything: rondo_batch_args */
    RONDO_KERNEL_LARGE,          /* the same with rondo_large_args */
    RONDO_KERNEL_RING,           /* one work that goes round the ring: rondo_ring_args */
    RONDO_KERNEL_SELFTEST,       /* of comm init: rondo_selftest_args */
    RONDO_KERNEL_COUNT
};

/* The kernel of one work of this kind, RONDO_KERNEL_BATCH if there is none of its own. */
unsigned rondo_kernel_single(unsigned collective, unsigned algo, unsigned dtype);

/* The kernel of one work of this kind in one-shot launches that give no thread more than a line. */
unsigned rondo_kernel_lean(unsigned collective, unsigned dtype);

/* The kernel of a group of works of this kind, RONDO_KERNEL_BATCH if there is none. */
unsigned rondo_kernel_group(unsigned collective, unsigned algo, unsigned dtype);

/* An exchange's name, for people. */
const char *rondo_algo_name(unsigned algo);

/* The kernel's name, as profilers show it. */
const char *rondo_kernel_name(unsigned number);

/* Bytes of its arguments. */
size_t rondo_kernel_args_bytes(unsigned number);

/* The part of the list that it is in: RONDO_UNIT of the compilation that it comes from. */
unsigned rondo_kernel_unit(unsigned number);

#endif
