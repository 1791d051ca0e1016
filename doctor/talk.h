/* How the two processes of a pair keep in step: small messages, both ways at once, with descriptors. */
#ifndef RONDO_DOCTOR_TALK_H
#define RONDO_DOCTOR_TALK_H

#include "probe.h"

/* Sends and receives `bytes`, and a descriptor each way (-1, NULL: none). False: the other does not answer within the limit. */
bool talk_swap(const struct probe *probe, const void *mine, void *theirs, size_t bytes, int fd, int *their_fd);

/* Whether both are well. *lost is set if the other does not answer. A process that has both sides agrees with itself. */
bool talk_agree(const struct probe *probe, bool well, bool *lost);

#endif
