#include "data.h"

#include "number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    ALL_RANKS = -1,     /* in place of a rank: the reduction */
    TERM_LIMIT = 15,    /* largest summand */
    RANGE_LIMIT = 100,  /* largest value of max and min */
    FACTORS_OF_TWO = 6, /* in a product: 64 is exact in every type, and so is every partial product */
};

static uint32_t scramble(uint32_t rank, uint32_t index)
{
    uint32_t hash = index * 2654435761u ^ (rank + 1) * 0x9e3779b9u;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

/* Uniform in [-bound, bound], or [0, bound]. */
static int within(uint32_t hash, int bound, int is_signed)
{
    return is_signed ? (int)(hash % (uint32_t)(2 * bound + 1)) - bound : (int)(hash % (uint32_t)(bound + 1));
}

static int least(double a, int b)
{
    return a < b ? (int)a : b;
}

/* The largest summand; 1 where not even one per rank fits (then all but a few are 0). */
static int term_bound(const struct data *data)
{
    double limit = number_types[data->type].limit;
    return limit >= data->nranks ? least(limit / data->nranks, TERM_LIMIT) : 1;
}

/* The rank's element. */
static int input(const struct data *data, int rank, size_t index)
{
    const struct number_type *type = &number_types[data->type];
    uint32_t place = (uint32_t)((index + data->shift) % DATA_PERIOD);
    uint32_t hash = scramble((uint32_t)rank, place);
    uint32_t turn =
        ((uint32_t)rank + place) % (uint32_t)data->nranks; /* so that each element has other ranks of its own */
    switch ((int)data->redop) {
    case rondoProd:
        return (turn < FACTORS_OF_TWO ? 1 << (hash & 1) : 1) * (type->is_signed && hash & 2 ? -1 : 1);
    case rondoMax:
    case rondoMin:
        return within(hash, least(type->limit, RANGE_LIMIT), type->is_signed);
    default:
        return turn < type->limit ? within(hash, term_bound(data), type->is_signed) : 0;
    }
}

static long combine(rondoRedOp_t redop, long a, long b)
{
    switch ((int)redop) {
    case rondoProd:
        return a * b;
    case rondoMax:
        return a > b ? a : b;
    case rondoMin:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

double data_expected(const struct data *data, size_t index)
{
    long result = input(data, 0, index);
    for (int rank = 1; rank < data->nranks; rank++)
        result = combine(data->redop, result, input(data, rank, index));
    if (data->redop != rondoAvg)
        return (double)result;
    if (number_types[data->type].exponent_bits == 0)
        return (double)(result / data->nranks); /* towards zero */
    return (double)result / data->nranks;
}

double data_given(const struct data *data, int rank, size_t index)
{
    return (double)input(data, rank, index);
}

/* 0: must be exact. Else room for a library that multiplies every summand by 1/nranks in the type itself: no value
 * on the way exceeds the largest summand, and half a unit in the last place may be lost in 1/nranks, in the products
 * together, in each sum, and in the expected value. */
static double tolerance(const struct data *data)
{
    const struct number_type *type = &number_types[data->type];
    if (data->redop != rondoAvg || type->exponent_bits == 0 || (data->nranks & (data->nranks - 1)) == 0)
        return 0;
    return ldexp((data->nranks + 2) * term_bound(data) / 2.0, -type->mantissa_bits);
}

static void repeat(char *to, size_t period, size_t bytes)
{
    for (size_t done = period; done < bytes; done += period)
        memcpy(to + done, to, bytes - done < period ? bytes - done : period);
}

void data_input(const struct data *data, int rank, void *to, size_t count)
{
    size_t size = (size_t)number_types[data->type].bytes;
    for (size_t i = 0; i < count && i < DATA_PERIOD; i++)
        number_encode(data->type, input(data, rank, i), (char *)to + i * size);
    repeat(to, DATA_PERIOD * size, count * size);
}

/* `rank`: whose data these are, or ALL_RANKS. */
static size_t count_wrong(const struct data *data, int rank, const void *result, size_t count, size_t *first)
{
    char expected[DATA_PERIOD * sizeof(double)];
    size_t size = (size_t)number_types[data->type].bytes;
    double allowed = rank == ALL_RANKS ? tolerance(data) : 0;
    size_t wrong = 0;
    for (size_t i = 0; i < count && i < DATA_PERIOD; i++)
        number_encode(data->type, rank == ALL_RANKS ? data_expected(data, i) : data_given(data, rank, i),
                      expected + i * size);
    for (size_t start = 0; start < count; start += DATA_PERIOD) {
        size_t length = count - start < DATA_PERIOD ? count - start : DATA_PERIOD;
        const char *got = (const char *)result + start * size;
        if (memcmp(got, expected, length * size) == 0)
            continue;
        for (size_t i = 0; i < length; i++) {
            double difference =
                number_decode(data->type, got + i * size) - number_decode(data->type, expected + i * size);
            if (fabs(difference) <= allowed) /* -0 is 0 here, NaN is wrong */
                continue;
            if (wrong++ == 0 && first)
                *first = start + i;
        }
    }
    return wrong;
}

size_t data_wrong(const struct data *data, const void *result, size_t count, size_t *first)
{
    return count_wrong(data, ALL_RANKS, result, count, first);
}

size_t data_moved_wrong(const struct data *data, int rank, const void *result, size_t count, size_t *first)
{
    return count_wrong(data, rank, result, count, first);
}

size_t data_touched(const void *memory, size_t bytes)
{
    const unsigned char *byte = memory;
    size_t touched = 0;
    if (bytes == 0 || (byte[0] == DATA_POISON && memcmp(byte, byte + 1, bytes - 1) == 0)) /* the usual case, fast */
        return 0;
    for (size_t i = 0; i < bytes; i++)
        touched += byte[i] != DATA_POISON;
    return touched;
}
