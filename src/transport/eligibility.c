#include "transport/eligibility.h"

#include "common/env.h"
#include "common/log.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

bool rondo_p2p_level_parse(const char *text, enum rondo_path_type *level)
{
    /* NCCL numbered paths before NVLink had a name, and still reads these numbers so. */
    static const enum rondo_path_type numbered[] = {RONDO_PATH_LOC, RONDO_PATH_PIX, RONDO_PATH_PXB,
                                                    RONDO_PATH_PHB, RONDO_PATH_SYS, RONDO_PATH_SYS};
    enum { LAST = sizeof numbered / sizeof *numbered - 1 };
    for (int type = 0; type < RONDO_PATH_TYPES; type++) {
        if (!strcmp(text, rondo_path_name((enum rondo_path_type)type))) {
            *level = (enum rondo_path_type)type;
            return true;
        }
    }
    char *end;
    const long number = strtol(text, &end, 10);
    if (end == text || *end || number < 0)
        return false;
    *level = numbered[number > LAST ? LAST : number];
    return true;
}

enum rondo_path_type rondo_p2p_level_default(const struct rondo_topology *topology, int gpus)
{
    /* Host bridges are slow between peers, or do not pass such traffic at all; those of AMD's CPUs do it well for a pair. */
    const bool amd = !strcmp(topology->arch, "x86_64") && !strcmp(topology->cpu, "AuthenticAMD");
    return amd && gpus <= 2 ? RONDO_PATH_SYS : RONDO_PATH_PXB;
}

void rondo_p2p_rules_read(const struct rondo_topology *topology, int gpus, struct rondo_p2p_rules *rules)
{
    const struct rondo_env *env = rondo_env();
    rules->disabled = env->p2p_disable != 0;
    rules->level_is_set = env->p2p_level && rondo_p2p_level_parse(env->p2p_level, &rules->level);
    rules->read = (int)env->p2p_read_enable;
    if (rules->level_is_set)
        return;
    rules->level = rondo_p2p_level_default(topology, gpus);
    if (env->p2p_level)
        rondo_log(RONDO_LOG_WARN, "RONDO_P2P_LEVEL=%s is none of LOC, NVL, PIX, PXB, PHB, SYS, 0 to 5; ignored",
                  env->p2p_level);
}

static unsigned warnings(const struct rondo_topology *topology, int a, int b, const struct rondo_peer_info *peer,
                         struct rondo_p2p_verdict *verdict)
{
    const struct rondo_topology_gpu *first = &topology->gpus[a], *second = &topology->gpus[b];
    unsigned found = peer->known ? 0 : RONDO_P2P_UNASKED;
    bool unknown;
    if (verdict->path <= RONDO_PATH_NVL) /* no PCI in between */
        return found;
    if (!first->located || !second->located)
        found |= RONDO_P2P_UNLOCATED;
    if (verdict->path <= RONDO_PATH_PXB) { /* else the way leads over the host bridge in any case */
        verdict->bridge = rondo_topology_acs(topology, a, b, &unknown);
        found |= verdict->bridge >= 0 ? RONDO_P2P_ACS : unknown ? RONDO_P2P_ACS_UNKNOWN : 0;
    }
    if (first->iommu == RONDO_IOMMU_TRANSLATING || second->iommu == RONDO_IOMMU_TRANSLATING)
        found |= RONDO_P2P_IOMMU;
    return found;
}

static const char *refusal(const struct rondo_p2p_rules *rules, const struct rondo_topology *topology, int a, int b,
                           const struct rondo_peer_info *peer, enum rondo_path_type path)
{
    const bool mig = topology->gpus[a].mig || topology->gpus[b].mig;
    if (rules->disabled)
        return "RONDO_P2P_DISABLE is set";
    if (a == b)
        return NULL;
    if (peer->known && !peer->access)
        return mig ? "MIG instances have no peer access" : "the driver gives no peer access";
    if (mig && !peer->known)
        return "MIG instances have no peer access";
    if (path > rules->level)
        return rules->level_is_set ? "the GPUs are farther apart than RONDO_P2P_LEVEL"
                                   : "the GPUs are farther apart than is good by default (RONDO_P2P_LEVEL)";
    return NULL;
}

void rondo_p2p_judge(const struct rondo_p2p_rules *rules, const struct rondo_topology *topology, int a, int b,
                     const struct rondo_peer_info *peer, struct rondo_p2p_verdict *verdict)
{
    memset(verdict, 0, sizeof *verdict);
    verdict->bridge = -1;
    verdict->path = rondo_topology_path(topology, a, b);
    verdict->why = refusal(rules, topology, a, b, peer, verdict->path);
    verdict->allowed = !verdict->why;
    verdict->warnings = warnings(topology, a, b, peer, verdict);
    if (!verdict->allowed)
        return;
    /* Over the NVLink of an A100 reads are faster than writes; so says NCCL, which does it on no other GPU. */
    const bool ampere = topology->gpus[a].capability == 80 && topology->gpus[b].capability == 80;
    verdict->read = rules->read < 0 ? ampere && verdict->path == RONDO_PATH_NVL : rules->read != 0;
}
