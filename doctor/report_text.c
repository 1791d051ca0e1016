/* The report for people. */
#include "doctor.h"
#include "mechanism.h"

#include <stdio.h>
#include <string.h>

static bool on_host(const struct doctor *doctor)
{
    return !strcmp(doctor->seen->row, "host");
}

static void show_amount(FILE *file, const char *name, uint64_t bytes)
{
    if (bytes == UINT64_MAX)
        fprintf(file, "  %s unlimited", name);
    else
        fprintf(file, "  %s %llu MiB", name, (unsigned long long)(bytes >> 20));
}

static void show_system(const struct doctor *doctor, FILE *file)
{
    const struct system *system = &doctor->system;
    const struct rondo_topology *topology = doctor->topology;
    fprintf(file, "System\n  container: %s\n", system->container[0] ? system->container : "none seen");
    fprintf(file, "  /dev/nvidia*: %d", system->device_files);
    if (system->visible_devices[0])
        fprintf(file, "  CUDA_VISIBLE_DEVICES=%s", system->visible_devices);
    fprintf(file, "\n  limits:");
    show_amount(file, "memlock", system->memlock);
    show_amount(file, "/dev/shm", system->shm_bytes);
    show_amount(file, "(free)", system->shm_free);
    if (system->descriptors == UINT64_MAX)
        fprintf(file, "  files unlimited\n");
    else
        fprintf(file, "  files %llu\n", (unsigned long long)system->descriptors);
    fprintf(file, "  CPU: %s %s, %d NUMA node%s, %d NVSwitch%s\n\n", topology->arch, topology->cpu,
            topology->numa_count, topology->numa_count == 1 ? "" : "s", topology->nvswitches,
            topology->nvswitches == 1 ? "" : "es");
}

static void show_devices(const struct doctor *doctor, FILE *file)
{
    fprintf(file, "Devices (%s)\n", doctor->seen->row);
    for (int d = 0; d < doctor->seen->count; d++) {
        const struct rondo_device_info *info = &doctor->seen->infos[d];
        const int place = doctor->places[d];
        const struct rondo_pci_link *link = place < 0 ? NULL : &doctor->topology->gpus[place].link;
        fprintf(file, "  %2d  %s", d, info->name);
        if (info->capability)
            fprintf(file, ", compute capability %d.%d", info->capability / 10, info->capability % 10);
        if (info->bus_id[0])
            fprintf(file, ", %s", info->bus_id);
        if (link && link->width)
            fprintf(file, ", PCIe %.1f GT/s x%u", link->speed * 0.1, link->width);
        fprintf(file, "%s\n", info->mig ? ", MIG" : "");
    }
    fputc('\n', file);
}

static const char *cpus_of(const struct rondo_topology *topology, int numa)
{
    for (int n = 0; n < topology->numa_count; n++)
        if (topology->numas[n].number == numa)
            return topology->numas[n].cpus;
    return "?";
}

static void show_matrix(const struct doctor *doctor, FILE *file)
{
    const int count = doctor->seen->count;
    char text[16];
    fprintf(file, "Topology\n        ");
    for (int b = 0; b < count; b++) {
        snprintf(text, sizeof text, "GPU%d", b);
        fprintf(file, "%-7s", text);
    }
    fprintf(file, "%-20s NUMA\n", "CPUs");
    for (int a = 0; a < count; a++) {
        const int numa = doctor->places[a] < 0 ? -1 : doctor->topology->gpus[doctor->places[a]].numa;
        snprintf(text, sizeof text, "GPU%d", a);
        fprintf(file, "  %-6s", text);
        for (int b = 0; b < count; b++) {
            path_text(doctor, a, b, text, sizeof text);
            fprintf(file, "%-7s", text);
        }
        fprintf(file, "%-20s ", numa < 0 ? "?" : cpus_of(doctor->topology, numa));
        if (numa < 0)
            fprintf(file, "?\n");
        else
            fprintf(file, "%d\n", numa);
    }
    fprintf(file, on_host(doctor)
                      ? "  MEM: the host device, whose memory is all the same\n\n"
                      : "  NV#: # NVLinks (NVL: NVLink, their number unknown)  PIX: one PCI switch  PXB: several\n"
                        "  PHB: host bridges of one NUMA node, or unknown  SYS: several NUMA nodes\n\n");
}

static void show_outcome(const struct doctor *doctor, const struct pair *pair, int m, FILE *file)
{
    const struct outcome *outcome = &pair->outcomes[m];
    const char *title = on_host(doctor) ? mechanisms[m].host_title : mechanisms[m].title;
    fprintf(file, "    %-27s %-12s", title, outcome_name(outcome->kind));
    if (outcome->latency_us > 0)
        fprintf(file, "  %6.2f us", outcome->latency_us);
    if (outcome->write_gbs[0] > 0)
        fprintf(file, "  copies write %.1f / %.1f GB/s, read %.1f / %.1f", outcome->write_gbs[0], outcome->write_gbs[1],
                outcome->read_gbs[0], outcome->read_gbs[1]);
    if (outcome->why[0] && outcome->kind != OUTCOME_WORKS)
        fprintf(file, "  %s", outcome->why);
    fputc('\n', file);
}

static void show_pairs(const struct doctor *doctor, FILE *file)
{
    char path[16];
    fprintf(file, "Pairs: one-way latency between resident kernels; copies by the first / the second device\n");
    for (int i = 0; i < doctor->pair_count; i++) {
        const struct pair *pair = &doctor->pairs[i];
        path_text(doctor, pair->a, pair->b, path, sizeof path);
        fprintf(file, "  %d - %d  %s  %s; ", pair->a, pair->b, path, verdict_name(pair->verdict));
        if (pair->p2p.allowed)
            fprintf(file, "Rondo uses P2P, kernels %s\n", pair->p2p.read ? "read" : "write");
        else
            fprintf(file, "Rondo uses no P2P: %s\n",
                    pair->p2p.why ? pair->p2p.why : "a device has no place in the topology");
        for (int m = 0; m < mechanism_count; m++)
            show_outcome(doctor, pair, m, file);
    }
    if (doctor->pair_count == 0)
        fprintf(file, "  none: there %s\n", doctor->seen->count == 1 ? "is one device" : "is no device");
    fputc('\n', file);
}

void report_text(const struct doctor *doctor, FILE *file)
{
    const struct findings *findings = &doctor->findings;
    fprintf(file, "rondo-doctor %d.%d.%d on %s\n\n", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH, doctor->system.host);
    if (doctor->seen->text[0])
        fprintf(file, "No device: %s\n\n", doctor->seen->text);
    show_devices(doctor, file);
    show_matrix(doctor, file);
    show_system(doctor, file);
    show_pairs(doctor, file);
    fprintf(file, "Findings%s\n", findings->count ? "" : ": none");
    for (int i = 0; i < findings->count; i++)
        fprintf(file, "  %s: %s\n    %s\n", severity_name(findings->list[i].severity), findings->list[i].text,
                findings->list[i].advice);
    if (findings->left_out)
        fprintf(file, "  and %d more\n", findings->left_out);
    fprintf(file, "\n%s (%.1f s)\n", verdict_name(doctor->verdict), doctor->seconds);
}
