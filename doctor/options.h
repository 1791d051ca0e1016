/* rondo-doctor's command line. */
#ifndef RONDO_DOCTOR_OPTIONS_H
#define RONDO_DOCTOR_OPTIONS_H

#include <stdbool.h>

enum { EXIT_USAGE = 3 };

struct options {
    bool quick;
    bool json;       /* instead of text */
    const char *svg; /* file, or NULL */
    int seconds;     /* that the run may take */
};

/* -1: go on; else the exit status. */
int options_parse(struct options *options, int argc, char **argv);

#endif
