/* Compiled with our header, and again with NCCL's. */
#ifdef NCCL_ABI_THEIRS
#include <nccl.h>
#define VALUE(name) nccl##name
#define facts       nccl_facts_theirs
#else
#include "nccl/nccl.h"
#define VALUE(name) rondo##name
#define facts       nccl_facts_ours
#endif

#include "nccl_abi/facts.h"

#include <stddef.h>

#define SIZE(type)                               \
    {                                            \
        "sizeof " #type, (long long)sizeof(type) \
    }
#define PLACE(type, member)                                  \
    {                                                        \
#type "." #member, (long long)offsetof(type, member) \
    }
#define NUMBER(name)                  \
    {                                 \
#name, (long long)VALUE(name) \
    }
#define CONFIG(member) PLACE(ncclConfig_t, member)

const struct nccl_fact facts[] = {
    SIZE(ncclUniqueId),
    SIZE(ncclComm_t),
    SIZE(ncclWindow_t),
    SIZE(ncclResult_t),
    SIZE(ncclDataType_t),
    SIZE(ncclRedOp_t),
    SIZE(ncclScalarResidence_t),
    SIZE(ncclSimInfo_t),
    PLACE(ncclSimInfo_t, magic),
    PLACE(ncclSimInfo_t, version),
    PLACE(ncclSimInfo_t, estimatedTime),
    CONFIG(size),
    CONFIG(magic),
    CONFIG(version),
    CONFIG(blocking),
    CONFIG(cgaClusterSize),
    CONFIG(minCTAs),
    CONFIG(maxCTAs),
    CONFIG(netName),
    CONFIG(splitShare),
    CONFIG(trafficClass),
    CONFIG(commName),
    CONFIG(collnetEnable),
    CONFIG(CTAPolicy),
    CONFIG(shrinkShare),
    CONFIG(nvlsCTAs),
    CONFIG(nChannelsPerNetPeer),
    CONFIG(nvlinkCentricSched),
    NUMBER(Success),
    NUMBER(UnhandledCudaError),
    NUMBER(SystemError),
    NUMBER(InternalError),
    NUMBER(InvalidArgument),
    NUMBER(InvalidUsage),
    NUMBER(RemoteError),
    NUMBER(InProgress),
    NUMBER(Sum),
    NUMBER(Prod),
    NUMBER(Max),
    NUMBER(Min),
    NUMBER(Avg),
    NUMBER(NumOps),
    NUMBER(MaxRedOp),
    NUMBER(Int8),
    NUMBER(Uint8),
    NUMBER(Int32),
    NUMBER(Uint32),
    NUMBER(Int64),
    NUMBER(Uint64),
    NUMBER(Float16),
    NUMBER(Float32),
    NUMBER(Float64),
    NUMBER(Bfloat16),
    NUMBER(Float8e4m3),
    NUMBER(Float8e5m2),
    NUMBER(NumTypes),
    NUMBER(ScalarDevice),
    NUMBER(ScalarHostImmediate),
    {NULL, 0},
};
