#include "transport/mover.h"

#include "common/clock.h"
#include "common/numa.h"
#include "common/result.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* How long a mover without work polls at full speed, and how long it sleeps between looks afterwards. */
enum { EAGER_NS = 1000000, NAP_NS = 50000, PAUSES_PER_CLOCK = 64 };

/* A post whose copy was submitted, until it is passed on. */
struct passing {
    uint64_t mark;
    struct rondo_post post;
};

struct way {
    struct rondo_route route;
    struct rondo_copier *copier;
    uint32_t taken;                                 /* posts of the ring */
    uint32_t passed;                                /* posts of the next ring */
    struct passing passing[RONDO_COPIER_MARKS - 1]; /* a queue */
    unsigned first, count;                          /* of it */
};

/* One copy is under way at a time: what other lanes ask for meanwhile can be withdrawn without waiting for it. */
struct copy_way {
    struct rondo_copy_route route;
    struct rondo_copier *copier;
    struct rondo_copy *copy; /* that is under way; NULL: none */
    uint64_t mark;           /* behind it */
    unsigned next;           /* lane that is looked at first, so that each has its turn */
};

struct rondo_mover {
    const struct rondo_device_ops *ops;
    struct rondo_device *device;
    void (*failed)(void *object, unsigned peer);
    void *object;
    pthread_t thread;
    pid_t process;
    int stop;         /* atomic: the thread is to end once it is idle */
    uint64_t stop_by; /* or at this time; written before stop */
    unsigned count, copy_count;
    struct way *ways;
    struct copy_way *copy_ways;
    uint64_t copies; /* atomic; the thread's */
};

/* The ring's next post, if there is one. Kernels write both words at once, or release them one by one. */
static bool look(const struct rondo_post_ring *ring, uint32_t number, struct rondo_post *post)
{
    const struct rondo_post *at = &ring->posts[number % RONDO_POSTS];
    const uint64_t lap = rondo_post_lap(number) >> RONDO_POST_SHIFT, mask = ((uint64_t)1 << RONDO_POST_SHIFT) - 1;
    const uint64_t offset = __atomic_load_n(&at->offset, __ATOMIC_ACQUIRE); /* rondo_pair_store, put */
    const uint64_t bytes = __atomic_load_n(&at->bytes, __ATOMIC_ACQUIRE);
    if (offset >> RONDO_POST_SHIFT != lap || bytes >> RONDO_POST_SHIFT != lap)
        return false;
    post->offset = offset & mask;
    post->bytes = bytes & mask;
    return true;
}

/* Makes a post, as kernels do; false: the ring is full. */
static bool put(struct rondo_post_ring *ring, uint32_t number, const struct rondo_post *post)
{
    struct rondo_post *at = &ring->posts[number % RONDO_POSTS];
    const uint64_t lap = rondo_post_lap(number);
    if (number - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) >= RONDO_POSTS)
        return false;
    __atomic_store_n(&at->offset, post->offset | lap, __ATOMIC_RELEASE);
    __atomic_store_n(&at->bytes, post->bytes | lap, __ATOMIC_RELEASE);
    return true;
}

static rondoResult_t submit(struct way *way, const struct rondo_post *post, const struct rondo_device_ops *ops)
{
    const struct rondo_route *route = &way->route;
    struct passing *last = &way->passing[(way->first + way->count) % (RONDO_COPIER_MARKS - 1)];
    RONDO_TRY(ops->copier_copy(way->copier, route->to + post->offset, route->from + post->offset, post->bytes));
    if (!route->next)
        return rondoSuccess;
    last->post = *post;
    RONDO_TRY(ops->copier_mark(way->copier, &last->mark));
    way->count++;
    return rondoSuccess;
}

static rondoResult_t pass_on(struct way *way, const struct rondo_device_ops *ops)
{
    uint64_t done;
    if (!way->count)
        return rondoSuccess;
    RONDO_TRY(ops->copier_passed(way->copier, &done));
    while (way->count && way->passing[way->first].mark <= done &&
           put(way->route.next, way->passed, &way->passing[way->first].post)) {
        way->passed++;
        way->first = (way->first + 1) % (RONDO_COPIER_MARKS - 1);
        way->count--;
    }
    return rondoSuccess;
}

/* *worked: there was something to do. */
static rondoResult_t serve(struct way *way, const struct rondo_device_ops *ops, bool *worked)
{
    struct rondo_post post;
    while (way->count < RONDO_COPIER_MARKS - 1 && look(way->route.ring, way->taken, &post)) {
        RONDO_TRY(submit(way, &post, ops));
        way->taken++;
        __atomic_store_n(&way->route.ring->taken, way->taken, __ATOMIC_RELEASE); /* rondo_post_range, put */
        *worked = true;
    }
    *worked |= way->count != 0;
    return pass_on(way, ops);
}

/* ---- from buffer to buffer ---- */

static void refuse(struct rondo_copy *copy)
{
    const uint32_t number = __atomic_load_n(&copy->taken, __ATOMIC_RELAXED);
    __atomic_store_n(&copy->refused, number, __ATOMIC_RELEASE); /* rondo_copy_let_go */
}

/* Looks for a request that is new, and whether it can be begun: it cannot if it was withdrawn, or nothing is copied any more; then who
 * asked is told so. One that can be waits while `busy`. Kernels store the number last. */
static bool take(struct rondo_copy *copy, bool refuses, bool busy)
{
    const uint32_t number = __atomic_load_n(&copy->number, __ATOMIC_ACQUIRE); /* rondo_copy_ask */
    if (number == __atomic_load_n(&copy->taken, __ATOMIC_RELAXED))
        return false;
    const bool begins =
        !refuses && __atomic_load_n(&copy->withdrawn, __ATOMIC_ACQUIRE) != number; /* rondo_copy_await */
    if (begins && busy)
        return false;
    __atomic_store_n(&copy->taken, number, __ATOMIC_RELAXED);
    if (!begins)
        refuse(copy);
    return begins;
}

static rondoResult_t begin_copy(struct rondo_mover *mover, struct copy_way *way, struct rondo_copy *copy)
{
    void *to = (void *)(uintptr_t)__atomic_load_n(&copy->to, __ATOMIC_RELAXED);
    const void *from = (const void *)(uintptr_t)__atomic_load_n(&copy->from, __ATOMIC_RELAXED);
    const uint64_t bytes = __atomic_load_n(&copy->bytes, __ATOMIC_RELAXED);
    rondoResult_t result = mover->ops->copier_copy(way->copier, to, from, bytes);
    if (result == rondoSuccess) {
        __atomic_fetch_add(&mover->copies, 1, __ATOMIC_RELAXED); /* before anyone can know that it is done */
        result = mover->ops->copier_mark(way->copier, &way->mark);
    }
    if (result == rondoSuccess)
        way->copy = copy;
    else
        refuse(copy);
    return result;
}

static rondoResult_t end_copy(struct rondo_mover *mover, struct copy_way *way)
{
    uint64_t passed;
    struct rondo_copy *copy = way->copy;
    const rondoResult_t result = mover->ops->copier_passed(way->copier, &passed);
    if (result == rondoSuccess && passed < way->mark)
        return rondoSuccess;
    way->copy = NULL;
    if (result == rondoSuccess)
        __atomic_store_n(&copy->done, __atomic_load_n(&copy->taken, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE); /* rondo_copy_await, rondo_copy_let_go */
    else
        refuse(copy);
    return result;
}

/* `refuses`: nothing is copied any more, and who asks is told so. *worked: there is something to do. */
static rondoResult_t serve_copies(struct rondo_mover *mover, struct copy_way *way, bool refuses, bool *worked)
{
    const unsigned lanes = way->route.lanes, first = way->next;
    if (way->copy)
        RONDO_TRY(end_copy(mover, way));
    for (unsigned i = 0; i < lanes; i++) {
        const unsigned lane = (first + i) % lanes;
        struct rondo_copy *copy = way->route.asked + lane * way->route.pitch;
        if (!take(copy, refuses, way->copy != NULL))
            continue;
        way->next = (lane + 1) % lanes;
        RONDO_TRY(begin_copy(mover, way, copy));
    }
    *worked |= way->copy != NULL;
    return rondoSuccess;
}

/* ---- the thread ---- */

/* Waits a little, the longer the less there was to do. */
static void rest(uint64_t *idle_since, unsigned *looks)
{
    if (++*looks % PAUSES_PER_CLOCK)
        return;
    const uint64_t now = rondo_now_ns();
    if (*idle_since == 0)
        *idle_since = now;
    else if (now - *idle_since > EAGER_NS)
        rondo_sleep_ns(NAP_NS);
    else
        sched_yield();
}

/* Says once that copies fail: to which peer. */
static void check(struct rondo_mover *mover, rondoResult_t result, unsigned peer, bool *failed)
{
    if (result == rondoSuccess || *failed)
        return;
    *failed = true;
    mover->failed(mover->object, peer);
}

/* A round of all ways, of which something may have failed before. Whether there was something to do. */
static bool look_round(struct rondo_mover *mover, bool *failed)
{
    bool worked = false;
    for (unsigned w = 0; w < mover->count && !*failed; w++)
        check(mover, serve(&mover->ways[w], mover->ops, &worked), mover->ways[w].route.peer, failed);
    for (unsigned w = 0; w < mover->copy_count; w++)
        check(mover, serve_copies(mover, &mover->copy_ways[w], *failed, &worked), mover->copy_ways[w].route.peer,
              failed);
    return worked;
}

static void *run(void *argument)
{
    struct rondo_mover *mover = argument;
    struct rondo_device_info info;
    uint64_t idle_since = 0;
    unsigned looks = 0;
    bool failed = false;
    void *token;
    mover->ops->info(mover->device, &info);
    rondo_numa_stay(info.numa_node);
    check(mover, mover->ops->enter(mover->device, &token),
          mover->count ? mover->ways[0].route.peer : mover->copy_ways[0].route.peer, &failed);
    for (;;) {
        const bool stop = __atomic_load_n(&mover->stop, __ATOMIC_ACQUIRE); /* rondo_mover_stop */
        const bool worked = look_round(mover, &failed);
        if (stop && (!worked || failed || rondo_now_ns() > mover->stop_by))
            return NULL;
        if (worked)
            idle_since = 0;
        else
            rest(&idle_since, &looks);
    }
}

static void free_mover(struct rondo_mover *mover)
{
    for (unsigned w = 0; w < mover->count; w++)
        mover->ops->copier_destroy(mover->device, mover->ways[w].copier);
    for (unsigned w = 0; w < mover->copy_count; w++)
        mover->ops->copier_destroy(mover->device, mover->copy_ways[w].copier);
    free(mover->ways);
    free(mover->copy_ways);
    free(mover);
}

static rondoResult_t open_ways(struct rondo_mover *mover, const struct rondo_mover_job *job)
{
    mover->ways = calloc(job->count + 1, sizeof *mover->ways);
    mover->copy_ways = calloc(job->copy_count + 1, sizeof *mover->copy_ways);
    if (!mover->ways || !mover->copy_ways)
        return rondo_fail(rondoSystemError, "out of memory");
    for (; mover->count < job->count; mover->count++) {
        mover->ways[mover->count].route = job->routes[mover->count];
        RONDO_TRY(mover->ops->copier_create(mover->device, &mover->ways[mover->count].copier));
    }
    for (; mover->copy_count < job->copy_count; mover->copy_count++) {
        mover->copy_ways[mover->copy_count].route = job->copies[mover->copy_count];
        RONDO_TRY(mover->ops->copier_create(mover->device, &mover->copy_ways[mover->copy_count].copier));
    }
    return rondoSuccess;
}

rondoResult_t rondo_mover_start(const struct rondo_device_ops *ops, struct rondo_device *device,
                                const struct rondo_mover_job *job, struct rondo_mover **out)
{
    struct rondo_mover *mover = calloc(1, sizeof *mover);
    if (!mover)
        return rondo_fail(rondoSystemError, "out of memory");
    mover->ops = ops;
    mover->device = device;
    mover->failed = job->failed;
    mover->object = job->object;
    mover->process = getpid();
    rondoResult_t result = open_ways(mover, job);
    if (result == rondoSuccess && pthread_create(&mover->thread, NULL, run, mover) != 0)
        result = rondo_fail(rondoSystemError, "no thread to be had for a comm's copies");
    if (result != rondoSuccess)
        free_mover(mover);
    else
        *out = mover;
    return result;
}

uint64_t rondo_mover_copies(const struct rondo_mover *mover)
{
    return mover ? __atomic_load_n(&mover->copies, __ATOMIC_RELAXED) : 0;
}

void rondo_mover_stop(struct rondo_mover *mover, unsigned ms)
{
    if (!mover || mover->process != getpid())
        return;
    mover->stop_by = rondo_now_ns() + ms * 1000000ull;
    __atomic_store_n(&mover->stop, 1, __ATOMIC_RELEASE); /* run */
    pthread_join(mover->thread, NULL);
    free_mover(mover);
}
