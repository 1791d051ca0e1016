/* Calls that make comms; inside a group they take effect at its end. */
#include "comm/bootstrap.h"
#include "comm/config.h"
#include "common/env.h"
#include "common/range.h"
#include "common/result.h"
#include "device/device.h"
#include "enqueue/group.h"

#include <string.h>

static rondoResult_t request_fill(struct rondo_comm_request *request, int ranks, const rondoUniqueId *id, int rank,
                                  const rondoConfig_t *config)
{
    if (ranks < 1 || ranks > RONDO_MAX_RANKS)
        return rondo_fail(rondoInvalidArgument, "nranks is %d, must be 1 to %d", ranks, RONDO_MAX_RANKS);
    if (rank < 0 || rank >= ranks)
        return rondo_fail(rondoInvalidArgument, "rank is %d, must be 0 to %d", rank, ranks - 1);
    memset(request, 0, sizeof *request);
    RONDO_TRY(rondo_config_read(config, &request->config));
    request->id = *id;
    request->rank = rank;
    request->ranks = ranks;
    return rondoSuccess;
}

/* The calling thread's device, now: the comm may be made by another thread. */
static rondoResult_t current_device(int *ordinal)
{
    const struct rondo_device_ops *ops;
    RONDO_TRY(rondo_device_row(&ops));
    return ops->current(ordinal);
}

static rondoResult_t init_rank(rondoComm_t *comm, int nranks, const rondoUniqueId *id, int rank,
                               const rondoConfig_t *config)
{
    struct rondo_comm_request request;
    if (!comm)
        return rondo_fail(rondoInvalidArgument, "comm is NULL");
    __atomic_store_n(comm, NULL, __ATOMIC_RELAXED);
    RONDO_TRY(request_fill(&request, nranks, id, rank, config));
    RONDO_TRY(current_device(&request.ordinal));
    return rondo_group_add_comm(&request, comm);
}

rondoResult_t rondoGetUniqueId(rondoUniqueId *id)
{
    if (!id)
        return rondo_fail(rondoInvalidArgument, "id is NULL");
    return rondo_bootstrap_id(id);
}

rondoResult_t rondoCommInitRank(rondoComm_t *comm, int nranks, rondoUniqueId id, int rank)
{
    RONDO_RANGE("rondoCommInitRank", 0);
    return rondo_group_error(init_rank(comm, nranks, &id, rank, NULL));
}

rondoResult_t rondoCommInitRankConfig(rondoComm_t *comm, int nranks, rondoUniqueId id, int rank, rondoConfig_t *config)
{
    RONDO_RANGE("rondoCommInitRankConfig", 0);
    return rondo_group_error(init_rank(comm, nranks, &id, rank, config));
}

/* Everything is checked before there is an id: a root without ranks would wait for them. */
static rondoResult_t check_devices(int ndev, const int *devlist)
{
    for (int i = 0; i < ndev && devlist; i++) {
        if (devlist[i] < 0)
            return rondo_fail(rondoInvalidArgument, "devlist[%d] is %d", i, devlist[i]);
        for (int j = 0; j < i && !rondo_env()->shared_device; j++)
            if (devlist[j] == devlist[i])
                return rondo_fail(rondoInvalidUsage, "device %d is twice in devlist; RONDO_SHARED_DEVICE=1 allows that",
                                  devlist[i]);
    }
    return rondoSuccess;
}

static rondoResult_t init_all(rondoComm_t *comms, int ndev, const int *devlist)
{
    struct rondo_comm_request request;
    rondoUniqueId id = {{0}};
    RONDO_TRY(request_fill(&request, ndev, &id, 0, NULL));
    RONDO_TRY(check_devices(ndev, devlist));
    RONDO_TRY(rondo_bootstrap_id(&request.id));
    request.own_id = true;
    for (int i = 0; i < ndev; i++) {
        request.rank = i;
        request.ordinal = devlist ? devlist[i] : i;
        rondoResult_t result = rondo_group_add_comm(&request, &comms[i]);
        if (result != rondoSuccess) {
            rondo_bootstrap_forget(&request.id);
            return result;
        }
    }
    return rondoSuccess;
}

rondoResult_t rondoCommInitAll(rondoComm_t *comms, int ndev, const int *devlist)
{
    RONDO_RANGE("rondoCommInitAll", 0);
    if (!comms || ndev < 1)
        return rondo_group_error(
            rondo_fail(rondoInvalidArgument, comms ? "ndev is %d, must be at least 1" : "comms is NULL", ndev));
    RONDO_TRY(rondoGroupStart());
    rondo_group_error(init_all(comms, ndev, devlist));
    return rondoGroupEnd();
}
