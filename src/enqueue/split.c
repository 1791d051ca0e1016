/* Calls that make comms of another one's ranks; inside a group they take effect at its end. */
#include "comm/split.h"
#include "comm/comm.h"
#include "comm/config.h"
#include "common/range.h"
#include "common/result.h"
#include "enqueue/group.h"

_Static_assert(RONDO_MAX_RANKS <= 64, "rondo_split_request.excluded has a bit for each rank");

/* What is wrong is said now; the end of a group looks again. */
static rondoResult_t add(const struct rondo_split_request *split, const rondoConfig_t *config, rondoComm_t *newcomm)
{
    struct rondo_comm_request request = {.split = *split};
    RONDO_TRY(rondo_split_enter(split));
    request.config = split->parent->config;
    request.ordinal = split->parent->info.ordinal;
    rondo_comm_leave(split->parent);
    if (config)
        RONDO_TRY(rondo_config_read(config, &request.config));
    return rondo_group_add_comm(&request, newcomm);
}

static rondoResult_t split(rondoComm_t comm, int color, int key, rondoComm_t *newcomm, const rondoConfig_t *config)
{
    const struct rondo_split_request request = {.parent = comm, .kind = RONDO_SPLIT, .color = color, .key = key};
    if (!newcomm)
        return rondo_fail(rondoInvalidArgument, "newcomm is NULL");
    __atomic_store_n(newcomm, NULL, __ATOMIC_RELAXED); /* another thread may wait for the handle to come */
    if (color < 0 && color != RONDO_SPLIT_NOCOLOR)
        return rondo_fail(rondoInvalidArgument, "color is %d, must be 0 or more, or RONDO_SPLIT_NOCOLOR", color);
    return add(&request, config, newcomm);
}

static rondoResult_t read_list(const struct rondoComm *comm, const int *list, int count, uint64_t *excluded)
{
    if (!list || count < 1)
        return rondo_fail(rondoInvalidArgument, list ? "excludeRanksCount is %d" : "excludeRanksList is NULL", count);
    *excluded = 0;
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] >= comm->ranks)
            return rondo_fail(rondoInvalidArgument, "excludeRanksList[%d] is %d, must be 0 to %d", i, list[i],
                              comm->ranks - 1);
        if (list[i] == comm->rank)
            return rondo_fail(rondoInvalidArgument, "excludeRanksList[%d] is %d, the calling rank itself", i, list[i]);
        *excluded |= 1ull << list[i];
    }
    return rondoSuccess;
}

static rondoResult_t shrink(const struct rondo_split_request *of, const int *list, int count, rondoComm_t *newcomm,
                            const rondoConfig_t *config)
{
    struct rondo_split_request request = *of;
    RONDO_TRY(rondo_split_enter(&request));
    rondoResult_t result = read_list(request.parent, list, count, &request.excluded);
    rondo_comm_leave(request.parent);
    RONDO_TRY(result);
    return add(&request, config, newcomm);
}

rondoResult_t rondoCommSplit(rondoComm_t comm, int color, int key, rondoComm_t *newcomm, rondoConfig_t *config)
{
    RONDO_RANGE("rondoCommSplit", 0);
    return rondo_group_error(split(comm, color, key, newcomm, config));
}

rondoResult_t rondoCommShrink(rondoComm_t comm, int *excludeRanksList, int excludeRanksCount, rondoComm_t *newcomm,
                              rondoConfig_t *config, int shrinkFlags)
{
    RONDO_RANGE("rondoCommShrink", 0);
    const struct rondo_split_request request = {
        .parent = comm, .kind = shrinkFlags == RONDO_SHRINK_ABORT ? RONDO_SHRINK_ABORTING : RONDO_SHRINK};
    if (!newcomm)
        return rondo_group_error(rondo_fail(rondoInvalidArgument, "newcomm is NULL"));
    __atomic_store_n(newcomm, NULL, __ATOMIC_RELAXED); /* another thread may wait for the handle to come */
    if (shrinkFlags != RONDO_SHRINK_DEFAULT && shrinkFlags != RONDO_SHRINK_ABORT)
        return rondo_group_error(rondo_fail(rondoInvalidArgument,
                                            "shrinkFlags is %d, neither RONDO_SHRINK_DEFAULT nor RONDO_SHRINK_ABORT",
                                            shrinkFlags));
    return rondo_group_error(shrink(&request, excludeRanksList, excludeRanksCount, newcomm, config));
}
