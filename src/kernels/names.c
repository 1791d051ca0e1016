#include "kernels/instances.h"

static const char *const names[RONDO_KERNEL_COUNT] = {
#define X(DTYPE, OP, specialized)                                                                                      \
    [(RONDO_ONE_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_##OP] =                          \
        "rondo_all_reduce_oneshot_" #DTYPE "_" #OP,                                                                    \
    [(RONDO_TWO_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_##OP] =                          \
        "rondo_all_reduce_twoshot_" #DTYPE "_" #OP,
    RONDO_REDUCTIONS(X)
#undef X
        [RONDO_KERNEL_BATCH] = "rondo_all_reduce_batch",
};

const char *rondo_kernel_name(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? names[number] : "";
}
