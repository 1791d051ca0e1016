/* What exporters tell each other, and map, in their threads. */
#include "comm/bootstrap.h"
#include "comm/exports_impl.h"
#include "comm/failure.h"
#include "comm/socket.h"
#include "common/log.h"
#include "common/result.h"

#include <string.h>

/* ---- own memory ---- */

static void post_to_all(struct rondo_exporter *exporter, const struct rondo_export_letter *letter, int fd)
{
    struct rondoComm *comm = exporter->comm;
    for (int r = 0; r < comm->ranks; r++)
        if (r != comm->rank && rondo_watch_post_export(comm->watch, r, letter, sizeof *letter, fd) != rondoSuccess)
            rondo_log(RONDO_LOG_INFO, "rank %d: %s", comm->rank, rondo_last_error());
}

/* Whether a letter can give peers this memory. Those of other processes need a handle. */
static bool fill_offer(const struct rondo_exporter *exporter, const struct rondo_range *range, unsigned number,
                       struct rondo_export_letter *letter, int *fd)
{
    const struct rondoComm *comm = exporter->comm;
    struct rondo_mem_handle handle = {.fd = -1};
    bool others = false;
    *letter = (struct rondo_export_letter){.kind = RONDO_LETTER_OFFER,
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
    struct rondo_export_letter letter;
    int fd = -1;
    struct rondo_export *export = &exporter->exports[number];
    pthread_mutex_lock(&exporter->lock);
    const struct rondo_range range = export->range;
    const bool wanted = export->state == RONDO_EXPORT_WANTED && export->holds; /* else the memory may be gone */
    pthread_mutex_unlock(&exporter->lock);
    if (!wanted)
        return;
    const bool can = fill_offer(exporter, &range, number, &letter, &fd);
    pthread_mutex_lock(&exporter->lock);
    export->state = can ? RONDO_EXPORT_OFFERED : RONDO_EXPORT_REFUSED;
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
    struct rondo_export *export = &exporter->exports[number];
    const struct rondo_export_letter letter = {.kind = RONDO_LETTER_WITHDRAW, .number = number};
    rondo_comm_read_reports(exporter->comm);
    if (rondo_comm_failure(exporter->comm) != rondoSuccess)
        return;
    pthread_mutex_lock(&exporter->lock);
    const enum rondo_export_state was = export->state;
    const bool now =
        export->holds == 0 && (was == RONDO_EXPORT_WANTED || was == RONDO_EXPORT_USABLE || was == RONDO_EXPORT_REFUSED);
    const bool tell = now && export->offered;
    if (now) { /* else answers to its offer may be coming */
        export->state = tell ? RONDO_EXPORT_WITHDRAWN : RONDO_EXPORT_FREE;
        export->answers = 0;
    }
    pthread_mutex_unlock(&exporter->lock);
    if (!tell)
        return; /* or it will be when all have answered its offer, if still nobody holds it */
    if (was == RONDO_EXPORT_USABLE && set_usable(exporter, number, 0) != rondoSuccess)
        return; /* the device is in trouble: it stays as it is */
    exporter->unanswered++;
    post_to_all(exporter, &letter, -1);
}

/* All peers have answered an offer. */
static void offered(struct rondo_exporter *exporter, unsigned number)
{
    struct rondo_export *export = &exporter->exports[number];
    pthread_mutex_lock(&exporter->lock);
    const bool usable = !export->refused;
    export->state = RONDO_EXPORT_REFUSED; /* until the kernels know better */
    pthread_mutex_unlock(&exporter->lock);
    if (usable && set_usable(exporter, number, 1) == rondoSuccess) {
        pthread_mutex_lock(&exporter->lock);
        export->state = RONDO_EXPORT_USABLE;
        pthread_mutex_unlock(&exporter->lock);
    }
    rondo_log(RONDO_LOG_TRACE, "rank %d: export %u (%p, %zu bytes) %s", exporter->comm->rank, number,
              export->range.mem.address, export->range.mem.bytes, usable ? "is mapped by all peers" : "was refused");
    withdraw(exporter, number); /* if it was given up meanwhile */
}

static void answered(struct rondo_exporter *exporter, const struct rondo_export_letter *letter)
{
    struct rondo_export *export = &exporter->exports[letter->number];
    pthread_mutex_lock(&exporter->lock);
    const enum rondo_export_state state = export->state;
    const bool expected =
        letter->kind == RONDO_LETTER_ANSWER ? state == RONDO_EXPORT_OFFERED : state == RONDO_EXPORT_WITHDRAWN;
    bool all = false;
    if (expected) {
        export->refused |= letter->kind == RONDO_LETTER_ANSWER && !letter->yes;
        all = ++export->answers == (unsigned)exporter->comm->ranks - 1;
    }
    if (all && state == RONDO_EXPORT_WITHDRAWN)
        export->state = RONDO_EXPORT_FREE;
    pthread_mutex_unlock(&exporter->lock);
    exporter->unanswered -= all;
    if (all && state == RONDO_EXPORT_OFFERED)
        offered(exporter, letter->number);
}

/* ---- peers' memory ---- */

static rondoResult_t set_map(struct rondo_exporter *exporter, int rank, unsigned number, uint64_t address)
{
    struct rondoComm *comm = exporter->comm;
    return comm->ops->write(comm->device,
                            rondo_lanes_export_map(comm->anchor, (unsigned)comm->ranks, (unsigned)rank, number),
                            &address, sizeof address);
}

/* Memory of this process needs no mapping, but the devices' consent. */
static rondoResult_t reach_in_process(struct rondoComm *comm, const struct rondo_export_letter *letter)
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

static rondoResult_t map(struct rondo_exporter *exporter, int rank, const struct rondo_export_letter *letter, int fd)
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

static void serve(struct rondo_exporter *exporter, int rank, const struct rondo_export_letter *letter, int fd)
{
    struct rondoComm *comm = exporter->comm;
    struct rondo_export_letter answer = {.number = letter->number};
    if (letter->number >= RONDO_EXPORTS_MAX)
        return;
    if (letter->kind == RONDO_LETTER_ANSWER || letter->kind == RONDO_LETTER_WITHDRAWAL) {
        answered(exporter, letter);
        return;
    }
    if (letter->kind == RONDO_LETTER_OFFER) {
        answer.kind = RONDO_LETTER_ANSWER;
        answer.yes = map(exporter, rank, letter, fd) == rondoSuccess;
        if (!answer.yes)
            rondo_log(RONDO_LOG_INFO, "rank %d: memory that rank %d offers cannot be mapped: %s", comm->rank, rank,
                      rondo_last_error());
    } else {
        answer.kind = RONDO_LETTER_WITHDRAWAL;
        set_map(exporter, rank, letter->number, 0);
        comm->ops->mem_free(comm->device, &exporter->imports[(size_t)rank * RONDO_EXPORTS_MAX + letter->number]);
    }
    if (rondo_watch_post_export(comm->watch, rank, &answer, sizeof answer, -1) != rondoSuccess)
        rondo_log(RONDO_LOG_INFO, "rank %d: %s", comm->rank, rondo_last_error());
}

static void run(struct rondo_exporter *exporter, const struct rondo_export_errand *errand)
{
    if (errand->rank >= 0) {
        serve(exporter, errand->rank, &errand->letter, errand->fd);
        return;
    }
    offer(exporter, errand->number);
    withdraw(exporter, errand->number);
}

void *rondo_exporter_work(void *argument)
{
    struct rondo_exporter *exporter = argument;
    rondo_fail_softly(true);
    pthread_mutex_lock(&exporter->lock);
    while (!exporter->stopped) {
        struct rondo_export_errand *errand = rondo_export_errands_take(&exporter->letters);
        if (!errand && exporter->unanswered < RONDO_EXPORT_WINDOW)
            errand = rondo_export_errands_take(&exporter->own);
        if (!errand) {
            pthread_cond_wait(&exporter->wake, &exporter->lock);
            continue;
        }
        pthread_mutex_unlock(&exporter->lock);
        run(exporter, errand);
        rondo_export_errand_free(errand);
        pthread_mutex_lock(&exporter->lock);
    }
    pthread_mutex_unlock(&exporter->lock);
    return NULL;
}
