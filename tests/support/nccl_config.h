#ifndef RONDO_TESTS_NCCL_CONFIG_H
#define RONDO_TESTS_NCCL_CONFIG_H

#include "nccl/types.h"

#include <stddef.h>
#include <string.h>

/* What a program of that version passes: a struct that ends with its last field. */
static inline ncclConfig_t config_of(unsigned version, size_t size)
{
    ncclConfig_t config;
    memset(&config, 0x5a, sizeof config); /* what is behind the end */
    memset(&config, 0, size);
    config.size = size;
    config.magic = NCCL_MAGIC;
    config.version = version;
    const int undefined = NCCL_CONFIG_UNDEF_INT;
    for (size_t at = offsetof(ncclConfig_t, blocking); at + sizeof undefined <= size; at += sizeof undefined)
        memcpy((char *)&config + at, &undefined, sizeof undefined);
    if (size > offsetof(ncclConfig_t, netName))
        config.netName = NULL;
    if (size > offsetof(ncclConfig_t, commName))
        config.commName = NULL;
    return config;
}

#endif
