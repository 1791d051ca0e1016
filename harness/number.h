/* The data types: names, sizes, and conversion from and to double. */
#ifndef RONDO_HARNESS_NUMBER_H
#define RONDO_HARNESS_NUMBER_H

#include "rondo/rondo.h"

#include <stddef.h>

struct number_type {
    const char *name; /* nccl-tests' */
    int bytes;
    int is_signed;
    int exponent_bits; /* floats; 0 for integers */
    int mantissa_bits; /* floats: those that are stored */
    double limit;      /* every integer up to this one is exact, and so is their sum as long as it stays below */
};

/* By rondoDataType_t. */
extern const struct number_type number_types[rondoNumTypes];

/* The nearest value of the type, ties to even. For integers `value` must be one, and in range. */
void number_encode(rondoDataType_t type, double value, void *to);
double number_decode(rondoDataType_t type, const void *from);

#endif
