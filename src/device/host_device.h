/* The host device's parts, for each other.
 *
 * Lock order: the graph lock (host_graph.c), then a stream's, then an event's. An executable graph's lock and a pool's
 * are taken alone. */
#ifndef RONDO_DEVICE_HOST_DEVICE_H
#define RONDO_DEVICE_HOST_DEVICE_H

#include "rondo/host.h"

#include "device/device.h"

#include <pthread.h>

/* ---- blocks: host_pool.c ---- */

/* Threads that run the blocks of one launch at a time, besides the caller. Zeroed is empty. */
struct host_pool {
    pthread_mutex_t lock; /* guards all */
    pthread_cond_t changed;
    pthread_t *threads;
    unsigned thread_count;
    unsigned long generation; /* launches so far */
    unsigned blocks, left;    /* of the current launch; blocks that still run, the caller's excepted */
    void (*kernel)(const void *);
    const void *args;
    bool closing;
};
void host_pool_init(struct host_pool *pool);
/* Runs all blocks at the same time and returns when all are done. */
void host_pool_run(struct host_pool *pool, void (*kernel)(const void *), const void *args, unsigned blocks);
void host_pool_fini(struct host_pool *pool);

/* ---- actions: what a stream does or a graph's node is ---- */

enum host_action_kind { HOST_KERNEL, HOST_CALL, HOST_COPY, HOST_SET };

struct host_action {
    enum host_action_kind kind;
    void (*kernel)(const void *);
    void (*function)(void *);
    void *argument; /* of the function; of a kernel: a copy, owned */
    void *to;
    const void *from;
    size_t bytes; /* also of a kernel's arguments */
    int byte;
    unsigned blocks;
};
void host_action_run(const struct host_action *action, struct host_pool *pool);
/* A copy that owns its arguments. */
rondoResult_t host_action_copy(const struct host_action *from, struct host_action *to);
void host_action_fini(struct host_action *action);

/* ---- streams: host_stream.c ---- */

struct host_capture;
struct host_command;

struct host_tails {
    rondoHostNode_t *nodes;
    size_t count, room;
};

struct CUstream_st {
    uint64_t magic;
    uint64_t id;
    pthread_mutex_t lock; /* guards the queue */
    pthread_cond_t changed;
    struct host_command *first, *last;
    bool running, closing;
    struct host_pool pool;           /* worker's */
    struct host_capture *capture;    /* graph lock */
    struct CUstream_st *next_member; /* of the capture; graph lock */
    struct host_tails tails;         /* graph lock */
};

/* The stream behind a handle: NULL is the current device's default stream. rondoInvalidArgument: no stream. */
rondoResult_t host_stream_find(rondoHostStream_t handle, struct CUstream_st **stream);
/* Enqueues, or adds to the capture. The action's arguments are copied. */
rondoResult_t host_stream_act(rondoHostStream_t handle, const struct host_action *action);
rondoResult_t host_stream_enqueue_graph(struct CUstream_st *stream, rondoHostGraphExec_t exec);
rondoResult_t host_stream_enqueue_record(struct CUstream_st *stream, rondoHostEvent_t event, uint64_t ticket);
rondoResult_t host_stream_enqueue_wait(struct CUstream_st *stream, rondoHostEvent_t event, uint64_t ticket);

/* ---- events: host_event.c ---- */

struct rondoHostEvent {
    uint64_t magic;
    pthread_mutex_t lock; /* guards the numbers */
    pthread_cond_t changed;
    unsigned references;
    uint64_t recorded, done; /* records asked for, and the last that has happened */
    uint64_t done_ns;
    uint64_t capture_id;     /* of the capture that it was last recorded in, 0: none; graph lock */
    struct host_tails tails; /* as of then; graph lock */
};
void host_event_happened(rondoHostEvent_t event, uint64_t ticket);
void host_event_await(rondoHostEvent_t event, uint64_t ticket);
/* Whether it happened within the time; UINT64_MAX: no limit. */
bool host_event_await_for(rondoHostEvent_t event, uint64_t ticket, uint64_t timeout_ns);
void host_event_hold(rondoHostEvent_t event);
void host_event_drop(rondoHostEvent_t event);

/* ---- captures and graphs: host_graph.c ---- */

extern pthread_mutex_t host_graph_lock;

/* Under the graph lock: */
rondoResult_t host_capture_add(struct CUstream_st *stream, const struct host_action *action);
rondoResult_t host_capture_record(struct CUstream_st *stream, rondoHostEvent_t event);
rondoResult_t host_capture_wait(struct CUstream_st *stream, rondoHostEvent_t event);
void host_capture_spoil(struct CUstream_st *stream);
rondoResult_t host_tails_add(struct host_tails *tails, rondoHostNode_t node);

/* What a graph and its executables keep alive together. */
struct host_owner;
struct host_owners {
    struct host_owner **list;
    size_t count;
};
rondoResult_t host_graph_share_owners(rondoHostGraph_t graph, struct host_owners *owners);
void host_owners_drop(struct host_owners *owners);

/* What an executable takes over of a graph's node: a copy of what it does, and the numbers of the nodes it needs. */
rondoResult_t host_graph_copy_node(rondoHostGraph_t graph, size_t index, struct host_action *action, size_t **needs,
                                   size_t *need_count);

/* ---- executable graphs: host_exec.c ---- */

void host_exec_run(rondoHostGraphExec_t exec, struct host_pool *pool); /* and drops the run's reference */

/* Members of the row, in host_graph.c. */
rondoResult_t host_stream_capture(struct rondo_device *, struct CUstream_st *, struct rondo_capture *);
rondoResult_t host_capture_depend(struct rondo_device *, struct CUstream_st *, const void *);
rondoResult_t host_capture_follows(struct rondo_device *, const struct rondo_capture *, const void *, bool *);
rondoResult_t host_graph_own(struct rondo_device *, void *, void (*)(void *), void *);

/* The thread's current device: host_stream.c */
int host_current_device(void);
void host_set_current_device(int device);

#endif
