/* The host row: devices, memory, and the road of a call over rondo/host.h's streams. */
#include "device/host_device.h"

#include "common/log.h"
#include "common/result.h"
#include "device/host_kernels.h"
#include "device/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

struct rondo_device {
    struct rondo_device_info info;
};

static const char *unusable(void)
{
    return NULL;
}

static rondoResult_t current(int *ordinal)
{
    *ordinal = host_current_device();
    return rondoSuccess;
}

/* A device for each opening: every rank has CPUs of its own, so to speak. */
static rondoResult_t open_device(int ordinal, struct rondo_device **device)
{
    struct rondo_device *d = calloc(1, sizeof *d);
    if (!d)
        return rondo_fail(rondoSystemError, "out of memory");
    if (getrandom(d->info.uuid, sizeof d->info.uuid, 0) != (ssize_t)sizeof d->info.uuid) {
        free(d);
        return rondo_fail(rondoSystemError, "no random number for the device");
    }
    d->info.ordinal = ordinal < 0 ? host_current_device() : ordinal;
    snprintf(d->info.name, sizeof d->info.name, "host CPU");
    d->info.processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    d->info.line_bytes = 8;
    d->info.default_ctas = 2;
    d->info.default_threads = 1;
    d->info.default_buffer_kib = 1024;
    d->info.shareable = true;
    d->info.legacy_ipc = true;
    d->info.numa_node = -1;
    *device = d;
    return rondoSuccess;
}

static void close_device(struct rondo_device *device)
{
    free(device);
}

static void get_info(const struct rondo_device *device, struct rondo_device_info *info)
{
    *info = device->info;
}

/* All memory is every CPU's. */
static rondoResult_t peer_info(struct rondo_device *device, const uint8_t *uuid, struct rondo_peer_info *peer)
{
    (void)device;
    (void)uuid;
    *peer = (struct rondo_peer_info){.known = true, .access = true, .atomics = true};
    return rondoSuccess;
}

/* ---- memory ----
 * Shareable memory is a memfd that travels as a descriptor. Legacy memory stands in for CUDA's: a memfd that peers open by
 * its owner's process id and number, and that is gone for them once its owner frees it: a touch of it is then SIGBUS. */

/* mem->private_: */
enum {
    DESCRIPTOR, /* of the memfd, plus one */
    OWNER,      /* legacy: process id of who made it; a forked child must not take it from its parent */
};

struct legacy_handle {
    int32_t pid, fd;
};

static rondoResult_t map_private(size_t bytes, void **address)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return rondo_fail(rondoSystemError, "mmap of %zu bytes: %s", bytes, strerror(errno));
    *address = mapped;
    return rondoSuccess;
}

static rondoResult_t mem_alloc(struct rondo_device *device, size_t bytes, enum rondo_mem_kind kind,
                               struct rondo_mem *mem)
{
    int fd = -1;
    (void)device;
    memset(mem, 0, sizeof *mem);
    if (kind == RONDO_MEM_PRIVATE)
        RONDO_TRY(map_private(bytes, &mem->address));
    else
        RONDO_TRY(rondo_memfd_create(bytes, -1, &mem->address, &fd));
    mem->host = mem->address;
    mem->bytes = bytes;
    mem->kind = kind;
    mem->private_[DESCRIPTOR] = (uint64_t)(fd + 1);
    mem->private_[OWNER] = (uint64_t)getpid();
    return rondoSuccess;
}

static void mem_free(struct rondo_device *device, struct rondo_mem *mem)
{
    (void)device;
    if (mem->address)
        munmap(mem->address, mem->bytes);
    if (mem->private_[DESCRIPTOR]) {
        const int fd = (int)mem->private_[DESCRIPTOR] - 1;
        if (mem->kind == RONDO_MEM_LEGACY && mem->private_[OWNER] == (uint64_t)getpid() && ftruncate(fd, 0) != 0)
            rondo_log(RONDO_LOG_WARN, "ftruncate: %s", strerror(errno));
        close(fd);
    }
    memset(mem, 0, sizeof *mem);
}

static rondoResult_t mem_export(struct rondo_device *device, const struct rondo_mem *mem,
                                struct rondo_mem_handle *handle)
{
    (void)device;
    memset(handle, 0, sizeof *handle);
    handle->fd = -1;
    if (!mem->private_[DESCRIPTOR])
        return rondo_fail(rondoInternalError, "memory that cannot be shared was to be");
    const int fd = (int)mem->private_[DESCRIPTOR] - 1;
    if (mem->kind == RONDO_MEM_LEGACY) {
        const struct legacy_handle legacy = {(int32_t)getpid(), fd};
        memcpy(handle->bytes, &legacy, sizeof legacy);
        return rondoSuccess;
    }
    handle->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return handle->fd < 0 ? rondo_fail(rondoSystemError, "fcntl: %s", strerror(errno)) : rondoSuccess;
}

static rondoResult_t open_legacy(const struct rondo_mem_handle *handle, int *fd)
{
    struct legacy_handle legacy;
    char path[64];
    memcpy(&legacy, handle->bytes, sizeof legacy);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)legacy.pid, (int)legacy.fd);
    *fd = open(path, O_RDWR | O_CLOEXEC);
    return *fd < 0 ? rondo_fail(rondoSystemError, "%s: %s", path, strerror(errno)) : rondoSuccess;
}

static rondoResult_t mem_import(struct rondo_device *device, const struct rondo_mem_handle *handle, size_t bytes,
                                enum rondo_mem_kind kind, struct rondo_mem *mem)
{
    int fd = handle->fd;
    (void)device;
    memset(mem, 0, sizeof *mem);
    if (kind == RONDO_MEM_LEGACY)
        RONDO_TRY(open_legacy(handle, &fd));
    else if (kind == RONDO_MEM_PRIVATE || fd < 0)
        return rondo_fail(rondoInternalError, "a peer's memory came without a descriptor");
    rondoResult_t result = rondo_memfd_map(fd, bytes, &mem->address);
    if (kind == RONDO_MEM_LEGACY)
        close(fd);
    if (result != rondoSuccess)
        return result;
    mem->host = mem->address;
    mem->bytes = bytes;
    mem->kind = kind;
    mem->imported = true;
    return rondoSuccess;
}

static rondoResult_t mem_attach(struct rondo_device *device, struct rondo_device *owner, const struct rondo_mem *mem)
{
    (void)device;
    (void)owner;
    (void)mem;
    return rondoSuccess;
}

static rondoResult_t mem_attach_all(struct rondo_device *device, const struct rondo_mem *mem)
{
    (void)device;
    (void)mem;
    return rondoSuccess;
}

/* Of other memory nothing is known but that the process has it. */
static rondoResult_t mem_range(struct rondo_device *device, const void *pointer, size_t bytes,
                               struct rondo_range *range)
{
    (void)device;
    if (!rondo_user_memory_find(pointer, range))
        *range = (struct rondo_range){
            .mem = {.address = (void *)(uintptr_t)pointer, .bytes = bytes, .kind = RONDO_MEM_PRIVATE}};
    return rondoSuccess;
}

static rondoResult_t host_map(struct rondo_device *device, void *host, size_t bytes, void **address)
{
    (void)device;
    (void)bytes;
    *address = host;
    return rondoSuccess;
}

static void host_unmap(struct rondo_device *device, void *host)
{
    (void)device;
    (void)host;
}

static rondoResult_t pinned_alloc(struct rondo_device *device, size_t bytes, struct rondo_pinned *pinned)
{
    (void)device;
    pinned->bytes = (bytes + 63) / 64 * 64;
    pinned->host = pinned->device = aligned_alloc(64, pinned->bytes);
    if (!pinned->host)
        return rondo_fail(rondoSystemError, "out of memory");
    memset(pinned->host, 0, pinned->bytes);
    return rondoSuccess;
}

static void pinned_free(struct rondo_device *device, struct rondo_pinned *pinned)
{
    (void)device;
    free(pinned->host);
    memset(pinned, 0, sizeof *pinned);
}

/* Kernels of this rank and of its peers may be at these words: they are moved one by one, as atomics. Loads acquire: who
 * finds that a kernel is over may free what it used. Stores need not release: who is to see them is told of them later,
 * by a launch or an exchange among ranks. (ThreadSanitizer keeps a clock for every word that something was released to,
 * and mailboxes have very many.) */
static void copy_words(char *to, const char *from, size_t bytes)
{
    size_t i = 0;
    for (; i + 4 <= bytes && ((uintptr_t)(to + i) | (uintptr_t)(from + i)) % 4 == 0; i += 4)
        __atomic_store_n((uint32_t *)(void *)(to + i),
                         __atomic_load_n((const uint32_t *)(const void *)(from + i), __ATOMIC_ACQUIRE),
                         __ATOMIC_RELAXED);
    memcpy(to + i, from + i, bytes - i);
}

static rondoResult_t copy(struct rondo_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    copy_words(to, from, bytes);
    return rondoSuccess;
}

/* All memory of the process is device memory. */
static rondoResult_t check_pointer(struct rondo_device *device, const char *name, const void *pointer)
{
    (void)device, (void)name, (void)pointer;
    return rondoSuccess;
}

static rondoResult_t fill(struct rondo_device *device, void *to, size_t pitch, uint32_t word, size_t words)
{
    (void)device;
    for (size_t i = 0; i < words; i++)
        __atomic_store_n((uint32_t *)(void *)((char *)to + i * pitch), word, __ATOMIC_RELAXED);
    return rondoSuccess;
}

/* ---- kernels, events, streams ---- */

static rondoResult_t kernel(struct rondo_device *device, unsigned number, const struct rondo_kernel **out)
{
    (void)device;
    if (number >= rondo_host_kernel_count || !rondo_host_kernels[number])
        return rondo_fail(rondoInternalError, "there is no kernel %u", number);
    *out = (const struct rondo_kernel *)&rondo_host_kernels[number];
    return rondoSuccess;
}

static rondoResult_t kernel_of(struct rondo_device *device, const struct rondo_image *image,
                               const struct rondo_kernel **out)
{
    (void)device;
    *out = (const struct rondo_kernel *)image->host;
    return rondoSuccess;
}

static rondoResult_t stream_create(struct rondo_device *device, struct CUstream_st **stream)
{
    (void)device;
    return rondoHostStreamCreate(stream);
}

static void stream_destroy(struct rondo_device *device, struct CUstream_st *stream)
{
    (void)device;
    if (stream)
        rondoHostStreamDestroy(stream);
}

static rondoResult_t event_create(struct rondo_device *device, struct rondo_event **event)
{
    (void)device;
    return rondoHostEventCreate((rondoHostEvent_t *)event);
}

static void event_destroy(struct rondo_device *device, struct rondo_event *event)
{
    (void)device;
    rondoHostEventDestroy((rondoHostEvent_t)event);
}

static rondoResult_t event_wait_host(struct rondo_device *device, struct rondo_event *event, uint64_t timeout_ns,
                                     bool *done)
{
    (void)device;
    *done = host_event_await((rondoHostEvent_t)event, timeout_ns);
    return rondoSuccess;
}

/* The token is the number of the device that was current. */
static rondoResult_t enter(struct rondo_device *device, void **token)
{
    *token = (void *)(intptr_t)host_current_device();
    host_set_current_device(device->info.ordinal);
    return rondoSuccess;
}

static void leave(struct rondo_device *device, void *token)
{
    (void)device;
    host_set_current_device((int)(intptr_t)token);
}

static rondoResult_t stream_id(struct rondo_device *device, struct CUstream_st *handle, uint64_t *id)
{
    struct CUstream_st *stream;
    (void)device;
    RONDO_TRY(host_stream_find(handle, &stream));
    *id = stream->id;
    return rondoSuccess;
}

static rondoResult_t event_record(struct rondo_device *device, struct rondo_event *event, struct CUstream_st *stream)
{
    (void)device;
    return rondoHostEventRecord((rondoHostEvent_t)event, stream);
}

static rondoResult_t event_wait(struct rondo_device *device, struct rondo_event *event, struct CUstream_st *stream)
{
    (void)device;
    return rondoHostStreamWaitEvent(stream, (rondoHostEvent_t)event);
}

static rondoResult_t launch(struct rondo_device *device, const struct rondo_launch *launch)
{
    const struct host_action action = {
        .kind = HOST_KERNEL,
        .kernel = *(void (*const *)(const void *))launch->kernel,
        .argument = (void *)(uintptr_t)launch->args,
        .bytes = launch->args_bytes,
        .blocks = launch->blocks,
    };
    (void)device;
    if (launch->blocks == 0)
        return rondo_fail(rondoInternalError, "a launch without blocks");
    return host_stream_act(launch->stream, &action);
}

const struct rondo_device_ops rondo_device_host = {
    .name = "host",
    .unusable = unusable,
    .current = current,
    .open = open_device,
    .close = close_device,
    .info = get_info,
    .peer = peer_info,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_export = mem_export,
    .mem_import = mem_import,
    .mem_attach = mem_attach,
    .mem_attach_all = mem_attach_all,
    .mem_range = mem_range,
    .host_map = host_map,
    .host_unmap = host_unmap,
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .copier_create = host_copier_create,
    .copier_destroy = host_copier_destroy,
    .copier_copy = host_copier_copy,
    .copier_mark = host_copier_mark,
    .copier_passed = host_copier_passed,
    .write = copy,
    .read = copy,
    .copy = copy,
    .fill = fill,
    .check_pointer = check_pointer,
    .kernel = kernel,
    .kernel_of = kernel_of,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_wait_host = event_wait_host,
    .graph_open = host_graph_open,
    .graph_close = host_graph_close,
    .graph_change = host_graph_change,
    .enter = enter,
    .leave = leave,
    .stream_id = stream_id,
    .stream_capture = host_stream_capture,
    .capture_depend = host_capture_depend,
    .capture_continue = host_capture_continue,
    .graph_launches = host_graph_launches,
    .capture_follows = host_capture_follows,
    .graph_own = host_graph_own,
    .event_record = event_record,
    .event_wait = event_wait,
    .launch = launch,
};

rondoResult_t rondoHostMalloc(void **pointer, size_t bytes)
{
    if (!pointer)
        return rondo_fail(rondoInvalidArgument, "pointer is NULL");
    if (bytes > SIZE_MAX - 255 || !(*pointer = aligned_alloc(256, bytes ? (bytes + 255) / 256 * 256 : 256)))
        return rondo_fail(rondoSystemError, "out of memory: %zu bytes", bytes);
    return rondoSuccess;
}

rondoResult_t rondoHostFree(void *pointer)
{
    free(pointer);
    return rondoSuccess;
}
