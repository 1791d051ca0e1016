#include "common/numa.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* First line of a file; false: there is none. */
static int first_line(const char *path, char *line, size_t room)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const int found = fgets(line, (int)room, file) != NULL;
    fclose(file);
    return found;
}

int rondo_numa_node_of(const char *bus_id)
{
    char path[128], line[32];
    const int used = snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus_id);
    if (used < 0 || (size_t)used >= sizeof path)
        return -1;
    for (char *c = path; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return first_line(path, line, sizeof line) ? atoi(line) : -1;
}

void rondo_numa_place(void *address, size_t bytes, int node)
{
    enum { PREFERRED = 1, NODES = 1024 }; /* mbind(2); called as it is, for no library of ours is to need libnuma */
    unsigned long mask[NODES / (8 * sizeof(unsigned long))] = {0};
    if (node < 0 || node >= NODES)
        return;
    mask[(size_t)node / (8 * sizeof *mask)] |= 1ul << ((size_t)node % (8 * sizeof *mask));
    (void)syscall(SYS_mbind, address, bytes, PREFERRED, mask, (unsigned long)NODES, 0u);
}

/* Adds the CPUs of a list as the kernel writes them: "0-3,8,10-11". */
static void add_cpus(const char *list, cpu_set_t *set)
{
    char *end;
    for (const char *at = list; isdigit((unsigned char)*at); at = end + (*end == ',')) {
        const unsigned long first = strtoul(at, &end, 10);
        unsigned long last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, set);
    }
}

void rondo_numa_stay(int node)
{
    char path[64], line[1024];
    cpu_set_t near, own, both;
    if (node < 0)
        return;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    CPU_ZERO(&near);
    if (!first_line(path, line, sizeof line) || sched_getaffinity(0, sizeof own, &own) != 0)
        return;
    add_cpus(line, &near);
    CPU_AND(&both, &near, &own);
    if (CPU_COUNT(&both))
        (void)sched_setaffinity(0, sizeof both, &both);
}
