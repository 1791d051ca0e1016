#include "common/log.h"

#include "common/env.h"
#include "common/face.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum rondo_log_level threshold;
static FILE *file;
static char host[64];
static unsigned parts; /* of level INFO, that are logged: a bit each */
static _Thread_local int device;

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

/* Which parts a list of names, after a ^ all but these, asks for. Names of parts that Rondo has not are NCCL's. */
static unsigned parse_parts(const char *list)
{
    static const char *const names[] = {
        [RONDO_LOG_INIT] = "INIT", [RONDO_LOG_BOOTSTRAP] = "BOOTSTRAP", [RONDO_LOG_ENV] = "ENV"};
    const bool but = *list == '^';
    unsigned named = 0;
    for (list += but; *list;) {
        const size_t length = strcspn(list, ",");
        if (length == 3 && strncasecmp(list, "ALL", length) == 0)
            named = ~0u;
        for (unsigned p = 0; p < sizeof names / sizeof *names; p++)
            if (strlen(names[p]) == length && strncasecmp(list, names[p], length) == 0)
                named |= 1u << p;
        list += length + (list[length] == ',');
    }
    return but ? ~named : named;
}

static void open_log(void)
{
    const struct rondo_env *env = rondo_env_unreported(); /* the report would wait for this function to end */
    static const char *const names[] = {"NONE", "WARN", "INFO", "TRACE"};
    for (int i = 0; env->debug && i < 4; i++)
        if (!strcasecmp(env->debug, names[i]))
            threshold = (enum rondo_log_level)i;
    parts = env->debug_subsys ? parse_parts(env->debug_subsys) : ~0u;
    gethostname(host, sizeof host - 1);
    if (threshold != RONDO_LOG_NONE && env->debug_file) {
        char name[512];
        expand(env->debug_file, name, sizeof name);
        file = fopen(name, "ae");
    }
    if (!file)
        file = rondo_face()->logs_to_output ? stdout : stderr;
}

int rondo_log_enabled(enum rondo_log_level level)
{
    pthread_once(&once, open_log);
    return level <= threshold;
}

void rondo_log_device(int ordinal)
{
    device = ordinal;
}

static void write_line(enum rondo_log_level level, const char *format, va_list list)
{
    static const char *const names[] = {"", "WARN", "INFO", "TRACE"};
    const struct rondo_face *face = rondo_face();
    char line[1400], on[16] = "";
    if (face->shows_device)
        snprintf(on, sizeof on, "[%d] ", device);
    int used = snprintf(line, sizeof line, "%s:%d:%ld %s%s %s ", host, (int)getpid(), (long)syscall(SYS_gettid), on,
                        face->tag, names[level]);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, list);
    strcat(line, "\n");
    fputs(line, file); /* one call: stdio's lock keeps lines whole */
    fflush(file);
}

void rondo_log(enum rondo_log_level level, const char *format, ...)
{
    va_list list;
    if (!rondo_log_enabled(level))
        return;
    va_start(list, format);
    write_line(level, format, list);
    va_end(list);
}

void rondo_log_info(enum rondo_log_part part, const char *format, ...)
{
    va_list list;
    if (!rondo_log_enabled(RONDO_LOG_INFO) || !(parts >> part & 1))
        return;
    va_start(list, format);
    write_line(RONDO_LOG_INFO, format, list);
    va_end(list);
}
