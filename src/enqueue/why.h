/* Why a work runs as it does. */
#ifndef RONDO_ENQUEUE_WHY_H
#define RONDO_ENQUEUE_WHY_H

#include "comm/limits.h"
#include "kernels/work.h"

#include <stddef.h>

/* A line about a work that has a launch of so many threads for itself: what decided about its exchange, protocol and shape. */
void rondo_why(const struct rondo_limits *limits, const struct rondo_work *work, unsigned threads, char *text,
               size_t room);

/* The same for messages. */
void rondo_why_message(const struct rondo_limits *limits, char *out, size_t room);

#endif
