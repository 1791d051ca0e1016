/* The cuda row: copy engines. A copier is a stream of its own, with events that say how far it is. */
#include "device/cuda_device.h"

#include "common/clock.h"
#include "common/result.h"

#include <stdlib.h>

struct rondo_copier {
    CUstream stream;
    CUevent events[RONDO_COPIER_MARKS]; /* of mark m: m % RONDO_COPIER_MARKS */
    uint64_t made, passed;              /* marks */
};

static rondoResult_t open_copier(struct rondo_copier *copier)
{
    RONDO_CU(cuStreamCreateWithPriority(&copier->stream, CU_STREAM_NON_BLOCKING, -5));
    for (int i = 0; i < RONDO_COPIER_MARKS; i++)
        RONDO_CU(cuEventCreate(&copier->events[i], CU_EVENT_DISABLE_TIMING));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_copier_create(struct rondo_device *device, struct rondo_copier **copier)
{
    struct rondo_cuda_scope scope;
    *copier = calloc(1, sizeof **copier);
    if (!*copier)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = rondo_cuda_scope_open(device, &scope);
    if (result == rondoSuccess) {
        result = open_copier(*copier);
        rondo_cuda_scope_close(&scope);
    }
    if (result != rondoSuccess) {
        rondo_cuda_copier_destroy(device, *copier);
        *copier = NULL;
    }
    return result;
}

static void drain(const struct rondo_copier *copier)
{
    const uint64_t until = rondo_now_ns() + RONDO_COPIER_GRACE_MS * 1000000ull;
    while (rondo_cuda.cuStreamQuery(copier->stream) == CUDA_ERROR_NOT_READY && rondo_now_ns() < until)
        rondo_sleep_ns(20000);
}

void rondo_cuda_copier_destroy(struct rondo_device *device, struct rondo_copier *copier)
{
    struct rondo_cuda_scope scope;
    if (copier && rondo_cuda_scope_open(device, &scope) == rondoSuccess) {
        if (copier->stream) {
            drain(copier);
            rondo_cuda.cuStreamDestroy(copier->stream); /* does not wait */
        }
        for (int i = 0; i < RONDO_COPIER_MARKS; i++)
            if (copier->events[i])
                rondo_cuda.cuEventDestroy(copier->events[i]);
        rondo_cuda_scope_close(&scope);
    }
    free(copier);
}

/* Copies are made by threads of our own, whose calls no capture of the user's is to mind. */
static rondoResult_t relax(void)
{
    static _Thread_local bool relaxed;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!relaxed)
        RONDO_CU(cuThreadExchangeStreamCaptureMode(&mode));
    relaxed = true;
    return rondoSuccess;
}

rondoResult_t rondo_cuda_copier_copy(struct rondo_copier *copier, void *to, const void *from, size_t bytes)
{
    RONDO_TRY(relax());
    RONDO_CU(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, copier->stream));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_copier_mark(struct rondo_copier *copier, uint64_t *mark)
{
    *mark = ++copier->made;
    RONDO_CU(cuEventRecord(copier->events[*mark % RONDO_COPIER_MARKS], copier->stream));
    return rondoSuccess;
}

rondoResult_t rondo_cuda_copier_passed(struct rondo_copier *copier, uint64_t *mark)
{
    while (copier->passed < copier->made) {
        const CUresult error = rondo_cuda.cuEventQuery(copier->events[(copier->passed + 1) % RONDO_COPIER_MARKS]);
        if (error == CUDA_ERROR_NOT_READY)
            break;
        if (error != CUDA_SUCCESS)
            return rondo_cuda_failed(error, "cuEventQuery");
        copier->passed++;
    }
    *mark = copier->passed;
    return rondoSuccess;
}
