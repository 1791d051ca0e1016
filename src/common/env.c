#include "common/env.h"

#include "common/face.h"
#include "common/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct rondo_env values;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Parameters that did not parse. Written by read_all only, so constant once rondo_env_unreported has returned. */
static const char *bad[64];
static unsigned bad_count;

/* The text of RONDO_<row>, or what another parameter says of the row, maybe in `room`; NULL: nothing does. */
static const char *look_up(const char *row, const char **name, char *room)
{
    const char *text = getenv(*name);
    return text && *text ? text : rondo_face()->alias(row, name, room);
}

static long read_INT(const char *row, const char *name, long preset, long low, long high)
{
    char room[RONDO_FACE_ROOM], *end;
    const char *text = look_up(row, &name, room);
    if (!text)
        return preset;
    errno = 0;
    long value = strtol(text, &end, 0);
    if (errno || *end || ((value < low || value > high) && value != preset)) {
        if (bad_count < sizeof bad / sizeof *bad)
            bad[bad_count++] = name;
        return preset;
    }
    return value;
}

static const char *read_TEXT(const char *row, const char *name, const char *preset, long low, long high)
{
    char room[RONDO_FACE_ROOM];
    const char *text = look_up(row, &name, room);
    (void)low;
    (void)high;
    if (text == room)
        text = strdup(room); /* lives as long as the process */
    return text ? text : preset;
}

static void read_all(void)
{
#define RONDO_ENV(field, kind, name, preset, low, high, help) \
    values.field = read_##kind(#name, "RONDO_" #name, preset, low, high);
#include "common/env.def"
#undef RONDO_ENV
}

const struct rondo_env *rondo_env_unreported(void)
{
    pthread_once(&once, read_all);
    return &values;
}

/* What is wrong, and what is in force. (The drop-in says itself what NCCL's parameters did.) */
static void report(void)
{
    static const char *const names[] = {
#define RONDO_ENV(field, kind, name, preset, low, high, help) "RONDO_" #name,
#include "common/env.def"
#undef RONDO_ENV
    };
    for (unsigned i = 0; i < bad_count; i++)
        rondo_log(RONDO_LOG_WARN, "%s=%s is not a number within its bounds; ignored", bad[i], getenv(bad[i]));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        bool taken = text && *text;
        for (unsigned b = 0; b < bad_count; b++)
            taken &= strcmp(bad[b], names[i]) != 0;
        if (taken)
            rondo_log_info(RONDO_LOG_ENV, "%s set by environment to %s", names[i], text);
    }
}

const struct rondo_env *rondo_env(void)
{
    static bool reported; /* atomic; whoever sets it reports */
    const struct rondo_env *env = rondo_env_unreported();
    if (!__atomic_load_n(&reported, __ATOMIC_RELAXED) && !__atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
        report();
    return env;
}
