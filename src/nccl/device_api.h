/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's side of NCCL's device API. Of it there are teams, which are arithmetic; what would make kernels communicate is
 * refused. Structs that are only handed on are not declared. */
#ifndef RONDO_NCCL_DEVICE_API_H
#define RONDO_NCCL_DEVICE_API_H

#include "nccl/nccl.h"

/* All ranks; those that can reach each other's memory, which are all; those of the same place in other such teams, which is
 * the rank alone. Of what is no comm: an empty team. */
NCCL_DECLARE(ncclTeam_t, TeamWorld, ncclComm_t comm);
NCCL_DECLARE(ncclTeam_t, TeamLsa, ncclComm_t comm);
NCCL_DECLARE(ncclTeam_t, TeamRail, ncclComm_t comm);
/* A rank of a team, as counted in the comm or in the LSA team; -1 of what is no comm. */
NCCL_DECLARE(int, TeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_DECLARE(int, TeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank);
/* Slots of 8 bytes that elements need. */
NCCL_DECLARE(int, LLA2ACalcSlots, int max_elements, int max_element_bytes);

/* Refused with ncclInvalidUsage. Outputs are set to NULL where they are pointers. */
NCCL_DECLARE(ncclResult_t, DevCommCreate, ncclComm_t comm, const void *requirements, void *dev_comm);
NCCL_DECLARE(ncclResult_t, DevCommDestroy, ncclComm_t comm, const void *dev_comm);
NCCL_DECLARE(ncclResult_t, LsaBarrierCreateRequirement, ncclTeam_t team, int barriers, void *handle, void *requirement);
NCCL_DECLARE(ncclResult_t, GinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team, int barriers, void *handle,
             void *requirement);
NCCL_DECLARE(ncclResult_t, LLA2ACreateRequirement, int blocks, int slots, void *handle, void *requirement);
NCCL_DECLARE(ncclResult_t, GinInboxA2ACreateRequirement, void);
NCCL_DECLARE(ncclResult_t, GinOutboxCreateRequirement, void);
NCCL_DECLARE(ncclResult_t, GetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer, void **pointer);
NCCL_DECLARE(ncclResult_t, GetLsaDevicePointer, ncclWindow_t window, size_t offset, int rank, void **pointer);
NCCL_DECLARE(ncclResult_t, GetMultimemDevicePointer, ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
             void **pointer);
NCCL_DECLARE(ncclResult_t, GetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset, void **pointer);

#endif
