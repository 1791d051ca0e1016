/* Epochs near their wrap and memory that was dirty before: on every number of ranks, in both exchanges, on both lanes. */
#include "comm/comm.h"
#include "support/draw.h"
#include "support/mailbox.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 4, ROOM = 1 << 18 };

static const size_t counts[OPS] = {1, 700, 5000, 40000};

static uint32_t epoch_of(struct rig *rig, unsigned lane)
{
    uint32_t epoch = 0;
    rig->comm->ops->read(rig->comm->device, &epoch, &rig->comm->lanes[lane].args.channels[0].epoch, sizeof epoch);
    return epoch;
}

/* All channels of a lane agree on its epoch, whatever launches it had. */
static int channels_agree(struct rig *rig, unsigned lane)
{
    struct rondo_channel channels[RONDO_MAX_CHANNELS];
    RIG_OK(rig->comm->ops->read(rig->comm->device, channels, rig->comm->lanes[lane].args.channels, sizeof channels));
    for (int c = 0; c < RONDO_MAX_CHANNELS; c++)
        RIG_CHECK(channels[c].epoch == channels[0].epoch && !channels[c].busy && !channels[c].stop,
                  "channel %d is at epoch %u, channel 0 at %u", c, channels[c].epoch, channels[0].epoch);
    return 0;
}

static int results(struct rig *rig, char *const *recv, const char *what)
{
    for (int i = 0; i < OPS; i++) {
        const size_t wrong = rig_wrong(rig, recv[i], counts[i], rondoFloat, rondoSum);
        RIG_CHECK(wrong == 0, "%zu wrong in op %d, %s", wrong, i, what);
        rig->machine->fill(recv[i], 0x77, counts[i] * 4);
    }
    return 0;
}

/* Every op alone, all in a group, then the same from a graph: until both lanes have passed the wrap. */
static int across_the_wrap(struct rig *rig)
{
    const struct machine *m = rig->machine;
    char *send[OPS], *recv[OPS];
    const uint32_t start = (uint32_t)atoi(getenv("RONDO_EPOCH_START"));
    for (int i = 0; i < OPS; i++) {
        send[i] = m->alloc(ROOM);
        recv[i] = m->alloc(ROOM);
        rig_input(rig, send[i], counts[i], rondoFloat, rondoSum);
    }
    struct machine_graph *graph = NULL;
    for (int captured = 0; captured < 2; captured++) {
        const unsigned lane = captured ? RONDO_LANE_GRAPH : RONDO_LANE_EAGER;
        RIG_CHECK(epoch_of(rig, lane) == start, "lane %u begins at epoch %u", lane, epoch_of(rig, lane));
        for (int round = 0; round < 12; round++) {
            if (captured && round == 0)
                m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
            if (!captured || round == 0) {
                for (int i = 0; i < OPS; i++)
                    RIG_OK(rondoAllReduce(send[i], recv[i], counts[i], rondoFloat, rondoSum, rig->comm, rig->stream));
                RIG_OK(rondoGroupStart());
                for (int i = 0; i < OPS - 1; i++)
                    RIG_OK(rondoAllReduce(send[i], recv[i], counts[i], rondoFloat, rondoSum, rig->comm, rig->stream));
                RIG_OK(rondoGroupEnd());
            }
            if (captured && round == 0)
                graph = m->capture_end(rig->stream);
            if (captured)
                m->graph_launch(graph, rig->stream);
            m->stream_sync(rig->stream);
            if (results(rig, recv, captured ? "captured" : "eager") || channels_agree(rig, lane))
                return 1;
        }
        RIG_CHECK((int32_t)epoch_of(rig, lane) > 0 && start > INT32_MAX, "the wrap was not reached: epoch %u",
                  epoch_of(rig, lane));
    }
    m->graph_destroy(graph);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < OPS; i++) {
        m->free(send[i]);
        m->free(recv[i]);
    }
    return 0;
}

static void over_ranks_and_starts(void)
{
    static const int ranks[] = {2, 3, 4, 5, 8};
    static const char *const starts[] = {"-1", "-2", "-3", "-8", "-29"};
    setenv("RONDO_BUFFER_KIB", "64", 1); /* the largest op takes several steps */
    for (size_t i = 0; i < 5; i++) {
        if (!rig_runs_with(ranks[i]))
            continue;
        setenv("RONDO_EPOCH_START", starts[i], 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks[i], .layout = i % 2 ? RIG_THREADS : RIG_PROCESSES},
                             across_the_wrap),
                     0, "%d ranks from %s", ranks[i], starts[i]);
    }
}

Test(epoch, wraps_on_both_lanes_with_any_number_of_ranks)
{
    over_ranks_and_starts();
}

Test(epoch, wraps_on_both_lanes_in_one_shot)
{
    setenv("RONDO_ALGO", "oneshot", 1);
    over_ranks_and_starts();
}

Test(epoch, wraps_on_both_lanes_in_two_shots)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    over_ranks_and_starts();
}

/* ---- dirty memory ---- */

/* What a device gives may be dirty (a freed comm's mailboxes): lanes begin clean whatever was there. */
static int poisoned(struct rig *rig)
{
    static const uint32_t poisons[] = {0, 0xa5a5a5a5u, 1, UINT32_MAX, RONDO_EMPTY_WORD ^ 1u};
    enum { RANKS = 3, LANES = 4 };
    const struct rondo_limits limits = {.ranks = RANKS,
                                        .lanes = LANES,
                                        .line_bytes = rig->comm->limits.line_bytes,
                                        .half_lines = 1000,
                                        .fifo_lines = 64,
                                        .fifo_channels = 4};
    struct rondo_anchor *anchor;
    RIG_OK(rondo_anchor_create(rig->comm->ops, rig_device(rig, rig->rank), &anchor));
    anchor->lanes = LANES;
    const size_t control = rondo_lanes_control_bytes(LANES, RANKS), mailbox = rondo_lanes_mailbox_bytes(&limits);
    RIG_OK(anchor->ops->mem_alloc(anchor->device, control, RONDO_MEM_PRIVATE, &anchor->control));
    struct rondo_mem *inbox = &anchor->areas[RONDO_AREA_INBOX];
    RIG_OK(anchor->ops->mem_alloc(anchor->device, mailbox, RONDO_MEM_PRIVATE, inbox));
    const struct rondo_box box = {inbox->address, NULL};
    RIG_OK(anchor->ops->pinned_alloc(anchor->device, rondo_lanes_report_bytes(LANES), &anchor->reports));
    uint32_t *words = malloc(mailbox > control ? mailbox : control);
    for (size_t p = 0; p < sizeof poisons / sizeof *poisons; p++) {
        RIG_OK(anchor->ops->fill(anchor->device, anchor->control.address, 4, poisons[p], control / 4));
        RIG_OK(anchor->ops->fill(anchor->device, inbox->address, 4, poisons[p], mailbox / 4));
        memset(anchor->reports.host, 0xa5, rondo_lanes_report_bytes(LANES));
        RIG_OK(rondo_lanes_reset(anchor, &limits, 77));
        RIG_OK(rondo_lanes_reset_box(anchor, &limits, 77, &box));
        RIG_OK(anchor->ops->read(anchor->device, words, anchor->control.address, control));
        const struct rondo_channel *channels = (const struct rondo_channel *)words;
        for (int c = 0; c < LANES * RONDO_MAX_CHANNELS; c++)
            RIG_CHECK(channels[c].epoch == 77 && !channels[c].busy && !channels[c].stop && !channels[c].claim,
                      "channel %d is dirty", c);
        RIG_OK(anchor->ops->read(anchor->device, words, inbox->address, mailbox));
        for (unsigned l = 0; l < LANES; l++)
            RIG_CHECK(mailbox_at_rest(&limits, (const char *)words + l * (mailbox / LANES)) &&
                          mailbox_credits_are(&limits, (const char *)words + l * (mailbox / LANES), 77),
                      "lane %u is dirty", l);
        for (unsigned l = 0; l < LANES; l++)
            RIG_CHECK(rondo_lane_report(anchor, l)->kind == 0 && rondo_lane_report(anchor, l)->abort == 0, "a report");
    }
    free(words);
    rondo_anchor_drop(anchor);
    return 0;
}

Test(epoch, and_mailboxes_are_as_new_whatever_the_memory_held_before)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1}, poisoned), 0);
}

/* The user's buffers and the mailboxes hold each other's special words all the time. */
static int special_words(struct rig *rig)
{
    enum { WORDS = 30000 };
    const struct machine *m = rig->machine;
    uint32_t *words = malloc(WORDS * 4), *back = malloc(WORDS * 4);
    uint32_t *send = m->alloc(WORDS * 4), *recv = m->alloc(WORDS * 4);
    struct draw dice = {3};
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(rondoAllReduce(send, recv, WORDS, rondoUint32, rondoMax, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < WORDS; i++) /* the same on all ranks: every line of every slot is special */
            words[i] =
                RONDO_EMPTY_WORD ^ (draw_below(&dice, 2) ? (unsigned)(i % 4 == 3 || i % 2) & (unsigned)round : 0);
        m->upload(send, words, WORDS * 4);
        m->fill(recv, 0x77, WORDS * 4);
        if (round % 2)
            m->graph_launch(graph, rig->stream);
        else
            RIG_OK(rondoAllReduce(send, recv, WORDS, rondoUint32, rondoMax, rig->comm, rig->stream));
        m->stream_sync(rig->stream);
        m->download(back, recv, WORDS * 4);
        RIG_CHECK(!memcmp(back, words, WORDS * 4), "round %d", round);
    }
    m->graph_destroy(graph);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    m->free(send);
    m->free(recv);
    free(words);
    free(back);
    return 0;
}

Test(epoch, and_lines_that_look_empty_do_not_confuse_any_number_of_ranks)
{
    setenv("RONDO_EPOCH_START", "-3", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, special_words), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(5)}, special_words), 0);
    setenv("RONDO_ALGO", "oneshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4)}, special_words), 0);
}
