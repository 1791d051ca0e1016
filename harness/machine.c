#include "machine.h"

#include <stdlib.h>
#include <string.h>

/* In order of preference. */
static const struct machine *const rows[] = {
#ifdef RONDO_WITH_CUDA
    &machine_cuda,
#endif
    &machine_host,
};

const struct machine *machine_find(const char *name)
{
    if (!name)
        name = getenv("RONDO_DEVICE");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (name && *name ? strcmp(name, rows[i]->name) == 0 : rows[i]->device_count() > 0)
            return rows[i];
    return NULL;
}
