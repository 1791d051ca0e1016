#include "comm/exports.h"

#include "comm/exports_impl.h"
#include "comm/socket.h"
#include "common/result.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rondo_exports_hold {
    struct rondo_exporter *exporter;
    uint64_t held[RONDO_EXPORTS_MAX / 64]; /* exporter's lock */
};

/* ---- errands ---- */

static void errands_add(struct rondo_export_errands *errands, struct rondo_export_errand *errand)
{
    if (errands->last)
        errands->last->next = errand;
    else
        errands->first = errand;
    errands->last = errand;
}

struct rondo_export_errand *rondo_export_errands_take(struct rondo_export_errands *errands)
{
    struct rondo_export_errand *errand = errands->first;
    if (errand)
        errands->first = errand->next;
    if (!errands->first)
        errands->last = NULL;
    return errand;
}

void rondo_export_errand_free(struct rondo_export_errand *errand)
{
    rondo_close(&errand->fd);
    free(errand);
}

static void unref(struct rondo_exporter *exporter)
{
    pthread_mutex_lock(&exporter->lock);
    const bool last = --exporter->references == 0;
    pthread_mutex_unlock(&exporter->lock);
    if (!last)
        return;
    for (struct rondo_export_errand *errand; (errand = rondo_export_errands_take(&exporter->letters));)
        rondo_export_errand_free(errand);
    for (struct rondo_export_errand *errand; (errand = rondo_export_errands_take(&exporter->own));)
        rondo_export_errand_free(errand);
    pthread_cond_destroy(&exporter->wake);
    pthread_mutex_destroy(&exporter->lock);
    free(exporter->imports);
    free(exporter);
}

/* Under lock. The thread comes with the first errand: most comms never have one. */
static bool start(struct rondo_exporter *exporter)
{
    sigset_t all, before;
    if (exporter->running)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its own threads */
    exporter->running = pthread_create(&exporter->thread, NULL, rondo_exporter_work, exporter) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (exporter->running)
        pthread_setname_np(exporter->thread, "rondo-exports");
    return exporter->running;
}

/* Under lock. Takes over the descriptor. For want of memory or a thread an errand is not run: then ops go by mailbox. */
static void send_on_errand(struct rondo_exporter *exporter, int rank, unsigned number,
                           const struct rondo_export_letter *letter, int fd)
{
    struct rondo_export_errand *errand = NULL;
    if (!exporter->stopped && exporter->process == getpid())
        errand = calloc(1, sizeof *errand);
    if (!errand) {
        rondo_close(&fd);
        return;
    }
    errand->rank = rank;
    errand->number = number;
    errand->fd = fd;
    if (letter)
        errand->letter = *letter;
    errands_add(rank < 0 ? &exporter->own : &exporter->letters, errand);
    if (start(exporter))
        pthread_cond_signal(&exporter->wake);
}

static bool is_same(const struct rondo_range *a, const struct rondo_range *b)
{
    return a->mem.address == b->mem.address && a->mem.bytes == b->mem.bytes && a->identity == b->identity;
}

/* Memory of rondoMemAlloc is about to be freed: eager ops use it no more. */
static void freed(void *self, const struct rondo_range *range)
{
    struct rondo_exporter *exporter = self;
    pthread_mutex_lock(&exporter->lock);
    for (unsigned n = 0; exporter->memory && n < RONDO_EXPORTS_MAX; n++) {
        const uint64_t bit = 1ull << n % 64;
        if (!(exporter->memory->held[n / 64] & bit) || !is_same(&exporter->exports[n].range, range))
            continue;
        exporter->memory->held[n / 64] &= ~bit;
        if (--exporter->exports[n].holds == 0)
            send_on_errand(exporter, -1, n, NULL, -1);
    }
    pthread_mutex_unlock(&exporter->lock);
}

/* ---- life ---- */

rondoResult_t rondo_exporter_create(struct rondoComm *comm, struct rondo_exporter **out)
{
    bool any = comm->limits.messages_direct_from != UINT64_MAX;
    *out = NULL;
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
        any |= comm->limits.direct_from[c] != UINT64_MAX;
    if (!any)
        return rondoSuccess;
    struct rondo_exporter *exporter = calloc(1, sizeof *exporter);
    if (exporter)
        exporter->imports = calloc((size_t)comm->ranks * RONDO_EXPORTS_MAX, sizeof *exporter->imports);
    if (!exporter || !exporter->imports) {
        free(exporter);
        return rondo_fail(rondoSystemError, "out of memory");
    }
    exporter->comm = comm;
    exporter->watcher = (struct rondo_memory_watcher){.freed = freed, .self = exporter};
    exporter->references = 1;
    exporter->process = getpid();
    pthread_mutex_init(&exporter->lock, NULL);
    pthread_cond_init(&exporter->wake, NULL);
    rondo_user_memory_watch(&exporter->watcher);
    *out = exporter;
    return rondoSuccess;
}

void rondo_exporter_stop(struct rondo_exporter *exporter)
{
    if (!exporter)
        return;
    pthread_mutex_lock(&exporter->lock);
    const bool join = exporter->running && !exporter->stopped && exporter->process == getpid();
    exporter->stopped = true;
    pthread_cond_signal(&exporter->wake);
    pthread_mutex_unlock(&exporter->lock);
    if (join)
        pthread_join(exporter->thread, NULL);
}

void rondo_exporter_close(struct rondo_exporter *exporter, int unmap)
{
    if (!exporter)
        return;
    struct rondoComm *comm = exporter->comm;
    rondo_user_memory_unwatch(&exporter->watcher);
    rondo_exports_hold_drop(exporter->memory);
    for (size_t i = 0; unmap && i < (size_t)comm->ranks * RONDO_EXPORTS_MAX; i++)
        comm->ops->mem_free(comm->device, &exporter->imports[i]);
    unref(exporter);
}

void rondo_exporter_letter(struct rondo_exporter *exporter, int rank, const void *bytes, size_t count, int fd)
{
    struct rondo_export_letter letter;
    if (!exporter || count != sizeof letter) {
        rondo_close(&fd);
        return;
    }
    memcpy(&letter, bytes, sizeof letter);
    pthread_mutex_lock(&exporter->lock);
    send_on_errand(exporter, rank, letter.number, &letter, fd);
    pthread_mutex_unlock(&exporter->lock);
}

/* ---- holds ---- */

struct rondo_exports_hold *rondo_exports_hold_create(struct rondo_exporter *exporter)
{
    struct rondo_exports_hold *hold = calloc(1, sizeof *hold);
    if (!hold)
        return NULL;
    hold->exporter = exporter;
    pthread_mutex_lock(&exporter->lock);
    exporter->references++;
    pthread_mutex_unlock(&exporter->lock);
    return hold;
}

void rondo_exports_hold_drop(void *object)
{
    struct rondo_exports_hold *hold = object;
    if (!hold)
        return;
    struct rondo_exporter *exporter = hold->exporter;
    pthread_mutex_lock(&exporter->lock);
    for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++)
        if (hold->held[n / 64] >> n % 64 & 1 && --exporter->exports[n].holds == 0)
            send_on_errand(exporter, -1, n, NULL, -1);
    pthread_mutex_unlock(&exporter->lock);
    unref(exporter);
    free(hold);
}

/* The number of this memory, or one for it; RONDO_EXPORT_NONE: all are taken. Under lock. */
static unsigned number_of(struct rondo_exporter *exporter, const struct rondo_range *range)
{
    unsigned unused = RONDO_EXPORT_NONE;
    for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++) {
        const struct rondo_export *export = &exporter->exports[n];
        if (export->state == RONDO_EXPORT_FREE)
            unused = unused == RONDO_EXPORT_NONE ? n : unused;
        else if (export->state != RONDO_EXPORT_WITHDRAWN && is_same(&export->range, range))
            return n;
    }
    if (unused != RONDO_EXPORT_NONE)
        exporter->exports[unused] = (struct rondo_export){.state = RONDO_EXPORT_WANTED, .range = *range};
    return unused;
}

void rondo_exports_place(struct rondo_exports_hold *hold, const void *buffer, size_t bytes, uint16_t *number,
                         uint64_t *at)
{
    struct rondo_exporter *exporter = hold->exporter;
    struct rondoComm *comm = exporter->comm;
    struct rondo_range range;
    *number = RONDO_EXPORT_NONE;
    *at = 0;
    const bool soft = rondo_fail_softly(true);
    const rondoResult_t found = comm->ops->mem_range(comm->device, buffer, bytes, &range);
    rondo_fail_softly(soft);
    if (found != rondoSuccess)
        return;
    const uint64_t offset = (uintptr_t)buffer - (uintptr_t)range.mem.address;
    if (offset + bytes > range.mem.bytes || range.mem.bytes >> 48)
        return;
    pthread_mutex_lock(&exporter->lock);
    const unsigned n = number_of(exporter, &range);
    if (n != RONDO_EXPORT_NONE) {
        struct rondo_export *export = &exporter->exports[n];
        const uint64_t bit = 1ull << n % 64;
        export->holds += !(hold->held[n / 64] & bit);
        hold->held[n / 64] |= bit;
        if (export->state == RONDO_EXPORT_WANTED)
            send_on_errand(exporter, -1, n, NULL, -1);
        *number = (uint16_t)n;
        *at = offset;
    }
    pthread_mutex_unlock(&exporter->lock);
}

void rondo_exporter_place(struct rondo_exporter *exporter, const void *buffer, size_t bytes, uint16_t *number,
                          uint64_t *at)
{
    struct rondo_range range;
    *number = RONDO_EXPORT_NONE;
    *at = 0;
    if (!rondo_user_memory_find(buffer, &range))
        return;
    if (!exporter->memory) {
        struct rondo_exports_hold *made = rondo_exports_hold_create(exporter);
        pthread_mutex_lock(&exporter->lock); /* memory may be freed meanwhile */
        exporter->memory = made;
        pthread_mutex_unlock(&exporter->lock);
    }
    if (exporter->memory)
        rondo_exports_place(exporter->memory, buffer, bytes, number, at);
}

unsigned rondo_exporter_count(struct rondo_exporter *exporter)
{
    unsigned count = 0;
    pthread_mutex_lock(&exporter->lock);
    for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++)
        count += exporter->exports[n].state != RONDO_EXPORT_FREE;
    pthread_mutex_unlock(&exporter->lock);
    return count;
}

rondoResult_t rondo_exporter_ran(struct rondo_exporter *exporter, uint32_t *ran)
{
    const struct rondoComm *comm = exporter->comm;
    const struct rondo_exports *table = rondo_lanes_exports(comm->anchor, (unsigned)comm->ranks);
    return comm->ops->read(comm->device, ran, &table->ran, sizeof *ran);
}
