/* Buffers that users have registered with a comm, and where their memory is exported. Thread-safe. */
#ifndef RONDO_COMM_REGISTRY_H
#define RONDO_COMM_REGISTRY_H

#include "rondo/rondo.h"

#include "comm/exports.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct rondo_registration {
    void *buffer; /* not owned */
    size_t bytes;
    uint64_t handle;                 /* unique in the process, so one that is dead or another comm's is found out */
    struct rondo_exports_hold *hold; /* NULL: not exported */
    uint16_t number;                 /* of the exported memory */
    uint64_t at;                     /* the buffer's place in it */
};

struct rondo_registry {
    pthread_mutex_t lock; /* guards the rest; inside it nothing else is locked */
    struct rondo_registration *list;
    size_t count, room;
};

void rondo_registry_init(struct rondo_registry *registry);
void rondo_registry_fini(struct rondo_registry *registry);

/* Registrations may overlap, and be equal: each has a handle of its own. exporter NULL: nothing is exported. */
rondoResult_t rondo_registry_add(struct rondo_registry *registry, struct rondo_exporter *exporter, void *buffer,
                                 size_t bytes, void **handle);

/* Where a buffer is in the exported memory of a registration. *number RONDO_EXPORT_NONE: in none. */
void rondo_registry_place(struct rondo_registry *registry, const void *buffer, size_t bytes, uint16_t *number,
                          uint64_t *at);

/* rondoInvalidArgument: not a handle of this comm's, or no more. */
rondoResult_t rondo_registry_remove(struct rondo_registry *registry, const void *handle);

#endif
