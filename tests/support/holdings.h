/* What a process has, before and after comms. */
#ifndef RONDO_TESTS_HOLDINGS_H
#define RONDO_TESTS_HOLDINGS_H

#include "support/rig.h"

struct holdings {
    int fds, threads, shared; /* shared: mappings of Rondo's memfds */
    size_t arena;
    unsigned anchors;
    int roots;
};

struct holdings holdings(void);

/* Whether this process soon has no more than before: threads end a little later. 0: it has not. */
int nothing_more(struct rig *rig, const struct holdings *before);

#endif
