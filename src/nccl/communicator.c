/* The life of comms: NCCL's configs and codes, Rondo's comms. */
#include "comm/comm.h"

#include "comm/bootstrap.h"
#include "common/result.h"
#include "enqueue/group.h"
#include "nccl/config.h"
#include "nccl/nccl.h"
#include "nccl/reading.h"
#include "nccl/refusal.h"

#include <stdlib.h>
#include <string.h>

/* ---- ids ---- */

ncclResult_t pncclGetUniqueId(ncclUniqueId *id)
{
    const char *fixed = getenv("NCCL_COMM_ID");
    if (fixed && *fixed)
        return rondo_fail(rondoInvalidUsage,
                          "NCCL_COMM_ID=%s: Rondo's ids cannot be told from outside; unset it, and hand the id of "
                          "ncclGetUniqueId to all ranks",
                          fixed);
    return rondoGetUniqueId(id);
}

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
    return rondoCommGetUniqueId(comm, id);
}

/* ---- making comms ---- */

/* A config that cannot be read is an error of the call, and of its group. */
static ncclResult_t read_config(const ncclConfig_t *user, rondoConfig_t *config, ncclComm_t *comm)
{
    if (comm)
        __atomic_store_n(comm, NULL, __ATOMIC_RELAXED);
    rondo_nccl_log_parameters();
    return rondo_group_error(rondo_nccl_config(user, config));
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    rondoConfig_t read;
    RONDO_TRY(read_config(config, &read, comm));
    return rondoCommInitRankConfig(comm, nranks, id, rank, &read);
}

ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    return pncclCommInitRankConfig(comm, nranks, id, rank, NULL);
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int id_count, ncclUniqueId *ids,
                                       ncclConfig_t *config)
{
    if (!ids || id_count < 1 || id_count > nranks)
        return rondo_group_error(rondo_fail(rondoInvalidArgument,
                                            ids ? "nId is %d, must be 1 to nranks, which is %d" : "commId is NULL",
                                            id_count, nranks));
    for (int i = 1; i < id_count; i++) /* nobody will come to these */
        rondo_bootstrap_forget(&ids[i]);
    return pncclCommInitRankConfig(comm, nranks, ids[0], rank, config);
}

ncclResult_t pncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist)
{
    if (comms && ndev == 0)
        return rondoSuccess;
    return rondoCommInitAll(comms, ndev, devlist);
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
    rondoConfig_t read;
    if (!config)
        return rondoCommSplit(comm, color, key, newcomm, NULL);
    RONDO_TRY(read_config(config, &read, newcomm));
    return rondoCommSplit(comm, color, key, newcomm, &read);
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int *exclude, int exclude_count, ncclComm_t *newcomm,
                             ncclConfig_t *config, int flags)
{
    rondoConfig_t read;
    if (!config)
        return rondoCommShrink(comm, exclude, exclude_count, newcomm, NULL, flags);
    RONDO_TRY(read_config(config, &read, newcomm));
    return rondoCommShrink(comm, exclude, exclude_count, newcomm, &read, flags);
}

ncclResult_t pncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
                           ncclConfig_t *config)
{
    rondoConfig_t read;
    if (comm && !config)
        return rondoCommGrow(comm, nranks, id, rank, newcomm, NULL);
    RONDO_TRY(read_config(config, &read, newcomm));
    return rondoCommGrow(comm, nranks, id, rank, newcomm, &read);
}

/* ---- their end ---- */

/* NCCL neither revokes a comm twice nor finalizes a revoked one. Of a dead comm the code is the same. */
static ncclResult_t check_revoked(ncclComm_t comm)
{
    if (comm && comm->magic == RONDO_COMM_MAGIC &&
        __atomic_load_n(&comm->revoked, __ATOMIC_ACQUIRE) != RONDO_NOT_REVOKED)
        return rondo_fail(rondoInvalidArgument, "comm was revoked before");
    return rondoSuccess;
}

ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
    RONDO_TRY(check_revoked(comm));
    if (comm && comm->magic == RONDO_COMM_MAGIC) {
        const int state = __atomic_load_n(&comm->state, __ATOMIC_ACQUIRE);
        if (state == RONDO_COMM_FINALIZED || state == RONDO_COMM_FINALIZING)
            return rondo_fail(rondoInvalidArgument, "comm was finalized before");
    }
    return rondoCommFinalize(comm);
}

ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
    return rondoCommDestroy(comm);
}

ncclResult_t pncclCommAbort(ncclComm_t comm)
{
    return rondoCommAbort(comm);
}

ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags)
{
    RONDO_TRY(check_revoked(comm));
    return rondoCommRevoke(comm, flags);
}

ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags)
{
    (void)flags;
    return rondo_nccl_refuse_comm(comm, "ncclCommSuspend", "a comm of Rondo's keeps its memory until it is destroyed");
}

ncclResult_t pncclCommResume(ncclComm_t comm)
{
    return rondo_nccl_refuse_comm(comm, "ncclCommResume", "a comm of Rondo's is never suspended");
}

NCCL_ALIAS(GetUniqueId);
NCCL_ALIAS(CommGetUniqueId);
NCCL_ALIAS(CommInitRank);
NCCL_ALIAS(CommInitRankConfig);
NCCL_ALIAS(CommInitRankScalable);
NCCL_ALIAS(CommInitAll);
NCCL_ALIAS(CommSplit);
NCCL_ALIAS(CommShrink);
NCCL_ALIAS(CommGrow);
NCCL_ALIAS(CommFinalize);
NCCL_ALIAS(CommDestroy);
NCCL_ALIAS(CommAbort);
NCCL_ALIAS(CommRevoke);
NCCL_ALIAS(CommSuspend);
NCCL_ALIAS(CommResume);
