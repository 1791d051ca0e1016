#include "support/ways.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const struct way ways[] = {
    {"P2P/direct pointer", RIG_THREADS, false, {NULL}},
    {"P2P/direct pointer/read", RIG_THREADS, false, {"P2P_READ_ENABLE=1"}},
    {"P2P/direct pointer/CE", RIG_THREADS, true, {"P2P_USE_CUDA_MEMCPY=1"}},
    {"P2P/CUMEM", RIG_THREADS, false, {"P2P_DIRECT_DISABLE=1"}},
    {"P2P/CUMEM", RIG_PROCESSES, false, {NULL}},
    {"P2P/CUMEM/read", RIG_PROCESSES, false, {"P2P_READ_ENABLE=1"}},
    {"P2P/CUMEM/CE", RIG_PROCESSES, true, {"P2P_USE_CUDA_MEMCPY=1"}},
    {"P2P/IPC", RIG_PROCESSES, false, {"CUMEM_ENABLE=0"}},
    {"P2P/IPC/read", RIG_PROCESSES, false, {"CUMEM_ENABLE=0", "P2P_READ_ENABLE=1"}},
    {"P2P/IPC/CE", RIG_PROCESSES, true, {"CUMEM_ENABLE=0", "P2P_USE_CUDA_MEMCPY=1"}},
    {"SHM/direct/direct", RIG_PROCESSES, false, {"P2P_DISABLE=1"}},
    {"SHM/direct/direct", RIG_PROCESSES, false, {"P2P_DISABLE=1", "SHM_LOCALITY=1"}},
    {"SHM/direct/direct", RIG_THREADS, false, {"P2P_DISABLE=1"}},
    {"SHM/CE/direct", RIG_PROCESSES, true, {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1"}},
    {"SHM/CE/direct", RIG_PROCESSES, true, {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_LOCALITY=1"}},
    {"SHM/direct/CE", RIG_PROCESSES, true, {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=2"}},
    {"SHM/direct/CE", RIG_THREADS, true, {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=2"}},
    {"SHM/CE/CE", RIG_PROCESSES, true, {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=3"}},
    {"SHM/CE/CE", RIG_THREADS, true, {"P2P_DISABLE=1", "SHM_USE_CUDA_MEMCPY=1", "SHM_MEMCPY_MODE=3"}},
};

int ways_count(void)
{
    return (int)(sizeof ways / sizeof *ways);
}

static const char *const names[] = {
    "P2P_DISABLE",  "P2P_DIRECT_DISABLE", "P2P_READ_ENABLE",     "P2P_USE_CUDA_MEMCPY", "CUMEM_ENABLE",
    "SHM_LOCALITY", "SHM_DISABLE",        "SHM_USE_CUDA_MEMCPY", "SHM_MEMCPY_MODE",     "P2P_LEVEL",
};

void way_set(const struct way *way)
{
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "RONDO_%s", names[i]);
        unsetenv(name);
    }
    for (size_t i = 0; i < sizeof way->settings / sizeof *way->settings && way->settings[i]; i++) {
        const char *equals = strchr(way->settings[i], '=');
        snprintf(name, sizeof name, "RONDO_%.*s", (int)(equals - way->settings[i]), way->settings[i]);
        setenv(name, equals + 1, 1);
    }
}

/* ---- the log ---- */

static char directory[64];

void log_begin(void)
{
    char file[96];
    if (directory[0])
        log_end();
    snprintf(directory, sizeof directory, "/tmp/rondo-paths-XXXXXX");
    if (!mkdtemp(directory))
        abort();
    snprintf(file, sizeof file, "%s/%%p", directory);
    setenv("RONDO_DEBUG", "INFO", 1);
    setenv("RONDO_DEBUG_FILE", file, 1);
}

/* Calls back with each line of the log, without its end. How many times that was true. */
static int count(bool (*is)(const char *line, const void *what), const void *what)
{
    DIR *dir = opendir(directory);
    int found = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char name[512], line[2048];
        snprintf(name, sizeof name, "%s/%s", directory, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(name, "re");
        while (file && fgets(line, sizeof line, file)) {
            line[strcspn(line, "\n")] = 0;
            found += is(line, what);
        }
        if (file)
            fclose(file);
    }
    if (dir)
        closedir(dir);
    return found;
}

static bool ends(const char *line, const void *what)
{
    const size_t length = strlen(what), all = strlen(line);
    return all >= length && !strcmp(line + all - length, what);
}

static bool holds(const char *line, const void *what)
{
    return strstr(line, what) != NULL;
}

int log_count(const char *end)
{
    return count(ends, end);
}

int log_count_with(const char *text)
{
    return count(holds, text);
}

struct path_line {
    int sender, receiver;
    const char *tail;
};

/* Devices and channels are the machine's. */
static bool is_path_line(const char *line, const void *what)
{
    const struct path_line *wanted = what;
    int sender, receiver, before = 0, ordinals[2];
    unsigned last;
    char devices[2][8], buses[2][32];
    const char *text = strstr(line, " RONDO INFO ");
    if (!text ||
        sscanf(text + 12, "rank %d[%7[A-Za-z] %d %31[^]]] -> rank %d[%7[A-Za-z] %d %31[^]]] channels 0-%u via %n",
               &sender, devices[0], &ordinals[0], buses[0], &receiver, devices[1], &ordinals[1], buses[1], &last,
               &before) != 9)
        /* the host device's have no bus */
        if (!text ||
            sscanf(text + 12, "rank %d[%7[A-Za-z] %d ] -> rank %d[%7[A-Za-z] %d ] channels 0-%u via %n", &sender,
                   devices[0], &ordinals[0], &receiver, devices[1], &ordinals[1], &last, &before) != 7)
            return false;
    return sender == wanted->sender && receiver == wanted->receiver && !strcmp(text + 12 + before, wanted->tail);
}

bool log_has_path(int sender, int receiver, const char *tail)
{
    const struct path_line wanted = {sender, receiver, tail};
    const int found = count(is_path_line, &wanted);
    if (found != 1)
        fprintf(stderr, "%d lines say that rank %d -> rank %d is via %s\n", found, sender, receiver, tail);
    return found == 1;
}

bool log_has_paths(const struct way *way, int ranks)
{
    bool all = true;
    if (RIG_SLOW && way->layout == RIG_PROCESSES)
        return true; /* they were threads */
    for (int s = 0; s < ranks; s++)
        for (int r = 0; r < ranks; r++)
            all &= s == r || log_has_path(s, r, way->tail);
    return all && log_count_with(" via ") == ranks * (ranks - 1);
}

void log_end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (directory[0] && system(command) != 0)
        fprintf(stderr, "%s stays\n", directory);
    directory[0] = 0;
    unsetenv("RONDO_DEBUG");
    unsetenv("RONDO_DEBUG_FILE");
}
