/* Faults of devices: a row of the device layer that stands before the real one and does some things badly. */
#ifndef RONDO_TESTS_FAULTS_H
#define RONDO_TESTS_FAULTS_H

#include "device/device.h"

struct faults {
    /* Sets of enum rondo_mem_kind, 1u << kind: */
    unsigned no_alloc, no_export, no_import; /* for which this is an error */
    unsigned unseen; /* of which an import is other memory: what is stored there, the peer does not see */

    bool no_attach;           /* device memory of another rank of this process cannot be used */
    unsigned map_delay_ms;    /* before each import and attach */
    void (*in_memory)(void);  /* called within each allocation and each free of device memory; NULL: nothing is */
    unsigned hold_streams_ms; /* what Rondo's own streams are given runs so much later; host device only */

    /* Atomic, to be set at any time: */
    int calls, fail_at;     /* calls of what may fail, so far; that with this number does */
    unsigned copy_delay_us; /* most that each copy takes besides: by chance, so that those of different copiers overtake
                               each other */
    int stalled;            /* while it is 1, copiers do not copy */
    int broken;             /* once it is 1, copies are errors */
};

/* This process's. Set before the first comm. */
extern struct faults faults;

/* Puts the row in place: before this process's first use of a device. Copiers are asynchronous then, on every device. */
void faults_install(void);

#endif
