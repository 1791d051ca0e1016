#include "device/host_device.h"

#include "common/result.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM_MAGIC 0x6d61657274736f68ull

enum command_kind { DO_ACTION, DO_RECORD, DO_WAIT, DO_GRAPH };

struct host_command {
    struct host_command *next;
    enum command_kind kind;
    struct host_action action;
    struct host_mark *mark;
    rondoHostGraphExec_t exec;
    struct host_program *program;
    uint64_t run;
};

/* Which process this is, counted from the one that loaded the library: a forked child has none of its parent's threads,
 * and its streams are of no use there. Written only in a child, before it has a second thread. */
static unsigned this_process;

/* Default streams are made at first use and live as long as the process. */
static pthread_mutex_t defaults_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *defaults; /* defaults_lock */

/* The process-wide locks are held across a fork, so that a child does not inherit them from a thread that it lacks. */
static void before_fork(void)
{
    pthread_mutex_lock(&host_graph_lock);
    pthread_mutex_lock(&defaults_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&defaults_lock);
    pthread_mutex_unlock(&host_graph_lock);
}

static void in_child(void)
{
    this_process++;
    defaults = NULL;
    host_capture_forget_all();
    after_fork();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static _Thread_local int current_device;

int host_current_device(void)
{
    return current_device;
}

void host_set_current_device(int device)
{
    current_device = device;
}

rondoResult_t rondoHostSetDevice(int device)
{
    if (device < 0)
        return rondo_fail(rondoInvalidArgument, "device is %d", device);
    current_device = device;
    return rondoSuccess;
}

rondoResult_t rondoHostGetDevice(int *device)
{
    if (!device)
        return rondo_fail(rondoInvalidArgument, "device is NULL");
    *device = current_device;
    return rondoSuccess;
}

static void run_command(struct CUstream_st *stream, struct host_command *command)
{
    switch (command->kind) {
    case DO_ACTION:
        host_action_run(&command->action, &stream->pool);
        host_action_fini(&command->action);
        break;
    case DO_RECORD:
        host_mark_happened(command->mark);
        host_mark_drop(command->mark);
        break;
    case DO_WAIT:
        host_mark_await(command->mark, UINT64_MAX);
        host_mark_drop(command->mark);
        break;
    case DO_GRAPH:
        host_exec_run(command->exec, command->program, command->run, &stream->pool);
        break;
    }
    free(command);
}

static void stream_free(struct CUstream_st *stream)
{
    host_pool_fini(&stream->pool);
    pthread_cond_destroy(&stream->progress);
    pthread_cond_destroy(&stream->more);
    pthread_mutex_destroy(&stream->lock);
    free(stream->tails.nodes);
    free(stream);
}

static void *work(void *argument)
{
    struct CUstream_st *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->first && !stream->closing)
            pthread_cond_wait(&stream->more, &stream->lock);
        struct host_command *command = stream->first;
        if (!command)
            break;
        stream->first = command->next;
        pthread_mutex_unlock(&stream->lock);
        run_command(stream, command);
        pthread_mutex_lock(&stream->lock);
        stream->finished++;
        pthread_cond_broadcast(&stream->progress);
    }
    pthread_mutex_unlock(&stream->lock);
    stream_free(stream);
    return NULL;
}

rondoResult_t rondoHostStreamCreate(rondoHostStream_t *handle)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static uint64_t last_id; /* atomic */
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_once(&once, watch_forks);
    if (!handle)
        return rondo_fail(rondoInvalidArgument, "stream is NULL");
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (!stream)
        return rondo_fail(rondoSystemError, "out of memory");
    stream->magic = STREAM_MAGIC;
    stream->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    pthread_mutex_init(&stream->lock, NULL);
    stream->process = this_process;
    pthread_cond_init(&stream->more, NULL);
    pthread_cond_init(&stream->progress, NULL);
    host_pool_init(&stream->pool);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attributes, work, stream);
    pthread_attr_destroy(&attributes);
    if (error) {
        stream_free(stream);
        return rondo_fail(rondoSystemError, "no thread for a stream: %s", strerror(error));
    }
    *handle = stream;
    return rondoSuccess;
}

static rondoResult_t find_default(struct CUstream_st **stream)
{
    rondoResult_t result = rondoSuccess;
    pthread_mutex_lock(&defaults_lock);
    struct CUstream_st *s = defaults;
    while (s && s->device != current_device)
        s = s->next;
    if (!s && (result = rondoHostStreamCreate(&s)) == rondoSuccess) {
        s->device = current_device;
        s->next = defaults;
        defaults = s;
    }
    *stream = s;
    pthread_mutex_unlock(&defaults_lock);
    return result;
}

rondoResult_t host_stream_find(rondoHostStream_t handle, struct CUstream_st **stream)
{
    if (!handle)
        return find_default(stream);
    if ((uintptr_t)handle < 4096 || (uintptr_t)handle % 8 || handle->magic != STREAM_MAGIC)
        return rondo_fail(rondoInvalidArgument, "stream is not a stream of the host device");
    if (handle->process != this_process)
        return rondo_fail(rondoInvalidUsage, "stream was made before the process forked");
    *stream = handle;
    return rondoSuccess;
}

rondoResult_t rondoHostStreamDestroy(rondoHostStream_t handle)
{
    struct CUstream_st *stream;
    if (!handle)
        return rondo_fail(rondoInvalidArgument, "stream is NULL");
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    struct host_capture *ended = stream->capture ? host_capture_leave(stream) : NULL;
    pthread_mutex_unlock(&host_graph_lock);
    if (ended)
        host_capture_free(ended);
    stream->magic = 0;
    pthread_mutex_lock(&stream->lock);
    stream->closing = true;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->lock); /* the worker frees it */
    return rondoSuccess;
}

static bool spoil_if_capturing(struct CUstream_st *stream)
{
    pthread_mutex_lock(&host_graph_lock);
    bool capturing = stream->capture != NULL;
    if (capturing)
        host_capture_spoil(stream);
    pthread_mutex_unlock(&host_graph_lock);
    return capturing;
}

rondoResult_t rondoHostStreamSynchronize(rondoHostStream_t handle)
{
    struct CUstream_st *stream;
    RONDO_TRY(host_stream_find(handle, &stream));
    if (spoil_if_capturing(stream))
        return rondo_fail(rondoInvalidUsage, "a capturing stream cannot be synchronized; its capture is void");
    pthread_mutex_lock(&stream->lock);
    const uint64_t target = stream->enqueued; /* others may go on enqueuing */
    while (stream->finished < target)
        pthread_cond_wait(&stream->progress, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
    return rondoSuccess;
}

rondoResult_t rondoHostStreamQuery(rondoHostStream_t handle)
{
    struct CUstream_st *stream;
    RONDO_TRY(host_stream_find(handle, &stream));
    if (spoil_if_capturing(stream))
        return rondo_fail(rondoInvalidUsage, "a capturing stream cannot be queried; its capture is void");
    pthread_mutex_lock(&stream->lock);
    bool idle = stream->finished == stream->enqueued;
    pthread_mutex_unlock(&stream->lock);
    return idle ? rondoSuccess : rondoInProgress;
}

static rondoResult_t enqueue(struct CUstream_st *stream, const struct host_command *what)
{
    struct host_command *command = malloc(sizeof *command);
    if (!command)
        return rondo_fail(rondoSystemError, "out of memory");
    *command = *what;
    command->next = NULL;
    pthread_mutex_lock(&stream->lock);
    if (stream->first)
        stream->last->next = command;
    else
        stream->first = command;
    stream->last = command;
    stream->enqueued++;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->lock);
    return rondoSuccess;
}

rondoResult_t host_stream_act(rondoHostStream_t handle, const struct host_action *action)
{
    struct CUstream_st *stream;
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    if (stream->capture) {
        rondoResult_t result = host_capture_add(stream, action);
        pthread_mutex_unlock(&host_graph_lock);
        return result;
    }
    pthread_mutex_unlock(&host_graph_lock);
    if (action->kind == HOST_KERNEL)
        RONDO_TRY(host_pool_reserve(&stream->pool, action->blocks));
    struct host_command command = {.kind = DO_ACTION};
    RONDO_TRY(host_action_copy(action, &command.action));
    rondoResult_t result = enqueue(stream, &command);
    if (result != rondoSuccess)
        host_action_fini(&command.action);
    return result;
}

rondoResult_t host_stream_enqueue_graph(struct CUstream_st *stream, rondoHostGraphExec_t exec,
                                        struct host_program *program, uint64_t run)
{
    const struct host_command command = {.kind = DO_GRAPH, .exec = exec, .program = program, .run = run};
    return enqueue(stream, &command);
}

rondoResult_t host_stream_enqueue_record(struct CUstream_st *stream, struct host_mark *mark)
{
    const struct host_command command = {.kind = DO_RECORD, .mark = mark};
    return enqueue(stream, &command);
}

rondoResult_t host_stream_enqueue_wait(struct CUstream_st *stream, struct host_mark *mark)
{
    const struct host_command command = {.kind = DO_WAIT, .mark = mark};
    return enqueue(stream, &command);
}

rondoResult_t rondoHostMemcpyAsync(void *to, const void *from, size_t bytes, rondoHostStream_t stream)
{
    const struct host_action action = {.kind = HOST_COPY, .to = to, .from = from, .bytes = bytes};
    if (bytes && (!to || !from))
        return rondo_fail(rondoInvalidArgument, "%s is NULL", to ? "from" : "to");
    return host_stream_act(stream, &action);
}

rondoResult_t rondoHostMemsetAsync(void *to, int byte, size_t bytes, rondoHostStream_t stream)
{
    const struct host_action action = {.kind = HOST_SET, .to = to, .byte = byte, .bytes = bytes};
    if (bytes && !to)
        return rondo_fail(rondoInvalidArgument, "to is NULL");
    return host_stream_act(stream, &action);
}

rondoResult_t rondoHostLaunch(void (*function)(void *), void *argument, rondoHostStream_t stream)
{
    const struct host_action action = {.kind = HOST_CALL, .function = function, .argument = argument};
    if (!function)
        return rondo_fail(rondoInvalidArgument, "function is NULL");
    return host_stream_act(stream, &action);
}
