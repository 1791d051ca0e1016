/* Counts around every boundary of a plan: a line, a channel's share, a step, a half of the mailbox, the change of exchange,
 * the end of a batch. */
#include "comm/comm.h"
#include "support/mailbox.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, ROOM = 1 << 20 };

static const int element_bytes[rondoNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static const rondoDataType_t types[] = {rondoFloat, rondoHalf, rondoInt8};

struct buffers {
    char *send, *recv;
};

static int reduce_once(struct rig *rig, const struct buffers *b, size_t count, rondoDataType_t type, size_t offset,
                       bool in_place)
{
    const struct machine *m = rig->machine;
    const size_t element = (size_t)element_bytes[type], bytes = count * element, shift = GUARD + offset * element;
    char guard[2 * GUARD];
    m->fill(b->recv, 0x77, bytes + shift + GUARD);
    rig_input(rig, (in_place ? b->recv : b->send) + shift, count, type, rondoSum);
    RIG_OK(rondoAllReduce((in_place ? b->recv : b->send) + shift, b->recv + shift, count, type, rondoSum, rig->comm,
                          rig->stream));
    m->stream_sync(rig->stream);
    const size_t wrong = rig_wrong(rig, b->recv + shift, count, type, rondoSum);
    RIG_CHECK(wrong == 0, "%zu of %zu wrong: type %d offset %zu in place %d", wrong, count, type, offset, in_place);
    m->download(guard, b->recv + shift - GUARD, GUARD);
    m->download(guard + GUARD, b->recv + shift + bytes, GUARD);
    for (int i = 0; i < 2 * GUARD; i++)
        RIG_CHECK(guard[i] == 0x77, "count %zu type %d offset %zu: byte %d of the guards was written", count, type,
                  offset, i);
    return 0;
}

/* Payloads, in bytes, at which something about the plan changes. */
static size_t boundaries(const struct rondo_limits *limits, size_t *at)
{
    const size_t line = limits->line_bytes, ranks = limits->ranks, half = limits->half_lines;
    const size_t one = half / (ranks - 1) * line, two = half / (2 * (ranks - 1)) * ranks * line;
    const size_t stride = (size_t)limits->max_channels * limits->max_threads;
    size_t n = 0;
    at[n++] = line;
    at[n++] = line * ranks;
    at[n++] = line * stride;
    at[n++] = line * stride * ranks;
    at[n++] = line * stride * limits->max_channels;
    at[n++] = one;
    at[n++] = one / (line * stride) * line * stride; /* a step, rounded to whole strides */
    at[n++] = 2 * one;
    at[n++] = two;
    at[n++] = two / (line * stride * ranks) * line * stride * ranks;
    at[n++] = 3 * two;
    at[n++] = half * line;
    if (ranks > 2)
        at[n++] = limits->two_shot_from[RONDO_ALL_REDUCE];
    return n;
}

static int around_boundaries(struct rig *rig)
{
    struct buffers b = {rig->machine->alloc(ROOM), rig->machine->alloc(ROOM)};
    const size_t line = rig->comm->limits.line_bytes;
    size_t at[16], turn = 0;
    const size_t count = boundaries(&rig->comm->limits, at);
    for (size_t i = 0; i < count; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const size_t element = (size_t)element_bytes[types[t]];
            const long steps[] = {
                -(long)line - (long)element, -(long)line, -(long)element, 0, (long)element, (long)line};
            for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
                const long bytes = (long)at[i] + steps[s];
                if (bytes < (long)element || bytes + 4 * GUARD > ROOM)
                    continue;
                if (++turn % 5 && RIG_SLOW)
                    continue;
                /* every third one unaligned, by another offset each time; places of ranks may differ */
                const size_t offset = turn % 3 ? 0 : (turn / 3 + (size_t)rig->rank) % (line / element);
                if (reduce_once(rig, &b, (size_t)bytes / element, types[t], offset, turn % 2))
                    return 1;
            }
        }
    rig->machine->free(b.send);
    rig->machine->free(b.recv);
    return mailboxes_check(rig);
}

#define OVER_RANKS(body, ...)                                                                                       \
    do {                                                                                                            \
        static const int ranks_[] = {2, 3, 4, 5, 8};                                                                \
        for (size_t i_ = 0; i_ < 5; i_++)                                                                           \
            if (rig_runs_with(ranks_[i_]))                                                                          \
                cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks_[i_], __VA_ARGS__}, body), 0, "%d ranks", \
                             ranks_[i_]);                                                                           \
    } while (0)

Test(sizes, around_every_boundary_are_right_in_one_shot, .timeout = 120)
{
    setenv("RONDO_ALGO", "oneshot", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    OVER_RANKS(around_boundaries, 0);
}

Test(sizes, around_every_boundary_are_right_in_two_shots, .timeout = 120)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    OVER_RANKS(around_boundaries, 0);
}

Test(sizes, around_every_boundary_are_right_with_the_exchange_chosen_by_size, .timeout = 120)
{
    setenv("RONDO_MAX_CTAS", "3", 1); /* three channels: strides that divide nothing */
    setenv("RONDO_BUFFER_KIB", "65", 1);
    OVER_RANKS(around_boundaries, 0);
}

/* ---- every small count, at every alignment ---- */

static int every_small_count(struct rig *rig)
{
    struct buffers b = {rig->machine->alloc(ROOM), rig->machine->alloc(ROOM)};
    const size_t line = rig->comm->limits.line_bytes;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const size_t per_line = line / (size_t)element_bytes[types[t]];
        for (size_t count = 1; count <= 5 * per_line + 1; count += count < 2 * per_line + 2 ? 1 : 3)
            for (size_t offset = 0; offset < per_line; offset++)
                if (reduce_once(rig, &b, count, types[t], offset, (count + offset) % 2))
                    return 1;
    }
    rig->machine->free(b.send);
    rig->machine->free(b.recv);
    return mailboxes_check(rig);
}

Test(sizes, that_are_small_are_right_at_every_alignment, .timeout = 120)
{
    OVER_RANKS(every_small_count, 0);
    setenv("RONDO_ALGO", "twoshot", 1);
    OVER_RANKS(every_small_count, .layout = RIG_THREADS);
}

/* ---- batches ---- */

/* A group of `ops` ops of about `bytes` each, `more` bytes more in the last one. */
static int one_group(struct rig *rig, char *const *send, char *const *recv, size_t ops, size_t bytes, size_t more)
{
    size_t counts[2 * RONDO_BATCH_WORKS + 1];
    for (size_t i = 0; i < ops; i++) {
        const rondoDataType_t type = types[i % 3];
        counts[i] = (bytes + (i + 1 == ops ? more : 0)) / (size_t)element_bytes[type];
        rig->machine->fill(recv[i], 0x77, bytes + more + GUARD);
        rig_input(rig, send[i], counts[i], type, rondoSum);
    }
    RIG_OK(rondoGroupStart());
    for (size_t i = 0; i < ops; i++)
        RIG_OK(rondoAllReduce(send[i], recv[i], counts[i], types[i % 3], rondoSum, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    rig->machine->stream_sync(rig->stream);
    for (size_t i = 0; i < ops; i++) {
        char guard;
        const size_t wrong = rig_wrong(rig, recv[i], counts[i], types[i % 3], rondoSum);
        RIG_CHECK(wrong == 0, "%zu of %zu wrong in op %zu of %zu", wrong, counts[i], i, ops);
        rig->machine->download(&guard, recv[i] + counts[i] * (size_t)element_bytes[types[i % 3]], 1);
        RIG_CHECK(guard == 0x77, "op %zu of %zu wrote behind its buffer", i, ops);
    }
    return 0;
}

static int batches(struct rig *rig)
{
    static const size_t numbers[] = {2,
                                     3,
                                     RONDO_BATCH_WORKS - 1,
                                     RONDO_BATCH_WORKS,
                                     RONDO_BATCH_WORKS + 1,
                                     2 * RONDO_BATCH_WORKS,
                                     2 * RONDO_BATCH_WORKS + 1};
    enum { BUFFERS = 2 * RONDO_BATCH_WORKS + 1, BUFFER = 1 << 17 };
    char *send[BUFFERS], *recv[BUFFERS];
    const size_t line = rig->comm->limits.line_bytes, ranks = (size_t)rig->ranks;
    const size_t half = rig->comm->limits.half_lines / (2 * (ranks - 1)) * ranks * line; /* payload of a full batch */
    for (int i = 0; i < BUFFERS; i++) {
        send[i] = rig->machine->alloc(BUFFER);
        recv[i] = rig->machine->alloc(BUFFER);
    }
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        size_t share = half / numbers[n] / (line * ranks) * line * ranks;
        share = share > 8 ? share : 8; /* where halves are small, see rondo_links_make */
        if (share + 2 * line + GUARD > BUFFER)
            share = BUFFER - 2 * line - GUARD;
        if (one_group(rig, send, recv, numbers[n], 8, 0) || one_group(rig, send, recv, numbers[n], share, 0) ||
            one_group(rig, send, recv, numbers[n], share, line) ||
            one_group(rig, send, recv, numbers[n], share + 4, 0) ||
            one_group(rig, send, recv, numbers[n], share - 4, 4))
            return 1;
    }
    for (int i = 0; i < BUFFERS; i++) {
        rig->machine->free(send[i]);
        rig->machine->free(recv[i]);
    }
    return mailboxes_check(rig);
}

Test(sizes, of_groups_around_what_a_batch_holds_are_right, .timeout = 120)
{
    setenv("RONDO_BUFFER_KIB", "64", 1);
    OVER_RANKS(batches, 0);
    setenv("RONDO_ALGO", "twoshot", 1);
    OVER_RANKS(batches, .layout = RIG_THREADS);
}
