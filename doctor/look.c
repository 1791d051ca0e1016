/* Looks at the devices, in a child: a process that has used CUDA can have no children that do. */
#include "doctor.h"

#include "common/clock.h"
#include "common/result.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOST_DEVICES = 2, LOOK_LIMIT_MS = 60000 };

/* The host device has any number: as many as RONDO_TOPO_FILE has GPUs, or two. */
static int host_devices(void)
{
    struct rondo_topology *topology;
    if (rondo_topology_load(&topology) != rondoSuccess)
        return HOST_DEVICES;
    const int count = topology->from_file ? topology->gpu_count : HOST_DEVICES;
    rondo_topology_destroy(topology);
    return count < DOCTOR_DEVICES ? count : DOCTOR_DEVICES;
}

static void look_here(struct seen *seen)
{
    const struct rondo_device_ops *ops;
    struct rondo_device *devices[DOCTOR_DEVICES];
    if (rondo_device_row(&ops) != rondoSuccess) {
        snprintf(seen->text, sizeof seen->text, "%s", rondo_last_error());
        return;
    }
    snprintf(seen->row, sizeof seen->row, "%s", ops->name);
    const int most = ops == &rondo_device_host ? host_devices() : DOCTOR_DEVICES;
    while (seen->count < most && ops->open(seen->count, &devices[seen->count]) == rondoSuccess) {
        ops->info(devices[seen->count], &seen->infos[seen->count]);
        seen->count++;
    }
    if (seen->count == 0 && most > 0)
        snprintf(seen->text, sizeof seen->text, "%s", rondo_last_error());
    for (int a = 0; a < seen->count; a++)
        for (int b = 0; b < seen->count; b++)
            if (ops->peer(devices[a], seen->infos[b].uuid, &seen->peers[a][b]) != rondoSuccess)
                memset(&seen->peers[a][b], 0, sizeof seen->peers[a][b]);
    struct rondo_device *one_more;
    seen->more = most == DOCTOR_DEVICES && ops != &rondo_device_host && seen->count == DOCTOR_DEVICES &&
                 ops->open(seen->count, &one_more) == rondoSuccess;
    if (ops != &rondo_device_host)
        nvml_count_links(seen);
    seen->done = true;
}

void look(struct doctor *doctor)
{
    struct seen *seen = doctor->seen;
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        look_here(seen);
        _exit(0);
    }
    if (pid < 0) {
        snprintf(seen->text, sizeof seen->text, "no process could be started");
        return;
    }
    for (int ms = 0; waitpid(pid, &status, WNOHANG) != pid; ms++) {
        if (ms == LOOK_LIMIT_MS || rondo_now_ns() > doctor->deadline_ns) {
            kill(pid, SIGKILL);
            snprintf(seen->text, sizeof seen->text, "the driver does not answer");
            seen->count = 0;
            return;
        }
        rondo_sleep_ns(1000000);
    }
    if (!seen->done && !seen->text[0]) {
        seen->count = 0;
        snprintf(seen->text, sizeof seen->text, "the process that looks for devices died: %s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it ended early");
    }
}
