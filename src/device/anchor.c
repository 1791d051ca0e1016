#include "device/anchor.h"

#include "common/result.h"

#include <pthread.h>
#include <stdlib.h>

/* Guards references, the list and the count. Nothing else is locked while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rondo_anchor *unneeded;
static struct delay *delayed;
static struct rondo_anchor *newest; /* of those with references */
static uint64_t last_id;
static unsigned count;

/* A reference that waits for its event. */
struct delay {
    struct rondo_anchor *anchor;
    struct rondo_event *event;
    struct delay *next; /* lock */
};

rondoResult_t rondo_anchor_create(const struct rondo_device_ops *ops, int ordinal, struct rondo_anchor **anchor)
{
    struct rondo_anchor *a = calloc(1, sizeof *a);
    if (!a)
        return rondo_fail(rondoSystemError, "out of memory");
    a->ops = ops;
    a->references = 1;
    rondoResult_t result = ops->open(ordinal, &a->device);
    if (result != rondoSuccess) {
        free(a);
        return result;
    }
    pthread_mutex_lock(&lock);
    a->id = ++last_id;
    a->older = newest;
    if (newest)
        newest->newer = a;
    newest = a;
    count++;
    pthread_mutex_unlock(&lock);
    *anchor = a;
    return rondoSuccess;
}

void rondo_anchor_hold(struct rondo_anchor *anchor)
{
    pthread_mutex_lock(&lock);
    anchor->references++;
    pthread_mutex_unlock(&lock);
}

struct rondo_anchor *rondo_anchor_find(uint64_t id)
{
    pthread_mutex_lock(&lock);
    struct rondo_anchor *anchor = newest;
    while (anchor && anchor->id != id)
        anchor = anchor->older;
    if (anchor)
        anchor->references++;
    pthread_mutex_unlock(&lock);
    return anchor;
}

struct rondo_anchor *rondo_anchor_of(const void *control)
{
    pthread_mutex_lock(&lock);
    struct rondo_anchor *anchor = newest;
    while (anchor && (uintptr_t)control - (uintptr_t)anchor->control.address >= anchor->control.bytes)
        anchor = anchor->older;
    if (anchor)
        anchor->references++;
    pthread_mutex_unlock(&lock);
    return anchor;
}

/* Under the lock: there are no references any more, and nobody is to find it. */
static void unlist(struct rondo_anchor *anchor)
{
    if (anchor->older)
        anchor->older->newer = anchor->newer;
    if (anchor->newer)
        anchor->newer->older = anchor->older;
    else
        newest = anchor->older;
}

/* Whether that was the last reference. */
static bool release(struct rondo_anchor *anchor, bool later)
{
    pthread_mutex_lock(&lock);
    bool last = --anchor->references == 0;
    if (last)
        unlist(anchor);
    if (last && later) {
        anchor->next = unneeded;
        unneeded = anchor;
    }
    pthread_mutex_unlock(&lock);
    return last;
}

static void destroy(struct rondo_anchor *anchor)
{
    anchor->ops->mem_free(anchor->device, &anchor->control);
    anchor->ops->mem_free(anchor->device, &anchor->trace);
    for (int a = 0; a < RONDO_AREA_COUNT; a++)
        anchor->ops->mem_free(anchor->device, &anchor->areas[a]);
    anchor->ops->pinned_free(anchor->device, &anchor->rings);
    anchor->ops->pinned_free(anchor->device, &anchor->copies);
    anchor->ops->pinned_free(anchor->device, &anchor->selftest);
    anchor->ops->pinned_free(anchor->device, &anchor->reports);
    anchor->ops->close(anchor->device);
    free(anchor);
    pthread_mutex_lock(&lock);
    count--;
    pthread_mutex_unlock(&lock);
}

void rondo_anchor_drop(struct rondo_anchor *anchor)
{
    if (anchor && release(anchor, false))
        destroy(anchor);
}

void rondo_anchor_drop_later(void *anchor)
{
    release(anchor, true);
}

static void wait_for_later(struct delay *delay)
{
    pthread_mutex_lock(&lock);
    delay->next = delayed;
    delayed = delay;
    pthread_mutex_unlock(&lock);
}

void rondo_anchor_drop_after(struct rondo_anchor *anchor, struct rondo_event *event)
{
    struct delay *delay = malloc(sizeof *delay);
    if (!delay)
        return; /* out of memory: the reference stays */
    *delay = (struct delay){anchor, event, NULL};
    wait_for_later(delay);
}

/* An event that cannot be asked about has not happened: rather the memory stays than a launch finds it gone. */
static void reap_delayed(void)
{
    pthread_mutex_lock(&lock);
    struct delay *list = delayed;
    delayed = NULL;
    pthread_mutex_unlock(&lock);
    while (list) {
        struct delay *delay = list;
        struct rondo_anchor *anchor = delay->anchor;
        bool done = false;
        list = delay->next;
        if (anchor->ops->event_wait_host(anchor->device, delay->event, 0, &done) == rondoSuccess && done) {
            anchor->ops->event_destroy(anchor->device, delay->event);
            rondo_anchor_drop(anchor);
            free(delay);
        } else {
            wait_for_later(delay);
        }
    }
}

void rondo_anchor_reap(void)
{
    reap_delayed();
    pthread_mutex_lock(&lock);
    struct rondo_anchor *list = unneeded;
    unneeded = NULL;
    pthread_mutex_unlock(&lock);
    while (list) {
        struct rondo_anchor *next = list->next;
        destroy(list);
        list = next;
    }
}

bool rondo_anchor_is_legacy(const struct rondo_anchor *anchor)
{
    for (int a = 0; a < RONDO_AREA_COUNT; a++)
        if (anchor->areas[a].kind == RONDO_MEM_LEGACY)
            return true;
    return false;
}

unsigned rondo_anchor_references(const struct rondo_anchor *anchor)
{
    pthread_mutex_lock(&lock);
    unsigned n = anchor->references;
    pthread_mutex_unlock(&lock);
    return n;
}

unsigned rondo_anchor_count(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = count;
    pthread_mutex_unlock(&lock);
    return n;
}
