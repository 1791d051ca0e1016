/* The call that says which lane captures run on. */
#include "comm/comm.h"
#include "common/result.h"
#include "graph/capture.h"

rondoResult_t rondoCommSetGraphLane(rondoComm_t comm, int lane)
{
    RONDO_TRY(rondo_comm_enter(comm));
    rondoResult_t result = rondo_capture_set_lane(comm, lane);
    rondo_comm_leave(comm);
    return result;
}
