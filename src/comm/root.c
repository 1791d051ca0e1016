#include "comm/root.h"

#include "comm/bootstrap_host.h"
#include "comm/root_impl.h"
#include "comm/socket.h"
#include "common/env.h"
#include "common/result.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static pthread_mutex_t roots_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before token_lock, never with another */
static struct rondo_root *roots;                               /* under roots_lock; keeps unused roots reachable */

static void *root_thread(void *argument)
{
    struct rondo_root *root = argument;
    pthread_mutex_lock(&roots_lock);
    for (;;) {
        nfds_t polled;
        int wait_ms = rondo_root_prepare(root, &polled);
        if (wait_ms < 0)
            break;
        struct pollfd *polls = root->polls;
        pthread_mutex_unlock(&roots_lock);
        int ready = poll(polls, polled, wait_ms);
        pthread_mutex_lock(&roots_lock);
        if (ready > 0)
            rondo_root_serve(root);
        else
            rondo_root_sweep(root);
    }
    struct rondo_root **place = &roots;
    while (*place != root)
        place = &(*place)->next;
    *place = root->next;
    rondo_root_free(root);
    pthread_mutex_unlock(&roots_lock);
    return NULL;
}

/* A child has no root threads; were its copies of the sockets to stay open, ranks would wait for a root that died. */
static void fork_prepare(void)
{
    pthread_mutex_lock(&roots_lock);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&roots_lock);
}

static void fork_child(void)
{
    while (roots) {
        struct rondo_root *next = roots->next;
        rondo_root_free(roots);
        roots = next;
    }
    pthread_mutex_unlock(&roots_lock);
}

static void watch_forks(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* Listens, and says where in the id. */
static rondoResult_t open_root(struct rondo_root *root)
{
    struct sockaddr_storage address;
    RONDO_TRY(rondo_process_token(root->token));
    RONDO_TRY(rondo_random(root->id.secret, sizeof(root->id.secret)));
    RONDO_TRY(rondo_socket_interface(rondo_env()->socket_ifname, &address));
    RONDO_TRY(rondo_socket_listen_tcp(&address, &root->listener));
    rondo_host_read(&root->host);
    memcpy(root->id.boot, root->host.boot, sizeof(root->id.boot));
    memcpy(root->id.host, root->host.name, sizeof(root->id.host) - 1);
    root->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (root->wake < 0)
        return rondo_fail(rondoSystemError, "eventfd: %s", strerror(errno));
    if (!rondo_root_room(root))
        return rondo_fail(rondoSystemError, "no memory for a root");
    rondo_id_set_address(&root->id, &address);
    return rondoSuccess;
}

static int start_thread(struct rondo_root *root)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its own threads */
    int error = pthread_create(&thread, NULL, root_thread, root);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_setname_np(thread, "rondo-root");
        pthread_detach(thread);
    }
    return error;
}

rondoResult_t rondo_root_start(struct rondo_id *id)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct rondo_root *root = calloc(1, sizeof(*root));
    if (!root)
        return rondo_fail(rondoSystemError, "no memory for a root");
    root->listener = root->wake = -1;
    rondoResult_t result = open_root(root);
    if (result != rondoSuccess) {
        rondo_root_free(root);
        return result;
    }
    *id = root->id;
    pthread_mutex_lock(&roots_lock);
    int error = start_thread(root);
    if (error == 0) {
        root->next = roots;
        roots = root;
    }
    pthread_mutex_unlock(&roots_lock);
    if (error == 0)
        return rondoSuccess;
    rondo_root_free(root);
    return rondo_fail(rondoSystemError, "cannot start the root's thread: %s", strerror(error));
}

/* NULL: it is not in this process, or has ended. Under roots_lock. */
static struct rondo_root *find_root(const struct rondo_id *id)
{
    struct rondo_root *root = roots;
    while (root && !rondo_secret_equal(root->id.secret, id->secret, sizeof(id->secret)))
        root = root->next;
    return root;
}

void rondo_root_stop(const struct rondo_id *id)
{
    pthread_mutex_lock(&roots_lock);
    struct rondo_root *root = find_root(id);
    if (root) {
        root->stop = 1;
        eventfd_write(root->wake, 1);
    }
    pthread_mutex_unlock(&roots_lock);
}

void rondo_root_fail(const struct rondo_id *id, int others, rondoResult_t result, const char *text)
{
    pthread_mutex_lock(&roots_lock);
    struct rondo_root *root = find_root(id);
    if (root) {
        rondo_root_give_up(root, others, result, text);
        eventfd_write(root->wake, 1);
    }
    pthread_mutex_unlock(&roots_lock);
}

int rondo_root_count(void)
{
    int count = 0;
    pthread_mutex_lock(&roots_lock);
    for (const struct rondo_root *root = roots; root; root = root->next)
        count++;
    pthread_mutex_unlock(&roots_lock);
    return count;
}
