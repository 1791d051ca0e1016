#include "support/growing.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

void growing_needs(int ranks)
{
    if (rig_ranks_most(ranks) < ranks)
        cr_skip_test("needs %d ranks", ranks);
}

int growing_make_old(struct rig *rig, int ranks, rondoComm_t *comm)
{
    *comm = NULL;
    if (rig->rank < ranks)
        RIG_OK(rondoCommInitRank(comm, ranks, rig->ids[1], rig->rank));
    return 0;
}

int growing_share_id(struct rig *rig, rondoComm_t comm, int giver, rondoUniqueId *id)
{
    if (rig->rank == giver)
        RIG_OK(rondoCommGetUniqueId(comm, (rondoUniqueId *)rig->scratch));
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    memcpy(id, rig->scratch, sizeof *id);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    return 0;
}

rondoResult_t growing_call(struct rig *rig, rondoComm_t comm, int ranks, const rondoUniqueId *id, int giver,
                           rondoComm_t *grown)
{
    return rondoCommGrow(comm, ranks, comm && rig->rank != giver ? NULL : id, comm ? -1 : rig->rank, grown, NULL);
}
