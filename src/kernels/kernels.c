/* The kernels for the host device: the same bodies, one function each, and the table that the device launches from. */
#include "device/host_kernels.h"
#include "kernels/entry.h"
#include "kernels/instances.h"
#include "kernels/ring.h"
#include "kernels/selftest.h"

/* The code that types and exchanges have of their own is here for three types, and that for a fixed number of ranks for one and two,
 * to be tested. It is no faster on CPUs. With sanitizers the compiler would take ten minutes for the latter. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUNED(DTYPE) false
#else
#define TUNED(DTYPE) (RONDO_##DTYPE != RONDO_BF16)
#endif
#define SINGLE(name, COLLECTIVE, ALGO, DTYPE, tuned)                                                \
    RONDO_KERNEL name(const void *args)                                                             \
    {                                                                                               \
        if (RONDO_##DTYPE == RONDO_F32 || RONDO_##DTYPE == RONDO_BF16 || RONDO_##DTYPE == RONDO_U8) \
            rondo_single_body(RONDO_##COLLECTIVE, RONDO_##ALGO, RONDO_##DTYPE, TUNED(DTYPE), args); \
        else                                                                                        \
            rondo_single_any(args);                                                                 \
    }
RONDO_PARTS(RONDO_SINGLES_OF, SINGLE)
RONDO_MOVES(SINGLE)

#define LEAN(name, COLLECTIVE, ALGO, DTYPE, tuned)                                                  \
    RONDO_KERNEL name(const void *args)                                                             \
    {                                                                                               \
        if (RONDO_##DTYPE == RONDO_F32 || RONDO_##DTYPE == RONDO_BF16 || RONDO_##DTYPE == RONDO_U8) \
            rondo_lean_body(RONDO_##COLLECTIVE, RONDO_##DTYPE, TUNED(DTYPE), args);                 \
        else                                                                                        \
            rondo_single_any(args);                                                                 \
    }
RONDO_PARTS(RONDO_LEANS_OF, LEAN)
RONDO_LEAN_MOVES(LEAN)

#define GROUP(name, COLLECTIVE, ALGO, DTYPE, tuned)                       \
    RONDO_KERNEL name(const void *args)                                   \
    {                                                                     \
        rondo_group_body(RONDO_##COLLECTIVE, RONDO_##DTYPE, false, args); \
    }
RONDO_PARTS(RONDO_GROUPS_OF, GROUP)

RONDO_KERNEL barrier(const void *args)
{
    rondo_barrier_body(args);
}

RONDO_KERNEL transfers(const void *args)
{
    rondo_transfers_body(args);
}

RONDO_KERNEL transfers_lean(const void *args)
{
    rondo_transfers_lean_body(args);
}

RONDO_KERNEL batch(const void *args)
{
    rondo_batch_body(args);
}

RONDO_KERNEL ring(const void *args)
{
    rondo_ring_body(args);
}

RONDO_KERNEL selftest(const void *args)
{
    rondo_selftest_body(args);
}

void (*const rondo_host_kernels[])(const void *args) = {
#define X(name, COLLECTIVE, ALGO, DTYPE, tuned) [RONDO_KERNEL_##name] = name,
    RONDO_PARTS(RONDO_SINGLES_OF, X) RONDO_MOVES(X) RONDO_PARTS(RONDO_LEANS_OF, X) RONDO_LEAN_MOVES(X)
        RONDO_PARTS(RONDO_GROUPS_OF, X)
#undef X
            [RONDO_KERNEL_BARRIER] = barrier,
    [RONDO_KERNEL_TRANSFERS] = transfers,
    [RONDO_KERNEL_TRANSFERS_LEAN] = transfers_lean,
    [RONDO_KERNEL_BATCH] = batch,
    [RONDO_KERNEL_LARGE] = batch,
    [RONDO_KERNEL_RING] = ring,
    [RONDO_KERNEL_SELFTEST] = selftest,
};
const unsigned rondo_host_kernel_count = RONDO_KERNEL_COUNT;
