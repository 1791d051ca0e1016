/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's interface as the drop-in serves it: layouts and numbers of 2.28.9, and what 2.30.7 added. Programs are compiled
 * with NCCL's own header; this one is for the drop-in and its tests, and says what each function does here. Enumerations
 * that are not in it have the values of rondo/rondo.h. Where nothing else is said, a function is Rondo's of that name.
 *
 * Every function is there twice: as pncclX, and as ncclX, which is weak so that a profiler can take its place. */
#ifndef RONDO_NCCL_NCCL_H
#define RONDO_NCCL_NCCL_H

#include "rondo/rondo.h"

#include "nccl/types.h"

#define NCCL_DECLARE(result, name, ...)        \
    RONDO_API result pnccl##name(__VA_ARGS__); \
    RONDO_API result nccl##name(__VA_ARGS__)

/* After the definition of pncclX. */
#define NCCL_ALIAS(name) extern RONDO_API __typeof__(pnccl##name) nccl##name __attribute__((weak, alias("pnccl" #name)))

/* ---- the library ---- */

/* RONDO_NCCL_VERSION, or 22809. */
NCCL_DECLARE(ncclResult_t, GetVersion, int *version);
NCCL_DECLARE(const char *, GetErrorString, ncclResult_t result);
NCCL_DECLARE(const char *, GetLastError, ncclComm_t comm);
/* Do nothing: the log's parameters are read once. */
NCCL_DECLARE(void, ResetDebugInit, void);
RONDO_API void ncclResetDebugInitInternal(void);
RONDO_API void pncclResetDebugInitInternal(void);

/* ---- communicators ---- */

NCCL_DECLARE(ncclResult_t, GetUniqueId, ncclUniqueId *id);
NCCL_DECLARE(ncclResult_t, CommGetUniqueId, ncclComm_t comm, ncclUniqueId *id);
NCCL_DECLARE(ncclResult_t, CommInitRank, ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
NCCL_DECLARE(ncclResult_t, CommInitRankConfig, ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
             ncclConfig_t *config);
/* Joins by the first of the ids. */
NCCL_DECLARE(ncclResult_t, CommInitRankScalable, ncclComm_t *comm, int nranks, int rank, int id_count,
             ncclUniqueId *ids, ncclConfig_t *config);
NCCL_DECLARE(ncclResult_t, CommInitAll, ncclComm_t *comms, int ndev, const int *devlist);
NCCL_DECLARE(ncclResult_t, CommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
NCCL_DECLARE(ncclResult_t, CommShrink, ncclComm_t comm, int *exclude, int exclude_count, ncclComm_t *newcomm,
             ncclConfig_t *config, int flags);
/* Like CommDestroy it waits for the comm's ops, however long they take. A second one is ncclInvalidArgument. */
NCCL_DECLARE(ncclResult_t, CommFinalize, ncclComm_t comm);
NCCL_DECLARE(ncclResult_t, CommDestroy, ncclComm_t comm);
NCCL_DECLARE(ncclResult_t, CommAbort, ncclComm_t comm);
NCCL_DECLARE(ncclResult_t, CommGetAsyncError, ncclComm_t comm, ncclResult_t *error);
NCCL_DECLARE(ncclResult_t, CommCount, ncclComm_t comm, int *count);
NCCL_DECLARE(ncclResult_t, CommCuDevice, ncclComm_t comm, int *device);
NCCL_DECLARE(ncclResult_t, CommUserRank, ncclComm_t comm, int *rank);
/* All memory of a comm is persistent. */
NCCL_DECLARE(ncclResult_t, CommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
/* No device API, no multimem, no GIN. */
NCCL_DECLARE(ncclResult_t, CommQueryProperties, ncclComm_t comm, ncclCommProperties_t *properties);
/* A second one, and a finalize after it, are ncclInvalidArgument; the comm's asynchronous error is ncclSuccess then. Does not go on in
 * a thread: it never gives ncclInProgress. */
NCCL_DECLARE(ncclResult_t, CommRevoke, ncclComm_t comm, int flags);
NCCL_DECLARE(ncclResult_t, CommGrow, ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
             ncclConfig_t *config);
/* Refused with ncclInvalidUsage. */
NCCL_DECLARE(ncclResult_t, CommSuspend, ncclComm_t comm, int flags);
NCCL_DECLARE(ncclResult_t, CommResume, ncclComm_t comm);

/* ---- memory ---- */

NCCL_DECLARE(ncclResult_t, MemAlloc, void **pointer, size_t bytes);
NCCL_DECLARE(ncclResult_t, MemFree, void *pointer);
NCCL_DECLARE(ncclResult_t, CommRegister, ncclComm_t comm, void *buffer, size_t bytes, void **handle);
/* An unknown handle is ncclInvalidUsage. */
NCCL_DECLARE(ncclResult_t, CommDeregister, ncclComm_t comm, void *handle);
/* There are no windows: *window becomes NULL, with success, which is how NCCL says so. */
NCCL_DECLARE(ncclResult_t, CommWindowRegister, ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window,
             int flags);
NCCL_DECLARE(ncclResult_t, CommWindowDeregister, ncclComm_t comm, ncclWindow_t window);
/* Refused with ncclInvalidArgument, as no window is one. */
NCCL_DECLARE(ncclResult_t, WinGetUserPtr, ncclComm_t comm, ncclWindow_t window, void **pointer);

/* ---- collectives and messages ---- */

NCCL_DECLARE(ncclResult_t, RedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t type,
             ncclScalarResidence_t residence, ncclComm_t comm);
NCCL_DECLARE(ncclResult_t, RedOpDestroy, ncclRedOp_t op, ncclComm_t comm);
NCCL_DECLARE(ncclResult_t, AllReduce, const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
             ncclComm_t comm, ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, Reduce, const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
             int root, ncclComm_t comm, ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, Broadcast, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
             ncclComm_t comm, ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, Bcast, void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
             ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, ReduceScatter, const void *send, void *recv, size_t count, ncclDataType_t type,
             ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, AllGather, const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
             ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, AlltoAll, const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
             ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, Gather, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
             ncclComm_t comm, ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, Scatter, const void *send, void *recv, size_t count, ncclDataType_t type, int root,
             ncclComm_t comm, ncclStream_t stream);
/* Of count 0 they pair like others, and the receive waits for the send. */
NCCL_DECLARE(ncclResult_t, Send, const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
             ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, Recv, void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
             ncclStream_t stream);
/* Refused with ncclInvalidUsage. */
NCCL_DECLARE(ncclResult_t, PutSignal, const void *buffer, size_t count, ncclDataType_t type, int peer,
             ncclWindow_t window, size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
             ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, Signal, int peer, int signal, int context, unsigned flags, ncclComm_t comm,
             ncclStream_t stream);
NCCL_DECLARE(ncclResult_t, WaitSignal, int count, ncclWaitSignalDesc_t *list, ncclComm_t comm, ncclStream_t stream);

NCCL_DECLARE(ncclResult_t, GroupStart, void);
NCCL_DECLARE(ncclResult_t, GroupEnd, void);
/* Ends the group without issuing it. What its calls found is returned; the time stays undefined: Rondo has no model of it. */
NCCL_DECLARE(ncclResult_t, GroupSimulateEnd, ncclSimInfo_t *info);

#endif
