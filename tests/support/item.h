/* One op of a random group: what it is, on every rank alike, and this rank's memory for it with what must be in there before
 * and after. */
#ifndef RONDO_TESTS_ITEM_H
#define RONDO_TESTS_ITEM_H

#include "support/draw.h"
#include "support/rig.h"

enum item_kind {
    ITEM_ALL_REDUCE,
    ITEM_REDUCE,
    ITEM_BROADCAST,
    ITEM_ALL_GATHER,
    ITEM_REDUCE_SCATTER,
    ITEM_ALL_TO_ALL,
    ITEM_GATHER,
    ITEM_SCATTER,
    ITEM_MESSAGES, /* sends and receives between random pairs */
    ITEM_ALL_TO_ALLV,
    ITEM_ALL_GATHERV,
    ITEM_REDUCE_SCATTERV,
    ITEM_BARRIER,
    ITEM_KINDS
};

enum { ITEM_RANKS = 16, ITEM_MESSAGES_MOST = 8 };

struct item {
    enum item_kind kind;
    rondoDataType_t type;
    rondoRedOp_t op; /* rondoSum with `scaled` */
    bool scaled;     /* by 2, through an operator */
    bool in_place;
    int root;
    int comm, stream; /* which of the test's */
    size_t count;
    size_t shift;                          /* tells its data from other items' */
    size_t offset;                         /* of the buffers from a line's boundary, in elements */
    size_t counts[ITEM_RANKS][ITEM_RANKS]; /* v: of the message from one rank to another */
    size_t messages;                       /* ITEM_MESSAGES */
    int from[ITEM_MESSAGES_MOST], to[ITEM_MESSAGES_MOST];
    size_t lengths[ITEM_MESSAGES_MOST];

    /* this rank's */
    char *memory; /* the device's: guard, send area, guard, receive area, guard */
    char *before; /* the host's: what memory is to hold */
    char *after;
    size_t bytes;
    size_t send_at, recv_at; /* bytes from memory */
};

/* Bytes that a rank has for itself, and stores if it is not in place. */
size_t item_kept(const struct item *item, int rank);

/* What it is; bits: elements are fewer than 2^bits. The same on all ranks for equal draws. */
void item_draw(struct item *item, struct draw *draw, int ranks, unsigned bits);

/* This rank's memory, and what it is to hold. */
void item_prepare(struct item *item, const struct rig *rig);
void item_free(struct item *item, const struct rig *rig);

/* Writes the inputs (again). */
void item_fill(const struct item *item, const struct rig *rig);

/* Calls the ops. */
rondoResult_t item_issue(const struct item *item, const struct rig *rig, rondoComm_t comm, struct CUstream_st *stream);

/* 0: memory holds what it must, everywhere. Else it says what does not. */
int item_check(const struct item *item, struct rig *rig);

/* All of it on the rig's comm and stream: the calls, and a graph of them that is replayed. 0: everything was as it must be. */
int item_try(struct item *item, struct rig *rig);

/* One line without its end. */
void item_describe(const struct item *item, char *text, size_t room);

#endif
