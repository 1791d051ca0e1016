/* The examples' kernels: what is done to one element, for both compilers. */
#ifndef EXAMPLES_KERNELS_H
#define EXAMPLES_KERNELS_H

#include <stddef.h>

#ifdef __CUDACC__
#define EXAMPLE_KERNEL static __host__ __device__ inline
#else
#define EXAMPLE_KERNEL static inline
#endif

enum kernel { LAYER, GRADIENT, UPDATE, PICK };

enum { MOST_TOKENS = 256 };

/* What a decoding has come to. */
struct decoding {
    int count, limit, go_on;
    int tokens[MOST_TOKENS];
};

struct kernel_args {
    float *out;
    const float *in;
    size_t count;
    float factor, offset;
    struct decoding *decoding;
    unsigned long long condition; /* that PICK sets; 0: none */
};

/* A rank's share of a layer, which a real model would spend its time in. */
EXAMPLE_KERNEL void layer(const struct kernel_args *args, size_t i)
{
    args->out[i] = args->factor * args->in[i] * (1.0f - args->in[i]);
}

EXAMPLE_KERNEL void gradient(const struct kernel_args *args, size_t i)
{
    args->out[i] = args->factor * args->in[i] + args->offset;
}

EXAMPLE_KERNEL void update(const struct kernel_args *args, size_t i)
{
    args->out[i] -= args->factor * args->in[i];
}

/* The next token, of one thread. Whether there is to be another. */
EXAMPLE_KERNEL int pick(const struct kernel_args *args)
{
    struct decoding *decoding = args->decoding;
    const int token = (int)(args->in[0] * 49999.0f);
    decoding->tokens[decoding->count++] = token;
    decoding->go_on = decoding->count < decoding->limit && token % 1000 != 0; /* such a token ends the text */
    return decoding->go_on;
}

#endif
