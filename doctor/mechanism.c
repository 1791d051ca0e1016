#include "mechanism.h"

#include "side.h"
#include "talk.h"

#include "common/result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void refuse(struct result *result, const char *text)
{
    if (!result->why[0])
        snprintf(result->why, sizeof result->why, "%s", text);
}

/* The two sides' memories are open, on both processes or on none. */
static void try_if(const struct probe *probe, bool open, struct side sides[2], struct result *result)
{
    result->maps = talk_agree(probe, open, &result->lost);
    if (result->maps)
        sides_try(probe, sides, result);
    else
        refuse(result,
               result->lost ? "the process of the other device did not answer" : "the other device cannot map it");
    /* No kernel of the other may be at this memory when it goes. */
    if (!result->lost)
        talk_agree(probe, true, &result->lost);
}

static struct side own_side(const struct probe *probe)
{
    return (struct side){.here = true, .role = probe->role, .device = probe->device};
}

/* ---- the devices' memory, mapped from a handle ---- */

struct offer {
    uint8_t bytes[RONDO_MEM_HANDLE_BYTES];
    bool good;
};

static bool import(const struct probe *probe, enum rondo_mem_kind kind, const struct rondo_mem *mine,
                   struct rondo_mem *theirs, struct result *result)
{
    struct rondo_mem_handle handle = {.fd = -1}, peer = {.fd = -1};
    struct offer out = {.good = false}, in = {.good = false};
    out.good = mine->address && probe->ops->mem_export(probe->device, mine, &handle) == rondoSuccess;
    if (mine->address && !out.good)
        refuse(result, rondo_last_error());
    memcpy(out.bytes, handle.bytes, sizeof out.bytes);
    const bool swapped = talk_swap(probe, &out, &in, sizeof in, handle.fd, &peer.fd);
    if (handle.fd >= 0)
        close(handle.fd);
    result->lost |= !swapped;
    bool well = swapped && in.good && out.good;
    if (swapped && !in.good)
        refuse(result, "the other device offers no such memory");
    memcpy(peer.bytes, in.bytes, sizeof peer.bytes);
    if (well && probe->ops->mem_import(probe->device, &peer, side_memory_bytes(probe), kind, theirs) != rondoSuccess) {
        well = false;
        refuse(result, rondo_last_error());
    }
    if (peer.fd >= 0)
        close(peer.fd);
    return well;
}

static void probe_import(const struct probe *probe, enum rondo_mem_kind kind, bool offered, struct result *result)
{
    struct side sides[2] = {{.here = false}, {.here = false}};
    struct side *side = &sides[probe->role];
    struct rondo_mem mine = {.address = NULL}, theirs = {.address = NULL};
    *side = own_side(probe);
    bool open = offered;
    if (!offered)
        refuse(result, "the device does not offer it");
    else if (side_open(probe, side) != rondoSuccess ||
             probe->ops->mem_alloc(probe->device, side_memory_bytes(probe), kind, &mine) != rondoSuccess) {
        refuse(result, rondo_last_error());
        open = false;
    }
    if (!import(probe, kind, &mine, &theirs, result))
        open = false;
    side->mine = mine.address;
    side->theirs = theirs.address;
    try_if(probe, open, sides, result);
    if (theirs.address)
        probe->ops->mem_free(probe->device, &theirs);
    if (!result->lost)
        talk_agree(probe, true, &result->lost); /* mappings go before what they map */
    if (mine.address)
        probe->ops->mem_free(probe->device, &mine);
    side_close(probe, side);
}

static void probe_shareable(const struct probe *probe, struct result *result)
{
    struct rondo_device_info info;
    probe->ops->info(probe->device, &info);
    probe_import(probe, RONDO_MEM_SHAREABLE, info.shareable, result);
}

static void probe_legacy(const struct probe *probe, struct result *result)
{
    struct rondo_device_info info;
    probe->ops->info(probe->device, &info);
    probe_import(probe, RONDO_MEM_LEGACY, info.legacy_ipc, result);
}

/* ---- peer access within a process: the first device's process does it all ---- */

static rondoResult_t open_direct(const struct probe *probe, struct side sides[2], struct rondo_mem memory[2])
{
    const struct rondo_device_ops *ops = probe->ops;
    sides[0] = own_side(probe);
    RONDO_TRY(ops->open(probe->devices[1], &sides[1].device));
    sides[1].here = true;
    sides[1].role = 1;
    for (int role = 0; role < 2; role++) {
        RONDO_TRY(ops->mem_alloc(sides[role].device, side_memory_bytes(probe), RONDO_MEM_PRIVATE, &memory[role]));
        RONDO_TRY(side_open(probe, &sides[role]));
    }
    for (int role = 0; role < 2; role++) {
        RONDO_TRY(ops->mem_attach(sides[role].device, sides[1 - role].device, &memory[1 - role]));
        sides[role].mine = memory[role].address;
        sides[role].theirs = memory[1 - role].address;
    }
    return rondoSuccess;
}

static void probe_direct(const struct probe *probe, struct result *result)
{
    struct side sides[2] = {{.here = false}, {.here = false}};
    struct rondo_mem memory[2] = {{.address = NULL}, {.address = NULL}};
    struct probe alone = *probe;
    if (probe->role == 1) {
        result->idle = true;
        return;
    }
    alone.socket = -1;
    const bool open = open_direct(&alone, sides, memory) == rondoSuccess;
    if (!open)
        refuse(result, rondo_last_error());
    struct rondo_device *other = sides[1].device;
    try_if(&alone, open, sides, result);
    for (int role = 0; role < 2; role++) {
        struct rondo_device *device = role ? other : probe->device;
        if (memory[role].address)
            probe->ops->mem_free(device, &memory[role]);
        side_close(&alone, &sides[role]);
    }
    probe->ops->close(other);
}

/* ---- host memory that both devices see ---- */

static void probe_host(const struct probe *probe, struct result *result)
{
    struct side sides[2] = {{.here = false}, {.here = false}};
    struct side *side = &sides[probe->role];
    const size_t page = 4096, bytes = (side_memory_bytes(probe) + page - 1) / page * page;
    int fd = -1, their_fd = -1;
    char none = 0, *shared = MAP_FAILED;
    void *device = NULL;
    *side = own_side(probe);
    if (probe->role == 0) {
        fd = memfd_create("rondo-doctor", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)(2 * bytes)) != 0)
            refuse(result, strerror(errno));
    }
    result->lost |= !talk_swap(probe, &none, &none, sizeof none, fd, &their_fd);
    const int file = probe->role == 0 ? fd : their_fd;
    bool open = side_open(probe, side) == rondoSuccess;
    if (!open)
        refuse(result, rondo_last_error());
    if (file >= 0)
        shared = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) {
        refuse(result, "there is no shared memory to be had");
        open = false;
    } else if (open && probe->ops->host_map(probe->device, shared, 2 * bytes, &device) != rondoSuccess) {
        refuse(result, rondo_last_error());
        open = false;
    }
    side->mine = open ? (char *)device + (size_t)probe->role * bytes : NULL;
    side->theirs = open ? (char *)device + (size_t)(1 - probe->role) * bytes : NULL;
    try_if(probe, open, sides, result);
    if (device)
        probe->ops->host_unmap(probe->device, shared);
    if (shared != MAP_FAILED)
        munmap(shared, 2 * bytes);
    if (file >= 0)
        close(file);
    side_close(probe, side);
}

const struct mechanism mechanisms[] = {
    {"direct", "peer access in one process", "pointers in one process",
     "Ranks that are threads of one process need it: use a process for each GPU.", true, probe_direct},
    {"cumem", "cuMem handle", "memfd (as cuMem)",
     "Rondo falls back to legacy IPC; in a container see that the driver's and the toolkit's versions match.", true,
     probe_shareable},
    {"legacy_ipc", "legacy IPC handle", "/proc (as legacy IPC)",
     "Only RONDO_CUMEM_ENABLE=0 needs it. Containers need --ipc=host, and processes that share a PID namespace.", true,
     probe_legacy},
    {"host", "host memory", "host memory",
     "Pairs without P2P need it: look at the limits of locked memory (ulimit -l) and of the container's memory.", false,
     probe_host},
};
const int mechanism_count = sizeof mechanisms / sizeof *mechanisms;
_Static_assert(sizeof mechanisms / sizeof *mechanisms <= MECHANISMS_MOST, "results have room for all");
