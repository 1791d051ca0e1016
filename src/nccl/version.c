/* What the library says of itself and of errors. */
#include "common/env.h"
#include "common/result.h"
#include "nccl/nccl.h"

ncclResult_t pncclGetVersion(int *version)
{
    if (!version)
        return rondo_fail(rondoInvalidArgument, "version is NULL");
    *version = (int)rondo_env()->nccl_version;
    return rondoSuccess;
}

const char *pncclGetErrorString(ncclResult_t result)
{
    return rondoGetErrorString(result);
}

const char *pncclGetLastError(ncclComm_t comm)
{
    return rondoGetLastError(comm);
}

void pncclResetDebugInit(void) {}

void pncclResetDebugInitInternal(void) {}

NCCL_ALIAS(GetVersion);
NCCL_ALIAS(GetErrorString);
NCCL_ALIAS(GetLastError);
NCCL_ALIAS(ResetDebugInit);
NCCL_ALIAS(ResetDebugInitInternal);
