/* Letters that peers sent after init. The n-th letter from a peer answers the n-th call of this rank that asks that peer for
 * one, whichever comes first: so calls between any ranks of a comm need no counter that all ranks share. */
#ifndef RONDO_COMM_INBOX_H
#define RONDO_COMM_INBOX_H

#include "comm/limits.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rondo_letter;

struct rondo_inbox {
    pthread_mutex_t
        order; /* held while a call asks for letters and sends its own, so that they go in one order; before `lock` */
    pthread_mutex_t lock;   /* guards the rest; inside it nothing else is locked */
    pthread_cond_t changed; /* with `changes` */
    unsigned changes;
    struct rondo_letter *letters; /* not taken yet, in no order */
    uint32_t asked[RONDO_MAX_RANKS], arrived[RONDO_MAX_RANKS];
    bool ended[RONDO_MAX_RANKS]; /* nothing more comes from there */
};

void rondo_inbox_init(struct rondo_inbox *inbox);
void rondo_inbox_fini(struct rondo_inbox *inbox);

/* For the watch. A letter that nobody wants any more is dropped, as is one for which there is no memory: the call that
 * asked then times out. */
void rondo_inbox_deliver(struct rondo_inbox *inbox, int rank, const void *bytes, size_t count);
void rondo_inbox_end(struct rondo_inbox *inbox, int rank);

/* The number of the peer's next letter, which the caller takes or forgets. Under `order`. */
uint32_t rondo_inbox_ask(struct rondo_inbox *inbox, int rank);

enum rondo_inbox_answer { RONDO_INBOX_HERE, RONDO_INBOX_NOT_YET, RONDO_INBOX_NEVER };

/* Looks for a letter. RONDO_INBOX_HERE: `bytes` has its first `count` bytes, zeros behind its end, and it is gone from here. */
enum rondo_inbox_answer rondo_inbox_take(struct rondo_inbox *inbox, int rank, uint32_t number, void *bytes,
                                         size_t count);
void rondo_inbox_forget(struct rondo_inbox *inbox, int rank, uint32_t number);

/* Waits until something has changed since rondo_inbox_changes gave `seen`, `ms` at most. */
unsigned rondo_inbox_changes(struct rondo_inbox *inbox);
void rondo_inbox_wait(struct rondo_inbox *inbox, unsigned seen, unsigned ms);

#endif
