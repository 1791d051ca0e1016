/* A comm's settings: the caller's config, else the environment, else what the device suggests. */
#ifndef RONDO_COMM_CONFIG_H
#define RONDO_COMM_CONFIG_H

#include "rondo/rondo.h"

#include "device/device.h"

#include <stdbool.h>

struct rondo_config {
    int min_ctas, max_ctas;
    int cta_policy;
    int buffer_kib;
    int graph_lanes;
    int timeout_ms;
    bool shared_device;
    bool blocking;
    bool check_pointers; /* of ops */
    char name[64];
    unsigned open; /* fields that the caller left undefined, of those that all ranks must have alike; see config.c */
};

/* Reads the caller's struct, of whatever size and version; NULL is the default one. Values out of bounds are
 * rondoInvalidArgument. */
rondoResult_t rondo_config_read(const rondoConfig_t *user, struct rondo_config *config);

/* Takes from another rank's config what the caller of this one left undefined, of what all ranks must have alike. */
void rondo_config_adopt(struct rondo_config *config, const struct rondo_config *other);

/* Fills in what was left to the device. rondoInvalidArgument: minCTAs above maxCTAs. */
rondoResult_t rondo_config_complete(struct rondo_config *config, const struct rondo_device_info *info);

#endif
