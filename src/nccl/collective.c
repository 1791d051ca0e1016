/* Collectives and their operators. What they do is Rondo's. */
#include "nccl/nccl.h"

ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, ncclStream_t stream)
{
    return rondoAllReduce(send, recv, count, type, op, comm, stream);
}

ncclResult_t pncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                         ncclComm_t comm, ncclStream_t stream)
{
    return rondoReduce(send, recv, count, type, op, root, comm, stream);
}

ncclResult_t pncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                            ncclStream_t stream)
{
    return rondoBroadcast(send, recv, count, type, root, comm, stream);
}

ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, ncclStream_t stream)
{
    return rondoBcast(buffer, count, type, root, comm, stream);
}

ncclResult_t pncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, ncclStream_t stream)
{
    return rondoReduceScatter(send, recv, count, type, op, comm, stream);
}

ncclResult_t pncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                            ncclStream_t stream)
{
    return rondoAllGather(send, recv, count, type, comm, stream);
}

ncclResult_t pncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           ncclStream_t stream)
{
    return rondoAllToAll(send, recv, count, type, comm, stream);
}

ncclResult_t pncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                         ncclStream_t stream)
{
    return rondoGather(send, recv, count, type, root, comm, stream);
}

ncclResult_t pncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                          ncclStream_t stream)
{
    return rondoScatter(send, recv, count, type, root, comm, stream);
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm)
{
    return rondoRedOpCreatePreMulSum(op, scalar, type, residence, comm);
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    return rondoRedOpDestroy(op, comm);
}

NCCL_ALIAS(AllReduce);
NCCL_ALIAS(Reduce);
NCCL_ALIAS(Broadcast);
NCCL_ALIAS(Bcast);
NCCL_ALIAS(ReduceScatter);
NCCL_ALIAS(AllGather);
NCCL_ALIAS(AlltoAll);
NCCL_ALIAS(Gather);
NCCL_ALIAS(Scatter);
NCCL_ALIAS(RedOpCreatePreMulSum);
NCCL_ALIAS(RedOpDestroy);
