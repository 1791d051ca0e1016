/* Ends that are not in order while copy engines move data between buffers: errors in bounded time, nothing left, and nothing written
 * after a launch has come back. And what a mover does with single requests. */
#include "comm/comm.h"
#include "common/clock.h"
#include "kernels/copy.h"
#include "support/copied.h"
#include "support/faults.h"
#include "support/holdings.h"
#include "transport/mover.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(copies_ends, .init = copied_init, .timeout = 200);

/* An all-gather, or messages to and from everyone. */
static struct item item_of(enum item_kind kind)
{
    struct item item = {.kind = kind, .type = rondoFloat32, .count = 50000};
    for (int s = 0; s < ITEM_RANKS; s++)
        for (int r = 0; r < ITEM_RANKS; r++)
            item.counts[s][r] = item.count;
    return item;
}

/* A comm whose item is copied by now. What comes once per process has come before. */
static int begin(struct rig *rig, struct item *item, struct holdings *before)
{
    faults_install();
    for (int id = 1; id <= 2; id++) {
        *before = holdings();
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[id], rig->rank));
        item_prepare(item, rig);
        if (copied_rounds(item, rig, NULL))
            return 1;
        if (id == 2)
            return 0;
        item_free(item, rig);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        RIG_OK(rondoCommDestroy(rig->comm));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        usleep(30000);
    }
    return 1;
}

/* ---- an abort ---- */

/* Rank 0 aborts while its engines, or all, stand still. */
static int aborted(struct rig *rig, enum item_kind kind, bool all)
{
    struct item item = item_of(kind);
    struct holdings before;
    if (begin(rig, &item, &before))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    __atomic_store_n(&faults.stalled, all || rig->rank == 0, __ATOMIC_SEQ_CST);
    RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    usleep(100000);
    const uint64_t start = rondo_now_ns();
    if (rig->rank)
        RIG_CHECK(await_error(rig, 3000) == rondoRemoteError, "another error");
    __atomic_store_n(&faults.copy_delay_us, 20000, __ATOMIC_RELAXED);
    __atomic_store_n(&faults.stalled, 0, __ATOMIC_SEQ_CST);
    RIG_OK(rondoCommAbort(rig->comm));
    RIG_CHECK(since_ms(start) < 4000, "%f ms", since_ms(start));
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    item_free(&item, rig);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

static int aborted_works(struct rig *rig)
{
    copied_begin(rig);
    const int failed = aborted(rig, ITEM_ALL_GATHER, false);
    copied_end(rig);
    return failed;
}

static int aborted_messages(struct rig *rig)
{
    copied_begin(rig);
    const int failed = aborted(rig, ITEM_ALL_TO_ALLV, true);
    copied_end(rig);
    return failed;
}

Test(copies_ends, by_an_abort_leave_nothing)
{
    const struct rig_options options = {.ranks = rig_ranks(3), .no_comm = true, .apart = true};
    cr_assert_eq(rig_run(&options, aborted_works), 0);
    cr_assert_eq(rig_run(&options, aborted_messages), 0);
}

/* ---- no copy comes after its launch ---- */

/* Rank 0 aborts while the engines of the others stand still; they go on a little later. Launches of the others end no earlier than their copies. */
static int held_to_the_end(struct rig *rig, enum item_kind kind)
{
    enum { LATER_MS = 100, SURE_MS = 200 };
    struct item item = item_of(kind);
    struct holdings before;
    copied_begin(rig);
    if (begin(rig, &item, &before))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    __atomic_store_n(&faults.stalled, rig->rank != 0, __ATOMIC_SEQ_CST); /* who aborts waits for its own */
    const uint64_t copies = copied_count(rig);
    RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
    while (copied_count(rig) == copies) /* an engine has it */
        usleep(1000);
    const uint64_t well = rondo_now_ns(); /* nobody has aborted yet */
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank == 0)
        RIG_OK(rondoCommAbort(rig->comm));
    else
        RIG_CHECK(await_error(rig, 5000) == rondoRemoteError, "another error");
    const uint64_t start = rondo_now_ns();
    usleep(rig->rank ? LATER_MS * 1000 : 0);
    const bool ended = rig->machine->stream_done(rig->stream);
    const bool sure = rondo_now_ns() - well < SURE_MS * 1000000ull; /* else the launch may have given up */
    __atomic_store_n(&faults.stalled, 0, __ATOMIC_SEQ_CST);
    RIG_CHECK(!rig->rank || !sure || !ended, "the launch came back before its copy");
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
    if (rig->rank)
        RIG_OK(rondoCommDestroy(rig->comm));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    item_free(&item, rig);
    copied_end(rig);
    return rig_barrier(rig);
}

static int held_works(struct rig *rig)
{
    return held_to_the_end(rig, ITEM_ALL_GATHER);
}

static int held_messages(struct rig *rig)
{
    return held_to_the_end(rig, ITEM_ALL_TO_ALLV);
}

Test(copies_ends, by_an_abort_come_after_copies_that_were_begun)
{
    const struct rig_options options = {.ranks = rig_ranks(3), .no_comm = true, .apart = true};
    cr_assert_eq(rig_run(&options, held_works), 0);
    cr_assert_eq(rig_run(&options, held_messages), 0);
}

/* Fault: a launch that died withdrew its requests one after the other, and waited for each as long as for all. Who ended its comm did not wait
 * for so long, and left the comm's memory for good. */
static void *abort_it(void *rig)
{
    rondoCommAbort(((struct rig *)rig)->comm);
    return NULL;
}

static int withdrawn_at_once(struct rig *rig)
{
    struct item item = item_of(ITEM_ALL_GATHER);
    struct holdings before;
    pthread_t thread;
    copied_begin(rig);
    if (begin(rig, &item, &before))
        return 1;
    const struct rondo_copy *asked = rig->comm->anchor->copies.host; /* of the eager lane, which is the first */
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    __atomic_store_n(&faults.stalled, rig->rank == 0, __ATOMIC_SEQ_CST);
    const uint64_t copies = copied_count(rig);
    RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
    if (rig->rank == 0) {
        uint64_t first = 0, last = 0;
        while (copied_count(rig) != copies + (unsigned)rig->ranks - 1)
            usleep(1000);
        RIG_CHECK(pthread_create(&thread, NULL, abort_it, rig) == 0, "no thread");
        for (int count = 0; count < rig->ranks - 1; usleep(100)) { /* the engines hold the abort up */
            count = 0;
            for (int p = 0; p < rig->ranks; p++)
                count += __atomic_load_n(&asked[p].withdrawn, __ATOMIC_ACQUIRE) != 0;
            last = rondo_now_ns();
            first = first || !count ? first : last;
        }
        __atomic_store_n(&faults.stalled, 0, __ATOMIC_SEQ_CST);
        pthread_join(thread, NULL);
        RIG_CHECK((last - first) / 1000000 < RONDO_COPY_GRACE_NS / 1000000 * (uint64_t)(rig->ranks - 3),
                  "from the first to the last it took %d ms", (int)((last - first) / 1000000));
    } else {
        RIG_CHECK(await_error(rig, 5000) == rondoRemoteError, "another error");
        RIG_OK(rondoCommDestroy(rig->comm));
    }
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    item_free(&item, rig);
    copied_end(rig);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(copies_ends, by_an_abort_withdraw_all_at_once)
{
    const struct rig_options options = {.ranks = rig_ranks(5), .no_comm = true, .apart = true};
    cr_assert_eq(rig_run(&options, withdrawn_at_once), 0);
}

/* ---- engines that stand still, or fail ---- */

/* The engines of the last rank stand still for longer than anybody waits. */
static int timed_out(struct rig *rig)
{
    struct item item = item_of(ITEM_BROADCAST);
    struct holdings before;
    copied_begin(rig);
    if (begin(rig, &item, &before))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    __atomic_store_n(&faults.stalled, rig->rank == rig->ranks - 1, __ATOMIC_SEQ_CST);
    RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
    const uint64_t start = rondo_now_ns();
    const rondoResult_t error = await_error(rig, 5000);
    RIG_CHECK(error == rondoTimeout || error == rondoRemoteError, "error %d", error);
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(since_ms(start) < 4000, "%f ms", since_ms(start));
    __atomic_store_n(&faults.stalled, 0, __ATOMIC_SEQ_CST);
    RIG_OK(rondoCommDestroy(rig->comm));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    item_free(&item, rig);
    copied_end(rig);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(copies_ends, by_a_timeout_leave_nothing)
{
    setenv("RONDO_TIMEOUT_MS", "3000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true, .apart = true}, timed_out), 0);
}

/* Those of rank 0 fail. */
static int broken(struct rig *rig)
{
    struct item item = item_of(ITEM_ALL_GATHER);
    struct holdings before;
    copied_begin(rig);
    if (begin(rig, &item, &before))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    __atomic_store_n(&faults.broken, rig->rank == 0, __ATOMIC_SEQ_CST);
    RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    const uint64_t start = rondo_now_ns();
    const rondoResult_t error = await_error(rig, 3000);
    RIG_CHECK(error == (rig->rank ? rondoRemoteError : rondoSystemError), "error %d", error);
    RIG_CHECK(strstr(rondoGetLastError(rig->comm), "a copy between it and rank"), "another error");
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(rig->comm));
    item_free(&item, rig);
    copied_end(rig);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return nothing_more(rig, &before);
}

Test(copies_ends, by_a_failed_copy_are_told_to_all)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true, .apart = true}, broken), 0);
}

/* ---- a kill ---- */

static void note(struct rig *rig, char what)
{
    rig->scratch[RIG_SCRATCH / 2 + rig->rank] = what;
}

/* The last rank is killed in the midst of replays, by late engines. */
static int killed(struct rig *rig)
{
    struct item item = item_of(ITEM_ALL_GATHER);
    struct holdings before;
    copied_begin(rig);
    if (begin(rig, &item, &before))
        return note(rig, '2'), 1;
    struct machine_graph *graph = copied_capture(&item, rig);
    if (copied_rounds(&item, rig, graph))
        return note(rig, '3'), 1;
    __atomic_store_n(&faults.copy_delay_us, 10000, __ATOMIC_RELAXED);
    if (rig_barrier(rig))
        return note(rig, '4'), 1;
    for (int i = 0; i < 200; i++)
        rig->machine->graph_launch(graph, rig->stream);
    if (rig->rank == rig->ranks - 1) {
        usleep(50000);
        kill(getpid(), SIGKILL);
    }
    const uint64_t start = rondo_now_ns();
    if (await_error(rig, 5000) != rondoRemoteError)
        return note(rig, '5'), 1;
    rig->machine->stream_sync(rig->stream);
    if (rondoCommDestroy(rig->comm) != rondoSuccess || since_ms(start) > 5000)
        return note(rig, '6'), 1;
    rig->machine->graph_destroy(graph);
    item_free(&item, rig);
    note(rig, nothing_more(rig, &before) ? '7' : '1');
    return 0;
}

Test(copies_ends, after_a_kill_leave_nothing_to_the_others)
{
    const int ranks = rig_ranks(3);
    char *scratch = malloc(RIG_SCRATCH);
    rig_run(
        &(struct rig_options){
            .ranks = ranks, .no_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        killed);
    for (int r = 0; r < ranks - 1; r++)
        cr_assert_eq(scratch[RIG_SCRATCH / 2 + r], '1', "rank %d came as far as %c", r,
                     scratch[RIG_SCRATCH / 2 + r] ? scratch[RIG_SCRATCH / 2 + r] : '0');
    cr_assert_eq(rig_names_in_shm(), 0);
    free(scratch);
}

/* ---- single requests ---- */

struct desk {
    const struct rondo_device_ops *ops;
    struct rondo_device *device;
    struct rondo_copy asked[2]; /* of two lanes */
    int failures;               /* atomic */
    struct rondo_mover *mover;
};

static void count_failure(void *object, unsigned peer)
{
    struct desk *desk = object;
    __atomic_add_fetch(&desk->failures, peer == 7, __ATOMIC_SEQ_CST);
}

static void desk_open(struct desk *desk)
{
    const struct rondo_copy_route route = {.peer = 7, .lanes = 2, .asked = desk->asked, .pitch = 1};
    const struct rondo_mover_job job = {.copies = &route, .copy_count = 1, .failed = count_failure, .object = desk};
    setenv("RONDO_DEVICE", "host", 1);
    faults_install();
    cr_assert_eq(rondo_device_row(&desk->ops), rondoSuccess);
    cr_assert_eq(desk->ops->open(-1, &desk->device), rondoSuccess);
    cr_assert_eq(rondo_mover_start(desk->ops, desk->device, &job, &desk->mover), rondoSuccess);
}

static void desk_close(struct desk *desk)
{
    rondo_mover_stop(desk->mover, 1000);
    desk->ops->close(desk->device);
}

static void ask(struct desk *desk, int lane, void *to, const void *from, uint64_t bytes)
{
    struct rondo_copy *copy = &desk->asked[lane];
    __atomic_store_n(&copy->to, (uintptr_t)to, __ATOMIC_RELAXED);
    __atomic_store_n(&copy->from, (uintptr_t)from, __ATOMIC_RELAXED);
    __atomic_store_n(&copy->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&copy->number, copy->number + 1, __ATOMIC_RELEASE);
}

static bool becomes(const uint32_t *word, uint32_t value)
{
    for (int i = 0; i < 5000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) != value; i++)
        usleep(1000);
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value;
}

Test(copies_ends, come_to_each_request_once)
{
    struct desk desk = {.failures = 0};
    char from[64], to[64] = "";
    memset(from, 'x', sizeof from);
    desk_open(&desk);
    ask(&desk, 0, to, from, 10);
    cr_assert(becomes(&desk.asked[0].done, 1));
    ask(&desk, 1, to + 32, from, 3);
    cr_assert(becomes(&desk.asked[1].done, 1));
    cr_expect(!memcmp(to, "xxxxxxxxxx", 11) && !memcmp(to + 32, "xxx", 4));
    cr_expect_eq(rondo_mover_copies(desk.mover), 2);
    desk_close(&desk);
    cr_expect_eq(desk.failures, 0);
}

Test(copies_ends, refuse_what_was_withdrawn)
{
    struct desk desk = {.failures = 0};
    char from[64] = "something", to[64] = "";
    desk.asked[0].withdrawn = 1;
    desk_open(&desk);
    ask(&desk, 0, to, from, 10);
    cr_assert(becomes(&desk.asked[0].refused, 1));
    ask(&desk, 0, to + 32, from, 10); /* which is another one */
    cr_assert(becomes(&desk.asked[0].done, 2));
    cr_expect_str_eq(to, "");
    cr_expect_str_eq(to + 32, "something");
    desk_close(&desk);
}

Test(copies_ends, come_at_once_to_what_is_withdrawn_behind_another)
{
    struct desk desk = {.failures = 0};
    char from[64] = "something", to[64] = "";
    desk_open(&desk);
    __atomic_store_n(&faults.stalled, 1, __ATOMIC_SEQ_CST);
    ask(&desk, 0, to, from, 10);
    while (rondo_mover_copies(desk.mover) == 0)
        usleep(1000);
    ask(&desk, 1, to + 32, from, 10);
    __atomic_store_n(&desk.asked[1].withdrawn, 1, __ATOMIC_RELEASE);
    cr_assert(becomes(&desk.asked[1].refused, 1));
    cr_expect_eq(__atomic_load_n(&desk.asked[0].done, __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(&faults.stalled, 0, __ATOMIC_SEQ_CST);
    cr_assert(becomes(&desk.asked[0].done, 1));
    desk_close(&desk);
    cr_expect_str_eq(to, "something");
    cr_expect_str_eq(to + 32, "");
}

Test(copies_ends, refuse_everything_once_one_has_failed)
{
    struct desk desk = {.failures = 0};
    char from[64] = "something", to[64] = "";
    desk_open(&desk);
    __atomic_store_n(&faults.broken, 1, __ATOMIC_SEQ_CST);
    ask(&desk, 0, to, from, 10);
    cr_assert(becomes(&desk.asked[0].refused, 1));
    __atomic_store_n(&faults.broken, 0, __ATOMIC_SEQ_CST);
    ask(&desk, 1, to, from, 10);
    cr_assert(becomes(&desk.asked[1].refused, 1));
    desk_close(&desk);
    cr_expect_str_eq(to, "");
    cr_expect_eq(desk.failures, 1);
}
