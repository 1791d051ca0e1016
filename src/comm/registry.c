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
    for (size_t i = 0; i < registry->count; i++)
        rondo_exports_hold_drop(registry->list[i].hold);
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

rondoResult_t rondo_registry_add(struct rondo_registry *registry, struct rondo_exporter *exporter, void *buffer,
                                 size_t bytes, void **handle)
{
    static uint64_t last; /* atomic: of the process */
    struct rondo_registration made = {.buffer = buffer,
                                      .bytes = bytes,
                                      .handle = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED),
                                      .hold = exporter ? rondo_exports_hold_create(exporter) : NULL,
                                      .number = RONDO_EXPORT_NONE};
    if (made.hold)
        rondo_exports_place(made.hold, buffer, bytes, &made.number, &made.at);
    pthread_mutex_lock(&registry->lock);
    rondoResult_t result = grow(registry);
    if (result == rondoSuccess) {
        registry->list[registry->count++] = made;
        *handle = (void *)(uintptr_t)made.handle;
    }
    pthread_mutex_unlock(&registry->lock);
    if (result != rondoSuccess)
        rondo_exports_hold_drop(made.hold);
    return result;
}

rondoResult_t rondo_registry_remove(struct rondo_registry *registry, const void *handle)
{
    struct rondo_registration removed = {.hold = NULL};
    bool found = false;
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < registry->count && !found; i++) {
        found = registry->list[i].handle == (uintptr_t)handle;
        if (!found)
            continue;
        removed = registry->list[i];
        registry->list[i] = registry->list[--registry->count];
    }
    pthread_mutex_unlock(&registry->lock);
    rondo_exports_hold_drop(removed.hold);
    return found
               ? rondoSuccess
               : rondo_fail(rondoInvalidArgument, "handle %p is not a registration of this comm", (const void *)handle);
}

void rondo_registry_place(struct rondo_registry *registry, const void *buffer, size_t bytes, uint16_t *number,
                          uint64_t *at)
{
    *number = RONDO_EXPORT_NONE;
    *at = 0;
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < registry->count && *number == RONDO_EXPORT_NONE; i++) {
        const struct rondo_registration *one = &registry->list[i];
        const uint64_t offset = (uintptr_t)buffer - (uintptr_t)one->buffer;
        if ((uintptr_t)buffer < (uintptr_t)one->buffer || offset > one->bytes || bytes > one->bytes - offset)
            continue;
        *number = one->number;
        *at = one->at + offset;
    }
    pthread_mutex_unlock(&registry->lock);
}
