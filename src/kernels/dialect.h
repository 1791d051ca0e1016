/* The words that kernels are written in. The only kernel file that knows which compiler reads it: nvcc, or the C compiler
 * for the host device. On the host device a block is one thread, and a line is 8 bytes instead of 16.
 *
 * A line is the unit of a flagged write: one store makes it visible whole. On GPUs that is PTX's 128-bit scalar access
 * (`.b128`), which the memory model treats as one access where it treats `.v4.u32` as four; measured over NVLink on H200
 * (shared/probe/litmus.cu): no torn read among 18 billion. */
#ifndef RONDO_KERNELS_DIALECT_H
#define RONDO_KERNELS_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__

#define RONDO_FN                  static __device__ __forceinline__
#define RONDO_CALL                static __device__ __noinline__
#define RONDO_KERNEL              extern "C" __global__ void __launch_bounds__(512, 1)
#define RONDO_KERNEL_LEAN         extern "C" __global__ void __launch_bounds__(512, 2) /* RONDO_LEAN_REGISTERS */
#define RONDO_ARGS(T)             const __grid_constant__ T
#define RONDO_UNROLL              _Pragma("unroll")
#define RONDO_ROLLED              _Pragma("unroll 1")
#define RONDO_LINE_BYTES          16
#define RONDO_SPINS_PER_LOOK      256 /* polls between two looks at the lane's stop word and the clock: 0.1 to 0.3 ms */
#define RONDO_LOOKS_PER_HOST_LOOK 128
#define RONDO_VARIANTS            1 /* code for 4 and 8 ranks besides that for 2 and for any */
#define RONDO_PLACE_IS_FIXED      0 /* a block that was preempted may go on elsewhere */

struct __align__(16) rondo_line
{
    uint32_t w[4];
};

RONDO_FN unsigned rondo_thread(void)
{
    return threadIdx.x;
}
RONDO_FN unsigned rondo_threads(void)
{
    return blockDim.x;
}
RONDO_FN unsigned rondo_block(void)
{
    return blockIdx.x;
}
RONDO_FN unsigned rondo_blocks(void)
{
    return gridDim.x;
}
RONDO_FN void rondo_barrier(void)
{
    __syncthreads();
}
/* A barrier that tells all threads whether any of them says yes. */
RONDO_FN bool rondo_barrier_any(bool yes)
{
    return __syncthreads_or(yes);
}
RONDO_FN void rondo_pause(unsigned spins)
{
    (void)spins;
}
/* Where the block runs: not 0, below 2^16, the same for all its threads, and most often another one for a block that runs at the
 * same time. */
RONDO_FN uint32_t rondo_place(void)
{
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm + 1;
}
RONDO_FN uint64_t rondo_clock_ns(void)
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Programmatic launch: the next kernel of the stream may be set up from here on (early), and this one touches nothing
 * that an earlier kernel may have written before (wait), which also makes all of that visible. */
RONDO_FN void rondo_launch_early(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
RONDO_FN void rondo_launch_wait(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Brings memory near, without reading it. */
RONDO_FN void rondo_prefetch(const void *at)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

RONDO_FN struct rondo_line rondo_line_load(const void *from)
{
    uint64_t a, b;
    asm volatile("{ .reg .b128 q; ld.relaxed.sys.global.b128 q, [%2]; mov.b128 {%0, %1}, q; }"
                 : "=l"(a), "=l"(b)
                 : "l"(from)
                 : "memory");
    struct rondo_line line;
    line.w[0] = (uint32_t)a, line.w[1] = (uint32_t)(a >> 32), line.w[2] = (uint32_t)b, line.w[3] = (uint32_t)(b >> 32);
    return line;
}
RONDO_FN void rondo_line_store(void *to, struct rondo_line line)
{
    uint64_t a = line.w[0] | (uint64_t)line.w[1] << 32, b = line.w[2] | (uint64_t)line.w[3] << 32;
    asm volatile("{ .reg .b128 q; mov.b128 q, {%1, %2}; st.relaxed.sys.global.b128 [%0], q; }" ::"l"(to), "l"(a), "l"(b)
                 : "memory");
}
/* Two words that a progress thread reads: one store here, two on the host device. */
RONDO_FN void rondo_pair_store(void *to, uint64_t first, uint64_t second)
{
    asm volatile("{ .reg .b128 q; mov.b128 q, {%1, %2}; st.relaxed.sys.global.b128 [%0], q; }" ::"l"(to), "l"(first),
                 "l"(second)
                 : "memory");
}
RONDO_FN uint32_t rondo_byte_load(const uint8_t *from)
{
    uint32_t v;
    asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}
RONDO_FN void rondo_byte_store(uint8_t *to, uint32_t v)
{
    asm volatile("st.relaxed.sys.global.u8 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}
RONDO_FN uint32_t rondo_word_load(const uint32_t *from)
{
    uint32_t v;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}
RONDO_FN uint64_t rondo_wide_load(const uint64_t *from)
{
    uint64_t v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
    return v;
}
RONDO_FN void rondo_word_store(uint32_t *to, uint32_t v)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(v) : "memory");
}
RONDO_FN void rondo_wide_store(uint64_t *to, uint64_t v)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}
/* Four words that lie side by side, 16-byte aligned; each is read whole, not all of them at once. */
RONDO_FN void rondo_words_load(const uint32_t *from, uint32_t *words)
{
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(from)
                 : "memory");
}
RONDO_FN void rondo_word_pair_store(uint32_t *to, uint32_t first, uint32_t second)
{
    asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(first), "r"(second) : "memory");
}
RONDO_FN uint32_t rondo_word_exchange(uint32_t *at, uint32_t v)
{
    return atomicExch(at, v);
}
/* Gives what was there before. */
RONDO_FN uint32_t rondo_word_add(uint32_t *at, uint32_t v)
{
    return atomicAdd(at, v);
}
/* Everything that this thread wrote or read before is ordered, for all of the system, before what it does after. */
RONDO_FN void rondo_fence(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

RONDO_FN float rondo_half_to_float(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
RONDO_FN uint16_t rondo_float_to_half(float f)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
RONDO_FN uint16_t rondo_float_to_bfloat(float f)
{
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

/* 8-bit floats. What GPUs from 9.0 on convert themselves has the bits that number.h gives: all 256 values one way, and all 2^32 of
 * float32 the other, were compared on an H200. */
#if __CUDA_ARCH__ >= 900
#define RONDO_CONVERTS_8_BITS 1
RONDO_FN float rondo_e4m3_to_float(uint8_t x)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)x));
    return rondo_half_to_float((uint16_t)pair);
}
RONDO_FN uint8_t rondo_float_to_e4m3(float f)
{
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(f));
    return (uint8_t)pair;
}
RONDO_FN uint8_t rondo_float_to_e5m2(float f) /* saturates at the largest finite */
{
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(f));
    return (uint8_t)pair;
}
#endif

#ifndef RONDO_CONVERTS_8_BITS
#define RONDO_CONVERTS_8_BITS 0
#endif

#else /* the host device */

#define RONDO_CONVERTS_8_BITS 0

#include <sched.h>
#include <time.h>

#define RONDO_FN      static inline __attribute__((always_inline, unused))
#define RONDO_CALL    static __attribute__((noinline, unused))
#define RONDO_KERNEL  static void
#define RONDO_ARGS(T) const T
#define RONDO_UNROLL
#define RONDO_ROLLED
#define RONDO_LINE_BYTES 8
#define RONDO_SPINS_PER_LOOK \
    16 /* long waits poll by naps (rondo_pause): 256 of them take 30 ms, and 220 on a busy machine */
#define RONDO_LOOKS_PER_HOST_LOOK 1
#define RONDO_VARIANTS            0 /* a CPU gains nothing by it, and the compiler takes minutes */
#define RONDO_PLACE_IS_FIXED      1

struct rondo_line {
    _Alignas(8) uint32_t w[2];
};

extern _Thread_local unsigned rondo_host_block, rondo_host_blocks; /* set by the device's launch */

RONDO_FN unsigned rondo_thread(void)
{
    return 0;
}
RONDO_FN unsigned rondo_threads(void)
{
    return 1;
}
RONDO_FN unsigned rondo_block(void)
{
    return rondo_host_block;
}
RONDO_FN unsigned rondo_blocks(void)
{
    return rondo_host_blocks;
}
RONDO_FN void rondo_barrier(void) {}
RONDO_FN bool rondo_barrier_any(bool yes)
{
    return yes;
}
/* A waiting block gives its core away at once: hosts have fewer cores than ranks have blocks. */
RONDO_FN void rondo_pause(unsigned spins)
{
    if (spins < 2000) {
        sched_yield();
    } else {
        struct timespec t = {0, 50000};
        nanosleep(&t, NULL);
    }
}
RONDO_FN uint64_t rondo_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
RONDO_FN uint32_t rondo_place(void)
{
    return ((uint32_t)((uintptr_t)&rondo_host_block >> 12) & 0x7fff) << 1 | 1; /* threads are pages apart */
}
RONDO_FN void rondo_launch_early(void) {}
RONDO_FN void rondo_launch_wait(void) {}

RONDO_FN void rondo_prefetch(const void *at)
{
    __builtin_prefetch(at);
}

RONDO_FN struct rondo_line rondo_line_load(const void *from)
{
    uint64_t v = __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);
    struct rondo_line line = {{(uint32_t)v, (uint32_t)(v >> 32)}};
    return line;
}
RONDO_FN void rondo_line_store(void *to, struct rondo_line line)
{
    __atomic_store_n((uint64_t *)to, line.w[0] | (uint64_t)line.w[1] << 32, __ATOMIC_RELEASE);
}
RONDO_FN void rondo_pair_store(void *to, uint64_t first, uint64_t second)
{
    __atomic_store_n((uint64_t *)to, first, __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)to + 1, second, __ATOMIC_RELEASE);
}
RONDO_FN uint32_t rondo_byte_load(const uint8_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
RONDO_FN void rondo_byte_store(uint8_t *to, uint32_t v)
{
    __atomic_store_n(to, (uint8_t)v, __ATOMIC_RELEASE);
}
RONDO_FN uint32_t rondo_word_load(const uint32_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
RONDO_FN uint64_t rondo_wide_load(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}
RONDO_FN void rondo_word_store(uint32_t *to, uint32_t v)
{
    __atomic_store_n(to, v, __ATOMIC_RELEASE);
}
RONDO_FN void rondo_wide_store(uint64_t *to, uint64_t v)
{
    __atomic_store_n(to, v, __ATOMIC_RELEASE);
}
RONDO_FN void rondo_words_load(const uint32_t *from, uint32_t *words)
{
    for (int i = 0; i < 4; i++)
        words[i] = rondo_word_load(from + i);
}
RONDO_FN void rondo_word_pair_store(uint32_t *to, uint32_t first, uint32_t second)
{
    rondo_word_store(to, first);
    rondo_word_store(to + 1, second);
}
RONDO_FN uint32_t rondo_word_exchange(uint32_t *at, uint32_t v)
{
    return __atomic_exchange_n(at, v, __ATOMIC_ACQ_REL);
}
RONDO_FN uint32_t rondo_word_add(uint32_t *at, uint32_t v)
{
    return __atomic_fetch_add(at, v, __ATOMIC_ACQ_REL);
}
RONDO_FN void rondo_fence(void)
{
    /* line stores release and line loads acquire: nothing is left to order */
}

RONDO_FN float rondo_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u, bits;
    if (exponent == 31)
        bits = sign | 0x7f800000u | mantissa << 13;
    else if (exponent)
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        float f = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
/* Rounds to nearest even; NaN becomes 0x7fff, as the GPU's conversion makes it. */
RONDO_FN uint16_t rondo_float_to_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return 0x7fff;
    if (bits >= 0x477ff000u) /* 65520 and more rounds to infinity */
        return sign | 0x7c00;
    if (bits < 0x38800000u) { /* subnormal: let the float adder round at 2^-24 */
        memcpy(&f, &bits, 4);
        f += 0.5f;
        memcpy(&bits, &f, 4);
        return sign | (uint16_t)(bits - 0x3f000000u);
    }
    return sign | (uint16_t)((bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13);
}
RONDO_FN uint16_t rondo_float_to_bfloat(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#endif

enum { RONDO_LINE_WORDS = RONDO_LINE_BYTES / 4 };

#endif
