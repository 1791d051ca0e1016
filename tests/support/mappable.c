#include "support/mappable.h"

#include <stdio.h>

bool mappable_is_mem_alloc(const struct rig *rig)
{
    return rig_on_host() && rig->alone;
}

static void *get(size_t bytes)
{
    void *memory = NULL;
    if (rondoMemAlloc(&memory, bytes) != rondoSuccess)
        fprintf(stderr, "%s\n", rondoGetLastError(NULL));
    return memory;
}

static void give_back(void *memory)
{
    rondoMemFree(memory);
}

struct machine mappable_machine(const struct machine *machine)
{
    struct machine shared = *machine;
    shared.alloc = get;
    shared.free = give_back;
    return shared;
}

void *mappable_get(const struct rig *rig, size_t bytes)
{
    return mappable_is_mem_alloc(rig) ? get(bytes) : rig->machine->alloc(bytes);
}

void mappable_free(const struct rig *rig, void *memory)
{
    if (!mappable_is_mem_alloc(rig))
        rig->machine->free(memory);
    else
        rondoMemFree(memory);
}
