/* What a comm's captures are called in errors: each has a number, from 1 on in the order of captures, and is known by what it
 * holds. Kernels carry the number, and bring it back in their reports. */
#ifndef RONDO_COMM_LABELS_H
#define RONDO_COMM_LABELS_H

#include "kernels/work.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { RONDO_LABELS = 256 /* of the last captures */, RONDO_LABEL_PLAN = 255 };

struct rondo_label {
    uint16_t number;
    uint8_t
        first; /* its first op: enum rondo_collective, RONDO_TRANSFERS: no collective, RONDO_LABEL_PLAN: a plan's ops */
    uint32_t ops;   /* in all; a plan's launches count as such. 0: none yet */
    uint64_t bytes; /* of the first one */
};

struct rondo_labels {
    pthread_mutex_t lock; /* guards the rest; inside it nothing else is locked */
    uint16_t last;
    struct rondo_label labels[RONDO_LABELS];
};

void rondo_labels_init(struct rondo_labels *labels);
void rondo_labels_fini(struct rondo_labels *labels);

/* A capture's number, not 0. They begin again after 65535. */
uint16_t rondo_labels_add(struct rondo_labels *labels);

/* The capture has `ops` more, of which the first is this one. */
void rondo_labels_note(struct rondo_labels *labels, uint16_t number, unsigned first, uint64_t bytes, uint32_t ops);

/* false: it was too long ago. */
bool rondo_labels_find(struct rondo_labels *labels, uint16_t number, struct rondo_label *label);

#endif
