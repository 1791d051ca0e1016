/* Signatures: 64 bits that tell what a launch's works are, for ranks to compare (RONDO_CHECK). Of one work all is in them; of several,
 * their number and a hash. Never 0, and never what an empty line looks like. */
#ifndef RONDO_KERNELS_SIGNATURE_H
#define RONDO_KERNELS_SIGNATURE_H

#include "kernels/work.h"

/* What all ranks must agree on. Of works that only move data, the type is not: so many bytes are so many bytes. */
struct rondo_signed {
    unsigned kind; /* 1 + enum rondo_collective, RONDO_SIGNED_BARRIER or RONDO_SIGNED_GROUP */
    unsigned dtype, redop, scaled, root;
    uint64_t bytes; /* of one flow; of a group: how many works */
};

enum { RONDO_SIGNED_BARRIER = 1 + RONDO_COLLECTIVE_COUNT, RONDO_SIGNED_GROUP = 15 };

/* From the lowest bit: kind 4, type 4, operator 3, scaled 1, root 8, bytes 44. */
RONDO_BOTH uint64_t rondo_signature_pack(const struct rondo_signed *s)
{
    const uint64_t packed = s->kind | (uint64_t)s->dtype << 4 | (uint64_t)s->redop << 8 | (uint64_t)s->scaled << 11 |
                            (uint64_t)s->root << 12 | s->bytes << 20;
    return packed == (RONDO_EMPTY_WORD | (uint64_t)RONDO_EMPTY_WORD << 32) ? packed ^ 1u << 8 : packed;
}

RONDO_BOTH void rondo_signature_unpack(uint64_t packed, struct rondo_signed *s)
{
    s->kind = packed & 15;
    s->dtype = packed >> 4 & 15;
    s->redop = packed >> 8 & 7;
    s->scaled = packed >> 11 & 1;
    s->root = packed >> 12 & 255;
    s->bytes = packed >> 20;
}

/* Of a group of `count` works, whose signatures' hash is this. */
RONDO_BOTH uint64_t rondo_signature_of_group(uint64_t hash, unsigned count)
{
    return RONDO_SIGNED_GROUP | (uint64_t)(count & 0xfff) << 4 | hash << 16;
}

#endif
