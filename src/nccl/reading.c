#include "nccl/reading.h"

#include "rondo/rondo.h"

#include "common/env.h"
#include "common/face.h"
#include "common/log.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { ROOM = 256, MOST_CTAS = 128 };

static const char *read_text(const char *text, char *room)
{
    (void)room;
    return text;
}

static const char *read_none(const char *text, char *room)
{
    (void)text, (void)room;
    return NULL;
}

static const char *read_level(const char *text, char *room)
{
    (void)room;
    if (strcasecmp(text, "VERSION") == 0)
        return NULL;
    return strcasecmp(text, "ABORT") == 0 ? "INFO" : text;
}

/* What is no number stays as it is: who reads the row complains. */
static const char *read_kib(const char *text, char *room)
{
    char *end;
    const long bytes = strtol(text, &end, 0);
    if (*end)
        return text;
    snprintf(room, ROOM, "%ld", bytes / 1024);
    return room;
}

static const char *read_ctas(const char *text, char *room)
{
    char *end;
    const long ctas = strtol(text, &end, 0);
    if (*end || ctas <= MOST_CTAS)
        return text;
    snprintf(room, ROOM, "%d", MOST_CTAS);
    return room;
}

static const char *read_cumem(const char *text, char *room)
{
    (void)room;
    return strcmp(text, "-2") == 0 ? "1" : text;
}

static const char *read_policy(const char *text, char *room)
{
    (void)room;
    if (strcasestr(text, "ZERO"))
        return "2";
    if (strcasestr(text, "EFFICIENCY"))
        return "1";
    if (strcasestr(text, "DEFAULT"))
        return "0";
    return strcmp(text, "3") == 0 ? "2" : text;
}

static const char *read_algorithm(const char *text, char *room)
{
    (void)room;
    return strcmp(text, "oneshot") == 0 || strcmp(text, "twoshot") == 0 || strcmp(text, "ring") == 0 ? text : NULL;
}

static const char *read_protocol(const char *text, char *room)
{
    (void)room;
    if (strcasecmp(text, "LL") == 0 || strcasecmp(text, "LL128") == 0 || strcmp(text, "line") == 0)
        return "line";
    return strcasecmp(text, "Simple") == 0 || strcmp(text, "bulk") == 0 ? "bulk" : NULL;
}

/* Whether one of the names in a list, separated by commas, is what `name` begins with, or is it exactly. */
static bool listed(const char *list, const char *name, bool exactly)
{
    while (*list) {
        const size_t length = strcspn(list, ",");
        if (length && strncmp(list, name, length) == 0 && (!exactly || !name[length]))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static bool has_address(const struct ifaddrs *interface)
{
    const struct sockaddr *address = interface->ifa_addr;
    return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6) &&
           interface->ifa_flags & IFF_UP;
}

/* The first interface that NCCL would take. None: the id's address stays the loopback one, which always works on one host. */
static const char *read_interface(const char *text, char *room)
{
    const bool but = *text == '^', exactly = text[but] == '=';
    const char *list = text + but + exactly, *found = NULL;
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return NULL;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
        if (!has_address(i) || listed(list, i->ifa_name, exactly) == but || (but && i->ifa_flags & IFF_LOOPBACK))
            continue;
        snprintf(room, ROOM, "%s", i->ifa_name);
        found = room;
    }
    freeifaddrs(all);
    return found;
}

#define NCCL_PARAMETER(name, row, reading, help) {"NCCL_" #name, row, read_##reading},
const struct rondo_nccl_parameter rondo_nccl_parameters[] = {
#include "nccl/parameters.def"
};
#undef NCCL_PARAMETER
const size_t rondo_nccl_parameter_count = sizeof rondo_nccl_parameters / sizeof *rondo_nccl_parameters;

/* ---- the log's first lines ---- */

static void log_parameters(void)
{
    const int version = (int)rondo_env()->nccl_version;
    rondo_log_info(RONDO_LOG_INIT, "NCCL version %d.%d.%d, as served by Rondo %d.%d.%d", version / 10000,
                   version / 100 % 100, version % 100, RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH);
    for (size_t i = 0; i < rondo_nccl_parameter_count; i++) {
        const struct rondo_nccl_parameter *p = &rondo_nccl_parameters[i];
        const char *text = getenv(p->name);
        if (text && *text)
            rondo_log_info(RONDO_LOG_ENV, "%s set by environment to %s%s", p->name, text,
                           *p->row ? "" : ", which changes nothing");
    }
}

void rondo_nccl_log_parameters(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (rondo_log_enabled(RONDO_LOG_INFO))
        pthread_once(&once, log_parameters);
}

/* ---- the drop-in's face ---- */

static const char *alias(const char *row, const char **name, char *room)
{
    for (size_t i = 0; i < rondo_nccl_parameter_count; i++) {
        const struct rondo_nccl_parameter *p = &rondo_nccl_parameters[i];
        const char *text = strcmp(p->row, row) == 0 ? getenv(p->name) : NULL;
        const char *read = text && *text ? p->reading(text, room) : NULL;
        if (!read)
            continue;
        *name = p->name;
        return read;
    }
    return NULL;
}

const struct rondo_face *rondo_face(void)
{
    static const struct rondo_face face = {
        .tag = "NCCL", .shows_device = true, .logs_to_output = true, .patient = true, .alias = alias};
    return &face;
}
