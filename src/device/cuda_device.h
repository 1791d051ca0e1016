/* The cuda row's parts, for each other. */
#ifndef RONDO_DEVICE_CUDA_DEVICE_H
#define RONDO_DEVICE_CUDA_DEVICE_H

#include "device/cuda_api.h"
#include "device/device.h"

#include <pthread.h>

struct rondo_device {
    CUdevice device;
    CUcontext context; /* the device's primary one */
    CUstream stream;   /* for copies of our own; guarded by lock */
    pthread_mutex_t lock;
    struct rondo_device_info info;
    int ordinal;
};

/* What a set-up call changes in the calling thread, to be put back. */
struct rondo_cuda_scope {
    CUcontext context;
    CUstreamCaptureMode mode;
};

/* Makes the device current and its calls harmless to captures that other threads have under way. */
rondoResult_t rondo_cuda_scope_open(struct rondo_device *device, struct rondo_cuda_scope *scope);
void rondo_cuda_scope_close(struct rondo_cuda_scope *scope);

/* The number of a kernel of a node, which says it as the one or the other; RONDO_KERNEL_COUNT: none of Rondo's. */
unsigned rondo_cuda_kernel_number(CUfunction function, CUkernel kernel);

/* Members of the row, in cuda_memory.c, cuda_copier.c, cuda_graph.c and cuda_stream.c; device.h says what they do. */
rondoResult_t rondo_cuda_mem_alloc(struct rondo_device *, size_t, enum rondo_mem_kind, struct rondo_mem *);
void rondo_cuda_mem_free(struct rondo_device *, struct rondo_mem *);
rondoResult_t rondo_cuda_mem_export(struct rondo_device *, const struct rondo_mem *, struct rondo_mem_handle *);
rondoResult_t rondo_cuda_mem_import(struct rondo_device *, const struct rondo_mem_handle *, size_t, enum rondo_mem_kind,
                                    struct rondo_mem *);
rondoResult_t rondo_cuda_mem_attach(struct rondo_device *, struct rondo_device *, const struct rondo_mem *);
rondoResult_t rondo_cuda_mem_attach_all(struct rondo_device *, const struct rondo_mem *);
rondoResult_t rondo_cuda_mem_range(struct rondo_device *, const void *, size_t, struct rondo_range *);
rondoResult_t rondo_cuda_host_map(struct rondo_device *, void *, size_t, void **);
void rondo_cuda_host_unmap(struct rondo_device *, void *);
rondoResult_t rondo_cuda_pinned_alloc(struct rondo_device *, size_t, struct rondo_pinned *);
void rondo_cuda_pinned_free(struct rondo_device *, struct rondo_pinned *);
rondoResult_t rondo_cuda_write(struct rondo_device *, void *, const void *, size_t);
rondoResult_t rondo_cuda_read(struct rondo_device *, void *, const void *, size_t);
rondoResult_t rondo_cuda_copy(struct rondo_device *, void *, const void *, size_t);
rondoResult_t rondo_cuda_fill(struct rondo_device *, void *, size_t, uint32_t, size_t);
rondoResult_t rondo_cuda_check_pointer(struct rondo_device *, const char *, const void *);

rondoResult_t rondo_cuda_copier_create(struct rondo_device *, struct rondo_copier **);
void rondo_cuda_copier_destroy(struct rondo_device *, struct rondo_copier *);
rondoResult_t rondo_cuda_copier_copy(struct rondo_copier *, void *, const void *, size_t);
rondoResult_t rondo_cuda_copier_mark(struct rondo_copier *, uint64_t *);
rondoResult_t rondo_cuda_copier_passed(struct rondo_copier *, uint64_t *);

rondoResult_t rondo_cuda_kernel(struct rondo_device *, unsigned, const struct rondo_kernel **);
rondoResult_t rondo_cuda_kernel_of(struct rondo_device *, const struct rondo_image *, const struct rondo_kernel **);
rondoResult_t rondo_cuda_graph_open(void *, struct rondo_graph_view *);
void rondo_cuda_graph_close(struct rondo_graph_view *);
rondoResult_t rondo_cuda_graph_change(void *, void *, const struct rondo_graph_change *, size_t);
rondoResult_t rondo_cuda_stream_create(struct rondo_device *, struct CUstream_st **);
void rondo_cuda_stream_destroy(struct rondo_device *, struct CUstream_st *);
rondoResult_t rondo_cuda_event_create(struct rondo_device *, struct rondo_event **);
void rondo_cuda_event_destroy(struct rondo_device *, struct rondo_event *);
rondoResult_t rondo_cuda_event_wait_host(struct rondo_device *, struct rondo_event *, uint64_t, bool *);
rondoResult_t rondo_cuda_enter(struct rondo_device *, void **);
void rondo_cuda_leave(struct rondo_device *, void *);
rondoResult_t rondo_cuda_stream_id(struct rondo_device *, struct CUstream_st *, uint64_t *);
rondoResult_t rondo_cuda_stream_capture(struct rondo_device *, struct CUstream_st *, struct rondo_capture *);
rondoResult_t rondo_cuda_capture_depend(struct rondo_device *, struct CUstream_st *, const void *);
rondoResult_t rondo_cuda_capture_continue(struct rondo_device *, struct CUstream_st *, const void *);
rondoResult_t rondo_cuda_graph_launches(struct rondo_device *, void *, const void *, const struct rondo_launch *,
                                        bool *);
rondoResult_t rondo_cuda_capture_follows(struct rondo_device *, const struct rondo_capture *, const void *const *,
                                         size_t, bool *);
rondoResult_t rondo_cuda_graph_own(struct rondo_device *, void *, void (*)(void *), void *);
rondoResult_t rondo_cuda_event_record(struct rondo_device *, struct rondo_event *, struct CUstream_st *);
rondoResult_t rondo_cuda_event_wait(struct rondo_device *, struct rondo_event *, struct CUstream_st *);
rondoResult_t rondo_cuda_launch(struct rondo_device *, const struct rondo_launch *);

#endif
