/* Narrow floats to float32 and back: identity for all other types. Rounding is to nearest even. The 8-bit formats are
 * the OCP's: E5M2 overflows to infinity; E4M3, which has none, saturates at 448, as CUDA's own conversions do. NaN
 * becomes the format's canonical positive NaN. GPUs and the host device give the same bits. */
#ifndef RONDO_KERNELS_NUMBER_H
#define RONDO_KERNELS_NUMBER_H

#include "kernels/dialect.h"

RONDO_FN float rondo_bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
RONDO_FN uint32_t rondo_float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

#if RONDO_CONVERTS_8_BITS
RONDO_FN float rondo_widen_E4M3(uint8_t x)
{
    return rondo_e4m3_to_float(x);
}
RONDO_FN uint8_t rondo_narrow_E4M3(float f)
{
    return rondo_float_to_e4m3(f);
}
RONDO_FN uint8_t rondo_narrow_E5M2(float f)
{
    const uint32_t bits = rondo_float_bits(f), magnitude = bits & 0x7fffffffu;
    const bool over = magnitude >= 0x47700000u && magnitude <= 0x7f800000u; /* as below */
    return over ? (uint8_t)((bits >> 24 & 0x80u) | 0x7cu) : rondo_float_to_e5m2(f);
}
#else
RONDO_FN float rondo_widen_E4M3(uint8_t x)
{
    uint32_t sign = (uint32_t)(x & 0x80u) << 24, exponent = x >> 3 & 15u, mantissa = x & 7u;
    if ((x & 0x7fu) == 0x7fu)
        return rondo_bits_float(0x7fffffffu);
    if (exponent == 0)
        return rondo_bits_float(rondo_float_bits((float)mantissa * 0x1p-9f) | sign);
    return rondo_bits_float(sign | (exponent + 120) << 23 | mantissa << 20);
}
RONDO_FN uint8_t rondo_narrow_E4M3(float f)
{
    uint32_t bits = rondo_float_bits(f), sign = bits >> 24 & 0x80u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return 0x7f;
    if (bits >= 0x43e00000u) /* 448 */
        return (uint8_t)(sign | 0x7eu);
    if (bits < 0x3c800000u) /* below 2^-6, subnormal: let the float adder round at 2^-9 */
        return (uint8_t)(sign | (rondo_float_bits(rondo_bits_float(bits) + 0x1p14f) - 0x46800000u));
    return (uint8_t)(sign | (bits - 0x3c000000u + 0x7ffffu + (bits >> 20 & 1)) >> 20);
}

RONDO_FN uint8_t rondo_narrow_E5M2(float f)
{
    uint32_t bits = rondo_float_bits(f), sign = bits >> 24 & 0x80u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return 0x7f;
    if (bits >= 0x47700000u) /* 61440, half-way to the next binade, rounds to infinity */
        return (uint8_t)(sign | 0x7cu);
    if (bits < 0x38800000u) /* below 2^-14, subnormal: round at 2^-16 */
        return (uint8_t)(sign | (rondo_float_bits(rondo_bits_float(bits) + 0x1p7f) - 0x43000000u));
    return (uint8_t)(sign | (bits - 0x38000000u + 0xfffffu + (bits >> 21 & 1)) >> 21);
}
#endif

RONDO_FN float rondo_widen_E5M2(uint8_t x)
{
    return rondo_half_to_float((uint16_t)(x << 8));
}

RONDO_FN float rondo_widen_F16(uint16_t x)
{
    return rondo_half_to_float(x);
}
RONDO_FN uint16_t rondo_narrow_F16(float f)
{
    return rondo_float_to_half(f);
}
RONDO_FN float rondo_widen_BF16(uint16_t x)
{
    return rondo_bits_float((uint32_t)x << 16);
}
RONDO_FN uint16_t rondo_narrow_BF16(float f)
{
    return rondo_float_to_bfloat(f);
}

#define RONDO_SAME(NAME, storage, accumulator)          \
    RONDO_FN accumulator rondo_widen_##NAME(storage x)  \
    {                                                   \
        return (accumulator)x;                          \
    }                                                   \
    RONDO_FN storage rondo_narrow_##NAME(accumulator x) \
    {                                                   \
        return (storage)x;                              \
    }
RONDO_SAME(I8, int8_t, int32_t)
RONDO_SAME(U8, uint8_t, uint32_t)
RONDO_SAME(I32, int32_t, int64_t)
RONDO_SAME(U32, uint32_t, uint64_t)
RONDO_SAME(I64, int64_t, int64_t)
RONDO_SAME(U64, uint64_t, uint64_t)
RONDO_SAME(F32, float, float)
RONDO_SAME(F64, double, double)
#undef RONDO_SAME

#endif
