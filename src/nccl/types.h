/* SPDX-License-Identifier: Apache-2.0
 *
 * The types of NCCL's interface. What NCCL has as an enumeration of the same values as Rondo's is that one here. */
#ifndef RONDO_NCCL_TYPES_H
#define RONDO_NCCL_TYPES_H

#include "rondo/rondo.h"

#include <stdbool.h>

typedef rondoResult_t ncclResult_t;
typedef rondoDataType_t ncclDataType_t;
typedef rondoRedOp_t ncclRedOp_t;
typedef rondoScalarResidence_t ncclScalarResidence_t;
typedef rondoUniqueId ncclUniqueId; /* 128 bytes, given by value */
typedef rondoComm_t ncclComm_t;     /* a comm of the drop-in is one of Rondo's */
typedef struct CUstream_st *ncclStream_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct ncclParam *ncclParamHandle_t;

#define NCCL_MAGIC            0xcafebeefu
#define NCCL_SIM_INFO_MAGIC   0x74685283u
#define NCCL_CONFIG_UNDEF_INT RONDO_CONFIG_UNDEF_INT
#define NCCL_UNDEF_FLOAT      (-1.0f)
#define NCCL_WIN_ALIGNMENT    4096
#define NCCL_REVOKE_DEFAULT   0

/* 2.28.9's fields up to nvlinkCentricSched, then 2.30.7's. */
typedef struct {
    size_t size; /* of the caller's struct */
    unsigned int magic;
    unsigned int version; /* of the caller's NCCL */
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
    int graphUsageMode;
    int numRmaCtx;
    int maxP2pPeers;
    int graphStreamOrdering;
} ncclConfig_t;

typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

typedef enum {
    ncclStatGpuMemSuspend = 0,   /* bytes that a suspend would free */
    ncclStatGpuMemSuspended = 1, /* whether they are */
    ncclStatGpuMemPersist = 2,   /* bytes that stay */
    ncclStatGpuMemTotal = 3,
} ncclCommMemStat_t;

/* The head of the struct: what later versions have behind it says what a comm can do, and 0 is that it cannot. */
typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int rank;
    int nRanks;
    int cudaDev;
    int nvmlDev;
    bool deviceApiSupport;
    bool multimemSupport;
} ncclCommProperties_t;

typedef struct {
    int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;

typedef struct {
    int nRanks, rank, stride;
} ncclTeam_t;

typedef struct {
    void *pointer;
} ncclMultimemHandle_t;

#endif
