#include "support/holdings.h"

#include "comm/parting.h"
#include "comm/root.h"
#include "common/arena.h"
#include "device/anchor.h"
#include "support/rank_group.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int count_shared(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:rondo") != NULL;
    if (maps)
        fclose(maps);
    return count;
}

static int count_all_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; /* . and .. */
    while (tasks && readdir(tasks))
        count++;
    if (tasks)
        closedir(tasks);
    return count;
}

struct holdings holdings(void)
{
    rondo_partings_reap(); /* what a peer had mapped for longer than this rank waited for it */
    rondo_anchor_reap();
    return (struct holdings){count_fds(),          count_all_threads(), count_shared(), rondo_arena_total_bytes(),
                             rondo_anchor_count(), rondo_root_count()};
}

static bool more(const struct holdings *now, const struct holdings *before)
{
    return now->fds > before->fds || now->threads > before->threads || now->shared > before->shared ||
           now->arena > before->arena || now->anchors > before->anchors || now->roots > before->roots;
}

int nothing_more(struct rig *rig, const struct holdings *before)
{
    struct holdings now = holdings();
    for (int wait = 0; wait < 600 && more(&now, before); wait++) {
        usleep(10000);
        now = holdings();
    }
    RIG_CHECK(!more(&now, before),
              "%d fds, %d threads, %d mappings, %zu bytes, %u anchors, %d roots; before: %d, %d, %d, %zu, %u, %d",
              now.fds, now.threads, now.shared, now.arena, now.anchors, now.roots, before->fds, before->threads,
              before->shared, before->arena, before->anchors, before->roots);
    return 0;
}
