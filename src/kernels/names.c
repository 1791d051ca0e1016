#include "kernels/instances.h"

static const char *const names[RONDO_KERNEL_COUNT] = {
#define X(DTYPE, OP, specialized)                                                                 \
    [(RONDO_ONE_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_##          \
        OP] = "rondo_all_reduce_oneshot_" #DTYPE "_" #OP,                                         \
        [(RONDO_TWO_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_##OP] = \
            "rondo_all_reduce_twoshot_" #DTYPE "_" #OP,
    RONDO_REDUCTIONS(X)
#undef X
        [RONDO_KERNEL_BATCH] = "rondo_all_reduce_batch",
};

static const unsigned char units[RONDO_KERNEL_COUNT] = {
#define X(DTYPE, OP, specialized)                                                        \
    [(RONDO_ONE_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_## \
        OP] = UNIT,                                                                      \
        [(RONDO_TWO_SHOT * RONDO_DTYPE_COUNT + RONDO_##DTYPE) * RONDO_REDOP_COUNT + RONDO_##OP] = UNIT,
#define UNIT 0
    RONDO_REDUCTIONS_0(X)
#undef UNIT
#define UNIT 1
        RONDO_REDUCTIONS_1(X)
#undef UNIT
#define UNIT 2
            RONDO_REDUCTIONS_2(X)
#undef UNIT
#define UNIT 3
                RONDO_REDUCTIONS_3(X)
#undef UNIT
#undef X
                    [RONDO_KERNEL_BATCH] = 4,
};

const char *rondo_kernel_name(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? names[number] : "";
}

unsigned rondo_kernel_unit(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? units[number] : 0;
}
