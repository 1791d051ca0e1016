/* The end of a comm, in order or not, or of its ops only, and the calls that ask it about itself. Nothing here waits longer than 2 s in all, but the
 * drop-in for ops; what counts is time in which this process runs. */
#include "comm/bootstrap.h"
#include "comm/comm.h"
#include "comm/failure.h"
#include "comm/parting.h"
#include "comm/retired.h"
#include "comm/watch.h"
#include "common/clock.h"
#include "common/face.h"
#include "common/log.h"
#include "common/range.h"
#include "common/result.h"

enum {
    DRAIN_MS = 1100,  /* for what runs to end by itself */
    QUIET_MS = 500,   /* for kernels to end once their waits were ended */
    LEAVE_MS = 200,   /* for calls of other threads to get out */
    CANCEL_MS = 1500, /* for an init that was cancelled to end */
    LOOK_MS = 5,      /* between two looks at kernels */
};

/* What a call may find. */
enum { FAILED = 1, LEFT = 2, ENDED = 4, REVOKED = 8 };

/* Whatever befell the comm before. */
static rondoResult_t revoked_error(const struct rondoComm *comm)
{
    return rondo_repeat(rondoInvalidUsage, "rank %d revoked the comm", comm->rank);
}

/* `anchor`: what the comm had when the caller last knew it; NULL: it is no old acquaintance. */
static rondoResult_t enter(struct rondoComm *comm, unsigned allowed, const struct rondo_anchor *anchor)
{
    if (!comm || comm->magic != RONDO_COMM_MAGIC)
        return rondo_fail(rondoInvalidArgument, "comm is %s", comm ? "not a communicator" : "NULL");
    __atomic_add_fetch(&comm->users, 1, __ATOMIC_SEQ_CST); /* before the state is read: see await_users */
    int state = __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST);
    rondoResult_t result = rondoSuccess;
    if (anchor && (state == RONDO_COMM_RETIRED || state == RONDO_COMM_CANCELLED || state == RONDO_COMM_MAKING ||
                   state == RONDO_COMM_BROKEN || comm->anchor != anchor))
        result = rondo_fail(rondoInvalidUsage, "a comm of the plan was destroyed or aborted after the plan was made");
    else if (state == RONDO_COMM_RETIRED || state == RONDO_COMM_CANCELLED)
        result = rondo_fail(rondoInvalidArgument, "comm was destroyed or aborted");
    else if (state == RONDO_COMM_MAKING)
        result = rondo_fail(rondoInvalidArgument, "comm is still being made");
    else if (rondo_comm_is_revoked(comm))
        result = allowed & REVOKED ? rondoSuccess : revoked_error(comm);
    else if (!(allowed & FAILED && state != RONDO_COMM_BROKEN) && (result = rondo_comm_failure(comm)) != rondoSuccess)
        ;
    else if (!(allowed & ENDED) && (state == RONDO_COMM_FINALIZED || state == RONDO_COMM_FINALIZING))
        result = rondo_fail(rondoInvalidUsage, "comm %s finalized", state == RONDO_COMM_FINALIZED ? "was" : "is being");
    else if (!(allowed & LEFT) && __atomic_load_n(&comm->left_rank, __ATOMIC_ACQUIRE) >= 0 && !rondo_face()->patient)
        result = rondo_fail(rondoRemoteError, "rank %d has left the comm",
                            __atomic_load_n(&comm->left_rank, __ATOMIC_RELAXED));
    if (result != rondoSuccess)
        rondo_comm_leave(comm);
    return result;
}

rondoResult_t rondo_comm_enter(struct rondoComm *comm)
{
    return enter(comm, 0, NULL);
}

rondoResult_t rondo_comm_enter_again(struct rondoComm *comm, const struct rondo_anchor *anchor)
{
    return enter(comm, 0, anchor);
}

rondoResult_t rondo_comm_enter_alone(struct rondoComm *comm)
{
    return enter(comm, LEFT, NULL);
}

rondoResult_t rondo_comm_enter_parent(struct rondoComm *comm, bool allowed_to_fail)
{
    return enter(comm, allowed_to_fail ? FAILED | LEFT | REVOKED : LEFT | REVOKED, NULL);
}

rondoResult_t rondo_comm_enter_ended(struct rondoComm *comm)
{
    return enter(comm, FAILED | LEFT | ENDED | REVOKED, NULL);
}

bool rondo_comm_is_revoked(const struct rondoComm *comm)
{
    return __atomic_load_n(&comm->revoked, __ATOMIC_SEQ_CST) == RONDO_REVOKED;
}

void rondo_comm_leave(struct rondoComm *comm)
{
    __atomic_sub_fetch(&comm->users, 1, __ATOMIC_SEQ_CST);
}

/* Polls until the comm's kernels are idle. A launch shows as busy after some 0.2 ms at most, or is over by then: two looks
 * that are 5 ms apart and find nothing mean idle. (Eager launches are waited for by their event besides.) Time in which nobody looks does
 * not count, for the kernels may have stood still too. */
static bool quiet_within(struct rondoComm *comm, unsigned ms)
{
    const uint64_t end = rondo_now_ns() + ms * 1000000ull;
    unsigned idle_looks = 0;
    for (unsigned looks = 0;; looks++) {
        bool busy;
        if (rondo_lanes_busy(comm->anchor, &busy) != rondoSuccess)
            return false;
        idle_looks = busy ? 0 : idle_looks + 1;
        if (idle_looks == 2)
            return true;
        if (looks >= ms / LOOK_MS && rondo_now_ns() > end)
            return false;
        rondo_sleep_ns(LOOK_MS * 1000000ull);
    }
}

bool rondo_comm_drain(struct rondoComm *comm, unsigned ms)
{
    const uint64_t start = rondo_now_ns();
    bool done = true;
    pthread_mutex_lock(&comm->lock);
    bool any = comm->eager_stream != 0;
    pthread_mutex_unlock(&comm->lock);
    if (rondo_comm_failure(comm) != rondoSuccess)
        return false;
    if (any &&
        (comm->ops->event_wait_host(comm->device, comm->eager_end, ms * 1000000ull, &done) != rondoSuccess || !done))
        return false;
    const uint64_t spent_ms = (rondo_now_ns() - start) / 1000000;
    return quiet_within(comm, spent_ms < ms ? (unsigned)(ms - spent_ms) : 1);
}

/* A comm that is being destroyed stays retired: nobody else may claim it. */
static void move_on(struct rondoComm *comm, int state)
{
    int was = __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST);
    while (was != RONDO_COMM_RETIRED &&
           !__atomic_compare_exchange_n(&comm->state, &was, state, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
}

/* Whether all ops have ended. One that has failed, or that another thread aborts, is waited for no longer. */
static bool drain(struct rondoComm *comm)
{
    bool done;
    do
        done = rondo_comm_drain(comm, DRAIN_MS);
    while (!done && rondo_face()->patient && rondo_comm_failure(comm) == rondoSuccess);
    return done;
}

static rondoResult_t finalize(struct rondoComm *comm)
{
    /* Kernels that an abort ended have not done what they were to. */
    if (drain(comm) && rondo_comm_failure(comm) == rondoSuccess) {
        move_on(comm, RONDO_COMM_FINALIZED);
        rondo_watch_tell(comm->watch, RONDO_WATCH_LEFT, NULL);
        return rondoSuccess;
    }
    rondo_comm_read_reports(comm);
    if (rondo_comm_failure(comm) != rondoSuccess) { /* peers that have not heard of it would take this rank for dead */
        rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, comm->failure_text);
        return rondo_comm_failure(comm);
    }
    rondo_comm_failed(comm, rondoTimeout, "ops of rank %d were still running %d ms after it was asked to end",
                      comm->rank, DRAIN_MS);
    rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, comm->failure_text);
    return rondo_comm_failure(comm);
}

static void *finalize_in_thread(void *argument)
{
    struct rondoComm *comm = argument;
    if (finalize(comm) != rondoSuccess)
        move_on(comm, RONDO_COMM_ALIVE);
    rondo_comm_leave(comm);
    return NULL;
}

/* For a non-blocking comm. The thread is joined by who asks about the comm afterwards, or ends it. */
static rondoResult_t finalize_later(struct rondoComm *comm)
{
    int alive = RONDO_COMM_ALIVE;
    if (!__atomic_compare_exchange_n(&comm->state, &alive, RONDO_COMM_FINALIZING, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return rondo_fail(rondoInvalidUsage, "comm is being finalized or destroyed by another thread");
    rondo_worker_join(&comm->worker); /* the init's, which is over */
    __atomic_add_fetch(&comm->users, 1, __ATOMIC_SEQ_CST);
    rondoResult_t result = rondo_worker_start(&comm->worker, finalize_in_thread, comm);
    if (result == rondoSuccess)
        return rondoInProgress;
    rondo_comm_leave(comm);
    __atomic_store_n(&comm->state, RONDO_COMM_ALIVE, __ATOMIC_SEQ_CST);
    return result;
}

/* A finalize in a thread comes to its end by itself, but in a forked child, which has no such thread. */
static void await_finalized(struct rondoComm *comm)
{
    const uint64_t end = rondo_now_ns() + (DRAIN_MS + LEAVE_MS) * 1000000ull;
    while (rondo_now_ns() < end && __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST) == RONDO_COMM_FINALIZING)
        rondo_sleep_ns(1000000);
}

/* Calls that other threads are inside of get out by themselves: they do not block, or see the failure. Returns whether they did; who comes
 * after that sees that the comm has ended, and nothing else of it. Counted in looks, of which what stands still uses up none. */
static bool await_users(struct rondoComm *comm)
{
    for (int looks = 0; looks < 10 * LEAVE_MS; looks++) {
        if (!__atomic_load_n(&comm->users, __ATOMIC_SEQ_CST))
            return true;
        rondo_sleep_ns(100000);
    }
    return false;
}

/* Frees all, now or later. `left`: nobody is inside. */
static void let_go(struct rondoComm *comm, bool left)
{
    if (!left && __atomic_load_n(&comm->users, __ATOMIC_SEQ_CST)) {
        rondo_log(RONDO_LOG_WARN, "rank %d: a call of another thread is held up in the comm, which is freed later",
                  comm->rank);
        rondo_comm_linger(comm);
        return;
    }
    rondo_comm_strip(comm);
    rondo_comm_retire(comm);
}

/* Stops the lanes and frees the comm. If its kernels do not end, what they might touch stays allocated. */
static void tear_down(struct rondoComm *comm)
{
    rondo_worker_join(&comm->worker); /* its work is over */
    const bool left = await_users(comm);
    if (!comm->anchor) { /* an init that failed: nothing was left of it */
        let_go(comm, left);
        return;
    }
    __atomic_store_n(&comm->anchor->ended, 1, __ATOMIC_RELAXED); /* who describes a graph tells */
    rondo_lanes_abort(comm->anchor);
    bool stopped = rondo_lanes_stop(comm->anchor) == rondoSuccess && quiet_within(comm, QUIET_MS);
    bool launched = true;
    if (stopped && comm->eager_stream)
        stopped = comm->ops->event_wait_host(comm->device, comm->eager_end, 0, &launched) == rondoSuccess;
    if (!stopped) {
        rondo_log(RONDO_LOG_WARN, "rank %d: kernels do not end; the comm's device memory is not freed", comm->rank);
        comm->links = NULL;
        if (rondo_anchor_is_legacy(comm->anchor))
            comm->bootstrap = NULL; /* stays open: its end would tell the peers that nothing of theirs is used here */
    }
    /* Eager launches that have not begun will find their lane stopped: the control memory must be there for that. What
     * does not end may be a kernel of a replay, of whose end there is no word. */
    if (!stopped) {
        rondo_anchor_hold(comm->anchor);
    } else if (!launched) {
        rondo_anchor_hold(comm->anchor);
        rondo_anchor_drop_after(comm->anchor, comm->eager_end);
        comm->eager_end = NULL;
    }
    let_go(comm, left);
    rondo_partings_reap();
    rondo_anchor_reap();
}

/* Claims the comm for its end: of several threads one gets it. */
static rondoResult_t claim(struct rondoComm *comm, int *was)
{
    if (comm->magic != RONDO_COMM_MAGIC)
        return rondo_fail(rondoInvalidArgument, "comm is not a communicator");
    *was = __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST);
    do {
        if (*was == RONDO_COMM_FINALIZING) {
            await_finalized(comm);
            *was = __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST);
        }
        if (*was == RONDO_COMM_RETIRED || *was == RONDO_COMM_CANCELLED)
            return rondo_fail(rondoInvalidArgument, "comm was destroyed or aborted before");
        if (*was == RONDO_COMM_MAKING)
            return rondo_fail(rondoInvalidArgument, "comm is still being made; rondoCommAbort ends that");
    } while (
        !__atomic_compare_exchange_n(&comm->state, was, RONDO_COMM_RETIRED, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return rondoSuccess;
}

/* Whether the comm was in its init, which then ends in the thread that makes it. */
static bool abort_init(struct rondoComm *comm)
{
    const uint64_t end = rondo_now_ns() + CANCEL_MS * 1000000ull;
    struct rondo_worker worker = {0};
    if (comm->magic != RONDO_COMM_MAGIC || __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST) != RONDO_COMM_MAKING)
        return false;
    rondo_worker_take(&comm->worker, &worker); /* before the struct may be retired */
    const bool cancelled = rondo_comm_cancel(comm);
    bool ended = !cancelled;
    while (!ended && rondo_now_ns() < end) {
        rondo_sleep_ns(1000000);
        ended = __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST) != RONDO_COMM_CANCELLED;
    }
    if (ended)
        rondo_worker_join(&worker);
    else
        rondo_worker_detach(&worker);
    return cancelled;
}

/* A finalize in a thread waits for ops: it is not to wait longer. */
static void hurry_finalize(struct rondoComm *comm)
{
    if (comm->magic != RONDO_COMM_MAGIC)
        return;
    __atomic_add_fetch(&comm->users, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&comm->state, __ATOMIC_SEQ_CST) == RONDO_COMM_FINALIZING)
        rondo_comm_failed(comm, rondoInvalidUsage, "rank %d aborted the comm", comm->rank);
    rondo_comm_leave(comm);
}

rondoResult_t rondoCommFinalize(rondoComm_t comm)
{
    RONDO_RANGE("rondoCommFinalize", 0);
    if (!comm)
        return rondoSuccess;
    RONDO_TRY(enter(comm, LEFT, NULL)); /* ranks that are through with theirs are no error */
    rondoResult_t result = comm->config.blocking ? finalize(comm) : finalize_later(comm);
    rondo_comm_leave(comm);
    return result;
}

rondoResult_t rondoCommDestroy(rondoComm_t comm)
{
    RONDO_RANGE("rondoCommDestroy", 0);
    int was;
    if (!comm)
        return rondoSuccess;
    RONDO_TRY(claim(comm, &was));
    if (was == RONDO_COMM_ALIVE)
        finalize(comm); /* whatever comes of it, the comm ends; its failure was logged and told */
    tear_down(comm);
    return rondoSuccess;
}

rondoResult_t rondoCommAbort(rondoComm_t comm)
{
    RONDO_RANGE("rondoCommAbort", 0);
    int was;
    if (!comm || abort_init(comm))
        return rondoSuccess;
    hurry_finalize(comm);
    RONDO_TRY(claim(comm, &was));
    rondo_comm_failed(comm, rondoInvalidUsage, "rank %d aborted the comm", comm->rank);
    if (was == RONDO_COMM_ALIVE)
        rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, comm->failure_text);
    tear_down(comm);
    return rondoSuccess;
}

/* Whether the kernels have ended. Who destroys the comm meanwhile does not wait for this long. */
static bool revoked_in_time(struct rondoComm *comm)
{
    enum { SLICE_MS = 50 };
    bool quiet = false;
    for (int ms = 0; ms < QUIET_MS && !quiet; ms += SLICE_MS) {
        if (__atomic_load_n(&comm->state, __ATOMIC_SEQ_CST) == RONDO_COMM_RETIRED)
            return true;
        quiet = quiet_within(comm, SLICE_MS);
    }
    return quiet;
}

/* As the beginning of a tear-down, after which the comm stays. What has not begun yet finds its lane stopped, whenever it does. */
static rondoResult_t revoke(struct rondoComm *comm)
{
    __atomic_store_n(&comm->revoked, RONDO_REVOKING, __ATOMIC_SEQ_CST);
    rondo_comm_failed(comm, rondoInvalidUsage, "rank %d revoked the comm", comm->rank);
    rondo_watch_tell(comm->watch, RONDO_WATCH_ABORTED, "it revoked the comm");
    rondoResult_t result = rondo_lanes_stop(comm->anchor);
    if (result == rondoSuccess && !revoked_in_time(comm))
        result = rondo_fail(rondoTimeout, "kernels of rank %d were still running %d ms after the comm was revoked",
                            comm->rank, QUIET_MS);
    __atomic_store_n(&comm->revoked, RONDO_REVOKED, __ATOMIC_SEQ_CST);
    return result;
}

rondoResult_t rondoCommRevoke(rondoComm_t comm, int flags)
{
    RONDO_RANGE("rondoCommRevoke", 0);
    if (flags != RONDO_REVOKE_DEFAULT)
        return rondo_fail(rondoInvalidArgument, "flags is %d, must be RONDO_REVOKE_DEFAULT", flags);
    if (!comm)
        return rondoSuccess;
    RONDO_TRY(enter(comm, FAILED | LEFT | REVOKED, NULL));
    rondoResult_t result = rondo_comm_is_revoked(comm) ? rondoSuccess : revoke(comm);
    rondo_comm_leave(comm);
    return result;
}

rondoResult_t rondoCommGetAsyncError(rondoComm_t comm, rondoResult_t *async_error)
{
    if (!comm || comm->magic != RONDO_COMM_MAGIC || !async_error)
        return rondo_fail(rondoInvalidArgument, "%s",
                          async_error ? "comm is not a communicator" : "asyncError is NULL");
    __atomic_add_fetch(&comm->users, 1, __ATOMIC_SEQ_CST);
    rondoResult_t result = rondoSuccess;
    const int state = __atomic_load_n(&comm->state, __ATOMIC_SEQ_CST);
    if (state == RONDO_COMM_RETIRED || state == RONDO_COMM_CANCELLED)
        result = rondo_fail(rondoInvalidArgument, "comm was destroyed or aborted");
    else if (state == RONDO_COMM_MAKING || state == RONDO_COMM_FINALIZING)
        *async_error = rondoInProgress;
    else {
        *async_error = rondo_comm_is_revoked(comm) ? revoked_error(comm) : rondo_comm_failure(comm);
        rondo_worker_join(&comm->worker); /* it is at its end */
    }
    rondo_comm_leave(comm);
    return result;
}

static rondoResult_t check_query(struct rondoComm *comm, const void *out, const char *name)
{
    const int state =
        comm && comm->magic == RONDO_COMM_MAGIC ? __atomic_load_n(&comm->state, __ATOMIC_ACQUIRE) : RONDO_COMM_RETIRED;
    if (state == RONDO_COMM_MAKING)
        return rondo_fail(rondoInvalidArgument, "comm is still being made");
    if (state == RONDO_COMM_RETIRED || state == RONDO_COMM_CANCELLED)
        return rondo_fail(rondoInvalidArgument, "comm is not a live communicator");
    if (state == RONDO_COMM_BROKEN)
        return rondo_comm_failure(comm);
    return out ? rondoSuccess : rondo_fail(rondoInvalidArgument, "%s is NULL", name);
}

rondoResult_t rondoCommCount(rondoComm_t comm, int *count)
{
    RONDO_TRY(check_query(comm, count, "count"));
    *count = comm->ranks;
    return rondoSuccess;
}

rondoResult_t rondoCommDevice(rondoComm_t comm, int *device)
{
    RONDO_TRY(check_query(comm, device, "device"));
    *device = comm->info.ordinal;
    return rondoSuccess;
}

rondoResult_t rondoCommRank(rondoComm_t comm, int *rank)
{
    RONDO_TRY(check_query(comm, rank, "rank"));
    *rank = comm->rank;
    return rondoSuccess;
}
