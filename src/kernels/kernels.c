/* The kernels for the host device: the same bodies, one function each, and the table that the device launches from. */
#include "device/host_kernels.h"
#include "kernels/entry.h"
#include "kernels/instances.h"

#define SINGLE(name, COLLECTIVE, ALGO, DTYPE, OP)                                                                  \
    RONDO_KERNEL name(const void *pointer)                                                                         \
    {                                                                                                              \
        const struct rondo_single_args *args = pointer;                                                            \
        rondo_single_body(RONDO_##COLLECTIVE, RONDO_##ALGO, RONDO_##DTYPE, RONDO_##OP,                             \
                          rondo_dtype_bytes(rondo_reduces(RONDO_##COLLECTIVE) ? RONDO_##DTYPE : args->work.dtype), \
                          args);                                                                                   \
    }
RONDO_SINGLES_0(SINGLE)
RONDO_SINGLES_1(SINGLE)
RONDO_SINGLES_2(SINGLE)

#define GROUP(name, COLLECTIVE, ALGO, DTYPE, OP)                               \
    RONDO_KERNEL name(const void *args)                                        \
    {                                                                          \
        rondo_group_body(RONDO_##COLLECTIVE, RONDO_##DTYPE, RONDO_##OP, args); \
    }
RONDO_GROUPS_0(GROUP)
RONDO_GROUPS_1(GROUP)
RONDO_GROUPS_2(GROUP)
RONDO_MOVES(SINGLE)

RONDO_KERNEL transfers(const void *args)
{
    rondo_transfers_body(args);
}

RONDO_KERNEL batch(const void *args)
{
    rondo_batch_body(args);
}

void (*const rondo_host_kernels[])(const void *args) = {
#define ENTRY(name, COLLECTIVE, ALGO, DTYPE, OP) [RONDO_KERNEL_##name] = name,
    RONDO_SINGLES_0(ENTRY) RONDO_SINGLES_1(ENTRY) RONDO_SINGLES_2(ENTRY) RONDO_GROUPS_0(ENTRY) RONDO_GROUPS_1(ENTRY)
        RONDO_GROUPS_2(ENTRY) RONDO_MOVES(ENTRY)[RONDO_KERNEL_TRANSFERS] = transfers,
    [RONDO_KERNEL_BATCH] = batch,
    [RONDO_KERNEL_LARGE] = batch,
};
const unsigned rondo_host_kernel_count = RONDO_KERNEL_COUNT;
