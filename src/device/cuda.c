/* The cuda row: devices and their contexts. */
#include "device/cuda_device.h"

#include "common/numa.h"
#include "common/result.h"

#include <stdlib.h>
#include <string.h>

rondoResult_t rondo_cuda_scope_open(struct rondo_device *device, struct rondo_cuda_scope *scope)
{
    scope->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    RONDO_CU(cuCtxGetCurrent(&scope->context));
    RONDO_CU(cuCtxSetCurrent(device->context));
    RONDO_CU(cuThreadExchangeStreamCaptureMode(&scope->mode));
    return rondoSuccess;
}

void rondo_cuda_scope_close(struct rondo_cuda_scope *scope)
{
    rondo_cuda.cuThreadExchangeStreamCaptureMode(&scope->mode);
    rondo_cuda.cuCtxSetCurrent(scope->context);
}

static rondoResult_t current(int *ordinal)
{
    CUcontext context = NULL;
    CUdevice device = 0;
    RONDO_CU(cuCtxGetCurrent(&context));
    if (context)
        RONDO_CU(cuCtxGetDevice(&device));
    *ordinal = device;
    return rondoSuccess;
}

static rondoResult_t attribute(const struct rondo_device *d, CUdevice_attribute which, int *value)
{
    RONDO_CU(cuDeviceGetAttribute(value, which, d->device));
    return rondoSuccess;
}

static rondoResult_t fill_info(struct rondo_device *d)
{
    struct rondo_device_info *info = &d->info;
    int major, minor, descriptors, vmm, unified;
    CUuuid uuid;
    RONDO_CU(cuDeviceGetName(info->name, sizeof info->name, d->device));
    RONDO_CU(cuDeviceGetPCIBusId(info->bus_id, sizeof info->bus_id, d->device));
    RONDO_CU(cuDeviceGetUuid(&uuid, d->device));
    memcpy(info->uuid, uuid.bytes, sizeof info->uuid);
    RONDO_TRY(attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    RONDO_TRY(attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    RONDO_TRY(attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->processors));
    RONDO_TRY(attribute(d, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &descriptors));
    RONDO_TRY(attribute(d, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &vmm));
    RONDO_TRY(attribute(d, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &unified));
    info->ordinal = d->ordinal;
    info->capability = major * 10 + minor;
    info->line_bytes = 16;
    info->default_ctas = info->processors < 128 ? info->processors : 128;
    info->default_threads = 512;
    info->default_buffer_kib = 8192;
    info->shareable = descriptors && vmm;
    info->legacy_ipc = unified;
    info->mig = strstr(info->name, " MIG ") != NULL; /* "NVIDIA A100-SXM4-40GB MIG 1g.5gb" */
    info->programmatic = info->capability >= 90;
    info->numa_node = rondo_numa_node_of(info->bus_id);
    return rondoSuccess;
}

static void close_device(struct rondo_device *d)
{
    if (!d)
        return;
    rondo_cuda_stream_destroy(d, d->stream);
    if (d->context)
        rondo_cuda.cuDevicePrimaryCtxRelease(d->device);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static rondoResult_t open_device(int ordinal, struct rondo_device **device)
{
    int count;
    if (ordinal < 0)
        RONDO_TRY(current(&ordinal));
    RONDO_CU(cuDeviceGetCount(&count));
    if (ordinal >= count)
        return rondo_fail(rondoInvalidArgument, "device %d: this process sees %d GPU%s", ordinal, count,
                          count == 1 ? "" : "s");
    struct rondo_device *d = calloc(1, sizeof *d);
    if (!d)
        return rondo_fail(rondoSystemError, "out of memory");
    pthread_mutex_init(&d->lock, NULL);
    d->ordinal = ordinal;
    CUresult error = rondo_cuda.cuDeviceGet(&d->device, ordinal);
    if (error == CUDA_SUCCESS)
        error = rondo_cuda.cuDevicePrimaryCtxRetain(&d->context, d->device);
    rondoResult_t result = error == CUDA_SUCCESS ? fill_info(d) : rondo_cuda_failed(error, "cuDevicePrimaryCtxRetain");
    if (result == rondoSuccess)
        result = rondo_cuda_stream_create(d, &d->stream);
    if (result != rondoSuccess)
        close_device(d);
    else
        *device = d;
    return result;
}

static void get_info(const struct rondo_device *device, struct rondo_device_info *info)
{
    *info = device->info;
}

static rondoResult_t peer_info(struct rondo_device *device, const uint8_t *uuid, struct rondo_peer_info *peer)
{
    int count, access, atomics;
    memset(peer, 0, sizeof *peer);
    RONDO_CU(cuDeviceGetCount(&count));
    for (int i = 0; i < count && !peer->known; i++) {
        CUdevice other;
        CUuuid id;
        RONDO_CU(cuDeviceGet(&other, i));
        RONDO_CU(cuDeviceGetUuid(&id, other));
        if (memcmp(id.bytes, uuid, sizeof id.bytes))
            continue;
        peer->known = true;
        if (other == device->device) {
            peer->access = peer->atomics = true;
            break;
        }
        RONDO_CU(cuDeviceGetP2PAttribute(&access, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device->device, other));
        RONDO_CU(
            cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, device->device, other));
        RONDO_CU(cuDeviceGetP2PAttribute(&peer->rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, device->device, other));
        peer->access = access != 0;
        peer->atomics = atomics != 0;
    }
    return rondoSuccess;
}

const struct rondo_device_ops rondo_device_cuda = {
    .name = "cuda",
    .unusable = rondo_cuda_load,
    .current = current,
    .open = open_device,
    .close = close_device,
    .info = get_info,
    .peer = peer_info,
    .mem_alloc = rondo_cuda_mem_alloc,
    .mem_free = rondo_cuda_mem_free,
    .mem_export = rondo_cuda_mem_export,
    .mem_import = rondo_cuda_mem_import,
    .mem_attach = rondo_cuda_mem_attach,
    .mem_attach_all = rondo_cuda_mem_attach_all,
    .mem_range = rondo_cuda_mem_range,
    .host_map = rondo_cuda_host_map,
    .host_unmap = rondo_cuda_host_unmap,
    .pinned_alloc = rondo_cuda_pinned_alloc,
    .pinned_free = rondo_cuda_pinned_free,
    .copier_create = rondo_cuda_copier_create,
    .copier_destroy = rondo_cuda_copier_destroy,
    .copier_copy = rondo_cuda_copier_copy,
    .copier_mark = rondo_cuda_copier_mark,
    .copier_passed = rondo_cuda_copier_passed,
    .write = rondo_cuda_write,
    .read = rondo_cuda_read,
    .copy = rondo_cuda_copy,
    .fill = rondo_cuda_fill,
    .check_pointer = rondo_cuda_check_pointer,
    .kernel = rondo_cuda_kernel,
    .kernel_of = rondo_cuda_kernel_of,
    .stream_create = rondo_cuda_stream_create,
    .stream_destroy = rondo_cuda_stream_destroy,
    .event_create = rondo_cuda_event_create,
    .event_destroy = rondo_cuda_event_destroy,
    .event_wait_host = rondo_cuda_event_wait_host,
    .graph_open = rondo_cuda_graph_open,
    .graph_close = rondo_cuda_graph_close,
    .graph_change = rondo_cuda_graph_change,
    .enter = rondo_cuda_enter,
    .leave = rondo_cuda_leave,
    .stream_id = rondo_cuda_stream_id,
    .stream_capture = rondo_cuda_stream_capture,
    .capture_depend = rondo_cuda_capture_depend,
    .capture_continue = rondo_cuda_capture_continue,
    .graph_launches = rondo_cuda_graph_launches,
    .capture_follows = rondo_cuda_capture_follows,
    .graph_own = rondo_cuda_graph_own,
    .event_record = rondo_cuda_event_record,
    .event_wait = rondo_cuda_event_wait,
    .launch = rondo_cuda_launch,
};
