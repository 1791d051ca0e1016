/* One device's part in a probe: memory that the other writes to, the other's memory, and what it does with them. */
#ifndef RONDO_DOCTOR_SIDE_H
#define RONDO_DOCTOR_SIDE_H

#include "probe.h"

extern const struct rondo_image pingpong_image;

/* Each memory is a box of the ping-pong, then the bytes of a copy. */
struct side {
    bool here; /* in this process */
    int role;
    struct rondo_device *device;
    char *mine, *theirs;
    struct rondo_mem stage;     /* private; what copies start from or end in */
    struct rondo_pinned pinned; /* the kernel's report */
    struct rondo_event *event;  /* the kernel's end */
    uint32_t *words;            /* `bytes` of host memory */
    const struct rondo_kernel *kernel;
};

size_t side_memory_bytes(const struct probe *probe);

/* All for one side but mine and theirs. Safe to close after an error, and when zeroed. */
rondoResult_t side_open(const struct probe *probe, struct side *side);
void side_close(const struct probe *probe, struct side *side);

/* Copies and kernels between the two sides, of which one or both are in this process; the two processes call it at the same
 * time. Fills in all but `maps`. */
void sides_try(const struct probe *probe, struct side sides[2], struct result *result);

#endif
