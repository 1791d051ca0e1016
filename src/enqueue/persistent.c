#include "enqueue/persistent.h"

#include "common/range.h"
#include "common/result.h"
#include "enqueue/group.h"
#include "graph/prepared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_MAGIC 0x6e616c506f646e52ull

struct rondoPlan {
    uint64_t magic;
    struct rondo_prepared *parts; /* in the order in which they run; neighbours are of different comms */
    size_t count, room;
};

static _Thread_local struct {
    struct rondoPlan *plan; /* NULL: none is being made */
    rondoResult_t error;
    char text[512]; /* of the error */
} making;

bool rondo_plan_making(void)
{
    return making.plan != NULL;
}

rondoResult_t rondo_plan_error(rondoResult_t result)
{
    if (result != rondoSuccess && making.plan && making.error == rondoSuccess) {
        making.error = result;
        snprintf(making.text, sizeof making.text, "%s", rondo_last_error());
    }
    return result;
}

static rondoResult_t add_part(struct rondoPlan *plan, struct rondoComm *comm)
{
    if (plan->count && plan->parts[0].comm->info.ordinal != comm->info.ordinal)
        return rondo_fail(rondoInvalidUsage, "a plan, which runs on one stream, has ops of comms on devices %d and %d",
                          plan->parts[0].comm->info.ordinal, comm->info.ordinal);
    if (plan->count == plan->room) {
        const size_t room = plan->room ? plan->room * 2 : 1;
        void *parts = realloc(plan->parts, room * sizeof *plan->parts);
        if (!parts)
            return rondo_fail(rondoSystemError, "out of memory");
        plan->parts = parts;
        plan->room = room;
    }
    rondo_prepared_init(&plan->parts[plan->count++], comm);
    return rondoSuccess;
}

/* A comm that has ended meanwhile may have left its struct to another: the anchor tells. */
rondoResult_t rondo_plan_add(struct rondoComm *comm, const struct rondo_launch_request *request)
{
    struct rondoPlan *plan = making.plan;
    const struct rondo_prepared *last = plan->count ? &plan->parts[plan->count - 1] : NULL;
    if (!last || last->comm != comm || last->anchor != comm->anchor)
        RONDO_TRY(add_part(plan, comm));
    return rondo_prepared_add(&plan->parts[plan->count - 1], request);
}

static void plan_free(struct rondoPlan *plan)
{
    plan->magic = 0;
    for (size_t i = 0; i < plan->count; i++)
        rondo_prepared_fini(&plan->parts[i]);
    free(plan->parts);
    free(plan);
}

rondoResult_t rondoPlanBegin(void)
{
    if (making.plan || rondo_group_active())
        return rondo_fail(rondoInvalidUsage, "rondoPlanBegin inside %s",
                          making.plan ? "another plan: rondoPlanEnd must come first" : "a group");
    struct rondoPlan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return rondo_fail(rondoSystemError, "out of memory");
    plan->magic = PLAN_MAGIC;
    making.plan = plan;
    making.error = rondoSuccess;
    return rondoSuccess;
}

rondoResult_t rondoPlanEnd(rondoPlan_t *plan)
{
    RONDO_RANGE("rondoPlanEnd", 0);
    if (plan)
        *plan = NULL;
    if (!making.plan)
        return rondo_fail(rondoInvalidUsage, "rondoPlanEnd without rondoPlanBegin");
    if (rondo_group_active())
        return rondo_fail(rondoInvalidUsage, "rondoPlanEnd inside a group: rondoGroupEnd must come first");
    struct rondoPlan *made = making.plan;
    making.plan = NULL;
    rondoResult_t result = making.error;
    if (result != rondoSuccess)
        rondo_repeat(result, "%s", making.text);
    else if (!plan)
        result = rondo_fail(rondoInvalidArgument, "plan is NULL");
    if (result == rondoSuccess)
        *plan = made;
    else
        plan_free(made);
    return result;
}

/* Parts after one that failed run all the same: their peers wait for them. */
static rondoResult_t run(const struct rondoPlan *plan, struct CUstream_st *stream, uint64_t id)
{
    rondoResult_t result = rondoSuccess;
    char text[512] = "";
    for (size_t i = 0; i < plan->count; i++) {
        const rondoResult_t one = rondo_launch_prepared(&plan->parts[i], stream, id);
        if (one != rondoSuccess && result == rondoSuccess) {
            result = one;
            snprintf(text, sizeof text, "%s", rondo_last_error());
        }
    }
    return result == rondoSuccess ? result : rondo_repeat(result, "%s", text);
}

/* The comms were entered. They are on one device, so it is entered once; and whether the stream captures is asked once. */
static rondoResult_t launch(const struct rondoPlan *plan, struct CUstream_st *stream)
{
    const struct rondoComm *comm = plan->parts[0].comm;
    struct rondo_capture capture;
    uint64_t id = 0;
    void *token;
    RONDO_TRY(comm->ops->enter(comm->device, &token));
    rondoResult_t result = comm->ops->stream_capture(comm->device, stream, &capture);
    if (result == rondoSuccess && !capture.active)
        result = comm->ops->stream_id(comm->device, stream, &id);
    if (result == rondoSuccess)
        result = run(plan, stream, id);
    comm->ops->leave(comm->device, token);
    return result;
}

static rondoResult_t check(rondoPlan_t plan)
{
    if (!plan || plan->magic != PLAN_MAGIC)
        return rondo_fail(rondoInvalidArgument, "plan is %s", plan ? "not a plan" : "NULL");
    if (rondo_group_active() || making.plan)
        return rondo_fail(rondoInvalidUsage, "rondoPlanLaunch inside %s",
                          making.plan ? "rondoPlanBegin and rondoPlanEnd" : "a group");
    return rondoSuccess;
}

rondoResult_t rondoPlanLaunch(rondoPlan_t plan, struct CUstream_st *stream)
{
    RONDO_RANGE("rondoPlanLaunch", 0);
    rondoResult_t result = check(plan);
    size_t entered = 0;
    if (result != rondoSuccess)
        return rondo_plan_error(rondo_group_error(result));
    while (entered < plan->count && result == rondoSuccess) {
        const struct rondo_prepared *part = &plan->parts[entered];
        result = rondo_comm_enter_again(part->comm, part->anchor);
        entered += result == rondoSuccess;
    }
    if (result == rondoSuccess && plan->count)
        result = launch(plan, stream);
    while (entered--)
        rondo_comm_leave(plan->parts[entered].comm);
    return result;
}

rondoResult_t rondoPlanDestroy(rondoPlan_t plan)
{
    if (!plan)
        return rondoSuccess;
    if (plan->magic != PLAN_MAGIC)
        return rondo_fail(rondoInvalidArgument, "plan is not a plan");
    plan_free(plan);
    return rondoSuccess;
}
