/* The list of kernels, which both compilers' translation units and the table of names include. A kernel's number is its
 * place: (algo, dtype, op) in order, then the batch. */
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

/* The list in parts, so that nvcc may work on several at once. */
#define RONDO_REDUCTIONS_0(X) RONDO_OPS_OF(X, F32, true) RONDO_OPS_OF(X, I8, false) RONDO_OPS_OF(X, I32, false)
#define RONDO_REDUCTIONS_1(X) RONDO_OPS_OF(X, F16, true) RONDO_OPS_OF(X, U8, false) RONDO_OPS_OF(X, U32, false)
#define RONDO_REDUCTIONS_2(X) RONDO_OPS_OF(X, BF16, true) RONDO_OPS_OF(X, E4M3, false) RONDO_OPS_OF(X, I64, false)
#define RONDO_REDUCTIONS_3(X) RONDO_OPS_OF(X, F64, false) RONDO_OPS_OF(X, E5M2, false) RONDO_OPS_OF(X, U64, false)
#define RONDO_REDUCTIONS(X)   RONDO_REDUCTIONS_0(X) RONDO_REDUCTIONS_1(X) RONDO_REDUCTIONS_2(X) RONDO_REDUCTIONS_3(X)

enum {
    RONDO_KERNEL_BATCH = RONDO_ALGO_COUNT * RONDO_DTYPE_COUNT * RONDO_REDOP_COUNT,
    RONDO_KERNEL_COUNT,
};

static inline unsigned rondo_kernel_single(unsigned algo, unsigned dtype, unsigned redop)
{
    return (algo * RONDO_DTYPE_COUNT + dtype) * RONDO_REDOP_COUNT + redop;
}

/* The kernel's name, as profilers show it. */
const char *rondo_kernel_name(unsigned number);

/* The part of the list that it is in: RONDO_UNIT of the compilation that it comes from. */
unsigned rondo_kernel_unit(unsigned number);

#endif
