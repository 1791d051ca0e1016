/* The one list of element types and operators. C11 and CUDA C++; the public enums are tied to it below. */
#ifndef RONDO_KERNELS_TYPES_H
#define RONDO_KERNELS_TYPES_H

#include "rondo/rondo.h"

#include <stdint.h>

/* X(NAME, public value, storage, accumulator). Floats of 8 and 16 bits accumulate in float32. Integers accumulate in
 * twice their width or more where there is such a type, so that an average of 8- and 32-bit ones never wraps; sums and
 * products come out modulo 2^bits as ever, for the result is narrowed once at the end. */
#define RONDO_DTYPES(X)                      \
    X(I8, rondoInt8, int8_t, int32_t)        \
    X(U8, rondoUint8, uint8_t, uint32_t)     \
    X(I32, rondoInt32, int32_t, int64_t)     \
    X(U32, rondoUint32, uint32_t, uint64_t)  \
    X(I64, rondoInt64, int64_t, int64_t)     \
    X(U64, rondoUint64, uint64_t, uint64_t)  \
    X(F16, rondoFloat16, uint16_t, float)    \
    X(F32, rondoFloat32, float, float)       \
    X(F64, rondoFloat64, double, double)     \
    X(BF16, rondoBfloat16, uint16_t, float)  \
    X(E4M3, rondoFloat8e4m3, uint8_t, float) \
    X(E5M2, rondoFloat8e5m2, uint8_t, float)

/* X(NAME, public value, name in kernel names) */
#define RONDO_REDOPS(X) \
    X(SUM, rondoSum)    \
    X(PROD, rondoProd)  \
    X(MAX, rondoMax)    \
    X(MIN, rondoMin)    \
    X(AVG, rondoAvg)

enum rondo_dtype {
#define X(NAME, value, storage, accumulator) RONDO_##NAME,
    RONDO_DTYPES(X)
#undef X
        RONDO_DTYPE_COUNT
};

enum rondo_redop {
#define X(NAME, value) RONDO_##NAME,
    RONDO_REDOPS(X)
#undef X
        RONDO_REDOP_COUNT
};

#ifdef __cplusplus
#define RONDO_STATIC_ASSERT static_assert
#else
#define RONDO_STATIC_ASSERT _Static_assert
#endif

#define X(NAME, value, storage, accumulator) \
    RONDO_STATIC_ASSERT((int)RONDO_##NAME == (int)value, "the table is in the public enum's order");
RONDO_DTYPES(X)
#undef X
#define X(NAME, value) RONDO_STATIC_ASSERT((int)RONDO_##NAME == (int)value, "the table is in the public enum's order");
RONDO_REDOPS(X)
#undef X

/* Bytes of one element; 0 for a value that is no type. */
static inline
#ifdef __CUDACC__
    __host__ __device__
#endif
    unsigned
    rondo_dtype_bytes(unsigned dtype)
{
    switch (dtype) {
#define X(NAME, value, storage, accumulator) \
    case RONDO_##NAME:                       \
        return sizeof(storage);
        RONDO_DTYPES(X)
#undef X
    default:
        return 0;
    }
}

#endif
