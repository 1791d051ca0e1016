/* What the ranks reduce or pass on, and what must come out.
 *
 * Inputs differ by rank and element and are small integers, chosen so that the result is exact in the type, in
 * whatever order and precision (from the type's own upwards) a library reduces: a wrong bit is an error, not
 * rounding. Averages of floats over a number of ranks that is no power of two are the exception, and have a
 * tolerance. The data repeat after a prime number of elements, so that results can be compared at the speed of
 * memory and data that went to a wrong place are noticed. */
#ifndef RONDO_HARNESS_DATA_H
#define RONDO_HARNESS_DATA_H

#include "rondo/rondo.h"

#include <stddef.h>

enum {
    DATA_PERIOD = 4099,
    DATA_POISON = 0x77, /* fills receive buffers: no expected value of any type has only these bytes */
};

struct data {
    rondoDataType_t type;
    rondoRedOp_t redop;
    int nranks;
    size_t
        shift; /* the first element's place in the sequence: tells parts of a buffer, and buffers of a group, apart */
};

/* The first `count` elements of what the rank gives. */
void data_input(const struct data *data, int rank, void *to, size_t count);

/* How many of the `count` elements are not the reduction. `first`, if not NULL, is set to the index of the first. */
size_t data_wrong(const struct data *data, const void *result, size_t count, size_t *first);

/* Element `index` of the reduction. */
double data_expected(const struct data *data, size_t index);

/* The same for what was only moved: result[i] must be what the rank gives as element i. rondoMax and rondoMin have the
 * widest range of values, and so tell places and ranks apart best. */
size_t data_moved_wrong(const struct data *data, int rank, const void *result, size_t count, size_t *first);
double data_given(const struct data *data, int rank, size_t index);

/* How many of the bytes are not DATA_POISON any more. */
size_t data_touched(const void *memory, size_t bytes);

#endif
