/* What the ranks of a comm show each other at init, and must agree on. */
#ifndef RONDO_COMM_CARD_H
#define RONDO_COMM_CARD_H

#include "comm/comm.h"
#include "transport/path.h"

#include <stdint.h>

/* Sent as bytes between processes of one build. */
struct rondo_card {
    uint32_t version;
    char device[8]; /* row */
    uint8_t uuid[16];
    char bus_id[24];
    int32_t ordinal;
    int32_t line_bytes, threads, processors;
    int32_t min_ctas, max_ctas, buffer_kib, shared_device, graph_lanes;
    int32_t cta_policy;
    int32_t forced; /* by RONDO_ALGO, RONDO_PROTO and RONDO_THREADS, to be compared */
    int32_t capability, check;
    int32_t numa_node; /* nearest to the device, -1: not known */
    uint64_t tune;     /* rondo_tune_hash */
    uint8_t shareable, legacy, mig;
    struct rondo_path_wish wish;
};

void rondo_card_fill(const struct rondoComm *comm, struct rondo_card *card);

/* Every rank checks the same cards, so all get the same answer: rondoInvalidArgument where they differ in what must be the same,
 * rondoInvalidUsage where two ranks are on one device and that was not allowed. */
rondoResult_t rondo_cards_check(const struct rondo_card *cards, int ranks);

#endif
