/* What ranks must have heard from each other before they go on: each test failed before a fault of this kind was mended. And what
 * ranks whose groups differ may do. */
#include "harness/number.h"
#include "support/draw.h"
#include "support/item.h"
#include "support/mailbox.h"
#include "support/rig.h"

#include "comm/comm.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A broadcast of three steps whose last has lines for one block only: the other blocks of the root hear of no peer between
 * the first and the last token that they send it, and both lie in the same half. */
static int broadcasts_of_three_steps(struct rig *rig)
{
    const struct rondo_limits *limits = &rig->comm->limits;
    const size_t room = limits->half_lines / (2 * (limits->ranks - 1));
    const size_t stride = (size_t)limits->max_channels * limits->max_threads, step = room / stride * stride;
    const size_t bytes = (2 * step + 1) * limits->ranks * limits->line_bytes;
    char *buffer = rig->machine->alloc(bytes);
    for (int round = 0; round < 300; round++) {
        RIG_OK(rondoBcast(buffer, bytes, rondoInt8, round % rig->ranks, rig->comm, rig->stream));
        if (round % 20 == 0)
            rig->machine->stream_sync(rig->stream);
    }
    rig->machine->stream_sync(rig->stream);
    rondoResult_t error;
    usleep(100000); /* what befell the comm has become known by then */
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "error %d", error);
    rig->machine->free(buffer);
    return mailboxes_check(rig);
}

Test(evidence, a_broadcast_keeps_its_first_and_last_tokens_apart, .timeout = 120)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_TIMEOUT_MS", "20000", 1);
    setenv("RONDO_MAX_CTAS", "4", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, broadcasts_of_three_steps), 0);
}

/* ---- groups that differ in sends and receives ---- */

enum { LARGE = 1 << 19 };

/* Rank 0 sends in the group of two collectives that need a launch each, rank 1 receives after the group; the message is
 * larger than the FIFO. */
static int send_beside_two_launches(struct rig *rig)
{
    const struct machine *m = rig->machine;
    char *a = m->alloc(LARGE), *b = m->alloc(LARGE), *c = m->alloc(LARGE);
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoAllGather(a, b, LARGE / 2, rondoInt8, rig->comm, rig->stream));
    if (rig->rank == 0)
        RIG_OK(rondoSend(c, LARGE, rondoInt8, 1, rig->comm, rig->stream));
    RIG_OK(rondoAllGather(c, b, LARGE / 2, rondoInt8, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    if (rig->rank == 1)
        RIG_OK(rondoRecv(c, LARGE, rondoInt8, 0, rig->comm, rig->stream));
    m->stream_sync(rig->stream);
    rondoResult_t error;
    usleep(100000); /* what befell the comm has become known by then */
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "error %d", error);
    m->free(a), m->free(b), m->free(c);
    return mailboxes_check(rig);
}

Test(evidence, a_message_beside_collectives_of_two_launches_may_be_received_after_them, .timeout = 120)
{
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_TIMEOUT_MS", "5000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2)}, send_beside_two_launches), 0);
}

/* A group of more messages to a peer than a launch takes, and the answer to all of them. */
static int answer_to_many(struct rig *rig)
{
    enum { MANY = 600 };
    const struct machine *m = rig->machine;
    char *a = m->alloc(MANY * 64), *b = m->alloc(64);
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < MANY; i++)
        RIG_OK(rig->rank == 0 ? rondoSend(a + 64 * i, 64, rondoInt8, 1, rig->comm, rig->stream)
                              : rondoRecv(a + 64 * i, 64, rondoInt8, 0, rig->comm, rig->stream));
    if (rig->rank == 0)
        RIG_OK(rondoRecv(b, 64, rondoInt8, 1, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    if (rig->rank == 1)
        RIG_OK(rondoSend(b, 64, rondoInt8, 0, rig->comm, rig->stream));
    m->stream_sync(rig->stream);
    rondoResult_t error;
    usleep(100000); /* what befell the comm has become known by then */
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "error %d", error);
    m->free(a), m->free(b);
    return mailboxes_check(rig);
}

/* Not solved: a group's launches follow each other, so its ops do not all progress together once they are many. */
Test(evidence, an_answer_to_many_messages_may_be_in_their_group, .timeout = 120, .disabled = true)
{
    setenv("RONDO_TIMEOUT_MS", "5000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, answer_to_many), 0);
}

/* ---- overlaps ---- */

static int reduce_scatterv_into_anothers_part(struct rig *rig)
{
    enum { N = 1000 };
    const size_t counts[] = {N, N}, places[] = {0, N};
    int32_t *buffer = rig->machine->alloc(2 * N * sizeof *buffer);
    int32_t *other = buffer + places[1 - rig->rank];
    RIG_CHECK(rondoReduceScatterv(buffer, counts, places, other, N, rondoInt32, rondoSum, rig->comm, rig->stream) ==
                  rondoInvalidArgument,
              "accepted");
    RIG_OK(rondoGroupStart());
    RIG_CHECK(rondoReduceScatterv(buffer, counts, places, NULL, N, rondoInt32, rondoSum, rig->comm, rig->stream) ==
                  rondoInvalidArgument,
              "accepted");
    RIG_CHECK(rondoGroupEnd() == rondoInvalidArgument, "accepted");
    RIG_OK(rondoReduceScatterv(buffer, counts, places, buffer + places[rig->rank], N, rondoInt32, rondoSum, rig->comm,
                               rig->stream));
    rig->machine->stream_sync(rig->stream);
    rig->machine->free(buffer);
    return 0;
}

Test(evidence, a_reduce_scatterv_may_not_overwrite_the_part_of_another_rank)
{
    setenv("RONDO_TIMEOUT_MS", "5000", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks_most(2)}, reduce_scatterv_into_anothers_part), 0);
}

/* ---- steps of fewer lines than there are ranks ---- */

/* The last rank owns no line of the second step, and all the others own some of the third. */
static int reduce_in_tiny_steps(struct rig *rig)
{
    const struct rondo_limits *limits = &rig->comm->limits;
    const size_t step = limits->max_channels, lines = 3 * step * limits->ranks - (limits->ranks - 1);
    const size_t count = lines * limits->line_bytes / sizeof(int32_t);
    int32_t *send = rig->machine->alloc(count * sizeof *send), *recv = rig->machine->alloc(count * sizeof *recv);
    rig_input(rig, send, count, rondoInt32, rondoSum);
    for (int round = 0; round < 30; round++) {
        RIG_OK(rondoReduce(send, recv, count, rondoInt32, rondoSum, 0, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        const size_t wrong = rig->rank ? 0 : rig_wrong(rig, recv, count, rondoInt32, rondoSum);
        RIG_CHECK(wrong == 0, "%zu of %zu wrong in round %d", wrong, count, round);
    }
    rig->machine->free(send);
    rig->machine->free(recv);
    return mailboxes_check(rig);
}

Test(evidence, a_reduce_in_steps_of_fewer_lines_than_ranks_is_right, .timeout = 200)
{
    if (!rig_on_host() || RIG_SLOW)
        cr_skip_test("needs 50 ranks");
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_TIMEOUT_MS", "30000", 1);
    setenv("RONDO_MAX_CTAS", "42", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 50, .layout = RIG_THREADS}, reduce_in_tiny_steps), 0);
}

/* ---- one sequence of messages, which every rank cuts into groups of its own ---- */

enum { SEQUENCE = 300, ROOM = 20000, AT_ONCE = 40 };

struct hop {
    int from, to;
    size_t bytes;
};

static void hops_draw(struct hop *hops, struct draw *draw, int ranks)
{
    for (int i = 0; i < SEQUENCE; i++) {
        hops[i].from = (int)draw_below(draw, (unsigned)ranks);
        hops[i].to = (hops[i].from + 1 + (int)draw_below(draw, (unsigned)ranks - 1)) % ranks;
        hops[i].bytes = 1 + draw_below(draw, 1u << draw_below(draw, 15)) % ROOM;
    }
}

static unsigned char byte_of(int hop, size_t at, int run)
{
    return (unsigned char)(hop * 31 + (int)at * 7 + (int)(at >> 8) * 3 + run);
}

static int issue_hops(struct rig *rig, const struct hop *hops, char *memory, struct draw *cuts)
{
    unsigned left = 0;
    for (int i = 0; i < SEQUENCE; i++) {
        if (!left)
            RIG_OK(rondoGroupStart());
        left = left ? left : 1 + draw_below(cuts, AT_ONCE);
        char *at = memory + (size_t)i * ROOM;
        if (hops[i].from == rig->rank)
            RIG_OK(rondoSend(at, hops[i].bytes, rondoInt8, hops[i].to, rig->comm, rig->stream));
        if (hops[i].to == rig->rank)
            RIG_OK(rondoRecv(at, hops[i].bytes, rondoInt8, hops[i].from, rig->comm, rig->stream));
        if (--left == 0 || i == SEQUENCE - 1)
            RIG_OK(rondoGroupEnd());
    }
    return 0;
}

static int cut_differently(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct draw draw = {(uint64_t)rig->ranks}, cuts = {(uint64_t)rig->rank * 1000003};
    struct hop hops[SEQUENCE];
    char *memory = m->alloc((size_t)SEQUENCE * ROOM), *copy = malloc((size_t)SEQUENCE * ROOM);
    hops_draw(hops, &draw, rig->ranks);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (issue_hops(rig, hops, memory, &cuts))
        return 1;
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int run = 0; run < 12; run++) {
        for (int i = 0; i < SEQUENCE; i++)
            for (size_t b = 0; b < hops[i].bytes; b++)
                copy[(size_t)i * ROOM + b] = hops[i].from == rig->rank ? (char)byte_of(i, b, run) : 0;
        m->upload(memory, copy, (size_t)SEQUENCE * ROOM);
        if (run % 3 == 2) {
            if (issue_hops(rig, hops, memory, &cuts))
                return 1;
        } else {
            m->graph_launch(graph, rig->stream);
        }
        m->stream_sync(rig->stream);
        m->download(copy, memory, (size_t)SEQUENCE * ROOM);
        for (int i = 0; i < SEQUENCE; i++)
            for (size_t b = 0; b < hops[i].bytes && (hops[i].to == rig->rank || hops[i].from == rig->rank); b++)
                RIG_CHECK((unsigned char)copy[(size_t)i * ROOM + b] == byte_of(i, b, run),
                          "run %d: byte %zu of message %d from %d to %d", run, b, i, hops[i].from, hops[i].to);
    }
    m->graph_destroy(graph);
    m->free(memory);
    free(copy);
    return mailboxes_check(rig);
}

Test(evidence, ranks_may_cut_a_sequence_of_messages_into_groups_as_they_like, .timeout = 300)
{
    static const char *const ctas[] = {"1", "2", "16", "128"};
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_EPOCH_START", "-1000", 1);
    setenv("RONDO_TIMEOUT_MS", "30000", 1);
    for (int c = 0; c < 4; c++) {
        setenv("RONDO_MAX_CTAS", ctas[c], 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, cut_differently), 0, "%s blocks", ctas[c]);
    }
}

/* Every message waits for its receiver; it is direct in replays, where memory can be reached. */
Test(evidence, messages_that_may_be_direct_stay_in_order, .timeout = 300)
{
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_TIMEOUT_MS", "30000", 1);
    setenv("RONDO_MAX_CTAS", "16", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS}, cut_differently), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, cut_differently), 0);
}

/* ---- works of several steps, one after another ---- */

enum { ROW = 6, ROWS = RIG_SLOW ? 4 : 12 };

/* So that the last step has few lines, or a few less than all. */
static void draw_steps(struct item *item, struct draw *draw, const struct rondo_limits *limits)
{
    do
        item_draw(item, draw, (int)limits->ranks, 4);
    while (item->kind > ITEM_ALL_TO_ALL);
    const bool shards = item->kind <= ITEM_BROADCAST && draw_below(draw, 4);
    const size_t room = limits->half_lines / ((limits->ranks - 1) * (shards ? 2 : 1));
    const size_t step = room / limits->max_channels * limits->max_channels;
    const size_t lines = (1 + draw_below(draw, 4)) * step + draw_below(draw, 2 * limits->max_channels + 2) -
                         draw_below(draw, limits->max_channels + 1);
    const size_t element = (size_t)number_types[item->type].bytes;
    item->count = lines * limits->line_bytes * (shards ? limits->ranks : 1) / element - draw_below(draw, 9);
}

static int steps_in_a_row(struct rig *rig)
{
    struct draw draw = {(uint64_t)rig->ranks * 7};
    for (int row = 0; row < ROWS; row++) {
        struct item items[ROW];
        int failed = 0;
        for (int i = 0; i < ROW; i++) {
            draw_steps(&items[i], &draw, &rig->comm->limits);
            item_prepare(&items[i], rig);
            item_fill(&items[i], rig);
        }
        for (int i = 0; i < ROW; i++)
            RIG_OK(item_issue(&items[i], rig, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        for (int i = 0; i < ROW; i++) {
            failed |= item_check(&items[i], rig);
            item_free(&items[i], rig);
        }
        RIG_CHECK(!failed, "in row %d", row);
    }
    return mailboxes_check(rig);
}

Test(evidence, works_of_several_steps_in_a_row_are_right, .timeout = 600)
{
    static const char *const ctas[] = {"1", "3", "16"};
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_EPOCH_START", "-20", 1);
    setenv("RONDO_TIMEOUT_MS", "60000", 1);
    for (int c = 0; c < 3; c++) {
        setenv("RONDO_MAX_CTAS", ctas[c], 1);
        for (int ranks = 2; ranks <= rig_ranks(6); ranks++)
            cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks}, steps_in_a_row), 0, "%d ranks, %s blocks",
                         ranks, ctas[c]);
    }
}
