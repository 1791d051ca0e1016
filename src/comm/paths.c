#include "comm/paths.h"

#include "comm/card.h"
#include "comm/links_impl.h"
#include "comm/ring.h"
#include "comm/tune.h"
#include "common/env.h"
#include "common/result.h"

#include <string.h>

/* What a table says. Tables are of paths through device memory by kernels; others keep what is built in. */
static bool tuned_from(const struct rondoComm *comm, const struct rondo_path *slowest, unsigned collective,
                       enum rondo_tune_key key, uint64_t *from)
{
    const bool other = slowest->host || slowest->sender_copies || slowest->receiver_copies;
    return !other && rondo_tune_find(comm->tune, comm->limits.ranks, collective, key, from);
}

/* From which size on the bulk protocol is better for a collective on the slowest of the paths; measured on two H200s, see
 * docs/decisions/0006. */
static uint64_t bulk_from(const struct rondoComm *comm, const struct rondo_path *slowest, unsigned collective)
{
    const bool rooted = collective == RONDO_REDUCE || collective == RONDO_BROADCAST;
    const char *proto = rondo_env()->proto;
    uint64_t from;
    if (proto && !strcmp(proto, "bulk"))
        return 1;
    if (proto && !strcmp(proto, "line"))
        return UINT64_MAX;
    if (tuned_from(comm, slowest, collective, RONDO_TUNE_BULK, &from))
        return from;
    if (comm->info.line_bytes == 8) /* the host device: both are to be used */
        return 256 << 10;
    if (slowest->receiver_copies)
        return UINT64_MAX;
    if (slowest->sender_copies)
        return slowest->host ? 2 << 20 : 16 << 20;
    if (slowest->host || slowest->at_sender)
        return slowest->host ? 2 << 20 : 256 << 10;
    return collective == RONDO_ALL_REDUCE ? UINT64_MAX : rooted ? 32 << 20 : 16 << 20;
}

/* Whether anything may be direct: only if every rank's kernels can load and store all peers' device memory. `from`: what was said
 * about it, UINT64_MAX or 1, if anything was. */
static bool direct_is_settled(const struct rondoComm *comm, const struct rondo_path *slowest, uint64_t *from)
{
    const char *proto = rondo_env()->proto;
    const bool can = comm->ranks >= 2 && comm->ranks <= RONDO_ARG_PEERS && !slowest->host && !slowest->at_sender &&
                     !slowest->sender_copies && !slowest->receiver_copies;
    const bool forced = proto && !strcmp(proto, "direct");
    *from = can && forced ? 1 : UINT64_MAX;
    return !can || forced || (proto && (!strcmp(proto, "line") || !strcmp(proto, "bulk")));
}

/* From which size on works are direct where their buffers allow: where that beats lines on two H200s (docs/decisions/0007). */
static uint64_t direct_from(const struct rondoComm *comm, const struct rondo_path *slowest, unsigned collective)
{
    const bool rooted = collective == RONDO_REDUCE || collective == RONDO_BROADCAST;
    uint64_t from;
    if (direct_is_settled(comm, slowest, &from) || tuned_from(comm, slowest, collective, RONDO_TUNE_DIRECT, &from))
        return from;
    if (comm->info.line_bytes == 8)
        return 128 << 10; /* the host device: it is to be used */
    return collective == RONDO_ALL_REDUCE || rooted ? 16 << 20 : rondo_limits_direct_parts(comm->limits.ranks);
}

/* The same for messages: between two H200s, one of 1 MiB each way takes 11.0 us by FIFO and 11.7 directly, one of 2 MiB 17.1 and 15.0. */
static uint64_t messages_direct_from(const struct rondoComm *comm, const struct rondo_path *slowest)
{
    uint64_t from;
    if (direct_is_settled(comm, slowest, &from))
        return from;
    return comm->info.line_bytes == 8 ? 128 << 10 : 3 << 19; /* the host device: it is to be used */
}

/* From which size on copy engines move a flow, or a message. Of a broadcast, the parts of which have to be as large. */
static uint64_t copied_from(const struct rondoComm *comm, const struct rondo_path *slowest, unsigned parts)
{
    uint64_t from;
    if (comm->config.cta_policy != RONDO_CTA_POLICY_ZERO || comm->info.line_bytes != 8)
        return UINT64_MAX; /* on GPUs copies as they are made now have not been tried: docs/decisions/0010 */
    if (direct_is_settled(comm, slowest, &from))
        return from;
    return (uint64_t)parts << 17; /* the host device: it is to be used */
}

/* Only what is moved as it is. What is copied is direct: it is tried from that size on. */
static void choose_copies(struct rondoComm *comm, const struct rondo_path *slowest)
{
    struct rondo_limits *limits = &comm->limits;
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++) {
        const bool moves = c == RONDO_ALL_GATHER || c == RONDO_ALL_TO_ALL || c == RONDO_BROADCAST;
        const unsigned parts = c == RONDO_BROADCAST ? limits->ranks - 1 : 1;
        limits->copied_from[c] = moves ? copied_from(comm, slowest, parts) : UINT64_MAX;
        if (limits->copied_from[c] < limits->direct_from[c])
            limits->direct_from[c] = limits->copied_from[c];
    }
    limits->messages_copied_from = copied_from(comm, slowest, 1);
    if (limits->messages_copied_from < limits->messages_direct_from)
        limits->messages_direct_from = limits->messages_copied_from;
    limits->copies = limits->messages_copied_from != UINT64_MAX;
}

/* From which size on an op goes round the ring where that puts less on slow pairs (ring_widest); reckoned, not measured: where what it
 * spares them outweighs its hops, see docs/decisions/0008. A table's word is for all its ops, and for any paths: it tells of a
 * machine that has such pairs. */
static void tune_ring(struct rondoComm *comm, unsigned collective)
{
    struct rondo_limits *limits = &comm->limits;
    const bool parts = collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_GATHER;
    const uint64_t from = comm->info.line_bytes == 8 ? 128 << 10 : 1 << 20; /* the host device: it is to be used */
    limits->ring_from[collective] = parts && limits->ranks > 1 ? from / (limits->ranks - 1) : from;
    if (collective == RONDO_ALL_TO_ALL ||
        !rondo_tune_find(comm->tune, limits->ranks, collective, RONDO_TUNE_RING, &limits->ring_from[collective]))
        return;
    limits->ring_widest[collective] = RONDO_RING_WIDEST;
    limits->tuned[collective] |= 1u << RONDO_TUNE_RING;
}

/* What joins a pair, for the ring's order. */
static enum rondo_ring_cost cost_of(const struct rondo_path *path, const struct rondo_card *sender,
                                    const struct rondo_card *receiver)
{
    const bool far = sender->numa_node >= 0 && receiver->numa_node >= 0 && sender->numa_node != receiver->numa_node;
    return path->relay ? RONDO_RING_RELAY : !path->host ? RONDO_RING_DEVICE : far ? RONDO_RING_FAR : RONDO_RING_HOST;
}

static void choose_ring(struct rondoComm *comm, const struct rondo_card *cards)
{
    uint8_t costs[RONDO_MAX_RANKS * RONDO_MAX_RANKS] = {0};
    for (int s = 0; s < comm->ranks; s++)
        for (int r = 0; r < comm->ranks; r++)
            if (s != r)
                costs[s * comm->ranks + r] = (uint8_t)cost_of(rondo_path_of(comm, s, r), &cards[s], &cards[r]);
    rondo_ring_choose(&comm->limits, costs);
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
        tune_ring(comm, c);
}

static void tune(struct rondoComm *comm, const struct rondo_path *slowest, unsigned collective)
{
    struct rondo_limits *limits = &comm->limits;
    uint64_t from;
    limits->shape_count[collective] = limits->tuned[collective] = 0;
    limits->bulk_from[collective] = bulk_from(comm, slowest, collective);
    limits->direct_from[collective] = direct_from(comm, slowest, collective);
    if (tuned_from(comm, slowest, collective, RONDO_TUNE_TWO_SHOT, &from))
        limits->two_shot_from[collective] = from;
    if (tuned_from(comm, slowest, collective, RONDO_TUNE_SHAPE, &from))
        limits->shape_count[collective] =
            (uint8_t)rondo_tune_shapes(comm->tune, limits->ranks, collective, limits->shapes[collective]);
    for (unsigned key = 0; key < RONDO_TUNE_KEY_COUNT; key++)
        if (tuned_from(comm, slowest, collective, (enum rondo_tune_key)key, &from))
            limits->tuned[collective] |= (uint8_t)(1u << key);
}

/* The one of two paths that decides how fast a collective is. */
static void keep_slower(struct rondo_path *slowest, const struct rondo_path *path)
{
    slowest->host |= path->host;
    slowest->at_sender |= path->at_sender || path->relay;
    slowest->sender_copies |= path->sender_copies;
    slowest->receiver_copies |= path->receiver_copies;
}

/* A pair that cannot go by its own device memory goes by that of a third rank, if there is one. */
static void find_relay(const struct rondoComm *comm, int s, int r, struct rondo_path *path)
{
    const uint8_t *found = comm->links->verdicts;
    const int n = comm->ranks;
    const uint8_t pair =
        rondo_verdict_of(comm, s, r) > rondo_verdict_of(comm, r, s) ? found[s * n + r] : found[r * n + s];
    for (int t = 0; t < n && path->host; t++) {
        const uint8_t three[] = {found[s * n + t], found[t * n + s], found[r * n + t], found[t * n + r]};
        if (t != s && t != r && rondo_path_may_relay(pair, three))
            *path = (struct rondo_path){.relay = (uint8_t)(t + 1)};
    }
}

rondoResult_t rondo_paths_choose(struct rondoComm *comm, const struct rondo_card *cards)
{
    uint64_t half = (uint64_t)comm->config.buffer_kib * 1024;
    struct rondo_path slowest = {0};
    bool outboxes = false;
    comm->limits.posts = 0;
    for (int s = 0; s < comm->ranks; s++)
        for (int r = 0; r < comm->ranks; r++) {
            struct rondo_path *path = &comm->links->paths[s * comm->ranks + r];
            if (s == r)
                continue;
            RONDO_TRY(rondo_path_choose(&cards[s].wish, &cards[r].wish, rondo_verdict_of(comm, s, r),
                                        rondo_verdict_of(comm, r, s), path));
            comm->limits.posts |= path->sender_copies || path->receiver_copies;
            find_relay(comm, s, r, path);
            outboxes |= path->at_sender || path->sender_copies || path->relay;
            keep_slower(&slowest, path);
        }
    rondo_limits_preset(&comm->limits);
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
        tune(comm, &slowest, c);
    comm->limits.messages_direct_from = messages_direct_from(comm, &slowest);
    choose_copies(comm, &slowest);
    choose_ring(comm, cards);
    rondo_limits_fit(&comm->limits, outboxes && comm->ranks > 2 ? half / ((unsigned)comm->ranks - 1) : half);
    comm->links->mailbox = rondo_lanes_mailbox_bytes(&comm->limits);
    return rondoSuccess;
}
