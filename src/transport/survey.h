/* A rank's look at all its pairs, once at comm init: topology, the driver's answers, and who may use P2P. */
#ifndef RONDO_TRANSPORT_SURVEY_H
#define RONDO_TRANSPORT_SURVEY_H

#include "transport/eligibility.h"
#include "transport/topology.h"

struct rondo_device;
struct rondo_device_ops;

struct rondo_survey {
    struct rondo_topology *topology; /* owned */
    int ranks;
    int *places;                        /* ranks' GPUs in the topology, -1: none; owned */
    struct rondo_p2p_verdict *verdicts; /* by rank, of this rank and that one; owned. One's own is for a rank alone */
};

/* `devices` are all ranks', as their cards show them, and `device` is this rank's. Ranks may come to different verdicts, by
 * what they see and by their parameters: a pair uses P2P only if both allow it, which they must exchange. May block, as it
 * asks the driver. rondoInvalidArgument, rondoInvalidUsage: RONDO_TOPO_FILE is malformed or missing. On an error nothing is
 * left. */
rondoResult_t rondo_survey_init(struct rondo_survey *survey, const struct rondo_device_ops *ops,
                                struct rondo_device *device, const struct rondo_topology_device *devices, int ranks,
                                int rank);

/* Idempotent; a zeroed one is fine. */
void rondo_survey_fini(struct rondo_survey *survey);

/* One line for the log about a pair: path, verdict and warnings. */
void rondo_survey_describe(const struct rondo_survey *survey, int peer, char *text, size_t room);

#endif
