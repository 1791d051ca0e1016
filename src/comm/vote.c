#include "comm/vote.h"

#include "comm/bootstrap.h"
#include "common/result.h"

rondoResult_t rondo_comm_vote(struct rondoComm *comm, rondoResult_t mine, const char *what)
{
    int votes[RONDO_MAX_RANKS], my_vote = mine;
    RONDO_TRY(rondo_bootstrap_all_gather(comm->bootstrap, &my_vote, votes, sizeof my_vote));
    if (mine != rondoSuccess)
        return mine;
    for (int r = 0; r < comm->ranks; r++)
        if (votes[r] != rondoSuccess)
            return rondo_fail(rondoRemoteError, "rank %d failed in comm init: %s: %s", r, what,
                              rondo_result_text(votes[r]));
    return rondoSuccess;
}
