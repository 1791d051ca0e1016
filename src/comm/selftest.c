#include "comm/selftest.h"

#include "comm/bootstrap.h"
#include "comm/links_impl.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/result.h"

#include <stdio.h>
#include <string.h>

_Static_assert(RONDO_MAX_RANKS <= sizeof((struct rondo_selftest_record *)0)->heard / sizeof(uint32_t),
               "the record has room for all ranks");

enum {
    BEGIN_MS = 2000,      /* for a kernel to begin: other kernels may have the device */
    BOUND_MS = 1000,      /* for stores to be seen, once all kernels run */
    HOST_BOUND_MS = 2500, /* the same through host memory: there is no other way, and the machine may be busy */
    END_MS = 10000,       /* for a kernel to end that was told to: hundreds of host-device ranks may share a core */
    SETTLE_MS = 100,      /* for one that began at that moment to show it */
    SLICE_MS = 5,
};

struct test {
    struct rondoComm *comm;
    struct rondo_selftest_record *record;
    uint32_t number;
    struct CUstream_st *stream;
    struct rondo_event *end;
    bool launched, recorded, over; /* recorded: `end`, without which it is not known when the kernel ends */
};

static bool cancelled(const struct test *test)
{
    return __atomic_load_n(&test->comm->cancelled, __ATOMIC_RELAXED) != 0;
}

static unsigned bound_of(const struct rondoComm *comm)
{
    for (int p = 0; p < comm->ranks; p++)
        if (p != comm->rank && rondo_path_of(comm, p, comm->rank)->host)
            return HOST_BOUND_MS;
    return BOUND_MS;
}

static rondoResult_t record_end(struct test *test)
{
    struct rondoComm *comm = test->comm;
    void *token;
    RONDO_TRY(comm->ops->enter(comm->device, &token));
    const rondoResult_t result = comm->ops->event_record(comm->device, test->end, test->stream);
    test->recorded = result == rondoSuccess;
    comm->ops->leave(comm->device, token);
    return result;
}

static rondoResult_t launch(struct test *test)
{
    struct rondoComm *comm = test->comm;
    const struct rondo_selftest_args args = {comm->lanes[RONDO_LANE_EAGER].args, comm->anchor->selftest.device,
                                             test->number};
    const struct rondo_launch launch = {
        .kernel = comm->kernels[RONDO_KERNEL_SELFTEST],
        .blocks = 1,
        .threads = comm->limits.max_threads < RONDO_MAX_RANKS ? comm->limits.max_threads : RONDO_MAX_RANKS,
        .args = &args,
        .args_bytes = sizeof args,
        .stream = test->stream,
    };
    void *token;
    RONDO_TRY(comm->ops->enter(comm->device, &token));
    rondoResult_t result = comm->ops->launch(comm->device, &launch);
    test->launched = result == rondoSuccess;
    comm->ops->leave(comm->device, token);
    return result == rondoSuccess ? record_end(test) : result;
}

static rondoResult_t start(struct test *test)
{
    struct rondoComm *comm = test->comm;
    if (!comm->anchor->selftest.host)
        RONDO_TRY(comm->ops->pinned_alloc(comm->device, sizeof *test->record, &comm->anchor->selftest));
    test->record = comm->anchor->selftest.host;
    /* Kernels of earlier tests may still come: to them the record stays as it is. */
    test->number = test->record->stop + 1;
    memset(test->record->heard, 0, sizeof test->record->heard);
    RONDO_TRY(comm->ops->event_create(comm->device, &test->end));
    RONDO_TRY(comm->ops->stream_create(comm->device, &test->stream));
    return launch(test);
}

static bool has_begun(const struct test *test)
{
    return __atomic_load_n(&test->record->begun, __ATOMIC_ACQUIRE) == test->number; /* rondo_selftest_body */
}

/* Whether the kernel runs, or has. */
static bool await_begin(const struct test *test)
{
    const uint64_t end = rondo_now_ns() + BEGIN_MS * 1000000ull;
    while (!has_begun(test)) {
        if (cancelled(test) || rondo_now_ns() > end)
            return false;
        rondo_sleep_ns(10000);
    }
    return true;
}

static rondoResult_t await_end(struct test *test, unsigned ms, bool even_cancelled)
{
    struct rondoComm *comm = test->comm;
    const uint64_t end = rondo_now_ns() + ms * 1000000ull;
    while (!test->over && rondo_now_ns() < end && (even_cancelled || !cancelled(test)))
        RONDO_TRY(comm->ops->event_wait_host(comm->device, test->end, SLICE_MS * 1000000ull, &test->over));
    return rondoSuccess;
}

/* Where the end could not be recorded, once more; the error that counts is the first. */
static void record_again(struct test *test)
{
    char text[512];
    snprintf(text, sizeof text, "%s", rondo_last_error());
    record_end(test);
    rondo_repeat(rondoSystemError, "%s", text);
}

/* Ends the kernel. One that comes later finds the record, and does nothing. */
static rondoResult_t stop(struct test *test)
{
    struct rondoComm *comm = test->comm;
    rondoResult_t result = rondoSuccess;
    if (test->launched) {
        __atomic_store_n(&test->record->stop, test->number, __ATOMIC_RELEASE); /* rondo_selftest_is_over */
        if (!test->recorded)
            record_again(test);
        if (test->recorded)
            result = await_end(test, SETTLE_MS, true);
        if (test->recorded && !test->over && result == rondoSuccess && has_begun(test))
            result = await_end(test, END_MS, true);
    }
    comm->ops->stream_destroy(comm->device, test->stream);
    if (!test->launched || test->over) {
        if (test->end)
            comm->ops->event_destroy(comm->device, test->end);
        return result;
    }
    rondo_anchor_hold(comm->anchor);
    if (test->recorded)
        rondo_anchor_drop_after(comm->anchor, test->end);
    if (test->recorded && !has_begun(test))
        return result;
    comm->links = NULL; /* it may be at the peers' memory */
    return rondo_fail(rondoSystemError, "rank %d: the self-test's kernel does not end", comm->rank);
}

rondoResult_t rondo_selftest_run(struct rondoComm *comm, uint8_t findings[RONDO_MAX_RANKS])
{
    struct test test = {.comm = comm};
    const uint64_t started_ns = rondo_now_ns();
    uint8_t begun[RONDO_MAX_RANKS] = {0}, mine;
    memset(findings, RONDO_SELFTEST_UNTESTED, RONDO_MAX_RANKS);
    if (comm->ranks == 1)
        return rondoSuccess;
    rondoResult_t result = start(&test);
    mine = result == rondoSuccess && await_begin(&test);
    if (result == rondoSuccess && !mine)
        rondo_log(RONDO_LOG_WARN, "rank %d: its paths are not tested, for the device runs no kernel of it for %d ms",
                  comm->rank, BEGIN_MS);
    const rondoResult_t told = rondo_bootstrap_all_gather(comm->bootstrap, &mine, begun, sizeof mine);
    if (result == rondoSuccess)
        result = told;
    if (result == rondoSuccess)
        result = await_end(&test, bound_of(comm), false);
    const rondoResult_t stopped = stop(&test);
    rondo_log_info(RONDO_LOG_INIT, "rank %d: paths tested in %.2f ms", comm->rank,
                   (double)(rondo_now_ns() - started_ns) * 1e-6);
    for (int r = 0; r < comm->ranks && test.over; r++)
        if (begun[r] && mine)
            findings[r] = (uint8_t)__atomic_load_n(&test.record->heard[r], __ATOMIC_ACQUIRE);
    return result == rondoSuccess ? stopped : result;
}
