#include "nccl/device_api.h"

#include "nccl/refusal.h"

static const char no_device_api[] = "Rondo has no device API: kernels cannot communicate by themselves";
static const char no_windows[] = "Rondo has no windows, so none has a pointer";

/* ---- teams ---- */

ncclTeam_t pncclTeamWorld(ncclComm_t comm)
{
    ncclTeam_t team = {0, 0, 1};
    if (rondoCommCount(comm, &team.nRanks) == rondoSuccess)
        rondoCommRank(comm, &team.rank);
    return team;
}

ncclTeam_t pncclTeamLsa(ncclComm_t comm)
{
    return pncclTeamWorld(comm);
}

ncclTeam_t pncclTeamRail(ncclComm_t comm)
{
    const ncclTeam_t lsa = pncclTeamLsa(comm);
    return (ncclTeam_t){lsa.nRanks > 0, 0, lsa.nRanks > 0 ? lsa.nRanks : 1};
}

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
    const ncclTeam_t world = pncclTeamWorld(comm);
    return world.nRanks ? world.rank + (rank - team.rank) * team.stride : -1;
}

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
    return pncclTeamRankToWorld(comm, team, rank);
}

int pncclLLA2ACalcSlots(int max_elements, int max_element_bytes)
{
    return max_elements * (max_element_bytes / 8 + (max_element_bytes % 8 != 0));
}

/* ---- what is refused ---- */

ncclResult_t pncclDevCommCreate(ncclComm_t comm, const void *requirements, void *dev_comm)
{
    (void)requirements, (void)dev_comm;
    return rondo_nccl_refuse_comm(comm, "ncclDevCommCreate", no_device_api);
}

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const void *dev_comm)
{
    (void)dev_comm;
    return rondo_nccl_refuse_comm(comm, "ncclDevCommDestroy", no_device_api);
}

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int barriers, void *handle, void *requirement)
{
    (void)team, (void)barriers, (void)handle, (void)requirement;
    return rondo_nccl_refuse("ncclLsaBarrierCreateRequirement", no_device_api);
}

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int barriers, void *handle,
                                              void *requirement)
{
    (void)team, (void)barriers, (void)handle, (void)requirement;
    return rondo_nccl_refuse_comm(comm, "ncclGinBarrierCreateRequirement", no_device_api);
}

ncclResult_t pncclLLA2ACreateRequirement(int blocks, int slots, void *handle, void *requirement)
{
    (void)blocks, (void)slots, (void)handle, (void)requirement;
    return rondo_nccl_refuse("ncclLLA2ACreateRequirement", no_device_api);
}

ncclResult_t pncclGinInboxA2ACreateRequirement(void)
{
    return rondo_nccl_refuse("ncclGinInboxA2ACreateRequirement", no_device_api);
}

ncclResult_t pncclGinOutboxCreateRequirement(void)
{
    return rondo_nccl_refuse("ncclGinOutboxCreateRequirement", no_device_api);
}

static ncclResult_t no_pointer(const char *function, void **pointer)
{
    if (pointer)
        *pointer = NULL;
    return rondo_nccl_refuse(function, no_windows);
}

ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **pointer)
{
    (void)window, (void)offset, (void)peer;
    return no_pointer("ncclGetPeerDevicePointer", pointer);
}

ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **pointer)
{
    (void)window, (void)offset, (void)rank;
    return no_pointer("ncclGetLsaDevicePointer", pointer);
}

ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                           void **pointer)
{
    (void)window, (void)offset, (void)multimem;
    return no_pointer("ncclGetMultimemDevicePointer", pointer);
}

ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **pointer)
{
    (void)window, (void)offset;
    return no_pointer("ncclGetLsaMultimemDevicePointer", pointer);
}

NCCL_ALIAS(TeamWorld);
NCCL_ALIAS(TeamLsa);
NCCL_ALIAS(TeamRail);
NCCL_ALIAS(TeamRankToWorld);
NCCL_ALIAS(TeamRankToLsa);
NCCL_ALIAS(LLA2ACalcSlots);
NCCL_ALIAS(DevCommCreate);
NCCL_ALIAS(DevCommDestroy);
NCCL_ALIAS(LsaBarrierCreateRequirement);
NCCL_ALIAS(GinBarrierCreateRequirement);
NCCL_ALIAS(LLA2ACreateRequirement);
NCCL_ALIAS(GinInboxA2ACreateRequirement);
NCCL_ALIAS(GinOutboxCreateRequirement);
NCCL_ALIAS(GetPeerDevicePointer);
NCCL_ALIAS(GetLsaDevicePointer);
NCCL_ALIAS(GetMultimemDevicePointer);
NCCL_ALIAS(GetLsaMultimemDevicePointer);
