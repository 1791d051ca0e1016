/* The last stage on the host: launches a group's plan, eagerly or into a capture.
 *
 * Eager launches run on the eager lane, one after another: a launch on another stream than the last one's waits for that
 * by an event. Captured launches run on the graph lane; inside one capture they are put in order by a dependency where
 * the user's streams do not already give one. Nothing but kernel nodes comes into a capture. */
#ifndef RONDO_GRAPH_LAUNCH_H
#define RONDO_GRAPH_LAUNCH_H

#include "comm/comm.h"
#include "plan/plan.h"

/* A group's ops of one comm. streams[0] carries the launches, the others are joined to it before and after. */
struct rondo_launch_request {
    const struct rondo_task *tasks;
    size_t task_count;
    struct rondo_message *messages; /* put into another order */
    size_t message_count;
    struct CUstream_st *const *streams; /* distinct */
    size_t stream_count;
};

/* The comm was entered. rondoInvalidUsage: some streams capture and others do not, or not in the same capture. */
rondoResult_t rondo_launch_group(struct rondoComm *comm, const struct rondo_launch_request *request);

/* Fills in the part of a launch's arguments that the plan leaves out. record NULL: it is eager. */
void rondo_launch_on_lane(const struct rondoComm *comm, const struct rondo_capture_record *record,
                          struct rondo_plan_launch *plan);

/* Plans a request, launch by launch: begin, then next until it gives false. The launches' arguments are filled in, but no memory
 * of a direct work is placed. */
void rondo_launch_plan_begin(const struct rondoComm *comm, const struct rondo_launch_request *request,
                             struct rondo_group_plan *group);
bool rondo_launch_plan_next(struct rondoComm *comm, const struct rondo_capture_record *record,
                            struct rondo_group_plan *group, struct rondo_plan_launch *plan);

struct rondo_prepared;

/* Runs what was prepared: eagerly on the stream with this id, or with id 0 into the stream's capture. The comm was entered, and its
 * device too. */
rondoResult_t rondo_launch_prepared(const struct rondo_prepared *prepared, struct CUstream_st *stream, uint64_t id);

#endif
