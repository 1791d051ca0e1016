#include "comm/redops.h"

#include "common/result.h"

#include <stdlib.h>

/* A handle is a slot and a serial number: one that was destroyed, or is another comm's, is found out. */
enum { MAX_SLOTS = 4096, SERIALS = 1 << 18 };

static int make_handle(size_t slot)
{
    static unsigned serial; /* atomic: of the process */
    const unsigned n = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED) % SERIALS;
    return (int)(rondoNumOps + slot + (size_t)n * MAX_SLOTS);
}

static size_t slot_of(int handle)
{
    return (size_t)(handle - rondoNumOps) % MAX_SLOTS;
}

void rondo_redops_init(struct rondo_redops *redops)
{
    *redops = (struct rondo_redops){.count = 0};
    pthread_mutex_init(&redops->lock, NULL);
}

void rondo_redops_fini(struct rondo_redops *redops)
{
    free(redops->slots);
    redops->slots = NULL;
    redops->count = 0;
    pthread_mutex_destroy(&redops->lock);
}

/* A free slot, made if need be; lock held. */
static rondoResult_t free_slot(struct rondo_redops *redops, size_t *slot)
{
    for (*slot = 0; *slot < redops->count && redops->slots[*slot].handle; ++*slot)
        ;
    if (*slot < redops->count)
        return rondoSuccess;
    if (redops->count == MAX_SLOTS)
        return rondo_fail(rondoInvalidUsage, "a comm has at most %d operators at once", MAX_SLOTS);
    const size_t more = redops->count ? redops->count * 2 : 8;
    struct rondo_redop_slot *slots = realloc(redops->slots, more * sizeof *slots);
    if (!slots)
        return rondo_fail(rondoSystemError, "out of memory");
    for (size_t i = redops->count; i < more; i++)
        slots[i].handle = 0;
    redops->slots = slots;
    redops->count = more;
    return rondoSuccess;
}

rondoResult_t rondo_redops_add(struct rondo_redops *redops, const struct rondo_redop_info *info, rondoRedOp_t *op)
{
    size_t slot;
    pthread_mutex_lock(&redops->lock);
    rondoResult_t result = free_slot(redops, &slot);
    if (result == rondoSuccess) {
        redops->slots[slot] = (struct rondo_redop_slot){*info, make_handle(slot)};
        *op = (rondoRedOp_t)redops->slots[slot].handle;
    }
    pthread_mutex_unlock(&redops->lock);
    return result;
}

static struct rondo_redop_slot *find(struct rondo_redops *redops, int handle)
{
    if (handle < rondoNumOps || slot_of(handle) >= redops->count || redops->slots[slot_of(handle)].handle != handle)
        return NULL;
    return &redops->slots[slot_of(handle)];
}

rondoResult_t rondo_redops_find(struct rondo_redops *redops, rondoRedOp_t op, struct rondo_redop_info *info)
{
    pthread_mutex_lock(&redops->lock);
    const struct rondo_redop_slot *slot = find(redops, (int)op);
    if (slot)
        *info = slot->info;
    pthread_mutex_unlock(&redops->lock);
    return slot ? rondoSuccess
                : rondo_fail(rondoInvalidArgument, "op %d is neither a rondoRedOp_t nor an operator of this comm",
                             (int)op);
}

rondoResult_t rondo_redops_remove(struct rondo_redops *redops, rondoRedOp_t op)
{
    pthread_mutex_lock(&redops->lock);
    struct rondo_redop_slot *slot = find(redops, (int)op);
    if (slot)
        slot->handle = 0;
    pthread_mutex_unlock(&redops->lock);
    return slot ? rondoSuccess : rondo_fail(rondoInvalidArgument, "op %d is not an operator of this comm", (int)op);
}
