/* Programs that lie beside the test's own: where they are, and what they print. */
#ifndef RONDO_TESTS_PROGRAM_H
#define RONDO_TESTS_PROGRAM_H

#include <stddef.h>

/* The path of what lies beside the test; "": its directory. */
const char *program_beside(const char *name, char *path, size_t room);

/* Runs a command of the shell. `text` is what it printed, as much as has room. Its exit status; -1: it was killed. */
int program_run(const char *command, char *text, size_t room);

#endif
