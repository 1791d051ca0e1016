/* Several messages between the same two ranks, small and large: some directly, some by FIFO, in one stream. */
#include "comm/comm.h"
#include "comm/exports.h"
#include "common/clock.h"
#include "support/flicker.h"
#include "support/mailbox.h"
#include "support/mappable.h"
#include "support/rig.h"

#include "kernels/work.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* On the host device those of 128 KiB and more may be direct. */
static const size_t sizes[] = {5,  300000, 17, 128 << 10,        (128 << 10) - 1, 64,    2 << 20, 1, 1, (128 << 10) + 3,
                               16, 0,      8,  (1 << 20) - 4096, 1 << 17,         40000, 200001,  3, 8, 131073};
enum { MESSAGES = sizeof sizes / sizeof *sizes, ROUNDS = RIG_SLOW ? 2 : 6 };

/* How a rank issues them: in one group, in a group for each message to and from others, or in groups of three. */
enum way { TOGETHER, ONE_BY_ONE, IN_THREES, WAYS };

struct set {
    struct rig *rig;
    char *send, *recv;
    size_t at[MESSAGES], bytes;
};

/* `odd`: every third lies where whole lines do not. */
static struct set set_make(struct rig *rig, bool odd)
{
    struct set set = {.rig = rig, .bytes = 64};
    for (size_t m = 0; m < MESSAGES; m++) {
        set.at[m] = set.bytes + (odd && m % 3 == 0);
        set.bytes += (sizes[m] + 64) / 16 * 16 + 32;
    }
    set.send = mappable_get(rig, set.bytes);
    set.recv = mappable_get(rig, set.bytes);
    return set;
}

static void set_free(struct set *set)
{
    mappable_free(set->rig, set->send);
    mappable_free(set->rig, set->recv);
}

static uint8_t byte_of(int rank, int round, size_t m, size_t i)
{
    return (uint8_t)((i * 13 + i / 251 + m * 31 + (size_t)rank * 7 + (size_t)round * 3) % 256);
}

static int issue(const struct set *set, enum way way)
{
    struct rig *rig = set->rig;
    const int next = (rig->rank + 1) % rig->ranks, last = (rig->rank + rig->ranks - 1) % rig->ranks;
    const size_t every = way == TOGETHER ? MESSAGES : way == ONE_BY_ONE ? 1 : 3;
    for (size_t first = 0; first < MESSAGES; first += every) {
        RIG_OK(rondoGroupStart());
        for (size_t m = first; m < first + every && m < MESSAGES; m++) {
            RIG_OK(rondoSend(set->send + set->at[m], sizes[m], rondoUint8, next, rig->comm, rig->stream));
            RIG_OK(rondoRecv(set->recv + set->at[m], sizes[m], rondoUint8, last, rig->comm, rig->stream));
        }
        RIG_OK(rondoGroupEnd());
    }
    return 0;
}

static void fill(const struct set *set, int round)
{
    char *host = malloc(set->bytes);
    memset(host, 0x55, set->bytes);
    for (size_t m = 0; m < MESSAGES; m++)
        for (size_t i = 0; i < sizes[m]; i++)
            host[set->at[m] + i] = (char)byte_of(set->rig->rank, round, m, i);
    set->rig->machine->upload(set->send, host, set->bytes);
    memset(host, 0x77, set->bytes);
    set->rig->machine->upload(set->recv, host, set->bytes);
    free(host);
}

static int check(const struct set *set, char *recv, int round, const char *what)
{
    struct rig *rig = set->rig;
    const int last = (rig->rank + rig->ranks - 1) % rig->ranks;
    char *host = malloc(set->bytes), *wanted = malloc(set->bytes);
    memset(wanted, 0x77, set->bytes);
    for (size_t m = 0; m < MESSAGES; m++)
        for (size_t i = 0; i < sizes[m]; i++)
            wanted[set->at[m] + i] = (char)byte_of(last, round, m, i);
    rig->machine->download(host, recv, set->bytes);
    size_t at = 0;
    while (at < set->bytes && host[at] == wanted[at])
        at++;
    free(host);
    free(wanted);
    RIG_CHECK(at == set->bytes, "%s, round %d: byte %zu is wrong", what, round, at);
    return 0;
}

static uint32_t ran(struct rig *rig)
{
    uint32_t n = 0;
    rondo_exporter_ran(rig->comm->exporter, &n);
    return n;
}

/* What runs a set: a graph, or else a plan, or else calls. */
struct runner {
    struct machine_graph *graph;
    rondoPlan_t plan;
    enum way way;
};

/* One round; results are looked at in `recv`. */
static int run_round(const struct set *set, const struct runner *runner, char *recv, int round, const char *what)
{
    struct rig *rig = set->rig;
    fill(set, round);
    if (recv != set->recv)
        rig->machine->fill(recv, 0x77, set->bytes);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone"); /* direct messages do not wait for fill */
    if (runner->graph)
        rig->machine->graph_launch(runner->graph, rig->stream);
    else if (runner->plan)
        RIG_OK(rondoPlanLaunch(runner->plan, rig->stream));
    else if (issue(set, runner->way))
        return 1;
    rig->machine->stream_sync(rig->stream);
    if (check(set, recv, round, what))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    return 0;
}

/* Replays until messages were direct on all ranks. */
static int until_direct(const struct set *set, const struct runner *runner)
{
    struct rig *rig = set->rig;
    const uint32_t before = ran(rig);
    const uint64_t start = rondo_now_ns();
    int *direct = (int *)(void *)rig->scratch;
    for (int round = 0, all = 0; !all; round++) {
        RIG_CHECK(since_ms(start) < 20000, "not direct after %d rounds", round);
        if (rig->rank == 0)
            *direct = 0;
        if (run_round(set, runner, set->recv, round, "captured"))
            return 1;
        if (ran(rig) != before)
            __atomic_add_fetch(direct, 1, __ATOMIC_SEQ_CST);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        all = __atomic_load_n(direct, __ATOMIC_SEQ_CST) == rig->ranks;
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    }
    return 0;
}

/* Replays, and eager rounds by a plan on some ranks and by calls on the others, while memory comes and goes. */
static int flickering(const struct set *set, const struct runner *graph, rondoPlan_t plan)
{
    struct flicker f;
    int failed = 0;
    flicker_begin(&f, set->rig);
    for (int round = 0; round < ROUNDS && !failed; round++) {
        const struct runner eager = {.plan = (round + set->rig->rank) % 2 ? plan : NULL,
                                     .way = (enum way)((graph->way + round) % WAYS)};
        failed = run_round(set, graph, set->recv, round, "flickering") ||
                 run_round(set, &eager, set->recv, round + 100, "eager");
    }
    flicker_end(&f);
    return failed;
}

/* One rank after the other receives in memory that its graph does not hold. */
static int elsewhere(const struct set *set, const struct runner *graph, void *source, char *to)
{
    struct rig *rig = set->rig;
    const rondoMove_t move = {set->recv, to, set->bytes};
    for (int r = 0; r < rig->ranks; r++) {
        if (r == rig->rank)
            RIG_OK(rondoGraphRetarget(graph->graph, source, &move, 1, NULL));
        if (run_round(set, graph, r >= rig->rank ? to : set->recv, r, "elsewhere"))
            return 1;
    }
    return 0;
}

static int streams(struct rig *rig)
{
    for (int variant = 0; variant < 2 * WAYS; variant++) {
        struct set set = set_make(rig, variant % 2 && rig->rank % 2);
        struct runner graph = {.way = (enum way)((variant / 2 + rig->rank) % WAYS)}; /* another one on each rank */
        char *other = mappable_get(rig, set.bytes + 16);
        void *source, *handle;
        rondoPlan_t plan;
        rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        if (issue(&set, graph.way))
            return 1;
        graph.graph = rig->machine->capture_end_with(rig->stream, &source);
        RIG_OK(rondoPlanBegin());
        if (issue(&set, graph.way))
            return 1;
        RIG_OK(rondoPlanEnd(&plan));
        if (until_direct(&set, &graph))
            return 1;
        RIG_OK(rondoCommRegister(rig->comm, set.recv, set.bytes, &handle));
        if (flickering(&set, &graph, plan) || elsewhere(&set, &graph, source, other + (variant % 2 ? 0 : 5)))
            return 1;
        RIG_OK(rondoCommDeregister(rig->comm, handle));
        RIG_OK(rondoPlanDestroy(plan));
        rig->machine->graph_destroy(graph.graph);
        rig->machine->source_destroy(source);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
        mappable_free(rig, other);
        set_free(&set);
    }
    return mailboxes_check(rig);
}

Test(direct_streams, of_small_and_large_messages_between_threads, .timeout = 300)
{
    for (int ranks = 2; ranks <= 3; ranks++)
        if (rig_runs_with(ranks))
            cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = RIG_THREADS}, streams), 0);
}

Test(direct_streams, of_small_and_large_messages_on_several_channels, .timeout = 300)
{
    setenv("RONDO_MAX_CTAS", "14", 1);
    setenv("RONDO_EPOCH_START", "-4000", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS}, streams), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, streams), 0);
}

Test(direct_streams, of_messages_that_all_may_be_direct, .timeout = 300)
{
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_MAX_CTAS", "7", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, streams), 0);
}
