#include "transport/survey.h"

#include "common/result.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

static void judge(struct rondo_survey *survey, const struct rondo_p2p_rules *rules, int rank, int r,
                  const struct rondo_peer_info *peer)
{
    struct rondo_p2p_verdict *verdict = &survey->verdicts[r];
    if (survey->places[rank] >= 0 && survey->places[r] >= 0)
        rondo_p2p_judge(rules, survey->topology, survey->places[rank], survey->places[r], peer, verdict);
    else
        *verdict = (struct rondo_p2p_verdict){
            .path = RONDO_PATH_SYS, .why = "a GPU has no place in the topology", .bridge = -1};
}

static int count_gpus(const struct rondo_survey *survey)
{
    int count = 0;
    for (int r = 0; r < survey->ranks; r++) {
        bool counted = false;
        for (int q = 0; q < r; q++)
            counted |= survey->places[q] == survey->places[r];
        count += !counted;
    }
    return count;
}

static rondoResult_t look(struct rondo_survey *survey, const struct rondo_device_ops *ops, struct rondo_device *device,
                          const struct rondo_topology_device *devices, int rank)
{
    struct rondo_p2p_rules rules;
    struct rondo_peer_info *peers = calloc((size_t)survey->ranks, sizeof *peers);
    if (!peers)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = rondoSuccess;
    for (int r = 0; r < survey->ranks; r++)
        survey->places[r] = rondo_topology_place(survey->topology, &devices[r]);
    for (int r = 0; r < survey->ranks && result == rondoSuccess; r++) {
        result = ops->peer(device, devices[r].uuid, &peers[r]);
        rondo_topology_join(survey->topology, survey->places[rank], survey->places[r], &peers[r]);
    }
    rondo_p2p_rules_read(survey->topology, count_gpus(survey), &rules);
    for (int r = 0; r < survey->ranks && result == rondoSuccess; r++)
        judge(survey, &rules, rank, r, &peers[r]);
    free(peers);
    return result;
}

rondoResult_t rondo_survey_init(struct rondo_survey *survey, const struct rondo_device_ops *ops,
                                struct rondo_device *device, const struct rondo_topology_device *devices, int ranks,
                                int rank)
{
    memset(survey, 0, sizeof *survey);
    RONDO_TRY(rondo_topology_load(&survey->topology));
    survey->ranks = ranks;
    survey->places = calloc((size_t)ranks, sizeof *survey->places);
    survey->verdicts = calloc((size_t)ranks, sizeof *survey->verdicts);
    rondoResult_t result = survey->places && survey->verdicts ? look(survey, ops, device, devices, rank)
                                                              : rondo_fail(rondoSystemError, "out of memory");
    if (result != rondoSuccess)
        rondo_survey_fini(survey);
    else
        rondo_topology_dump(survey->topology);
    return result;
}

void rondo_survey_fini(struct rondo_survey *survey)
{
    rondo_topology_destroy(survey->topology);
    free(survey->places);
    free(survey->verdicts);
    memset(survey, 0, sizeof *survey);
}

void rondo_survey_describe(const struct rondo_survey *survey, int peer, char *text, size_t room)
{
    const struct rondo_p2p_verdict *verdict = &survey->verdicts[peer];
    const unsigned w = verdict->warnings;
    snprintf(text, room, "%s, %s%s%s%s%s%s", rondo_path_name(verdict->path),
             verdict->allowed ? verdict->read ? "P2P, reads" : "P2P, writes" : "no P2P: ",
             verdict->allowed ? "" : verdict->why, w & RONDO_P2P_ACS ? "; ACS redirects" : "",
             w & RONDO_P2P_IOMMU ? "; the IOMMU translates" : "",
             w & RONDO_P2P_UNLOCATED ? "; sysfs does not show a GPU" : "",
             w & RONDO_P2P_UNASKED ? "; the peer is hidden from this process" : "");
}
