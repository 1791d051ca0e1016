#include "comm/card.h"

#include "comm/tune.h"
#include "common/env.h"
#include "common/result.h"

#include <stdio.h>
#include <string.h>

/* Which of three was forced, from 1 on; 0: none that there is. */
static int choice_of(const char *forced, const char *const choices[3])
{
    int choice = 3;
    while (choice && !(forced && choices[choice - 1] && strcmp(forced, choices[choice - 1]) == 0))
        choice--;
    return choice;
}

void rondo_card_fill(const struct rondoComm *comm, struct rondo_card *card)
{
    static const char *const protos[3] = {"line", "bulk", "direct"}, *const algos[3] = {"oneshot", "twoshot", "ring"};
    const struct rondo_env *env = rondo_env();
    memset(card, 0, sizeof *card);
    card->version = RONDO_VERSION_CODE;
    snprintf(card->device, sizeof card->device, "%s", comm->ops->name);
    memcpy(card->uuid, comm->info.uuid, sizeof card->uuid);
    memcpy(card->bus_id, comm->info.bus_id, sizeof card->bus_id);
    card->ordinal = comm->info.ordinal;
    card->line_bytes = comm->info.line_bytes;
    card->threads = comm->info.default_threads;
    card->processors = comm->info.processors;
    card->min_ctas = comm->config.min_ctas;
    card->max_ctas = comm->config.max_ctas;
    card->buffer_kib = comm->config.buffer_kib;
    card->shared_device = comm->config.shared_device;
    card->graph_lanes = comm->config.graph_lanes;
    card->cta_policy = comm->config.cta_policy;
    card->forced = (int32_t)env->threads * 16 + choice_of(env->proto, protos) * 4 + choice_of(env->algo, algos);
    card->capability = comm->info.capability;
    card->check = env->check != 0;
    card->numa_node = comm->info.numa_node;
    card->tune = rondo_tune_hash(comm->tune);
    card->mig = comm->info.mig;
    card->shareable = comm->info.shareable && env->cumem_enable;
    card->legacy = comm->info.legacy_ipc;
    rondo_path_wish_fill(&card->wish);
}

static rondoResult_t differ(const char *what, int rank, long theirs, long first)
{
    return rondo_fail(rondoInvalidArgument, "ranks disagree on %s: %ld on rank %d, %ld on rank 0", what, theirs, rank,
                      first);
}

rondoResult_t rondo_cards_check(const struct rondo_card *cards, int ranks)
{
    const struct rondo_card *first = &cards[0];
    for (int r = 1; r < ranks; r++) {
        const struct rondo_card *card = &cards[r];
        if (card->version != first->version)
            return differ("Rondo's version", r, card->version, first->version);
        if (strcmp(card->device, first->device))
            return rondo_fail(rondoInvalidArgument, "ranks disagree on the device: %s on rank %d, %s on rank 0",
                              card->device, r, first->device);
        if (card->line_bytes != first->line_bytes)
            return differ("the device's line size", r, card->line_bytes, first->line_bytes);
        if ((card->cta_policy == RONDO_CTA_POLICY_ZERO) != (first->cta_policy == RONDO_CTA_POLICY_ZERO))
            return differ("ctaPolicy", r, card->cta_policy, first->cta_policy);
        if (card->min_ctas != first->min_ctas)
            return differ("minCTAs", r, card->min_ctas, first->min_ctas);
        if (card->max_ctas != first->max_ctas)
            return differ("maxCTAs", r, card->max_ctas, first->max_ctas);
        if (card->buffer_kib != first->buffer_kib)
            return differ("bufferKiB", r, card->buffer_kib, first->buffer_kib);
        if (card->shared_device != first->shared_device)
            return differ("sharedDevice", r, card->shared_device, first->shared_device);
        if (card->graph_lanes != first->graph_lanes)
            return differ("graphLanes", r, card->graph_lanes, first->graph_lanes);
        if (card->check != first->check)
            return differ("RONDO_CHECK", r, card->check, first->check);
        if (card->forced != first->forced)
            return differ("RONDO_ALGO, RONDO_PROTO or RONDO_THREADS", r, card->forced, first->forced);
        if (card->tune != first->tune)
            return rondo_fail(rondoInvalidArgument,
                              "ranks disagree on what RONDO_TUNE_FILE holds: %s on rank %d, %s on rank 0",
                              card->tune ? "a table" : "none", r,
                              !first->tune ? "none"
                              : card->tune ? "another"
                                           : "one");
    }
    if (first->shared_device)
        return rondoSuccess;
    for (int r = 1; r < ranks; r++)
        for (int q = 0; q < r; q++)
            if (!memcmp(cards[r].uuid, cards[q].uuid, sizeof cards[r].uuid))
                return rondo_fail(rondoInvalidUsage,
                                  "ranks %d and %d are on the same GPU (%s); RONDO_SHARED_DEVICE=1 or "
                                  "config.sharedDevice allows that",
                                  q, r, cards[r].bus_id);
    return rondoSuccess;
}
