/* What a profiler sees of the user's calls: ranges, if it is asked for. The ranks listen to themselves (tests/faults/nvtx.c). */
#include "support/rig.h"

#include <criterion/criterion.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int calls(struct rig *rig)
{
    float *buffer = rig->machine->alloc(4096);
    rondoPlan_t plan;
    rondoComm_t half;
    RIG_OK(rondoAllReduce(buffer, buffer, 100, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoBroadcast(buffer, buffer, 7, rondoHalf, 0, rig->comm, rig->stream));
    RIG_OK(rondoSend(buffer, 3, rondoInt64, 1 - rig->rank, rig->comm, rig->stream));
    RIG_OK(rondoRecv(buffer + 500, 3, rondoInt64, 1 - rig->rank, rig->comm, rig->stream));
    RIG_OK(rondoGroupEnd());
    RIG_OK(rondoPlanBegin());
    RIG_OK(rondoBarrier(rig->comm, rig->stream));
    RIG_OK(rondoPlanEnd(&plan));
    RIG_OK(rondoPlanLaunch(plan, rig->stream));
    RIG_OK(rondoPlanDestroy(plan));
    RIG_CHECK(rondoAllReduce(NULL, NULL, 5, rondoFloat, rondoSum, rig->comm, rig->stream) == rondoInvalidArgument,
              "not refused");
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &half, NULL));
    RIG_OK(rondoCommDestroy(half));
    rig->machine->stream_sync(rig->stream);
    rig->machine->free(buffer);
    return 0;
}

static const char wanted[] = "rondoAllReduce 400\n"
                             "rondoBroadcast 14\n"
                             "rondoSend 24\n"
                             "rondoRecv 24\n"
                             "rondoGroupEnd 0\n"
                             "rondoBarrier 0\n"
                             "rondoPlanEnd 0\n"
                             "rondoPlanLaunch 0\n"
                             "rondoAllReduce 20\n"
                             "rondoCommSplit 0\n"
                             "rondoCommDestroy 0\n"
                             "rondoCommDestroy 0\n"; /* the rig's */

/* What the listener heard of rank 0 of one process. */
static void listen(char *heard, size_t room, const char *setting)
{
    char self[4000], path[4096], file[] = "/tmp/rondo-ranges-XXXXXX";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert(length > 0);
    self[length] = '\0';
    snprintf(path, sizeof path, "%s/libnvtx_listener.so", dirname(self));
    close(mkstemp(file));
    setenv("NVTX_INJECTION64_PATH", path, 1);
    setenv("RONDO_TEST_NVTX", file, 1);
    setenv("RONDO_NVTX", setting, 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .apart = true}, calls), 0);
    FILE *from = fopen(file, "re");
    heard[fread(heard, 1, room - 1, from)] = '\0';
    fclose(from);
    unlink(file);
}

/* Both ranks write to one file, in any order. */
Test(ranges, are_the_users_calls)
{
    char heard[4096], line[64];
    if (rig_ranks(2) < 2)
        return;
    listen(heard, sizeof heard, "1");
    size_t lines = 0;
    for (const char *at = wanted; *at; at = strchr(at, '\n') + 1, lines++) {
        const size_t length = strcspn(at, "\n") + 1;
        int in_heard = 0, in_wanted = 0;
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        for (const char *found = heard; (found = strstr(found, line)); found++)
            in_heard++;
        for (const char *found = wanted; (found = strstr(found, line)); found++)
            in_wanted++;
        cr_expect_eq(in_heard, 2 * in_wanted, "%s is there %d times in\n%s", line, in_heard, heard);
    }
    size_t all = 0;
    for (const char *at = heard; *at; at = strchr(at, '\n') + 1)
        all++;
    cr_expect_eq(all, 2 * lines, "%zu ranges:\n%s", all, heard);
}

Test(ranges, are_not_unless_asked_for)
{
    char heard[4096];
    if (rig_ranks(2) < 2)
        return;
    listen(heard, sizeof heard, "0");
    cr_expect_str_empty(heard);
}
