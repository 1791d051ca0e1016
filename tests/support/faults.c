#include "support/faults.h"

#include "common/clock.h"
#include "common/result.h"
#include "rondo/host.h"
#include "support/draw.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct faults faults;

static const struct rondo_device_ops *real;
static struct rondo_device_ops row;

static rondoResult_t fault(const char *what, enum rondo_mem_kind kind)
{
    return rondo_fail(rondoSystemError, "a test's fault: no %s of memory of kind %d", what, (int)kind);
}

/* Whether this call is the one that fails. */
static bool is_next(void)
{
    return __atomic_add_fetch(&faults.calls, 1, __ATOMIC_SEQ_CST) == __atomic_load_n(&faults.fail_at, __ATOMIC_SEQ_CST);
}

static rondoResult_t next(const char *what)
{
    return is_next() ? rondo_fail(rondoSystemError, "a test's fault: %s", what) : rondoSuccess;
}

/* ---- memory ---- */

static rondoResult_t mem_alloc(struct rondo_device *device, size_t bytes, enum rondo_mem_kind kind,
                               struct rondo_mem *mem)
{
    RONDO_TRY(next("an allocation"));
    if (faults.in_memory)
        faults.in_memory();
    return faults.no_alloc & 1u << kind ? fault("allocation", kind) : real->mem_alloc(device, bytes, kind, mem);
}

static void mem_free(struct rondo_device *device, struct rondo_mem *mem)
{
    if (faults.in_memory)
        faults.in_memory();
    real->mem_free(device, mem);
}

static rondoResult_t mem_export(struct rondo_device *device, const struct rondo_mem *mem,
                                struct rondo_mem_handle *handle)
{
    handle->fd = -1;
    RONDO_TRY(next("an export"));
    return faults.no_export & 1u << mem->kind ? fault("export", mem->kind) : real->mem_export(device, mem, handle);
}

static rondoResult_t mem_import(struct rondo_device *device, const struct rondo_mem_handle *handle, size_t bytes,
                                enum rondo_mem_kind kind, struct rondo_mem *mem)
{
    RONDO_TRY(next("an import"));
    rondo_sleep_ns(faults.map_delay_ms * 1000000ull);
    if (faults.no_import & 1u << kind)
        return fault("import", kind);
    if (faults.unseen & 1u << kind)
        return real->mem_alloc(device, bytes, RONDO_MEM_PRIVATE, mem);
    return real->mem_import(device, handle, bytes, kind, mem);
}

static rondoResult_t mem_attach(struct rondo_device *device, struct rondo_device *owner, const struct rondo_mem *mem)
{
    RONDO_TRY(next("an attach"));
    rondo_sleep_ns(faults.map_delay_ms * 1000000ull);
    return faults.no_attach && mem->kind != RONDO_MEM_HOST ? fault("use", mem->kind)
                                                           : real->mem_attach(device, owner, mem);
}

static rondoResult_t pinned_alloc(struct rondo_device *device, size_t bytes, struct rondo_pinned *pinned)
{
    RONDO_TRY(next("pinned memory"));
    return real->pinned_alloc(device, bytes, pinned);
}

static rondoResult_t fill(struct rondo_device *device, void *to, size_t pitch, uint32_t word, size_t words)
{
    RONDO_TRY(next("a fill"));
    return real->fill(device, to, pitch, word, words);
}

static rondoResult_t write_(struct rondo_device *device, void *to, const void *from, size_t bytes)
{
    RONDO_TRY(next("a write"));
    return real->write(device, to, from, bytes);
}

/* ---- streams ---- */

static rondoResult_t event_create(struct rondo_device *device, struct rondo_event **event)
{
    RONDO_TRY(next("an event"));
    return real->event_create(device, event);
}

static rondoResult_t event_record(struct rondo_device *device, struct rondo_event *event, struct CUstream_st *stream)
{
    RONDO_TRY(next("a record"));
    return real->event_record(device, event, stream);
}

static rondoResult_t launch(struct rondo_device *device, const struct rondo_launch *what)
{
    RONDO_TRY(next("a launch"));
    return real->launch(device, what);
}

static void hold(void *argument)
{
    (void)argument;
    usleep(faults.hold_streams_ms * 1000);
}

static rondoResult_t stream_create(struct rondo_device *device, struct CUstream_st **stream)
{
    RONDO_TRY(next("a stream"));
    RONDO_TRY(real->stream_create(device, stream));
    return faults.hold_streams_ms ? rondoHostLaunch(hold, NULL, *stream) : rondoSuccess;
}

/* ---- copiers: each is a thread that copies in order, and takes its time ---- */

enum { COPIES = 4096 };

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct late {
    struct rondo_device *device;
    struct rondo_copier *copier; /* the real one */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    struct copy copies[COPIES];
    uint64_t given, done;              /* copies */
    uint64_t ends[RONDO_COPIER_MARKS]; /* of mark m: copies given before it */
    uint64_t made, passed;             /* marks */
    bool closing;
    struct draw draw;
};

static struct late *late_of(struct rondo_copier *copier)
{
    return (struct late *)(void *)copier;
}

static void copy_now(struct late *late, const struct copy *copy)
{
    uint64_t mark, passed = 0;
    if (real->copier_copy(late->copier, copy->to, copy->from, copy->bytes) != rondoSuccess ||
        real->copier_mark(late->copier, &mark) != rondoSuccess)
        abort();
    while (passed < mark)
        if (real->copier_passed(late->copier, &passed) != rondoSuccess)
            abort();
}

static void *copy_late(void *argument)
{
    struct late *late = argument;
    void *token;
    if (real->enter(late->device, &token) != rondoSuccess)
        abort();
    pthread_mutex_lock(&late->lock);
    for (;;) {
        while (late->done == late->given && !late->closing)
            pthread_cond_wait(&late->changed, &late->lock);
        if (late->done == late->given)
            break;
        const struct copy copy = late->copies[late->done % COPIES];
        const unsigned most = __atomic_load_n(&faults.copy_delay_us, __ATOMIC_ACQUIRE);
        const unsigned delay = draw_below(&late->draw, most);
        pthread_mutex_unlock(&late->lock);
        while (__atomic_load_n(&faults.stalled, __ATOMIC_ACQUIRE))
            usleep(1000);
        if (delay)
            usleep(delay);
        copy_now(late, &copy);
        pthread_mutex_lock(&late->lock);
        late->done++;
        pthread_cond_broadcast(&late->changed);
    }
    pthread_mutex_unlock(&late->lock);
    return NULL;
}

static rondoResult_t copier_create(struct rondo_device *device, struct rondo_copier **copier)
{
    static unsigned seed; /* atomic */
    RONDO_TRY(next("a copier"));
    struct late *late = calloc(1, sizeof *late);
    rondoResult_t result = real->copier_create(device, &late->copier);
    if (result != rondoSuccess) {
        free(late);
        return result;
    }
    late->device = device;
    late->draw.state = __atomic_add_fetch(&seed, 1, __ATOMIC_RELAXED);
    pthread_mutex_init(&late->lock, NULL);
    pthread_cond_init(&late->changed, NULL);
    if (pthread_create(&late->thread, NULL, copy_late, late) != 0)
        abort();
    *copier = (struct rondo_copier *)(void *)late;
    return rondoSuccess;
}

static void copier_destroy(struct rondo_device *device, struct rondo_copier *copier)
{
    struct late *late = late_of(copier);
    if (!late)
        return;
    pthread_mutex_lock(&late->lock);
    late->closing = true;
    pthread_cond_broadcast(&late->changed);
    pthread_mutex_unlock(&late->lock);
    pthread_join(late->thread, NULL);
    real->copier_destroy(device, late->copier);
    pthread_cond_destroy(&late->changed);
    pthread_mutex_destroy(&late->lock);
    free(late);
}

static void give(struct late *late, struct copy copy)
{
    pthread_mutex_lock(&late->lock);
    while (late->given - late->done == COPIES)
        pthread_cond_wait(&late->changed, &late->lock);
    late->copies[late->given++ % COPIES] = copy;
    pthread_cond_broadcast(&late->changed);
    pthread_mutex_unlock(&late->lock);
}

static rondoResult_t copier_copy(struct rondo_copier *copier, void *to, const void *from, size_t bytes)
{
    RONDO_TRY(next("a copy"));
    if (__atomic_load_n(&faults.broken, __ATOMIC_ACQUIRE))
        return rondo_fail(rondoSystemError, "a test's fault: a copy of %zu bytes", bytes);
    give(late_of(copier), (struct copy){to, from, bytes});
    return rondoSuccess;
}

static rondoResult_t copier_mark(struct rondo_copier *copier, uint64_t *mark)
{
    struct late *late = late_of(copier);
    pthread_mutex_lock(&late->lock);
    *mark = ++late->made;
    late->ends[*mark % RONDO_COPIER_MARKS] = late->given;
    pthread_mutex_unlock(&late->lock);
    return rondoSuccess;
}

static rondoResult_t copier_passed(struct rondo_copier *copier, uint64_t *mark)
{
    struct late *late = late_of(copier);
    pthread_mutex_lock(&late->lock);
    while (late->passed < late->made && late->ends[(late->passed + 1) % RONDO_COPIER_MARKS] <= late->done)
        late->passed++;
    *mark = late->passed;
    pthread_mutex_unlock(&late->lock);
    return rondoSuccess;
}

static const struct rondo_device_ops *wrap(const struct rondo_device_ops *ops)
{
    real = ops;
    row = *ops;
    row.mem_alloc = mem_alloc;
    row.mem_free = mem_free;
    row.mem_export = mem_export;
    row.mem_import = mem_import;
    row.mem_attach = mem_attach;
    row.pinned_alloc = pinned_alloc;
    row.fill = fill;
    row.write = write_;
    row.event_create = event_create;
    row.event_record = event_record;
    row.launch = launch;
    row.stream_create = stream_create;
    row.copier_create = copier_create;
    row.copier_destroy = copier_destroy;
    row.copier_copy = copier_copy;
    row.copier_mark = copier_mark;
    row.copier_passed = copier_passed;
    return &row;
}

void faults_install(void)
{
    rondo_device_wrap = wrap;
}
