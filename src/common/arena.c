#include "common/arena.h"

#include "common/result.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jemalloc, where the process has it: the programs that link Rondo may, the library does not. */
__attribute__((weak)) void *mallocx(size_t bytes, int flags);
__attribute__((weak)) void dallocx(void *pointer, int flags);
__attribute__((weak)) int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes);

/* jemalloc.h's MALLOCX_ARENA, MALLOCX_TCACHE_NONE, MALLOCX_ZERO, MALLOCX_LG_ALIGN(4) */
enum { FLAGS_ZERO = 0x40, FLAGS_ALIGN_16 = 4, FLAGS_NO_CACHE = 1 << 8, ARENA_SHIFT = 20 };

/* Before each allocation. 32 bytes, so that what follows is 16-byte aligned. */
struct header {
    struct header *previous, *next;
    size_t bytes;
    uint64_t unused;
};

struct rondo_arena {
    pthread_mutex_t lock; /* guards the rest; nothing else is locked while it is held */
    struct header list;   /* of the allocations, circular */
    size_t bytes;         /* atomic for readers */
    int flags;            /* for mallocx; 0: libc */
    unsigned number;
};

static size_t total; /* atomic */

static int have_jemalloc(void)
{
    return mallocx && dallocx && mallctl;
}

rondoResult_t rondo_arena_create(struct rondo_arena **arena)
{
    struct rondo_arena *a = calloc(1, sizeof *a);
    if (!a)
        return rondo_fail(rondoSystemError, "out of memory");
    pthread_mutex_init(&a->lock, NULL);
    a->list.previous = a->list.next = &a->list;
    size_t bytes = sizeof a->number;
    if (have_jemalloc() && mallctl("arenas.create", &a->number, &bytes, NULL, 0) == 0)
        a->flags = (int)((a->number + 1) << ARENA_SHIFT) | FLAGS_NO_CACHE;
    *arena = a;
    return rondoSuccess;
}

static void release(struct rondo_arena *arena, struct header *header)
{
    __atomic_sub_fetch(&arena->bytes, header->bytes, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&total, header->bytes, __ATOMIC_RELAXED);
    header->previous->next = header->next;
    header->next->previous = header->previous;
    if (arena->flags)
        dallocx(header, FLAGS_NO_CACHE);
    else
        free(header);
}

void rondo_arena_destroy(struct rondo_arena *arena)
{
    if (!arena)
        return;
    while (arena->list.next != &arena->list)
        release(arena, arena->list.next);
    if (arena->flags) {
        char name[48];
        snprintf(name, sizeof name, "arena.%u.destroy", arena->number);
        mallctl(name, NULL, NULL, NULL, 0);
    }
    pthread_mutex_destroy(&arena->lock);
    free(arena);
}

rondoResult_t rondo_arena_alloc(struct rondo_arena *arena, size_t bytes, void **pointer)
{
    struct header *header = NULL;
    if (bytes <= SIZE_MAX - sizeof *header)
        header = arena->flags ? mallocx(bytes + sizeof *header, arena->flags | FLAGS_ZERO | FLAGS_ALIGN_16)
                              : calloc(1, bytes + sizeof *header);
    if (!header)
        return rondo_fail(rondoSystemError, "out of memory: %zu bytes", bytes);
    header->bytes = bytes;
    pthread_mutex_lock(&arena->lock);
    header->next = &arena->list;
    header->previous = arena->list.previous;
    header->previous->next = header;
    arena->list.previous = header;
    pthread_mutex_unlock(&arena->lock);
    __atomic_add_fetch(&arena->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&total, bytes, __ATOMIC_RELAXED);
    *pointer = header + 1;
    return rondoSuccess;
}

void rondo_arena_free(struct rondo_arena *arena, void *pointer)
{
    if (!pointer)
        return;
    pthread_mutex_lock(&arena->lock);
    release(arena, (struct header *)pointer - 1);
    pthread_mutex_unlock(&arena->lock);
}

size_t rondo_arena_bytes(const struct rondo_arena *arena)
{
    return __atomic_load_n(&arena->bytes, __ATOMIC_RELAXED);
}

size_t rondo_arena_total_bytes(void)
{
    return __atomic_load_n(&total, __ATOMIC_RELAXED);
}
