/* Every path between ranks, forced by its settings: its line in the log, all ops over it, eager, captured and replayed, and the
 * payloads that lines have no room for. */
#include "comm/comm.h"
#include "support/child.h"
#include "support/faults.h"
#include "support/item.h"
#include "support/mailbox.h"
#include "support/rig.h"
#include "support/ways.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Runs the body on ranks joined by each of the paths. */
static void over_all_ways(int ranks, rig_body body, bool copies_only)
{
    for (int w = 0; w < ways_count(); w++) {
        const struct way *way = &ways[w];
        if (copies_only && !way->copies)
            continue;
        way_set(way);
        log_begin();
        const int failed = rig_run(&(struct rig_options){.ranks = ranks, .layout = way->layout}, body);
        cr_assert(failed == 0, "%d ranks fail with way %d, %s", failed, w, way->tail);
        cr_assert(log_has_paths(way, ranks), "way %d, %s", w, way->tail);
        cr_assert(log_count_with(" WARN ") == 0, "way %d, %s: warnings", w, way->tail);
        log_end();
    }
    cr_assert_eq(rig_names_in_shm(), 0);
}

/* ---- every op ---- */

static int every_op(struct rig *rig)
{
    static const unsigned bits[] = {4, 10, 15};
    struct draw draw = {77};
    for (int kind = 0; kind < ITEM_KINDS; kind++)
        for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
            struct item item;
            do
                item_draw(&item, &draw, rig->ranks, bits[b]);
            while (item.kind != (enum item_kind)kind);
            if (item_try(&item, rig))
                return 1;
        }
    return mailboxes_check(rig);
}

Test(paths, carry_every_op_eager_and_replayed, .timeout = 200)
{
    over_all_ways(rig_ranks(3), every_op, false);
}

/* Two shots, several steps and a FIFO's wrap come with small mailboxes, and epochs and positions wrap. */
Test(paths, carry_every_op_in_small_mailboxes_near_the_wrap_of_epochs, .timeout = 200)
{
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_EPOCH_START", "-60", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
    over_all_ways(rig_ranks(2), every_op, false);
}

/* As far as works have a launch for themselves. */
Test(paths, carry_every_op_by_the_bulk_protocol, .timeout = 200)
{
    setenv("RONDO_PROTO", "bulk", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    over_all_ways(rig_ranks(3), every_op, false);
}

/* ---- through the memory of a third ---- */

/* Four GPUs of as many NUMA nodes; NVLink joins the second to each of the others. */
static void write_star(const char *path)
{
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    fprintf(file, "rondo-topology 1\nmachine arch=x86_64 cpu=GenuineIntel\n");
    for (int g = 0; g < 4; g++)
        fprintf(file, "numa %d cpus=%d\nbridge pci0000:%d0 numa=%d\n", g, g, g + 1, g);
    for (int g = 0; g < 4; g++)
        fprintf(file, "gpu 0000:%d8:00.0 numa=%d parent=pci0000:%d0 capability=70\n", g + 1, g, g + 1);
    for (int g = 0; g < 4; g++)
        if (g != 1)
            fprintf(file, "nvlink 0000:28:00.0 0000:%d8:00.0 links=2\n", g + 1);
    fclose(file);
}

Test(paths, lead_through_a_third_rank_that_is_joined_to_both, .timeout = 200)
{
    char path[] = "/tmp/rondo-star-XXXXXX";
    if (!rig_on_host() || rig_ranks(4) < 4)
        cr_skip_test("GPUs that are there have links of their own");
    const int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    write_star(path);
    setenv("RONDO_TOPO_FILE", path, 1);
    for (int layout = RIG_PROCESSES; layout <= RIG_THREADS; layout++) {
        log_begin();
        cr_assert_eq(
            rig_run(&(struct rig_options){.ranks = 4, .layout = (enum rig_layout)layout, .apart = true}, every_op), 0,
            "layout %d", layout);
        cr_expect_eq(log_count("via P2P/indirect/1"), 6);
        cr_expect_eq(log_count(layout == RIG_THREADS ? "via P2P/direct pointer" : "via P2P/CUMEM"), 6);
        cr_expect_eq(log_count_with(" WARN "), 0);
        log_end();
    }
    setenv("RONDO_PROTO", "bulk", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 4}, every_op), 0);
    unlink(path);
}

/* Addresses of more mailboxes than a launch's arguments hold are in a table. */
Test(paths, carry_every_op_between_nine_ranks, .timeout = 200)
{
    if (rig_ranks(9) < 9 || RIG_SLOW)
        cr_skip_test("needs nine ranks");
    for (int w = 0; w < ways_count(); w++) {
        if (strcmp(ways[w].tail, "P2P/CUMEM/read") && strcmp(ways[w].tail, "P2P/CUMEM/CE") &&
            strcmp(ways[w].tail, "SHM/CE/CE"))
            continue;
        way_set(&ways[w]);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 9, .layout = ways[w].layout}, every_op), 0, "way %d, %s", w,
                     ways[w].tail);
    }
}

/* ---- payloads that look like empty lines, or like the mark ---- */

enum { WORDS = 3000 };

/* Lines that are empty, marks, or ordinary, one after the other as the draw has it. */
static void draw_special(uint32_t *words, struct draw *draw)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = RONDO_EMPTY_WORD;
    for (int i = 3; i < WORDS; i += 4) {
        const unsigned what = draw_below(draw, 4);
        words[i - 2] ^= what == 3 ? 1 : what == 2; /* the end of an 8-byte line, too */
        words[i] ^= what == 1 ? 1 : what == 2 ? draw_bits(draw) : 0;
    }
}

/* What rank `from` has for all in a round. */
static void special_of(int from, int round, uint32_t *words)
{
    struct draw draw = {(uint64_t)round * 100 + (uint64_t)from};
    draw_special(words, &draw);
    for (int i = 0; i < WORDS && round % 3 == 2; i++)
        words[i] = (uint32_t)(i * from); /* and none of them: codes of former marks must not come again */
}

struct special {
    uint32_t *mine, *all, *next, *host;
};

static int check_special(struct rig *rig, const struct special *s, int round)
{
    const struct machine *m = rig->machine;
    uint32_t words[WORDS];
    m->download(s->host, s->all, (size_t)rig->ranks * sizeof words);
    for (int r = 0; r < rig->ranks; r++) {
        special_of(r, round, words);
        RIG_CHECK(!memcmp(s->host + (size_t)r * WORDS, words, sizeof words), "all-gather, round %d, of rank %d", round,
                  r);
    }
    m->download(s->host, s->next, sizeof words);
    special_of((rig->rank + rig->ranks - 1) % rig->ranks, round, words);
    RIG_CHECK(!memcmp(s->host, words, sizeof words), "send and receive, round %d", round);
    return 0;
}

static int issue_special(struct rig *rig, const struct special *s)
{
    const int next = (rig->rank + 1) % rig->ranks, last = (rig->rank + rig->ranks - 1) % rig->ranks;
    RIG_OK(rondoAllGather(s->mine, s->all, WORDS, rondoInt32, rig->comm, rig->stream));
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoSend(s->mine, WORDS, rondoInt32, next, rig->comm, rig->stream));
    RIG_OK(rondoRecv(s->next, WORDS, rondoInt32, last, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    return 0;
}

static int special_payloads(struct rig *rig)
{
    const struct machine *m = rig->machine;
    const size_t bytes = WORDS * sizeof(uint32_t);
    struct special s = {m->alloc(bytes), m->alloc(bytes * (size_t)rig->ranks), m->alloc(bytes),
                        malloc(bytes * (size_t)rig->ranks)};
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (issue_special(rig, &s))
        return 1;
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int round = 0; round < 12; round++) {
        special_of(rig->rank, round, s.host);
        m->upload(s.mine, s.host, bytes);
        if (round % 2)
            m->graph_launch(graph, rig->stream);
        else if (issue_special(rig, &s))
            return 1;
        m->stream_sync(rig->stream);
        if (check_special(rig, &s, round))
            return 1;
    }
    m->graph_destroy(graph);
    m->free(s.mine);
    m->free(s.all);
    m->free(s.next);
    free(s.host);
    return mailboxes_check(rig);
}

Test(paths, carry_payloads_that_look_like_empty_lines_and_marks, .timeout = 200)
{
    over_all_ways(rig_ranks(3), special_payloads, false);
}

/* ---- replays ---- */

enum { REPLAYS = RIG_SLOW ? 300 : 10000, SMALL = 50 };

static int many_replays(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *send = m->alloc(SMALL * 4), *recv = m->alloc(SMALL * 4);
    rig_input(rig, send, SMALL, rondoFloat, rondoSum);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(send, recv, SMALL, rondoFloat, rondoSum, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int i = 0; i < REPLAYS; i++) {
        m->graph_launch(graph, rig->stream);
        if (i % 1000 == 999) {
            m->stream_sync(rig->stream);
            RIG_CHECK(rig_wrong(rig, recv, SMALL, rondoFloat, rondoSum) == 0, "wrong after %d replays", i + 1);
            m->fill(recv, 0x77, SMALL * 4);
            RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        }
    }
    m->stream_sync(rig->stream);
    m->graph_destroy(graph);
    m->free(send);
    m->free(recv);
    return mailboxes_check(rig);
}

Test(paths, of_copies_carry_ten_thousand_replays, .timeout = 200)
{
    over_all_ways(rig_ranks(2), many_replays, true);
}

/* ---- comms made of others ---- */

static int split_and_shrunk(struct rig *rig)
{
    rondoComm_t child = NULL;
    int last = rig->ranks - 1;
    RIG_OK(rondoCommSplit(rig->comm, 0, -rig->rank, &child, NULL)); /* the other way round */
    if (child_try(rig, child, last - rig->rank, rig->ranks))
        return 1;
    RIG_OK(rondoCommDestroy(child));
    child = NULL;
    if (rig->rank != last) {
        RIG_OK(rondoCommShrink(rig->comm, &last, 1, &child, NULL, RONDO_SHRINK_DEFAULT));
        if (child_try(rig, child, rig->rank, last))
            return 1;
        RIG_OK(rondoCommDestroy(child));
    }
    return rig_try(rig, 1);
}

Test(paths, carry_split_and_shrunk_comms_too, .timeout = 200)
{
    const int ranks = rig_ranks(3);
    for (int w = 0; w < ways_count(); w++) {
        way_set(&ways[w]);
        log_begin();
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = ways[w].layout}, split_and_shrunk), 0,
                     "way %d, %s", w, ways[w].tail);
        char via[64];
        snprintf(via, sizeof via, " via %s", ways[w].tail);
        if (!RIG_SLOW) /* of three comms */
            cr_assert_eq(log_count(via), 2 * ranks * (ranks - 1) + (ranks - 1) * (ranks - 2), "way %d, %s", w,
                         ways[w].tail);
        log_end();
    }
}

/* ---- pairs with different paths ---- */

/* What ranks 1 and 2 have in their environments, and what becomes of it; rank 0 has nothing. */
static const struct mix {
    const char *settings[3][4];
    const char *tails[3][3];
} mixes[] = {
    {{{NULL}, {"P2P_DISABLE=1"}, {"P2P_USE_CUDA_MEMCPY=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=3"}},
     {{NULL, "SHM/direct/direct", "P2P/CUMEM"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"P2P/CUMEM/CE", "SHM/CE/CE", NULL}}}, /* who sends decides */
    {{{NULL}, {"P2P_USE_CUDA_MEMCPY=1"}, {NULL}},
     {{NULL, "P2P/CUMEM", "P2P/CUMEM"}, {"P2P/CUMEM/CE", NULL, "P2P/CUMEM/CE"}, {"P2P/CUMEM", "P2P/CUMEM", NULL}}},
    {{{NULL}, {"P2P_DISABLE=1", "SHM_LOCALITY=1"}, {"SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=2"}},
     {{NULL, "SHM/direct/direct", "P2P/CUMEM"},
      {"SHM/direct/direct", NULL, "SHM/direct/direct"},
      {"P2P/CUMEM", "SHM/direct/CE", NULL}}},
    {{{NULL},
      {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1"},
      {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_LOCALITY=1", "SHM_MEMCPY_MODE=2"}},
     {{NULL, "SHM/direct/direct", "SHM/direct/direct"},
      {"SHM/CE/direct", NULL, "SHM/CE/direct"},
      {"SHM/direct/CE", "SHM/direct/CE", NULL}}},
};

/* Ranks set their environments before Rondo reads them, but for rank 0, which has made the ids. */
static int mixed(struct rig *rig)
{
    const struct mix *mix = &mixes[atoi(getenv("RONDO_TEST_MIX"))];
    if (rig->rank)
        way_set(&(struct way){.settings = {mix->settings[rig->rank][0], mix->settings[rig->rank][1],
                                           mix->settings[rig->rank][2], mix->settings[rig->rank][3]}});
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    const int failed = every_op(rig) || special_payloads(rig);
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

Test(paths, of_different_kinds_join_the_ranks_of_one_comm, .timeout = 100)
{
    char number[16];
    if (rig_ranks(3) < 3)
        cr_skip_test("needs three ranks");
    way_set(&(struct way){.tail = ""});
    for (size_t m = 0; m < sizeof mixes / sizeof *mixes; m++) {
        log_begin();
        snprintf(number, sizeof number, "%zu", m);
        setenv("RONDO_TEST_MIX", number, 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true, .apart = true}, mixed), 0, "mix %zu",
                     m);
        for (int s = 0; s < 3; s++)
            for (int r = 0; r < 3; r++)
                cr_expect(s == r || log_has_path(s, r, mixes[m].tails[s][r]), "mix %zu", m);
        log_end();
    }
}

/* ---- copies that take their time ---- */

static int late_copies(struct rig *rig)
{
    if (!rig->comm) { /* threads share the row */
        faults.copy_delay_us = 300;
        faults_install();
    }
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    const int failed = every_op(rig) || special_payloads(rig);
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

Test(paths, of_copies_that_overtake_each_other_carry_every_op, .timeout = 200)
{
    for (int w = 0; w < ways_count(); w++) {
        if (!ways[w].copies || ways[w].layout != RIG_PROCESSES)
            continue;
        way_set(&ways[w]);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true, .apart = true}, late_copies),
                     0, "way %d, %s", w, ways[w].tail);
    }
}

/* ---- comms made in captures ---- */

/* The rank's stream is capturing when its second comm is made. */
static int made_in_capture(struct rig *rig)
{
    const struct machine *m = rig->machine;
    float *a = m->alloc(SMALL * 4);
    m->fill(a, 0, SMALL * 4);
    RIG_OK(rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[1], rig->rank));
    rondoComm_t second;
    /* In a global one other threads, of the test, could not fill their buffers. */
    m->capture_begin(rig->stream, rig->alone ? MACHINE_CAPTURE_GLOBAL : MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(a, a, SMALL, rondoFloat, rondoMax, rig->comm, rig->stream));
    RIG_OK(rondoCommInitRank(&second, rig->ranks, rig->ids[2], rig->rank));
    RIG_OK(rondoAllReduce(a, a, SMALL, rondoFloat, rondoMax, second, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    m->graph_launch(graph, rig->stream);
    m->stream_sync(rig->stream);
    m->graph_destroy(graph);
    m->free(a);
    const int failed = rig_try(rig, 1);
    RIG_OK(rondoCommDestroy(second));
    RIG_OK(rondoCommDestroy(rig->comm));
    return failed;
}

Test(paths, are_made_while_streams_capture)
{
    for (int w = 0; w < ways_count(); w++) {
        way_set(&ways[w]);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = ways[w].layout, .no_comm = true},
                             made_in_capture),
                     0, "way %d, %s", w, ways[w].tail);
    }
}
