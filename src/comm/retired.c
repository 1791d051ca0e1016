#include "comm/retired.h"

#include "comm/bootstrap.h"
#include "comm/exports.h"
#include "comm/failure.h"
#include "comm/links.h"
#include "comm/parting.h"
#include "comm/tracer.h"
#include "comm/watch.h"
#include "common/result.h"
#include "transport/mover.h"

#include <stdlib.h>
#include <string.h>

/* Guards the list of structs that wait for their next use, oldest first. Nothing else is locked while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rondoComm *oldest, *newest;
static unsigned waiting;
static struct rondoComm *lingering; /* under lock too: ended, but for calls that are still inside */

/* Structs are used again only when this many wait, so that stale handles stay recognizable for long. */
enum { KEPT = 64 };

enum { COPY_MS = 1000 };

/* One that nobody is inside of any more, or NULL. Who enters now only sees that it has ended. */
static struct rondoComm *take_lingering(void)
{
    pthread_mutex_lock(&lock);
    struct rondoComm **place = &lingering;
    while (*place && __atomic_load_n(&(*place)->users, __ATOMIC_SEQ_CST))
        place = &(*place)->next_retired;
    struct rondoComm *comm = *place;
    if (comm)
        *place = comm->next_retired;
    pthread_mutex_unlock(&lock);
    return comm;
}

static void end_lingering(void)
{
    for (struct rondoComm *comm; (comm = take_lingering());) {
        rondo_comm_strip(comm);
        rondo_comm_retire(comm);
    }
}

rondoResult_t rondo_comm_obtain(struct rondoComm **out)
{
    struct rondoComm *comm = NULL;
    end_lingering();
    pthread_mutex_lock(&lock);
    if (waiting > KEPT) {
        comm = oldest;
        oldest = comm->next_retired;
        waiting--;
    }
    pthread_mutex_unlock(&lock);
    if (comm)
        memset((char *)comm + sizeof comm->magic, 0, sizeof *comm - sizeof comm->magic);
    else
        comm = calloc(1, sizeof *comm);
    if (!comm)
        return rondo_fail(rondoSystemError, "out of memory");
    comm->magic = RONDO_COMM_MAGIC;
    comm->state = RONDO_COMM_RETIRED;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_mutex_init(&comm->failure_lock, NULL);
    rondo_redops_init(&comm->redops);
    rondo_labels_init(&comm->labels);
    rondo_registry_init(&comm->registry);
    rondo_inbox_init(&comm->inbox);
    *out = comm;
    return rondoSuccess;
}

static void free_device(struct rondoComm *comm)
{
    if (!comm->anchor)
        return;
    const bool part = comm->bootstrap && comm->ranks > 1 && rondo_anchor_is_legacy(comm->anchor);
    /* What ended kernels have posted is still to be copied, unless all is void. */
    rondo_mover_stop(comm->mover, rondo_comm_failure(comm) == rondoSuccess ? COPY_MS : 0);
    comm->mover = NULL;
    rondo_exporter_close(comm->exporter, comm->links != NULL);
    comm->exporter = NULL;
    rondo_links_close(comm);
    if (comm->eager_end)
        comm->ops->event_destroy(comm->device, comm->eager_end);
    if (comm->join)
        comm->ops->event_destroy(comm->device, comm->join);
    if (part) {
        rondo_part(comm->bootstrap, comm->anchor);
        comm->bootstrap = NULL;
    } else {
        rondo_anchor_drop(comm->anchor);
    }
    comm->anchor = NULL;
}

void rondo_comm_strip(struct rondoComm *comm)
{
    rondo_exporter_stop(comm->exporter);
    rondo_watch_remove(comm->watch);
    comm->watch = NULL;
    free_device(comm);
    rondo_bootstrap_close(comm->bootstrap);
    comm->bootstrap = NULL;
    rondo_tracer_destroy(comm->tracer);
    comm->tracer = NULL;
    rondo_arena_destroy(comm->arena);
    comm->arena = NULL;
}

void rondo_comm_retire(struct rondoComm *comm)
{
    __atomic_store_n(&comm->state, RONDO_COMM_RETIRED, __ATOMIC_RELEASE);
    rondo_inbox_fini(&comm->inbox);
    rondo_registry_fini(&comm->registry);
    rondo_labels_fini(&comm->labels);
    rondo_redops_fini(&comm->redops);
    pthread_mutex_destroy(&comm->lock);
    pthread_mutex_destroy(&comm->failure_lock);

    pthread_mutex_lock(&lock);
    comm->next_retired = NULL;
    if (waiting++ == 0)
        oldest = comm;
    else
        newest->next_retired = comm;
    newest = comm;
    pthread_mutex_unlock(&lock);
}

void rondo_comm_linger(struct rondoComm *comm)
{
    pthread_mutex_lock(&lock);
    comm->next_retired = lingering;
    lingering = comm;
    pthread_mutex_unlock(&lock);
}
