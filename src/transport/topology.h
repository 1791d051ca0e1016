/* The machine as a graph: GPUs, the PCI bridges above them up to the host bridges, NUMA nodes, and NVLink between GPUs.
 * Pure data once it is made: from sysfs (topology_sysfs.c), from a file (topology_file.c), and from what the device layer
 * knows about GPUs and pairs of them. docs/topology.md says how each was taken from NCCL, and the file's format. */
#ifndef RONDO_TRANSPORT_TOPOLOGY_H
#define RONDO_TRANSPORT_TOPOLOGY_H

#include "rondo/rondo.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct rondo_peer_info;

enum {
    RONDO_TOPOLOGY_GPUS = 64,
    RONDO_TOPOLOGY_BRIDGES = 512,
    RONDO_TOPOLOGY_NUMAS = 64,
    RONDO_BUS_ID_BYTES = 24,
    RONDO_NVLINKS_UNKNOWN = -1, /* there is NVLink, of an unknown number of links */
    RONDO_ACS_UNKNOWN = -1,
    RONDO_ACS_REDIRECT = 0x1c, /* request redirect, completion redirect, upstream forwarding */
};

/* How far two GPUs are apart, nearest first; the names are NCCL's. */
enum rondo_path_type {
    RONDO_PATH_LOC, /* the same GPU */
    RONDO_PATH_NVL, /* NVLink, directly or through NVSwitches */
    RONDO_PATH_PIX, /* one PCI switch at most */
    RONDO_PATH_PXB, /* several PCI switches, no host bridge */
    RONDO_PATH_PHB, /* host bridges of one NUMA node; also GPUs of whose place nothing is known */
    RONDO_PATH_SYS, /* NUMA nodes */
    RONDO_PATH_TYPES
};

/* Speeds are tenths of GT/s (160: PCIe 4.0); 0: unknown. */
struct rondo_pci_link {
    unsigned speed, width, max_speed, max_width;
};

/* What stands between a device's DMA and memory. */
enum rondo_iommu {
    RONDO_IOMMU_UNKNOWN,
    RONDO_IOMMU_NONE,
    RONDO_IOMMU_IDENTITY,
    RONDO_IOMMU_TRANSLATING,
    RONDO_IOMMU_STATES
};

struct rondo_topology_bridge {
    char bus_id[RONDO_BUS_ID_BYTES]; /* "0000:16:01.0"; a host bridge: "pci0000:16" */
    int parent;                      /* the bridge above, before this one in the list; -1: this is a host bridge */
    int numa;                        /* -1: unknown */
    unsigned pci_class;              /* 0x060400 */
    struct rondo_pci_link link;      /* upwards */
    int acs;                         /* ACS control register, 0 where it has none, RONDO_ACS_UNKNOWN */
};

struct rondo_topology_gpu {
    char bus_id[RONDO_BUS_ID_BYTES]; /* lower case; MIG instances of a GPU share one; host device: "host:0" */
    uint8_t uuid[16];                /* zeros: unknown */
    int parent;                      /* the bridge above, -1: unknown */
    int numa;                        /* -1: unknown */
    int capability;                  /* 90 for 9.0; 0: unknown */
    bool visible;                    /* to the driver in this process */
    bool located;                    /* sysfs has its PCI device; a container may hide it */
    bool mig;                        /* an instance of a part of it */
    enum rondo_iommu iommu;
    struct rondo_pci_link link;
};

struct rondo_topology_numa {
    int number;
    char cpus[256]; /* as the kernel writes lists: "0-15,32-47"; "" where there are none */
};

struct rondo_topology {
    bool from_file; /* then devices are not added, and are found by their order where no bus id matches */
    char arch[16];  /* "x86_64", as uname says it */
    char cpu[32];   /* vendor_id of /proc/cpuinfo, "": unknown */
    int nvswitches; /* PCI devices of that kind */
    int gpu_count, bridge_count, numa_count;
    struct rondo_topology_gpu gpus[RONDO_TOPOLOGY_GPUS];
    struct rondo_topology_bridge bridges[RONDO_TOPOLOGY_BRIDGES];
    struct rondo_topology_numa numas[RONDO_TOPOLOGY_NUMAS];
    int8_t nvlinks[RONDO_TOPOLOGY_GPUS][RONDO_TOPOLOGY_GPUS]; /* symmetric: links, RONDO_NVLINKS_UNKNOWN, or 0 */
};

/* A device as the device layer or a peer's card shows it. */
struct rondo_topology_device {
    const char *bus_id;  /* "" on the host device */
    const uint8_t *uuid; /* 16 bytes */
    int ordinal, capability;
    bool mig;
};

/* An empty one. rondoSystemError: no memory. */
rondoResult_t rondo_topology_create(struct rondo_topology **topology);
void rondo_topology_destroy(struct rondo_topology *topology);

/* This machine's: RONDO_TOPO_FILE if that is set, else what sysfs says. NVLink is not in it yet unless the file has it. */
rondoResult_t rondo_topology_load(struct rondo_topology **topology);

/* Writes it to RONDO_TOPO_DUMP_FILE if that is set, once per process; to be called when all devices and peers are in. A file
 * that cannot be written is a warning in the log. */
void rondo_topology_dump(const struct rondo_topology *topology);

/* Adds what `sys` (a mounted sysfs, or a tree like one) and `proc` say about GPUs that nobody hides from them. Files that are
 * missing or unreadable leave their facts unknown. rondoSystemError: more GPUs or bridges than there is room for. */
rondoResult_t rondo_topology_read_sysfs(struct rondo_topology *topology, const char *sys, const char *proc);

/* Finds a device or adds it, as visible. The GPU's number, -1: there is no room, or no such GPU in the file. */
int rondo_topology_place(struct rondo_topology *topology, const struct rondo_topology_device *device);

/* By bus id, in any case of letters; -1: not there. */
int rondo_topology_find(const struct rondo_topology *topology, const char *bus_id);

/* Adds what the driver says about a pair: whether there is NVLink between them. A file knows better. */
void rondo_topology_join(struct rondo_topology *topology, int a, int b, const struct rondo_peer_info *peer);

enum rondo_path_type rondo_topology_path(const struct rondo_topology *topology, int a, int b);
const char *rondo_path_name(enum rondo_path_type type);

/* A bridge between the two, its own link included, that ACS makes send requests or completions up to the host; -1: none is
 * known. `*unknown` says whether there are bridges whose register cannot be read. */
int rondo_topology_acs(const struct rondo_topology *topology, int a, int b, bool *unknown);

/* A GPU to which both have NVLink, -1: none. */
int rondo_topology_between(const struct rondo_topology *topology, int a, int b);

/* The CPUs of the NUMA node that the GPU is at. False: it is not known, and the set is empty. */
bool rondo_topology_cpus(const struct rondo_topology *topology, int gpu, cpu_set_t *cpus);

/* The file. read gives rondoInvalidArgument for a malformed one, the text names it and the line; `name` is for that text. */
rondoResult_t rondo_topology_write(const struct rondo_topology *topology, FILE *file);
rondoResult_t rondo_topology_read(struct rondo_topology *topology, FILE *file, const char *name);

#endif
