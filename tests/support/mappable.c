#include "support/mappable.h"

#include <stdio.h>

bool mappable_is_mem_alloc(const struct rig *rig)
{
    return rig_on_host() && rig->alone;
}

void *mappable_get(const struct rig *rig, size_t bytes)
{
    void *memory = NULL;
    if (!mappable_is_mem_alloc(rig))
        return rig->machine->alloc(bytes);
    if (rondoMemAlloc(&memory, bytes) != rondoSuccess)
        fprintf(stderr, "rank %d: %s\n", rig->rank, rondoGetLastError(NULL));
    return memory;
}

void mappable_free(const struct rig *rig, void *memory)
{
    if (!mappable_is_mem_alloc(rig))
        rig->machine->free(memory);
    else
        rondoMemFree(memory);
}
