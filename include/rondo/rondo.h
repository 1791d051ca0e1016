/* SPDX-License-Identifier: Apache-2.0
 *
 * Rondo: stream-ordered collective communication between GPUs, made to be captured into CUDA graphs and replayed.
 *
 * Names, argument order, numeric values and semantics are NCCL's wherever NCCL has the thing. What holds for every
 * function here:
 *  - It returns a rondoResult_t. On anything but rondoSuccess (and rondoInProgress) rondoGetLastError() tells, in the
 *    calling thread, which argument or event was at fault. A call that is refused has enqueued nothing.
 *  - `stream` is a CUDA stream (cudaStream_t, CUstream) of the comm's device, or, on the host device, a stream of
 *    rondo/host.h. NULL is the default stream. An op is ordered after what the stream holds and before what follows.
 *  - Ops may be captured: if the stream is capturing, the op becomes one kernel node of the graph, any number of
 *    replays of which need nothing from the host. Captured ops and eager ops of one comm may run at the same time.
 *    Two graphs that hold ops of the same comm must not run at the same time, unless their ops have lanes of their own:
 *    see rondoCommSetGraphLane.
 *  - All ranks of a comm call the same ops in the same order, counting eager ops and captured ones apart.
 *  - Functions are thread-safe. Two threads may use one comm, but then the program orders their calls.
 */
#ifndef RONDO_RONDO_H
#define RONDO_RONDO_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define RONDO_MAJOR        0
#define RONDO_MINOR        1
#define RONDO_PATCH        0
#define RONDO_VERSION_CODE (RONDO_MAJOR * 10000 + RONDO_MINOR * 100 + RONDO_PATCH)

#if defined(RONDO_BUILDING)
#define RONDO_API __attribute__((visibility("default")))
#else
#define RONDO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* CUDA's stream, or the host device's */

typedef struct rondoComm *rondoComm_t;

#define RONDO_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[RONDO_UNIQUE_ID_BYTES];
} rondoUniqueId;

typedef enum {
    rondoSuccess = 0,
    rondoUnhandledCudaError = 1, /* a call of the CUDA driver failed */
    rondoSystemError = 2,        /* a system call failed: sockets, memory, threads */
    rondoInternalError = 3,      /* a fault of Rondo's own, or memory corruption */
    rondoInvalidArgument = 4,
    rondoInvalidUsage = 5, /* valid arguments, but not in this state */
    rondoRemoteError = 6,  /* another rank died, aborted or left */
    rondoInProgress = 7,
    rondoTimeout = 8, /* a rank did not arrive within the configured time */
    rondoNumResults = 9
} rondoResult_t;

typedef enum {
    rondoInt8 = 0,
    rondoChar = 0,
    rondoUint8 = 1,
    rondoInt32 = 2,
    rondoInt = 2,
    rondoUint32 = 3,
    rondoInt64 = 4,
    rondoUint64 = 5,
    rondoFloat16 = 6,
    rondoHalf = 6,
    rondoFloat32 = 7,
    rondoFloat = 7,
    rondoFloat64 = 8,
    rondoDouble = 8,
    rondoBfloat16 = 9,
    rondoFloat8e4m3 = 10,
    rondoFloat8e5m2 = 11,
    rondoNumTypes = 12
} rondoDataType_t;

/* Integers wrap; rondoAvg is the sum divided by the number of ranks (integers truncate), formed wide enough that 8- to 32-bit
 * integers and 8- and 16-bit floats do not overflow on the way. rondoMax and rondoMin give a number where one rank has NaN
 * and another a number; of -0 and +0 they give the lowest rank's; all ranks get the same bits. Values from rondoNumOps on are
 * operators that rondoRedOpCreatePreMulSum made. */
typedef enum {
    rondoSum = 0,
    rondoProd = 1,
    rondoMax = 2,
    rondoMin = 3,
    rondoAvg = 4,
    rondoNumOps = 5,
    rondoMaxRedOp = INT_MAX
} rondoRedOp_t;

/* Where the scalar of an operator lies. */
typedef enum {
    rondoScalarDevice = 0,       /* in memory that the device can read; read each time an op runs */
    rondoScalarHostImmediate = 1 /* in host memory, read by the call that makes the operator */
} rondoScalarResidence_t;

#define RONDO_SPLIT_NOCOLOR    (-1)

#define RONDO_SHRINK_DEFAULT   0
#define RONDO_SHRINK_ABORT     1

#define RONDO_REVOKE_DEFAULT   0

#define RONDO_MAX_GRAPH_LANES  16
#define RONDO_GRAPH_LANE_DEAL  (-1)

#define RONDO_CONFIG_UNDEF_INT INT_MIN
#define RONDO_CONFIG_MAGIC     0x6f6e6f72u

/* How a comm is made. Start from RONDO_CONFIG_INITIALIZER; a field left undefined takes its RONDO_* parameter from the
 * environment, else its default. `size` and `version` let older and newer callers' structs be read: fields that the
 * caller's struct lacks are undefined, fields that this library does not know are ignored. Fields whose value must be
 * the same on all ranks say so; ranks that disagree all get rondoInvalidArgument. */
typedef struct {
    size_t size;          /* sizeof(rondoConfig_t) of the caller */
    unsigned int magic;   /* RONDO_CONFIG_MAGIC */
    unsigned int version; /* RONDO_VERSION_CODE of the caller */
    int blocking;         /* 1: calls return when done (default). 0: see rondoCommInitRankConfig */
    int minCTAs;          /* fewest thread blocks that an op uses (1). Same on all ranks */
    int maxCTAs;          /* most thread blocks that an op uses (128, host device 2). Same on all ranks */
    int timeoutMs;        /* a kernel that waits this long for a peer ends with rondoTimeout; 0: never (default) */
    int bufferKiB;    /* mailbox memory for lines per lane and half (8192, host device 1024); large works get 3/4 of it
                             besides. Same on all ranks */
    int sharedDevice; /* 1: several ranks may use one GPU (default 0: refused). Same on all ranks */
    const char *commName; /* shown in the log; copied. NULL: none */
    int graphLanes; /* lanes for captured ops (1), up to RONDO_MAX_GRAPH_LANES. Each takes the memory that bufferKiB tells of.
                             Same on all ranks; see rondoCommSetGraphLane */
    int unused; /* not looked at: callers of before ctaPolicy have it behind their last field, holding anything */
    int ctaPolicy; /* RONDO_CTA_POLICY_…, how maxCTAs is chosen where it is not given, and whether copy engines move data; so
                             ranks must not differ in it */
} rondoConfig_t;

/* Values as in NCCL. */
#define RONDO_CTA_POLICY_DEFAULT 0 /* as many blocks as are fastest */
#define RONDO_CTA_POLICY_EFFICIENCY \
    1 /* 16 at most, for programs that compute meanwhile (figures: docs/decisions/0007) */
#define RONDO_CTA_POLICY_ZERO \
    2 /* on GPUs as 1 in this version. On the host device, large all-gathers, all-to-alls, broadcasts and messages are moved by copy \
         engines' stand-ins where the buffers allow (as in rondoCommRegister), by one block that waits for them, and the rest \
         goes as with 1 (docs/decisions/0010). All ranks or none */

#define RONDO_CONFIG_INITIALIZER                                                                                       \
    {                                                                                                                  \
        sizeof(rondoConfig_t), RONDO_CONFIG_MAGIC, RONDO_VERSION_CODE, RONDO_CONFIG_UNDEF_INT, RONDO_CONFIG_UNDEF_INT, \
            RONDO_CONFIG_UNDEF_INT, RONDO_CONFIG_UNDEF_INT, RONDO_CONFIG_UNDEF_INT, RONDO_CONFIG_UNDEF_INT, NULL,      \
            RONDO_CONFIG_UNDEF_INT, RONDO_CONFIG_UNDEF_INT, RONDO_CONFIG_UNDEF_INT                                     \
    }

/* The library's version as RONDO_VERSION_CODE. Never fails but on a NULL pointer. */
RONDO_API rondoResult_t rondoGetVersion(int *version);

/* A short constant text for a result code; never NULL. */
RONDO_API const char *rondoGetErrorString(rondoResult_t result);

/* What went wrong last in the calling thread, readable and specific; "" if nothing did. Valid until the thread's next
 * Rondo call. `comm` is ignored, as NCCL does, and may be NULL. */
RONDO_API const char *rondoGetLastError(rondoComm_t comm);

/* ---- communicators ---- */

/* An id that names one future comm; one process makes it and hands it to all ranks by means of its own. It holds an
 * address of this process and a secret; whoever knows it can join. The calling process must live until all ranks have
 * joined. RONDO_SOCKET_IFNAME chooses the network interface. */
RONDO_API rondoResult_t rondoGetUniqueId(rondoUniqueId *id);

/* Join a comm of `nranks` as `rank`, on the calling thread's current device. Returns when all ranks have joined, or after
 * RONDO_INIT_TIMEOUT_MS. In a group the work happens in rondoGroupEnd, so that one thread can join several ranks; comms
 * that are made in one group come about together or not at all. Must not be called while the calling thread captures.
 * *comm is NULL after an error. While the call waits for other ranks, *comm is a handle that another thread may give to
 * rondoCommAbort, which ends the wait with rondoInvalidUsage; rondoCommGetAsyncError says rondoInProgress of it. */
RONDO_API rondoResult_t rondoCommInitRank(rondoComm_t *comm, int nranks, rondoUniqueId id, int rank);

/* The same with a config; NULL is the default one.
 *
 * A comm with config.blocking 0 is non-blocking. The calls that make it (this one, rondoCommSplit, rondoCommShrink,
 * rondoCommGrow, or the group's end) and its rondoCommFinalize then give rondoInProgress where they would wait, and go on in a thread of Rondo's.
 * *comm is the handle at once, and stays one if the call fails later. rondoCommGetAsyncError says rondoInProgress of it until
 * that is over, then how it went. Meanwhile every other call with this comm is rondoInvalidArgument, but rondoCommAbort, which
 * ends the waiting and frees the comm. A comm whose making has failed is good for rondoCommDestroy or rondoCommAbort only; its
 * calls give that failure. Comms that are made in one group are all blocking or all non-blocking, else it is
 * rondoInvalidArgument; of non-blocking ones, some may come about and others fail. */
RONDO_API rondoResult_t rondoCommInitRankConfig(rondoComm_t *comm, int nranks, rondoUniqueId id, int rank,
                                                rondoConfig_t *config);

/* All ranks in one process and one call: comms[i] is rank i on device devlist[i] (NULL: device i). */
RONDO_API rondoResult_t rondoCommInitAll(rondoComm_t *comms, int ndev, const int *devlist);

/* New comms of the ranks of `comm`, one for each color: of all that give the same color, ranked by key, and by their rank in
 * `comm` where keys are equal. RONDO_SPLIT_NOCOLOR: *newcomm becomes NULL, and there is no waiting. All ranks of `comm` call it,
 * in the same order with other splits, shrinks and grows of it. config NULL: that of `comm`. Waits as rondoCommInitRank does, may
 * be grouped as that may (several splits of one comm and several ranks in one thread too), and must not be called while
 * the calling thread captures. It launches nothing and waits for no ops: those of `comm` go on. The new comm is on the device
 * of `comm` and, once it is made, independent of it; until then a destroyed `comm` fails it.
 * rondoInvalidArgument: color below -1, bad comm, newcomm NULL, bad config. rondoRemoteError: a rank died, left or failed.
 * rondoTimeout: ranks did not call within RONDO_INIT_TIMEOUT_MS. rondoInvalidUsage: ranks call different things. */
RONDO_API rondoResult_t rondoCommSplit(rondoComm_t comm, int color, int key, rondoComm_t *newcomm,
                                       rondoConfig_t *config);

/* A new comm of the ranks of `comm` that are not in the list, in their order. They alone call it, with the same list and flags;
 * otherwise as rondoCommSplit. With RONDO_SHRINK_DEFAULT `comm` must be well, or revoked by all of them, and the call waits until this rank's ops on it
 * have ended, RONDO_INIT_TIMEOUT_MS at most. With RONDO_SHRINK_ABORT it may have failed: its ops on this rank end at once, undone, and `comm` is then
 * good for nothing but its destruction; ranks in the list may be dead or hang. rondoInvalidArgument: the list is NULL or
 * empty, names a rank that is not of `comm` or the caller; unknown flags; ranks give different lists. */
RONDO_API rondoResult_t rondoCommShrink(rondoComm_t comm, int *excludeRanksList, int excludeRanksCount,
                                        rondoComm_t *newcomm, rondoConfig_t *config, int shrinkFlags);

/* An id for rondoCommGrow of `comm`: one of its ranks makes it and hands it to the new ranks. Every call makes another one; it is
 * an id as rondoGetUniqueId's, which do as well, and good for one grow. */
RONDO_API rondoResult_t rondoCommGetUniqueId(rondoComm_t comm, rondoUniqueId *id);

/* A new comm of `nranks` ranks: those of `comm`, which keep their numbers, and new ones behind them. All ranks of `comm` call it, in
 * the same order with splits, shrinks and other grows of it, with `rank` -1 or their own; one of them at least gives the id, the
 * others may give NULL. A new rank gives comm NULL, the id, and its number in the new comm, and joins with its thread's current
 * device. Waits and may be grouped as rondoCommInitRank does and may, and must not be called while the calling thread captures.
 * `comm` stays as it is, its ops go on; it is still to be destroyed. The new comm is independent of it.
 *
 * config NULL: of an old rank that of `comm`, of a new one the default. But what must be the same on all ranks and a new rank leaves
 * undefined, it takes from rank 0. config.blocking is of each rank alone, and of a new one's config only.
 * rondoInvalidArgument: nranks not above that of `comm`, a rank that is out of range or joins twice, ranks that give different
 * ids or numbers, nobody gives an id, newcomm NULL, bad comm or config. rondoRemoteError: a rank died, left or failed, to new ranks
 * also if the old ones do not agree. rondoTimeout: ranks did not come within RONDO_INIT_TIMEOUT_MS, which are named.
 * rondoInvalidUsage: ranks call different things, such as rondoCommInitRank with this id. */
RONDO_API rondoResult_t rondoCommGrow(rondoComm_t comm, int nranks, const rondoUniqueId *id, int rank,
                                      rondoComm_t *newcomm, const rondoConfig_t *config);

RONDO_API rondoResult_t rondoCommCount(rondoComm_t comm, int *count);
RONDO_API rondoResult_t rondoCommDevice(rondoComm_t comm, int *device);
RONDO_API rondoResult_t rondoCommRank(rondoComm_t comm, int *rank);

/* The error that befell the comm on its own (a peer died, a kernel timed out …), rondoSuccess while there is none,
 * rondoInProgress while it is made or, non-blocking, finalized. Does not block and makes no CUDA call, so a watchdog thread may poll it at any time, captures included. */
RONDO_API rondoResult_t rondoCommGetAsyncError(rondoComm_t comm, rondoResult_t *asyncError);

/* No more ops will be issued: waits for those that were (2 s at most) and tells the peers. NULL is fine. Of a non-blocking
 * comm it is rondoInProgress, see rondoCommInitRankConfig; rondoCommDestroy may follow at once and waits for it. */
RONDO_API rondoResult_t rondoCommFinalize(rondoComm_t comm);

/* Ends the comm's ops on this rank, undone, within a second: kernels return, and replays of graphs that hold such ops do nothing but
 * report. It takes no more ops (rondoInvalidUsage), which is its asynchronous error too, whatever befell it before. Peers get
 * rondoRemoteError, and may revoke the comm themselves. It is good for rondoCommDestroy and rondoCommAbort, not for rondoCommFinalize
 * (rondoInvalidUsage), and, once all ranks that take part have revoked it, for splits, shrinks and grows. Any thread may call it, at
 * any time, also after a failure, captures included. A second one is fine and does nothing. It does its work in the call also of a
 * non-blocking comm or in a group. flags must be RONDO_REVOKE_DEFAULT; NULL is fine. Buffers of ops that it ended hold anything; see
 * rondoCommAbort for those of peers. rondoTimeout: kernels do not end; the comm is revoked. */
RONDO_API rondoResult_t rondoCommRevoke(rondoComm_t comm, int flags);

/* Frees the comm; finalizes it first if need be. Returns within 2 s whatever runs. Graphs that hold its ops stay valid
 * objects; replaying one afterwards does nothing but report. If a call of another thread is held up inside the comm, its memory is
 * freed when that is out and a comm is made. NULL is fine. */
RONDO_API rondoResult_t rondoCommDestroy(rondoComm_t comm);

/* Ends what runs, on this rank and on its peers (they get rondoRemoteError), and frees the comm, within 2 s. Any thread
 * may call it while others are inside ops of the same comm on the device. NULL is fine. Peers that are in the middle of a work that goes
 * from buffer to buffer (see rondoCommRegister) end it first, some milliseconds at most: until they have, the memory of its buffers
 * must stay. */
RONDO_API rondoResult_t rondoCommAbort(rondoComm_t comm);

/* Which lane the captured ops of later captures run on: 0 to config.graphLanes - 1. Replays of graphs whose ops are on different
 * lanes may run at the same time, in different order on different ranks; on one lane, they must not overlap. An engine whose graphs of several batch sizes never
 * overlap puts them all on one lane, and gives another to the graphs that run beside them.
 *
 * It holds for captures in which the comm has its first op (a grouped one: its group's end) after the call; a capture stays on
 * its lane to its end, and a body of a conditional node is a capture. All ranks call it alike. With RONDO_GRAPH_LANE_DEAL,
 * which is so at first, captures are dealt out: the n-th one, counted from 0 and from the last call, is on lane n modulo
 * graphLanes; captures that became void count. A capture counts on the ranks that have an op of the comm in it: where some may have none
 * (of messages between others), tell the lane of each. What runs at the same time must fit on the GPU together: two launches do whatever
 * they are, unless RONDO_THREADS is set; for more, lower maxCTAs (docs/decisions/0009). rondoInvalidArgument: no such lane. */
RONDO_API rondoResult_t rondoCommSetGraphLane(rondoComm_t comm, int lane);

/* ---- memory ---- */

/* Zeroed device memory on the calling thread's current device, of a kind that other processes can be given. Any memory is good for ops;
 * large eager ones on this go directly (see rondoCommRegister) without registration. rondoInvalidArgument: ptr is NULL, bytes 0 or beyond all bounds. rondoSystemError,
 * rondoUnhandledCudaError: none to be had; *ptr is then NULL. It belongs to the process, not to a comm. Legal during captures. */
RONDO_API rondoResult_t rondoMemAlloc(void **ptr, size_t bytes);

/* Frees it, from any thread. Ops that use it must have ended. NULL is fine. rondoInvalidArgument: not the start of memory of
 * rondoMemAlloc, or freed before. */
RONDO_API rondoResult_t rondoMemFree(void *ptr);

/* Makes a buffer known to the comm, so that large eager ops on it go directly: kernels load from their peers' buffers and store
 * into them, no mailbox between, on fewer multiprocessors. (Of messages it is the receivers' buffers that count.) They do where the send and receive buffers of all ranks that an op needs are
 * registered, or parts of what is, their memory is of a kind that peers can map (cudaMalloc, rondoMemAlloc; not cudaMallocAsync or
 * other cuMem memory), all are aligned to 16 bytes, and all peers have mapped them, which happens in the background; all ranks go the
 * same way, and results are the same either way. Captured ops need no registration: what their graph holds is mapped as long as it
 * lives; nor does memory of rondoMemAlloc. Never needed otherwise. Buffers may overlap. Deregister, or destroy the comm, before the memory is freed, and not while ops on
 * it are enqueued and have not ended: peers' kernels may be in it; the memory of captured ops must live as long as their graph and its executables. Enqueues nothing; legal
 * during captures. rondoInvalidArgument: comm, buff or handle is NULL, size is 0 or goes beyond the address space. */
RONDO_API rondoResult_t rondoCommRegister(rondoComm_t comm, void *buff, size_t size, void **handle);

/* Also on a comm that has failed or was finalized; destroying the comm does it as well. handle NULL is fine.
 * rondoInvalidArgument: not a handle of this comm, or deregistered before. */
RONDO_API rondoResult_t rondoCommDeregister(rondoComm_t comm, void *handle);

/* ---- ops ----
 *
 * Pointers need the alignment of the type only, and no registration. A count of 0 does nothing. Where a send and a receive
 * buffer overlap in any way but the one that an op names as in place, the op is refused. Reductions are in rank order, 8- and
 * 16-bit floats accumulate in float32: results are bitwise equal on all ranks and from run to run, and do not depend on count.
 * Where ops are grouped, all ranks put the same collectives into the same group (sends and receives are free of this). */

/* recvbuff[i] = reduction over ranks of sendbuff[i], i < count, on every rank. In place: sendbuff == recvbuff. */
RONDO_API rondoResult_t rondoAllReduce(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                                       rondoRedOp_t op, rondoComm_t comm, struct CUstream_st *stream);

/* The same, on rank `root` only; elsewhere recvbuff is not used and may be NULL. In place at the root: sendbuff == recvbuff. */
RONDO_API rondoResult_t rondoReduce(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                                    rondoRedOp_t op, int root, rondoComm_t comm, struct CUstream_st *stream);

/* recvbuff[i] = the root's sendbuff[i], i < count, on every rank. sendbuff is used on the root only. In place:
 * sendbuff == recvbuff. */
RONDO_API rondoResult_t rondoBroadcast(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                                       int root, rondoComm_t comm, struct CUstream_st *stream);
/* rondoBroadcast in place. */
RONDO_API rondoResult_t rondoBcast(void *buff, size_t count, rondoDataType_t datatype, int root, rondoComm_t comm,
                                   struct CUstream_st *stream);

/* recvbuff[r * sendcount + i] = rank r's sendbuff[i], i < sendcount. In place: sendbuff == recvbuff + rank * sendcount. */
RONDO_API rondoResult_t rondoAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, rondoDataType_t datatype,
                                       rondoComm_t comm, struct CUstream_st *stream);

/* recvbuff[i] = reduction over ranks of sendbuff[rank * recvcount + i], i < recvcount. In place:
 * recvbuff == sendbuff + rank * recvcount. */
RONDO_API rondoResult_t rondoReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                           rondoDataType_t datatype, rondoRedOp_t op, rondoComm_t comm,
                                           struct CUstream_st *stream);

/* recvbuff[r * count + i] = rank r's sendbuff[rank * count + i], i < count. In place: sendbuff == recvbuff. */
RONDO_API rondoResult_t rondoAllToAll(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                                      rondoComm_t comm, struct CUstream_st *stream);

/* On the root: recvbuff[r * count + i] = rank r's sendbuff[i], i < count; elsewhere recvbuff is not used. In place at the
 * root: sendbuff == recvbuff + root * count. */
RONDO_API rondoResult_t rondoGather(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                                    int root, rondoComm_t comm, struct CUstream_st *stream);

/* recvbuff[i] = the root's sendbuff[rank * count + i], i < count; sendbuff is used on the root only. In place at the root:
 * recvbuff == sendbuff + root * count. */
RONDO_API rondoResult_t rondoScatter(const void *sendbuff, void *recvbuff, size_t count, rondoDataType_t datatype,
                                     int root, rondoComm_t comm, struct CUstream_st *stream);

/* One message from this rank to `peer`, or to it from `peer`. The n-th send from one rank to another goes with the n-th
 * receive there, eager ops and captured ones counted apart; both name the same number of bytes. Ops of a group progress
 * together, so a pair of ranks that both send and receive must group these (up to 370 / (2 nranks - 1) messages between two ranks:
 * beyond that a group is several launches, one after another, and messages go with the last launch of its collectives). A send to the rank itself and its receive belong
 * to one group. Small messages (up to the FIFO's room, tens of KiB) are sent before they are received. Ranks that send
 * and receive nothing have no part in this. */
RONDO_API rondoResult_t rondoSend(const void *sendbuff, size_t count, rondoDataType_t datatype, int peer,
                                  rondoComm_t comm, struct CUstream_st *stream);
RONDO_API rondoResult_t rondoRecv(void *recvbuff, size_t count, rondoDataType_t datatype, int peer, rondoComm_t comm,
                                  struct CUstream_st *stream);

/* All-to-all with sizes and places of each part, in elements, in arrays of nranks elements that are read by the call.
 * sendcounts[r] here is recvcounts[rank] on rank r. Not in place. */
RONDO_API rondoResult_t rondoAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[],
                                       void *recvbuff, const size_t recvcounts[], const size_t rdispls[],
                                       rondoDataType_t datatype, rondoComm_t comm, struct CUstream_st *stream);

/* recvbuff[displs[r] + i] = rank r's sendbuff[i], i < recvcounts[r]. recvcounts is the same on all ranks, and sendcount is
 * recvcounts[rank]. In place: sendbuff == recvbuff + displs[rank]. */
RONDO_API rondoResult_t rondoAllGatherv(const void *sendbuff, size_t sendcount, void *recvbuff,
                                        const size_t recvcounts[], const size_t displs[], rondoDataType_t datatype,
                                        rondoComm_t comm, struct CUstream_st *stream);

/* recvbuff[i] = reduction over ranks of sendbuff[displs[rank] + i], i < sendcounts[rank]. sendcounts is the same on all ranks,
 * and recvcount is sendcounts[rank]. In place: recvbuff == sendbuff + displs[rank]. */
RONDO_API rondoResult_t rondoReduceScatterv(const void *sendbuff, const size_t sendcounts[], const size_t displs[],
                                            void *recvbuff, size_t recvcount, rondoDataType_t datatype, rondoRedOp_t op,
                                            rondoComm_t comm, struct CUstream_st *stream);

/* What follows in the stream runs once every rank has come to its barrier. */
RONDO_API rondoResult_t rondoBarrier(rondoComm_t comm, struct CUstream_st *stream);

/* An operator of this comm and type: each rank multiplies its input by its scalar (rounded to the type), then they are summed.
 * Destroying it is legal at once after the calls that use it; with rondoScalarDevice the memory must live as long as those ops
 * run or may be replayed. */
RONDO_API rondoResult_t rondoRedOpCreatePreMulSum(rondoRedOp_t *op, void *scalar, rondoDataType_t datatype,
                                                  rondoScalarResidence_t residence, rondoComm_t comm);
RONDO_API rondoResult_t rondoRedOpDestroy(rondoRedOp_t op, rondoComm_t comm);

/* ---- how an op would run ---- */

/* What a comm has chosen for an op. Start from RONDO_CHOICE_INITIALIZER: `size` lets older and newer callers' structs be
 * filled; fields that the caller's struct lacks are left out, fields that this library does not know stay as they are. The
 * texts are constants. */
typedef struct {
    size_t size; /* sizeof(rondoChoice_t) of the caller */
    const char *
        algorithm; /* "one-shot", "two-shot", "ring"; "fifo": made of messages; "tokens": a barrier; "": nothing runs */
    const char *
        protocol; /* what becomes visible whole: "line16" (16 bytes; GPUs), "line8" (8; host device), "bulk" (a block's part of
                              a step); or "". "direct/line16" and its like: from buffer to buffer where all ranks' buffers allow, see
                              rondoCommRegister, and by the latter where they do not. "copy/line16" and its like: the same by
                              copy engines (RONDO_CTA_POLICY_ZERO) */
    const char *kernel; /* as profilers show it, or "" */
    int channels;       /* thread blocks of the launch */
    int threads;        /* of a block */
    size_t steps;       /* fillings of a mailbox half that the exchange takes; 0 of messages, which flow */
    char why[240];      /* for people: the thresholds and settings that decided; "" of messages and barriers */
} rondoChoice_t;

#define RONDO_CHOICE_INITIALIZER                          \
    {                                                     \
        sizeof(rondoChoice_t), NULL, NULL, NULL, 0, 0, 0, \
        {                                                 \
            0                                             \
        }                                                 \
    }

/* How one call of `op` would run on this rank, alone and not in a group; `count` is the call's argument of that name (of
 * all_gather sendcount, of reduce_scatter recvcount). Enqueues nothing, and may be called at any time, also while streams
 * capture. Ops: all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather and scatter (as the root runs
 * them), send, recv, send_recv (one of each, to and from other ranks), all_to_allv and all_gatherv (all parts of `count`
 * elements), barrier (count and datatype are ignored). `redop` matters to reductions only. A count of 0 chooses nothing:
 * the texts are "" and the numbers 0. Other names are refused with rondoInvalidArgument. */
RONDO_API rondoResult_t rondoCommExplain(rondoComm_t comm, const char *op, size_t count, rondoDataType_t datatype,
                                         rondoRedOp_t redop, rondoChoice_t *choice);

/* ---- groups ---- */

/* Calls between Start and End are issued together: they may be of several comms, and small ones share a launch. Groups
 * nest; the outermost End issues. The first error inside is what End returns, and then nothing is issued. Ops of one
 * group have no order among themselves. */
RONDO_API rondoResult_t rondoGroupStart(void);
RONDO_API rondoResult_t rondoGroupEnd(void);

/* ---- graphs ---- */

typedef enum { rondoDescribeText = 0, rondoDescribeJson = 1 } rondoDescribeFormat_t;

/* What a graph holds of Rondo's ops, for people or for programs: node by node, in an order in which they could run, the kernel,
 * the comm with its rank, the lane, and which of the comm's captures it is of (as an error of the comm names graphs), and the ops in it with their sizes and how they run; and totals. `graph` is a cudaGraph_t
 * (CUgraph) or, on the host device, a rondoHostGraph_t, however it came about: captured, cloned, with child graphs, whose nodes
 * are described too. What CUDA's conditional nodes run cannot be seen from them: describe the body graphs themselves. A kernel is
 * told by the code that it runs, so ops of another copy of Rondo (a libnccl.so.2 beside this library) are strange kernels.
 *
 * *bytes: in, the room in `buffer`; out, what the text takes with its 0. buffer NULL: only that. rondoInvalidArgument, and
 * nothing is written to it: there is less room; graph or bytes is NULL; there is no such format. Nobody may change the graph
 * meanwhile. Lanes are numbered as by rondoCommSetGraphLane. Objects of the JSON may get more fields. */
RONDO_API rondoResult_t rondoGraphDescribe(void *graph, rondoDescribeFormat_t format, char *buffer, size_t *bytes);

/* From `bytes` of memory to as many of other. */
typedef struct {
    const void *from;
    void *to;
    size_t bytes;
} rondoMove_t;

/* Points captured ops at other buffers of the same sizes, without a new capture, on all ranks or on some: each buffer of an op in
 * `graph` that lies in the range of a move (the first of those) is from the next launch of `exec` on where the move has it.
 * Launches before it keep theirs. `exec` was instantiated from the graph, or from one that the graph is in; the graph is changed along,
 * so that moves are counted from where buffers are now, and other executables can be brought along by cudaGraphExecUpdate. Graphs
 * as of rondoGraphDescribe: of a conditional node's body on CUDA, give the body.
 *
 * *changed, unless NULL: how many ops have a buffer that moved. rondoInvalidArgument, and nothing is changed: a buffer lies in a range in
 * part; it would not be aligned to the type; it would overlap another one of the same launch as the ops do not allow; a range is
 * NULL or goes beyond the address space; exec is another graph's. rondoUnhandledCudaError: some may have moved, and some not. Not
 * while another thread uses graph or exec. */
RONDO_API rondoResult_t rondoGraphRetarget(void *exec, void *graph, const rondoMove_t *moves, size_t count,
                                           size_t *changed);

/* ---- plans ---- */

/* Ops that are checked and planned once, and run again and again at the cost of their kernel launches. It holds what lets it
 * tell that its comms have ended, and no memory of the user's. */
typedef struct rondoPlan *rondoPlan_t;

/* Calls of ops between Begin and End, in the calling thread, make a plan instead of enqueuing anything; their streams are not used,
 * their buffers must be there when the plan runs. They may be of several comms of one device, and in groups, which begin and end
 * in between. The ops run in their order, those of a group as a group does. Comms cannot be made meanwhile, and plans neither be
 * begun nor launched. rondoInvalidUsage: Begin inside Begin or inside a group. */
RONDO_API rondoResult_t rondoPlanBegin(void);

/* The first error since Begin is what End returns, and *plan is NULL then: there is none. rondoInvalidUsage: no Begin; inside a
 * group, which is to be ended first. */
RONDO_API rondoResult_t rondoPlanEnd(rondoPlan_t *plan);

/* Enqueues, or captures, the ops of the plan, as calls of them on this stream would: eagerly they are ordered like all eager
 * ops, in a capture they become the same kernel nodes, and the graph does not need the plan. Ranks count each launch as its
 * ops, so some may launch a plan where others call the ops. Not inside a group. Several threads may launch one plan.
 * rondoInvalidUsage, and nothing is enqueued: one of the comms was destroyed, aborted or finalized. The error of a comm that
 * has failed is what its ops would give. */
RONDO_API rondoResult_t rondoPlanLaunch(rondoPlan_t plan, struct CUstream_st *stream);

/* Frees the plan, before or after its comms are destroyed; what was launched goes on. NULL is fine. rondoInvalidArgument: not a
 * plan. */
RONDO_API rondoResult_t rondoPlanDestroy(rondoPlan_t plan);

/* ---- the trace ---- */

/* When this rank's launches came, had their first data and were done: those of the comm's last ops, as many of each lane as
 * RONDO_TRACE says, on the device's clock. docs/trace.md tells what exactly the times are. rondoDescribeJson: what chrome://tracing and
 * Perfetto show, and rondo-trace merges with that of the other ranks, and names who was waited for. rondoDescribeText: a summary
 * by op. Launches that have not ended are left out; nothing is waited for, and it is legal during captures and after a failure or a finalize.
 *
 * *bytes, buffer: as of rondoGraphDescribe; but more launches may end between two calls, so have room for some more, or wait for the stream.
 * rondoInvalidUsage: the comm was made without RONDO_TRACE. */
RONDO_API rondoResult_t rondoCommTrace(rondoComm_t comm, rondoDescribeFormat_t format, char *buffer, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
