/* Captures that go wrong, or go over several streams and threads, and what works afterwards: everything. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/rig.h"

#include "rondo/host.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000 };

struct buffers {
    float *send, *recv;
};

static struct buffers buffers_make(struct rig *rig)
{
    struct buffers b = {rig->machine->alloc(COUNT * sizeof(float)), rig->machine->alloc(COUNT * sizeof(float))};
    rig->machine->fill(b.recv, 0x77, COUNT * sizeof(float));
    rig_input(rig, b.send, COUNT, rondoFloat, rondoSum);
    return b;
}

static void buffers_free(struct rig *rig, struct buffers *b)
{
    rig->machine->free(b->send);
    rig->machine->free(b->recv);
}

static rondoResult_t reduce(struct rig *rig, const struct buffers *b, struct CUstream_st *stream)
{
    return rondoAllReduce(b->send, b->recv, COUNT, rondoFloat, rondoSum, rig->comm, stream);
}

static int right(struct rig *rig, const struct buffers *b, const char *what)
{
    const size_t wrong = rig_wrong(rig, b->recv, COUNT, rondoFloat, rondoSum);
    RIG_CHECK(wrong == 0, "%zu wrong %s", wrong, what);
    rig->machine->fill(b->recv, 0x77, COUNT * sizeof(float));
    return 0;
}

static int sound(struct rig *rig)
{
    rondoResult_t error;
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "async error %d", error);
    return rig_try(rig, 1);
}

/* ---- captures that are void: the host device's own calls, for CUDA ends its process in the harness ---- */

static int void_by_sync(struct rig *rig)
{
    struct buffers b = buffers_make(rig);
    rondoHostGraph_t graph = (rondoHostGraph_t)&b;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* peers in this process hold references too */
    const unsigned before = rondo_anchor_references(rig->comm->anchor);
    for (int ops = 0; ops < 3; ops++) {
        RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureGlobal));
        for (int i = 0; i < ops; i++)
            RIG_OK(reduce(rig, &b, rig->stream));
        RIG_CHECK(rondoHostStreamSynchronize(rig->stream) == rondoInvalidUsage, "a capturing stream was synchronized");
        RIG_CHECK(reduce(rig, &b, rig->stream) == rondoInvalidUsage, "an op went into a void capture");
        RIG_CHECK(strstr(rondoGetLastError(NULL), "invalidated"), "another text");
        RIG_OK(rondoGroupStart());
        RIG_OK(reduce(rig, &b, rig->stream));
        RIG_OK(reduce(rig, &b, rig->stream));
        RIG_CHECK(rondoGroupEnd() == rondoInvalidUsage, "a group went into a void capture");
        RIG_CHECK(rondoHostStreamEndCapture(rig->stream, &graph) == rondoInvalidUsage && !graph, "a void graph");
        if (sound(rig))
            return 1;
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int wait = 0; wait < 200 && rondo_anchor_references(rig->comm->anchor) > before; wait++)
        usleep(10000); /* a stream's thread drops those of what it ran */
    const unsigned references = rondo_anchor_references(rig->comm->anchor);
    RIG_CHECK(references == before, "%u references, %u before", references, before);
    buffers_free(rig, &b);
    return 0;
}

Test(capture, that_was_made_void_leaves_the_comm_as_it_was)
{
    if (!rig_on_host())
        cr_skip_test("uses rondo/host.h");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, void_by_sync), 0);
}

/* Ends with a fork unjoined: by an op on the branch, or by one on both. */
static int unjoined(struct rig *rig)
{
    struct buffers b = buffers_make(rig), other = buffers_make(rig);
    rondoHostStream_t branch;
    rondoHostEvent_t event;
    rondoHostGraph_t graph;
    RIG_OK(rondoHostStreamCreate(&branch));
    RIG_OK(rondoHostEventCreate(&event));
    for (int both = 0; both < 2; both++) {
        RIG_OK(rondoHostStreamBeginCapture(rig->stream, rondoHostCaptureThreadLocal));
        if (both)
            RIG_OK(reduce(rig, &b, rig->stream));
        RIG_OK(rondoHostEventRecord(event, rig->stream));
        RIG_OK(rondoHostStreamWaitEvent(branch, event));
        RIG_OK(reduce(rig, &other, branch));
        RIG_CHECK(rondoHostStreamEndCapture(rig->stream, &graph) == rondoInvalidUsage && !graph, "an unjoined fork");
        /* both streams are free again, for eager ops and captures */
        RIG_OK(reduce(rig, &b, branch));
        RIG_OK(reduce(rig, &other, rig->stream));
        RIG_OK(rondoHostStreamSynchronize(branch));
        RIG_OK(rondoHostStreamSynchronize(rig->stream));
        if (right(rig, &b, "on the branch") || right(rig, &other, "on the origin") || sound(rig))
            return 1;
    }
    /* the capturing stream goes away in the middle */
    RIG_OK(rondoHostStreamBeginCapture(branch, rondoHostCaptureRelaxed));
    RIG_OK(reduce(rig, &b, branch));
    RIG_OK(rondoHostStreamDestroy(branch));
    RIG_OK(rondoHostEventDestroy(event));
    if (sound(rig))
        return 1;
    buffers_free(rig, &b);
    buffers_free(rig, &other);
    return 0;
}

Test(capture, that_ends_with_a_fork_unjoined_leaves_the_comm_as_it_was)
{
    if (!rig_on_host())
        cr_skip_test("uses rondo/host.h");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3}, unjoined), 0);
}

/* ---- ops that are refused inside a capture do not harm it ---- */

static int refused_inside(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct buffers b = buffers_make(rig), c = buffers_make(rig);
    struct CUstream_st *second = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(reduce(rig, &b, rig->stream));
    RIG_CHECK(rondoAllReduce(NULL, b.recv, 4, rondoFloat, rondoSum, rig->comm, rig->stream) == rondoInvalidArgument,
              "accepted");
    RIG_CHECK(rondoAllReduce(b.send, b.recv, 4, 99, rondoSum, rig->comm, rig->stream) == rondoInvalidArgument,
              "accepted");
    RIG_OK(rondoGroupStart());
    RIG_OK(reduce(rig, &c, rig->stream));
    RIG_CHECK(rondoAllReduce(b.send, b.send + 1, 4, rondoFloat, rondoSum, rig->comm, rig->stream) ==
                  rondoInvalidArgument,
              "accepted");
    RIG_CHECK(rondoGroupEnd() == rondoInvalidArgument, "accepted");
    RIG_OK(rondoGroupStart()); /* one stream captures, the other does not */
    RIG_OK(reduce(rig, &b, rig->stream));
    RIG_OK(reduce(rig, &c, second));
    RIG_CHECK(rondoGroupEnd() == rondoInvalidUsage, "accepted");
    RIG_CHECK(strstr(rondoGetLastError(NULL), "one capture"), "another text");
    RIG_OK(rondoGroupStart());
    RIG_OK(reduce(rig, &c, second));
    RIG_OK(reduce(rig, &b, rig->stream));
    RIG_CHECK(rondoGroupEnd() == rondoInvalidUsage, "accepted");
    RIG_OK(reduce(rig, &c, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    if (right(rig, &b, "of the first op") || right(rig, &c, "of the op behind the refused ones") || sound(rig))
        return 1;
    m->graph_destroy(graph);
    m->stream_destroy(second);
    buffers_free(rig, &b);
    buffers_free(rig, &c);
    return 0;
}

Test(capture, goes_on_behind_ops_that_were_refused)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, refused_inside), 0);
}

/* ---- streams of every kind ---- */

static int stream_kinds(struct rig *rig)
{
    const struct machine *m = rig->machine;
    /* cudaStreamLegacy and cudaStreamPerThread are small numbers, which the host device must refuse */
    struct CUstream_st *streams[] = {NULL, m->stream_create(MACHINE_STREAM_NONBLOCKING),
                                     m->stream_create(MACHINE_STREAM_BLOCKING), (struct CUstream_st *)(uintptr_t)1,
                                     (struct CUstream_st *)(uintptr_t)2};
    struct buffers b[5];
    for (int i = 0; i < 5; i++)
        b[i] = buffers_make(rig);
    const int kinds = rig_on_host() ? 3 : 5;
    for (int i = kinds; i < 5; i++)
        RIG_CHECK(reduce(rig, &b[i], streams[i]) == rondoInvalidArgument, "a stream that is none was accepted");
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < kinds; i++)
            RIG_OK(reduce(rig, &b[i], streams[(i + round) % kinds]));
        if (round % 10 != 9)
            continue;
        for (int i = 0; i < kinds; i++)
            m->stream_sync(streams[i]);
        for (int i = 0; i < kinds; i++)
            if (right(rig, &b[i], "on a stream of some kind"))
                return 1;
    }
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < kinds; i++)
        RIG_OK(reduce(rig, &b[i], streams[i]));
    RIG_OK(rondoGroupEnd());
    for (int i = 0; i < kinds; i++)
        m->stream_sync(streams[i]);
    for (int i = 0; i < kinds; i++)
        if (right(rig, &b[i], "of a group over streams of all kinds"))
            return 1;
    if (sound(rig))
        return 1;
    m->stream_destroy(streams[1]);
    m->stream_destroy(streams[2]);
    RIG_OK(
        reduce(rig, &b[0], NULL)); /* the last op's stream is gone: that orders nothing any more, and must not matter */
    m->stream_sync(NULL);
    if (right(rig, &b[0], "after its predecessor's stream was destroyed"))
        return 1;
    for (int i = 0; i < 5; i++)
        buffers_free(rig, &b[i]);
    return 0;
}

Test(capture, is_not_needed_for_eager_ops_on_streams_of_every_kind)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, stream_kinds), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS}, stream_kinds), 0);
}

/* NULL is the default stream of the comm's device, whatever the thread's current device is. */
static int default_stream(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct buffers b = buffers_make(rig);
    const int own = rig_device(rig, rig->rank), other = rig_on_host() ? 77 : (own + 1) % m->device_count();
    m->set_device(own);
    m->compute(30000, NULL);
    m->set_device(other);
    RIG_OK(reduce(rig, &b, NULL));
    m->set_device(own);
    m->stream_sync(NULL);
    if (right(rig, &b, "on the default stream, called from another device"))
        return 1;
    int device = -1;
    m->set_device(other);
    RIG_OK(reduce(rig, &b, rig->stream));
    if (rig_on_host()) {
        RIG_OK(rondoHostGetDevice(&device));
        RIG_CHECK(device == other, "the call left device %d current", device);
    }
    m->set_device(own);
    m->stream_sync(rig->stream);
    buffers_free(rig, &b);
    return 0;
}

Test(capture, is_not_needed_on_the_default_stream_from_another_current_device)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, default_stream), 0);
}

/* Whether a NULL stream can be captured: as in CUDA, it cannot; the comm is none the worse. */
static int default_stream_refuses(struct rig *rig)
{
    RIG_CHECK(rondoHostStreamBeginCapture(NULL, rondoHostCaptureGlobal) == rondoInvalidUsage, "captured");
    return sound(rig);
}

Test(capture, of_the_default_stream_is_refused)
{
    if (!rig_on_host())
        cr_skip_test("uses rondo/host.h");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2}, default_stream_refuses), 0);
}

/* ---- forks, threads, several captures at once ---- */

/* Branches of three streams, forks of forks, groups over two branches; replayed beside eager ops. */
static int forks_of_forks(struct rig *rig)
{
    enum { BRANCHES = 3, OPS = 7 };
    const struct machine *m = rig->machine;
    struct CUstream_st *s[BRANCHES] = {rig->stream};
    struct machine_event *fork_event[BRANCHES], *join_event[BRANCHES];
    struct buffers b[OPS], eager = buffers_make(rig);
    for (int i = 0; i < OPS; i++)
        b[i] = buffers_make(rig);
    struct CUstream_st *beside = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    for (int i = 1; i < BRANCHES; i++) {
        s[i] = m->stream_create(MACHINE_STREAM_NONBLOCKING);
        fork_event[i] = m->event_create();
        join_event[i] = m->event_create();
    }
    for (int mode = 0; mode < 3; mode++) {
        m->capture_begin(s[0], (enum machine_capture_mode)mode);
        for (int i = 1; i < BRANCHES; i++) {
            m->event_record(fork_event[i], s[i - 1]);
            m->event_wait(fork_event[i], s[i]);
            RIG_OK(reduce(rig, &b[i - 1], s[i - 1]));
        }
        m->copy(eager.send, eager.send, 0, s[1]);
        RIG_OK(reduce(rig, &b[2], s[2]));
        RIG_OK(rondoGroupStart());
        RIG_OK(reduce(rig, &b[3], s[2]));
        RIG_OK(reduce(rig, &b[4], s[1]));
        RIG_OK(rondoGroupEnd());
        for (int i = BRANCHES - 1; i > 0; i--) {
            m->event_record(join_event[i], s[i]);
            m->event_wait(join_event[i], s[i - 1]);
        }
        RIG_OK(reduce(rig, &b[5], s[0]));
        RIG_OK(reduce(rig, &b[6], s[0]));
        struct machine_graph *graph = m->capture_end(s[0]);
        for (int replay = 0; replay < 100; replay++) {
            m->graph_launch(graph, s[0]);
            RIG_OK(reduce(rig, &eager, beside));
        }
        m->stream_sync(s[0]);
        m->stream_sync(beside);
        for (int i = 0; i < OPS; i++)
            if (right(rig, &b[i], "in a fork"))
                return 1;
        if (right(rig, &eager, "beside a fork"))
            return 1;
        m->graph_destroy(graph);
    }
    if (sound(rig))
        return 1;
    for (int i = 1; i < BRANCHES; i++) {
        m->stream_destroy(s[i]);
        m->event_destroy(fork_event[i]);
        m->event_destroy(join_event[i]);
    }
    m->stream_destroy(beside);
    for (int i = 0; i < OPS; i++)
        buffers_free(rig, &b[i]);
    buffers_free(rig, &eager);
    return 0;
}

Test(capture, forks_into_branches_that_all_use_the_comm)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, forks_of_forks), 0);
}

/* Two threads of one rank, in turn, put ops into one capture. */
struct turn {
    struct rig *rig;
    struct CUstream_st *stream;
    struct buffers *buffers;
    rondoResult_t result;
};

static void *take_turn(void *argument)
{
    struct turn *turn = argument;
    turn->rig->machine->set_device(rig_device(turn->rig, turn->rig->rank));
    turn->result = reduce(turn->rig, turn->buffers, turn->stream);
    return NULL;
}

static int two_threads(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct CUstream_st *branch = m->stream_create(MACHINE_STREAM_NONBLOCKING);
    struct machine_event *fork_event = m->event_create(), *join_event = m->event_create();
    struct buffers b[4];
    for (int i = 0; i < 4; i++)
        b[i] = buffers_make(rig);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_RELAXED);
    RIG_OK(reduce(rig, &b[0], rig->stream));
    m->event_record(fork_event, rig->stream);
    m->event_wait(fork_event, branch);
    for (int i = 1; i < 4; i++) {
        struct turn turn = {rig, i % 2 ? branch : rig->stream, &b[i], rondoSuccess};
        pthread_t thread;
        pthread_create(&thread, NULL, take_turn, &turn);
        pthread_join(thread, NULL);
        RIG_CHECK(turn.result == rondoSuccess, "op %d of another thread gave %d", i, turn.result);
    }
    m->event_record(join_event, branch);
    m->event_wait(join_event, rig->stream);
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int replay = 0; replay < 50; replay++)
        m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    for (int i = 0; i < 4; i++)
        if (right(rig, &b[i], "of two threads"))
            return 1;
    if (sound(rig))
        return 1;
    m->graph_destroy(graph);
    m->event_destroy(fork_event);
    m->event_destroy(join_event);
    m->stream_destroy(branch);
    for (int i = 0; i < 4; i++)
        buffers_free(rig, &b[i]);
    return 0;
}

Test(capture, takes_ops_from_two_threads)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, two_threads), 0);
}

/* More captures under way than the comm keeps records of, their ops in turn; eager ops in between. */
static int many_at_once(struct rig *rig)
{
    enum { CAPTURES = RONDO_CAPTURES + 8 };
    const struct machine *m = rig->machine;
    struct CUstream_st *streams[CAPTURES];
    struct machine_graph *graphs[CAPTURES];
    struct buffers b = buffers_make(rig), eager = buffers_make(rig);
    for (int i = 0; i < CAPTURES; i++) {
        streams[i] = m->stream_create(MACHINE_STREAM_NONBLOCKING);
        m->capture_begin(streams[i], MACHINE_CAPTURE_RELAXED);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CAPTURES; i++)
            RIG_OK(reduce(rig, &b, streams[i]));
        RIG_OK(reduce(rig, &eager, rig->stream));
    }
    for (int i = 0; i < CAPTURES; i++) {
        graphs[i] = m->capture_end(streams[i]);
        m->graph_launch(graphs[i], rig->stream);
    }
    m->stream_sync(rig->stream);
    if (right(rig, &b, "of many captures") || right(rig, &eager, "between captures") || sound(rig))
        return 1;
    for (int i = 0; i < CAPTURES; i++) {
        m->graph_destroy(graphs[i]);
        m->stream_destroy(streams[i]);
    }
    buffers_free(rig, &b);
    buffers_free(rig, &eager);
    return 0;
}

Test(capture, may_be_one_of_many_at_the_same_time)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, many_at_once), 0);
}
