#include "device/cuda_api.h"

#include "common/log.h"
#include "common/result.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct rondo_cuda_api rondo_cuda;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *unusable;
static char missing[128];

/* cuda.h names some functions by macros that add a version; the driver is asked for the plain name. */
static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define X(name) {#name, offsetof(struct rondo_cuda_api, name)},
    RONDO_CUDA_FUNCTIONS(X)
#undef X
};

/* The name without the suffix that a macro of cuda.h may have given it. */
static void plain_name(const char *name, char *plain, size_t room)
{
    snprintf(plain, room, "%s", name);
    char *suffix = strstr(plain, "_v");
    if (suffix)
        *suffix = 0;
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        unusable = "libcuda.so.1 is not there";
        return;
    }
    __typeof__(&cuGetProcAddress) get = (__typeof__(&cuGetProcAddress))dlsym(library, "cuGetProcAddress_v2");
    if (!get) {
        unusable = "the CUDA driver is older than 12.0";
        return;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        char plain[64];
        void *entry = NULL;
        CUdriverProcAddressQueryResult found;
        plain_name(functions[i].name, plain, sizeof plain);
        CUresult error = get(plain, &entry, RONDO_CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &found);
        if (error != CUDA_SUCCESS || !entry) {
            snprintf(missing, sizeof missing, "the CUDA driver has no %s", plain);
            unusable = missing;
            return;
        }
        memcpy((char *)&rondo_cuda + functions[i].offset, &entry, sizeof entry);
    }
    int version = 0, count = 0;
    if (rondo_cuda.cuInit(0) != CUDA_SUCCESS)
        unusable = "cuInit failed: no GPU, or the driver does not work";
    else if (rondo_cuda.cuDriverGetVersion(&version) != CUDA_SUCCESS || version < RONDO_CUDA_VERSION)
        unusable = "the CUDA driver is older than 12.3";
    else if (rondo_cuda.cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0)
        unusable = "there is no GPU";
}

const char *rondo_cuda_load(void)
{
    pthread_once(&once, load);
    return unusable;
}

rondoResult_t rondo_cuda_failed(CUresult error, const char *call)
{
    const char *name = "unknown error", *text = "";
    rondo_cuda.cuGetErrorName(error, &name);
    rondo_cuda.cuGetErrorString(error, &text);
    return rondo_fail(rondoUnhandledCudaError, "%.*s: %s (%s)", (int)strcspn(call, "("), call, name, text);
}
