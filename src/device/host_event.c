#include "device/host_device.h"

#include "common/clock.h"
#include "common/result.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENT_MAGIC 0x746e766574736f68ull

static rondoResult_t check(rondoHostEvent_t event)
{
    if (!event || event->magic != EVENT_MAGIC)
        return rondo_fail(rondoInvalidArgument, "event is %s", event ? "not an event" : "NULL");
    return rondoSuccess;
}

rondoResult_t rondoHostEventCreate(rondoHostEvent_t *event)
{
    pthread_condattr_t attributes;
    if (!event)
        return rondo_fail(rondoInvalidArgument, "event is NULL");
    rondoHostEvent_t e = calloc(1, sizeof *e);
    if (!e)
        return rondo_fail(rondoSystemError, "out of memory");
    e->magic = EVENT_MAGIC;
    e->references = 1;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *event = e;
    return rondoSuccess;
}

void host_event_hold(rondoHostEvent_t event)
{
    pthread_mutex_lock(&event->lock);
    event->references++;
    pthread_mutex_unlock(&event->lock);
}

void host_event_drop(rondoHostEvent_t event)
{
    pthread_mutex_lock(&event->lock);
    bool last = --event->references == 0;
    pthread_mutex_unlock(&event->lock);
    if (!last)
        return;
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event->tails.nodes);
    free(event);
}

rondoResult_t rondoHostEventDestroy(rondoHostEvent_t event)
{
    RONDO_TRY(check(event));
    event->magic = 0;
    host_event_drop(event);
    return rondoSuccess;
}

void host_event_happened(rondoHostEvent_t event, uint64_t ticket)
{
    pthread_mutex_lock(&event->lock);
    if (ticket > event->done) {
        event->done = ticket;
        event->done_ns = rondo_now_ns();
    }
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->lock);
}

bool host_event_await_for(rondoHostEvent_t event, uint64_t ticket, uint64_t timeout_ns)
{
    const uint64_t now = rondo_now_ns(), end = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    int status = 0;
    pthread_mutex_lock(&event->lock);
    while (event->done < ticket && status == 0)
        status = timeout_ns == UINT64_MAX ? pthread_cond_wait(&event->changed, &event->lock)
                                          : pthread_cond_timedwait(&event->changed, &event->lock, &until);
    bool happened = event->done >= ticket;
    pthread_mutex_unlock(&event->lock);
    return happened;
}

void host_event_await(rondoHostEvent_t event, uint64_t ticket)
{
    host_event_await_for(event, ticket, UINT64_MAX);
}

rondoResult_t rondoHostEventRecord(rondoHostEvent_t event, rondoHostStream_t handle)
{
    struct CUstream_st *stream;
    RONDO_TRY(check(event));
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    if (stream->capture) {
        rondoResult_t result = host_capture_record(stream, event);
        pthread_mutex_unlock(&host_graph_lock);
        return result;
    }
    event->capture_id = 0;
    pthread_mutex_lock(&event->lock);
    const uint64_t ticket = ++event->recorded;
    pthread_mutex_unlock(&event->lock);
    rondoResult_t result = host_stream_enqueue_record(stream, event, ticket);
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

rondoResult_t rondoHostStreamWaitEvent(rondoHostStream_t handle, rondoHostEvent_t event)
{
    struct CUstream_st *stream;
    RONDO_TRY(check(event));
    RONDO_TRY(host_stream_find(handle, &stream));
    rondoResult_t result = rondoSuccess;
    pthread_mutex_lock(&host_graph_lock);
    if (stream->capture || event->capture_id) {
        result = host_capture_wait(stream, event);
    } else {
        pthread_mutex_lock(&event->lock);
        const uint64_t ticket = event->recorded;
        const bool pending = ticket > event->done;
        pthread_mutex_unlock(&event->lock);
        if (pending)
            result = host_stream_enqueue_wait(stream, event, ticket);
    }
    pthread_mutex_unlock(&host_graph_lock);
    return result;
}

static rondoResult_t ticket_of(rondoHostEvent_t event, uint64_t *ticket)
{
    RONDO_TRY(check(event));
    pthread_mutex_lock(&host_graph_lock);
    const bool captured = event->capture_id != 0;
    pthread_mutex_unlock(&host_graph_lock);
    if (captured)
        return rondo_fail(rondoInvalidUsage, "the event was last recorded in a capture");
    pthread_mutex_lock(&event->lock);
    *ticket = event->recorded;
    pthread_mutex_unlock(&event->lock);
    return rondoSuccess;
}

rondoResult_t rondoHostEventSynchronize(rondoHostEvent_t event)
{
    uint64_t ticket;
    RONDO_TRY(ticket_of(event, &ticket));
    host_event_await(event, ticket);
    return rondoSuccess;
}

rondoResult_t rondoHostEventQuery(rondoHostEvent_t event)
{
    uint64_t ticket;
    RONDO_TRY(ticket_of(event, &ticket));
    return host_event_await_for(event, ticket, 0) ? rondoSuccess : rondoInProgress;
}

rondoResult_t rondoHostEventElapsed(float *milliseconds, rondoHostEvent_t from, rondoHostEvent_t to)
{
    uint64_t ticket;
    const rondoHostEvent_t both[] = {from, to};
    uint64_t times[2];
    if (!milliseconds)
        return rondo_fail(rondoInvalidArgument, "milliseconds is NULL");
    for (int i = 0; i < 2; i++) {
        RONDO_TRY(ticket_of(both[i], &ticket));
        if (ticket == 0 || !host_event_await_for(both[i], ticket, 0))
            return rondo_fail(rondoInvalidUsage, "an event has not happened yet");
        pthread_mutex_lock(&both[i]->lock);
        times[i] = both[i]->done_ns;
        pthread_mutex_unlock(&both[i]->lock);
    }
    *milliseconds = (float)((double)(int64_t)(times[1] - times[0]) * 1e-6);
    return rondoSuccess;
}
