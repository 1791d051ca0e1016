/* Faults of devices: a row of the device layer that stands before the real one and does some things badly. */
#ifndef RONDO_TESTS_FAULTS_H
#define RONDO_TESTS_FAULTS_H

#include "device/device.h"

/* Sets of enum rondo_mem_kind: 1u << kind. */
struct faults {
    unsigned no_alloc, no_export, no_import; /* kinds for which this is an error */
    unsigned unseen;       /* kinds of which an import is other memory: what is stored there, the peer does not see */
    bool no_attach;        /* memory of another device of this process cannot be used */
    unsigned map_delay_ms; /* before each import and attach */
    unsigned
        copy_delay_us; /* most that each copy of a copier takes besides: by chance, so that copies of different copiers
                               overtake each other */
    int stalled;       /* atomic: while it is 1, copiers do not copy */
    int broken;        /* atomic: once it is 1, copies are errors */
};

/* This process's. Set before the first comm, the atomic ones at any time. */
extern struct faults faults;

/* Puts the row in place: before this process's first use of a device. Copiers are asynchronous then, on every device. */
void faults_install(void);

#endif
