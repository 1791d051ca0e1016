#include "number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 119 bounds the 8-bit integers: see DATA_POISON. */
const struct number_type number_types[rondoNumTypes] = {
    [rondoInt8] = {"int8", 1, 1, 0, 0, 118},
    [rondoUint8] = {"uint8", 1, 0, 0, 0, 118},
    [rondoInt32] = {"int32", 4, 1, 0, 0, 1 << 30},
    [rondoUint32] = {"uint32", 4, 0, 0, 0, 1 << 30},
    [rondoInt64] = {"int64", 8, 1, 0, 0, 1 << 30},
    [rondoUint64] = {"uint64", 8, 0, 0, 0, 1 << 30},
    [rondoFloat16] = {"half", 2, 1, 5, 10, 2048},
    [rondoFloat32] = {"float", 4, 1, 8, 23, 1 << 24},
    [rondoFloat64] = {"double", 8, 1, 11, 52, 1 << 30},
    [rondoBfloat16] = {"bfloat16", 2, 1, 8, 7, 256},
    [rondoFloat8e4m3] = {"fp8_e4m3", 1, 1, 4, 3, 16},
    [rondoFloat8e5m2] = {"fp8_e5m2", 1, 1, 5, 2, 8},
};

/* e4m3 has no infinity: its largest exponent holds numbers up to 448, and NaN where all bits are set. */
static int has_infinity(const struct number_type *type)
{
    return type->exponent_bits != 4;
}

/* Floats of 16 bits and fewer. */
static uint32_t encode_narrow(const struct number_type *type, double value)
{
    int bias = (1 << (type->exponent_bits - 1)) - 1;
    int top = (1 << type->exponent_bits) - 1;
    uint32_t sign = (uint32_t)(signbit(value) != 0) << (type->exponent_bits + type->mantissa_bits);
    uint32_t infinity = (uint32_t)top << type->mantissa_bits;
    if (isnan(value))
        return sign | infinity | ((1u << type->mantissa_bits) - 1);
    value = fabs(value);
    if (value == 0)
        return sign;
    int exponent = isinf(value) ? top + 1 : ilogb(value);
    if (exponent < 1 - bias)
        exponent = 1 - bias; /* subnormal: the same spacing as the smallest normal numbers */
    /* In units of the last place, implicit bit included; a carry into the next exponent adds up by itself. */
    double units = isinf(value) ? 0 : rint(ldexp(value, type->mantissa_bits - exponent));
    uint32_t bits = ((uint32_t)(exponent + bias - 1) << type->mantissa_bits) + (uint32_t)units;
    uint32_t largest = has_infinity(type) ? infinity - 1 : infinity + (1u << type->mantissa_bits) - 2;
    if (exponent > bias + 1 || bits > largest)
        bits = has_infinity(type) ? infinity : largest + 1;
    return sign | bits;
}

static double decode_narrow(const struct number_type *type, uint32_t bits)
{
    int bias = (1 << (type->exponent_bits - 1)) - 1;
    int top = (1 << type->exponent_bits) - 1;
    uint32_t mantissa = bits & ((1u << type->mantissa_bits) - 1);
    int exponent = (int)(bits >> type->mantissa_bits) & top;
    double sign = (bits >> (type->exponent_bits + type->mantissa_bits)) & 1 ? -1 : 1;
    if (exponent == top && has_infinity(type))
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == top && mantissa == (1u << type->mantissa_bits) - 1)
        return (double)NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - type->mantissa_bits);
    return sign * ldexp(mantissa + (1u << type->mantissa_bits), exponent - bias - type->mantissa_bits);
}

#define STORE(ctype)                        \
    do {                                    \
        ctype stored = (ctype)value;        \
        memcpy(to, &stored, sizeof stored); \
    } while (0)

void number_encode(rondoDataType_t type, double value, void *to)
{
    uint32_t bits;
    switch ((int)type) {
    case rondoInt8:
        STORE(int8_t);
        return;
    case rondoUint8:
        STORE(uint8_t);
        return;
    case rondoInt32:
        STORE(int32_t);
        return;
    case rondoUint32:
        STORE(uint32_t);
        return;
    case rondoInt64:
        STORE(int64_t);
        return;
    case rondoUint64:
        STORE(uint64_t);
        return;
    case rondoFloat32:
        STORE(float);
        return;
    case rondoFloat64:
        STORE(double);
        return;
    default:
        bits = encode_narrow(&number_types[type], value);
        if (number_types[type].bytes == 1)
            memcpy(to, &(uint8_t){(uint8_t)bits}, 1);
        else
            memcpy(to, &(uint16_t){(uint16_t)bits}, 2);
    }
}

#define LOAD(ctype)                           \
    do {                                      \
        ctype stored;                         \
        memcpy(&stored, from, sizeof stored); \
        return (double)stored;                \
    } while (0)

double number_decode(rondoDataType_t type, const void *from)
{
    uint16_t wide;
    uint8_t narrow;
    switch ((int)type) {
    case rondoInt8:
        LOAD(int8_t);
    case rondoUint8:
        LOAD(uint8_t);
    case rondoInt32:
        LOAD(int32_t);
    case rondoUint32:
        LOAD(uint32_t);
    case rondoInt64:
        LOAD(int64_t);
    case rondoUint64:
        LOAD(uint64_t);
    case rondoFloat32:
        LOAD(float);
    case rondoFloat64:
        LOAD(double);
    default:
        memcpy(&narrow, from, 1);
        if (number_types[type].bytes == 1)
            return decode_narrow(&number_types[type], narrow);
        memcpy(&wide, from, 2);
        return decode_narrow(&number_types[type], wide);
    }
}
