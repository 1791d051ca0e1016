/* The kernel that is resident on both devices of a pair. In the first rounds a payload and, behind a fence, a flag go into the
 * other's box, which waits for the flag, looks at the payload and answers. That the flag comes at all, and behind its payload,
 * is what every kernel of Rondo relies on. Then rounds of flags alone are timed. All waits end. */
#ifndef RONDO_DOCTOR_PINGPONG_H
#define RONDO_DOCTOR_PINGPONG_H

#include <stdint.h>

enum { PINGPONG_WORDS = 128, PINGPONG_BOX_BYTES = 4096, PINGPONG_LEFT = 2 };

/* In memory that the other device writes to; zeros at first. */
struct pingpong_box {
    uint32_t flag; /* the round */
    uint32_t pad[31];
    uint32_t payload[PINGPONG_WORDS];
};

/* In host memory that the kernel and its process see. */
struct pingpong_report {
    uint32_t started; /* by the kernel: 1, PINGPONG_LEFT if it then waited for `go` in vain */
    uint32_t go;      /* by the host, once both have started: limits of time count from here on */
    uint32_t rounds;  /* done */
    uint32_t wrong;   /* words of payloads */
    uint32_t ns[2];   /* of the rounds behind the litmus, low and high */
};

struct pingpong_args {
    struct pingpong_box *mine, *theirs;
    struct pingpong_report *report;
    uint64_t limit_ns; /* of each wait */
    uint32_t role, rounds;
    uint32_t litmus; /* so many rounds have a payload; the rest are flags alone, and timed */
};

#endif
