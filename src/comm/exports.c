#include "comm/exports.h"

#include "comm/bootstrap.h"
#include "comm/comm.h"
#include "comm/failure.h"
#include "comm/socket.h"
#include "comm/watch.h"
#include "common/log.h"
#include "common/result.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What becomes of a number. */
enum export_state {
    FREE,
    WANTED,    /* to be offered */
    OFFERED,   /* peers are about to answer */
    USABLE,    /* all have it mapped */
    REFUSED,   /* could not be offered, or not be mapped by all */
    WITHDRAWN, /* peers are about to answer that they have unmapped it */
};

struct export
{
    enum export_state state;
    struct rondo_range range;
    unsigned holds;
    unsigned answers; /* that have come, of ranks - 1 */
    bool refused;     /* one of them was a no */
    bool offered;     /* peers know of it */
};

enum letter_kind { OFFER, ANSWER, WITHDRAW, WITHDRAWAL };

/* From exporter to exporter. */
struct letter {
    uint8_t kind;
    uint8_t yes;    /* of an answer */
    uint8_t memory; /* of an offer, as all that follows the number: enum rondo_mem_kind */
    uint32_t number;
    uint64_t address, bytes, anchor; /* for ranks of this process, address and owner are all that it takes */
    uint8_t handle[RONDO_MEM_HANDLE_BYTES];
};
_Static_assert(sizeof(struct letter) <= RONDO_WATCH_TEXT_BYTES, "a letter can be sent");

/* Letters of a rank's own that peers have not yet answered: so many, and as many answers, find room in a socket besides what the
 * comm tells in its end. */
enum { WINDOW = 32 };

/* Something for the thread to do. */
struct errand {
    struct errand *next;
    int rank; /* -1: one's own number is to be offered, or withdrawn, as its state says */
    unsigned number;
    int fd; /* -1: none */
    struct letter letter;
};

struct errands {
    struct errand *first, *last;
};

struct rondo_exporter {
    struct rondoComm *comm; /* constant; valid until rondo_exporter_close */
    pthread_mutex_t lock;   /* guards the rest but what is the thread's; inside it nothing else is locked */
    pthread_cond_t wake;
    unsigned references; /* the comm's, and of holds */
    bool stopped, running;
    pid_t process;
    pthread_t thread;
    struct errands letters, own;
    struct export exports[RONDO_EXPORTS_MAX];
    unsigned unanswered;       /* the thread's own: of the numbers, those that peers are about to answer */
    struct rondo_mem *imports; /* the thread's own: [rank * RONDO_EXPORTS_MAX + number] */
};

struct rondo_exports_hold {
    struct rondo_exporter *exporter;
    uint64_t held[RONDO_EXPORTS_MAX / 64]; /* exporter's lock */
};

/* ---- errands ---- */

static void errands_add(struct errands *errands, struct errand *errand)
{
    if (errands->last)
        errands->last->next = errand;
    else
        errands->first = errand;
    errands->last = errand;
}

static struct errand *errands_take(struct errands *errands)
{
    struct errand *errand = errands->first;
    if (errand)
        errands->first = errand->next;
    if (!errands->first)
        errands->last = NULL;
    return errand;
}

static void errand_free(struct errand *errand)
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
    for (struct errand *errand; (errand = errands_take(&exporter->letters));)
        errand_free(errand);
    for (struct errand *errand; (errand = errands_take(&exporter->own));)
        errand_free(errand);
    pthread_cond_destroy(&exporter->wake);
    pthread_mutex_destroy(&exporter->lock);
    free(exporter->imports);
    free(exporter);
}

static void *work(void *argument);

/* Under lock. The thread comes with the first errand: most comms never have one. */
static bool start(struct rondo_exporter *exporter)
{
    sigset_t all, before;
    if (exporter->running)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its own threads */
    exporter->running = pthread_create(&exporter->thread, NULL, work, exporter) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (exporter->running)
        pthread_setname_np(exporter->thread, "rondo-exports");
    return exporter->running;
}

/* Under lock. Takes over the descriptor. For want of memory or a thread an errand is not run: then ops go by mailbox. */
static void send_on_errand(struct rondo_exporter *exporter, int rank, unsigned number, const struct letter *letter,
                           int fd)
{
    struct errand *errand = NULL;
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

/* ---- in the thread: own memory ---- */

static void post_to_all(struct rondo_exporter *exporter, const struct letter *letter, int fd)
{
    struct rondoComm *comm = exporter->comm;
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank && rondo_watch_post_export(comm->watch, r, letter, sizeof *letter, fd) != rondoSuccess)
            rondo_log(RONDO_LOG_INFO, "rank %d: %s", comm->rank, rondo_last_error());
}

/* Whether a letter can give peers this memory. Those of other processes need a handle. */
static bool fill_offer(const struct rondo_exporter *exporter, const struct rondo_range *range, unsigned number,
                       struct letter *letter, int *fd)
{
    const struct rondoComm *comm = exporter->comm;
    struct rondo_mem_handle handle = {.fd = -1};
    bool others = false;
    *letter = (struct letter){.kind = OFFER,
                              .memory = (uint8_t)range->mem.kind,
                              .number = number,
                              .address = (uintptr_t)range->mem.address,
                              .bytes = range->mem.bytes,
                              .anchor = comm->anchor->id};
    for (int r = 0; r < comm->ranks; r++)
        others |= !rondo_bootstrap_same_process(comm->bootstrap, r);
    if (!others)
        return true;
    if (range->mem.kind == RONDO_MEM_PRIVATE)
        return false;
    if (comm->ops->mem_export(comm->device, &range->mem, &handle) != rondoSuccess)
        return false;
    memcpy(letter->handle, handle.bytes, sizeof handle.bytes);
    *fd = handle.fd;
    return true;
}

/* Peers are to map the memory. */
static void offer(struct rondo_exporter *exporter, unsigned number)
{
    struct letter letter;
    int fd = -1;
    struct export *export = &exporter->exports[number];
    pthread_mutex_lock(&exporter->lock);
    const struct rondo_range range = export->range;
    const bool wanted = export->state == WANTED && export->holds; /* else the memory may be gone */
    pthread_mutex_unlock(&exporter->lock);
    if (!wanted)
        return;
    const bool can = fill_offer(exporter, &range, number, &letter, &fd);
    pthread_mutex_lock(&exporter->lock);
    export->state = can ? OFFERED : REFUSED;
    export->answers = 0;
    export->refused = false;
    export->offered = can;
    pthread_mutex_unlock(&exporter->lock);
    exporter->unanswered += can;
    if (can)
        post_to_all(exporter, &letter, fd);
    else
        rondo_log(RONDO_LOG_INFO, "rank %d: memory at %p (%zu bytes) cannot be exported; ops go by mailbox",
                  exporter->comm->rank, range.mem.address, range.mem.bytes);
    rondo_close(&fd);
}

static rondoResult_t set_usable(struct rondo_exporter *exporter, unsigned number, uint32_t usable)
{
    struct rondoComm *comm = exporter->comm;
    struct rondo_exports *table = rondo_lanes_exports(comm->anchor, (unsigned)comm->ranks);
    return comm->ops->write(comm->device, &table->usable[number], &usable, sizeof usable);
}

/* Nobody holds it: peers are to unmap it, and the number is free after that. Who gave up a launch, for which graphs and users then need
 * not wait, may have peers whose kernels are still in it. */
static void withdraw(struct rondo_exporter *exporter, unsigned number)
{
    struct export *export = &exporter->exports[number];
    const struct letter letter = {.kind = WITHDRAW, .number = number};
    rondo_comm_read_reports(exporter->comm);
    if (rondo_comm_failure(exporter->comm) != rondoSuccess)
        return;
    pthread_mutex_lock(&exporter->lock);
    const enum export_state was = export->state;
    const bool now = export->holds == 0 && (was == WANTED || was == USABLE || was == REFUSED);
    const bool tell = now && export->offered;
    if (now) { /* else answers to its offer may be coming */
        export->state = tell ? WITHDRAWN : FREE;
        export->answers = 0;
    }
    pthread_mutex_unlock(&exporter->lock);
    if (!tell)
        return; /* or it will be when all have answered its offer, if still nobody holds it */
    if (was == USABLE && set_usable(exporter, number, 0) != rondoSuccess)
        return; /* the device is in trouble: it stays as it is */
    exporter->unanswered++;
    post_to_all(exporter, &letter, -1);
}

/* All peers have answered an offer. */
static void offered(struct rondo_exporter *exporter, unsigned number)
{
    struct export *export = &exporter->exports[number];
    pthread_mutex_lock(&exporter->lock);
    const bool usable = !export->refused;
    export->state = REFUSED; /* until the kernels know better */
    pthread_mutex_unlock(&exporter->lock);
    if (usable && set_usable(exporter, number, 1) == rondoSuccess) {
        pthread_mutex_lock(&exporter->lock);
        export->state = USABLE;
        pthread_mutex_unlock(&exporter->lock);
    }
    rondo_log(RONDO_LOG_TRACE, "rank %d: export %u (%p, %zu bytes) %s", exporter->comm->rank, number,
              export->range.mem.address, export->range.mem.bytes, usable ? "is mapped by all peers" : "was refused");
    withdraw(exporter, number); /* if it was given up meanwhile */
}

static void answered(struct rondo_exporter *exporter, const struct letter *letter)
{
    struct export *export = &exporter->exports[letter->number];
    pthread_mutex_lock(&exporter->lock);
    const enum export_state state = export->state;
    const bool expected = letter->kind == ANSWER ? state == OFFERED : state == WITHDRAWN;
    bool all = false;
    if (expected) {
        export->refused |= letter->kind == ANSWER && !letter->yes;
        all = ++export->answers == (unsigned)exporter->comm->ranks - 1;
    }
    if (all && state == WITHDRAWN)
        export->state = FREE;
    pthread_mutex_unlock(&exporter->lock);
    exporter->unanswered -= all;
    if (all && state == OFFERED)
        offered(exporter, letter->number);
}

/* ---- in the thread: peers' memory ---- */

static rondoResult_t set_map(struct rondo_exporter *exporter, int rank, unsigned number, uint64_t address)
{
    struct rondoComm *comm = exporter->comm;
    return comm->ops->write(comm->device,
                            rondo_lanes_export_map(comm->anchor, (unsigned)comm->ranks, (unsigned)rank, number),
                            &address, sizeof address);
}

/* Memory of this process needs no mapping, but the devices' consent. */
static rondoResult_t reach_in_process(struct rondoComm *comm, const struct letter *letter)
{
    const struct rondo_mem mem = {.address = (void *)(uintptr_t)letter->address,
                                  .bytes = letter->bytes,
                                  .kind = (enum rondo_mem_kind)letter->memory};
    if (letter->memory == RONDO_MEM_SHAREABLE)
        return rondoSuccess; /* of rondoMemAlloc: all devices may use it */
    struct rondo_anchor *owner = rondo_anchor_find(letter->anchor);
    if (!owner)
        return rondo_fail(rondoRemoteError, "the owner of the memory is gone");
    rondoResult_t result = comm->ops->mem_attach(comm->device, owner->device, &mem);
    rondo_anchor_drop(owner);
    return result;
}

static rondoResult_t map(struct rondo_exporter *exporter, int rank, const struct letter *letter, int fd)
{
    struct rondoComm *comm = exporter->comm;
    struct rondo_mem *import = &exporter->imports[(size_t)rank * RONDO_EXPORTS_MAX + letter->number];
    struct rondo_mem_handle handle = {.fd = fd};
    uint64_t address = letter->address;
    comm->ops->mem_free(comm->device, import);
    if (rondo_bootstrap_same_process(comm->bootstrap, rank)) {
        RONDO_TRY(reach_in_process(comm, letter));
    } else {
        memcpy(handle.bytes, letter->handle, sizeof handle.bytes);
        RONDO_TRY(
            comm->ops->mem_import(comm->device, &handle, letter->bytes, (enum rondo_mem_kind)letter->memory, import));
        address = (uintptr_t)import->address;
    }
    return set_map(exporter, rank, letter->number, address);
}

static void serve(struct rondo_exporter *exporter, int rank, const struct letter *letter, int fd)
{
    struct rondoComm *comm = exporter->comm;
    struct letter answer = {.number = letter->number};
    if (letter->number >= RONDO_EXPORTS_MAX)
        return;
    if (letter->kind == ANSWER || letter->kind == WITHDRAWAL) {
        answered(exporter, letter);
        return;
    }
    if (letter->kind == OFFER) {
        answer.kind = ANSWER;
        answer.yes = map(exporter, rank, letter, fd) == rondoSuccess;
        if (!answer.yes)
            rondo_log(RONDO_LOG_INFO, "rank %d: memory that rank %d offers cannot be mapped: %s", comm->rank, rank,
                      rondo_last_error());
    } else {
        answer.kind = WITHDRAWAL;
        set_map(exporter, rank, letter->number, 0);
        comm->ops->mem_free(comm->device, &exporter->imports[(size_t)rank * RONDO_EXPORTS_MAX + letter->number]);
    }
    if (rondo_watch_post_export(comm->watch, rank, &answer, sizeof answer, -1) != rondoSuccess)
        rondo_log(RONDO_LOG_INFO, "rank %d: %s", comm->rank, rondo_last_error());
}

static void run(struct rondo_exporter *exporter, const struct errand *errand)
{
    if (errand->rank >= 0) {
        serve(exporter, errand->rank, &errand->letter, errand->fd);
        return;
    }
    offer(exporter, errand->number);
    withdraw(exporter, errand->number);
}

static void *work(void *argument)
{
    struct rondo_exporter *exporter = argument;
    rondo_fail_softly(true);
    pthread_mutex_lock(&exporter->lock);
    while (!exporter->stopped) {
        struct errand *errand = errands_take(&exporter->letters);
        if (!errand && exporter->unanswered < WINDOW)
            errand = errands_take(&exporter->own);
        if (!errand) {
            pthread_cond_wait(&exporter->wake, &exporter->lock);
            continue;
        }
        pthread_mutex_unlock(&exporter->lock);
        run(exporter, errand);
        errand_free(errand);
        pthread_mutex_lock(&exporter->lock);
    }
    pthread_mutex_unlock(&exporter->lock);
    return NULL;
}

/* ---- life ---- */

rondoResult_t rondo_exporter_create(struct rondoComm *comm, struct rondo_exporter **out)
{
    bool any = false;
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
    exporter->references = 1;
    exporter->process = getpid();
    pthread_mutex_init(&exporter->lock, NULL);
    pthread_cond_init(&exporter->wake, NULL);
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
    for (size_t i = 0; unmap && i < (size_t)comm->ranks * RONDO_EXPORTS_MAX; i++)
        comm->ops->mem_free(comm->device, &exporter->imports[i]);
    unref(exporter);
}

void rondo_exporter_letter(struct rondo_exporter *exporter, int rank, const void *bytes, size_t count, int fd)
{
    struct letter letter;
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

static bool is_same(const struct rondo_range *a, const struct rondo_range *b)
{
    return a->mem.address == b->mem.address && a->mem.bytes == b->mem.bytes && a->identity == b->identity;
}

/* The number of this memory, or one for it; RONDO_EXPORT_NONE: all are taken. Under lock. */
static unsigned number_of(struct rondo_exporter *exporter, const struct rondo_range *range)
{
    unsigned unused = RONDO_EXPORT_NONE;
    for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++) {
        const struct export *export = &exporter->exports[n];
        if (export->state == FREE)
            unused = unused == RONDO_EXPORT_NONE ? n : unused;
        else if (export->state != WITHDRAWN && is_same(&export->range, range))
            return n;
    }
    if (unused != RONDO_EXPORT_NONE)
        exporter->exports[unused] = (struct export){.state = WANTED, .range = *range};
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
        struct export *export = &exporter->exports[n];
        const uint64_t bit = 1ull << n % 64;
        export->holds += !(hold->held[n / 64] & bit);
        hold->held[n / 64] |= bit;
        if (export->state == WANTED)
            send_on_errand(exporter, -1, n, NULL, -1);
        *number = (uint16_t)n;
        *at = offset;
    }
    pthread_mutex_unlock(&exporter->lock);
}

unsigned rondo_exporter_count(struct rondo_exporter *exporter)
{
    unsigned count = 0;
    pthread_mutex_lock(&exporter->lock);
    for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++)
        count += exporter->exports[n].state != FREE;
    pthread_mutex_unlock(&exporter->lock);
    return count;
}

rondoResult_t rondo_exporter_ran(struct rondo_exporter *exporter, uint32_t *ran)
{
    const struct rondoComm *comm = exporter->comm;
    const struct rondo_exports *table = rondo_lanes_exports(comm->anchor, (unsigned)comm->ranks);
    return comm->ops->read(comm->device, ran, &table->ran, sizeof *ran);
}
