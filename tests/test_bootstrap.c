#include "comm/bootstrap.h"
#include "comm/bootstrap_wire.h"
#include "comm/root.h"
#include "comm/socket.h"
#include "common/clock.h"
#include "common/result.h"
#include "support/rank_group.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Within SHORT_MS all ranks come that do, also where each must wait for a processor. */
enum { LONG_MS = 20000, SHORT_MS = 4000, MIB = 1 << 20 };

static rondoResult_t join(struct group *group, int rank, struct rondo_bootstrap **bootstrap)
{
    return rondo_bootstrap_join(&group->id, rank, group->nranks, LONG_MS, NULL, bootstrap);
}

static void all_got(struct group *group, rondoResult_t expected)
{
    for (int rank = 0; rank < group->nranks; rank++)
        cr_expect(group->outcomes[rank].result == expected, "%d ranks, layout %d: rank %d got %d: %s", group->nranks,
                  group->layout, rank, group->outcomes[rank].result, group->outcomes[rank].text);
}

static void text_has(struct group *group, int rank, const char *part)
{
    cr_expect(strstr(group->outcomes[rank].text, part) != NULL, "rank %d says \"%s\", not \"%s\"", rank,
              group->outcomes[rank].text, part);
}

/* ---- joining ---- */

static rondoResult_t join_and_check(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    struct card {
        int rank;
        pid_t pid;
    } mine = {rank, getpid()}, all[GROUP_RANKS];
    RONDO_TRY(join(group, rank, &bootstrap));
    rondoResult_t result = rondo_bootstrap_all_gather(bootstrap, &mine, all, sizeof(mine));
    for (int peer = 0; result == rondoSuccess && peer < group->nranks; peer++) {
        int together = group_process(group->layout, peer) == group_process(group->layout, rank);
        if (all[peer].rank != peer || all[peer].pid != rondo_bootstrap_pid(bootstrap, peer) ||
            rondo_bootstrap_same_process(bootstrap, peer) != together ||
            (rondo_bootstrap_socket(bootstrap, peer) < 0) != (peer == rank))
            result = rondo_fail(rondoInternalError, "rank %d sees rank %d wrongly", rank, peer);
    }
    rondo_bootstrap_close(bootstrap);
    return result;
}

static void join_all_sizes(enum layout layout)
{
    static const int sizes[] = {1, 2, 4, 16};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct group *group = group_run(sizes[i], layout, join_and_check, NULL);
        all_got(group, rondoSuccess);
        cr_log_info("%d ranks, layout %d: %.2f ms", sizes[i], layout, group->outcomes[0].ms);
        group_free(group);
    }
}

Test(bootstrap, joins_threads)
{
    join_all_sizes(THREADS);
}

Test(bootstrap, joins_processes)
{
    join_all_sizes(PROCESSES);
}

Test(bootstrap, joins_a_mixture_of_threads_and_processes)
{
    join_all_sizes(MIXED);
}

Test(bootstrap, joins_64_ranks)
{
    struct group *group = group_run(64, MIXED, join_and_check, NULL);
    all_got(group, rondoSuccess);
    group_free(group);
}

Test(bootstrap, one_rank_needs_no_root)
{
    rondoUniqueId id;
    struct rondo_bootstrap *bootstrap;
    int number = 7, got = 0;
    cr_assert(rondo_bootstrap_id(&id) == rondoSuccess);
    ((struct rondo_id *)(void *)&id)->port = 0; /* nobody listens there */
    cr_assert(rondo_bootstrap_join(&id, 0, 1, LONG_MS, NULL, &bootstrap) == rondoSuccess);
    cr_assert(rondo_bootstrap_all_gather(bootstrap, &number, &got, sizeof(got)) == rondoSuccess);
    cr_expect(got == 7);
    rondo_bootstrap_close(bootstrap);
    for (int i = 0; i < 200 && rondo_root_count() > 0; i++)
        usleep(10000);
    cr_expect(rondo_root_count() == 0, "the root still runs");
}

Test(bootstrap, leaves_no_thread_and_no_descriptor)
{
    int threads = count_threads();
    struct group *warm = group_run(4, THREADS, join_and_check, NULL);
    group_free(warm);
    settled_threads(threads);
    int fds = count_fds();
    for (int i = 0; i < 20; i++)
        group_free(group_run(4, THREADS, join_and_check, NULL));
    cr_expect(settled_threads(threads) == threads);
    cr_expect(count_fds() == fds, "%d descriptors, %d before", count_fds(), fds);
    cr_expect(rondo_root_count() == 0);
    DIR *dir = opendir("/dev/shm");
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        cr_expect(!strstr(entry->d_name, "rondo"), "%s is left", entry->d_name);
    if (dir)
        closedir(dir);
}

/* ---- exchanges ---- */

static rondoResult_t gather_sizes(struct group *group, int rank)
{
    static const size_t sizes[] = {0, 1, 4096, 3 * MIB, 5};
    struct rondo_bootstrap *bootstrap;
    RONDO_TRY(join(group, rank, &bootstrap));
    rondoResult_t result = rondoSuccess;
    for (size_t i = 0; result == rondoSuccess && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i];
        unsigned char *mine = malloc(bytes + 1), *all = malloc(bytes * (size_t)group->nranks + 1);
        memset(mine, rank + 1, bytes);
        result = rondo_bootstrap_all_gather(bootstrap, mine, all, bytes);
        for (size_t k = 0; result == rondoSuccess && k < bytes * (size_t)group->nranks; k++) {
            if (all[k] != k / bytes + 1)
                result = rondo_fail(rondoInternalError, "size %zu: byte %zu is %d", bytes, k, all[k]);
        }
        free(mine);
        free(all);
    }
    rondo_bootstrap_close(bootstrap);
    return result;
}

Test(bootstrap, gathers_messages_of_any_size)
{
    for (enum layout layout = THREADS; layout <= MIXED; layout++) {
        struct group *group = group_run(4, layout, gather_sizes, NULL);
        all_got(group, rondoSuccess);
        group_free(group);
    }
}

static rondoResult_t exchange_memfds(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    int fds[GROUP_RANKS], mine = -1;
    RONDO_TRY(join(group, rank, &bootstrap));
    if (rank != 1) {
        mine = memfd_create("rank", MFD_CLOEXEC);
        if (pwrite(mine, &rank, sizeof(rank), 0) != sizeof(rank))
            return rondo_fail(rondoSystemError, "pwrite");
    }
    rondoResult_t result = rondo_bootstrap_exchange_fds(bootstrap, mine, fds);
    for (int peer = 0; result == rondoSuccess && peer < group->nranks; peer++) {
        int seen = -1;
        if (fds[peer] >= 0 && pread(fds[peer], &seen, sizeof(seen), 0) != sizeof(seen))
            seen = -2;
        if (seen != (peer == rank || peer == 1 ? -1 : peer))
            result = rondo_fail(rondoInternalError, "rank %d sees %d behind rank %d's descriptor", rank, seen, peer);
        rondo_close(&fds[peer]);
    }
    rondo_close(&mine);
    if (result == rondoSuccess)
        result = rondo_bootstrap_all_gather(bootstrap, &rank, fds, sizeof(rank));
    rondo_bootstrap_close(bootstrap);
    return result;
}

Test(bootstrap, passes_descriptors_between_ranks)
{
    for (enum layout layout = THREADS; layout <= MIXED; layout++) {
        int before = count_fds(), threads = count_threads();
        struct group *group = group_run(6, layout, exchange_memfds, NULL);
        all_got(group, rondoSuccess);
        settled_threads(threads);
        cr_expect(count_fds() == before);
        group_free(group);
    }
}

static rondoResult_t exchange_differently(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    char mine[16] = "", all[16 * GROUP_RANKS];
    int fds[GROUP_RANKS];
    RONDO_TRY(join(group, rank, &bootstrap));
    rondoResult_t result = rank == 2 ? rondo_bootstrap_exchange_fds(bootstrap, -1, fds)
                                     : rondo_bootstrap_all_gather(bootstrap, mine, all, rank == 1 ? 8 : 16);
    rondo_bootstrap_close(bootstrap);
    return result;
}

Test(bootstrap, ranks_that_call_different_exchanges_get_an_error_instead_of_a_hang)
{
    struct group *group = group_run(3, MIXED, exchange_differently, NULL);
    for (int rank = 0; rank < 3; rank++) {
        rondoResult_t result = group->outcomes[rank].result;
        cr_expect(result == rondoInvalidUsage || result == rondoRemoteError, "%d", result);
        cr_expect(group->outcomes[rank].ms < 5000);
        text_has(group, rank, "rank");
    }
    group_free(group);
}

/* ---- strangers ---- */

/* The last rank comes when strangers have found the others' sockets. */
static rondoResult_t join_slowly(struct group *group, int rank)
{
    usleep((useconds_t)rank * 50000);
    if (rank == group->nranks - 1)
        group_await(&group->go, 2);
    return join_and_check(group, rank);
}

static void send_garbage(int fd)
{
    static char garbage[MIB];
    memset(garbage, 'x', sizeof(garbage));
    for (int i = 0; i < 4; i++)
        rondo_socket_send(fd, garbage, sizeof(garbage));
}

/* Connects to every abstract socket of ranks that the kernel lists. */
static int molest_unix_sockets(int *fds, int room)
{
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/net/unix", "re");
    while (file && fgets(line, sizeof(line), file)) {
        char *name = strstr(line, "@rondo-");
        if (!name || count + 40 > room)
            continue;
        name[strcspn(name, "\n")] = 0;
        for (int i = 0; i < 40; i++) {
            if (rondo_socket_connect_unix(name + 1, &fds[count]) != 0)
                break;
            if (i % 2)
                send_garbage(fds[count]);
            count++;
        }
    }
    if (file)
        fclose(file);
    return count;
}

static void be_strange(struct group *group)
{
    enum { MOST = 600 };
    int fds[MOST], count = 0;
    struct sockaddr_storage address;
    struct rondo_hello hello = {.magic = RONDO_WIRE_MAGIC, .version = RONDO_WIRE_VERSION, .nranks = group->nranks};
    rondo_id_get_address((struct rondo_id *)(void *)&group->id, &address);
    for (; count < 240; count++) {
        if (rondo_socket_connect_tcp(&address, &fds[count]) != 0)
            break;
        struct pollfd poll_one = {fds[count], POLLOUT, 0};
        poll(&poll_one, 1, 1000);
        if (count % 4 == 1)
            send_garbage(fds[count]);
        else if (count % 4 == 2)
            rondo_socket_send(fds[count], &hello, sizeof(hello) / 2);
        else if (count % 4 == 3)
            rondo_socket_send(fds[count], &hello, sizeof(hello)); /* right, but for the secret */
    }
    cr_expect(count == 240);
    int more = 0;
    for (int i = 0; i < 10 || (more == 0 && i < 200); i++) {
        more += molest_unix_sockets(fds + count + more, MOST - count - more);
        __atomic_store_n(&group->go, more > 0 ? 2 : 1, __ATOMIC_RELEASE);
        usleep(40000);
    }
    cr_expect(more > 0, "no Unix socket was found to molest");
    for (int i = 0; i < count + more; i++)
        rondo_close(&fds[i]);
}

Test(bootstrap, strangers_do_no_harm)
{
    int threads = count_threads();
    struct group *group = group_run(5, MIXED, join_slowly, be_strange);
    all_got(group, rondoSuccess);
    cr_expect(group->outcomes[0].ms < 15000, "it took %.0f ms", group->outcomes[0].ms);
    cr_expect(settled_threads(threads) == threads);
    group_free(group);
}

static rondoResult_t join_with_a_wrong_secret_once(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    rondoUniqueId wrong = group->id;
    wrong.internal[offsetof(struct rondo_id, secret) + 31] ^= 1;
    if (rank == 1 && rondo_bootstrap_join(&wrong, 0, group->nranks, LONG_MS, NULL, &bootstrap) != rondoInvalidArgument)
        return rondo_fail(rondoInternalError, "a wrong secret was taken");
    return join_and_check(group, rank);
}

Test(bootstrap, a_wrong_secret_is_refused_and_the_others_do_not_notice)
{
    struct group *group = group_run(3, MIXED, join_with_a_wrong_secret_once, NULL);
    all_got(group, rondoSuccess);
    group_free(group);
}

Test(bootstrap, refuses_what_is_not_an_id)
{
    rondoUniqueId id = {"nonsense"};
    struct rondo_bootstrap *bootstrap;
    cr_expect(rondo_bootstrap_join(&id, 0, 2, LONG_MS, NULL, &bootstrap) == rondoInvalidArgument);
    cr_expect(strstr(rondo_last_error(), "unique id") != NULL);
    cr_expect(bootstrap == NULL);
}

/* ---- disagreement ---- */

static rondoResult_t join_twice(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    if (rank == 3)
        usleep(300000); /* joins after the failure */
    return join(group, rank == 2 ? 1 : rank, &bootstrap);
}

Test(bootstrap, all_ranks_hear_that_a_rank_joined_twice)
{
    int threads = count_threads();
    struct group *group = group_run(4, MIXED, join_twice, NULL);
    all_got(group, rondoInvalidArgument);
    for (int rank = 0; rank < 4; rank++)
        text_has(group, rank, "rank 1 joins twice");
    cr_expect(settled_threads(threads) == threads, "the root still runs");
    group_free(group);
}

static rondoResult_t join_with_other_nranks(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    return rondo_bootstrap_join(&group->id, rank, rank == 1 ? 7 : group->nranks, LONG_MS, NULL, &bootstrap);
}

Test(bootstrap, all_ranks_hear_that_they_disagree_on_nranks)
{
    struct group *group = group_run(3, MIXED, join_with_other_nranks, NULL);
    all_got(group, rondoInvalidArgument);
    for (int rank = 0; rank < 3; rank++)
        text_has(group, rank, "7");
    group_free(group);
}

static rondoResult_t join_out_of_range(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    return join(group, rank == 2 ? 3 : rank, &bootstrap);
}

Test(bootstrap, all_ranks_hear_of_a_rank_that_cannot_be)
{
    struct group *group = group_run(3, MIXED, join_out_of_range, NULL);
    all_got(group, rondoInvalidArgument);
    text_has(group, 0, "rank 3 of 3");
    group_free(group);
}

/* Ranks that have ended their functions, in the scratch area. */
static void count_ended(struct group *group)
{
    __atomic_add_fetch((int *)(void *)group->scratch, 1, __ATOMIC_RELEASE);
}

/* Rank 2 is a forgery: a hello with the secret, but of another host. */
static rondoResult_t join_from_elsewhere(struct group *group, int rank)
{
    const struct rondo_id *id = (const struct rondo_id *)(const void *)&group->id;
    struct rondo_bootstrap *bootstrap;
    struct sockaddr_storage address;
    int fd;
    if (rank != 2) {
        const rondoResult_t result = join(group, rank, &bootstrap);
        count_ended(group);
        return result;
    }
    struct rondo_hello hello = {.magic = RONDO_WIRE_MAGIC, .version = RONDO_WIRE_VERSION, .rank = 2, .nranks = 3};
    memcpy(hello.secret, id->secret, sizeof(hello.secret));
    memset(hello.member.host.boot, 7, sizeof(hello.member.host.boot));
    strcpy(hello.member.host.name, "elsewhere");
    rondo_id_get_address(id, &address);
    if (rondo_socket_connect_tcp(&address, &fd) != 0)
        return rondo_fail(rondoSystemError, "connect");
    struct pollfd poll_one = {fd, POLLOUT, 0};
    poll(&poll_one, 1, 1000);
    rondo_socket_send(fd, &hello, sizeof(hello));
    group_await((int *)(void *)group->scratch, 2);
    rondo_close(&fd);
    return rondoSuccess;
}

Test(bootstrap, a_rank_on_another_host_is_refused_and_its_host_named)
{
    struct group *group = group_run(3, MIXED, join_from_elsewhere, NULL);
    for (int rank = 0; rank < 2; rank++) {
        cr_expect(group->outcomes[rank].result == rondoInvalidUsage, "%d", group->outcomes[rank].result);
        text_has(group, rank, "elsewhere");
        text_has(group, rank, "rank 2");
    }
    group_free(group);
}

/* ---- ranks that do not come, or go ---- */

static rondoResult_t do_not_come(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    if (rank == 2)
        return rondoSuccess;
    return rondo_bootstrap_join(&group->id, rank, group->nranks, SHORT_MS, NULL, &bootstrap);
}

Test(bootstrap, a_missing_rank_is_named_when_the_time_is_over)
{
    struct group *group = group_run(4, MIXED, do_not_come, NULL);
    for (int rank = 0; rank < 4; rank++) {
        if (rank == 2)
            continue;
        cr_expect(group->outcomes[rank].result == rondoTimeout, "%d", group->outcomes[rank].result);
        cr_expect(group->outcomes[rank].ms < 10000, "%.0f ms", group->outcomes[rank].ms);
        text_has(group, rank, "rank 2 of 4 did not join");
    }
    group_free(group);
}

static rondoResult_t stay_away_from_an_exchange(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    int all[GROUP_RANKS], *ended = (int *)(void *)group->scratch;
    RONDO_TRY(rondo_bootstrap_join(&group->id, rank, group->nranks, SHORT_MS, NULL, &bootstrap));
    rondoResult_t result = rondoSuccess;
    if (rank == 1) {
        group_await(ended, group->nranks - 1);
    } else {
        result = rondo_bootstrap_all_gather(bootstrap, &rank, all, sizeof(rank));
        __atomic_add_fetch(ended, 1, __ATOMIC_RELEASE);
    }
    rondo_bootstrap_close(bootstrap);
    return result;
}

Test(bootstrap, a_rank_that_stays_away_from_an_exchange_is_named)
{
    struct group *group = group_run(3, PROCESSES, stay_away_from_an_exchange, NULL);
    for (int rank = 0; rank < 3; rank += 2) {
        cr_expect(group->outcomes[rank].result == rondoTimeout || group->outcomes[rank].result == rondoRemoteError);
        text_has(group, rank, "rank 1 did not take part");
    }
    group_free(group);
}

static int cancelled;

static rondoResult_t wait_for_cancel(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    const rondoResult_t result =
        rondo_bootstrap_join(&group->id, rank, group->nranks + 1, LONG_MS, &cancelled, &bootstrap);
    return __atomic_load_n(&cancelled, __ATOMIC_RELAXED) ? result
                                                         : rondo_fail(rondoInternalError, "it ended by itself");
}

static void cancel_soon(struct group *group)
{
    (void)group;
    usleep(100000);
    __atomic_store_n(&cancelled, 1, __ATOMIC_RELAXED);
}

Test(bootstrap, a_join_can_be_cancelled)
{
    struct group *group = group_run(2, THREADS, wait_for_cancel, cancel_soon);
    for (int rank = 0; rank < 2; rank++) {
        cr_expect(group->outcomes[rank].ms < 5000, "%.0f ms", group->outcomes[rank].ms);
        /* The second to go may hear first that the first one went. */
        cr_expect(group->outcomes[rank].result == rondoInvalidUsage ||
                  group->outcomes[rank].result == rondoRemoteError);
    }
    cr_expect(group->outcomes[0].result == rondoInvalidUsage || group->outcomes[1].result == rondoInvalidUsage);
    group_free(group);
}

/* A child that keeps the sockets of its parent open beyond the parent's death. */
static void leave_a_child(struct group *group)
{
    pid_t child = fork();
    if (child == 0) {
        group_await(&group->go, 2);
        _exit(0);
    }
}

/* When two have ended, which they do without the children's end. */
static void let_children_go(struct group *group)
{
    group_await((int *)(void *)group->scratch, 2);
    __atomic_store_n(&group->go, 2, __ATOMIC_RELEASE);
}

/* Some time in which the process runs, so that its other threads do too: what it stands still counts little. */
static void run_for_a_while(void)
{
    for (int i = 0; i < 20; i++)
        usleep(10000);
}

static void *die_soon(void *argument)
{
    for (int i = 0; i < 3; i++)
        run_for_a_while(); /* the join is under way by then */
    leave_a_child(argument);
    kill(getpid(), SIGKILL);
    return NULL;
}

static rondoResult_t die_in_join(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    pthread_t thread;
    if (rank == 3)
        return rondoSuccess; /* so that the others wait */
    if (rank == 1)
        pthread_create(&thread, NULL, die_soon, group);
    const rondoResult_t result = join(group, rank, &bootstrap);
    count_ended(group);
    return result;
}

static void survivors_heard(struct group *group, int dead, int absent)
{
    for (int rank = 0; rank < group->nranks; rank++) {
        char name[32];
        if (rank == dead || rank == absent)
            continue;
        cr_expect(group->outcomes[rank].result == rondoRemoteError, "rank %d: %d %s", rank,
                  group->outcomes[rank].result, group->outcomes[rank].text);
        cr_expect(group->outcomes[rank].ms < 8000, "rank %d took %.0f ms", rank, group->outcomes[rank].ms);
        snprintf(name, sizeof(name), "rank %d (process %d)", dead, group->outcomes[dead].pid);
        text_has(group, rank, name);
    }
}

Test(bootstrap, a_process_killed_while_others_join_is_named_at_once)
{
    struct group *group = group_run(4, PROCESSES, die_in_join, let_children_go);
    survivors_heard(group, 1, 3);
    group_free(group);
}

static rondoResult_t die_in_gather(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    static char mine[MIB], all[4 * MIB];
    RONDO_TRY(join(group, rank, &bootstrap));
    if (rank == 2) {
        for (int i = 0; i < 5; i++)
            run_for_a_while(); /* what the others have for each other has come by then */
        leave_a_child(group);
        kill(getpid(), SIGKILL);
    }
    rondoResult_t result = rondo_bootstrap_all_gather(bootstrap, mine, all, sizeof(mine));
    count_ended(group);
    rondo_bootstrap_close(bootstrap);
    return result;
}

Test(bootstrap, a_process_killed_in_an_exchange_is_named_at_once)
{
    struct group *group = group_run(4, PROCESSES, die_in_gather, let_children_go);
    survivors_heard(group, 2, -1);
    group_free(group);
}

static rondoResult_t fail_between_exchanges(struct group *group, int rank)
{
    struct rondo_bootstrap *bootstrap;
    int all[GROUP_RANKS];
    RONDO_TRY(join(group, rank, &bootstrap));
    rondoResult_t result = rondoSuccess;
    if (rank == 0)
        rondo_bootstrap_abort(bootstrap, "the dog ate my GPU");
    else
        result = rondo_bootstrap_all_gather(bootstrap, &rank, all, sizeof(rank));
    rondo_bootstrap_close(bootstrap);
    return result;
}

Test(bootstrap, the_reason_of_a_rank_that_gives_up_reaches_the_others)
{
    struct group *group = group_run(4, MIXED, fail_between_exchanges, NULL);
    for (int rank = 1; rank < 4; rank++) {
        cr_expect(group->outcomes[rank].result == rondoRemoteError);
        text_has(group, rank, "the dog ate my GPU");
    }
    group_free(group);
}

/* The process that made the id dies, but a child of it lives on. */
static rondoResult_t outlive_the_root(struct group *group, int rank)
{
    rondoUniqueId *id = (rondoUniqueId *)(void *)group->scratch;
    int *made = (int *)(void *)(group->scratch + sizeof(*id));
    struct rondo_bootstrap *bootstrap;
    if (rank == 0) {
        RONDO_TRY(rondo_bootstrap_id(id));
        leave_a_child(group);
        const int fds = count_fds();
        __atomic_store_n(made, 1, __ATOMIC_RELEASE);
        for (int i = 0; i < 1000 && count_fds() == fds; i++)
            usleep(10000); /* until the root knows rank 1 */
        run_for_a_while();
        kill(getpid(), SIGKILL);
    }
    group_await(made, 1);
    for (int i = 0; rank == 2 && i < 1500 && kill(group->outcomes[0].pid, 0) == 0; i++)
        usleep(10000); /* finds no root; rank 1 sees its end */
    return rondo_bootstrap_join(id, rank, 3, LONG_MS, NULL, &bootstrap);
}

Test(bootstrap, the_death_of_the_root_is_an_error_with_its_address)
{
    struct group *group = group_run(3, PROCESSES, outlive_the_root, NULL);
    __atomic_store_n(&group->go, 2, __ATOMIC_RELEASE);
    cr_expect(group->outcomes[1].result == rondoRemoteError, "%d", group->outcomes[1].result);
    cr_expect(group->outcomes[1].ms < 8000);
    cr_expect(group->outcomes[2].result == rondoSystemError, "%d", group->outcomes[2].result);
    cr_expect(group->outcomes[2].ms < 15000);
    for (int rank = 1; rank < 3; rank++)
        text_has(group, rank, "127.0.0.1:");
    usleep(10000);
    group_free(group);
}

Test(bootstrap, takes_the_interface_from_the_environment)
{
    setenv("RONDO_SOCKET_IFNAME", "lo", 1);
    struct group *group = group_run(2, THREADS, join_and_check, NULL);
    all_got(group, rondoSuccess);
    group_free(group);
}

Test(bootstrap, says_which_interfaces_there_are)
{
    rondoUniqueId id;
    setenv("RONDO_SOCKET_IFNAME", "nosuch0", 1);
    cr_expect(rondo_bootstrap_id(&id) == rondoInvalidUsage);
    cr_expect(strstr(rondo_last_error(), "nosuch0") && strstr(rondo_last_error(), " lo"), "%s", rondo_last_error());
}
