/* Ranges that profilers show around the user's calls (NVTX): with RONDO_NVTX=1, in builds that found NVTX's headers. Without, a
 * range is one look at a flag. */
#ifndef RONDO_COMMON_RANGE_H
#define RONDO_COMMON_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* From here to the end of the block. `name` is a constant; `bytes` is shown with it. */
#define RONDO_RANGE(name, bytes) \
    __attribute__((cleanup(rondo_range_end))) const bool rondo_range_ = rondo_range_begin(name, bytes)

/* Looks whether there are to be ranges: called wherever a comm's making begins. */
void rondo_ranges_open(void);

extern int rondo_ranges; /* atomic: 1 if there are */

void rondo_range_push(const char *name, uint64_t bytes);
void rondo_range_pop(void);

static inline bool rondo_range_begin(const char *name, uint64_t bytes)
{
    const bool on = __atomic_load_n(&rondo_ranges, __ATOMIC_ACQUIRE); /* rondo_ranges_open */
    if (__builtin_expect(on, 0))
        rondo_range_push(name, bytes);
    return on;
}

static inline void rondo_range_end(const bool *begun)
{
    if (__builtin_expect(*begun, 0))
        rondo_range_pop();
}

#endif
