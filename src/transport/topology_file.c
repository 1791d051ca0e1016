/* A topology as text: one line per node, docs/topology.md. What is written can be read again, and is then the same. */
#include "transport/topology.h"

#include "common/result.h"

#include <stdlib.h>
#include <string.h>

static const char *const iommus[RONDO_IOMMU_STATES] = {
    [RONDO_IOMMU_UNKNOWN] = "unknown",
    [RONDO_IOMMU_NONE] = "none",
    [RONDO_IOMMU_IDENTITY] = "identity",
    [RONDO_IOMMU_TRANSLATING] = "translating",
};

/* ---- writing ---- */

static void write_link(const struct rondo_pci_link *link, FILE *file)
{
    fprintf(file, " link=%ux%u max=%ux%u", link->speed, link->width, link->max_speed, link->max_width);
}

static void write_bridge(const struct rondo_topology *topology, const struct rondo_topology_bridge *bridge, FILE *file)
{
    fprintf(file, "bridge %s numa=%d", bridge->bus_id, bridge->numa);
    if (bridge->parent >= 0) {
        fprintf(file, " parent=%s class=%06x", topology->bridges[bridge->parent].bus_id, bridge->pci_class);
        write_link(&bridge->link, file);
        if (bridge->acs == RONDO_ACS_UNKNOWN)
            fputs(" acs=unknown", file);
        else
            fprintf(file, " acs=%x", (unsigned)bridge->acs);
    }
    fputc('\n', file);
}

static void write_gpu(const struct rondo_topology *topology, const struct rondo_topology_gpu *gpu, FILE *file)
{
    static const char *const answers[] = {"no", "yes"};
    fprintf(file, "gpu %s numa=%d", gpu->bus_id, gpu->numa);
    if (gpu->parent >= 0)
        fprintf(file, " parent=%s", topology->bridges[gpu->parent].bus_id);
    fputs(" uuid=", file);
    for (size_t i = 0; i < sizeof gpu->uuid; i++)
        fprintf(file, "%02x", gpu->uuid[i]);
    fprintf(file, " capability=%d visible=%s located=%s mig=%s iommu=%s", gpu->capability, answers[gpu->visible],
            answers[gpu->located], answers[gpu->mig], iommus[gpu->iommu]);
    write_link(&gpu->link, file);
    fputc('\n', file);
}

rondoResult_t rondo_topology_write(const struct rondo_topology *topology, FILE *file)
{
    fprintf(file, "rondo-topology 1\nmachine arch=%s cpu=%s nvswitches=%d\n", topology->arch, topology->cpu,
            topology->nvswitches);
    for (int n = 0; n < topology->numa_count; n++)
        fprintf(file, "numa %d cpus=%s\n", topology->numas[n].number, topology->numas[n].cpus);
    for (int b = 0; b < topology->bridge_count; b++)
        write_bridge(topology, &topology->bridges[b], file);
    for (int g = 0; g < topology->gpu_count; g++)
        write_gpu(topology, &topology->gpus[g], file);
    for (int a = 0; a < topology->gpu_count; a++)
        for (int b = a + 1; b < topology->gpu_count; b++)
            if (topology->nvlinks[a][b])
                fprintf(file, "nvlink %s %s links=%d\n", topology->gpus[a].bus_id, topology->gpus[b].bus_id,
                        topology->nvlinks[a][b]);
    return fflush(file) == 0 && !ferror(file) ? rondoSuccess
                                              : rondo_fail(rondoSystemError, "a topology was not written");
}

/* ---- reading: every function gives NULL, or what is wrong with the line ---- */

enum { MOST_WORDS = 16 };

static const char bad_value[] = "the value cannot be read";
static const char bad_key[] = "there is no such key";

static const char *read_int(const char *text, int base, long low, long high, int *value)
{
    char *end;
    const long read = strtol(text, &end, base);
    if (!*text || *end || read < low || read > high)
        return bad_value;
    *value = (int)read;
    return NULL;
}

static const char *read_text(const char *text, char *to, size_t room)
{
    return (size_t)snprintf(to, room, "%s", text) < room ? NULL : "the value is too long";
}

static const char *read_bool(const char *text, bool *value)
{
    *value = !strcmp(text, "yes");
    return *value || !strcmp(text, "no") ? NULL : "the value is neither yes nor no";
}

static const char *read_link(const char *text, unsigned *speed, unsigned *width)
{
    char rest;
    return sscanf(text, "%5ux%3u%c", speed, width, &rest) == 2 ? NULL : bad_value;
}

static const char *read_uuid(const char *text, uint8_t *uuid)
{
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1 || !text[2 * i + 1])
            return bad_value;
        uuid[i] = (uint8_t)byte;
        if (i == 15 && text[32])
            return bad_value;
    }
    return NULL;
}

static const char *read_iommu(const char *text, enum rondo_iommu *iommu)
{
    for (int i = 0; i < RONDO_IOMMU_STATES; i++) {
        if (!strcmp(text, iommus[i])) {
            *iommu = (enum rondo_iommu)i;
            return NULL;
        }
    }
    return bad_value;
}

static const char *read_parent(const struct rondo_topology *topology, const char *text, int *parent)
{
    for (int b = 0; b < topology->bridge_count; b++) {
        if (!strcmp(topology->bridges[b].bus_id, text)) {
            *parent = b;
            return NULL;
        }
    }
    return "the parent is no bridge of a line before";
}

static const char *set_machine(struct rondo_topology *topology, void *node, const char *key, const char *value)
{
    (void)node;
    if (!strcmp(key, "arch"))
        return read_text(value, topology->arch, sizeof topology->arch);
    if (!strcmp(key, "cpu"))
        return read_text(value, topology->cpu, sizeof topology->cpu);
    if (!strcmp(key, "nvswitches"))
        return read_int(value, 10, 0, 1024, &topology->nvswitches);
    return bad_key;
}

static const char *set_numa(struct rondo_topology *topology, void *node, const char *key, const char *value)
{
    struct rondo_topology_numa *numa = node;
    (void)topology;
    return strcmp(key, "cpus") ? bad_key : read_text(value, numa->cpus, sizeof numa->cpus);
}

static const char *set_bridge(struct rondo_topology *topology, void *node, const char *key, const char *value)
{
    struct rondo_topology_bridge *bridge = node;
    int number;
    if (!strcmp(key, "numa"))
        return read_int(value, 10, -1, 4096, &bridge->numa);
    if (!strcmp(key, "parent"))
        return read_parent(topology, value, &bridge->parent);
    if (!strcmp(key, "link"))
        return read_link(value, &bridge->link.speed, &bridge->link.width);
    if (!strcmp(key, "max"))
        return read_link(value, &bridge->link.max_speed, &bridge->link.max_width);
    if (!strcmp(key, "class")) {
        const char *wrong = read_int(value, 16, 0, 0xffffff, &number);
        bridge->pci_class = wrong ? 0 : (unsigned)number;
        return wrong;
    }
    if (!strcmp(key, "acs")) {
        bridge->acs = RONDO_ACS_UNKNOWN;
        return strcmp(value, "unknown") ? read_int(value, 16, 0, 0xffff, &bridge->acs) : NULL;
    }
    return bad_key;
}

static const char *set_gpu(struct rondo_topology *topology, void *node, const char *key, const char *value)
{
    struct rondo_topology_gpu *gpu = node;
    if (!strcmp(key, "numa"))
        return read_int(value, 10, -1, 4096, &gpu->numa);
    if (!strcmp(key, "parent"))
        return read_parent(topology, value, &gpu->parent);
    if (!strcmp(key, "uuid"))
        return read_uuid(value, gpu->uuid);
    if (!strcmp(key, "capability"))
        return read_int(value, 10, 0, 9999, &gpu->capability);
    if (!strcmp(key, "visible"))
        return read_bool(value, &gpu->visible);
    if (!strcmp(key, "located"))
        return read_bool(value, &gpu->located);
    if (!strcmp(key, "mig"))
        return read_bool(value, &gpu->mig);
    if (!strcmp(key, "iommu"))
        return read_iommu(value, &gpu->iommu);
    if (!strcmp(key, "link"))
        return read_link(value, &gpu->link.speed, &gpu->link.width);
    if (!strcmp(key, "max"))
        return read_link(value, &gpu->link.max_speed, &gpu->link.max_width);
    return bad_key;
}

static const char *set_nvlink(struct rondo_topology *topology, void *node, const char *key, const char *value)
{
    int *links = node;
    (void)topology;
    return strcmp(key, "links") ? bad_key : read_int(value, 10, RONDO_NVLINKS_UNKNOWN, 127, links);
}

/* KEY=VALUE words, from the `first` on. */
static const char *set_all(struct rondo_topology *topology, char **words, int first, int count, void *node,
                           const char *(*set)(struct rondo_topology *, void *, const char *, const char *))
{
    for (int i = first; i < count; i++) {
        char *equals = strchr(words[i], '=');
        if (!equals)
            return "a word is not KEY=VALUE";
        *equals = '\0';
        const char *wrong = set(topology, node, words[i], equals + 1);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *add_numa(struct rondo_topology *topology, char **words, int count)
{
    if (topology->numa_count == RONDO_TOPOLOGY_NUMAS)
        return "too many NUMA nodes";
    struct rondo_topology_numa *numa = &topology->numas[topology->numa_count];
    const char *wrong = count < 2 ? "a NUMA node needs a number" : read_int(words[1], 10, 0, 4096, &numa->number);
    topology->numa_count++;
    return wrong ? wrong : set_all(topology, words, 2, count, numa, set_numa);
}

static const char *add_bridge(struct rondo_topology *topology, char **words, int count)
{
    int twin;
    if (count < 2)
        return "a bridge needs a bus id";
    if (topology->bridge_count == RONDO_TOPOLOGY_BRIDGES)
        return "too many bridges";
    if (!read_parent(topology, words[1], &twin))
        return "a bridge of a line before has that bus id";
    struct rondo_topology_bridge *bridge = &topology->bridges[topology->bridge_count];
    bridge->parent = bridge->numa = -1;
    const char *wrong = read_text(words[1], bridge->bus_id, sizeof bridge->bus_id);
    wrong = wrong ? wrong : set_all(topology, words, 2, count, bridge, set_bridge);
    topology->bridge_count++; /* only now: it cannot be its own parent */
    return wrong;
}

static const char *add_gpu(struct rondo_topology *topology, char **words, int count)
{
    if (count < 2)
        return "a GPU needs a bus id";
    if (topology->gpu_count == RONDO_TOPOLOGY_GPUS)
        return "too many GPUs";
    struct rondo_topology_gpu *gpu = &topology->gpus[topology->gpu_count];
    gpu->parent = gpu->numa = -1;
    gpu->visible = gpu->located = true;
    const char *wrong = read_text(words[1], gpu->bus_id, sizeof gpu->bus_id);
    topology->gpu_count++;
    return wrong ? wrong : set_all(topology, words, 2, count, gpu, set_gpu);
}

static const char *add_nvlink(struct rondo_topology *topology, char **words, int count)
{
    int links = RONDO_NVLINKS_UNKNOWN;
    const int a = count < 3 ? -1 : rondo_topology_find(topology, words[1]);
    const int b = count < 3 ? -1 : rondo_topology_find(topology, words[2]);
    if (a < 0 || b < 0 || a == b)
        return "NVLink needs the bus ids of two GPUs of lines before";
    const char *wrong = set_all(topology, words, 3, count, &links, set_nvlink);
    topology->nvlinks[a][b] = topology->nvlinks[b][a] = (int8_t)links;
    return wrong;
}

static const char *set_machine_line(struct rondo_topology *topology, char **words, int count)
{
    return set_all(topology, words, 1, count, NULL, set_machine);
}

static const char *read_line(struct rondo_topology *topology, char *line)
{
    static const struct {
        const char *word;
        const char *(*read)(struct rondo_topology *topology, char **words, int count);
    } kinds[] = {{"machine", set_machine_line},
                 {"numa", add_numa},
                 {"bridge", add_bridge},
                 {"gpu", add_gpu},
                 {"nvlink", add_nvlink}};
    char *words[MOST_WORDS], *rest = line, *word;
    int count = 0;
    while ((word = strtok_r(rest, " \t\r\n", &rest)) && *word != '#') {
        if (count == MOST_WORDS)
            return "too many words";
        words[count++] = word;
    }
    if (count == 0)
        return NULL;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(words[0], kinds[k].word))
            return kinds[k].read(topology, words, count);
    return "there is no such kind of line";
}

rondoResult_t rondo_topology_read(struct rondo_topology *topology, FILE *file, const char *name)
{
    char line[1024];
    unsigned number = 0;
    int version = 0;
    memset(topology, 0, sizeof *topology);
    topology->from_file = true;
    while (fgets(line, sizeof line, file)) {
        const char *wrong = NULL;
        number++;
        if (strlen(line) == sizeof line - 1)
            wrong = "the line is too long";
        else if (!version && (sscanf(line, "rondo-topology %d", &version) != 1 || version != 1))
            wrong = "the first line is not \"rondo-topology 1\"";
        else if (number > 1)
            wrong = read_line(topology, line);
        if (wrong)
            return rondo_fail(rondoInvalidArgument, "%s:%u: %s", name, number, wrong);
    }
    return version ? rondoSuccess : rondo_fail(rondoInvalidArgument, "%s:1: the file is empty", name);
}
