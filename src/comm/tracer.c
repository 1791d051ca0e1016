#include "comm/tracer.h"

#include "common/result.h"

#include <string.h>

enum { WHATS = 4096, MOST = WHATS / 2 }; /* places, of which so many at most are taken: a search finds an end soon */

struct rondo_tracer {
    unsigned entries;
    pthread_mutex_t lock; /* guards the rest; inside it nothing else is locked */
    unsigned count;
    bool taken[WHATS];
    struct rondo_traced whats[WHATS]; /* number n is at n - 1 */
};

rondoResult_t rondo_tracer_create(struct rondo_arena *arena, unsigned entries, struct rondo_tracer **out)
{
    void *memory;
    RONDO_TRY(rondo_arena_alloc(arena, sizeof(struct rondo_tracer), &memory));
    struct rondo_tracer *tracer = memory;
    tracer->entries = entries;
    pthread_mutex_init(&tracer->lock, NULL);
    *out = tracer;
    return rondoSuccess;
}

void rondo_tracer_destroy(struct rondo_tracer *tracer)
{
    if (tracer)
        pthread_mutex_destroy(&tracer->lock);
}

unsigned rondo_tracer_entries(const struct rondo_tracer *tracer)
{
    return tracer->entries;
}

/* FNV-1a. */
static unsigned place_of(const struct rondo_traced *traced)
{
    uint32_t hash = 0x811c9dc5u;
    for (size_t i = 0; i < sizeof *traced; i++)
        hash = (hash ^ ((const unsigned char *)traced)[i]) * 0x01000193u;
    return hash % WHATS;
}

uint32_t rondo_tracer_add(struct rondo_tracer *tracer, const struct rondo_traced *traced)
{
    unsigned place = place_of(traced);
    pthread_mutex_lock(&tracer->lock);
    while (tracer->taken[place] && memcmp(&tracer->whats[place], traced, sizeof *traced) != 0)
        place = (place + 1) % WHATS;
    const bool is_new = !tracer->taken[place], fits = !is_new || tracer->count < MOST;
    if (is_new && fits) {
        tracer->whats[place] = *traced;
        tracer->taken[place] = true;
        tracer->count++;
    }
    pthread_mutex_unlock(&tracer->lock);
    return fits ? place + 1 : 0;
}

bool rondo_tracer_find(struct rondo_tracer *tracer, uint32_t number, struct rondo_traced *traced)
{
    if (number == 0 || number > WHATS)
        return false;
    pthread_mutex_lock(&tracer->lock);
    const bool taken = tracer->taken[number - 1];
    *traced = tracer->whats[number - 1];
    pthread_mutex_unlock(&tracer->lock);
    return taken;
}
