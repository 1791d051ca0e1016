#include "support/rank_group.h"

#include "comm/bootstrap.h"
#include "common/clock.h"
#include "common/result.h"
#include "harness/procs.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct runner {
    struct group *group;
    rank_function function;
    int rank;
    pthread_t thread;
};

int group_process(enum layout layout, int rank)
{
    return layout == THREADS ? 0 : layout == PROCESSES ? rank + 1 : rank % 3;
}

void group_await(const int *word, int value)
{
    uint64_t end = rondo_now_ns() + 10000000000ull;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value && rondo_now_ns() < end)
        usleep(200);
}

static void *run_rank(void *argument)
{
    struct runner *runner = argument;
    struct outcome *outcome = &runner->group->outcomes[runner->rank];
    __atomic_add_fetch(&runner->group->ready, 1, __ATOMIC_RELEASE);
    group_await(&runner->group->go, 1);
    uint64_t start = rondo_now_ns();
    outcome->pid = getpid();
    rondoResult_t result = runner->function(runner->group, runner->rank);
    outcome->ms = (double)(rondo_now_ns() - start) / 1e6;
    snprintf(outcome->text, sizeof(outcome->text), "%s", rondo_last_error());
    outcome->result = result;
    return NULL;
}

/* Starts the ranks of a process. */
static int start(struct runner *runners, struct group *group, int process)
{
    const rank_function function = (rank_function)procs_unpack(group->function);
    int count = 0;
    for (int rank = 0; rank < group->nranks; rank++) {
        if (group_process(group->layout, rank) != process)
            continue;
        runners[count] = (struct runner){.group = group, .function = function, .rank = rank};
        if (pthread_create(&runners[count].thread, NULL, run_rank, &runners[count]) != 0)
            abort();
        count++;
    }
    return count;
}

static void join(struct runner *runners, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(runners[i].thread, NULL);
}

/* What procs calls a rank is a process of the group, the calling one excepted. */
static int run_process(struct procs *procs, int number, void *argument)
{
    struct runner runners[GROUP_RANKS];
    (void)procs;
    join(runners, start(runners, argument, number + 1));
    return 0;
}

static int processes(enum layout layout, int nranks)
{
    int last = 0;
    for (int rank = 0; rank < nranks; rank++)
        last = group_process(layout, rank) > last ? group_process(layout, rank) : last;
    return last;
}

struct group *group_run(int nranks, enum layout layout, rank_function function, void (*meanwhile)(struct group *group))
{
    const int others = processes(layout, nranks);
    struct procs *procs = procs_create(&(struct procs_options){.nranks = others ? others : 1,
                                                               .grace_ms = -1,
                                                               .time_limit_ms = 60000,
                                                               .shared_bytes = sizeof(struct group),
                                                               .exec = others > 0});
    if (!procs)
        abort();
    struct group *group = procs_shared(procs);
    group->procs = procs;
    group->nranks = nranks;
    group->layout = layout;
    group->function = procs_pack((uintptr_t)function);
    for (int rank = 0; rank < nranks; rank++)
        group->outcomes[rank].result = -1;
    if (others)
        procs_start(procs, run_process, group);
    if (rondo_bootstrap_id(&group->id) != rondoSuccess)
        abort();
    struct runner runners[GROUP_RANKS];
    int count = start(runners, group, 0);
    group_await(&group->ready, nranks);
    __atomic_store_n(&group->go, 1, __ATOMIC_RELEASE);
    if (meanwhile)
        meanwhile(group);
    join(runners, count);
    if (others)
        procs_finish(procs, NULL);
    return group;
}

void group_free(struct group *group)
{
    procs_destroy(group->procs);
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

int count_fds(void)
{
    return count_entries("/proc/self/fd") - 1; /* without the one that reads */
}

int count_threads(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    if (!dir)
        return -1;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof(name), file))
            count += strncmp(name, "rondo-", 6) == 0;
        if (file)
            fclose(file);
    }
    closedir(dir);
    return count;
}

int settled_threads(int expected)
{
    for (int i = 0; i < 200 && count_threads() != expected; i++)
        usleep(10000);
    return count_threads();
}
