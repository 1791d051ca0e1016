/* A rank's exported memory that is taken back and given again all the while, as the exporter does in the middle of launches: some
 * blocks are direct then, and some are not. */
#ifndef RONDO_TESTS_FLICKER_H
#define RONDO_TESTS_FLICKER_H

#include "support/rig.h"

#include <pthread.h>

struct flicker {
    struct rig *rig;
    pthread_t thread;
    int end; /* atomic */
};

void flicker_begin(struct flicker *flicker, struct rig *rig);

/* What was usable at the beginning is again. */
void flicker_end(struct flicker *flicker);

#endif
