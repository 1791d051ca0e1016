/* A topology from sysfs. The chain of bridges above a device is its real path: /sys/devices/pci0000:15/0000:15:01.0/…. */
#include "transport/topology.h"

#include "common/result.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { NVIDIA = 0x10de, DISPLAY_CLASS = 0x03, NVSWITCH_CLASS = 0x0680 };

/* The first line of DIR/NAME, "" if it cannot be read. */
static const char *line_of(const char *dir, const char *name, char *line, size_t room)
{
    char path[PATH_MAX];
    line[0] = '\0';
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return line;
    FILE *file = fopen(path, "re");
    if (!file)
        return line;
    if (!fgets(line, (int)room, file))
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static long number_of(const char *dir, const char *name, long otherwise)
{
    char line[64], *end;
    line_of(dir, name, line, sizeof line);
    long value = strtol(line, &end, 0);
    return end == line ? otherwise : value;
}

/* "16.0 GT/s PCIe" is 160, "Unknown" 0. */
static unsigned speed_of(const char *dir, const char *name)
{
    char line[64];
    const double speed = strtod(line_of(dir, name, line, sizeof line), NULL);
    return speed > 0 && speed < 1000 ? (unsigned)(speed * 10 + 0.5) : 0;
}

static unsigned width_of(const char *dir, const char *name)
{
    const long width = number_of(dir, name, 0);
    return width > 0 && width <= 64 ? (unsigned)width : 0; /* 255: the device does not know */
}

static struct rondo_pci_link link_of(const char *dir)
{
    return (struct rondo_pci_link){
        .speed = speed_of(dir, "current_link_speed"),
        .width = width_of(dir, "current_link_width"),
        .max_speed = speed_of(dir, "max_link_speed"),
        .max_width = width_of(dir, "max_link_width"),
    };
}

/* The ACS control register in the extended configuration space, which only root may read. */
static int acs_of(const char *dir)
{
    enum { SPACE = 4096, EXTENDED = 256, ACS = 0x000d, MOST = (SPACE - EXTENDED) / 8 };
    char path[PATH_MAX];
    unsigned char space[SPACE];
    if ((size_t)snprintf(path, sizeof path, "%s/config", dir) >= sizeof path)
        return RONDO_ACS_UNKNOWN;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return RONDO_ACS_UNKNOWN;
    const ssize_t got = read(fd, space, sizeof space);
    close(fd);
    if (got == EXTENDED)
        return 0; /* a conventional PCI device has no more */
    if (got < SPACE)
        return RONDO_ACS_UNKNOWN;
    unsigned at = EXTENDED;
    for (int i = 0; i < MOST && at >= EXTENDED && at <= SPACE - 8; i++) {
        const unsigned id = space[at] | (unsigned)space[at + 1] << 8;
        if (id == ACS)
            return space[at + 6] | space[at + 7] << 8;
        at = ((unsigned)space[at + 2] >> 4 | (unsigned)space[at + 3] << 4) & ~3u;
    }
    return 0;
}

static enum rondo_iommu iommu_of(const char *dir)
{
    char type[32], path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/iommu_group", dir) >= sizeof path)
        return RONDO_IOMMU_UNKNOWN;
    if (access(path, F_OK) != 0)
        return RONDO_IOMMU_NONE;
    line_of(path, "type", type, sizeof type);
    return !strcmp(type, "identity")  ? RONDO_IOMMU_IDENTITY
           : !strncmp(type, "DMA", 3) ? RONDO_IOMMU_TRANSLATING /* DMA, DMA-FQ */
                                      : RONDO_IOMMU_UNKNOWN;
}

/* "0000:15:01.0" */
static bool is_bus_id(const char *text)
{
    int colons = 0, dots = 0;
    for (const char *c = text; *c; c++) {
        colons += *c == ':';
        dots += *c == '.';
        if (!isxdigit((unsigned char)*c) && *c != ':' && *c != '.')
            return false;
    }
    return colons == 2 && dots == 1 && strlen(text) < RONDO_BUS_ID_BYTES;
}

/* The bridge that lies at `path` (its last part is its name), below `parent`. */
static rondoResult_t find_bridge(struct rondo_topology *topology, const char *path, int parent, int *bridge)
{
    const char *name = strrchr(path, '/') + 1;
    for (int b = 0; b < topology->bridge_count; b++) {
        if (!strcmp(topology->bridges[b].bus_id, name)) {
            *bridge = b;
            return rondoSuccess;
        }
    }
    if (topology->bridge_count == RONDO_TOPOLOGY_BRIDGES)
        return rondo_fail(rondoSystemError, "more than %d PCI bridges above GPUs", RONDO_TOPOLOGY_BRIDGES);
    struct rondo_topology_bridge *made = &topology->bridges[topology->bridge_count];
    memset(made, 0, sizeof *made);
    snprintf(made->bus_id, sizeof made->bus_id, "%.*s", (int)sizeof made->bus_id - 1, name);
    made->parent = parent;
    made->numa = (int)number_of(path, "numa_node", -1);
    if (parent >= 0) {
        made->pci_class = (unsigned)number_of(path, "class", 0);
        made->link = link_of(path);
        made->acs = acs_of(path);
    }
    *bridge = topology->bridge_count++;
    return rondoSuccess;
}

/* Adds the bridges of a device's real path, from the host bridge down; *parent is the lowest. */
static rondoResult_t add_chain(struct rondo_topology *topology, char *path, int *parent)
{
    *parent = -1;
    char *last = strrchr(path, '/');
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const char *name = strrchr(path, '/') + 1;
        rondoResult_t result = rondoSuccess;
        if (is_bus_id(name) || (!strncmp(name, "pci", 3) && isxdigit((unsigned char)name[3]) && strchr(name, ':')))
            result = find_bridge(topology, path, *parent, parent);
        *slash = '/';
        RONDO_TRY(result);
        if (slash == last)
            break;
    }
    return rondoSuccess;
}

static rondoResult_t add_gpu(struct rondo_topology *topology, const char *dir, const char *bus_id)
{
    char path[PATH_MAX];
    if (topology->gpu_count == RONDO_TOPOLOGY_GPUS)
        return rondo_fail(rondoSystemError, "more than %d GPUs", RONDO_TOPOLOGY_GPUS);
    struct rondo_topology_gpu *gpu = &topology->gpus[topology->gpu_count];
    memset(gpu, 0, sizeof *gpu);
    snprintf(gpu->bus_id, sizeof gpu->bus_id, "%.*s", (int)sizeof gpu->bus_id - 1, bus_id);
    gpu->parent = -1;
    gpu->located = true;
    gpu->numa = (int)number_of(dir, "numa_node", -1);
    gpu->iommu = iommu_of(dir);
    gpu->link = link_of(dir);
    if (realpath(dir, path))
        RONDO_TRY(add_chain(topology, path, &gpu->parent));
    topology->gpu_count++;
    return rondoSuccess;
}

static rondoResult_t add_pci(struct rondo_topology *topology, const char *sys)
{
    char devices[PATH_MAX], dir[PATH_MAX];
    struct dirent **entries;
    rondoResult_t result = rondoSuccess;
    snprintf(devices, sizeof devices, "%s/bus/pci/devices", sys);
    const int count = scandir(devices, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (result == rondoSuccess && is_bus_id(name) &&
            (size_t)snprintf(dir, sizeof dir, "%s/%s", devices, name) < sizeof dir &&
            number_of(dir, "vendor", 0) == NVIDIA) {
            const long class = number_of(dir, "class", 0);
            if (class >> 16 == DISPLAY_CLASS)
                result = add_gpu(topology, dir, name);
            topology->nvswitches += class >> 8 == NVSWITCH_CLASS;
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return result;
}

static void add_numas(struct rondo_topology *topology, const char *sys)
{
    char nodes[PATH_MAX], dir[PATH_MAX];
    struct dirent **entries;
    snprintf(nodes, sizeof nodes, "%s/devices/system/node", sys);
    const int count = scandir(nodes, &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (!strncmp(name, "node", 4) && isdigit((unsigned char)name[4]) &&
            topology->numa_count < RONDO_TOPOLOGY_NUMAS &&
            (size_t)snprintf(dir, sizeof dir, "%s/%s", nodes, name) < sizeof dir) {
            struct rondo_topology_numa *numa = &topology->numas[topology->numa_count++];
            numa->number = atoi(name + 4);
            line_of(dir, "cpulist", numa->cpus, sizeof numa->cpus);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void add_cpu(struct rondo_topology *topology, const char *proc)
{
    char path[PATH_MAX], line[256];
    struct utsname names;
    if (uname(&names) == 0)
        snprintf(topology->arch, sizeof topology->arch, "%.*s", (int)sizeof topology->arch - 1, names.machine);
    snprintf(path, sizeof path, "%s/cpuinfo", proc);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "vendor_id : %31s", topology->cpu) == 1)
            break;
    if (file)
        fclose(file);
}

rondoResult_t rondo_topology_read_sysfs(struct rondo_topology *topology, const char *sys, const char *proc)
{
    add_cpu(topology, proc);
    add_numas(topology, sys);
    return add_pci(topology, sys);
}
