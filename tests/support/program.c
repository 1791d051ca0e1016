#include "support/program.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    abort();
}

const char *program_beside(const char *name, char *path, size_t room)
{
    char self[4000];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        fail("/proc/self/exe");
    self[length] = '\0';
    snprintf(path, room, "%s%s%s", dirname(self), *name ? "/" : "", name);
    return path;
}

int program_run(const char *command, char *text, size_t room)
{
    FILE *output = popen(command, "r");
    if (!output)
        fail("popen");
    text[fread(text, 1, room - 1, output)] = '\0';
    const int status = pclose(output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
