#include "comm/bootstrap_host.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTED_RANKS = 16 };

static pthread_mutex_t token_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf: nothing is locked under it */
static pid_t token_pid;                                        /* under token_lock: whose token it is; 0: nobody's */
static uint8_t process_token[RONDO_TOKEN_BYTES];               /* under token_lock */

static void boot_id(uint8_t boot[16])
{
    char text[64];
    memset(boot, 0, 16);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t bytes = read(fd, text, sizeof(text));
    close(fd);
    int digits = 0;
    for (ssize_t i = 0; i < bytes && digits < 32; i++) {
        if (!isxdigit((unsigned char)text[i]))
            continue;
        int digit = isdigit((unsigned char)text[i]) ? text[i] - '0' : tolower((unsigned char)text[i]) - 'a' + 10;
        boot[digits / 2] = (uint8_t)(boot[digits / 2] << 4 | digit);
        digits++;
    }
}

static uint64_t inode(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

void rondo_host_read(struct rondo_host *host)
{
    memset(host, 0, sizeof(*host));
    boot_id(host->boot);
    host->network = inode("/proc/self/ns/net");
    host->pids = inode("/proc/self/ns/pid");
    if (gethostname(host->name, sizeof(host->name) - 1) != 0)
        strcpy(host->name, "unknown");
}

int rondo_host_same(const struct rondo_host *a, const struct rondo_host *b)
{
    static const uint8_t unknown[16];
    /* Containers of one host have names of their own, so a name counts only where there is nothing better. */
    if (memcmp(a->boot, unknown, 16) == 0 && memcmp(b->boot, unknown, 16) == 0)
        return strcmp(a->name, b->name) == 0;
    return memcmp(a->boot, b->boot, 16) == 0;
}

int rondo_host_same_pids(const struct rondo_host *a, const struct rondo_host *b)
{
    return rondo_host_same(a, b) && a->pids != 0 && a->pids == b->pids;
}

/* The pid alone would not do after a fork into a new pid namespace, where parent and child can both be 1. */
static void forget_token(void)
{
    pthread_mutex_init(&token_lock, NULL);
    token_pid = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_token);
}

rondoResult_t rondo_process_token(uint8_t token[RONDO_TOKEN_BYTES])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    rondoResult_t result = rondoSuccess;
    pthread_mutex_lock(&token_lock);
    if (token_pid != getpid())
        result = rondo_random(process_token, sizeof(process_token));
    if (result == rondoSuccess) {
        token_pid = getpid();
        memcpy(token, process_token, sizeof(process_token));
    }
    pthread_mutex_unlock(&token_lock);
    return result;
}

void rondo_rank_list(const unsigned char *chosen, int count, char *text, size_t bytes)
{
    int total = 0;
    for (int rank = 0; rank < count; rank++)
        total += chosen[rank] != 0;
    int shown = 0;
    size_t used = (size_t)snprintf(text, bytes, total == 1 ? "rank" : "ranks");
    for (int rank = 0; rank < count && used < bytes; rank++) {
        if (!chosen[rank])
            continue;
        if (shown == LISTED_RANKS) {
            snprintf(text + used, bytes - used, " and %d more", total - shown);
            return;
        }
        const char *joint = shown == 0 ? " " : shown == total - 1 ? " and " : ", ";
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", joint, rank);
        shown++;
    }
}
