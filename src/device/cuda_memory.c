/* The cuda row: memory. Shareable memory is cuMem memory with a POSIX descriptor as its handle; what peers in this process
 * use directly must be cuMem memory too where other processes map it, so access is granted per device. */
#include "device/cuda_device.h"

#include "common/result.h"
#include "device/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* mem->private_: */
enum {
    HANDLE,
    MAPPED,     /* bytes, of cuMem memory */
    DESCRIPTOR, /* host memory: of the memfd, plus one */
};

static CUmemAllocationProp properties(CUdevice device)
{
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = device;
    return p;
}

static rondoResult_t grant(CUdevice device, void *address, size_t mapped)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    RONDO_CU(cuMemSetAccess((CUdeviceptr)(uintptr_t)address, mapped, &access, 1));
    return rondoSuccess;
}

/* Gives physical memory an address that the device may use. Takes over the handle, also on an error. */
static rondoResult_t map(struct rondo_device *device, CUmemGenericAllocationHandle handle, size_t mapped,
                         struct rondo_mem *mem)
{
    CUdeviceptr address = 0;
    mem->private_[HANDLE] = handle;
    CUresult error = rondo_cuda.cuMemAddressReserve(&address, mapped, 0, 0, 0);
    if (error != CUDA_SUCCESS) {
        rondo_cuda.cuMemRelease(handle);
        memset(mem, 0, sizeof *mem);
        return rondo_cuda_failed(error, "cuMemAddressReserve");
    }
    error = rondo_cuda.cuMemMap(address, mapped, 0, handle, 0);
    if (error != CUDA_SUCCESS) {
        rondo_cuda.cuMemAddressFree(address, mapped);
        rondo_cuda.cuMemRelease(handle);
        memset(mem, 0, sizeof *mem);
        return rondo_cuda_failed(error, "cuMemMap");
    }
    mem->address = (void *)(uintptr_t)address;
    mem->private_[MAPPED] = mapped;
    rondoResult_t result = grant(device->device, mem->address, mapped);
    if (result != rondoSuccess)
        rondo_cuda_mem_free(device, mem);
    return result;
}

static rondoResult_t alloc_shareable(struct rondo_device *device, size_t bytes, struct rondo_mem *mem)
{
    const CUmemAllocationProp p = properties(device->device);
    CUmemGenericAllocationHandle handle;
    size_t grain;
    RONDO_CU(cuMemGetAllocationGranularity(&grain, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    const size_t mapped = (bytes + grain - 1) / grain * grain;
    RONDO_CU(cuMemCreate(&handle, mapped, &p, 0));
    return map(device, handle, mapped, mem);
}

static rondoResult_t alloc_plain(size_t bytes, struct rondo_mem *mem)
{
    CUdeviceptr address;
    RONDO_CU(cuMemAlloc(&address, bytes));
    mem->address = (void *)(uintptr_t)address;
    return rondoSuccess;
}

/* Mapped host memory becomes the device's too. On an error it is unmapped. */
static rondoResult_t pin(struct rondo_device *device, struct rondo_mem *mem)
{
    rondoResult_t result = rondo_cuda_host_map(device, mem->host, mem->bytes, &mem->address);
    if (result != rondoSuccess)
        munmap(mem->host, mem->bytes);
    return result;
}

static rondoResult_t alloc_host(struct rondo_device *device, struct rondo_mem *mem)
{
    int fd;
    RONDO_TRY(rondo_memfd_create(mem->bytes, device->info.numa_node, &mem->host, &fd));
    rondoResult_t result = pin(device, mem);
    if (result == rondoSuccess)
        mem->private_[DESCRIPTOR] = (uint64_t)(fd + 1);
    else
        close(fd);
    return result;
}

static void free_host(struct rondo_mem *mem)
{
    rondo_cuda.cuMemHostUnregister(mem->host);
    munmap(mem->host, mem->bytes);
    if (mem->private_[DESCRIPTOR])
        close((int)mem->private_[DESCRIPTOR] - 1);
}

rondoResult_t rondo_cuda_mem_alloc(struct rondo_device *device, size_t bytes, enum rondo_mem_kind kind,
                                   struct rondo_mem *mem)
{
    struct rondo_cuda_scope scope;
    memset(mem, 0, sizeof *mem);
    mem->bytes = (bytes + 3) / 4 * 4;
    mem->kind = kind;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    rondoResult_t result = kind == RONDO_MEM_SHAREABLE ? alloc_shareable(device, mem->bytes, mem)
                           : kind == RONDO_MEM_HOST    ? alloc_host(device, mem)
                                                       : alloc_plain(mem->bytes, mem);
    rondo_cuda_scope_close(&scope);
    if (result != rondoSuccess) {
        memset(mem, 0, sizeof *mem);
        return result;
    }
    if (kind == RONDO_MEM_HOST)
        return rondoSuccess; /* zeroed as it came */
    result = rondo_cuda_fill(device, mem->address, 4, 0, mem->bytes / 4);
    if (result != rondoSuccess)
        rondo_cuda_mem_free(device, mem);
    return result;
}

void rondo_cuda_mem_free(struct rondo_device *device, struct rondo_mem *mem)
{
    struct rondo_cuda_scope scope;
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)mem->address;
    if (address && rondo_cuda_scope_open(device, &scope) == rondoSuccess) {
        if (mem->kind == RONDO_MEM_HOST) {
            free_host(mem);
        } else if (mem->private_[MAPPED]) {
            rondo_cuda.cuMemUnmap(address, mem->private_[MAPPED]);
            rondo_cuda.cuMemAddressFree(address, mem->private_[MAPPED]);
            rondo_cuda.cuMemRelease(mem->private_[HANDLE]);
        } else if (mem->imported) {
            rondo_cuda.cuIpcCloseMemHandle(address);
        } else {
            rondo_cuda.cuMemFree(address);
        }
        rondo_cuda_scope_close(&scope);
    }
    memset(mem, 0, sizeof *mem);
}

rondoResult_t rondo_cuda_mem_export(struct rondo_device *device, const struct rondo_mem *mem,
                                    struct rondo_mem_handle *handle)
{
    struct rondo_cuda_scope scope;
    CUipcMemHandle legacy;
    CUresult error = CUDA_ERROR_NOT_SUPPORTED;
    memset(handle, 0, sizeof *handle);
    handle->fd = -1;
    if (mem->kind == RONDO_MEM_HOST) {
        handle->fd = fcntl((int)mem->private_[DESCRIPTOR] - 1, F_DUPFD_CLOEXEC, 0);
        return handle->fd < 0 ? rondo_fail(rondoSystemError, "fcntl: %s", strerror(errno)) : rondoSuccess;
    }
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    if (mem->kind == RONDO_MEM_SHAREABLE) {
        error = rondo_cuda.cuMemExportToShareableHandle(&handle->fd, mem->private_[HANDLE],
                                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    } else if (mem->kind == RONDO_MEM_LEGACY) {
        _Static_assert(sizeof legacy <= sizeof handle->bytes, "a legacy handle fits");
        error = rondo_cuda.cuIpcGetMemHandle(&legacy, (CUdeviceptr)(uintptr_t)mem->address);
        memcpy(handle->bytes, &legacy, sizeof legacy);
    }
    rondo_cuda_scope_close(&scope);
    return error == CUDA_SUCCESS ? rondoSuccess : rondo_cuda_failed(error, "exporting device memory");
}

static rondoResult_t import_shareable(struct rondo_device *device, const struct rondo_mem_handle *handle, size_t bytes,
                                      struct rondo_mem *mem)
{
    const CUmemAllocationProp p = properties(device->device);
    CUmemGenericAllocationHandle memory;
    size_t grain;
    RONDO_CU(cuMemGetAllocationGranularity(&grain, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    RONDO_CU(cuMemImportFromShareableHandle(&memory, (void *)(uintptr_t)handle->fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return map(device, memory, (bytes + grain - 1) / grain * grain, mem);
}

static rondoResult_t import_host(struct rondo_device *device, const struct rondo_mem_handle *handle, size_t bytes,
                                 struct rondo_mem *mem)
{
    mem->bytes = bytes;
    RONDO_TRY(rondo_memfd_map(handle->fd, bytes, &mem->host));
    return pin(device, mem);
}

static rondoResult_t import_legacy(const struct rondo_mem_handle *handle, struct rondo_mem *mem)
{
    CUipcMemHandle legacy;
    CUdeviceptr address;
    memcpy(&legacy, handle->bytes, sizeof legacy);
    RONDO_CU(cuIpcOpenMemHandle(&address, legacy, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    mem->address = (void *)(uintptr_t)address;
    return rondoSuccess;
}

rondoResult_t rondo_cuda_mem_import(struct rondo_device *device, const struct rondo_mem_handle *handle, size_t bytes,
                                    enum rondo_mem_kind kind, struct rondo_mem *mem)
{
    struct rondo_cuda_scope scope;
    memset(mem, 0, sizeof *mem);
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    rondoResult_t result = kind == RONDO_MEM_SHAREABLE ? import_shareable(device, handle, bytes, mem)
                           : kind == RONDO_MEM_LEGACY  ? import_legacy(handle, mem)
                           : kind == RONDO_MEM_HOST    ? import_host(device, handle, bytes, mem)
                                                       : rondo_fail(rondoInternalError, "private memory was offered");
    rondo_cuda_scope_close(&scope);
    mem->bytes = bytes;
    mem->kind = kind;
    mem->imported = true;
    if (result != rondoSuccess)
        memset(mem, 0, sizeof *mem);
    return result;
}

static rondoResult_t attach(struct rondo_device *device, struct rondo_device *owner, const struct rondo_mem *mem)
{
    int can = 0;
    RONDO_CU(cuDeviceCanAccessPeer(&can, device->device, owner->device));
    if (!can)
        return rondo_fail(rondoSystemError, "GPU %d cannot access GPU %d", device->ordinal, owner->ordinal);
    if (mem->private_[MAPPED])
        return grant(device->device, mem->address, mem->private_[MAPPED]);
    CUresult error = rondo_cuda.cuCtxEnablePeerAccess(owner->context, 0);
    if (error != CUDA_SUCCESS && error != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        return rondo_cuda_failed(error, "cuCtxEnablePeerAccess");
    return rondoSuccess;
}

rondoResult_t rondo_cuda_mem_attach(struct rondo_device *device, struct rondo_device *owner,
                                    const struct rondo_mem *mem)
{
    struct rondo_cuda_scope scope;
    if (device->device == owner->device || mem->kind == RONDO_MEM_HOST)
        return rondoSuccess;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    rondoResult_t result = attach(device, owner, mem);
    rondo_cuda_scope_close(&scope);
    return result;
}

rondoResult_t rondo_cuda_mem_attach_all(struct rondo_device *device, const struct rondo_mem *mem)
{
    int count;
    if (!mem->private_[MAPPED])
        return rondoSuccess; /* cudaMalloc's kind: for the user to enable, as ever */
    RONDO_CU(cuDeviceGetCount(&count));
    for (int i = 0; i < count; i++) {
        CUdevice other;
        int can = 0;
        RONDO_CU(cuDeviceGet(&other, i));
        if (other != device->device)
            RONDO_CU(cuDeviceCanAccessPeer(&can, other, device->device));
        if (can)
            RONDO_TRY(grant(other, mem->address, mem->private_[MAPPED]));
    }
    return rondoSuccess;
}

/* cudaMalloc's memory can be mapped by others by legacy handles. Of cuMem memory that is not ours nothing is known, and stream-ordered
 * memory's pools are the user's. */
rondoResult_t rondo_cuda_mem_range(struct rondo_device *device, const void *pointer, size_t bytes,
                                   struct rondo_range *range)
{
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    CUdeviceptr start = 0;
    size_t size = 0;
    unsigned long long id = 0;
    int capable = 0, ordinal = -1;
    if (rondo_user_memory_find(pointer, range))
        return rondoSuccess;
    RONDO_CU(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
    RONDO_CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    if (!capable || ordinal != device->ordinal)
        return rondo_fail(rondoInvalidArgument, "%p (%zu bytes) is no memory that other processes could map", pointer,
                          bytes);
    RONDO_CU(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address));
    RONDO_CU(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
    RONDO_CU(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    *range = (struct rondo_range){.mem = {.address = (void *)(uintptr_t)start, .bytes = size, .kind = RONDO_MEM_LEGACY},
                                  .identity = id};
    return rondoSuccess;
}

rondoResult_t rondo_cuda_host_map(struct rondo_device *device, void *host, size_t bytes, void **address)
{
    struct rondo_cuda_scope scope;
    CUdeviceptr mapped = 0;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    CUresult error =
        rondo_cuda.cuMemHostRegister(host, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (error == CUDA_SUCCESS) {
        error = rondo_cuda.cuMemHostGetDevicePointer(&mapped, host, 0);
        if (error != CUDA_SUCCESS)
            rondo_cuda.cuMemHostUnregister(host);
    }
    rondo_cuda_scope_close(&scope);
    *address = (void *)(uintptr_t)mapped;
    return error == CUDA_SUCCESS ? rondoSuccess : rondo_cuda_failed(error, "cuMemHostRegister");
}

void rondo_cuda_host_unmap(struct rondo_device *device, void *host)
{
    struct rondo_cuda_scope scope;
    if (rondo_cuda_scope_open(device, &scope) == rondoSuccess) {
        rondo_cuda.cuMemHostUnregister(host);
        rondo_cuda_scope_close(&scope);
    }
}

/* Pinned memory that is not used now. It is kept for the next who asks for as much, for cuMemFreeHost waits for the kernels of all
 * devices, and other threads can launch nothing meanwhile: if one of these kernels waits for a rank in such a thread, for ever. */
struct kept {
    struct kept *next;
    struct rondo_pinned pinned;
    unsigned long long id; /* of the memory, if its context is still there */
};
static struct kept *kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

/* 0: none, or no memory of CUDA's any more. */
static unsigned long long identity_of(const void *host)
{
    unsigned long long id = 0;
    const CUresult error =
        rondo_cuda.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)host);
    return error == CUDA_SUCCESS ? id : 0;
}

static bool take_kept(size_t bytes, struct rondo_pinned *pinned)
{
    bool found = false;
    pthread_mutex_lock(&kept_lock);
    for (struct kept **at = &kept; *at && !found;) {
        struct kept *k = *at;
        const bool gone = identity_of(k->pinned.host) != k->id;
        found = !gone && k->pinned.bytes == bytes;
        if (found)
            *pinned = k->pinned;
        if (found || gone) {
            *at = k->next;
            free(k);
        } else {
            at = &k->next;
        }
    }
    pthread_mutex_unlock(&kept_lock);
    return found;
}

static rondoResult_t pin_anew(size_t bytes, struct rondo_pinned *pinned)
{
    CUdeviceptr address = 0;
    RONDO_CU(cuMemHostAlloc(&pinned->host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    const CUresult error = rondo_cuda.cuMemHostGetDevicePointer(&address, pinned->host, 0);
    if (error != CUDA_SUCCESS) {
        rondo_cuda.cuMemFreeHost(pinned->host);
        pinned->host = NULL;
        return rondo_cuda_failed(error, "cuMemHostGetDevicePointer");
    }
    pinned->device = (void *)(uintptr_t)address;
    pinned->bytes = bytes;
    return rondoSuccess;
}

rondoResult_t rondo_cuda_pinned_alloc(struct rondo_device *device, size_t bytes, struct rondo_pinned *pinned)
{
    struct rondo_cuda_scope scope;
    memset(pinned, 0, sizeof *pinned);
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    const rondoResult_t result = take_kept(bytes, pinned) ? rondoSuccess : pin_anew(bytes, pinned);
    rondo_cuda_scope_close(&scope);
    if (result == rondoSuccess)
        memset(pinned->host, 0, bytes);
    return result;
}

void rondo_cuda_pinned_free(struct rondo_device *device, struct rondo_pinned *pinned)
{
    struct rondo_cuda_scope scope;
    if (pinned->host && rondo_cuda_scope_open(device, &scope) == rondoSuccess) {
        struct kept *k = malloc(sizeof *k);
        if (k)
            *k = (struct kept){.pinned = *pinned, .id = identity_of(pinned->host)};
        if (k && k->id) {
            pthread_mutex_lock(&kept_lock);
            k->next = kept;
            kept = k;
            pthread_mutex_unlock(&kept_lock);
        } else {
            free(k);
            rondo_cuda.cuMemFreeHost(pinned->host);
        }
        rondo_cuda_scope_close(&scope);
    }
    memset(pinned, 0, sizeof *pinned);
}

enum copy_kind { WRITE, READ, COPY, FILL };

/* A copy on the device's own stream, waited for. */
static rondoResult_t copy(struct rondo_device *device, enum copy_kind kind, void *to, const void *from, size_t pitch,
                          uint32_t word, size_t amount)
{
    struct rondo_cuda_scope scope;
    const CUdeviceptr there = (CUdeviceptr)(uintptr_t)to;
    CUresult error;
    RONDO_TRY(rondo_cuda_scope_open(device, &scope));
    pthread_mutex_lock(&device->lock);
    if (kind == WRITE)
        error = rondo_cuda.cuMemcpyHtoDAsync(there, from, amount, device->stream);
    else if (kind == READ)
        error = rondo_cuda.cuMemcpyDtoHAsync(to, (CUdeviceptr)(uintptr_t)from, amount, device->stream);
    else if (kind == COPY)
        error = rondo_cuda.cuMemcpyAsync(there, (CUdeviceptr)(uintptr_t)from, amount, device->stream);
    else if (pitch == 4)
        error = rondo_cuda.cuMemsetD32Async(there, word, amount, device->stream);
    else
        error = rondo_cuda.cuMemsetD2D32Async(there, pitch, word, 1, amount, device->stream);
    if (error == CUDA_SUCCESS)
        error = rondo_cuda.cuStreamSynchronize(device->stream);
    pthread_mutex_unlock(&device->lock);
    rondo_cuda_scope_close(&scope);
    return error == CUDA_SUCCESS ? rondoSuccess : rondo_cuda_failed(error, "a copy of the device's own");
}

rondoResult_t rondo_cuda_write(struct rondo_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, WRITE, to, from, 0, 0, bytes);
}

rondoResult_t rondo_cuda_read(struct rondo_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, READ, to, from, 0, 0, bytes);
}

rondoResult_t rondo_cuda_copy(struct rondo_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, COPY, to, from, 0, 0, bytes);
}

rondoResult_t rondo_cuda_fill(struct rondo_device *device, void *to, size_t pitch, uint32_t word, size_t words)
{
    return copy(device, FILL, to, NULL, pitch, word, words);
}

rondoResult_t rondo_cuda_check_pointer(struct rondo_device *device, const char *name, const void *pointer)
{
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer;
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    int ordinal = -1, managed = 0;
    CUresult error = rondo_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (error == CUDA_ERROR_INVALID_VALUE)
        return rondo_fail(rondoInvalidArgument, "%s (%p) is not memory that GPUs can reach", name, pointer);
    if (error == CUDA_SUCCESS)
        error = rondo_cuda.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    if (error == CUDA_SUCCESS)
        error = rondo_cuda.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    if (error != CUDA_SUCCESS)
        return rondo_cuda_failed(error, "cuPointerGetAttribute");
    if (type == CU_MEMORYTYPE_DEVICE && !managed && ordinal != device->info.ordinal)
        return rondo_fail(rondoInvalidArgument, "%s (%p) is memory of device %d, and the comm's is %d", name, pointer,
                          ordinal, device->info.ordinal);
    return rondoSuccess;
}
