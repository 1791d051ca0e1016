/* A library with NCCL's API that is Rondo: what rondo-perf --lib can measure on a machine without a GPU. It has neither
 * all-to-all nor gather nor scatter, as NCCL before 2.28. FAKE_NCCL_FAULT makes it do wrong what rondo-perf must notice:
 *   short   the last element of each call is left out
 *   shift   what is sent begins one element late
 *   root    the root is the next rank
 *   spill   a reduce gives its result to all ranks */
#include "rondo/rondo.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* NCCL's header, which has them, is not here */

static int has_fault(const char *name)
{
    const char *fault = getenv("FAKE_NCCL_FAULT");
    return fault && strcmp(fault, name) == 0;
}

static size_t counted(size_t count)
{
    return count - (count && has_fault("short"));
}

static const void *shifted(const void *send, rondoDataType_t type)
{
    static const size_t bytes[rondoNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return (const char *)send + (has_fault("shift") ? bytes[type] : 0);
}

static int rooted(int root, rondoComm_t comm)
{
    int ranks = 1;
    rondoCommCount(comm, &ranks);
    return has_fault("root") ? (root + 1) % ranks : root;
}

rondoResult_t ncclGetVersion(int *version)
{
    *version = 22809;
    return rondoSuccess;
}

rondoResult_t ncclGetUniqueId(rondoUniqueId *id)
{
    return rondoGetUniqueId(id);
}

rondoResult_t ncclCommInitRank(rondoComm_t *comm, int nranks, rondoUniqueId id, int rank)
{
    return rondoCommInitRank(comm, nranks, id, rank);
}

rondoResult_t ncclCommDestroy(rondoComm_t comm)
{
    return rondoCommDestroy(comm);
}

rondoResult_t ncclCommGetAsyncError(rondoComm_t comm, rondoResult_t *error)
{
    return rondoCommGetAsyncError(comm, error);
}

const char *ncclGetErrorString(rondoResult_t result)
{
    return rondoGetErrorString(result);
}

const char *ncclGetLastError(rondoComm_t comm)
{
    return rondoGetLastError(comm);
}

rondoResult_t ncclGroupStart(void)
{
    return rondoGroupStart();
}

rondoResult_t ncclGroupEnd(void)
{
    return rondoGroupEnd();
}

rondoResult_t ncclAllReduce(const void *send, void *recv, size_t count, rondoDataType_t type, rondoRedOp_t op,
                            rondoComm_t comm, struct CUstream_st *stream)
{
    return rondoAllReduce(shifted(send, type), recv, counted(count), type, op, comm, stream);
}

rondoResult_t ncclReduce(const void *send, void *recv, size_t count, rondoDataType_t type, rondoRedOp_t op, int root,
                         rondoComm_t comm, struct CUstream_st *stream)
{
    if (has_fault("spill"))
        return rondoAllReduce(send, recv, count, type, op, comm, stream);
    return rondoReduce(shifted(send, type), recv, counted(count), type, op, rooted(root, comm), comm, stream);
}

rondoResult_t ncclBroadcast(const void *send, void *recv, size_t count, rondoDataType_t type, int root,
                            rondoComm_t comm, struct CUstream_st *stream)
{
    return rondoBroadcast(shifted(send, type), recv, counted(count), type, rooted(root, comm), comm, stream);
}

rondoResult_t ncclAllGather(const void *send, void *recv, size_t count, rondoDataType_t type, rondoComm_t comm,
                            struct CUstream_st *stream)
{
    return rondoAllGather(shifted(send, type), recv, counted(count), type, comm, stream);
}

rondoResult_t ncclReduceScatter(const void *send, void *recv, size_t count, rondoDataType_t type, rondoRedOp_t op,
                                rondoComm_t comm, struct CUstream_st *stream)
{
    return rondoReduceScatter(shifted(send, type), recv, counted(count), type, op, comm, stream);
}

rondoResult_t ncclSend(const void *send, size_t count, rondoDataType_t type, int peer, rondoComm_t comm,
                       struct CUstream_st *stream)
{
    return rondoSend(shifted(send, type), counted(count), type, peer, comm, stream);
}

rondoResult_t ncclRecv(void *recv, size_t count, rondoDataType_t type, int peer, rondoComm_t comm,
                       struct CUstream_st *stream)
{
    return rondoRecv(recv, counted(count), type, peer, comm, stream);
}
