#include "common/log.h"

#include "common/env.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum rondo_log_level threshold;
static FILE *file;
static char host[64];

/* The file's name, with %h and %p filled in. */
static void expand(const char *pattern, char *name, size_t room)
{
    size_t used = 0;
    for (; *pattern && used + 1 < room; pattern++) {
        if (pattern[0] == '%' && (pattern[1] == 'h' || pattern[1] == 'p')) {
            pattern++;
            int n = *pattern == 'h' ? snprintf(name + used, room - used, "%s", host)
                                    : snprintf(name + used, room - used, "%d", (int)getpid());
            used += (size_t)n < room - used ? (size_t)n : room - used - 1;
        } else {
            name[used++] = *pattern;
        }
    }
    name[used] = 0;
}

static void open_log(void)
{
    const struct rondo_env *env = rondo_env_unreported(); /* the report would wait for this function to end */
    static const char *const names[] = {"NONE", "WARN", "INFO", "TRACE"};
    for (int i = 0; env->debug && i < 4; i++)
        if (!strcasecmp(env->debug, names[i]))
            threshold = (enum rondo_log_level)i;
    gethostname(host, sizeof host - 1);
    if (threshold != RONDO_LOG_NONE && env->debug_file) {
        char name[512];
        expand(env->debug_file, name, sizeof name);
        file = fopen(name, "ae");
    }
    if (!file)
        file = stderr;
}

int rondo_log_enabled(enum rondo_log_level level)
{
    pthread_once(&once, open_log);
    return level <= threshold;
}

void rondo_log(enum rondo_log_level level, const char *format, ...)
{
    static const char *const names[] = {"", "WARN", "INFO", "TRACE"};
    if (!rondo_log_enabled(level))
        return;
    char line[1400];
    int used = snprintf(line, sizeof line, "%s:%d:%ld RONDO %s ", host, (int)getpid(), (long)syscall(SYS_gettid),
                        names[level]);
    va_list list;
    va_start(list, format);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, list);
    va_end(list);
    strcat(line, "\n");
    fputs(line, file); /* one call: stdio's lock keeps lines whole */
    fflush(file);
}
