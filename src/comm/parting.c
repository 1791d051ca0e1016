#include "comm/parting.h"

#include "common/clock.h"
#include "common/env.h"
#include "common/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOMENT_MS = 100 }; /* for peers that end at the same time, as most do */

struct parting {
    struct rondo_bootstrap *bootstrap;
    struct rondo_anchor *anchor;
    pid_t process; /* a forked child's copies are not the child's to free */
    struct parting *next;
};

/* Guards the list and the count. Nothing else is locked while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct parting *partings;
static unsigned count;

static void done(struct rondo_bootstrap *bootstrap, struct rondo_anchor *anchor)
{
    rondo_anchor_drop(anchor);
    rondo_bootstrap_close(bootstrap);
}

static int all_hushed(struct rondo_bootstrap *bootstrap)
{
    return rondo_bootstrap_all_hushed(bootstrap, rondo_env()->p2p_direct_disable != 0);
}

static void wait_for_later(struct parting *parting)
{
    pthread_mutex_lock(&lock);
    parting->next = partings;
    partings = parting;
    count++;
    pthread_mutex_unlock(&lock);
}

void rondo_part(struct rondo_bootstrap *bootstrap, struct rondo_anchor *anchor)
{
    const uint64_t end = rondo_now_ns() + MOMENT_MS * 1000000ull;
    rondo_bootstrap_hush(bootstrap);
    for (;;) {
        if (all_hushed(bootstrap)) {
            done(bootstrap, anchor);
            return;
        }
        if (rondo_now_ns() > end)
            break;
        rondo_sleep_ns(500000);
    }
    struct parting *parting = malloc(sizeof *parting);
    if (!parting) {
        rondo_log(RONDO_LOG_WARN, "out of memory: a mailbox that peers still map is not freed");
        return;
    }
    *parting = (struct parting){bootstrap, anchor, getpid(), NULL};
    wait_for_later(parting);
}

void rondo_partings_reap(void)
{
    pthread_mutex_lock(&lock);
    struct parting *list = partings;
    partings = NULL;
    count = 0;
    pthread_mutex_unlock(&lock);
    while (list) {
        struct parting *parting = list;
        list = parting->next;
        if (parting->process == getpid() && all_hushed(parting->bootstrap)) {
            done(parting->bootstrap, parting->anchor);
            free(parting);
        } else {
            wait_for_later(parting);
        }
    }
}

unsigned rondo_partings_count(void)
{
    pthread_mutex_lock(&lock);
    const unsigned n = count;
    pthread_mutex_unlock(&lock);
    return n;
}
