#include "kernels/instances.h"
#include "kernels/rings.h"

struct kernel {
    const char *name;
    unsigned char unit;
    unsigned char collective, algo, dtype; /* of kernels of one work, or of works of one kind */
};

static const struct kernel kernels[RONDO_KERNEL_COUNT] = {
#define X(name, COLLECTIVE, ALGO, DTYPE, tuned) \
    [RONDO_KERNEL_##name] = {"rondo_" #name, UNIT, RONDO_##COLLECTIVE, RONDO_##ALGO, RONDO_##DTYPE},
#define UNIT 0
    RONDO_PART_0(RONDO_SINGLES_OF, X) RONDO_PART_0(RONDO_LEANS_OF, X) RONDO_PART_0(RONDO_GROUPS_OF, X)
#undef UNIT
#define UNIT 1
        RONDO_PART_1(RONDO_SINGLES_OF, X) RONDO_PART_1(RONDO_LEANS_OF, X) RONDO_PART_1(RONDO_GROUPS_OF, X)
#undef UNIT
#define UNIT 2
            RONDO_PART_2(RONDO_SINGLES_OF, X) RONDO_PART_2(RONDO_LEANS_OF, X) RONDO_PART_2(RONDO_GROUPS_OF, X)
#undef UNIT
#define UNIT 3
                RONDO_PART_3(RONDO_SINGLES_OF, X) RONDO_PART_3(RONDO_LEANS_OF, X) RONDO_PART_3(RONDO_GROUPS_OF, X)
#undef UNIT
#define UNIT 4
                    RONDO_PART_4(RONDO_SINGLES_OF, X) RONDO_PART_4(RONDO_LEANS_OF, X) RONDO_PART_4(RONDO_GROUPS_OF, X)
#undef UNIT
#define UNIT 5
                        RONDO_PART_5(RONDO_SINGLES_OF, X) RONDO_PART_5(RONDO_LEANS_OF, X) RONDO_PART_5(RONDO_GROUPS_OF,
                                                                                                       X)
#undef UNIT
#define UNIT 6
                            RONDO_PART_6(RONDO_SINGLES_OF, X) RONDO_PART_6(RONDO_LEANS_OF, X)
                                RONDO_PART_6(RONDO_GROUPS_OF, X)
#undef UNIT
#define UNIT RONDO_UNIT_MOVES
                                    RONDO_MOVES(X) RONDO_LEAN_MOVES(X)
#undef UNIT
#undef X
                                        [RONDO_KERNEL_BARRIER] = {.name = "rondo_barrier", .unit = RONDO_UNIT_MOVES},
    [RONDO_KERNEL_TRANSFERS] = {.name = "rondo_transfers", .unit = RONDO_UNIT_MOVES},
    [RONDO_KERNEL_TRANSFERS_LEAN] = {.name = "rondo_transfers_line", .unit = RONDO_UNIT_MOVES},
    [RONDO_KERNEL_BATCH] = {.name = "rondo_batch", .unit = RONDO_UNIT_BATCH},
    [RONDO_KERNEL_LARGE] = {.name = "rondo_batch_large", .unit = RONDO_UNIT_BATCH},
    [RONDO_KERNEL_RING] = {.name = "rondo_ring", .unit = RONDO_UNIT_RING},
    [RONDO_KERNEL_SELFTEST] = {.name = "rondo_selftest", .unit = RONDO_UNIT_MOVES},
};

/* The kernel of this kind among first … end - 1. */
static unsigned find(unsigned first, unsigned end, const struct kernel *kind)
{
    for (unsigned k = first; k < end; k++)
        if (kernels[k].collective == kind->collective && kernels[k].algo == kind->algo &&
            (kind->collective > RONDO_REDUCE || kernels[k].dtype == kind->dtype))
            return k;
    return RONDO_KERNEL_BATCH;
}

unsigned rondo_kernel_single(unsigned collective, unsigned algo, unsigned dtype)
{
    const struct kernel kind = {"", 0, (unsigned char)collective, (unsigned char)algo, (unsigned char)dtype};
    return find(0, RONDO_KERNEL_LEANS, &kind);
}

unsigned rondo_kernel_lean(unsigned collective, unsigned dtype)
{
    const struct kernel kind = {"", 0, (unsigned char)collective, RONDO_ONE_SHOT, (unsigned char)dtype};
    return find(RONDO_KERNEL_LEANS, RONDO_KERNEL_GROUPS, &kind);
}

unsigned rondo_kernel_group(unsigned collective, unsigned algo, unsigned dtype)
{
    const struct kernel kind = {"", 0, (unsigned char)collective, (unsigned char)algo, (unsigned char)dtype};
    return find(RONDO_KERNEL_GROUPS, RONDO_KERNEL_BARRIER, &kind);
}

const char *rondo_algo_name(unsigned algo)
{
    static const char *const names[RONDO_ALGO_COUNT] = {
        [RONDO_ONE_SHOT] = "one-shot", [RONDO_TWO_SHOT] = "two-shot", [RONDO_RING] = "ring"};
    return algo < RONDO_ALGO_COUNT ? names[algo] : "unknown";
}

const char *rondo_kernel_name(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? kernels[number].name : "";
}

unsigned rondo_kernel_unit(unsigned number)
{
    return number < RONDO_KERNEL_COUNT ? kernels[number].unit : 0;
}

size_t rondo_kernel_args_bytes(unsigned number)
{
    switch (number) {
    case RONDO_KERNEL_BARRIER:
        return sizeof(struct rondo_single_args);
    case RONDO_KERNEL_TRANSFERS:
    case RONDO_KERNEL_TRANSFERS_LEAN:
        return sizeof(struct rondo_small_args);
    case RONDO_KERNEL_LARGE:
        return sizeof(struct rondo_large_args);
    case RONDO_KERNEL_RING:
        return sizeof(struct rondo_ring_args);
    case RONDO_KERNEL_SELFTEST:
        return sizeof(struct rondo_selftest_args);
    default:
        return number < RONDO_KERNEL_GROUPS ? sizeof(struct rondo_single_args) : sizeof(struct rondo_batch_args);
    }
}
