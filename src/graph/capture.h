/* A comm's ops inside one capture: their order, and what their graph keeps alive. */
#ifndef RONDO_GRAPH_CAPTURE_H
#define RONDO_GRAPH_CAPTURE_H

#include "comm/comm.h"

/* Before the comm's next launch into `capture` on `stream`: orders it after the comm's last one in the same capture. The
 * first one makes the graph a holder of the comm's anchor. Under the comm's lock, device entered. */
rondoResult_t rondo_capture_begin(struct rondoComm *comm, struct CUstream_st *stream,
                                  const struct rondo_capture *capture, struct rondo_capture_record **record);

/* After the launch: notes its node. */
rondoResult_t rondo_capture_end(struct rondoComm *comm, struct CUstream_st *stream,
                                struct rondo_capture_record *record);

#endif
