/* The device layer: what the rest of Rondo asks of a GPU, or of the CPUs that stand in for one. Two rows of
 * rondo_device_ops: cuda (driver API, found at run time) and host (ranks on CPUs, rondo/host.h).
 *
 * Unless a member's comment says otherwise: called by comm set-up and tear-down, may block, may be called from any
 * thread, leaves the calling thread's current context as it was, is safe while streams of the process are capturing and
 * while kernels of the device run. Errors are said with rondo_fail. */
#ifndef RONDO_DEVICE_DEVICE_H
#define RONDO_DEVICE_DEVICE_H

#include "rondo/rondo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RONDO_MEM_HANDLE_BYTES = 64, RONDO_COPIER_MARKS = 64, RONDO_COPIER_GRACE_MS = 1000 };

struct rondo_device; /* one device in use by one comm; each row has its own definition */
struct rondo_kernel; /* a resolved kernel; each row has its own idea of it */
struct rondo_event;  /* orders streams against each other */
struct rondo_copier; /* a copy engine's queue */

/* device/graph_view.h */
struct rondo_graph_view;
struct rondo_graph_change;

struct rondo_device_info {
    int ordinal;            /* as the user counts devices */
    uint8_t uuid[16];       /* tells devices apart whatever CUDA_VISIBLE_DEVICES says; host device: the rank's own */
    char name[64];          /* "NVIDIA H200" */
    char bus_id[24];        /* "0000:18:00.0", "" on the host device */
    int processors;         /* multiprocessors, or CPU threads that a launch may use */
    int capability;         /* 90 for compute capability 9.0, 0 on the host device */
    int line_bytes;         /* bytes that one store makes visible whole: 16 on GPUs, 8 on the host device */
    int default_ctas;       /* most blocks of a launch unless the user says otherwise */
    int default_threads;    /* most threads of a block; 1 on the host device, where a block is one thread */
    int default_buffer_kib; /* mailbox memory per lane and half */
    bool shareable;         /* RONDO_MEM_SHAREABLE memory can be had (cuMem handles, memfd) */
    bool legacy_ipc;        /* RONDO_MEM_LEGACY memory can be had */
    bool mig;               /* an instance of a part of a GPU (MIG) */
    bool programmatic;      /* launches may overlap their predecessor's end (compute capability 9.0) */
    int numa_node;          /* nearest to the device, -1: not known */
};

/* What the driver says about one device's access to another's memory. */
struct rondo_peer_info {
    bool known;   /* both are visible to this process; else nothing is said */
    bool access;  /* kernels may read and write it */
    bool atomics; /* natively: on GPUs that means NVLink or NVLink-C2C */
    int rank;     /* of the link's performance among those of the machine, 0 is best */
};

/* How memory is to be reachable from other ranks. */
enum rondo_mem_kind {
    RONDO_MEM_PRIVATE,   /* this process's devices */
    RONDO_MEM_SHAREABLE, /* and other processes, by a file descriptor (cuMem handle, memfd) */
    RONDO_MEM_LEGACY,    /* and other processes, by a legacy IPC handle */
    RONDO_MEM_HOST,      /* host memory near the device, that other processes map by a file descriptor (memfd) */
};

/* Memory of a device, or a mapping of a peer's. A zeroed one is safe to free. */
struct rondo_mem {
    void *address; /* as kernels of the device see it */
    void *host;    /* the same as the CPU sees it; RONDO_MEM_HOST only */
    size_t bytes;  /* as asked for */
    enum rondo_mem_kind kind;
    bool imported;
    uint64_t private_[4]; /* the row's own */
};

/* An allocation that a user's buffer lies in. */
struct rondo_range {
    struct rondo_mem
        mem; /* not owned: not to be freed. kind: how others can map it; RONDO_MEM_PRIVATE: within the process */
    uint64_t
        identity; /* another one for other memory that comes to be at the same place, as far as the device can tell */
};

/* What another process needs to map a rondo_mem: bytes, and a descriptor that travels over a Unix socket (-1: none). */
struct rondo_mem_handle {
    uint8_t bytes[RONDO_MEM_HANDLE_BYTES];
    int fd;
};

/* Host memory that kernels of the device can read and write. A zeroed one is safe to free. */
struct rondo_pinned {
    void *host;
    void *device;
    size_t bytes;
};

/* A stream's capture at one moment. */
struct rondo_capture {
    bool active;
    uint64_t id;        /* unique among captures of the process */
    void *graph;        /* the graph under capture */
    const void **tails; /* nodes that the stream's next node will depend on; valid until the stream's next use */
    size_t tail_count;
};

/* Code of one kernel for every row. */
struct rondo_image {
    const char *name;                  /* of the kernel in the fatbin */
    const void *fatbin;                /* NULL: there is none for GPUs */
    void (*const *host)(const void *); /* where its address on the host device is */
};

struct rondo_launch {
    const struct rondo_kernel *kernel;
    unsigned blocks, threads;
    const void *args; /* copied by the launch */
    size_t args_bytes;
    struct CUstream_st *stream;
};

struct rondo_device_ops {
    const char *name; /* as RONDO_DEVICE spells it */

    /* Whether this row can be used here; NULL, or a constant text that says why not. Called once, cheap. */
    const char *(*unusable)(void);

    /* The calling thread's current device. On cuda it is the current context's, else device 0. */
    rondoResult_t (*current)(int *ordinal);
    /* Opens a device, or the calling thread's current one (ordinal -1). rondoInvalidArgument: no such device. */
    rondoResult_t (*open)(int ordinal, struct rondo_device **device);
    /* Idempotent on NULL. All memory, events and pinned memory were freed before. */
    void (*close)(struct rondo_device *device);
    void (*info)(const struct rondo_device *device, struct rondo_device_info *info);

    /* About the device with this UUID (16 bytes), of another rank most often. Needs no context on it. */
    rondoResult_t (*peer)(struct rondo_device *device, const uint8_t *uuid, struct rondo_peer_info *peer);

    /* Zeroed memory. rondoSystemError / rondoUnhandledCudaError: none to be had. */
    rondoResult_t (*mem_alloc)(struct rondo_device *device, size_t bytes, enum rondo_mem_kind kind,
                               struct rondo_mem *mem);
    /* Frees memory, or unmaps an import. Zeroes *mem. */
    void (*mem_free)(struct rondo_device *device, struct rondo_mem *mem);
    /* The descriptor in *handle is the caller's, to close after it was sent. */
    rondoResult_t (*mem_export)(struct rondo_device *device, const struct rondo_mem *mem,
                                struct rondo_mem_handle *handle);
    /* Maps a peer's memory. Consumes no descriptor: the caller closes it. `bytes` and `kind` are the exporter's. */
    rondoResult_t (*mem_import)(struct rondo_device *device, const struct rondo_mem_handle *handle, size_t bytes,
                                enum rondo_mem_kind kind, struct rondo_mem *mem);
    /* Makes `mem`, allocated on `owner` in this process, usable by kernels of `device`. */
    rondoResult_t (*mem_attach)(struct rondo_device *device, struct rondo_device *owner, const struct rondo_mem *mem);

    /* Makes memory of this process usable by all its devices that can reach it, as users expect of theirs. */
    rondoResult_t (*mem_attach_all)(struct rondo_device *device, const struct rondo_mem *mem);

    /* The allocation that holds these bytes of a user's. rondoInvalidArgument, rondoUnhandledCudaError: none that others could
     * map. Also on the road of a call. */
    rondoResult_t (*mem_range)(struct rondo_device *device, const void *pointer, size_t bytes,
                               struct rondo_range *range);

    /* Makes host memory of the process (page-aligned; shared with others most often) usable by kernels of the device, at
     * `*address`. It must be given back before it is unmapped. */
    rondoResult_t (*host_map)(struct rondo_device *device, void *host, size_t bytes, void **address);
    void (*host_unmap)(struct rondo_device *device, void *host);

    rondoResult_t (*pinned_alloc)(struct rondo_device *device, size_t bytes, struct rondo_pinned *pinned);
    void (*pinned_free)(struct rondo_device *device, struct rondo_pinned *pinned);

    /* Small copies between host and device memory, done on return, independent of all streams. */
    rondoResult_t (*write)(struct rondo_device *device, void *to, const void *from, size_t bytes);
    rondoResult_t (*read)(struct rondo_device *device, void *to, const void *from, size_t bytes);
    /* A copy between any two of: memory of devices, mappings of peers' memory, host memory; by a copy engine where there is
     * one. Done on return, independent of all streams. */
    rondoResult_t (*copy)(struct rondo_device *device, void *to, const void *from, size_t bytes);
    /* Sets `words` 32-bit words of device memory that lie `pitch` bytes apart (4: side by side), done on return. */
    rondoResult_t (*fill)(struct rondo_device *device, void *to, size_t pitch, uint32_t word, size_t words);

    /* Whether kernels of the device can reach the memory there; rondoInvalidArgument, naming the buffer, if not. Also on the road
     * of a call. */
    rondoResult_t (*check_pointer)(struct rondo_device *device, const char *name, const void *pointer);

    /* The kernel with this number (kernels/instances.h), loaded and ready: nothing of it loads at its first launch. */
    rondoResult_t (*kernel)(struct rondo_device *device, unsigned number, const struct rondo_kernel **kernel);

    /* A kernel that is not the library's own, from code that outlives the process's use of it: rondo-doctor has such. */
    rondoResult_t (*kernel_of)(struct rondo_device *device, const struct rondo_image *image,
                               const struct rondo_kernel **kernel);

    /* A copy engine's queue: for one thread, a progress thread. destroy (idempotent on NULL) waits for what it was given, but for
     * RONDO_COPIER_GRACE_MS at most: an engine that stands still is left to the driver. */
    rondoResult_t (*copier_create)(struct rondo_device *device, struct rondo_copier **copier);
    void (*copier_destroy)(struct rondo_device *device, struct rondo_copier *copier);
    /* Copies between memories that kernels of the device can reach, in order, each line (device_info) whole. */
    rondoResult_t (*copier_copy)(struct rondo_copier *copier, void *to, const void *from, size_t bytes);
    /* Gives a number that passed will give once all copies until now are done: 1, 2, … At most RONDO_COPIER_MARKS may be ahead
     * of what passed gave. */
    rondoResult_t (*copier_mark)(struct rondo_copier *copier, uint64_t *mark);
    rondoResult_t (*copier_passed)(struct rondo_copier *copier, uint64_t *mark);

    /* A stream of the library's own, that no capture is to touch. destroy (NULL is fine) waits for nothing. */
    rondoResult_t (*stream_create)(struct rondo_device *device, struct CUstream_st **stream);
    void (*stream_destroy)(struct rondo_device *device, struct CUstream_st *stream);

    rondoResult_t (*event_create)(struct rondo_device *device, struct rondo_event **event);
    void (*event_destroy)(struct rondo_device *device, struct rondo_event *event);
    /* Blocks until what the event recorded is done or `timeout_ns` is over; *done says which. */
    rondoResult_t (*event_wait_host)(struct rondo_device *device, struct rondo_event *event, uint64_t timeout_ns,
                                     bool *done);

    /* ---- the user's graphs: no device, for one may have nodes of several ---- */

    /* Looks at a graph that nobody changes meanwhile. rondoInvalidArgument: it is none, as far as that can be seen. The view
     * (a zeroed one too) is to be closed. Graphs inside are views of their own. */
    rondoResult_t (*graph_open)(void *graph, struct rondo_graph_view *view);
    void (*graph_close)(struct rondo_graph_view *view);
    /* Gives nodes of a graph, or of graphs inside, other arguments: there, and in an executable that was made from it, for
     * launches from now on. rondoInvalidArgument: it was made from another one, and nothing is changed. After another error some
     * may have them, and some not. */
    rondoResult_t (*graph_change)(void *exec, void *graph, const struct rondo_graph_change *changes, size_t count);

    /* ---- the road of a call: these do not block and are called with the device entered ---- */

    /* Makes the device current in the calling thread; leave puts back what was. Nest by the token. */
    rondoResult_t (*enter)(struct rondo_device *device, void **token);
    void (*leave)(struct rondo_device *device, void *token);

    /* A number that no other stream of the process has or will have. rondoInvalidArgument: not this device's stream. */
    rondoResult_t (*stream_id)(struct rondo_device *device, struct CUstream_st *stream, uint64_t *id);
    /* rondoInvalidUsage: the capture was invalidated by the user. */
    rondoResult_t (*stream_capture)(struct rondo_device *device, struct CUstream_st *stream,
                                    struct rondo_capture *capture);
    /* The capturing stream's next node will depend on `node` too. */
    rondoResult_t (*capture_depend)(struct rondo_device *device, struct CUstream_st *stream, const void *node);
    /* The capturing stream's next node will depend on `node` alone. */
    rondoResult_t (*capture_continue)(struct rondo_device *device, struct CUstream_st *stream, const void *node);
    /* Whether `node`, which may be gone, is a node of `graph` and launches the kernel with arguments that begin as those do. */
    rondoResult_t (*graph_launches)(struct rondo_device *device, void *graph, const void *node,
                                    const struct rondo_launch *launch, bool *does);
    /* Whether nodes[0] is among `capture->tails` or before one of them. The others (`count` in all) are known to come before it:
     * what is before them need not be looked at. */
    rondoResult_t (*capture_follows)(struct rondo_device *device, const struct rondo_capture *capture,
                                     const void *const *nodes, size_t count, bool *follows);
    /* The graph owns a reference: `release(object)` is called when the graph, its clones and its executables are gone;
     * release must not call the device layer. On an error release was not called. */
    rondoResult_t (*graph_own)(struct rondo_device *device, void *graph, void (*release)(void *), void *object);

    rondoResult_t (*event_record)(struct rondo_device *device, struct rondo_event *event, struct CUstream_st *stream);
    rondoResult_t (*event_wait)(struct rondo_device *device, struct rondo_event *event, struct CUstream_st *stream);
    /* Enqueues or captures one launch. */
    rondoResult_t (*launch)(struct rondo_device *device, const struct rondo_launch *launch);
};

/* Memory of rondoMemAlloc that holds the pointer: for mem_range. Whether there is one. */
bool rondo_user_memory_find(const void *pointer, struct rondo_range *range);

/* Who is told of such memory that is about to be freed, by the thread that frees it. `freed` neither allocates such memory nor watches. */
struct rondo_memory_watcher {
    void (*freed)(void *self, const struct rondo_range *range);
    void *self;
    struct rondo_memory_watcher *next; /* set by watch */
};
void rondo_user_memory_watch(struct rondo_memory_watcher *watcher);
void rondo_user_memory_unwatch(struct rondo_memory_watcher *watcher); /* no call is under way afterwards */

extern const struct rondo_device_ops rondo_device_cuda;
extern const struct rondo_device_ops rondo_device_host;

/* For tests: puts itself between Rondo and the row, before the first use of it. NULL: nothing does. */
extern const struct rondo_device_ops *(*rondo_device_wrap)(const struct rondo_device_ops *row);

/* The row that this process uses: RONDO_DEVICE, else cuda where it is usable, else host. rondoInvalidUsage: the row asked for is not
 * usable or unknown. Constant after the first success. */
rondoResult_t rondo_device_row(const struct rondo_device_ops **ops);

#endif
