/* The mechanisms by which two devices may reach each other's memory. */
#ifndef RONDO_DOCTOR_MECHANISM_H
#define RONDO_DOCTOR_MECHANISM_H

#include "probe.h"

struct mechanism {
    const char *name;  /* in JSON */
    const char *title; /* for people, on GPUs */
    const char *host_title;
    const char *advice; /* where it is unavailable between devices that should have it */
    bool p2p;           /* needs peer access; else host memory is in between */
    /* Called by both processes of a pair at the same time. Every wait in it ends. Never fails: it says all in the result. */
    void (*probe)(const struct probe *probe, struct result *result);
};

extern const struct mechanism mechanisms[];
extern const int mechanism_count; /* MECHANISMS_MOST at most */

#endif
