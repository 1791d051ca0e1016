#include "support/rank_group.h"

#include "comm/bootstrap.h"
#include "common/clock.h"
#include "common/result.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
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
    group_await(&runner->group->go, 1);
    uint64_t start = rondo_now_ns();
    outcome->pid = getpid();
    rondoResult_t result = runner->function(runner->group, runner->rank);
    outcome->ms = (double)(rondo_now_ns() - start) / 1e6;
    snprintf(outcome->text, sizeof(outcome->text), "%s", rondo_last_error());
    outcome->result = result;
    return NULL;
}

static int start(struct runner *runners, struct group *group, rank_function function, int process)
{
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

struct group *group_run(int nranks, enum layout layout, rank_function function, void (*meanwhile)(struct group *group))
{
    struct group *group = mmap(NULL, sizeof(*group), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (group == MAP_FAILED)
        abort();
    group->nranks = nranks;
    group->layout = layout;
    for (int rank = 0; rank < nranks; rank++)
        group->outcomes[rank].result = -1;
    struct runner runners[GROUP_RANKS];
    pid_t children[GROUP_RANKS + 1] = {0};
    for (int process = 1; process <= nranks; process++) {
        children[process] = fork();
        if (children[process] < 0)
            abort();
        if (children[process] > 0)
            continue;
        int count = start(runners, group, function, process);
        for (int i = 0; i < count; i++)
            pthread_join(runners[i].thread, NULL);
        _exit(0);
    }
    if (rondo_bootstrap_id(&group->id) != rondoSuccess)
        abort();
    int count = start(runners, group, function, 0);
    __atomic_store_n(&group->go, 1, __ATOMIC_RELEASE);
    if (meanwhile)
        meanwhile(group);
    for (int i = 0; i < count; i++)
        pthread_join(runners[i].thread, NULL);
    for (int process = 1; process <= nranks; process++)
        waitpid(children[process], NULL, 0);
    return group;
}

void group_free(struct group *group)
{
    munmap(group, sizeof(*group));
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
