/* Movers: a comm's progress thread. It takes the posts that kernels make (kernels/posts.h), has copy engines copy what they name,
 * and passes posts on where the receiver's mover is to copy on. And it takes what kernels ask for (kernels/copies.h): copies from
 * buffer to buffer. Replays need nothing else of the host.
 *
 * The thread polls: for about a millisecond after the last post as fast as it can, then some ten thousand times a second, and
 * near the device's NUMA node. It makes no device calls that a capture of another thread would mind. */
#ifndef RONDO_TRANSPORT_MOVER_H
#define RONDO_TRANSPORT_MOVER_H

#include "device/device.h"
#include "kernels/copies.h"
#include "kernels/posts.h"

struct rondo_mover;

/* One way of posts. All memory must live until the mover is stopped. */
struct rondo_route {
    unsigned peer;                /* for reports */
    struct rondo_post_ring *ring; /* as the CPU sees it */
    const char *from;             /* mailbox that the posts name ranges of */
    char *to;                     /* where they are copied to */
    struct rondo_post_ring *next; /* where the posts go once their copies are done; NULL: nowhere */
};

/* All copies to one peer's buffers, one after the other; those of several peers may be under way at once. Memory as above. */
struct rondo_copy_route {
    unsigned peer;
    unsigned lanes;
    struct rondo_copy *asked; /* of the first lane, as the CPU sees it; those of the others follow so many copies on: */
    size_t pitch;
};

/* What a mover is for. */
struct rondo_mover_job {
    const struct rondo_route *routes;
    unsigned count;
    const struct rondo_copy_route *copies;
    unsigned copy_count;
    void (*failed)(void *object,
                   unsigned peer); /* called from the thread, once, when a copy fails, with its last error */
    void *object;
};

/* Starts the thread. The routes are copied. */
rondoResult_t rondo_mover_start(const struct rondo_device_ops *ops, struct rondo_device *device,
                                const struct rondo_mover_job *job, struct rondo_mover **mover);

/* Copies from buffer to buffer that were given to copy engines so far. NULL is fine: none. */
uint64_t rondo_mover_copies(const struct rondo_mover *mover);

/* Ends the thread: once it has nothing to do, or after about `ms`. NULL is fine. In a forked child, which has no such thread, it
 * does nothing. */
void rondo_mover_stop(struct rondo_mover *mover, unsigned ms);

#endif
