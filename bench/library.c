#include "library.h"

#include "rondo/host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void describe_version(struct bench_lib *lib)
{
    int code = 0;
    lib->get_version(&code);
    snprintf(lib->version, sizeof lib->version, "%d.%d.%d", code / 10000, code / 100 % 100, code % 100);
}

static void describe_rondo(rondoComm_t comm, const char *op, size_t count, rondoDataType_t type, rondoRedOp_t redop,
                           struct bench_choice *choice)
{
    rondoChoice_t chosen = RONDO_CHOICE_INITIALIZER;
    if (rondoCommExplain(comm, op, count, type, redop, &chosen) != rondoSuccess)
        return;
    choice->algo = chosen.algorithm;
    choice->proto = chosen.protocol;
    choice->channels = chosen.channels;
}

void library_rondo(struct bench_lib *lib)
{
    *lib = (struct bench_lib){
        .name = "rondo",
        .get_version = rondoGetVersion,
        .get_unique_id = rondoGetUniqueId,
        .comm_init_rank = rondoCommInitRank,
        .comm_destroy = rondoCommDestroy,
        .comm_get_async_error = rondoCommGetAsyncError,
        .all_reduce = rondoAllReduce,
        .reduce = rondoReduce,
        .broadcast = rondoBroadcast,
        .all_gather = rondoAllGather,
        .reduce_scatter = rondoReduceScatter,
        .send = rondoSend,
        .recv = rondoRecv,
        .group_start = rondoGroupStart,
        .group_end = rondoGroupEnd,
        .get_error_string = rondoGetErrorString,
        .get_last_error = rondoGetLastError,
        .all_to_all = rondoAllToAll,
        .gather = rondoGather,
        .scatter = rondoScatter,
        .all_to_allv = rondoAllToAllv,
        .barrier = rondoBarrier,
        .plan_begin = rondoPlanBegin,
        .plan_end = rondoPlanEnd,
        .plan_launch = rondoPlanLaunch,
        .plan_destroy = rondoPlanDestroy,
        .all_to_all_in_place = 1,
        .describe = describe_rondo,
    };
    describe_version(lib);
}

/* "/usr/lib/libnccl.so.2" is called nccl. */
static void name_after(struct bench_lib *lib, const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    if (strncmp(base, "lib", 3) == 0)
        base += 3;
    snprintf(lib->name, sizeof lib->name, "%s", base);
    char *end = strstr(lib->name, ".so");
    if (end)
        *end = '\0';
}

/* Host streams are objects of the librondo that made them: only a library that uses this very one can take them. */
static int takes_host_streams(void *handle)
{
    return dlsym(handle, "rondoHostStreamCreate") == dlsym(RTLD_DEFAULT, "rondoHostStreamCreate");
}

int library_load(struct bench_lib *lib, const char *path, const char *device, char *text, size_t room)
{
    *lib = (struct bench_lib){.name = ""};
    name_after(lib, path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(text, room, "--lib %s: %s", path, dlerror());
        return -1;
    }
    const struct {
        const char *name;
        void *function;
        int optional;
    } symbols[] = {
        {"ncclGetVersion", &lib->get_version, 0},
        {"ncclGetUniqueId", &lib->get_unique_id, 0},
        {"ncclCommInitRank", &lib->comm_init_rank, 0},
        {"ncclCommDestroy", &lib->comm_destroy, 0},
        {"ncclCommGetAsyncError", &lib->comm_get_async_error, 0},
        {"ncclAllReduce", &lib->all_reduce, 0},
        {"ncclReduce", &lib->reduce, 0},
        {"ncclBroadcast", &lib->broadcast, 0},
        {"ncclAllGather", &lib->all_gather, 0},
        {"ncclReduceScatter", &lib->reduce_scatter, 0},
        {"ncclSend", &lib->send, 0},
        {"ncclRecv", &lib->recv, 0},
        {"ncclGroupStart", &lib->group_start, 0},
        {"ncclGroupEnd", &lib->group_end, 0},
        {"ncclGetErrorString", &lib->get_error_string, 0},
        {"ncclGetLastError", &lib->get_last_error, 0},
        {"ncclAlltoAll", &lib->all_to_all, 1}, /* these three since 2.28 */
        {"ncclGather", &lib->gather, 1},
        {"ncclScatter", &lib->scatter, 1},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol && !symbols[i].optional) {
            snprintf(text, room, "--lib %s: it has no %s, so it is no library with NCCL's API", path, symbols[i].name);
            return -1;
        }
        memcpy(symbols[i].function, &symbol, sizeof symbol);
    }
    if (strcmp(device, "host") == 0 && !takes_host_streams(handle)) {
        snprintf(text, room, "--lib %s: %s", path,
                 dlsym(handle, "rondoHostStreamCreate")
                     ? "its host device is its own; LD_PRELOAD it, so that streams are its too"
                     : "it runs on GPUs; on the host device only Rondo can be measured");
        return -1;
    }
    describe_version(lib);
    return 0; /* never closed: NCCL has threads of its own */
}
