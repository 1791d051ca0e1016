/* Collectives round the ring: the bits of exchanges among all, over every path, eager, captured and replayed. */
#include "comm/comm.h"
#include "kernels/work.h"
#include "support/draw.h"
#include "support/item.h"
#include "support/mailbox.h"
#include "support/rig.h"
#include "support/ways.h"

#include "harness/number.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the same bits ---- */

enum { MOST_COUNT = 3001, SCALED = rondoNumOps, OPERATORS, MOST_HASHES = 8192 };

/* What a rank's results were, one after another: ranks * MOST_HASHES of them are in scratch. */
struct bits {
    uint64_t *hashes;
    size_t count;
};

static struct bits bits_begin(const struct rig *rig)
{
    return (struct bits){(uint64_t *)(void *)rig->scratch + (size_t)rig->rank * MOST_HASHES, 0};
}

static uint64_t hash_of(const unsigned char *bytes, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Numbers whose sums are rounded, differently in every order; of narrow types, any bits at all. Where two values that are none meet in
 * a wide one, which is kept is the compiler's choice. */
static void put_numbers(struct draw *draw, rondoDataType_t type, void *to, size_t count)
{
    const size_t bytes = (size_t)number_types[type].bytes;
    for (size_t i = 0; i < count * bytes / 4 + 1; i++)
        ((uint32_t *)to)[i] = draw_bits(draw);
    for (size_t i = 0; i < count && (type == rondoFloat || type == rondoDouble); i++)
        number_encode(type, ((double)draw_bits(draw) - 2e9) / (1 << draw_below(draw, 31)), (char *)to + i * bytes);
}

/* One op in several ways: what it is, and its memory on the device and the host. */
struct trial {
    enum item_kind kind;
    rondoDataType_t type;
    int op, root;
    size_t count;
    bool in_place;
    char *send, *recv, *host;
    rondoRedOp_t scaled[rondoNumTypes];
};

static size_t sent(const struct trial *t, int ranks)
{
    return t->count * (t->kind == ITEM_REDUCE_SCATTER ? (size_t)ranks : 1) * (size_t)number_types[t->type].bytes;
}

static size_t received(const struct trial *t, int ranks)
{
    return t->count * (t->kind == ITEM_ALL_GATHER ? (size_t)ranks : 1) * (size_t)number_types[t->type].bytes;
}

static rondoResult_t issue(const struct trial *t, const struct rig *rig)
{
    const rondoRedOp_t op = t->op == SCALED ? t->scaled[t->type] : (rondoRedOp_t)t->op;
    const size_t part = t->count * (size_t)number_types[t->type].bytes * (size_t)rig->rank;
    const char *send = !t->in_place ? t->send : t->kind == ITEM_ALL_GATHER ? t->recv + part : t->recv;
    char *recv = t->in_place && t->kind == ITEM_REDUCE_SCATTER ? t->recv + part : t->recv;
    switch (t->kind) {
    case ITEM_ALL_REDUCE:
        return rondoAllReduce(send, recv, t->count, t->type, op, rig->comm, rig->stream);
    case ITEM_REDUCE_SCATTER:
        return rondoReduceScatter(send, recv, t->count, t->type, op, rig->comm, rig->stream);
    case ITEM_REDUCE:
        return rondoReduce(send, recv, t->count, t->type, op, t->root, rig->comm, rig->stream);
    case ITEM_BROADCAST:
        return rondoBroadcast(send, recv, t->count, t->type, t->root, rig->comm, rig->stream);
    default:
        return rondoAllGather(send, recv, t->count, t->type, rig->comm, rig->stream);
    }
}

/* Inputs of this trial, the same each time; what must not be written has a value of its own. */
static void fill(const struct trial *t, const struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct draw draw = {t->kind * 1000u + (unsigned)t->type * 100u + (unsigned)t->op * 10u + (unsigned)rig->rank};
    const size_t elements = t->count * (size_t)rig->ranks;
    put_numbers(&draw, t->type, t->host, elements);
    m->upload(t->send, t->host, elements * (size_t)number_types[t->type].bytes + 4);
    if (t->in_place)
        m->upload(t->recv, t->host, elements * (size_t)number_types[t->type].bytes + 4);
    else
        m->fill(t->recv, 0x77, elements * (size_t)number_types[t->type].bytes + 64);
}

static uint64_t result_of(const struct trial *t, const struct rig *rig)
{
    const size_t bytes = (size_t)rig->ranks * t->count * (size_t)number_types[t->type].bytes;
    rig->machine->stream_sync(rig->stream);
    if (t->in_place && t->kind != ITEM_ALL_GATHER) { /* a reduce may use the buffer of a rank that is not its root */
        const size_t size = received(t, rig->ranks);
        const size_t at = t->kind == ITEM_REDUCE_SCATTER ? size * (size_t)rig->rank : 0;
        if (t->kind == ITEM_REDUCE && rig->rank != t->root)
            return 0;
        rig->machine->download(t->host, t->recv + at, size);
        return hash_of((unsigned char *)t->host, size);
    }
    rig->machine->download(t->host, t->recv, bytes + 64);
    return hash_of((unsigned char *)t->host, bytes + (t->in_place ? 0 : 64));
}

static int try_trial(struct rig *rig, struct trial *t, bool captures, struct bits *bits)
{
    const struct machine *m = rig->machine;
    fill(t, rig);
    RIG_OK(issue(t, rig));
    const uint64_t hash = result_of(t, rig);
    RIG_CHECK(bits->count < MOST_HASHES && sent(t, rig->ranks), "%zu results", bits->count);
    bits->hashes[bits->count++] = hash;
    if (!captures)
        return 0;
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(issue(t, rig));
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int replay = 0; replay < 2; replay++) {
        fill(t, rig);
        m->graph_launch(graph, rig->stream);
        RIG_CHECK(result_of(t, rig) == hash, "kind %d type %d op %d count %zu: replay %d differs", t->kind, t->type,
                  t->op, t->count, replay);
    }
    m->graph_destroy(graph);
    return 0;
}

/* Every collective, type and operator, of sizes that are odd, and of many chunks. */
static int every_result(struct rig *rig)
{
    static const size_t counts[] = {1, 37, 1000, MOST_COUNT};
    static const enum item_kind kinds[] = {ITEM_ALL_REDUCE, ITEM_REDUCE_SCATTER, ITEM_REDUCE, ITEM_BROADCAST,
                                           ITEM_ALL_GATHER};
    const size_t room = (size_t)rig->ranks * MOST_COUNT * 8 + 128;
    struct bits bits = bits_begin(rig);
    struct trial t = {.send = rig->machine->alloc(room), .recv = rig->machine->alloc(room), .host = malloc(room)};
    for (int type = 0; type < rondoNumTypes; type++) {
        char factor[8];
        number_encode((rondoDataType_t)type, number_types[type].exponent_bits ? 1.375 : 3, factor);
        RIG_OK(rondoRedOpCreatePreMulSum(&t.scaled[type], factor, (rondoDataType_t)type, rondoScalarHostImmediate,
                                         rig->comm));
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int type = 0; type < rondoNumTypes; type++)
            for (int op = 0; op < OPERATORS; op++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                    if (k > 2 && (op || (RIG_SLOW && type % 3)))
                        continue; /* no operator */
                    if (RIG_SLOW && (c % 2 || (op && op < 3)))
                        continue;
                    t.kind = kinds[k], t.type = (rondoDataType_t)type, t.op = op, t.count = counts[c];
                    t.root = (type + op + (int)c) % rig->ranks;
                    t.in_place = (type + op + (int)c) % 2 || op == SCALED;
                    if (try_trial(rig, &t, c == 1 || (c == 3 && type % 4 == 0), &bits))
                        return 1;
                }
    for (int type = 0; type < rondoNumTypes; type++)
        RIG_OK(rondoRedOpDestroy(t.scaled[type], rig->comm));
    rig->machine->free(t.send);
    rig->machine->free(t.recv);
    free(t.host);
    return mailboxes_check(rig);
}

/* Runs it as an exchange among all, and then round the ring, by either protocol. */
static void check_bits(int ranks, enum rig_layout layout)
{
    static const char *const protocols[] = {"line", "bulk"};
    char *flat = malloc(RIG_SCRATCH), *ring = malloc(RIG_SCRATCH);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_TIMEOUT_MS", "60000", 1);
    setenv("RONDO_ALGO", "oneshot", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = layout, .scratch_copy = flat}, every_result),
                 0);
    setenv("RONDO_ALGO", "ring", 1);
    for (int p = 0; p < 2; p++) {
        setenv("RONDO_PROTO", protocols[p], 1);
        memset(ring, 0, RIG_SCRATCH);
        cr_assert_eq(
            rig_run(&(struct rig_options){.ranks = ranks, .layout = layout, .scratch_copy = ring}, every_result), 0,
            "%d ranks, %s", ranks, protocols[p]);
        const uint64_t *a = (uint64_t *)(void *)flat, *b = (uint64_t *)(void *)ring;
        size_t seen = 0;
        for (size_t i = 0; i < (size_t)ranks * MOST_HASHES; i++) {
            cr_assert_eq(a[i], b[i], "%d ranks, %s: result %zu of rank %zu has other bits", ranks, protocols[p],
                         i % MOST_HASHES, i / MOST_HASHES);
            seen += a[i] != 0;
        }
        cr_assert_gt(seen, RIG_SLOW ? 100 : 500);
    }
    unsetenv("RONDO_PROTO");
    free(flat);
    free(ring);
}

Test(ring, gives_the_bits_of_exchanges_among_all_between_processes, .timeout = 300)
{
    for (int ranks = 2; ranks <= rig_ranks(6); ranks++)
        if (rig_runs_with(ranks))
            check_bits(ranks, RIG_PROCESSES);
}

Test(ring, gives_the_bits_of_exchanges_among_all_between_threads, .timeout = 300)
{
    check_bits(rig_ranks(3), RIG_THREADS);
}

/* ---- every path ---- */

/* Ops of all kinds, for rings share lanes with exchanges and messages; of no elements, too. */
static int every_op(struct rig *rig)
{
    static const unsigned bits[] = {0, 9, 16};
    struct draw draw = {88};
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++)
        for (int kind = 0; kind < ITEM_KINDS; kind++) {
            struct item item;
            do
                item_draw(&item, &draw, rig->ranks, bits[b]);
            while (item.kind != (enum item_kind)kind);
            if (item_try(&item, rig))
                return 1;
        }
    return mailboxes_check(rig);
}

static void over_all_ways(int ranks, rig_body body)
{
    setenv("RONDO_TIMEOUT_MS", "60000", 1);
    for (int w = 0; w < ways_count(); w++) {
        if (RIG_SLOW && w % 3)
            continue;
        way_set(&ways[w]);
        log_begin();
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = ranks, .layout = ways[w].layout}, body), 0, "way %d, %s", w,
                     ways[w].tail);
        cr_assert(log_has_paths(&ways[w], ranks), "way %d, %s", w, ways[w].tail);
        log_end();
    }
    cr_assert_eq(rig_names_in_shm(), 0);
}

Test(ring, carries_every_op_over_every_path, .timeout = 300)
{
    setenv("RONDO_ALGO", "ring", 1);
    over_all_ways(rig_ranks(3), every_op);
}

/* Many chunks for each place, and epochs that wrap. */
Test(ring, carries_every_op_in_small_mailboxes_by_either_protocol, .timeout = 300)
{
    setenv("RONDO_ALGO", "ring", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_EPOCH_START", "-60", 1);
    setenv("RONDO_PROTO", "bulk", 1);
    over_all_ways(rig_ranks(4), every_op);
    setenv("RONDO_PROTO", "line", 1);
    over_all_ways(rig_ranks(4), every_op);
}

/* Beyond the mailboxes that arguments hold. */
Test(ring, carries_every_op_between_nine_ranks, .timeout = 300)
{
    if (rig_ranks(9) < 9 || RIG_SLOW)
        cr_skip_test("needs nine ranks");
    setenv("RONDO_ALGO", "ring", 1);
    setenv("RONDO_TIMEOUT_MS", "60000", 1);
    for (int p2p = 0; p2p < 2; p2p++) {
        setenv("RONDO_P2P_DISABLE", p2p ? "0" : "1", 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = 9}, every_op), 0);
    }
}

/* Few blocks or many, whatever the number of ranks. */
Test(ring, runs_with_any_number_of_blocks, .timeout = 300)
{
    static const char *const blocks[] = {"1", "7", "24"};
    setenv("RONDO_ALGO", "ring", 1);
    setenv("RONDO_TIMEOUT_MS", "60000", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        setenv("RONDO_MIN_CTAS", blocks[b], 1);
        setenv("RONDO_MAX_CTAS", blocks[b], 1);
        cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, every_op), 0, "%s blocks", blocks[b]);
    }
}

/* ---- any payload ---- */

/* Lines that look empty, or like the mark, or nearly so. */
static int odd_payloads(struct rig *rig)
{
    enum { WORDS = 4096 };
    uint32_t words[WORDS], back[WORDS];
    const struct machine *m = rig->machine;
    uint32_t *send = m->alloc(sizeof words), *recv = m->alloc(sizeof words * (size_t)rig->ranks);
    for (int i = 0; i < WORDS; i++)
        words[i] = RONDO_EMPTY_WORD ^ (i % 4 == 3 ? (uint32_t)(i / 4 % 3) : 0) ^ (i % 77 == 7 ? 4u : 0);
    for (int round = 0; round < 4; round++) {
        m->upload(send, words, sizeof words);
        RIG_OK(rondoAllReduce(send, recv, WORDS, rondoUint32, rondoMax, rig->comm, rig->stream));
        m->stream_sync(rig->stream);
        m->download(back, recv, sizeof back);
        RIG_CHECK(!memcmp(back, words, sizeof back), "all-reduce, round %d", round);
        RIG_OK(rondoAllGather(send, recv, WORDS, rondoUint32, rig->comm, rig->stream));
        RIG_OK(rondoBroadcast(recv, send, WORDS, rondoUint32, round % rig->ranks, rig->comm, rig->stream));
        m->stream_sync(rig->stream);
        m->download(back, send, sizeof back);
        RIG_CHECK(!memcmp(back, words, sizeof back), "broadcast, round %d", round);
        for (int r = 0; r < rig->ranks; r++) {
            m->download(back, recv + (size_t)r * WORDS, sizeof back);
            RIG_CHECK(!memcmp(back, words, sizeof back), "all-gather, round %d, rank %d", round, r);
        }
    }
    m->free(send);
    m->free(recv);
    return mailboxes_check(rig);
}

Test(ring, carries_payloads_that_look_like_empty_lines, .timeout = 300)
{
    setenv("RONDO_ALGO", "ring", 1);
    setenv("RONDO_PROTO", "line", 1);
    over_all_ways(rig_ranks(3), odd_payloads);
}
