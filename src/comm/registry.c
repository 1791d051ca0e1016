#include "comm/registry.h"

#include "common/result.h"

#include <stdbool.h>
#include <stdlib.h>

void rondo_registry_init(struct rondo_registry *registry)
{
    *registry = (struct rondo_registry){.count = 0};
    pthread_mutex_init(&registry->lock, NULL);
}

void rondo_registry_fini(struct rondo_registry *registry)
{
    free(registry->list);
    registry->list = NULL;
    registry->count = registry->room = 0;
    pthread_mutex_destroy(&registry->lock);
}

/* Room for one more; lock held. */
static rondoResult_t grow(struct rondo_registry *registry)
{
    if (registry->count < registry->room)
        return rondoSuccess;
    const size_t room = registry->room ? registry->room * 2 : 16;
    struct rondo_registration *list = realloc(registry->list, room * sizeof *list);
    if (!list)
        return rondo_fail(rondoSystemError, "out of memory");
    registry->list = list;
    registry->room = room;
    return rondoSuccess;
}

rondoResult_t rondo_registry_add(struct rondo_registry *registry, void *buffer, size_t bytes, void **handle)
{
    static uint64_t last; /* atomic: of the process */
    const uint64_t number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&registry->lock);
    rondoResult_t result = grow(registry);
    if (result == rondoSuccess) {
        registry->list[registry->count++] = (struct rondo_registration){buffer, bytes, number};
        *handle = (void *)(uintptr_t)number;
    }
    pthread_mutex_unlock(&registry->lock);
    return result;
}

rondoResult_t rondo_registry_remove(struct rondo_registry *registry, const void *handle)
{
    bool found = false;
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < registry->count && !found; i++) {
        found = registry->list[i].handle == (uintptr_t)handle;
        if (found)
            registry->list[i] = registry->list[--registry->count];
    }
    pthread_mutex_unlock(&registry->lock);
    return found
               ? rondoSuccess
               : rondo_fail(rondoInvalidArgument, "handle %p is not a registration of this comm", (const void *)handle);
}
