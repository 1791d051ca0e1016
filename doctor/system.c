/* What can be read without a device, and what it means. */
#include "doctor.h"
#include "mechanism.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- reading ---- */

static uint64_t limit_of(int resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

static void find_container(char *name, size_t room)
{
    static const char *const words[] = {"docker", "kubepods", "containerd", "libpod", "lxc", "garden"};
    char line[512];
    name[0] = '\0';
    if (access("/.dockerenv", F_OK) == 0)
        snprintf(name, room, "docker (/.dockerenv)");
    else if (access("/run/.containerenv", F_OK) == 0)
        snprintf(name, room, "podman (/run/.containerenv)");
    FILE *file = name[0] ? NULL : fopen("/proc/1/cgroup", "re");
    while (file && !name[0] && fgets(line, sizeof line, file))
        for (size_t i = 0; i < sizeof words / sizeof *words && !name[0]; i++)
            if (strstr(line, words[i]))
                snprintf(name, room, "%s (cgroup)", words[i]);
    if (file)
        fclose(file);
    file = name[0] ? NULL : fopen("/proc/mounts", "re");
    while (file && !name[0] && fgets(line, sizeof line, file))
        if (!strncmp(line, "overlay / overlay ", 18))
            snprintf(name, room, "yes (its root is an overlay)");
    if (file)
        fclose(file);
    const char *variable = getenv("container"); /* as systemd-nspawn, podman and others set it */
    if (!name[0] && variable)
        snprintf(name, room, "%.40s ($container)", variable);
}

static int count_device_files(void)
{
    int count = 0;
    DIR *dev = opendir("/dev");
    for (const struct dirent *entry; dev && (entry = readdir(dev));)
        count += !strncmp(entry->d_name, "nvidia", 6) && entry->d_name[6] >= '0' && entry->d_name[6] <= '9';
    if (dev)
        closedir(dev);
    return count;
}

void system_look(struct system *system)
{
    struct statvfs shm;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (gethostname(system->host, sizeof system->host - 1) != 0)
        system->host[0] = '\0';
    find_container(system->container, sizeof system->container);
    snprintf(system->visible_devices, sizeof system->visible_devices, "%s", visible ? visible : "");
    system->memlock = limit_of(RLIMIT_MEMLOCK);
    system->descriptors = limit_of(RLIMIT_NOFILE);
    if (statvfs("/dev/shm", &shm) == 0) {
        system->shm_bytes = (uint64_t)shm.f_blocks * shm.f_frsize;
        system->shm_free = (uint64_t)shm.f_bavail * shm.f_frsize;
    }
    system->device_files = count_device_files();
}

/* ---- judging ---- */

static void judge_link(struct findings *findings, const char *what, const char *bus_id,
                       const struct rondo_pci_link *link)
{
    if (link->width && link->max_width && link->width < link->max_width)
        findings_add(findings, SEVERITY_WARNING,
                     "Reseat the card or its riser, and look for a slot or bifurcation setting with fewer lanes.",
                     "%s %s: PCIe link of %u lanes, it could have %u", what, bus_id, link->width, link->max_width);
    if (link->speed && link->max_speed && link->speed < link->max_speed)
        findings_add(
            findings, SEVERITY_NOTE,
            "Idle GPUs slow their links down: look again under load. If it stays, look at the BIOS's link speed.",
            "%s %s: PCIe link at %.1f GT/s, it could run at %.1f", what, bus_id, link->speed * 0.1,
            link->max_speed * 0.1);
}

static void judge_gpu(struct doctor *doctor, const struct rondo_topology_gpu *gpu)
{
    struct findings *findings = &doctor->findings;
    judge_link(findings, "GPU", gpu->bus_id, &gpu->link);
    for (int b = gpu->parent; b >= 0 && doctor->topology->bridges[b].parent >= 0;
         b = doctor->topology->bridges[b].parent)
        judge_link(findings, "bridge", doctor->topology->bridges[b].bus_id, &doctor->topology->bridges[b].link);
    if (gpu->visible && !gpu->located)
        findings_add(
            findings, SEVERITY_NOTE,
            "Mount the host's /sys, or give the topology in RONDO_TOPO_FILE: without it distances are guesses.",
            "GPU %s: sysfs does not show its PCI device", gpu->bus_id);
    if (!gpu->visible && gpu->located && doctor->seen->count)
        findings_add(findings, SEVERITY_NOTE,
                     "Look at CUDA_VISIBLE_DEVICES and at the devices given to the container if that is not intended.",
                     "GPU %s: is in the machine, but hidden from this process", gpu->bus_id);
    if (gpu->mig)
        findings_add(findings, SEVERITY_NOTE, "Ranks on MIG instances exchange data through host memory.",
                     "GPU %s: used as a MIG instance, which has no peer access", gpu->bus_id);
    if (gpu->iommu == RONDO_IOMMU_TRANSLATING)
        findings_add(findings, SEVERITY_WARNING,
                     "On bare metal boot with iommu=pt; peer traffic over PCIe may be slow or fail otherwise.",
                     "GPU %s: the IOMMU translates its addresses", gpu->bus_id);
}

static void judge_mechanisms(struct doctor *doctor, const struct pair *pair)
{
    const bool access = doctor->seen->peers[pair->a][pair->b].access;
    for (int m = 0; m < mechanism_count; m++)
        if (pair->outcomes[m].kind == OUTCOME_UNAVAILABLE && (access || !mechanisms[m].p2p))
            findings_add(&doctor->findings, SEVERITY_NOTE, mechanisms[m].advice, "devices %d and %d: no %s: %.120s",
                         pair->a, pair->b, mechanisms[m].title, pair->outcomes[m].why);
}

static void judge_pairs(struct doctor *doctor)
{
    for (int i = 0; i < doctor->pair_count; i++) {
        const struct pair *pair = &doctor->pairs[i];
        judge_mechanisms(doctor, pair);
        if (pair->p2p.warnings & RONDO_P2P_ACS)
            findings_add(&doctor->findings, SEVERITY_WARNING,
                         "Switch ACS off on it (setpci ECAP_ACS+6.w=0, or in the BIOS) if the machine runs no VMs.",
                         "bridge %s: ACS sends traffic between peers up to the host bridge",
                         doctor->topology->bridges[pair->p2p.bridge].bus_id);
        if (pair->p2p.warnings & RONDO_P2P_ACS_UNKNOWN)
            findings_add(&doctor->findings, SEVERITY_NOTE,
                         "Run rondo-doctor as root once to see the bridges' registers.",
                         "ACS: the registers of bridges between GPUs cannot be read");
        if (!pair->p2p.allowed && doctor->seen->peers[pair->a][pair->b].access && pair->p2p.why)
            findings_add(&doctor->findings, SEVERITY_NOTE,
                         "If the pair is OK below, RONDO_P2P_LEVEL=SYS lets Rondo use P2P there: measure both.",
                         "devices %d and %d: Rondo will not use P2P: %s", pair->a, pair->b, pair->p2p.why);
        if (pair->verdict == VERDICT_BROKEN)
            findings_add(
                &doctor->findings, SEVERITY_FAULT,
                "Do not trust P2P here: set RONDO_P2P_DISABLE=1 until ACS, IOMMU, driver or cabling are repaired.",
                "devices %d and %d: peer access is reported, but does not work", pair->a, pair->b);
        else if (pair->verdict == VERDICT_INCONCLUSIVE)
            findings_add(&doctor->findings, SEVERITY_WARNING, "Run again on an idle machine, with a longer --timeout.",
                         "devices %d and %d: it could not be told what works", pair->a, pair->b);
    }
}

static void judge_limits(struct doctor *doctor)
{
    const struct system *system = &doctor->system;
    enum { FEWEST_DESCRIPTORS = 1024, LEAST_SHM_MIB = 64 };
    if (system->descriptors < FEWEST_DESCRIPTORS)
        findings_add(&doctor->findings, SEVERITY_WARNING, "Raise it with ulimit -n, or in the service's LimitNOFILE.",
                     "limits: %llu open files are few for many ranks", (unsigned long long)system->descriptors);
    if (system->shm_bytes < (uint64_t)LEAST_SHM_MIB << 20 || system->shm_bytes == (uint64_t)LEAST_SHM_MIB << 20)
        findings_add(&doctor->findings, SEVERITY_NOTE,
                     "Rondo does not use it; other libraries may need docker run --shm-size=1g.",
                     "limits: /dev/shm has %llu MiB", (unsigned long long)(system->shm_bytes >> 20));
    bool located = false;
    for (int g = 0; g < doctor->topology->gpu_count; g++)
        located |= doctor->topology->gpus[g].located && !doctor->topology->from_file;
    if (system->device_files == 0 && located)
        findings_add(&doctor->findings, SEVERITY_WARNING,
                     "Load the driver (nvidia-smi tells), or start the container with --gpus all.",
                     "the machine has GPUs, but there is no /dev/nvidia* and no driver to use them");
    if (system->device_files > 0 && !strcmp(doctor->seen->row, "host") && !getenv("RONDO_DEVICE"))
        findings_add(&doctor->findings, SEVERITY_WARNING, "RONDO_DEVICE=cuda rondo-doctor says why.",
                     "there is /dev/nvidia*, but Rondo finds no GPU that it can use: this is the host device");
    if (doctor->seen->text[0])
        findings_add(&doctor->findings, SEVERITY_WARNING, "Look at RONDO_DEVICE, the driver and CUDA_VISIBLE_DEVICES.",
                     "no device: %s", doctor->seen->text);
    if (doctor->seen->more)
        findings_add(&doctor->findings, SEVERITY_NOTE, "Choose others with CUDA_VISIBLE_DEVICES.",
                     "only the first %d devices were looked at", DOCTOR_DEVICES);
}

void system_judge(struct doctor *doctor)
{
    for (int g = 0; g < doctor->topology->gpu_count; g++)
        if (strncmp(doctor->topology->gpus[g].bus_id, "host:", 5))
            judge_gpu(doctor, &doctor->topology->gpus[g]);
    judge_limits(doctor);
    judge_pairs(doctor);
}
