/* SPDX-License-Identifier: Apache-2.0
 *
 * The host device: streams, events, capture and graphs on CPUs, so that programs that use Rondo run, and can be tested
 * and debugged, on machines without a GPU. RONDO_DEVICE=host chooses it; it is also what is used where no GPU is found.
 *
 * Semantics are CUDA's: work on a stream runs in order and asynchronously to the caller; NULL is the default stream of
 * the thread's current device, which here does not synchronize with other streams; capture turns the work into graph
 * nodes instead of running it; a graph's nodes run when what they depend on is done. Any memory of the process is
 * "device memory". All calls are thread-safe; a handle must not be used by others while it is destroyed. A child that
 * was forked has none of its parent's streams, events and graphs, and can make its own.
 *
 * Errors are Rondo's result codes, and rondoGetLastError() says more. None of these needs a GPU, or may be given CUDA's
 * handles. A handle that is not one is rondoInvalidArgument where that can be seen.
 */
#ifndef RONDO_HOST_H
#define RONDO_HOST_H

#include "rondo/rondo.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *rondoHostStream_t;
typedef struct rondoHostEvent *rondoHostEvent_t;
typedef struct rondoHostGraph *rondoHostGraph_t;
typedef struct rondoHostGraphExec *rondoHostGraphExec_t;
typedef struct rondoHostNode *rondoHostNode_t;
typedef unsigned long long rondoHostConditional_t; /* a value that decides what a conditional node runs; 0 is none */

typedef enum {
    rondoHostCaptureGlobal = 0, /* as cudaStreamCaptureMode; here all three allow every call */
    rondoHostCaptureThreadLocal = 1,
    rondoHostCaptureRelaxed = 2
} rondoHostCaptureMode_t;

/* What a node is; CUDA's numbers. What rondoHostLaunch adds may stand wherever a kernel may. */
typedef enum {
    rondoHostNodeKernel = 0, /* a launch of Rondo's */
    rondoHostNodeMemcpy = 1,
    rondoHostNodeMemset = 2,
    rondoHostNodeHost = 3, /* of rondoHostLaunch */
    rondoHostNodeGraph = 4,
    rondoHostNodeConditional = 13
} rondoHostNodeType_t;

typedef enum { rondoHostIf = 0, rondoHostWhile = 1, rondoHostSwitch = 2 } rondoHostConditionalType_t;

/* The calling thread's current device (0 at first): any number >= 0; each number is a device of its own. */
RONDO_API rondoResult_t rondoHostSetDevice(int device);
RONDO_API rondoResult_t rondoHostGetDevice(int *device);

/* Memory aligned to 256 bytes, uninitialized. Free takes NULL. */
RONDO_API rondoResult_t rondoHostMalloc(void **pointer, size_t bytes);
RONDO_API rondoResult_t rondoHostFree(void *pointer);

/* A stream is one worker thread, and more for launches of several blocks. Destroy returns at once; what was enqueued
 * still runs. A capture that the stream takes part in is void then, and over if it began on it. */
RONDO_API rondoResult_t rondoHostStreamCreate(rondoHostStream_t *stream);
RONDO_API rondoResult_t rondoHostStreamDestroy(rondoHostStream_t stream);
/* Waits until all that was enqueued before the call has run. InvalidUsage while the stream captures, and the capture is
 * void then; the same goes for Query. */
RONDO_API rondoResult_t rondoHostStreamSynchronize(rondoHostStream_t stream);
/* rondoSuccess if all has run, else rondoInProgress. */
RONDO_API rondoResult_t rondoHostStreamQuery(rondoHostStream_t stream);

/* Enqueues (or captures) a copy, a fill with a byte, a call of function(argument) on the stream's worker. */
RONDO_API rondoResult_t rondoHostMemcpyAsync(void *to, const void *from, size_t bytes, rondoHostStream_t stream);
RONDO_API rondoResult_t rondoHostMemsetAsync(void *to, int byte, size_t bytes, rondoHostStream_t stream);
RONDO_API rondoResult_t rondoHostLaunch(void (*function)(void *), void *argument, rondoHostStream_t stream);

/* Record marks the stream's end as of now. A wait is for the last record as of now, whatever is recorded later; for an
 * event that was never recorded it does nothing. During capture, record and wait fork the capture to other streams and
 * join them again, as in CUDA. Synchronize, Query and Elapsed are InvalidUsage for an event that was last recorded in a
 * capture. Elapsed: milliseconds between two events that have both happened (InvalidUsage else). */
RONDO_API rondoResult_t rondoHostEventCreate(rondoHostEvent_t *event);
RONDO_API rondoResult_t rondoHostEventDestroy(rondoHostEvent_t event);
RONDO_API rondoResult_t rondoHostEventRecord(rondoHostEvent_t event, rondoHostStream_t stream);
RONDO_API rondoResult_t rondoHostEventSynchronize(rondoHostEvent_t event);
RONDO_API rondoResult_t rondoHostEventQuery(rondoHostEvent_t event);
RONDO_API rondoResult_t rondoHostEventElapsed(float *milliseconds, rondoHostEvent_t from, rondoHostEvent_t to);
RONDO_API rondoResult_t rondoHostStreamWaitEvent(rondoHostStream_t stream, rondoHostEvent_t event);

/* EndCapture gives the graph, or InvalidUsage and NULL if a forked stream was not joined again or the capture was made
 * void by an error. Either way all its streams are usable again. Only the stream that began may end (InvalidUsage else,
 * and the capture goes on). */
RONDO_API rondoResult_t rondoHostStreamBeginCapture(rondoHostStream_t stream, rondoHostCaptureMode_t mode);
RONDO_API rondoResult_t rondoHostStreamEndCapture(rondoHostStream_t stream, rondoHostGraph_t *graph);
/* Whether the stream is capturing (1) or not (0). */
RONDO_API rondoResult_t rondoHostStreamIsCapturing(rondoHostStream_t stream, int *capturing);

/* The graph that the stream's capture makes; InvalidUsage if it does not capture. It may be used until the capture ends. */
RONDO_API rondoResult_t rondoHostStreamGetCaptureGraph(rondoHostStream_t stream, rondoHostGraph_t *graph);

/* ---- graphs of several parts ---- */

/* A graph without nodes; captures may add some. */
RONDO_API rondoResult_t rondoHostGraphCreate(rondoHostGraph_t *graph);
/* The capture's nodes go into `graph`, which may have nodes: the first ones depend on `dependencies`, `count` nodes of it.
 * EndCapture gives `graph`, and makes or destroys none; what a void capture has added stays. */
RONDO_API rondoResult_t rondoHostStreamBeginCaptureToGraph(rondoHostStream_t stream, rondoHostGraph_t graph,
                                                           const rondoHostNode_t *dependencies, size_t count,
                                                           rondoHostCaptureMode_t mode);
/* Adds a node that runs a copy of `child`, made now. InvalidUsage if that has conditional nodes, or the stream does not capture. */
RONDO_API rondoResult_t rondoHostStreamAddGraph(rondoHostStream_t stream, rondoHostGraph_t child);

/* A value for one conditional node of `graph`, or of a body in it, which is `value` whenever a launch of the whole graph begins
 * (as with cudaGraphCondAssignDefault). Each executable has its own. */
RONDO_API rondoResult_t rondoHostConditionalCreate(rondoHostConditional_t *handle, rondoHostGraph_t graph,
                                                   unsigned value);
/* Sets it for the launch under way. For functions of rondoHostLaunch that this launch runs, on the thread that calls them;
 * InvalidUsage elsewhere. A node sees what those before it have set. */
RONDO_API rondoResult_t rondoHostSetConditional(rondoHostConditional_t handle, unsigned value);
/* Adds a conditional node to the stream's capture, and gives its bodies: `count` empty graphs for captures to fill, which
 * belong to the node. If: runs bodies[0] if the value is not 0, else bodies[1], if there are 2. While: runs bodies[0] again and
 * again while the value is not 0. Switch: runs the body with the value's number, if there is one. Bodies may have conditional
 * nodes too. */
RONDO_API rondoResult_t rondoHostStreamAddConditional(rondoHostStream_t stream, rondoHostConditional_t handle,
                                                      rondoHostConditionalType_t type, rondoHostGraph_t *bodies,
                                                      unsigned count);

/* The graph's nodes, in an order in which they could run, and the edges between them. *count in: room in the arrays,
 * out: how many there are (arrays may be NULL). */
RONDO_API rondoResult_t rondoHostGraphGetNodes(rondoHostGraph_t graph, rondoHostNode_t *nodes, size_t *count);
RONDO_API rondoResult_t rondoHostGraphGetEdges(rondoHostGraph_t graph, rondoHostNode_t *from, rondoHostNode_t *to,
                                               size_t *count);

RONDO_API rondoResult_t rondoHostNodeGetType(rondoHostNode_t node, rondoHostNodeType_t *type);
/* The graph of a child graph's node (number 0), or a conditional node's body. It belongs to the node. */
RONDO_API rondoResult_t rondoHostNodeGetGraph(rondoHostNode_t node, unsigned number, rondoHostGraph_t *graph);

/* A copy of the graph. InvalidUsage if it has conditional nodes. */
RONDO_API rondoResult_t rondoHostGraphClone(rondoHostGraph_t *clone, rondoHostGraph_t graph);

/* An executable copy of the graph; several may be made (CUDA: only one at a time of a graph with conditional nodes), and outlive
 * the graph. Launching enqueues one run (InvalidUsage
 * into a capture). Runs of the same executable do not overlap: they happen in the order of their launches, also on
 * different streams. Nodes that do not depend on each other run at the same time. Destroying an executable that runs is
 * deferred until it has run. */
RONDO_API rondoResult_t rondoHostGraphInstantiate(rondoHostGraphExec_t *exec, rondoHostGraph_t graph);
RONDO_API rondoResult_t rondoHostGraphLaunch(rondoHostGraphExec_t exec, rondoHostStream_t stream);
/* Later launches run what `graph` has: the same nodes in the same order with the same edges, but other buffers, sizes or
 * functions. InvalidUsage if it is of another shape; the executable is as it was then. */
RONDO_API rondoResult_t rondoHostGraphExecUpdate(rondoHostGraphExec_t exec, rondoHostGraph_t graph);
RONDO_API rondoResult_t rondoHostGraphExecDestroy(rondoHostGraphExec_t exec);
/* Captures into the graph are void then. InvalidUsage if it belongs to a node. */
RONDO_API rondoResult_t rondoHostGraphDestroy(rondoHostGraph_t graph);

#ifdef __cplusplus
}
#endif

#endif
