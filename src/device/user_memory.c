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

/* Guards all of it but the watchers. Not held across calls of the device layer, which may wait for what runs on a device: large ops ask
 * here where their buffers lie, and what runs may wait for one of these. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the watchers; held while they are called */
static struct rondo_memory_watcher *watchers;
static struct home *homes;
static struct allocation *allocations;
static uint64_t last_number;

/* The home with that number, of which there is one allocation more now; NULL: there is none. Under the lock. */
static struct home *count_in(int ordinal)
{
    struct home *home = homes;
    while (home && home->ordinal != ordinal)
        home = home->next;
    if (home)
        home->count++;
    return home;
}

static void close_home(const struct rondo_device_ops *ops, struct home *home)
{
    if (home)
        ops->close(home->device);
    free(home);
}

/* The current device's, for one allocation more. */
static rondoResult_t enter_home(const struct rondo_device_ops *ops, struct home **out)
{
    int ordinal;
    RONDO_TRY(ops->current(&ordinal));
    pthread_mutex_lock(&lock);
    *out = count_in(ordinal);
    pthread_mutex_unlock(&lock);
    if (*out)
        return rondoSuccess;
    struct home *home = calloc(1, sizeof *home);
    if (!home)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = ops->open(ordinal, &home->device);
    if (result != rondoSuccess) {
        free(home);
        return result;
    }
    home->ordinal = ordinal;
    home->count = 1;
    pthread_mutex_lock(&lock);
    *out = count_in(ordinal); /* another thread may have been faster */
    if (!*out) {
        home->next = homes;
        *out = homes = home;
        home = NULL;
    }
    pthread_mutex_unlock(&lock);
    close_home(ops, home);
    return rondoSuccess;
}

/* One allocation less. */
static void leave_home(const struct rondo_device_ops *ops, struct home *home)
{
    struct home **place = &homes;
    pthread_mutex_lock(&lock);
    const bool last = --home->count == 0;
    while (last && *place != home)
        place = &(*place)->next;
    if (last)
        *place = home->next;
    pthread_mutex_unlock(&lock);
    if (last)
        close_home(ops, home);
}

static rondoResult_t get_memory(const struct rondo_device_ops *ops, struct rondo_device *device, size_t bytes,
                                struct rondo_mem *memory)
{
    struct rondo_device_info info;
    ops->info(device, &info);
    RONDO_TRY(ops->mem_alloc(device, bytes, info.shareable ? RONDO_MEM_SHAREABLE : RONDO_MEM_PRIVATE, memory));
    rondoResult_t result = ops->mem_attach_all(device, memory);
    if (result != rondoSuccess)
        ops->mem_free(device, memory);
    return result;
}

static rondoResult_t allocate(const struct rondo_device_ops *ops, size_t bytes, void **out)
{
    struct allocation *made = calloc(1, sizeof *made);
    if (!made)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result;
    RONDO_TRY_GOTO(result, failed, enter_home(ops, &made->home));
    RONDO_TRY_GOTO(result, failed, get_memory(ops, made->home->device, bytes, &made->memory));
    *out = made->memory.address;
    pthread_mutex_lock(&lock);
    made->number = ++last_number;
    made->next = allocations;
    allocations = made;
    pthread_mutex_unlock(&lock);
    return rondoSuccess;
failed:
    if (made->home)
        leave_home(ops, made->home);
    free(made);
    return result;
}

static rondoResult_t release(const struct rondo_device_ops *ops, const void *address)
{
    struct allocation **place = &allocations;
    pthread_mutex_lock(&lock);
    while (*place && (*place)->memory.address != address)
        place = &(*place)->next;
    struct allocation *one = *place;
    if (one)
        *place = one->next;
    pthread_mutex_unlock(&lock);
    if (!one)
        return rondo_fail(rondoInvalidArgument, "ptr (%p) is not memory of rondoMemAlloc, or was freed before",
                          address);
    ops->mem_free(one->home->device, &one->memory);
    leave_home(ops, one->home);
    free(one);
    return rondoSuccess;
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
    return allocate(ops, bytes, ptr);
}

rondoResult_t rondoMemFree(void *ptr)
{
    const struct rondo_device_ops *ops;
    if (!ptr)
        return rondoSuccess;
    RONDO_TRY(rondo_device_row(&ops));
    tell_watchers(ptr);
    return release(ops, ptr);
}
