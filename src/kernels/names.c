#include "kernels/instances.h"

#include <stddef.h>

struct kernel {
    const char *name;
    unsigned char unit;
    unsigned char collective, algo, dtype, redop; /* of kernels of one work */
};

static const struct kernel kernels[RONDO_KERNEL_COUNT] = {
#define X(name, COLLECTIVE, ALGO, DTYPE, OP) \
    [RONDO_KERNEL_##name] = {"rondo_" #name, UNIT, RONDO_##COLLECTIVE, RONDO_##ALGO, RONDO_##DTYPE, RONDO_##OP},
#define UNIT 0
    RONDO_SINGLES_0(X) RONDO_GROUPS_0(X)
#undef UNIT
#define UNIT 1
        RONDO_SINGLES_1(X) RONDO_GROUPS_1(X)
#undef UNIT
#define UNIT 2
            RONDO_SINGLES_2(X) RONDO_GROUPS_2(X)
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

/* The kernel of this kind among first … end - 1. */
static unsigned find(unsigned first, unsigned end, const struct kernel *kind)
{
    for (unsigned k = first; k < end; k++)
        if (kernels[k].collective == kind->collective && kernels[k].algo == kind->algo &&
            (!reduces(kind->collective) || (kernels[k].dtype == kind->dtype && kernels[k].redop == kind->redop)))
            return k;
    return RONDO_KERNEL_BATCH;
}

unsigned rondo_kernel_single(unsigned collective, unsigned algo, unsigned dtype, unsigned redop)
{
    const struct kernel kind = {
        NULL, 0, (unsigned char)collective, (unsigned char)algo, (unsigned char)dtype, (unsigned char)redop};
    return find(0, RONDO_KERNEL_GROUPS, &kind);
}

unsigned rondo_kernel_group(unsigned collective, unsigned algo, unsigned dtype, unsigned redop)
{
    const struct kernel kind = {
        NULL, 0, (unsigned char)collective, (unsigned char)algo, (unsigned char)dtype, (unsigned char)redop};
    return find(RONDO_KERNEL_GROUPS, RONDO_KERNEL_TRANSFERS, &kind);
}

const char *rondo_kernel_name(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? kernels[number].name : "";
}

unsigned rondo_kernel_unit(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? kernels[number].unit : 0;
}
