/* Buffers that users have registered with a comm. Nothing uses them yet: zero-copy ops will. Thread-safe. */
#ifndef RONDO_COMM_REGISTRY_H
#define RONDO_COMM_REGISTRY_H

#include "rondo/rondo.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct rondo_registration {
    void *buffer; /* not owned */
    size_t bytes;
    uint64_t handle; /* unique in the process, so one that is dead or another comm's is found out */
};

struct rondo_registry {
    pthread_mutex_t lock; /* guards the rest; inside it nothing else is locked */
    struct rondo_registration *list;
    size_t count, room;
};

void rondo_registry_init(struct rondo_registry *registry);
void rondo_registry_fini(struct rondo_registry *registry);

/* Registrations may overlap, and be equal: each has a handle of its own. */
rondoResult_t rondo_registry_add(struct rondo_registry *registry, void *buffer, size_t bytes, void **handle);

/* rondoInvalidArgument: not a handle of this comm's, or no more. */
rondoResult_t rondo_registry_remove(struct rondo_registry *registry, const void *handle);

#endif
