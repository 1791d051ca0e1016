/* The words by which users are told what a launch consists of. All are constants. */
#ifndef RONDO_ENQUEUE_WORDS_H
#define RONDO_ENQUEUE_WORDS_H

#include "kernels/work.h"

const char *rondo_word_collective(unsigned collective);
const char *rondo_word_transfer(unsigned kind);
const char *rondo_word_type(unsigned dtype);
const char *rondo_word_redop(unsigned redop);
/* Of a work; NULL: of a barrier. */
const char *rondo_word_protocol(const struct rondo_work *work, int line_bytes);
const char *rondo_word_transfer_protocol(const struct rondo_transfer *transfer, int line_bytes);

#endif
