#include "support/flicker.h"

#include "comm/comm.h"

#include <sched.h>

static void *run(void *argument)
{
    struct flicker *f = argument;
    const struct rondoComm *comm = f->rig->comm;
    struct rondo_exports *table = rondo_lanes_exports(comm->anchor, (unsigned)comm->ranks);
    uint32_t before[RONDO_EXPORTS_MAX];
    comm->ops->read(comm->device, before, table->usable, sizeof before);
    for (uint32_t on = 0; on || !__atomic_load_n(&f->end, __ATOMIC_ACQUIRE); on = !on) {
        for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++)
            if (before[n])
                comm->ops->write(comm->device, &table->usable[n], &on, sizeof on);
        sched_yield();
    }
    for (unsigned n = 0; n < RONDO_EXPORTS_MAX; n++)
        comm->ops->write(comm->device, &table->usable[n], &before[n], sizeof before[n]);
    return NULL;
}

void flicker_begin(struct flicker *flicker, struct rig *rig)
{
    *flicker = (struct flicker){.rig = rig};
    pthread_create(&flicker->thread, NULL, run, flicker);
}

void flicker_end(struct flicker *flicker)
{
    __atomic_store_n(&flicker->end, 1, __ATOMIC_RELEASE);
    pthread_join(flicker->thread, NULL);
}
