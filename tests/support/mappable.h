/* Memory that ranks of other processes can map: any on a GPU, rondoMemAlloc's on the host device. */
#ifndef RONDO_TESTS_MAPPABLE_H
#define RONDO_TESTS_MAPPABLE_H

#include "support/rig.h"

/* NULL: none to be had. */
void *mappable_get(const struct rig *rig, size_t bytes);
void mappable_free(const struct rig *rig, void *memory);

/* The machine, but that its memory is rondoMemAlloc's. */
struct machine mappable_machine(const struct machine *machine);

/* Whether it is rondoMemAlloc's here. */
bool mappable_is_mem_alloc(const struct rig *rig);

#endif
