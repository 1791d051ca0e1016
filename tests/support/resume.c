/* Criterion has main, so the processes that tests execute again (harness/procs.h) run their ranks before it. */
#include "harness/procs.h"

__attribute__((constructor)) static void resume(int argc, char **argv) /* glibc passes main's arguments */
{
    procs_resume(argc, argv);
}
