#include "graph/prepared.h"

#include "common/result.h"

#include <stdlib.h>
#include <string.h>

void rondo_prepared_init(struct rondo_prepared *prepared, struct rondoComm *comm)
{
    *prepared = (struct rondo_prepared){.comm = comm, .anchor = comm->anchor};
    rondo_anchor_hold(prepared->anchor);
}

void rondo_prepared_fini(struct rondo_prepared *prepared)
{
    for (size_t i = 0; i < prepared->count; i++)
        free((void *)(uintptr_t)prepared->launches[i].eager.args);
    free(prepared->launches);
    rondo_anchor_drop(prepared->anchor);
    memset(prepared, 0, sizeof *prepared);
}

static rondoResult_t keep(struct rondo_prepared *prepared, const struct rondo_plan_launch *plan)
{
    if (prepared->count == prepared->room) {
        const size_t room = prepared->room ? prepared->room * 2 : 4;
        void *launches = realloc(prepared->launches, room * sizeof *prepared->launches);
        if (!launches)
            return rondo_fail(rondoSystemError, "out of memory");
        prepared->launches = launches;
        prepared->room = room;
    }
    void *args = calloc(1, rondo_kernel_args_bytes(plan->kernel)); /* a launch copies all, in use or not */
    if (!args)
        return rondo_fail(rondoSystemError, "out of memory");
    memcpy(args, &plan->args, plan->args_bytes);
    prepared->launches[prepared->count++] = (struct rondo_prepared_launch){
        .eager = {.kernel = prepared->comm->kernels[plan->kernel],
                  .blocks = plan->blocks,
                  .threads = plan->threads,
                  .args = args,
                  .args_bytes = plan->args_bytes},
        .messages = plan->messages,
        .direct = plan->direct,
    };
    return rondoSuccess;
}

rondoResult_t rondo_prepared_add(struct rondo_prepared *prepared, const struct rondo_launch_request *request)
{
    struct rondo_plan_launch plan;
    struct rondo_group_plan group;
    rondo_launch_plan_begin(prepared->comm, request, &group);
    while (rondo_launch_plan_next(prepared->comm, NULL, &group, &plan))
        RONDO_TRY(keep(prepared, &plan));
    return rondoSuccess;
}
