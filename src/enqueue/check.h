/* Arguments of ops: refused here, with a text, before anything is enqueued. */
#ifndef RONDO_ENQUEUE_CHECK_H
#define RONDO_ENQUEUE_CHECK_H

#include "rondo/rondo.h"

rondoResult_t rondo_check_enums(int datatype, int op);

/* Not NULL, aligned to the type, and its end is an address. count is not 0, the type is valid. */
rondoResult_t rondo_check_buffer(const char *name, const void *buffer, size_t count, unsigned datatype);

/* The same buffer or none in common. */
rondoResult_t rondo_check_overlap(const void *send, const void *recv, size_t count, unsigned datatype);

#endif
