#include "kernels/instances.h"

struct kernel {
    const char *name;
    unsigned char unit;
    unsigned char collective, algo, dtype, redop; /* of kernels of one work */
};

static const struct kernel kernels[RONDO_KERNEL_COUNT] = {
#define X(name, COLLECTIVE, ALGO, DTYPE, OP) \
    [RONDO_KERNEL_##name] = {"rondo_" #name, UNIT, RONDO_##COLLECTIVE, RONDO_##ALGO, RONDO_##DTYPE, RONDO_##OP},
#define UNIT 0
    RONDO_SINGLES_0(X)
#undef UNIT
#define UNIT 1
        RONDO_SINGLES_1(X)
#undef UNIT
#define UNIT 2
            RONDO_SINGLES_2(X)
#undef UNIT
#define UNIT RONDO_UNIT_MOVES
                RONDO_MOVES(X)
#undef UNIT
#undef X
                    [RONDO_KERNEL_TRANSFERS] = {.name = "rondo_transfers", .unit = RONDO_UNIT_MOVES},
    [RONDO_KERNEL_BATCH] = {.name = "rondo_batch", .unit = RONDO_UNIT_BATCH},
    [RONDO_KERNEL_LARGE] = {.name = "rondo_batch_large", .unit = RONDO_UNIT_BATCH},
};

static int reduces(unsigned collective)
{
    return collective <= RONDO_REDUCE;
}

unsigned rondo_kernel_single(unsigned collective, unsigned algo, unsigned dtype, unsigned redop)
{
    for (unsigned k = 0; k < RONDO_KERNEL_TRANSFERS; k++)
        if (kernels[k].collective == collective && kernels[k].algo == algo &&
            (!reduces(collective) || (kernels[k].dtype == dtype && kernels[k].redop == redop)))
            return k;
    return RONDO_KERNEL_BATCH;
}

const char *rondo_kernel_name(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? kernels[number].name : "";
}

unsigned rondo_kernel_unit(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? kernels[number].unit : 0;
}
