/* The face that this copy of Rondo shows: its own, or NCCL's in the drop-in, which has a rondo_face of its own (src/nccl). */
#ifndef RONDO_COMMON_FACE_H
#define RONDO_COMMON_FACE_H

#include <stdbool.h>

enum { RONDO_FACE_ROOM = 256 };

struct rondo_face {
    const char *tag;     /* in log lines, and before parameters' names */
    bool shows_device;   /* in log lines */
    bool logs_to_output; /* standard output instead of standard error, where no file is named */
    /* Comms are finalized and destroyed after their ops, however long these take. Ops may follow when a peer has left: what it sent
     * before is there, and the others may have some for each other. */
    bool patient;
    /* What another parameter says of a row of env.def that its own does not set: a text, maybe in `room`, and that parameter's
     * name; or NULL. */
    const char *(*alias)(const char *row, const char **name, char *room);
};

/* Constant. The default is weak: the linker prefers another. */
const struct rondo_face *rondo_face(void);

#endif
