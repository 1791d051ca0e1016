/* Whether a pair of GPUs may use P2P, and if not, why. Pure functions of parameters, topology and the driver's answer: how
 * memory is mapped, and whether that works, is another question (link.h). Each rank judges its own pairs; the ranks of a
 * pair must agree by a vote, as what they see may differ. */
#ifndef RONDO_TRANSPORT_ELIGIBILITY_H
#define RONDO_TRANSPORT_ELIGIBILITY_H

#include "transport/topology.h"

struct rondo_peer_info;

/* What the parameters ask for. */
struct rondo_p2p_rules {
    bool disabled;
    bool level_is_set;
    enum rondo_path_type level; /* the farthest that is allowed */
    int read;                   /* 0, 1; -1: by the pair */
};

/* What deserves a line in the log, and advice of rondo-doctor, but refuses nothing. */
enum rondo_p2p_warning {
    RONDO_P2P_ACS = 1,         /* a bridge in between sends peers' traffic up to the host bridge */
    RONDO_P2P_IOMMU = 2,       /* addresses are translated on the way */
    RONDO_P2P_UNLOCATED = 4,   /* sysfs lacks one of the GPUs: the path is a guess */
    RONDO_P2P_UNASKED = 8,     /* the peer is hidden from this process, so the driver was not asked */
    RONDO_P2P_ACS_UNKNOWN = 16 /* registers of bridges in between cannot be read */
};

struct rondo_p2p_verdict {
    enum rondo_path_type path;
    bool allowed;
    bool read;         /* kernels read from the peer instead of writing to it */
    const char *why;   /* constant: why not; NULL if allowed */
    unsigned warnings; /* enum rondo_p2p_warning, bits */
    int bridge;        /* with RONDO_P2P_ACS: which */
};

/* LOC, NVL, PIX, PXB, PHB, SYS, or NCCL's old numbers 0 to 5 and above. False: it is none of them. */
bool rondo_p2p_level_parse(const char *text, enum rondo_path_type *level);

/* The farthest that is allowed by default on this machine for a comm of so many GPUs: NCCL's. */
enum rondo_path_type rondo_p2p_level_default(const struct rondo_topology *topology, int gpus);

/* The process's parameters. A level that is none is a warning in the log. */
void rondo_p2p_rules_read(const struct rondo_topology *topology, int gpus, struct rondo_p2p_rules *rules);

/* `a` and `b` are numbers of GPUs, `peer` is what the driver says about them. */
void rondo_p2p_judge(const struct rondo_p2p_rules *rules, const struct rondo_topology *topology, int a, int b,
                     const struct rondo_peer_info *peer, struct rondo_p2p_verdict *verdict);

#endif
