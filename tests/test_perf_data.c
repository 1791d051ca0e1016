/* What rondo-perf takes for right and for wrong. */
#include "harness/data.h"
#include "harness/number.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3 * DATA_PERIOD + 17 };

static double code(rondoDataType_t type, uint32_t bits)
{
    return number_decode(type, &bits);
}

static uint32_t bits_of(rondoDataType_t type, double value)
{
    uint32_t bits = 0;
    number_encode(type, value, &bits);
    return bits;
}

Test(perf_data, converts_known_values)
{
    cr_expect_eq(bits_of(rondoFloat16, 1), 0x3c00);
    cr_expect_eq(bits_of(rondoFloat16, 65504), 0x7bff);
    cr_expect_eq(bits_of(rondoFloat16, 65520), 0x7c00);
    cr_expect_eq(bits_of(rondoFloat16, ldexp(1, -24)), 1);
    cr_expect_eq(bits_of(rondoFloat16, ldexp(1, -25)), 0);
    cr_expect_eq(bits_of(rondoBfloat16, -3), 0xc040);
    cr_expect_eq(bits_of(rondoFloat8e4m3, 448), 0x7e);
    cr_expect_eq(bits_of(rondoFloat8e4m3, ldexp(1, -9)), 1);
    cr_expect_eq(bits_of(rondoFloat8e5m2, 57344), 0x7b);
    cr_expect_eq(bits_of(rondoFloat8e5m2, (double)INFINITY), 0x7c);
    cr_expect_eq(code(rondoFloat8e4m3, 0xb8), -1);
    cr_expect_eq(code(rondoFloat8e5m2, 0x3c), 1);
    cr_expect(isnan(code(rondoFloat8e4m3, 0x7f)));
    cr_expect(isnan(code(rondoFloat16, 0x7c01)));
    cr_expect_eq(code(rondoInt8, 0xff), -1);
}

Test(perf_data, converts_every_narrow_float_there_and_back)
{
    static const rondoDataType_t narrow[] = {rondoFloat16, rondoBfloat16, rondoFloat8e4m3, rondoFloat8e5m2};
    for (size_t t = 0; t < sizeof narrow / sizeof *narrow; t++)
        for (uint32_t bits = 0; bits < 1u << (8 * number_types[narrow[t]].bytes); bits++) {
            double value = code(narrow[t], bits);
            cr_assert(isnan(value) || bits_of(narrow[t], value) == bits, "%s %x", number_types[narrow[t]].name, bits);
        }
}

/* The reduction, one rank after the other and in the type itself: the least precise a library may be. */
static void reduce(const struct data *data, char *result)
{
    size_t size = (size_t)number_types[data->type].bytes;
    char *mine = malloc(COUNT * size);
    for (int rank = 0; rank < data->nranks; rank++) {
        data_input(data, rank, mine, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            double value = number_decode(data->type, mine + i * size);
            double sum = rank ? number_decode(data->type, result + i * size) : value;
            if (rank && data->redop == rondoProd)
                sum *= value;
            else if (rank && data->redop == rondoMax)
                sum = fmax(sum, value);
            else if (rank && data->redop == rondoMin)
                sum = fmin(sum, value);
            else if (rank)
                sum += value;
            if (data->redop == rondoAvg && rank == data->nranks - 1)
                sum = number_types[data->type].exponent_bits ? sum / data->nranks : trunc(sum / data->nranks);
            number_encode(data->type, sum, result + i * size);
        }
    }
    free(mine);
}

static void each(void (*check)(const struct data *data))
{
    for (int nranks = 1; nranks <= 16; nranks++)
        for (int type = 0; type < rondoNumTypes; type++)
            for (int redop = 0; redop < rondoNumOps; redop++) {
                struct data data = {(rondoDataType_t)type, (rondoRedOp_t)redop, nranks, (size_t)nranks * 31};
                check(&data);
            }
}

static void is_right(const struct data *data)
{
    char *result = malloc(COUNT * sizeof(double));
    reduce(data, result);
    size_t wrong = data_wrong(data, result, COUNT, NULL);
    cr_expect_eq(wrong, 0, "%d ranks, %s %d: %zu wrong", data->nranks, number_types[data->type].name, data->redop,
                 wrong);
    free(result);
}

Test(perf_data, takes_a_reduction_in_any_precision_for_right)
{
    each(is_right);
}

static void finds_poison(const struct data *data)
{
    size_t size = (size_t)number_types[data->type].bytes;
    size_t first = 0;
    char *result = malloc(COUNT * sizeof(double));
    reduce(data, result);
    memset(result + (COUNT - 2) * size, DATA_POISON, size);
    cr_expect_eq(data_wrong(data, result, COUNT, &first), 1, "%d ranks, %s %d", data->nranks,
                 number_types[data->type].name, data->redop);
    cr_expect_eq(first, COUNT - 2);
    free(result);
}

Test(perf_data, finds_one_element_that_was_not_written)
{
    each(finds_poison);
}

Test(perf_data, finds_data_that_lack_a_rank_or_are_in_the_wrong_place)
{
    struct data data = {rondoFloat, rondoSum, 4, 0};
    struct data fewer = {rondoFloat, rondoSum, 3, 0};
    struct data shifted = {rondoFloat, rondoSum, 4, 1024};
    char *result = malloc(COUNT * sizeof(double));
    reduce(&fewer, result);
    cr_expect_gt(data_wrong(&data, result, COUNT, NULL), COUNT / 2);
    reduce(&shifted, result);
    cr_expect_gt(data_wrong(&data, result, COUNT, NULL), COUNT / 2);
    free(result);
}

/* ---- data that are moved ---- */

static void is_as_given(const struct data *data)
{
    size_t size = (size_t)number_types[data->type].bytes;
    char *given = malloc(COUNT * sizeof(double));
    for (int rank = 0; rank < data->nranks; rank++) {
        data_input(data, rank, given, COUNT);
        cr_expect_eq(data_moved_wrong(data, rank, given, COUNT, NULL), 0, "%s", number_types[data->type].name);
        cr_expect_eq(number_decode(data->type, given + 77 * size), data_given(data, rank, 77));
    }
    free(given);
}

Test(perf_data, takes_what_a_rank_gave_for_right)
{
    each(is_as_given);
}

/* `more` elements of what another gave, or of what lies elsewhere, and little is right by accident. */
static void others_are_wrong(const struct data *data)
{
    struct data elsewhere = *data;
    char *given = malloc(COUNT * sizeof(double));
    if (data->redop != rondoMax) /* the one that moves use */
        goto out;
    data_input(data, 0, given, COUNT);
    for (int rank = 1; rank < data->nranks; rank++)
        cr_expect_gt(data_moved_wrong(data, rank, given, COUNT, NULL), COUNT * 3 / 4, "%s",
                     number_types[data->type].name);
    for (size_t distance = 1; distance < DATA_PERIOD; distance = distance * 2 + 1) {
        elsewhere.shift = data->shift + distance;
        cr_expect_gt(data_moved_wrong(&elsewhere, 0, given, COUNT, NULL), COUNT * 3 / 4, "%s by %zu",
                     number_types[data->type].name, distance);
    }
out:
    free(given);
}

Test(perf_data, tells_ranks_and_places_of_moved_data_apart)
{
    each(others_are_wrong);
}

Test(perf_data, finds_a_part_by_its_place_in_the_whole)
{
    const struct data data = {rondoFloat, rondoMax, 4, 5};
    struct data part = data;
    size_t first = 0;
    float *given = malloc(COUNT * sizeof(float));
    data_input(&data, 2, given, COUNT);
    part.shift += 1000;
    cr_expect_eq(data_moved_wrong(&part, 2, given + 1000, COUNT - 1000, NULL), 0);
    given[1234] += 1;
    cr_expect_eq(data_moved_wrong(&part, 2, given + 1000, COUNT - 1000, &first), 1);
    cr_expect_eq(first, 234);
    free(given);
}

Test(perf_data, counts_bytes_that_are_not_poison)
{
    char memory[1000];
    memset(memory, DATA_POISON, sizeof memory);
    cr_expect_eq(data_touched(memory, sizeof memory), 0);
    memory[0] = memory[500] = memory[999] = 0;
    cr_expect_eq(data_touched(memory, sizeof memory), 3);
    cr_expect_eq(data_touched(memory + 1, 499), 0);
    cr_expect_eq(data_touched(memory, 1), 1);
    cr_expect_eq(data_touched(memory, 0), 0);
}
