/* A comm's ops inside one capture: their order, and what their graph keeps alive. */
#ifndef RONDO_GRAPH_CAPTURE_H
#define RONDO_GRAPH_CAPTURE_H

#include "comm/comm.h"

/* Before the comm's next launch into `capture` on `stream`: orders it after the comm's last one in the same graph, which captures
 * one after another may have added to. The first one makes the graph a holder of the comm's anchor. Under the comm's lock,
 * device entered.
 *
 * A body of a conditional node and a child graph are graphs of their own. What a program puts on branches beside such a node is
 * not ordered against what is in it: as with two graphs, the program does that, or uses another comm there. */
rondoResult_t rondo_capture_begin(struct rondoComm *comm, struct CUstream_st *stream,
                                  const struct rondo_capture *capture, struct rondo_capture_record **record);

/* The graph's hold on memory of its ops that is exported; NULL: there is none to be had, or the comm exports nothing. */
struct rondo_exports_hold *rondo_capture_hold(struct rondoComm *comm, struct rondo_capture_record *record);

/* Which lane captures run on from now on, RONDO_GRAPH_LANE_DEAL: one after another. The comm was entered. */
rondoResult_t rondo_capture_set_lane(struct rondoComm *comm, int lane);

/* After the launch, of `kernel`: notes its node. */
rondoResult_t rondo_capture_end(struct rondoComm *comm, struct CUstream_st *stream, const struct rondo_kernel *kernel,
                                struct rondo_capture_record *record);

/* Makes another stream of the group, whose end the launch depends on, go on from there, by one edge. */
rondoResult_t rondo_capture_continue(struct rondoComm *comm, struct CUstream_st *stream,
                                     const struct rondo_capture_record *record);

#endif
