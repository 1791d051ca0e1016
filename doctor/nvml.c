/* The number of NVLinks, which only the driver's management library counts. It is found at run time; where it is not there,
 * or does not know, the numbers stay unknown. The declarations are of its stable interface. */
#include "doctor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LINKS_MOST = 36, NVML_OK = 0 };

struct nvml_pci {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus_id)(const char *bus_id, void **device);
    int (*link_state)(void *device, unsigned link, unsigned *active);
    int (*link_remote)(void *device, unsigned link, struct nvml_pci *remote);
};

static bool load(struct nvml *nvml)
{
    static const char *const names[] = {"nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetHandleByPciBusId_v2",
                                        "nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2"};
    void *entries[sizeof names / sizeof *names];
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(entries[i] = dlsym(library, names[i])))
            return false;
    _Static_assert(sizeof *nvml == sizeof entries, "an entry for each name, in this order");
    memcpy(nvml, entries, sizeof *nvml);
    return nvml->init() == NVML_OK;
}

/* "00000000:18:00.0" and "0000:18:00.0" are the same. */
static bool same_place(const char *a, const char *b)
{
    const size_t m = strlen(a), n = strlen(b);
    const size_t shorter = m < n ? m : n;
    return shorter >= 7 && !strcasecmp(a + m - shorter, b + n - shorter);
}

/* A device's links that lead to another device, counted for it, and those that lead to NVSwitches. */
static int count_links(const struct nvml *nvml, struct seen *seen, int a)
{
    void *device;
    int switched = 0;
    if (nvml->by_bus_id(seen->infos[a].bus_id, &device) != NVML_OK)
        return 0;
    for (unsigned link = 0; link < LINKS_MOST; link++) {
        struct nvml_pci remote;
        unsigned active = 0;
        int peer = -1;
        if (nvml->link_state(device, link, &active) != NVML_OK || !active)
            continue;
        memset(&remote, 0, sizeof remote);
        const bool named = nvml->link_remote(device, link, &remote) == NVML_OK;
        for (int b = 0; named && b < seen->count; b++)
            if (b != a && same_place(remote.bus_id, seen->infos[b].bus_id))
                peer = b;
        if (peer >= 0)
            seen->links[a][peer]++;
        else
            switched++;
    }
    return switched;
}

void nvml_count_links(struct seen *seen)
{
    struct nvml nvml;
    int switched[DOCTOR_DEVICES];
    if (!load(&nvml))
        return;
    for (int a = 0; a < seen->count; a++)
        switched[a] = count_links(&nvml, seen, a);
    for (int a = 0; a < seen->count; a++)
        for (int b = 0; b < seen->count; b++)
            if (a != b && !seen->links[a][b] && seen->peers[a][b].atomics)
                seen->links[a][b] = (int8_t)(switched[a] < switched[b] ? switched[a] : switched[b]);
    nvml.shutdown();
}
