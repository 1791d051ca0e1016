/* The kernel's body, for both compilers: one thread. */
#ifndef RONDO_DOCTOR_PINGPONG_BODY_H
#define RONDO_DOCTOR_PINGPONG_BODY_H

#include "pingpong.h"

#include "kernels/dialect.h"

/* False: the word was not `value` within the limit. */
RONDO_FN bool pingpong_await(const uint32_t *word, uint32_t value, uint64_t limit_ns)
{
    const uint64_t end = rondo_clock_ns() + limit_ns;
    for (unsigned spins = 0; rondo_word_load(word) != value; spins++) {
        if (spins % 64 == 63 && rondo_clock_ns() > end)
            return false;
        rondo_pause(spins);
    }
    return true;
}

RONDO_FN uint32_t pingpong_word(uint32_t role, uint32_t round, uint32_t i)
{
    return (round * 2654435761u) ^ (i * 40503u) ^ (role << 31);
}

RONDO_FN void pingpong_send(const struct pingpong_args *a, uint32_t round, bool payload)
{
    for (uint32_t i = 0; payload && i < PINGPONG_WORDS; i++)
        rondo_word_store(&a->theirs->payload[i], pingpong_word(a->role, round, i));
    if (payload)
        rondo_fence(); /* the payload is there before its flag, and our look at theirs was before both */
    rondo_word_store(&a->theirs->flag, round);
}

RONDO_FN uint32_t pingpong_check(const struct pingpong_args *a, uint32_t round)
{
    uint32_t wrong = 0;
    rondo_fence(); /* what was written before the flag is seen after this */
    for (uint32_t i = 0; i < PINGPONG_WORDS; i++)
        wrong += rondo_word_load(&a->mine->payload[i]) != pingpong_word(1 - a->role, round, i);
    return wrong;
}

/* The other's next payload comes after our answer, and our answer after our look at this one: no word is overwritten before
 * it was looked at. */
RONDO_FN void pingpong_body(const struct pingpong_args *a)
{
    uint32_t round = 1, wrong = 0;
    rondo_word_store(&a->report->started, 1);
    if (!pingpong_await(&a->report->go, 1, a->limit_ns)) {
        rondo_word_store(&a->report->started, PINGPONG_LEFT);
        return;
    }
    uint64_t begin = 0;
    for (; round <= a->rounds; round++) {
        const bool payload = round <= a->litmus;
        if (round == a->litmus + 1)
            begin = rondo_clock_ns();
        if (a->role == 0)
            pingpong_send(a, round, payload);
        if (!pingpong_await(&a->mine->flag, round, a->limit_ns))
            break;
        if (payload)
            wrong += pingpong_check(a, round);
        if (a->role == 1)
            pingpong_send(a, round, payload);
    }
    const uint64_t ns = rondo_clock_ns() - begin;
    rondo_word_store(&a->report->ns[0], (uint32_t)ns);
    rondo_word_store(&a->report->ns[1], (uint32_t)(ns >> 32));
    rondo_word_store(&a->report->wrong, wrong);
    rondo_word_store(&a->report->rounds, round - 1);
    rondo_fence();
}

#endif
