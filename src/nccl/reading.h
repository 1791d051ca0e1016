/* NCCL_* parameters as texts of Rondo's. */
#ifndef RONDO_NCCL_READING_H
#define RONDO_NCCL_READING_H

#include <stddef.h>

/* What stands in parameters.def. */
struct rondo_nccl_parameter {
    const char *name; /* NCCL's, with NCCL_ */
    const char *row;  /* Rondo's, without RONDO_; "": none */
    /* The row's text, maybe in `room` (256 bytes), or NULL: the parameter says nothing. */
    const char *(*reading)(const char *text, char *room);
};

extern const struct rondo_nccl_parameter rondo_nccl_parameters[];
extern const size_t rondo_nccl_parameter_count;

/* Logs, once per process, which version this is and which parameters the environment sets. */
void rondo_nccl_log_parameters(void);

#endif
