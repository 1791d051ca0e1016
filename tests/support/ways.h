/* Ways: the settings that force each path between ranks, and the log's word for it. */
#ifndef RONDO_TESTS_WAYS_H
#define RONDO_TESTS_WAYS_H

#include "support/rig.h"

struct way {
    const char *tail; /* of the line in the log: "P2P/CUMEM" */
    enum rig_layout layout;
    bool copies;             /* copy engines move the data, or some of it */
    const char *settings[4]; /* "P2P_DISABLE=1", NULL-terminated */
};

/* All that this machine can have. */
extern const struct way ways[];
int ways_count(void);

/* Puts the way's settings into the environment of ranks that are started later, and no others of this kind. */
void way_set(const struct way *way);

/* The log of ranks that are started later, at level INFO, begins anew in a directory of its own. */
void log_begin(void);

/* How many lines of it end with this text. */
int log_count(const char *end);

/* How many lines of it hold this text. */
int log_count_with(const char *text);

/* Whether there is one line for each pair of ranks, with the way's path. Complains otherwise. */
bool log_has_paths(const struct way *way, int ranks);

/* The path line from one rank to another. */
bool log_has_path(int sender, int receiver, const char *tail);

/* Removes it. */
void log_end(void);

#endif
