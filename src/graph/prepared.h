/* Launches of one comm that are planned once, and kept to be run again and again. */
#ifndef RONDO_GRAPH_PREPARED_H
#define RONDO_GRAPH_PREPARED_H

#include "comm/comm.h"
#include "graph/launch.h"

struct rondo_prepared_launch {
    struct rondo_launch
        eager; /* as it is, but for the stream. The arguments are owned, and have room for all of their kernel's */
    unsigned messages;
    bool direct; /* as in struct rondo_plan_launch */
};

struct rondo_prepared {
    struct rondoComm *comm;      /* not owned; rondo_comm_enter_again tells whether it still is the one */
    struct rondo_anchor *anchor; /* held */
    struct rondo_prepared_launch *launches;
    size_t count, room;
};

/* The comm was entered. */
void rondo_prepared_init(struct rondo_prepared *prepared, struct rondoComm *comm);
void rondo_prepared_fini(struct rondo_prepared *prepared);

/* Plans what a group holds and appends its launches. The request's streams do not matter. The comm was entered. */
rondoResult_t rondo_prepared_add(struct rondo_prepared *prepared, const struct rondo_launch_request *request);

#endif
