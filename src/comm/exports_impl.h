/* What exporters are made of: for exports.c and exports_exchange.c. */
#ifndef RONDO_COMM_EXPORTS_IMPL_H
#define RONDO_COMM_EXPORTS_IMPL_H

#include "comm/comm.h"
#include "comm/exports.h"
#include "comm/watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What becomes of a number. */
enum rondo_export_state {
    RONDO_EXPORT_FREE,
    RONDO_EXPORT_WANTED,    /* to be offered */
    RONDO_EXPORT_OFFERED,   /* peers are about to answer */
    RONDO_EXPORT_USABLE,    /* all have it mapped */
    RONDO_EXPORT_REFUSED,   /* could not be offered, or not be mapped by all */
    RONDO_EXPORT_WITHDRAWN, /* peers are about to answer that they have unmapped it */
};

struct rondo_export {
    enum rondo_export_state state;
    struct rondo_range range;
    unsigned holds;
    unsigned answers; /* that have come, of ranks - 1 */
    bool refused;     /* one of them was a no */
    bool offered;     /* peers know of it */
};

enum rondo_export_letter_kind {
    RONDO_LETTER_OFFER,
    RONDO_LETTER_ANSWER,
    RONDO_LETTER_WITHDRAW,
    RONDO_LETTER_WITHDRAWAL
};

/* From exporter to exporter. */
struct rondo_export_letter {
    uint8_t kind;
    uint8_t yes;    /* of an answer */
    uint8_t memory; /* of an offer, as all that follows the number: enum rondo_mem_kind */
    uint32_t number;
    uint64_t address, bytes, anchor; /* for ranks of this process, address and owner are all that it takes */
    uint8_t handle[RONDO_MEM_HANDLE_BYTES];
};
_Static_assert(sizeof(struct rondo_export_letter) <= RONDO_WATCH_TEXT_BYTES, "a letter can be sent");

/* Letters of a rank's own that peers have not yet answered: so many, and as many answers, find room in a socket besides what the
 * comm tells in its end. */
enum { RONDO_EXPORT_WINDOW = 32 };

/* Something for the thread to do. */
struct rondo_export_errand {
    struct rondo_export_errand *next;
    int rank; /* -1: one's own number is to be offered, or withdrawn, as its state says */
    unsigned number;
    int fd; /* -1: none */
    struct rondo_export_letter letter;
};

struct rondo_export_errands {
    struct rondo_export_errand *first, *last;
};

struct rondo_exporter {
    struct rondoComm *comm; /* constant; valid until rondo_exporter_close */
    pthread_mutex_t lock;   /* guards the rest but what is the thread's; inside it nothing else is locked */
    pthread_cond_t wake;
    unsigned references; /* the comm's, and of holds */
    bool stopped, running;
    pid_t process;
    pthread_t thread;
    struct rondo_export_errands letters, own;
    struct rondo_export exports[RONDO_EXPORTS_MAX];
    unsigned unanswered;       /* the thread's own: of the numbers, those that peers are about to answer */
    struct rondo_mem *imports; /* the thread's own: [rank * RONDO_EXPORTS_MAX + number] */
    struct rondo_exports_hold
        *memory; /* on memory of rondoMemAlloc that eager ops use; NULL: none so far. A reference of its own */
    struct rondo_memory_watcher watcher; /* lets go of it */
};

/* The first errand, out of its queue; NULL: none. Under the exporter's lock. */
struct rondo_export_errand *rondo_export_errands_take(struct rondo_export_errands *errands);
void rondo_export_errand_free(struct rondo_export_errand *errand);

/* The thread: runs errands until the exporter is stopped. */
void *rondo_exporter_work(void *exporter);

#endif
