#include "transport/topology.h"

#include "common/env.h"
#include "common/log.h"
#include "common/result.h"
#include "device/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

rondoResult_t rondo_topology_create(struct rondo_topology **topology)
{
    *topology = calloc(1, sizeof **topology);
    return *topology ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
}

void rondo_topology_destroy(struct rondo_topology *topology)
{
    free(topology);
}

static rondoResult_t read_file(struct rondo_topology *topology, const char *name)
{
    FILE *file = fopen(name, "re");
    if (!file)
        return rondo_fail(rondoInvalidUsage, "RONDO_TOPO_FILE: %s: %s", name, strerror(errno));
    rondoResult_t result = rondo_topology_read(topology, file, name);
    fclose(file);
    return result;
}

rondoResult_t rondo_topology_load(struct rondo_topology **topology)
{
    const char *name = rondo_env()->topo_file;
    struct rondo_topology *made;
    RONDO_TRY(rondo_topology_create(&made));
    rondoResult_t result = name ? read_file(made, name) : rondo_topology_read_sysfs(made, "/sys", "/proc");
    if (result != rondoSuccess)
        rondo_topology_destroy(made);
    else
        *topology = made;
    return result;
}

void rondo_topology_dump(const struct rondo_topology *topology)
{
    static bool dumped; /* atomic; whoever sets it dumps */
    const char *name = rondo_env()->topo_dump_file;
    if (!name || __atomic_exchange_n(&dumped, true, __ATOMIC_RELAXED))
        return;
    FILE *file = fopen(name, "we");
    if (!file) {
        rondo_log(RONDO_LOG_WARN, "RONDO_TOPO_DUMP_FILE: %s: %s", name, strerror(errno));
        return;
    }
    if (rondo_topology_write(topology, file) != rondoSuccess)
        rondo_log(RONDO_LOG_WARN, "RONDO_TOPO_DUMP_FILE: %s: cannot be written", name);
    fclose(file);
}

/* ---- devices ---- */

int rondo_topology_find(const struct rondo_topology *topology, const char *bus_id)
{
    for (int g = 0; g < topology->gpu_count; g++)
        if (!strcasecmp(topology->gpus[g].bus_id, bus_id))
            return g;
    return -1;
}

static bool unknown_uuid(const uint8_t *uuid)
{
    static const uint8_t zeros[16];
    return !memcmp(uuid, zeros, sizeof zeros);
}

/* The GPU with this UUID, else the one in this place whose UUID is not known yet. */
static int find_device(const struct rondo_topology *topology, const struct rondo_topology_device *device)
{
    int place = -1;
    for (int g = 0; g < topology->gpu_count; g++) {
        const struct rondo_topology_gpu *gpu = &topology->gpus[g];
        if (!memcmp(gpu->uuid, device->uuid, sizeof gpu->uuid))
            return g;
        if (place < 0 && unknown_uuid(gpu->uuid) && !strcasecmp(gpu->bus_id, device->bus_id))
            place = g;
    }
    return place;
}

/* A GPU that sysfs does not show, or another instance in a place that it does. */
static int add_device(struct rondo_topology *topology, const struct rondo_topology_device *device)
{
    const int number = topology->gpu_count;
    if (number == RONDO_TOPOLOGY_GPUS)
        return -1;
    struct rondo_topology_gpu *gpu = &topology->gpus[number];
    const int neighbor = device->bus_id[0] ? rondo_topology_find(topology, device->bus_id) : -1;
    if (neighbor >= 0) {
        *gpu = topology->gpus[neighbor];
    } else {
        memset(gpu, 0, sizeof *gpu);
        gpu->parent = gpu->numa = -1;
    }
    if (device->bus_id[0])
        snprintf(gpu->bus_id, sizeof gpu->bus_id, "%s", device->bus_id);
    else
        snprintf(gpu->bus_id, sizeof gpu->bus_id, "host:%d", number);
    for (char *c = gpu->bus_id; *c; c++)
        if (*c >= 'A' && *c <= 'F')
            *c = (char)(*c - 'A' + 'a');
    topology->gpu_count++;
    return number;
}

int rondo_topology_place(struct rondo_topology *topology, const struct rondo_topology_device *device)
{
    if (topology->from_file) {
        const int g = rondo_topology_find(topology, device->bus_id);
        return g >= 0 ? g : device->ordinal >= 0 && device->ordinal < topology->gpu_count ? device->ordinal : -1;
    }
    int g = find_device(topology, device);
    if (g < 0)
        g = add_device(topology, device);
    if (g < 0)
        return -1;
    struct rondo_topology_gpu *gpu = &topology->gpus[g];
    memcpy(gpu->uuid, device->uuid, sizeof gpu->uuid);
    gpu->capability = device->capability;
    gpu->mig = device->mig;
    gpu->visible = true;
    return g;
}

void rondo_topology_join(struct rondo_topology *topology, int a, int b, const struct rondo_peer_info *peer)
{
    if (topology->from_file || a == b || a < 0 || b < 0)
        return;
    /* Native atomics on a peer's memory need NVLink or NVLink-C2C. Where the driver cannot be asked about a GPU that is hidden
     * from this process, NVSwitches say it: they join all GPUs of a machine that has them. */
    const bool nvlink = peer->known ? peer->access && peer->atomics : topology->nvswitches > 0;
    if (nvlink && !topology->nvlinks[a][b])
        topology->nvlinks[a][b] = topology->nvlinks[b][a] = RONDO_NVLINKS_UNKNOWN;
}

/* ---- paths ---- */

const char *rondo_path_name(enum rondo_path_type type)
{
    static const char *const names[RONDO_PATH_TYPES] = {
        [RONDO_PATH_LOC] = "LOC", [RONDO_PATH_NVL] = "NVL", [RONDO_PATH_PIX] = "PIX",
        [RONDO_PATH_PXB] = "PXB", [RONDO_PATH_PHB] = "PHB", [RONDO_PATH_SYS] = "SYS",
    };
    return names[type];
}

/* Bridges from a GPU up to `ancestor`, that one included; up to the root for -1. */
static int climb(const struct rondo_topology *topology, int gpu, int ancestor)
{
    int steps = 0;
    for (int b = topology->gpus[gpu].parent; b >= 0; b = topology->bridges[b].parent) {
        steps++;
        if (b == ancestor)
            break;
    }
    return steps;
}

/* The lowest bridge above both, -1: none. */
static int common_bridge(const struct rondo_topology *topology, int a, int b)
{
    for (int x = topology->gpus[a].parent; x >= 0; x = topology->bridges[x].parent)
        for (int y = topology->gpus[b].parent; y >= 0; y = topology->bridges[y].parent)
            if (x == y)
                return x;
    return -1;
}

enum rondo_path_type rondo_topology_path(const struct rondo_topology *topology, int a, int b)
{
    enum { SWITCH_STEPS = 2 }; /* a switch is its port towards the GPU, and the one upwards that both share */
    const struct rondo_topology_gpu *first = &topology->gpus[a], *second = &topology->gpus[b];
    if (a == b || (first->mig && second->mig && !strcmp(first->bus_id, second->bus_id)))
        return RONDO_PATH_LOC;
    if (topology->nvlinks[a][b])
        return RONDO_PATH_NVL;
    const int common = common_bridge(topology, a, b);
    if (common >= 0 && topology->bridges[common].parent >= 0) {
        const int up = climb(topology, a, common), down = climb(topology, b, common);
        return up <= SWITCH_STEPS && down <= SWITCH_STEPS ? RONDO_PATH_PIX : RONDO_PATH_PXB;
    }
    if (common >= 0 || first->numa < 0 || second->numa < 0 || first->numa == second->numa)
        return RONDO_PATH_PHB;
    return RONDO_PATH_SYS;
}

static int redirecting(const struct rondo_topology *topology, int gpu, int ancestor, bool *unknown)
{
    for (int b = topology->gpus[gpu].parent; b >= 0 && b != ancestor; b = topology->bridges[b].parent) {
        if (topology->bridges[b].acs == RONDO_ACS_UNKNOWN)
            *unknown = true;
        else if (topology->bridges[b].acs & RONDO_ACS_REDIRECT)
            return b;
    }
    return -1;
}

int rondo_topology_acs(const struct rondo_topology *topology, int a, int b, bool *unknown)
{
    const int common = common_bridge(topology, a, b);
    *unknown = false;
    const int up = redirecting(topology, a, common, unknown);
    return up >= 0 ? up : redirecting(topology, b, common, unknown);
}

int rondo_topology_between(const struct rondo_topology *topology, int a, int b)
{
    for (int g = 0; g < topology->gpu_count; g++)
        if (g != a && g != b && topology->nvlinks[a][g] && topology->nvlinks[g][b])
            return g;
    return -1;
}

bool rondo_topology_cpus(const struct rondo_topology *topology, int gpu, cpu_set_t *cpus)
{
    const char *list = "";
    CPU_ZERO(cpus);
    for (int n = 0; n < topology->numa_count; n++)
        if (topology->numas[n].number == topology->gpus[gpu].numa)
            list = topology->numas[n].cpus;
    while (*list) { /* "0-15,32-47" */
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu >= 0 && cpu < CPU_SETSIZE; cpu++)
            CPU_SET((size_t)cpu, cpus);
        list = *end == ',' ? end + 1 : "";
    }
    return CPU_COUNT(cpus) > 0;
}
