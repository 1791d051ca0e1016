/* Calls that make comms of another one's ranks and of new ones; inside a group they take effect at its end. */
#include "comm/bootstrap.h"
#include "comm/comm.h"
#include "comm/config.h"
#include "common/range.h"
#include "common/result.h"
#include "device/device.h"
#include "enqueue/group.h"

rondoResult_t rondoCommGetUniqueId(rondoComm_t comm, rondoUniqueId *id)
{
    if (!id)
        return rondo_fail(rondoInvalidArgument, "id is NULL");
    RONDO_TRY(rondo_comm_enter_parent(comm, false));
    rondo_comm_leave(comm);
    return rondo_bootstrap_id(id);
}

/* An old rank's part. */
static rondoResult_t check_old(const struct rondoComm *comm, int nranks, int rank)
{
    if (nranks <= comm->ranks || nranks > RONDO_MAX_RANKS)
        return rondo_fail(rondoInvalidArgument, "nranks is %d, must be above %d, which comm has, and at most %d",
                          nranks, comm->ranks, RONDO_MAX_RANKS);
    if (rank != -1 && rank != comm->rank)
        return rondo_fail(rondoInvalidArgument, "rank is %d, must be -1, or %d, which it is in comm", rank, comm->rank);
    return rondoSuccess;
}

static rondoResult_t grow(const struct rondo_split_request *split, int rank, rondoComm_t *newcomm,
                          const rondoConfig_t *config)
{
    struct rondo_comm_request request = {.split = *split};
    struct rondoComm *parent = split->parent;
    RONDO_TRY(rondo_split_enter(split));
    rondoResult_t result = check_old(parent, split->ranks, rank);
    request.config = parent->config;
    request.ordinal = parent->info.ordinal;
    rondo_comm_leave(parent);
    RONDO_TRY(result);
    if (config)
        RONDO_TRY(rondo_config_read(config, &request.config));
    return rondo_group_add_comm(&request, newcomm);
}

/* A new rank's. Which ranks are old it does not know; rank 0 is. */
static rondoResult_t join(int nranks, const rondoUniqueId *id, int rank, rondoComm_t *newcomm,
                          const rondoConfig_t *config)
{
    const struct rondo_device_ops *ops;
    struct rondo_comm_request request = {.split.kind = RONDO_GROW, .rank = rank, .ranks = nranks};
    if (!id)
        return rondo_fail(rondoInvalidArgument, "comm and id are NULL: an old rank gives comm, a new one id");
    if (nranks < 2 || nranks > RONDO_MAX_RANKS)
        return rondo_fail(rondoInvalidArgument, "nranks is %d, must be 2 to %d", nranks, RONDO_MAX_RANKS);
    if (rank < 1 || rank >= nranks)
        return rondo_fail(rondoInvalidArgument, "rank is %d, must be one that comm does not have, up to %d", rank,
                          nranks - 1);
    request.id = *id;
    RONDO_TRY(rondo_config_read(config, &request.config));
    RONDO_TRY(rondo_device_row(&ops));
    RONDO_TRY(ops->current(&request.ordinal));
    return rondo_group_add_comm(&request, newcomm);
}

rondoResult_t rondoCommGrow(rondoComm_t comm, int nranks, const rondoUniqueId *id, int rank, rondoComm_t *newcomm,
                            const rondoConfig_t *config)
{
    RONDO_RANGE("rondoCommGrow", 0);
    struct rondo_split_request split = {.parent = comm, .kind = RONDO_GROW, .ranks = nranks, .gives_id = id != NULL};
    if (!newcomm)
        return rondo_group_error(rondo_fail(rondoInvalidArgument, "newcomm is NULL"));
    __atomic_store_n(newcomm, NULL, __ATOMIC_RELAXED); /* another thread may wait for the handle to come */
    if (!comm)
        return rondo_group_error(join(nranks, id, rank, newcomm, config));
    if (id)
        split.id = *id;
    return rondo_group_error(grow(&split, rank, newcomm, config));
}
