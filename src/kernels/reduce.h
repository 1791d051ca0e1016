/* Reduction of lines, one rank after another. dtype is a constant at every call once inlined, so its switches fold to one arm
 * and the accumulators to registers. */
#ifndef RONDO_KERNELS_REDUCE_H
#define RONDO_KERNELS_REDUCE_H

#include "kernels/dialect.h"
#include "kernels/number.h"
#include "kernels/types.h"
#include "kernels/work.h"

/* One line's accumulators: each is 4 or 8 bytes, at most 16 of them (a line of 16 one-byte elements). */
struct rondo_accumulators {
    uint32_t w[16];
};

/* Signed sums and products go through the unsigned type: they wrap instead of being undefined. */
#define RONDO_APPLY(T, U)                                                                                     \
    RONDO_FN T rondo_apply_##T(enum rondo_redop op, T a, T b)                                                 \
    {                                                                                                         \
        switch (op) {                                                                                         \
        case RONDO_SUM:                                                                                       \
        case RONDO_AVG:                                                                                       \
            return (T)((U)a + (U)b);                                                                          \
        case RONDO_PROD:                                                                                      \
            return (T)((U)a * (U)b);                                                                          \
        case RONDO_MAX:                                                                                       \
            return b > a || a != a ? b : a; /* a number wins over NaN; of two zeros the lower rank's stays */ \
        case RONDO_MIN:                                                                                       \
            return b < a || a != a ? b : a;                                                                   \
        default:                                                                                              \
            return a;                                                                                         \
        }                                                                                                     \
    }
RONDO_APPLY(int32_t, uint32_t)
RONDO_APPLY(uint32_t, uint32_t)
RONDO_APPLY(int64_t, uint64_t)
RONDO_APPLY(uint64_t, uint64_t)
RONDO_APPLY(float, float)
RONDO_APPLY(double, double)
#undef RONDO_APPLY

/* acc = line, widened */
RONDO_FN void rondo_widen(enum rondo_dtype dtype, struct rondo_accumulators *acc, struct rondo_line line)
{
    switch (dtype) {
#define X(NAME, value, storage, accumulator)                                \
    case RONDO_##NAME:                                                      \
        RONDO_UNROLL                                                        \
        for (unsigned i = 0; i < RONDO_LINE_BYTES / sizeof(storage); i++) { \
            storage x;                                                      \
            memcpy(&x, (const char *)&line + i * sizeof x, sizeof x);       \
            accumulator a = rondo_widen_##NAME(x);                          \
            memcpy((char *)acc + i * sizeof a, &a, sizeof a);               \
        }                                                                   \
        break;
        RONDO_DTYPES(X)
#undef X
    default:
        break;
    }
}

/* acc = acc op more, for a constant op */
RONDO_FN void rondo_combine(enum rondo_dtype dtype, enum rondo_redop op, struct rondo_accumulators *acc,
                            const struct rondo_accumulators *more)
{
    switch (dtype) {
#define X(NAME, value, storage, accumulator)                                \
    case RONDO_##NAME:                                                      \
        RONDO_UNROLL                                                        \
        for (unsigned i = 0; i < RONDO_LINE_BYTES / sizeof(storage); i++) { \
            accumulator a, b;                                               \
            memcpy(&a, (const char *)acc + i * sizeof a, sizeof a);         \
            memcpy(&b, (const char *)more + i * sizeof b, sizeof b);        \
            a = rondo_apply_##accumulator(op, a, b);                        \
            memcpy((char *)acc + i * sizeof a, &a, sizeof a);               \
        }                                                                   \
        break;
        RONDO_DTYPES(X)
#undef X
    default:
        break;
    }
}

/* acc = acc op line. The operator is the work's: one branch for a line, the same for all threads. */
RONDO_FN void rondo_accumulate(enum rondo_dtype dtype, enum rondo_redop op, struct rondo_accumulators *acc,
                               struct rondo_line line)
{
    struct rondo_accumulators more;
    rondo_widen(dtype, &more, line);
    switch (op) {
    case RONDO_PROD:
        rondo_combine(dtype, RONDO_PROD, acc, &more);
        break;
    case RONDO_MAX:
        rondo_combine(dtype, RONDO_MAX, acc, &more);
        break;
    case RONDO_MIN:
        rondo_combine(dtype, RONDO_MIN, acc, &more);
        break;
    default: /* averages are sums first */
        rondo_combine(dtype, RONDO_SUM, acc, &more);
        break;
    }
}

/* The line of results; an average is divided here, by the number of ranks. */
RONDO_FN struct rondo_line rondo_accumulated(enum rondo_dtype dtype, enum rondo_redop op,
                                             const struct rondo_accumulators *acc, unsigned ranks)
{
    struct rondo_line line;
    switch (dtype) {
#define X(NAME, value, storage, accumulator)                                \
    case RONDO_##NAME:                                                      \
        RONDO_UNROLL                                                        \
        for (unsigned i = 0; i < RONDO_LINE_BYTES / sizeof(storage); i++) { \
            accumulator a;                                                  \
            memcpy(&a, (const char *)acc + i * sizeof a, sizeof a);         \
            if (op == RONDO_AVG)                                            \
                a = a / (accumulator)ranks;                                 \
            storage x = rondo_narrow_##NAME(a);                             \
            memcpy((char *)&line + i * sizeof x, &x, sizeof x);             \
        }                                                                   \
        break;
        RONDO_DTYPES(X)
#undef X
    default:
        memset(&line, 0, sizeof line);
        break;
    }
    return line;
}

/* A line of a rank's input times the work's scalar, rounded to the type. Out of line: few works scale. */
RONDO_CALL struct rondo_line rondo_scale(const struct rondo_work *work, struct rondo_line line)
{
    const void *scalar = work->scaling == RONDO_SCALED_BY ? (const void *)(uintptr_t)work->scalar : &work->scalar;
    struct rondo_line scaled;
    switch (work->dtype) {
#define X(NAME, value, storage, accumulator)                                                               \
    case RONDO_##NAME: {                                                                                   \
        storage x;                                                                                         \
        memcpy(&x, scalar, sizeof x);                                                                      \
        const accumulator factor = rondo_widen_##NAME(x);                                                  \
        RONDO_UNROLL                                                                                       \
        for (unsigned i = 0; i < RONDO_LINE_BYTES / sizeof(storage); i++) {                                \
            memcpy(&x, (const char *)&line + i * sizeof x, sizeof x);                                      \
            x = rondo_narrow_##NAME(rondo_apply_##accumulator(RONDO_PROD, rondo_widen_##NAME(x), factor)); \
            memcpy((char *)&scaled + i * sizeof x, &x, sizeof x);                                          \
        }                                                                                                  \
        break;                                                                                             \
    }
        RONDO_DTYPES(X)
#undef X
    default:
        scaled = line;
        break;
    }
    return scaled;
}

#endif
