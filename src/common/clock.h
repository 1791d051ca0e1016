/* Monotonic time. */
#ifndef RONDO_COMMON_CLOCK_H
#define RONDO_COMMON_CLOCK_H

#include <stdint.h>

uint64_t rondo_now_ns(void);
void rondo_sleep_ns(uint64_t ns);

#endif
