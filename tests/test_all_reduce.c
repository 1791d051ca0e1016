/* All-reduce as its users call it, on whichever device there is: results, captures, replays, groups. */
#include "kernels/work.h"
#include "support/draw.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int element_bytes[rondoNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

enum { ROOM = 1 << 16, GUARD = 64 };

/* One all-reduce in guarded buffers at an offset; guards must stay as they are. */
static int reduce_once(struct rig *rig, char *send, char *recv, size_t count, int type, int op, size_t offset,
                       bool in_place)
{
    const struct machine *m = rig->machine;
    const size_t bytes = count * (size_t)element_bytes[type], shift = GUARD + offset * (size_t)element_bytes[type];
    char guard[GUARD];
    m->fill(recv, 0x77, ROOM);
    rig_input(rig, send + shift, count, type, op);
    if (in_place)
        rig_input(rig, recv + shift, count, type, op);
    RIG_OK(
        rondoAllReduce(in_place ? recv + shift : send + shift, recv + shift, count, type, op, rig->comm, rig->stream));
    m->stream_sync(rig->stream);
    size_t wrong = rig_wrong(rig, recv + shift, count, type, op);
    RIG_CHECK(wrong == 0, "%zu of %zu wrong: type %d op %d offset %zu in place %d", wrong, count, type, op, offset,
              in_place);
    m->download(guard, recv + shift - GUARD, GUARD);
    for (int i = 0; i < GUARD; i++)
        RIG_CHECK(guard[i] == 0x77, "wrote %d bytes before the buffer", GUARD - i);
    m->download(guard, recv + shift + bytes, GUARD);
    for (int i = 0; i < GUARD; i++)
        RIG_CHECK(guard[i] == 0x77, "wrote %d bytes behind the buffer", i);
    return 0;
}

static int every_type_and_operator(struct rig *rig)
{
    static const size_t counts[] = {1, 3, 16, 129, 1000};
    char *send = rig->machine->alloc(ROOM), *recv = rig->machine->alloc(ROOM);
    for (int type = 0; type < rondoNumTypes; type++)
        for (int op = 0; op < rondoNumOps; op++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (size_t offset = 0; offset < 2; offset++)
                    if (reduce_once(rig, send, recv, counts[c], type, op, offset, (c + offset) % 2))
                        return 1;
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(all_reduce, is_right_for_every_type_operator_and_offset_between_processes)
{
    for (int ranks = 1; ranks <= rig_ranks(4); ranks++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks}, every_type_and_operator), 0);
}

Test(all_reduce, is_right_for_every_type_operator_and_offset_between_threads)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .layout = RIG_THREADS}, every_type_and_operator),
                 0);
}

Test(all_reduce, is_right_for_every_type_operator_and_offset_in_two_shots)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(5), .layout = RIG_PAIRS}, every_type_and_operator),
                 0);
}

static int few(struct rig *rig)
{
    char *send = rig->machine->alloc(ROOM), *recv = rig->machine->alloc(ROOM);
    for (size_t count = 1; count < 12000; count = count * 3 + 1)
        if (reduce_once(rig, send, recv, count, rondoFloat, rondoSum, 0, false))
            return 1;
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(all_reduce, works_with_up_to_sixteen_ranks)
{
    static const int counts[] = {8, 9, 16};
    for (int i = 0; i < 3 && rig_ranks(16) == 16; i++)
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = counts[i]}, few), 0);
}

/* ---- sizes beyond one step ---- */

static int large(struct rig *rig)
{
    const size_t count = 300001;
    char *send = rig->machine->alloc(count * 4), *recv = rig->machine->alloc(count * 4);
    for (int round = 0; round < 3; round++) {
        rig->machine->fill(recv, 0x77, count * 4);
        rig_input(rig, send, count, rondoInt32, rondoSum);
        RIG_OK(rondoAllReduce(send, recv, count, rondoInt32, rondoSum, rig->comm, rig->stream));
        RIG_OK(rondoAllReduce(send, recv, count, rondoInt32, rondoSum, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        size_t wrong = rig_wrong(rig, recv, count, rondoInt32, rondoSum);
        RIG_CHECK(wrong == 0, "%zu wrong", wrong);
    }
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(all_reduce, moves_in_many_steps_what_the_mailbox_cannot_hold)
{
    setenv("RONDO_BUFFER_KIB", "64", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, large), 0);
    setenv("RONDO_ALGO", "oneshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, large), 0);
}

/* ---- any payload ---- */

/* Rank 0 sends lines that look empty, or like the mark, or nearly so; the others send zeros. */
static int odd_payloads(struct rig *rig)
{
    enum { WORDS = 256 };
    uint32_t words[WORDS], back[WORDS];
    uint32_t *send = rig->machine->alloc(sizeof words), *recv = rig->machine->alloc(sizeof words);
    for (int i = 0; i < WORDS; i++)
        words[i] = RONDO_EMPTY_WORD ^ (i % 4 == 3 ? (uint32_t)(i / 4 % 3) : 0) ^ (i == 77 ? 4u : 0);
    static const uint32_t zeros[WORDS];
    rig->machine->upload(send, rig->rank == 0 ? words : zeros, sizeof words);
    for (int round = 0; round < 5; round++) {
        RIG_OK(rondoAllReduce(send, recv, WORDS, rondoUint32, rondoSum, rig->comm, rig->stream));
        rig->machine->stream_sync(rig->stream);
        rig->machine->download(back, recv, sizeof back);
        RIG_CHECK(!memcmp(back, words, sizeof back), "round %d", round);
    }
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(all_reduce, carries_payloads_that_look_like_empty_lines)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, odd_payloads), 0);
    setenv("RONDO_ALGO", "twoshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, odd_payloads), 0);
}

/* ---- the same bits everywhere ---- */

static int random_floats(struct rig *rig)
{
    enum { COUNT = 3001 };
    float *values = malloc(COUNT * sizeof *values);
    struct draw dice = {7u + (unsigned)rig->rank};
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)draw_below(&dice, 1u << 31) * (i % 2 ? 1e-9f : -3e-3f);
    float *send = rig->machine->alloc(COUNT * sizeof *values), *recv = rig->machine->alloc(COUNT * sizeof *values);
    rig->machine->upload(send, values, COUNT * sizeof *values);
    RIG_OK(rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    rig->machine->download(rig->scratch + (size_t)rig->rank * COUNT * sizeof *values, recv, COUNT * sizeof *values);
    /* a part of it, alone: the size must not matter */
    RIG_OK(rondoAllReduce(send + 64, recv, 100, rondoFloat, rondoSum, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    rig->machine->download(values, recv, 100 * sizeof *values);
    RIG_CHECK(!memcmp(values, rig->scratch + (size_t)rig->rank * COUNT * sizeof *values + 64 * sizeof *values,
                      100 * sizeof *values),
              "other bits in a smaller message");
    free(values);
    rig->machine->free(send);
    rig->machine->free(recv);
    return 0;
}

Test(all_reduce, gives_the_same_bits_on_all_ranks_in_all_sizes_and_exchanges)
{
    const int ranks = rig_ranks(4);
    char *one = malloc(RIG_SCRATCH), *two = malloc(RIG_SCRATCH);
    setenv("RONDO_ALGO", "oneshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .scratch_copy = one}, random_floats), 0);
    setenv("RONDO_ALGO", "twoshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .scratch_copy = two}, random_floats), 0);
    for (int r = 1; r < ranks; r++)
        cr_assert(!memcmp(one, one + r * 3001 * 4, 3001 * 4), "rank %d has other bits than rank 0", r);
    cr_assert(!memcmp(one, two, RIG_SCRATCH), "the exchanges give different bits");
    free(one);
    free(two);
}

/* ---- groups ---- */

static int group_of_many(struct rig *rig)
{
    enum { OPS = 150 };
    char *send[OPS], *recv[OPS];
    rondoComm_t other;
    struct CUstream_st *second = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    RIG_OK(rondoCommInitRank(&other, rig->ranks, rig->ids[1], rig->rank));
    for (int i = 0; i < OPS; i++) {
        const size_t count = (size_t)(i * 37 % 400);
        send[i] = rig->machine->alloc(4000);
        recv[i] = rig->machine->alloc(4000);
        rig_input(rig, send[i], count, i % rondoNumTypes, i % rondoNumOps);
        rig->machine->fill(recv[i], 0x77, 4000);
    }
    for (int round = 0; round < 3; round++) {
        RIG_OK(rondoGroupStart());
        for (int i = 0; i < OPS; i++) {
            RIG_OK(rondoGroupStart());
            RIG_OK(rondoAllReduce(send[i], recv[i], (size_t)(i * 37 % 400), i % rondoNumTypes, i % rondoNumOps,
                                  i % 7 == 3 ? other : rig->comm, i % 5 == 1 ? second : rig->stream));
            RIG_OK(rondoGroupEnd());
        }
        RIG_OK(rondoGroupEnd());
        rig->machine->stream_sync(rig->stream);
        rig->machine->stream_sync(second);
        for (int i = 0; i < OPS; i++)
            RIG_CHECK(rig_wrong(rig, recv[i], (size_t)(i * 37 % 400), i % rondoNumTypes, i % rondoNumOps) == 0,
                      "op %d of the group", i);
    }
    for (int i = 0; i < OPS; i++) {
        rig->machine->free(send[i]);
        rig->machine->free(recv[i]);
    }
    rig->machine->stream_destroy(second);
    RIG_OK(rondoCommDestroy(other));
    return 0;
}

Test(all_reduce, runs_groups_of_mixed_types_sizes_comms_and_streams)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, group_of_many), 0);
    setenv("RONDO_ALGO", "twoshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .layout = RIG_THREADS}, group_of_many), 0);
}

/* ---- bad arguments ---- */

static int bad_arguments(struct rig *rig)
{
    float *a = rig->machine->alloc(4096);
#define REFUSED(word, ...)                                                      \
    RIG_CHECK(rondoAllReduce(__VA_ARGS__) == rondoInvalidArgument, "accepted"); \
    RIG_CHECK(strstr(rondoGetLastError(NULL), word), "the text does not say %s", word)
    REFUSED("sendbuff", NULL, a, 4, rondoFloat, rondoSum, rig->comm, rig->stream);
    REFUSED("recvbuff", a, NULL, 4, rondoFloat, rondoSum, rig->comm, rig->stream);
    REFUSED("aligned", (char *)a + 2, a, 4, rondoFloat, rondoSum, rig->comm, rig->stream);
    REFUSED("overlap", a, a + 1, 4, rondoFloat, rondoSum, rig->comm, rig->stream);
    REFUSED("datatype", a, a, 4, 12, rondoSum, rig->comm, rig->stream);
    REFUSED("op", a, a, 4, rondoFloat, 5, rig->comm, rig->stream);
    REFUSED("count", a, a, SIZE_MAX, rondoFloat, rondoSum, rig->comm, rig->stream);
    REFUSED("comm", a, a, 4, rondoFloat, rondoSum, NULL, rig->stream);
    RIG_OK(rondoAllReduce(NULL, NULL, 0, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoAllReduce(a, a, 4, rondoFloat, rondoSum, rig->comm, rig->stream));
    REFUSED("sendbuff", NULL, a, 4, rondoFloat, rondoSum, rig->comm, rig->stream);
    RIG_CHECK(rondoGroupEnd() == rondoInvalidArgument, "the group hides its error");
    RIG_CHECK(rondoGroupEnd() == rondoInvalidUsage, "an end without a start");
    rig_input(rig, a, 100, rondoFloat, rondoSum);
    RIG_OK(rondoAllReduce(a, a, 100, rondoFloat, rondoSum, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    RIG_CHECK(rig_wrong(rig, a, 100, rondoFloat, rondoSum) == 0, "after refusals");
    rig->machine->free(a);
    return 0;
}

Test(all_reduce, refuses_bad_arguments_with_a_text_and_goes_on)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, bad_arguments), 0);
}
