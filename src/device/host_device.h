/* The host device's parts, for each other.
 *
 * Lock order: the graph lock (host_graph.c), then the default streams' lock (host_stream.c), an executable's or a
 * stream's; an executable's before a stream's. A mark's and a pool's are taken last and alone. No lock is held while an
 * action runs or an owner's release is called. */
#ifndef RONDO_DEVICE_HOST_DEVICE_H
#define RONDO_DEVICE_HOST_DEVICE_H

#include "rondo/host.h"

#include "device/device.h"

#include <pthread.h>

/* ---- blocks: host_pool.c ---- */

/* Threads that run the blocks of one launch at a time, besides the caller. */
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
/* Makes the threads that launches of so many blocks need. Any thread may call it, while a launch runs too.
 * rondoSystemError: there are no more to be had. */
rondoResult_t host_pool_reserve(struct host_pool *pool, unsigned blocks);
/* Runs all blocks, for which there are threads, at the same time and returns when all are done. */
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
struct host_mark;
struct host_program;

struct host_tails {
    rondoHostNode_t *nodes;
    size_t count, room;
};

struct CUstream_st {
    uint64_t magic;
    uint64_t id;
    unsigned process;        /* see host_stream.c */
    pthread_mutex_t lock;    /* guards the queue */
    pthread_cond_t more;     /* the worker waits for commands */
    pthread_cond_t progress; /* others wait for the worker */
    struct host_command *first, *last;
    uint64_t enqueued, finished; /* commands so far */
    bool closing;
    struct host_pool pool;           /* the worker runs launches in it */
    struct host_capture *capture;    /* graph lock */
    struct CUstream_st *next_member; /* of the capture; graph lock */
    struct host_tails tails;         /* the next node's dependencies; graph lock */
    int device;                      /* of a default stream */
    struct CUstream_st *next;        /* among default streams; their lock */
};

/* The stream behind a handle: NULL is the current device's default stream. rondoInvalidArgument: no stream. */
rondoResult_t host_stream_find(rondoHostStream_t handle, struct CUstream_st **stream);
/* Enqueues, or adds to the capture. The action's arguments are copied. */
rondoResult_t host_stream_act(rondoHostStream_t handle, const struct host_action *action);
/* These take over a reference of the caller's unless they fail. */
rondoResult_t host_stream_enqueue_graph(struct CUstream_st *stream, rondoHostGraphExec_t exec,
                                        struct host_program *program, uint64_t run);
rondoResult_t host_stream_enqueue_record(struct CUstream_st *stream, struct host_mark *mark);
rondoResult_t host_stream_enqueue_wait(struct CUstream_st *stream, struct host_mark *mark);

/* ---- events: host_event.c ---- */

/* One record of an event. Who waits for it is not concerned with what is recorded in the event later. Counted. */
struct host_mark;

struct rondoHostEvent {
    uint64_t magic;
    struct host_mark *mark;  /* of the last record outside captures, NULL: none; graph lock */
    uint64_t capture_id;     /* of the capture that it was last recorded in, 0: none; graph lock */
    struct host_tails tails; /* as of then; graph lock */
};
void host_mark_happened(struct host_mark *mark);
/* Whether it happened within the time; UINT64_MAX: no limit. */
bool host_mark_await(struct host_mark *mark, uint64_t timeout_ns);
void host_mark_drop(struct host_mark *mark);
/* The same for what the event recorded last; true if it never did. */
bool host_event_await(rondoHostEvent_t event, uint64_t timeout_ns);

/* ---- captures: host_capture.c; graphs: host_graph.h ---- */

extern pthread_mutex_t host_graph_lock;

/* In a forked child: its parent's captures are no concern of its own. */
void host_capture_forget_all(void);

/* Under the graph lock: */
rondoResult_t host_capture_add(struct CUstream_st *stream, const struct host_action *action);
rondoResult_t host_capture_record(struct CUstream_st *stream, rondoHostEvent_t event);
rondoResult_t host_capture_wait(struct CUstream_st *stream, rondoHostEvent_t event);
void host_capture_spoil(struct CUstream_st *stream);
/* The stream goes out of the capture, which is void then and, if it began here, over. What is returned is to be freed,
 * without the lock; NULL: nothing. */
struct host_capture *host_capture_leave(struct CUstream_st *stream);
void host_capture_free(struct host_capture *capture);

/* What a graph and its executables keep alive together. */
struct host_owner;
struct host_owners {
    struct host_owner **list;
    size_t count;
};
void host_owners_drop(struct host_owners *owners);

/* ---- executable graphs: host_exec.c ---- */

/* Does the run with this number, when those before it are over, and drops its references. */
void host_exec_run(rondoHostGraphExec_t exec, struct host_program *program, uint64_t run, struct host_pool *pool);

/* Members of the row, in host_copier.c, host_capture.c and host_graph.c. */
rondoResult_t host_copier_create(struct rondo_device *, struct rondo_copier **);
void host_copier_destroy(struct rondo_device *, struct rondo_copier *);
rondoResult_t host_copier_copy(struct rondo_copier *, void *, const void *, size_t);
rondoResult_t host_copier_mark(struct rondo_copier *, uint64_t *);
rondoResult_t host_copier_passed(struct rondo_copier *, uint64_t *);

rondoResult_t host_stream_capture(struct rondo_device *, struct CUstream_st *, struct rondo_capture *);
rondoResult_t host_capture_depend(struct rondo_device *, struct CUstream_st *, const void *);
rondoResult_t host_capture_continue(struct rondo_device *, struct CUstream_st *, const void *);
rondoResult_t host_graph_launches(struct rondo_device *, void *, const void *, const struct rondo_launch *, bool *);
rondoResult_t host_capture_follows(struct rondo_device *, const struct rondo_capture *, const void *const *, size_t,
                                   bool *);
rondoResult_t host_graph_own(struct rondo_device *, void *, void (*)(void *), void *);

rondoResult_t host_graph_open(void *, struct rondo_graph_view *);
void host_graph_close(struct rondo_graph_view *);
rondoResult_t host_graph_change(void *, void *, const struct rondo_graph_change *, size_t);

/* The thread's current device: host_stream.c */
int host_current_device(void);
void host_set_current_device(int device);

#endif
