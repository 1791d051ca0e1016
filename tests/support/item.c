#include "support/item.h"

#include "harness/data.h"
#include "harness/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, LINE = 16 };

static const char *const names[ITEM_KINDS] = {
    "all_reduce", "reduce",   "broadcast",   "all_gather",  "reduce_scatter",  "all_to_all", "gather",
    "scatter",    "messages", "all_to_allv", "all_gatherv", "reduce_scatterv", "barrier",
};

/* ---- what the kinds have in common ---- */

static size_t element(const struct item *item)
{
    return (size_t)number_types[item->type].bytes;
}

static bool reduces(const struct item *item)
{
    return item->kind == ITEM_ALL_REDUCE || item->kind == ITEM_REDUCE || item->kind == ITEM_REDUCE_SCATTER ||
           item->kind == ITEM_REDUCE_SCATTERV;
}

/* Elements that rank s has for rank r, of what it sends. */
static size_t flow(const struct item *item, int s, int r)
{
    switch (item->kind) {
    case ITEM_REDUCE:
    case ITEM_GATHER:
        return r == item->root ? item->count : 0;
    case ITEM_BROADCAST:
    case ITEM_SCATTER:
        return s == item->root ? item->count : 0;
    case ITEM_ALL_TO_ALLV:
        return item->counts[s][r];
    case ITEM_ALL_GATHERV:
        return item->counts[s][0];
    case ITEM_REDUCE_SCATTERV:
        return item->counts[0][r];
    case ITEM_BARRIER:
        return 0;
    default:
        return item->count;
    }
}

/* Whether the send buffer has a part for each rank, and the receive buffer one from each. */
static bool sends_parts(const struct item *item)
{
    return item->kind == ITEM_REDUCE_SCATTER || item->kind == ITEM_ALL_TO_ALL || item->kind == ITEM_SCATTER ||
           item->kind == ITEM_ALL_TO_ALLV || item->kind == ITEM_REDUCE_SCATTERV;
}
static bool recvs_parts(const struct item *item)
{
    return !reduces(item) && item->kind != ITEM_BROADCAST && item->kind != ITEM_SCATTER;
}

/* Where in rank s's send buffer its part for r begins, and where in r's receive buffer the part from s. In elements; what lies
 * behind the last part is the buffer's length. */
static size_t send_place(const struct item *item, int s, int r)
{
    size_t at = 0;
    for (int i = 0; i < r && sends_parts(item); i++)
        at += flow(item, s, i);
    return at;
}
static size_t recv_place(const struct item *item, int s, int r)
{
    size_t at = 0;
    for (int i = 0; i < s && recvs_parts(item); i++)
        at += flow(item, i, r);
    return at;
}

static size_t send_length(const struct item *item, int rank, int ranks)
{
    size_t length = 0;
    if (item->kind == ITEM_MESSAGES) {
        for (size_t m = 0; m < item->messages; m++)
            length += item->from[m] == rank ? item->lengths[m] : 0;
        return length;
    }
    if (sends_parts(item))
        return send_place(item, rank, ranks);
    for (int r = 0; r < ranks; r++)
        length = flow(item, rank, r) > length ? flow(item, rank, r) : length;
    return length;
}

static size_t recv_length(const struct item *item, int rank, int ranks)
{
    size_t length = 0;
    if (item->kind == ITEM_MESSAGES) {
        for (size_t m = 0; m < item->messages; m++)
            length += item->to[m] == rank ? item->lengths[m] : 0;
        return length;
    }
    if (recvs_parts(item))
        return recv_place(item, ranks, rank);
    for (int s = 0; s < ranks; s++)
        length = flow(item, s, rank) > length ? flow(item, s, rank) : length;
    return length;
}

/* Where the m-th message lies among those that a rank sends, or receives. */
static size_t message_place(const struct item *item, size_t m, const int *ends)
{
    size_t at = 0;
    for (size_t i = 0; i < m; i++)
        at += ends[i] == ends[m] ? item->lengths[i] : 0;
    return at;
}

size_t item_kept(const struct item *item, int rank)
{
    size_t kept = item->kind == ITEM_MESSAGES || item->in_place ? 0 : flow(item, rank, rank);
    for (size_t m = 0; m < item->messages && item->kind == ITEM_MESSAGES; m++)
        kept += item->from[m] == rank && item->to[m] == rank ? item->lengths[m] : 0;
    return kept * element(item);
}

/* ---- drawing ---- */

void item_draw(struct item *item, struct draw *draw, int ranks, unsigned bits)
{
    memset(item, 0, sizeof *item);
    item->kind = (enum item_kind)draw_below(draw, ITEM_KINDS);
    item->type = (rondoDataType_t)draw_below(draw, rondoNumTypes);
    item->op = (rondoRedOp_t)draw_below(draw, rondoNumOps);
    item->scaled = reduces(item) && draw_below(draw, 8) == 0;
    if (item->scaled)
        item->op = rondoSum;
    item->root = (int)draw_below(draw, (unsigned)ranks);
    item->count = draw_size(draw, bits);
    item->shift = draw_bits(draw) % 100000;
    item->offset = draw_below(draw, 3) ? 0 : draw_below(draw, 4);
    item->in_place = draw_below(draw, 3) == 0 && item->kind != ITEM_MESSAGES && item->kind != ITEM_ALL_TO_ALLV;
    if (item->kind == ITEM_MESSAGES)
        item->messages = 1 + draw_below(draw, ITEM_MESSAGES_MOST);
    for (size_t m = 0; m < item->messages; m++) {
        item->from[m] = (int)draw_below(draw, (unsigned)ranks);
        item->to[m] = (int)draw_below(draw, (unsigned)ranks);
        item->lengths[m] = draw_size(draw, bits);
    }
    for (int s = 0; s < ranks; s++)
        for (int r = 0; r < ranks; r++)
            item->counts[s][r] = draw_below(draw, 3) ? draw_size(draw, bits) : 0;
}

/* ---- memory ---- */

/* A sum of scaled inputs must be exact too: inputs are those of twice as many ranks. */
static struct data data_of(const struct item *item, int ranks)
{
    return (struct data){item->type, item->op, item->scaled ? 2 * ranks : ranks, item->shift};
}

/* Elements from `at` on of what a rank sends. */
static void put_input(const struct item *item, int rank, int ranks, size_t at, char *to, size_t count)
{
    struct data data = data_of(item, ranks);
    data.shift += at;
    data_input(&data, rank, to, count);
}

/* What `rank` must have received, but for reductions, which item_check looks at. */
static void put_received(const struct item *item, int rank, int ranks, char *to)
{
    const size_t size = element(item);
    if (item->kind == ITEM_MESSAGES) {
        for (size_t m = 0; m < item->messages; m++)
            if (item->to[m] == rank)
                put_input(item, item->from[m], ranks, message_place(item, m, item->from),
                          to + message_place(item, m, item->to) * size, item->lengths[m]);
        return;
    }
    for (int s = 0; s < ranks && !reduces(item); s++)
        put_input(item, s, ranks, send_place(item, s, rank), to + recv_place(item, s, rank) * size,
                  flow(item, s, rank));
}

/* In place, the smaller buffer is a part of the larger. */
static void lay_out(struct item *item, int rank, size_t sent, size_t received)
{
    const size_t size = element(item);
    item->send_at = GUARD + item->offset * size;
    item->recv_at = (item->send_at + sent * size + GUARD + LINE - 1) / LINE * LINE + item->offset * size;
    item->in_place = item->in_place && sent && received;
    if (item->in_place) {
        item->recv_at = item->send_at;
        if (received > sent)
            item->send_at += recv_place(item, rank, rank) * size;
        else if (sent > received)
            item->recv_at += send_place(item, rank, rank) * size;
    }
    const size_t send_end = item->send_at + sent * size, recv_end = item->recv_at + received * size;
    item->bytes = (send_end > recv_end ? send_end : recv_end) + GUARD;
}

void item_prepare(struct item *item, const struct rig *rig)
{
    const size_t sent = send_length(item, rig->rank, rig->ranks), received = recv_length(item, rig->rank, rig->ranks);
    lay_out(item, rig->rank, sent, received);
    item->memory = rig->machine->alloc(item->bytes);
    item->before = malloc(item->bytes);
    item->after = malloc(item->bytes);
    memset(item->before, DATA_POISON, item->bytes);
    put_input(item, rig->rank, rig->ranks, 0, item->before + item->send_at, sent);
    memcpy(item->after, item->before, item->bytes);
    put_received(item, rig->rank, rig->ranks, item->after + item->recv_at);
}

void item_free(struct item *item, const struct rig *rig)
{
    rig->machine->free(item->memory);
    free(item->before);
    free(item->after);
}

void item_fill(const struct item *item, const struct rig *rig)
{
    rig->machine->upload(item->memory, item->before, item->bytes);
}

/* ---- the calls ---- */

static rondoResult_t issue_messages(const struct item *item, const struct rig *rig, rondoComm_t comm,
                                    struct CUstream_st *stream)
{
    const char *send = item->memory + item->send_at;
    char *recv = item->memory + item->recv_at;
    const size_t size = element(item);
    rondoResult_t result = rondoGroupStart();
    for (size_t m = 0; m < item->messages && result == rondoSuccess; m++)
        if (item->from[m] == rig->rank)
            result = rondoSend(send + message_place(item, m, item->from) * size, item->lengths[m], item->type,
                               item->to[m], comm, stream);
    for (size_t m = 0; m < item->messages && result == rondoSuccess; m++)
        if (item->to[m] == rig->rank)
            result = rondoRecv(recv + message_place(item, m, item->to) * size, item->lengths[m], item->type,
                               item->from[m], comm, stream);
    const rondoResult_t end = rondoGroupEnd();
    return result == rondoSuccess ? end : result;
}

static rondoResult_t issue_v(const struct item *item, const struct rig *rig, rondoComm_t comm,
                             struct CUstream_st *stream)
{
    size_t sends[ITEM_RANKS], send_places[ITEM_RANKS], recvs[ITEM_RANKS], recv_places[ITEM_RANKS];
    const char *send = item->memory + item->send_at;
    char *recv = item->memory + item->recv_at;
    const int me = rig->rank;
    for (int r = 0; r < rig->ranks; r++) {
        sends[r] = flow(item, me, r);
        send_places[r] = send_place(item, me, r);
        recvs[r] = flow(item, r, me);
        recv_places[r] = recv_place(item, r, me);
    }
    if (item->kind == ITEM_ALL_TO_ALLV)
        return rondoAllToAllv(send, sends, send_places, recv, recvs, recv_places, item->type, comm, stream);
    if (item->kind == ITEM_ALL_GATHERV)
        return rondoAllGatherv(send, sends[me], recv, recvs, recv_places, item->type, comm, stream);
    return rondoReduceScatterv(send, sends, send_places, recv, recvs[me], item->type, item->op, comm, stream);
}

static rondoResult_t issue_as(const struct item *item, const struct rig *rig, rondoRedOp_t op, rondoComm_t comm,
                              struct CUstream_st *stream)
{
    const char *send = item->memory + item->send_at;
    char *recv = item->memory + item->recv_at;
    const size_t n = item->count;
    struct item as = *item;
    as.op = op;
    switch (item->kind) {
    case ITEM_ALL_REDUCE:
        return rondoAllReduce(send, recv, n, item->type, op, comm, stream);
    case ITEM_REDUCE:
        return rondoReduce(send, rig->rank == item->root ? recv : NULL, n, item->type, op, item->root, comm, stream);
    case ITEM_BROADCAST:
        if (item->in_place && rig->rank == item->root)
            return rondoBcast(recv, n, item->type, item->root, comm, stream);
        return rondoBroadcast(rig->rank == item->root ? send : NULL, recv, n, item->type, item->root, comm, stream);
    case ITEM_ALL_GATHER:
        return rondoAllGather(send, recv, n, item->type, comm, stream);
    case ITEM_REDUCE_SCATTER:
        return rondoReduceScatter(send, recv, n, item->type, op, comm, stream);
    case ITEM_ALL_TO_ALL:
        return rondoAllToAll(send, recv, n, item->type, comm, stream);
    case ITEM_GATHER:
        return rondoGather(send, rig->rank == item->root ? recv : NULL, n, item->type, item->root, comm, stream);
    case ITEM_SCATTER:
        return rondoScatter(rig->rank == item->root ? send : NULL, recv, n, item->type, item->root, comm, stream);
    case ITEM_MESSAGES:
        return issue_messages(item, rig, comm, stream);
    case ITEM_BARRIER:
        return rondoBarrier(comm, stream);
    default:
        return issue_v(&as, rig, comm, stream);
    }
}

rondoResult_t item_issue(const struct item *item, const struct rig *rig, rondoComm_t comm, struct CUstream_st *stream)
{
    char two[8];
    rondoRedOp_t op;
    if (!item->scaled)
        return issue_as(item, rig, item->op, comm, stream);
    number_encode(item->type, 2, two);
    rondoResult_t result = rondoRedOpCreatePreMulSum(&op, two, item->type, rondoScalarHostImmediate, comm);
    if (result != rondoSuccess)
        return result;
    result = issue_as(item, rig, op, comm, stream);
    const rondoResult_t destroyed = rondoRedOpDestroy(op, comm);
    return result == rondoSuccess ? destroyed : result;
}

/* ---- the check ---- */

static size_t scaled_wrong(const struct item *item, int ranks, size_t at, const char *result, size_t count)
{
    const size_t size = element(item);
    char *inputs = malloc((size_t)ranks * count * size + 1);
    size_t wrong = 0;
    for (int r = 0; r < ranks; r++)
        put_input(item, r, ranks, at, inputs + (size_t)r * count * size, count);
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += 2 * number_decode(item->type, inputs + ((size_t)r * count + i) * size);
        wrong += number_decode(item->type, result + i * size) != sum;
    }
    free(inputs);
    return wrong;
}

/* Wrong elements of a reduction's result. */
static size_t reduction_wrong(const struct item *item, const struct rig *rig, const char *result, size_t count)
{
    struct data data = data_of(item, rig->ranks);
    const size_t at = send_place(item, rig->rank, rig->rank);
    data.shift += at;
    return item->scaled ? scaled_wrong(item, rig->ranks, at, result, count) : data_wrong(&data, result, count, NULL);
}

void item_describe(const struct item *item, char *text, size_t room)
{
    snprintf(text, room, "%s%s %s op %d root %d count %zu offset %zu comm %d stream %d%s", names[item->kind],
             item->scaled ? " scaled" : "", number_types[item->type].name, (int)item->op, item->root, item->count,
             item->offset, item->comm, item->stream, item->in_place ? " in place" : "");
}

int item_check(const struct item *item, struct rig *rig)
{
    char *got = malloc(item->bytes), what[160];
    int failed = 0;
    rig->machine->download(got, item->memory, item->bytes);
    item_describe(item, what, sizeof what);
    if (reduces(item)) {
        const size_t count = recv_length(item, rig->rank, rig->ranks);
        const size_t wrong = reduction_wrong(item, rig, got + item->recv_at, count);
        if (wrong)
            fprintf(stderr, "rank %d of %d: %zu of %zu wrong: %s\n", rig->rank, rig->ranks, wrong, count, what);
        failed = wrong != 0;
        memcpy(got + item->recv_at, item->after + item->recv_at, count * element(item));
    }
    for (size_t i = 0; i < item->bytes && !failed; i++)
        if (got[i] != item->after[i]) {
            fprintf(stderr, "rank %d of %d: byte %zu of %zu is 0x%02x, not 0x%02x (send at %zu, recv at %zu): %s\n",
                    rig->rank, rig->ranks, i, item->bytes, (unsigned char)got[i], (unsigned char)item->after[i],
                    item->send_at, item->recv_at, what);
            failed = 1;
        }
    free(got);
    return failed;
}

int item_try(struct item *item, struct rig *rig)
{
    const struct machine *m = rig->machine;
    item_prepare(item, rig);
    item_fill(item, rig);
    RIG_OK(item_issue(item, rig, rig->comm, rig->stream));
    m->stream_sync(rig->stream);
    int failed = item_check(item, rig);
    m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    RIG_OK(item_issue(item, rig, rig->comm, rig->stream));
    struct machine_graph *graph = m->capture_end(rig->stream);
    for (int replay = 0; replay < 3 && !failed; replay++) {
        item_fill(item, rig);
        m->graph_launch(graph, rig->stream);
        m->stream_sync(rig->stream);
        failed = item_check(item, rig);
    }
    m->graph_destroy(graph);
    item_free(item, rig);
    if (failed) {
        char text[160];
        item_describe(item, text, sizeof text);
        fprintf(stderr, "rank %d: %s\n", rig->rank, text);
    }
    return failed;
}
