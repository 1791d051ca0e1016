#include "comm/inbox.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A letter that has come; or, without bytes, the number of one that was given up before: it is to be dropped when it comes. */
struct rondo_letter {
    struct rondo_letter *next;
    int rank;
    uint32_t number;
    size_t count;
    unsigned char bytes[];
};

void rondo_inbox_init(struct rondo_inbox *inbox)
{
    pthread_condattr_t monotonic;
    memset(inbox, 0, sizeof *inbox);
    pthread_mutex_init(&inbox->order, NULL);
    pthread_mutex_init(&inbox->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&inbox->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void rondo_inbox_fini(struct rondo_inbox *inbox)
{
    while (inbox->letters) {
        struct rondo_letter *next = inbox->letters->next;
        free(inbox->letters);
        inbox->letters = next;
    }
    pthread_cond_destroy(&inbox->changed);
    pthread_mutex_destroy(&inbox->lock);
    pthread_mutex_destroy(&inbox->order);
}

/* Unlinks a letter; the caller frees it. NULL: there is none. Under lock. */
static struct rondo_letter *unlink_letter(struct rondo_inbox *inbox, int rank, uint32_t number)
{
    for (struct rondo_letter **place = &inbox->letters; *place; place = &(*place)->next) {
        struct rondo_letter *letter = *place;
        if (letter->rank != rank || letter->number != number)
            continue;
        *place = letter->next;
        return letter;
    }
    return NULL;
}

/* Bytes NULL: of a letter that was given up. Under lock. */
static void add(struct rondo_inbox *inbox, int rank, uint32_t number, const void *bytes, size_t count)
{
    struct rondo_letter *made = malloc(sizeof *made + count);
    if (!made)
        return;
    made->rank = rank;
    made->number = number;
    made->count = count;
    if (bytes)
        memcpy(made->bytes, bytes, count);
    made->next = inbox->letters;
    inbox->letters = made;
}

void rondo_inbox_deliver(struct rondo_inbox *inbox, int rank, const void *bytes, size_t count)
{
    pthread_mutex_lock(&inbox->lock);
    const uint32_t number = inbox->arrived[rank]++;
    struct rondo_letter *forgotten = unlink_letter(inbox, rank, number);
    if (!forgotten)
        add(inbox, rank, number, bytes, count);
    free(forgotten);
    inbox->changes++;
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}

void rondo_inbox_end(struct rondo_inbox *inbox, int rank)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->ended[rank] = true;
    inbox->changes++;
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->lock);
}

uint32_t rondo_inbox_ask(struct rondo_inbox *inbox, int rank)
{
    pthread_mutex_lock(&inbox->lock);
    const uint32_t number = inbox->asked[rank]++;
    pthread_mutex_unlock(&inbox->lock);
    return number;
}

enum rondo_inbox_answer rondo_inbox_take(struct rondo_inbox *inbox, int rank, uint32_t number, void *bytes,
                                         size_t count)
{
    pthread_mutex_lock(&inbox->lock);
    struct rondo_letter *letter = unlink_letter(inbox, rank, number);
    const bool ended = inbox->ended[rank];
    pthread_mutex_unlock(&inbox->lock);
    if (!letter)
        return ended ? RONDO_INBOX_NEVER : RONDO_INBOX_NOT_YET;
    memset(bytes, 0, count);
    memcpy(bytes, letter->bytes, letter->count < count ? letter->count : count);
    free(letter);
    return RONDO_INBOX_HERE;
}

void rondo_inbox_forget(struct rondo_inbox *inbox, int rank, uint32_t number)
{
    pthread_mutex_lock(&inbox->lock);
    struct rondo_letter *letter = unlink_letter(inbox, rank, number);
    if (!letter && !inbox->ended[rank])
        add(inbox, rank, number, NULL, 0);
    free(letter);
    pthread_mutex_unlock(&inbox->lock);
}

unsigned rondo_inbox_changes(struct rondo_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    const unsigned changes = inbox->changes;
    pthread_mutex_unlock(&inbox->lock);
    return changes;
}

void rondo_inbox_wait(struct rondo_inbox *inbox, unsigned seen, unsigned ms)
{
    const uint64_t end = rondo_now_ns() + ms * 1000000ull;
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    pthread_mutex_lock(&inbox->lock);
    while (inbox->changes == seen)
        if (pthread_cond_timedwait(&inbox->changed, &inbox->lock, &until) != 0)
            break;
    pthread_mutex_unlock(&inbox->lock);
}
