/* Operators that users make for a comm. Thread-safe. */
#ifndef RONDO_COMM_REDOPS_H
#define RONDO_COMM_REDOPS_H

#include "rondo/rondo.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Multiplies each rank's input by its scalar, then sums. */
struct rondo_redop_info {
    rondoDataType_t datatype;
    bool by_address; /* scalar is an address that the device reads when an op runs; else the value's bytes */
    uint64_t scalar;
};

struct rondo_redop_slot {
    struct rondo_redop_info info;
    int handle; /* 0: free */
};

struct rondo_redops {
    pthread_mutex_t lock; /* guards the rest; inside it nothing else is locked */
    struct rondo_redop_slot *slots;
    size_t count;
};

void rondo_redops_init(struct rondo_redops *redops);
void rondo_redops_fini(struct rondo_redops *redops);

rondoResult_t rondo_redops_add(struct rondo_redops *redops, const struct rondo_redop_info *info, rondoRedOp_t *op);

/* rondoInvalidArgument: not one of the comm's operators, or destroyed. */
rondoResult_t rondo_redops_find(struct rondo_redops *redops, rondoRedOp_t op, struct rondo_redop_info *info);
rondoResult_t rondo_redops_remove(struct rondo_redops *redops, rondoRedOp_t op);

#endif
