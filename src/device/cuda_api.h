/* The CUDA driver, found at run time: the library links nothing of CUDA's and loads on machines that have none. Only the
 * src/device/cuda*.c files include this. */
#ifndef RONDO_DEVICE_CUDA_API_H
#define RONDO_DEVICE_CUDA_API_H

#include "rondo/rondo.h"

#include <cuda.h>

/* Entry points are asked for in the version of the oldest driver that will do; cuda.h's names for the functions that are
 * listed here have had the same signatures since. */
enum { RONDO_CUDA_VERSION = 12030 };

#define RONDO_CUDA_FUNCTIONS(X)          \
    X(cuInit)                            \
    X(cuGetErrorName)                    \
    X(cuGetErrorString)                  \
    X(cuDriverGetVersion)                \
    X(cuDeviceGet)                       \
    X(cuDeviceGetCount)                  \
    X(cuDeviceGetName)                   \
    X(cuDeviceGetUuid)                   \
    X(cuDeviceGetPCIBusId)               \
    X(cuDeviceGetAttribute)              \
    X(cuDeviceCanAccessPeer)             \
    X(cuDeviceGetP2PAttribute)           \
    X(cuDevicePrimaryCtxRetain)          \
    X(cuDevicePrimaryCtxRelease)         \
    X(cuCtxGetCurrent)                   \
    X(cuCtxSetCurrent)                   \
    X(cuCtxGetDevice)                    \
    X(cuCtxEnablePeerAccess)             \
    X(cuThreadExchangeStreamCaptureMode) \
    X(cuMemAlloc)                        \
    X(cuMemFree)                         \
    X(cuMemHostAlloc)                    \
    X(cuMemHostGetDevicePointer)         \
    X(cuMemFreeHost)                     \
    X(cuMemHostRegister)                 \
    X(cuMemHostUnregister)               \
    X(cuMemcpyAsync)                     \
    X(cuMemcpyHtoDAsync)                 \
    X(cuMemcpyDtoHAsync)                 \
    X(cuMemsetD32Async)                  \
    X(cuMemsetD2D32Async)                \
    X(cuPointerGetAttribute)             \
    X(cuMemGetAllocationGranularity)     \
    X(cuMemCreate)                       \
    X(cuMemRelease)                      \
    X(cuMemAddressReserve)               \
    X(cuMemAddressFree)                  \
    X(cuMemMap)                          \
    X(cuMemUnmap)                        \
    X(cuMemSetAccess)                    \
    X(cuMemExportToShareableHandle)      \
    X(cuMemImportFromShareableHandle)    \
    X(cuIpcGetMemHandle)                 \
    X(cuIpcOpenMemHandle)                \
    X(cuIpcCloseMemHandle)               \
    X(cuStreamCreateWithPriority)        \
    X(cuStreamDestroy)                   \
    X(cuStreamSynchronize)               \
    X(cuStreamQuery)                     \
    X(cuStreamGetId)                     \
    X(cuStreamGetCaptureInfo)            \
    X(cuStreamUpdateCaptureDependencies) \
    X(cuStreamWaitEvent)                 \
    X(cuEventCreate)                     \
    X(cuEventDestroy)                    \
    X(cuEventRecord)                     \
    X(cuEventQuery)                      \
    X(cuGraphGetNodes)                   \
    X(cuGraphNodeGetType)                \
    X(cuGraphKernelNodeGetParams)        \
    X(cuGraphNodeGetDependencies)        \
    X(cuGraphGetEdges)                   \
    X(cuGraphChildGraphNodeGetGraph)     \
    X(cuGraphKernelNodeSetParams)        \
    X(cuGraphExecKernelNodeSetParams)    \
    X(cuFuncGetName)                     \
    X(cuKernelGetName)                   \
    X(cuUserObjectCreate)                \
    X(cuGraphRetainUserObject)           \
    X(cuLibraryLoadData)                 \
    X(cuLibraryGetKernel)                \
    X(cuKernelGetFunction)               \
    X(cuLaunchKernelEx)

struct rondo_cuda_api {
#define X(name) __typeof__(&name) name;
    RONDO_CUDA_FUNCTIONS(X)
#undef X
};

/* The entry points. Valid once rondo_cuda_load has given NULL. */
extern struct rondo_cuda_api rondo_cuda;

/* Loads and initializes the driver, once per process. NULL, or a constant text that says why there is none. */
const char *rondo_cuda_load(void);

/* Says that a driver call failed. */
rondoResult_t rondo_cuda_failed(CUresult error, const char *call);

#define RONDO_CU(call)                               \
    do {                                             \
        CUresult error_ = rondo_cuda.call;           \
        if (error_ != CUDA_SUCCESS)                  \
            return rondo_cuda_failed(error_, #call); \
    } while (0)

#endif
