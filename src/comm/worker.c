#include "comm/worker.h"

#include "common/result.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

rondoResult_t rondo_worker_start(struct rondo_worker *worker, void *(*function)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's signals are for its own threads */
    int error = pthread_create(&worker->thread, NULL, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return rondo_fail(rondoSystemError, "no thread for a non-blocking call: %s", strerror(error));
    pthread_setname_np(worker->thread, "rondo-worker");
    worker->process = getpid();
    __atomic_store_n(&worker->there, 1, __ATOMIC_RELEASE); /* rondo_worker_take */
    return rondoSuccess;
}

bool rondo_worker_take(struct rondo_worker *worker, struct rondo_worker *taken)
{
    if (!__atomic_exchange_n(&worker->there, 0, __ATOMIC_ACQUIRE) || worker->process != getpid())
        return false;
    *taken = (struct rondo_worker){1, worker->process, worker->thread};
    return true;
}

void rondo_worker_join(struct rondo_worker *worker)
{
    struct rondo_worker taken;
    if (rondo_worker_take(worker, &taken))
        pthread_join(taken.thread, NULL);
}

void rondo_worker_detach(struct rondo_worker *worker)
{
    struct rondo_worker taken;
    if (rondo_worker_take(worker, &taken))
        pthread_detach(taken.thread);
}
