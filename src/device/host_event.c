#include "device/host_device.h"

#include "common/clock.h"
#include "common/result.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENT_MAGIC 0x746e766574736f68ull

struct host_mark {
    pthread_mutex_t lock; /* guards all */
    pthread_cond_t changed;
    unsigned references;
    bool happened;
    uint64_t when_ns;
};

/* ---- marks ---- */

static struct host_mark *mark_create(unsigned references)
{
    pthread_condattr_t attributes;
    struct host_mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        return NULL;
    mark->references = references;
    pthread_mutex_init(&mark->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&mark->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return mark;
}

static void mark_hold(struct host_mark *mark)
{
    pthread_mutex_lock(&mark->lock);
    mark->references++;
    pthread_mutex_unlock(&mark->lock);
}

/* `count` references at once. */
static void mark_drop(struct host_mark *mark, unsigned count)
{
    pthread_mutex_lock(&mark->lock);
    bool last = (mark->references -= count) == 0;
    pthread_mutex_unlock(&mark->lock);
    if (!last)
        return;
    pthread_cond_destroy(&mark->changed);
    pthread_mutex_destroy(&mark->lock);
    free(mark);
}

void host_mark_drop(struct host_mark *mark)
{
    mark_drop(mark, 1);
}

void host_mark_happened(struct host_mark *mark)
{
    pthread_mutex_lock(&mark->lock);
    mark->happened = true;
    mark->when_ns = rondo_now_ns();
    pthread_cond_broadcast(&mark->changed);
    pthread_mutex_unlock(&mark->lock);
}

bool host_mark_await(struct host_mark *mark, uint64_t timeout_ns)
{
    const uint64_t now = rondo_now_ns(), end = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    int status = 0;
    pthread_mutex_lock(&mark->lock);
    while (!mark->happened && status == 0 && timeout_ns > 0)
        status = timeout_ns == UINT64_MAX ? pthread_cond_wait(&mark->changed, &mark->lock)
                                          : pthread_cond_timedwait(&mark->changed, &mark->lock, &until);
    bool happened = mark->happened;
    pthread_mutex_unlock(&mark->lock);
    return happened;
}

/* ---- events ---- */

static rondoResult_t check(rondoHostEvent_t event)
{
    if (!event || event->magic != EVENT_MAGIC)
        return rondo_fail(rondoInvalidArgument, "event is %s", event ? "not an event" : "NULL");
    return rondoSuccess;
}

rondoResult_t rondoHostEventCreate(rondoHostEvent_t *event)
{
    if (!event)
        return rondo_fail(rondoInvalidArgument, "event is NULL");
    rondoHostEvent_t e = calloc(1, sizeof *e);
    if (!e)
        return rondo_fail(rondoSystemError, "out of memory");
    e->magic = EVENT_MAGIC;
    *event = e;
    return rondoSuccess;
}

/* Streams that are to record it or wait for it hold its mark, not the event. */
rondoResult_t rondoHostEventDestroy(rondoHostEvent_t event)
{
    RONDO_TRY(check(event));
    event->magic = 0;
    if (event->mark)
        host_mark_drop(event->mark);
    free(event->tails.nodes);
    free(event);
    return rondoSuccess;
}

/* Under the graph lock. */
static rondoResult_t record(struct CUstream_st *stream, rondoHostEvent_t event)
{
    struct host_mark *mark = mark_create(2); /* the event's reference and the command's */
    if (!mark)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = host_stream_enqueue_record(stream, mark);
    if (result != rondoSuccess) {
        mark_drop(mark, 2);
        return result;
    }
    if (event->mark)
        host_mark_drop(event->mark);
    event->mark = mark;
    event->capture_id = 0;
    return rondoSuccess;
}

rondoResult_t rondoHostEventRecord(rondoHostEvent_t event, rondoHostStream_t handle)
{
    struct CUstream_st *stream;
    RONDO_TRY(check(event));
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result = stream->capture ? host_capture_record(stream, event) : record(stream, event);
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

/* Under the graph lock. */
static rondoResult_t wait_for(struct CUstream_st *stream, struct host_mark *mark)
{
    if (!mark || host_mark_await(mark, 0))
        return rondoSuccess;
    mark_hold(mark);
    rondoResult_t result = host_stream_enqueue_wait(stream, mark);
    if (result != rondoSuccess)
        host_mark_drop(mark);
    return result;
}

rondoResult_t rondoHostStreamWaitEvent(rondoHostStream_t handle, rondoHostEvent_t event)
{
    struct CUstream_st *stream;
    RONDO_TRY(check(event));
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    rondoResult_t result =
        stream->capture || event->capture_id ? host_capture_wait(stream, event) : wait_for(stream, event->mark);
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

/* A reference to the event's mark, NULL where it has none. */
static struct host_mark *mark_of(rondoHostEvent_t event)
{
    pthread_mutex_lock(&host_graph_lock);
    struct host_mark *mark = event->mark;
    if (mark)
        mark_hold(mark);
    pthread_mutex_unlock(&host_graph_lock);
    return mark;
}

bool host_event_await(rondoHostEvent_t event, uint64_t timeout_ns)
{
    bool happened = true;
    struct host_mark *mark = mark_of(event);
    if (mark) {
        happened = host_mark_await(mark, timeout_ns);
        host_mark_drop(mark);
    }
    return happened;
}

static rondoResult_t check_not_captured(rondoHostEvent_t event)
{
    RONDO_TRY(check(event));
    pthread_mutex_lock(&host_graph_lock);
    const bool captured = event->capture_id != 0;
    pthread_mutex_unlock(&host_graph_lock);
    return captured ? rondo_fail(rondoInvalidUsage, "the event was last recorded in a capture") : rondoSuccess;
}

rondoResult_t rondoHostEventSynchronize(rondoHostEvent_t event)
{
    RONDO_TRY(check_not_captured(event));
    host_event_await(event, UINT64_MAX);
    return rondoSuccess;
}

rondoResult_t rondoHostEventQuery(rondoHostEvent_t event)
{
    RONDO_TRY(check_not_captured(event));
    return host_event_await(event, 0) ? rondoSuccess : rondoInProgress;
}

/* When the event happened; 0: it did not. */
static rondoResult_t time_of(rondoHostEvent_t event, uint64_t *when_ns)
{
    RONDO_TRY(check_not_captured(event));
    *when_ns = 0;
    struct host_mark *mark = mark_of(event);
    if (mark) {
        pthread_mutex_lock(&mark->lock);
        *when_ns = mark->when_ns;
        pthread_mutex_unlock(&mark->lock);
        host_mark_drop(mark);
    }
    return rondoSuccess;
}

rondoResult_t rondoHostEventElapsed(float *milliseconds, rondoHostEvent_t from, rondoHostEvent_t to)
{
    uint64_t begin, end;
    if (!milliseconds)
        return rondo_fail(rondoInvalidArgument, "milliseconds is NULL");
    RONDO_TRY(time_of(from, &begin));
    RONDO_TRY(time_of(to, &end));
    if (!begin || !end)
        return rondo_fail(rondoInvalidUsage, "an event has not happened yet");
    *milliseconds = (float)((double)(int64_t)(end - begin) * 1e-6);
    return rondoSuccess;
}
