/* The host row: the progress thread that stands for a copy engine copies itself. */
#include "device/host_device.h"

#include "common/result.h"

#include <stdlib.h>

struct rondo_copier {
    uint64_t made;
};

rondoResult_t host_copier_create(struct rondo_device *device, struct rondo_copier **copier)
{
    (void)device;
    *copier = calloc(1, sizeof **copier);
    return *copier ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
}

void host_copier_destroy(struct rondo_device *device, struct rondo_copier *copier)
{
    (void)device;
    free(copier);
}

/* Kernels are at these lines, credits and escape bytes: each is moved whole. Pairs with the accessors in kernels/dialect.h. */
rondoResult_t host_copier_copy(struct rondo_copier *copier, void *to, const void *from, size_t bytes)
{
    const uintptr_t places = (uintptr_t)to | (uintptr_t)from;
    size_t i = 0;
    (void)copier;
    if (places % 8 == 0)
        for (; i + 8 <= bytes; i += 8)
            __atomic_store_n(
                (uint64_t *)(void *)((char *)to + i),
                __atomic_load_n((const uint64_t *)(const void *)((const char *)from + i), __ATOMIC_ACQUIRE),
                __ATOMIC_RELEASE);
    if (places % 4 == 0)
        for (; i + 4 <= bytes; i += 4)
            __atomic_store_n(
                (uint32_t *)(void *)((char *)to + i),
                __atomic_load_n((const uint32_t *)(const void *)((const char *)from + i), __ATOMIC_ACQUIRE),
                __ATOMIC_RELEASE);
    for (; i < bytes; i++)
        __atomic_store_n((char *)to + i, __atomic_load_n((const char *)from + i, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    return rondoSuccess;
}

rondoResult_t host_copier_mark(struct rondo_copier *copier, uint64_t *mark)
{
    *mark = ++copier->made;
    return rondoSuccess;
}

rondoResult_t host_copier_passed(struct rondo_copier *copier, uint64_t *mark)
{
    *mark = copier->made;
    return rondoSuccess;
}
