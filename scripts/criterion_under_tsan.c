/* Lets Criterion 2.4 start under ThreadSanitizer; scripts/test preloads it (https://github.com/Snaipe/Criterion/issues/274).
 *
 * Criterion shares an arena with the processes of its tests, at an address that it draws: 0x200000000000 plus 22 bits of
 * rand_r() times 16 MiB. ThreadSanitizer refuses most of these. Of the addresses that it grants programs on x86-64, the
 * range from 0x550000000000 is the one within reach; position-independent programs are loaded from 0x555555554000 on. */
#include <stdint.h>
#include <time.h>

int rand_r(unsigned *seed)
{
    enum { FIRST = 0x350000, COUNT = 0x4000 }; /* of the 22 bits: 0x550000000000 to 0x554000000000 */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *seed = (*seed ^ (unsigned)now.tv_nsec) * 2654435761u + 12345u;
    return (int)(FIRST + (*seed >> 8) % COUNT);
}
