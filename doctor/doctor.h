/* What a run of rondo-doctor knows. */
#ifndef RONDO_DOCTOR_DOCTOR_H
#define RONDO_DOCTOR_DOCTOR_H

#include "findings.h"
#include "options.h"
#include "probe.h"

#include "device/device.h"
#include "transport/eligibility.h"
#include "transport/topology.h"

#include <stdbool.h>
#include <stdint.h>

enum { DOCTOR_DEVICES = 16, DOCTOR_PAIRS = DOCTOR_DEVICES * (DOCTOR_DEVICES - 1) / 2 };

/* The exit status. */
enum verdict { VERDICT_OK, VERDICT_BROKEN, VERDICT_INCONCLUSIVE };
const char *verdict_name(enum verdict verdict);

/* What the child that looks finds; shared memory. */
struct seen {
    char row[8]; /* of the device table */
    int count;
    bool more; /* devices than DOCTOR_DEVICES */
    struct rondo_device_info infos[DOCTOR_DEVICES];
    struct rondo_peer_info peers[DOCTOR_DEVICES][DOCTOR_DEVICES];
    int8_t links[DOCTOR_DEVICES][DOCTOR_DEVICES]; /* NVLinks that NVML counts, 0: none or unknown */
    bool done;
    char text[256]; /* why there is no device */
};

struct pair {
    int a, b; /* devices, a < b */
    struct rondo_p2p_verdict p2p;
    struct outcome outcomes[MECHANISMS_MOST];
    enum verdict verdict;
};

struct system {
    char host[64], container[64], visible_devices[64];  /* "": none, not set */
    uint64_t memlock, shm_bytes, shm_free, descriptors; /* UINT64_MAX: unlimited */
    int device_files;                                   /* /dev/nvidia0 and so on */
};

struct doctor {
    struct options options;
    uint64_t started_ns, deadline_ns;
    struct seen *seen;
    struct system system;
    struct rondo_topology *topology;
    int places[DOCTOR_DEVICES]; /* devices' numbers in the topology */
    struct findings findings;
    struct pair *pairs; /* DOCTOR_PAIRS; shared memory, as each pair has a process that looks after it */
    int pair_count;
    enum verdict verdict;
    double seconds;
};

/* look.c: fills in `seen` in a child. */
void look(struct doctor *doctor);

/* nvml.c: links between devices, as the driver's management library counts them, where it is there. In a child. */
void nvml_count_links(struct seen *seen);

/* system.c: what can be read without a device; findings about that and about the topology. */
void system_look(struct system *system);
void system_judge(struct doctor *doctor);

/* pairs.c: tries all mechanisms of all pairs, within the deadline. */
void pairs_probe(struct doctor *doctor);

/* Two words for a pair's path, as nvidia-smi shows it: "NV18", "PIX"; "X" for a device and itself. */
void path_text(const struct doctor *doctor, int a, int b, char *text, size_t room);

/* report_*.c */
void report_text(const struct doctor *doctor, FILE *file);
void report_json(const struct doctor *doctor, FILE *file);
void report_svg(const struct doctor *doctor, FILE *file);

#endif
