/* Comms that are revoked: their ops end, replays do nothing, no more ops are taken, and other comms can be made of their ranks. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/child.h"
#include "support/growing.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 20000, FILLED = 0x77 };

/* What a revoked comm is, and is not, good for. */
static int is_revoked(struct rig *rig)
{
    rondoResult_t error;
    rondoRedOp_t op;
    void *handle;
    float *a = rig->machine->alloc(64), scalar = 1;
    int value;
    const rondoComm_t c = rig->comm;
    RIG_OK(rondoCommGetAsyncError(c, &error));
    RIG_CHECK(error == rondoInvalidUsage, "its error is %d", error);
    RIG_CHECK(strstr(rondoGetLastError(NULL), "revoked"), "another text");
    RIG_REFUSED(rondoInvalidUsage, "revoked", rondoAllReduce(a, a, 4, rondoFloat, rondoSum, c, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "revoked", rondoSend(a, 4, rondoFloat, 0, c, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "revoked", rondoBarrier(c, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "revoked", rondoCommRegister(c, a, 64, &handle));
    RIG_REFUSED(rondoInvalidUsage, "revoked",
                rondoRedOpCreatePreMulSum(&op, &scalar, rondoFloat, rondoScalarHostImmediate, c));
    RIG_REFUSED(rondoInvalidUsage, "revoked", rondoCommFinalize(c));
    RIG_OK(rondoCommRevoke(c, RONDO_REVOKE_DEFAULT));
    RIG_OK(rondoCommCount(c, &value));
    RIG_CHECK(value == rig->ranks, "%d ranks", value);
    RIG_OK(rondoCommDeregister(c, NULL));
    rig->machine->free(a);
    return 0;
}

static struct machine_graph *capture(struct rig *rig, float *a)
{
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream);
    return rig->machine->capture_end(rig->stream);
}

/* How many bytes are not what the buffer was filled with. */
static int written(struct rig *rig, const float *a)
{
    static _Thread_local unsigned char bytes[COUNT * sizeof *a];
    int count = 0;
    rig->machine->download(bytes, a, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        count += bytes[i] != FILLED;
    return count;
}

/* ---- ops that wait ---- */

/* All but the last rank wait for it, eagerly and in a replay; it never comes, and learns that it need not. */
static int waiting_for_ever(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct CUstream_st *other = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    float *a = m->alloc(COUNT * sizeof *a), *b = m->alloc(COUNT * sizeof *b);
    struct machine_graph *graph = capture(rig, a);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank != rig->ranks - 1) {
        m->graph_launch(graph, rig->stream);
        /* a peer may be as far as to have revoked the comm */
        const rondoResult_t issued = rondoAllReduce(b, b, COUNT, rondoFloat, rondoSum, rig->comm, other);
        RIG_CHECK(issued == rondoSuccess || issued == rondoRemoteError, "issued %d", issued);
        usleep(50000);
        RIG_CHECK(rig->rank || (!m->stream_done(rig->stream) && !m->stream_done(other)), "they are over by themselves");
        RIG_CHECK(rig->rank == 0 || await_error(rig, 3000) == rondoRemoteError, "it was not told");
        const uint64_t start = rondo_now_ns();
        RIG_OK(rondoCommRevoke(rig->comm, RONDO_REVOKE_DEFAULT));
        RIG_CHECK(since_ms(start) < 1000, "%f ms", since_ms(start));
        m->stream_sync(rig->stream);
        m->stream_sync(other);
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
    } else {
        RIG_CHECK(await_error(rig, 3000) == rondoRemoteError, "it was not told");
        RIG_CHECK(strstr(rondoGetLastError(NULL), "revoked"), "another text");
        RIG_OK(rondoCommRevoke(rig->comm, RONDO_REVOKE_DEFAULT));
    }
    if (is_revoked(rig))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    const uint64_t start = rondo_now_ns();
    RIG_OK(rig->rank ? rondoCommDestroy(rig->comm) : rondoCommAbort(rig->comm));
    RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
    RIG_CHECK(rondoCommRevoke(rig->comm, RONDO_REVOKE_DEFAULT) == rondoInvalidArgument, "revoked after its end");
    m->graph_destroy(graph);
    m->stream_destroy(other);
    m->free(a);
    m->free(b);
    return 0;
}

Test(revoke, ends_ops_that_wait_for_a_rank_that_never_comes)
{
    growing_needs(3);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .layout = layout, .keep_comm = true}, waiting_for_ever),
                     0);
}

/* What was queued behind other work finds the comm revoked whenever it begins, and so do replays: nothing is written. */
static int queued_and_replayed(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(COUNT * sizeof *a), *b = m->alloc(COUNT * sizeof *b);
    struct CUstream_st *other = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    struct machine_graph *graph = capture(rig, a);
    m->fill(a, FILLED, COUNT * sizeof *a);
    m->fill(b, FILLED, COUNT * sizeof *b);
    const uint64_t queued = rondo_now_ns();
    m->compute(300e3, other);
    RIG_OK(rondoAllReduce(b, b, COUNT, rondoFloat, rondoSum, rig->comm, other));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* none is told before it has issued */
    const uint64_t start = rondo_now_ns();
    RIG_OK(rondoCommRevoke(rig->comm, RONDO_REVOKE_DEFAULT));
    const bool in_time = rondo_now_ns() - queued < 300000000; /* else the op may have run */
    RIG_CHECK(since_ms(start) < 1000, "%f ms", since_ms(start));
    for (int i = 0; i < 3; i++)
        m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    m->stream_sync(other);
    RIG_CHECK(written(rig, a) == 0, "a replay wrote %d bytes", written(rig, a));
    RIG_CHECK(!in_time || written(rig, b) == 0, "a queued op wrote %d bytes", written(rig, b));
    RIG_CHECK(rondo_lane_report(rig->comm->anchor, RONDO_LANE_GRAPH)->kind == RONDO_REPORT_STOPPED, "no report");
    if (is_revoked(rig))
        return 1;
    RIG_OK(rondoCommDestroy(rig->comm));
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    RIG_CHECK(written(rig, a) == 0, "a replay wrote %d bytes", written(rig, a));
    m->graph_destroy(graph);
    m->stream_destroy(other);
    m->free(a);
    m->free(b);
    return rig_barrier(rig);
}

Test(revoke, makes_replays_and_queued_ops_do_nothing_but_report)
{
    for (int ranks = 1; ranks <= rig_ranks(2); ranks++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .keep_comm = true}, queued_and_replayed), 0);
}

/* ---- what may follow ---- */

/* A split, a shrink without rank 1, and a grow back to all, of the revoked comm itself. */
static int parents(struct rig *rig)
{
    const int last = rig->ranks - 1;
    rondoComm_t split, shrunk = NULL, grown = NULL;
    float *a = rig->machine->alloc(COUNT * sizeof *a);
    if (rig->rank == 0)
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* a peer's revocation would have it refused */
    RIG_OK(rondoCommRevoke(rig->comm, RONDO_REVOKE_DEFAULT));
    RIG_OK(rondoCommSplit(rig->comm, 0, -rig->rank, &split, NULL));
    if (child_try(rig, split, last - rig->rank, rig->ranks))
        return 1;
    if (rig->rank != last) {
        int excluded = last;
        RIG_OK(rondoCommShrink(rig->comm, &excluded, 1, &shrunk, NULL, RONDO_SHRINK_DEFAULT));
        if (child_try(rig, shrunk, rig->rank, last))
            return 1;
    }
    /* all are old, so one rank more is needed: rank 0's process has that, too */
    if (rig->rank == 0)
        RIG_OK(rondoCommGetUniqueId(rig->comm, (rondoUniqueId *)rig->scratch));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    const rondoUniqueId *id = (const rondoUniqueId *)rig->scratch;
    struct rig rigs[2] = {*rig, *rig};
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoCommGrow(rig->comm, rig->ranks + 1, rig->rank ? NULL : id, -1, &grown, NULL));
    if (rig->rank == 0) {
        rig->machine->set_device(rig_device(rig, rig->ranks));
        rigs[1].stream = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
        RIG_OK(rondoCommGrow(NULL, rig->ranks + 1, id, rig->ranks, &rigs[1].comm, NULL));
    }
    RIG_OK(rondoGroupEnd());
    rigs[0].comm = grown;
    rigs[1].rank = rig->ranks;
    rigs[0].ranks = rigs[1].ranks = rig->ranks + 1;
    if (children_try(rigs, rig->rank ? 1 : 2))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommDestroy(rig->comm));
    if (child_try(rig, split, last - rig->rank, rig->ranks))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    if (rig->rank == 0) {
        RIG_OK(rondoCommDestroy(rigs[1].comm));
        rig->machine->stream_destroy(rigs[1].stream);
    }
    RIG_OK(rondoCommDestroy(split));
    RIG_OK(rondoCommDestroy(shrunk));
    RIG_OK(rondoCommDestroy(grown));
    rig->machine->free(a);
    return 0;
}

Test(revoke, may_be_followed_by_splits_shrinks_and_grows)
{
    growing_needs(4);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .keep_comm = true}, parents), 0);
}

/* The last rank dies in the midst of replays; the others revoke and shrink without it, with and without abort. */
static int without_a_killed_rank(struct rig *rig)
{
    const struct machine *m = rig->machine;
    int last = rig->ranks - 1;
    float *a = m->alloc(COUNT * sizeof *a);
    rondoComm_t shrunk;
    struct machine_graph *graph = capture(rig, a);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < 5; i++)
        m->graph_launch(graph, rig->stream);
    if (rig->rank == last)
        kill(getpid(), SIGKILL);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream); /* ends once the comm has failed */
    RIG_CHECK(await_error(rig, 3000) == rondoRemoteError, "another error");
    RIG_OK(rondoCommRevoke(rig->comm, RONDO_REVOKE_DEFAULT));
    if (is_revoked(rig))
        return 1;
    for (int flags = RONDO_SHRINK_DEFAULT; flags <= RONDO_SHRINK_ABORT; flags++) {
        RIG_OK(rondoCommShrink(rig->comm, &last, 1, &shrunk, NULL, flags));
        if (child_try(rig, shrunk, rig->rank, last) || is_revoked(rig))
            return 1;
        RIG_OK(rondoCommDestroy(shrunk));
    }
    RIG_OK(rondoCommDestroy(rig->comm));
    m->graph_destroy(graph);
    m->free(a);
    rig->scratch[rig->rank] = 1;
    return 0;
}

Test(revoke, and_a_shrink_do_without_a_killed_rank)
{
    growing_needs(3);
    char *scratch = malloc(RIG_SCRATCH);
    rig_run(
        &(struct rig_options){.ranks = 3, .keep_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
        without_a_killed_rank);
    for (int r = 0; r < 2; r++)
        cr_assert(scratch[r], "rank %d", r);
    free(scratch);
}

/* ---- beside other threads ---- */

struct issuer {
    struct rig *rig;
    int issued, over; /* atomic */
    rondoResult_t last;
};

/* Issues and captures until it is refused. */
static void *issue(void *argument)
{
    struct issuer *i = argument;
    const struct machine *m = i->rig->machine;
    struct CUstream_st *stream = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    float *a = m->alloc(COUNT * sizeof *a);
    while (i->last == rondoSuccess) {
        i->last = rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, i->rig->comm, stream);
        __atomic_add_fetch(&i->issued, 1, __ATOMIC_RELEASE);
        m->capture_begin(stream, MACHINE_CAPTURE_THREAD_LOCAL);
        rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, i->rig->comm, stream);
        m->graph_destroy(m->capture_end(stream));
    }
    __atomic_store_n(&i->over, 1, __ATOMIC_RELEASE);
    m->stream_sync(stream);
    m->stream_destroy(stream);
    m->free(a);
    return NULL;
}

static void *revoke_it(void *argument)
{
    struct issuer *i = argument;
    i->last = rondoCommRevoke(i->rig->comm, RONDO_REVOKE_DEFAULT);
    return NULL;
}

/* A thread is in the midst of ops when two others revoke the comm at once. */
static int beside_threads(struct rig *rig)
{
    struct issuer issuer = {.rig = rig}, revokers[2] = {{.rig = rig}, {.rig = rig}};
    pthread_t thread, threads[2];
    pthread_create(&thread, NULL, issue, &issuer);
    while (__atomic_load_n(&issuer.issued, __ATOMIC_ACQUIRE) < 20 && !__atomic_load_n(&issuer.over, __ATOMIC_ACQUIRE))
        usleep(100);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, revoke_it, &revokers[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        RIG_CHECK(revokers[i].last == rondoSuccess, "gave %d", revokers[i].last);
    }
    pthread_join(thread, NULL);
    RIG_CHECK(issuer.last == rondoInvalidUsage || issuer.last == rondoRemoteError, "issued %d", issuer.last);
    return is_revoked(rig) || rig_barrier(rig);
}

Test(revoke, may_come_from_any_threads_while_others_issue_and_capture)
{
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = layout}, beside_threads), 0);
}

static void *end_it(void *argument)
{
    struct issuer *i = argument;
    i->last = i->rig->rank ? rondoCommDestroy(i->rig->comm) : rondoCommAbort(i->rig->comm);
    return NULL;
}

/* One thread ends the comm while another revokes it, with an op under way that waits for ever on rank 0. */
static int beside_the_end(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(COUNT * sizeof *a);
    for (int round = 0; round < 4; round++) {
        struct issuer revoker = {.rig = rig}, ender = {.rig = rig};
        pthread_t threads[2];
        RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1 + round], rig->rank));
        if (rig->rank == 0)
            RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        pthread_create(&threads[round % 2], NULL, revoke_it, &revoker);
        pthread_create(&threads[1 - round % 2], NULL, end_it, &ender);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        RIG_CHECK(revoker.last == rondoSuccess || revoker.last == rondoInvalidArgument, "revoked %d", revoker.last);
        RIG_CHECK(ender.last == rondoSuccess, "ended %d", ender.last);
        m->stream_sync(rig->stream);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    m->free(a);
    return 0;
}

Test(revoke, may_meet_the_comms_end)
{
    growing_needs(2);
    for (enum rig_layout layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .layout = layout, .no_comm = true}, beside_the_end), 0);
}

/* ---- when it may be called ---- */

static int legal_or_not(struct rig *rig)
{
    const struct machine *m = rig->machine;
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    rondoComm_t comm;
    rondoPlan_t plan;
    float *a = m->alloc(COUNT * sizeof *a);
    RIG_OK(rondoCommRevoke(NULL, RONDO_REVOKE_DEFAULT));
    RIG_REFUSED(rondoInvalidArgument, "flags is 1", rondoCommRevoke(rig->comm, 1));
    if (child_try(rig, rig->comm, rig->rank, rig->ranks)) /* that had no effect */
        return 1;
    /* of a comm in its init, a non-blocking one, a finalized one */
    config.blocking = 0;
    rondoUniqueId id;
    RIG_OK(rondoGetUniqueId(&id));
    RIG_CHECK(rondoCommInitRankConfig(&comm, 2, id, 0, &config) == rondoInProgress, "init");
    RIG_REFUSED(rondoInvalidArgument, "being made", rondoCommRevoke(comm, RONDO_REVOKE_DEFAULT));
    RIG_OK(rondoCommAbort(comm));
    RIG_CHECK(rondoCommSplit(rig->comm, rig->rank, 0, &comm, &config) == rondoInProgress, "split");
    RIG_CHECK(child_await(comm) == rondoSuccess, "split");
    RIG_OK(rondoCommRevoke(comm, RONDO_REVOKE_DEFAULT));
    RIG_REFUSED(rondoInvalidUsage, "revoked", rondoCommFinalize(comm));
    RIG_OK(rondoCommDestroy(comm));
    RIG_OK(rondoCommSplit(rig->comm, rig->rank, 0, &comm, NULL));
    RIG_OK(rondoCommFinalize(comm));
    RIG_REFUSED(rondoInvalidUsage, "finalized", rondoCommRevoke(comm, RONDO_REVOKE_DEFAULT));
    RIG_OK(rondoCommDestroy(comm));
    /* in a group it is done at once: the group's ops are refused. And a plan from before it is of no more use */
    RIG_OK(rondoPlanBegin());
    RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, NULL));
    RIG_OK(rondoPlanEnd(&plan));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoGroupStart());
    const rondoResult_t queued = rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream);
    RIG_CHECK(queued == rondoSuccess || queued == rondoRemoteError, "queued %d", queued); /* a peer was faster */
    RIG_OK(rondoCommRevoke(rig->comm, RONDO_REVOKE_DEFAULT));
    RIG_CHECK(rondoGroupEnd() == (queued == rondoSuccess ? rondoInvalidUsage : queued), "issued");
    RIG_REFUSED(rondoInvalidUsage, "revoked", rondoPlanLaunch(plan, rig->stream));
    RIG_OK(rondoPlanDestroy(plan));
    m->stream_sync(rig->stream);
    m->free(a);
    return is_revoked(rig) || rig_barrier(rig);
}

Test(revoke, is_legal_or_refused_with_a_clear_text)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, legal_or_not), 0);
}
