/* rondo-doctor: looks, tries, judges, reports. */
#include "doctor.h"

#include "common/clock.h"
#include "common/result.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WATCHDOG_GRACE_S = 20 };

/* The last resort: the parent's own waits all end, unless the kernel holds it in a call. */
static void out_of_time(int number)
{
    static const char text[] = "rondo-doctor: INCONCLUSIVE: the run did not end in time\n";
    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(VERDICT_INCONCLUSIVE);
    _exit(VERDICT_INCONCLUSIVE);
}

static rondoResult_t build_topology(struct doctor *doctor)
{
    const struct seen *seen = doctor->seen;
    RONDO_TRY(rondo_topology_load(&doctor->topology));
    for (int d = 0; d < seen->count; d++) {
        const struct rondo_device_info *info = &seen->infos[d];
        const struct rondo_topology_device device = {info->bus_id, info->uuid, info->ordinal, info->capability,
                                                     info->mig};
        doctor->places[d] = rondo_topology_place(doctor->topology, &device);
    }
    for (int a = 0; a < seen->count; a++) {
        for (int b = 0; b < seen->count; b++) {
            const int x = doctor->places[a], y = doctor->places[b];
            rondo_topology_join(doctor->topology, x, y, &seen->peers[a][b]);
            if (x >= 0 && y >= 0 && seen->links[a][b] && !doctor->topology->from_file)
                doctor->topology->nvlinks[x][y] = doctor->topology->nvlinks[y][x] = seen->links[a][b];
        }
    }
    rondo_topology_dump(doctor->topology);
    return rondoSuccess;
}

void path_text(const struct doctor *doctor, int a, int b, char *text, size_t room)
{
    const int x = doctor->places[a], y = doctor->places[b];
    if (a == b) {
        snprintf(text, room, "X");
        return;
    }
    if (x < 0 || y < 0) {
        snprintf(text, room, "?");
        return;
    }
    const enum rondo_path_type path = rondo_topology_path(doctor->topology, x, y);
    const int links = doctor->topology->nvlinks[x][y];
    if (!strncmp(doctor->topology->gpus[x].bus_id, "host:", 5))
        snprintf(text, room, "MEM"); /* the host device's memory is all the same */
    else if (path == RONDO_PATH_NVL && links > 0)
        snprintf(text, room, "NV%d", links);
    else
        snprintf(text, room, "%s", rondo_path_name(path));
}

static enum verdict worst(const struct doctor *doctor)
{
    enum verdict verdict = doctor->seen->count ? VERDICT_OK : VERDICT_INCONCLUSIVE;
    for (int i = 0; i < doctor->pair_count; i++) {
        if (doctor->pairs[i].verdict == VERDICT_BROKEN)
            return VERDICT_BROKEN;
        if (doctor->pairs[i].verdict == VERDICT_INCONCLUSIVE)
            verdict = VERDICT_INCONCLUSIVE;
    }
    return verdict;
}

static int report(const struct doctor *doctor)
{
    if (doctor->options.svg) {
        FILE *file = fopen(doctor->options.svg, "we");
        if (!file) {
            fprintf(stderr, "rondo-doctor: %s: %s\n", doctor->options.svg, strerror(errno));
            return EXIT_USAGE;
        }
        report_svg(doctor, file);
        if (fclose(file) != 0)
            fprintf(stderr, "rondo-doctor: %s: %s\n", doctor->options.svg, strerror(errno));
    }
    if (doctor->options.json)
        report_json(doctor, stdout);
    else
        report_text(doctor, stdout);
    return (int)doctor->verdict;
}

static void *shared(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

int main(int argc, char **argv)
{
    static struct doctor doctor;
    const int status = options_parse(&doctor.options, argc, argv);
    if (status >= 0)
        return status;
    doctor.started_ns = rondo_now_ns();
    doctor.deadline_ns = doctor.started_ns + (uint64_t)doctor.options.seconds * 1000000000u;
    signal(SIGALRM, out_of_time);
    alarm((unsigned)doctor.options.seconds + WATCHDOG_GRACE_S);
    doctor.seen = shared(sizeof *doctor.seen);
    doctor.pairs = shared(DOCTOR_PAIRS * sizeof *doctor.pairs);
    if (doctor.seen == MAP_FAILED || doctor.pairs == MAP_FAILED) {
        fprintf(stderr, "rondo-doctor: out of memory\n");
        return VERDICT_INCONCLUSIVE;
    }
    look(&doctor);
    system_look(&doctor.system);
    if (build_topology(&doctor) != rondoSuccess) {
        fprintf(stderr, "rondo-doctor: %s\n", rondo_last_error());
        return EXIT_USAGE;
    }
    pairs_probe(&doctor);
    system_judge(&doctor);
    doctor.verdict = worst(&doctor);
    doctor.seconds = (double)(rondo_now_ns() - doctor.started_ns) * 1e-9;
    const int end = report(&doctor);
    rondo_topology_destroy(doctor.topology);
    return end;
}
