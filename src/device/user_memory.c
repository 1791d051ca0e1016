/* Device memory that users ask for. It is of the kind that can be shared, and the library keeps what it knows of it. */
#include "common/result.h"
#include "device/device.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* A device, open as long as there is user memory on it. */
struct home {
    int ordinal;
    unsigned count; /* of allocations */
    struct rondo_device *device;
    struct home *next;
};

struct allocation {
    struct rondo_mem memory;
    uint64_t number; /* no other allocation of the process has or will have it */
    struct home *home;
    struct allocation *next;
};

/* Guards all of it but the watchers. Held across calls of the device layer: these are no calls to be fast. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the watchers; held while they are called */
static struct rondo_memory_watcher *watchers;
static struct home *homes;
static struct allocation *allocations;
static uint64_t last_number;

static rondoResult_t find_home(const struct rondo_device_ops *ops, struct home **out)
{
    int ordinal;
    RONDO_TRY(ops->current(&ordinal));
    for (struct home *home = homes; home; home = home->next) {
        if (home->ordinal != ordinal)
            continue;
        *out = home;
        return rondoSuccess;
    }
    struct home *home = calloc(1, sizeof *home);
    if (!home)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = ops->open(ordinal, &home->device);
    if (result != rondoSuccess) {
        free(home);
        return result;
    }
    home->ordinal = ordinal;
    home->next = homes;
    *out = homes = home;
    return rondoSuccess;
}

static void close_unused(const struct rondo_device_ops *ops)
{
    for (struct home **place = &homes; *place;) {
        struct home *home = *place;
        if (home->count) {
            place = &home->next;
            continue;
        }
        *place = home->next;
        ops->close(home->device);
        free(home);
    }
}

static rondoResult_t allocate(const struct rondo_device_ops *ops, size_t bytes, void **out)
{
    struct rondo_device_info info;
    struct home *home;
    struct allocation *made = calloc(1, sizeof *made);
    if (!made)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result;
    RONDO_TRY_GOTO(result, failed, find_home(ops, &home));
    ops->info(home->device, &info);
    RONDO_TRY_GOTO(
        result, failed,
        ops->mem_alloc(home->device, bytes, info.shareable ? RONDO_MEM_SHAREABLE : RONDO_MEM_PRIVATE, &made->memory));
    result = ops->mem_attach_all(home->device, &made->memory);
    if (result != rondoSuccess) {
        ops->mem_free(home->device, &made->memory);
        goto failed;
    }
    home->count++;
    made->home = home;
    made->number = ++last_number;
    made->next = allocations;
    allocations = made;
    *out = made->memory.address;
    return rondoSuccess;
failed:
    free(made);
    return result;
}

static rondoResult_t release(const struct rondo_device_ops *ops, const void *address)
{
    for (struct allocation **place = &allocations; *place; place = &(*place)->next) {
        struct allocation *one = *place;
        if (one->memory.address != address)
            continue;
        *place = one->next;
        ops->mem_free(one->home->device, &one->memory);
        one->home->count--;
        free(one);
        return rondoSuccess;
    }
    return rondo_fail(rondoInvalidArgument, "ptr (%p) is not memory of rondoMemAlloc, or was freed before", address);
}

bool rondo_user_memory_find(const void *pointer, struct rondo_range *range)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (const struct allocation *one = allocations; one && !found; one = one->next) {
        found = (uintptr_t)pointer - (uintptr_t)one->memory.address < one->memory.bytes;
        if (found)
            *range = (struct rondo_range){one->memory, 1ull << 63 | one->number};
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void rondo_user_memory_watch(struct rondo_memory_watcher *watcher)
{
    pthread_mutex_lock(&watch_lock);
    watcher->next = watchers;
    watchers = watcher;
    pthread_mutex_unlock(&watch_lock);
}

void rondo_user_memory_unwatch(struct rondo_memory_watcher *watcher)
{
    pthread_mutex_lock(&watch_lock);
    for (struct rondo_memory_watcher **place = &watchers; *place; place = &(*place)->next)
        if (*place == watcher) {
            *place = watcher->next;
            break;
        }
    pthread_mutex_unlock(&watch_lock);
}

static void tell_watchers(const void *address)
{
    struct rondo_range range;
    if (!rondo_user_memory_find(address, &range) || range.mem.address != address)
        return;
    pthread_mutex_lock(&watch_lock);
    for (const struct rondo_memory_watcher *watcher = watchers; watcher; watcher = watcher->next)
        watcher->freed(watcher->self, &range);
    pthread_mutex_unlock(&watch_lock);
}

rondoResult_t rondoMemAlloc(void **ptr, size_t bytes)
{
    const struct rondo_device_ops *ops;
    if (!ptr)
        return rondo_fail(rondoInvalidArgument, "ptr is NULL");
    *ptr = NULL;
    if (bytes == 0 || bytes > PTRDIFF_MAX)
        return rondo_fail(rondoInvalidArgument, "bytes is %zu", bytes);
    RONDO_TRY(rondo_device_row(&ops));
    pthread_mutex_lock(&lock);
    rondoResult_t result = allocate(ops, bytes, ptr);
    close_unused(ops);
    pthread_mutex_unlock(&lock);
    return result;
}

rondoResult_t rondoMemFree(void *ptr)
{
    const struct rondo_device_ops *ops;
    if (!ptr)
        return rondoSuccess;
    RONDO_TRY(rondo_device_row(&ops));
    tell_watchers(ptr);
    pthread_mutex_lock(&lock);
    rondoResult_t result = release(ops, ptr);
    close_unused(ops);
    pthread_mutex_unlock(&lock);
    return result;
}
