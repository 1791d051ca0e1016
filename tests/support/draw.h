/* Random numbers for tests: the same on every rank that starts from the same seed. */
#ifndef RONDO_TESTS_DRAW_H
#define RONDO_TESTS_DRAW_H

#include <stddef.h>
#include <stdint.h>

struct draw {
    uint64_t state; /* the seed, any value */
};

static inline uint32_t draw_bits(struct draw *draw) /* splitmix64 */
{
    uint64_t z = draw->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* Less than `bound`. */
static inline unsigned draw_below(struct draw *draw, unsigned bound)
{
    return (unsigned)((uint64_t)draw_bits(draw) * bound >> 32);
}

/* Small numbers are as likely as large ones: below 2^bits. */
static inline size_t draw_size(struct draw *draw, unsigned bits)
{
    return draw_bits(draw) & ((1u << draw_below(draw, bits + 1)) - 1);
}

#endif
