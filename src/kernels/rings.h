/* Rings, as data: what plans and kernels both must know of them. See ring.h. */
#ifndef RONDO_KERNELS_RINGS_H
#define RONDO_KERNELS_RINGS_H

#include "kernels/types.h"
#include "kernels/work.h"

enum {
    RONDO_RING_RANKS = 64, /* as many as a comm may have */
    RONDO_RING_DEPTH = 4,  /* chunks of a stream that are under way at most, for each channel; 2 or more */
    RONDO_RING_WIDEST = 4, /* the most that rondo_ring_width gives */
};

/* The order in which moves go from rank to rank: a line from place 0 to the last. The same on all ranks. */
struct rondo_ring_order {
    uint8_t ranks[RONDO_RING_RANKS];  /* by place */
    uint8_t places[RONDO_RING_RANKS]; /* by rank */
};

/* Arguments of a launch of one work that goes round the ring. The work's step_lines are lines of a chunk. */
struct rondo_ring_args {
    struct rondo_batch_head head;
    struct rondo_work work;
    struct rondo_ring_order order;
};

/* A pair of ranks may have a stream of each kind, from the one to the other. */
enum rondo_ring_kind {
    RONDO_RING_MOVES,    /* what is to be stored, or a result */
    RONDO_RING_PARTIALS, /* what the ranks up to the sender's come to. Of reductions only */
    RONDO_RING_KINDS
};

/* What tells of a chunk: that it is there (of the bulk protocol, from the sender), that it was taken (from the receiver). */
enum rondo_ring_token { RONDO_RING_THERE, RONDO_RING_TAKEN, RONDO_RING_TOKENS };

/* Kinds of streams that a collective may have. */
RONDO_BOTH unsigned rondo_ring_kinds(unsigned collective)
{
    return collective <= RONDO_REDUCE ? RONDO_RING_KINDS : 1;
}

/* Lines of tokens at the beginning of each pair's slot. */
RONDO_BOTH uint32_t rondo_ring_token_lines(unsigned collective, unsigned channels)
{
    return rondo_ring_kinds(collective) * RONDO_RING_TOKENS * channels * RONDO_RING_DEPTH;
}

/* Whether partial results lose nothing when they are of the type itself: integers wrap, and of extremes each is one of the inputs. An
 * average is divided before it is narrowed. */
RONDO_BOTH int rondo_ring_is_exact(unsigned dtype, unsigned redop)
{
    const int integer = dtype <= RONDO_U64;
    return redop == RONDO_MAX || redop == RONDO_MIN || (integer && redop != RONDO_AVG);
}
RONDO_STATIC_ASSERT(RONDO_I8 == 0 && RONDO_U64 == 5 && RONDO_F16 == 6, "integers come first");

/* Lines that a line's partial results take: as many as its accumulators, where these must not be rounded. */
RONDO_BOTH unsigned rondo_ring_width(unsigned collective, unsigned dtype, unsigned redop)
{
    if (collective > RONDO_REDUCE || rondo_ring_is_exact(dtype, redop))
        return 1;
    switch (dtype) {
#define X(NAME, value, storage, accumulator) \
    case RONDO_##NAME:                       \
        return sizeof(accumulator) / sizeof(storage);
        RONDO_DTYPES(X)
#undef X
    default:
        return 1;
    }
}

#endif
