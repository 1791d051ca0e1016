/* What a comm does with ops of which size, for the log. */
#ifndef RONDO_ENQUEUE_EXPLAIN_H
#define RONDO_ENQUEUE_EXPLAIN_H

struct rondoComm;

/* At level INFO: for each collective, from which bytes of a flow on which exchange and protocol are used. */
void rondo_choices_log(struct rondoComm *comm);

#endif
