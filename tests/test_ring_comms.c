/* Rings in comms: by themselves where some pairs are slow, beside messages, and when ranks fail. */
#include "comm/comm.h"
#include "common/clock.h"
#include "support/item.h"
#include "support/mailbox.h"
#include "support/rig.h"
#include "support/ways.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 200001 };

/* ---- islands of fast pairs ---- */

/* A machine of GPUs, each on a NUMA node of its own, of which NVLink joins those with the same letter. */
static void write_islands(const char *path, const char *names)
{
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    fprintf(file, "rondo-topology 1\nmachine arch=x86_64 cpu=GenuineIntel\n");
    for (int g = 0; names[g]; g++)
        fprintf(file, "numa %d cpus=%d\nbridge pci0000:%d0 numa=%d\n", g, g, g + 1, g);
    for (int g = 0; names[g]; g++)
        fprintf(file, "gpu 0000:%d8:00.0 numa=%d parent=pci0000:%d0 capability=70\n", g + 1, g, g + 1);
    for (int g = 0; names[g]; g++)
        for (int h = g + 1; names[h]; h++)
            if (names[g] == names[h])
                fprintf(file, "nvlink 0000:%d8:00.0 0000:%d8:00.0 links=2\n", g + 1, h + 1);
    fclose(file);
}

/* What each op is to be; in why, what is to be told of it. */
struct expected {
    const char *names, *order;
    const char *ops[6], *algorithms[6];
};

static const struct expected machines[] = {
    {"aabb",
     "0123",
     {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"},
     {"ring", "ring", "ring", "ring", "ring", "one-shot"}},
    {"abab",
     "0213",
     {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"},
     {"two-shot", "ring", "one-shot", "ring", "two-shot", "one-shot"}},
    {"abc",
     "012",
     {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all"},
     {"two-shot", "one-shot", "one-shot", "two-shot", "two-shot", "one-shot"}},
};

static const struct expected *machine_of_test(void)
{
    return &machines[atoi(getenv("RONDO_TEST_CASE"))];
}

/* What was captured is described as what was chosen. */
static int check_described(struct rig *rig, const char *algorithm)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(COUNT * 4);
    void *source;
    char text[4096], wanted[64];
    size_t bytes = sizeof text;
    rig_input(rig, a, COUNT, rondoFloat, rondoSum);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end_with(rig->stream, &source);
    RIG_OK(rondoGraphDescribe(source, rondoDescribeText, text, &bytes));
    snprintf(wanted, sizeof wanted, "(%d bytes), %s, ", COUNT * 4, algorithm);
    RIG_CHECK(strstr(text, wanted), "no \"%s\" in %s", wanted, text);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    RIG_CHECK(rig_wrong(rig, a, COUNT, rondoFloat, rondoSum) == 0, "wrong");
    m->source_destroy(source);
    m->graph_destroy(graph);
    m->free(a);
    return 0;
}

static int try_large(struct rig *rig, enum item_kind kind)
{
    struct draw draw = {(uint64_t)kind};
    struct item item;
    do
        item_draw(&item, &draw, rig->ranks, 18);
    while (item.kind != kind || item.count < 60000);
    item_prepare(&item, rig);
    for (int round = 0; round < (RIG_SLOW ? 1 : 3); round++) {
        item_fill(&item, rig);
        RIG_OK(item_issue(&item, rig, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        if (item_check(&item, rig))
            return 1;
    }
    item_free(&item, rig);
    return 0;
}

static int on_islands(struct rig *rig)
{
    const struct expected *expected = machine_of_test();
    for (int p = 0; p < rig->ranks; p++)
        RIG_CHECK(rig->comm->limits.ring.ranks[p] == expected->order[p] - '0', "place %d", p);
    for (size_t o = 0; o < sizeof expected->ops / sizeof *expected->ops; o++) {
        rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
        const bool ring = !strcmp(expected->algorithms[o], "ring");
        RIG_OK(rondoCommExplain(rig->comm, expected->ops[o], COUNT, rondoFloat, rondoSum, &choice));
        RIG_CHECK(!strcmp(choice.algorithm, expected->algorithms[o]), "%s is %s: %s", expected->ops[o],
                  choice.algorithm, choice.why);
        RIG_CHECK(!ring || !strcmp(choice.kernel, "rondo_ring"), "%s", choice.kernel);
        RIG_CHECK(!ring == !strstr(choice.why, ") as slow pairs carry less; "), "%s", choice.why);
        RIG_OK(rondoCommExplain(rig->comm, expected->ops[o], 256, rondoFloat, rondoSum, &choice));
        RIG_CHECK(strcmp(choice.algorithm, "ring"), "%s of 1 KiB: %s", expected->ops[o], choice.why);
    }
    static const enum item_kind kinds[] = {ITEM_ALL_REDUCE, ITEM_REDUCE_SCATTER, ITEM_REDUCE,
                                           ITEM_BROADCAST,  ITEM_ALL_GATHER,     ITEM_ALL_TO_ALL};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (try_large(rig, kinds[k]))
            return 1;
    return check_described(rig, expected->algorithms[0]) || mailboxes_check(rig);
}

/* Every rank's log tells the order, if there are ops that go by it. */
static void check_logged(const struct expected *expected)
{
    const int ranks = (int)strlen(expected->names);
    const bool any = !strcmp(expected->algorithms[1], "ring");
    char line[64] = "rings go by ranks";
    cr_expect_eq(log_count_with(line), any ? ranks : 0, "%s", expected->names);
    for (int p = 0; p < ranks; p++)
        snprintf(line + strlen(line), sizeof line - strlen(line), " %c", expected->order[p]);
    cr_expect_eq(log_count(line), any ? ranks : 0, "%s", expected->names);
}

Test(ring_comms, take_rings_by_themselves_where_slow_pairs_then_carry_less, .timeout = 300)
{
    char path[] = "/tmp/rondo-islands-XXXXXX", number[16];
    if (!rig_on_host() || rig_ranks(4) < 4)
        cr_skip_test("GPUs that are there have links of their own");
    const int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    setenv("RONDO_TOPO_FILE", path, 1);
    setenv("RONDO_TIMEOUT_MS", "60000", 1);
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const int ranks = (int)strlen(machines[i].names);
        int slow = 0;
        write_islands(path, machines[i].names);
        snprintf(number, sizeof number, "%zu", i);
        setenv("RONDO_TEST_CASE", number, 1);
        log_begin();
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .apart = true}, on_islands), 0, "%s",
                     machines[i].names);
        for (int s = 0; s < ranks; s++)
            for (int r = 0; r < ranks; r++)
                slow += machines[i].names[s] != machines[i].names[r];
        cr_expect_eq(log_count("via SHM/direct/direct"), slow, "%s", machines[i].names);
        check_logged(&machines[i]);
        log_end();
    }
    unlink(path);
}

/* ---- pairs of different kinds ---- */

/* Settings of rank 1, and what its pairs then are. */
static const char *const mixes[][4] = {
    {"P2P_DISABLE=1"},
    {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1"},
    {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=2"},
    {"P2P_USE_CUDA_MEMCPY=1"},
};

static int mixed(struct rig *rig)
{
    const char *const *mix = mixes[atoi(getenv("RONDO_TEST_CASE"))];
    if (rig->rank == 1)
        way_set(&(struct way){.settings = {mix[0], mix[1], mix[2], mix[3]}});
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    int failed = 0;
    for (int kind = ITEM_ALL_REDUCE; kind <= ITEM_REDUCE_SCATTER && !failed; kind++)
        failed = try_large(rig, (enum item_kind)kind);
    failed = failed || check_described(rig, "ring") || mailboxes_check(rig);
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

Test(ring_comms, of_fast_and_slow_pairs_work, .timeout = 300)
{
    if (rig_ranks(3) < 3)
        cr_skip_test("needs three ranks");
    setenv("RONDO_TIMEOUT_MS", "60000", 1);
    setenv("RONDO_ALGO", "ring", 1);
    way_set(&(struct way){.tail = ""});
    for (size_t i = 0; i < 2 * sizeof mixes / sizeof *mixes; i++) {
        char number[16];
        if (RIG_SLOW && i % 3)
            continue;
        snprintf(number, sizeof number, "%zu", i / 2);
        setenv("RONDO_TEST_CASE", number, 1);
        setenv("RONDO_PROTO", i % 2 ? "bulk" : "line", 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, mixed), 0, "mix %zu",
                     i);
    }
}

/* ---- beside messages ---- */

/* The last rank's messages are in a group with the op, the others' behind it. */
static int beside_messages(struct rig *rig)
{
    enum { LARGE = 1 << 18 };
    const struct machine *m = rig->machine;
    const int last = rig->ranks - 1;
    float *a = m->alloc(COUNT * 4);
    char *b = m->alloc(LARGE), back[2];
    for (int round = 0; round < 5; round++) {
        rig_input(rig, a, COUNT, rondoFloat, rondoSum);
        m->fill(b, rig->rank == last ? 0x40 + round : 0, LARGE);
        if (rig->rank == last)
            RIG_OK(rondoGroupStart());
        for (int r = 0; r < last && rig->rank == last; r++)
            RIG_OK(rondoSend(b, LARGE, rondoInt8, r, rig->comm, rig->stream));
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        if (rig->rank == last)
            RIG_OK(rondoGroupEnd());
        else
            RIG_OK(rondoRecv(b, LARGE, rondoInt8, last, rig->comm, rig->stream));
        m->stream_sync(rig->stream);
        RIG_CHECK(rig_wrong(rig, a, COUNT, rondoFloat, rondoSum) == 0, "round %d", round);
        m->download(back, b + LARGE - 2, 2);
        RIG_CHECK(back[0] == 0x40 + round && back[1] == 0x40 + round, "round %d", round);
    }
    m->free(a);
    m->free(b);
    return mailboxes_check(rig);
}

Test(ring_comms, send_messages_behind_rings, .timeout = 100)
{
    setenv("RONDO_ALGO", "ring", 1);
    setenv("RONDO_TIMEOUT_MS", "30000", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, beside_messages), 0);
}

/* ---- ranks that run something else, come late, or die ---- */

static int differs(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * 4);
    RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    /* The others may have found the difference, and told of it, before this rank calls. */
    const rondoResult_t second =
        rondoAllReduce(a, a, COUNT - (rig->rank == 1), rondoFloat, rondoSum, rig->comm, rig->stream);
    RIG_CHECK(second == rondoSuccess || second == rondoRemoteError, "gave %d", second);
    RIG_CHECK(await_error(rig, 5000) != rondoSuccess, "no error");
    RIG_CHECK(strstr(rondoGetLastError(rig->comm), "all-reduce of 800000 bytes"), "%s", rondoGetLastError(rig->comm));
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommAbort(rig->comm));
    rig->machine->free(a);
    return 0;
}

Test(ring_comms, tell_of_ranks_that_run_something_else)
{
    setenv("RONDO_ALGO", "ring", 1);
    setenv("RONDO_CHECK", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .keep_comm = true}, differs), 0);
}

/* Rank 1 comes to nothing; who waits for it says so, and the op that it was in. */
static int never_comes(struct rig *rig)
{
    float *a = rig->machine->alloc(COUNT * 4);
    if (rig->rank != 1) {
        const uint64_t start = rondo_now_ns();
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        RIG_CHECK(await_error(rig, 1000) != rondoSuccess, "no error");
        RIG_CHECK(since_ms(start) < 3000, "%f ms", since_ms(start));
        const char *text = rondoGetLastError(rig->comm);
        RIG_CHECK(strstr(text, "waited more than 300 ms for rank") && strstr(text, "800004 bytes, ring) at epoch"),
                  "%s", text);
    } else {
        RIG_CHECK(await_error(rig, 5000) == rondoRemoteError, "no error"); /* it is told */
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    rig->machine->free(a);
    return 0;
}

Test(ring_comms, name_the_ring_when_a_rank_does_not_come)
{
    static const char *const protocols[] = {"line", "bulk"};
    setenv("RONDO_ALGO", "ring", 1);
    setenv("RONDO_TIMEOUT_MS", "300", 1);
    for (int p = 0; p < 2; p++) {
        setenv("RONDO_PROTO", protocols[p], 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, never_comes), 0, "%s", protocols[p]);
    }
}

/* The middle rank is killed while all replay; the others get an error in time, and out of their kernels. */
static int killed_in_replays(struct rig *rig)
{
    const struct machine *m = rig->machine;
    const int victim = rig->ranks / 2;
    float *a = m->alloc(COUNT * 4);
    char *note = rig->scratch + rig->rank, name[32];
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < 5; i++) {
        RIG_OK(rondoAllReduce(a, a, COUNT, rondoFloat, rondoMax, rig->comm, rig->stream));
        RIG_OK(rondoBcast(a, COUNT, rondoFloat, i % rig->ranks, rig->comm, rig->stream));
    }
    struct machine_graph *graph = m->capture_end(rig->stream);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < 3; i++)
        m->graph_launch(graph, rig->stream);
    if (rig->rank == victim) {
        usleep(2000);
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 20; i++)
        m->graph_launch(graph, rig->stream);
    const uint64_t start = rondo_now_ns();
    const rondoResult_t error = await_error(rig, 5000);
    snprintf(name, sizeof name, "rank %d", victim);
    *note = error != rondoRemoteError                     ? '2'
            : since_ms(start) > 1000                      ? '3'
            : !strstr(rondoGetLastError(rig->comm), name) ? '4'
                                                          : '5';
    if (*note != '5')
        return 1;
    m->stream_sync(rig->stream);
    if (since_ms(start) > 2000)
        return *note = '6';
    if (rondoCommDestroy(rig->comm) != rondoSuccess || since_ms(start) > 4000)
        return *note = '7';
    m->graph_destroy(graph);
    *note = '1';
    return 0;
}

Test(ring_comms, end_their_waits_when_a_rank_is_killed, .timeout = 100)
{
    static const char *const p2p[] = {"0", "1"};
    const int ranks = rig_ranks(4);
    char *scratch = malloc(RIG_SCRATCH);
    setenv("RONDO_ALGO", "ring", 1);
    for (int round = 0; round < 4; round++) {
        setenv("RONDO_P2P_DISABLE", p2p[round % 2], 1);
        setenv("RONDO_PROTO", round / 2 ? "bulk" : "line", 1);
        rig_run(
            &(struct rig_options){
                .ranks = ranks, .keep_comm = true, .may_fail = true, .apart = true, .scratch_copy = scratch},
            killed_in_replays);
        for (int r = 0; r < ranks; r++)
            if (r != ranks / 2)
                cr_assert_eq(scratch[r], '1', "round %d: rank %d came as far as %c", round, r,
                             scratch[r] ? scratch[r] : '0');
    }
    cr_assert_eq(rig_names_in_shm(), 0);
    free(scratch);
}
