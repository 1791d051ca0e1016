#include "device/host_device.h"

#include "common/result.h"
#include "device/host_kernels.h"

#include <stdlib.h>
#include <string.h>

_Thread_local unsigned rondo_host_block, rondo_host_blocks;

void host_pool_init(struct host_pool *pool)
{
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
}

struct helper {
    struct host_pool *pool;
    unsigned block;
    unsigned long generation;
};

static void *help(void *argument)
{
    struct helper helper = *(struct helper *)argument;
    struct host_pool *pool = helper.pool;
    free(argument);
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->closing && (pool->generation == helper.generation || helper.block >= pool->blocks)) {
            helper.generation = pool->generation;
            pthread_cond_wait(&pool->changed, &pool->lock);
        }
        if (pool->closing)
            break;
        helper.generation = pool->generation;
        rondo_host_block = helper.block;
        rondo_host_blocks = pool->blocks;
        pthread_mutex_unlock(&pool->lock);
        pool->kernel(pool->args);
        pthread_mutex_lock(&pool->lock);
        if (--pool->left == 0)
            pthread_cond_broadcast(&pool->changed);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Threads for all blocks but the first. A launch cannot be refused any more here: without threads there is no going on. */
static void ensure(struct host_pool *pool, unsigned blocks)
{
    if (blocks <= pool->thread_count + 1)
        return;
    pthread_t *threads = realloc(pool->threads, (blocks - 1) * sizeof *threads);
    RONDO_ASSERT(threads);
    pool->threads = threads;
    while (pool->thread_count + 1 < blocks) {
        struct helper *helper = malloc(sizeof *helper);
        RONDO_ASSERT(helper);
        *helper = (struct helper){pool, pool->thread_count + 1, pool->generation};
        RONDO_ASSERT(pthread_create(&pool->threads[pool->thread_count], NULL, help, helper) == 0);
        pool->thread_count++;
    }
}

void host_pool_run(struct host_pool *pool, void (*kernel)(const void *), const void *args, unsigned blocks)
{
    pthread_mutex_lock(&pool->lock);
    ensure(pool, blocks);
    pool->kernel = kernel;
    pool->args = args;
    pool->blocks = blocks;
    pool->left = blocks - 1;
    pool->generation++;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);

    rondo_host_block = 0;
    rondo_host_blocks = blocks;
    kernel(args);

    pthread_mutex_lock(&pool->lock);
    while (pool->left)
        pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void host_pool_fini(struct host_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned t = 0; t < pool->thread_count; t++)
        pthread_join(pool->threads[t], NULL);
    free(pool->threads);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
}

void host_action_run(const struct host_action *action, struct host_pool *pool)
{
    switch (action->kind) {
    case HOST_KERNEL:
        host_pool_run(pool, action->kernel, action->argument, action->blocks);
        break;
    case HOST_CALL:
        action->function(action->argument);
        break;
    case HOST_COPY:
        memmove(action->to, action->from, action->bytes);
        break;
    case HOST_SET:
        memset(action->to, action->byte, action->bytes);
        break;
    }
}

rondoResult_t host_action_copy(const struct host_action *from, struct host_action *to)
{
    *to = *from;
    if (from->kind != HOST_KERNEL)
        return rondoSuccess;
    to->argument = malloc(from->bytes);
    if (!to->argument)
        return rondo_fail(rondoSystemError, "out of memory");
    memcpy(to->argument, from->argument, from->bytes);
    return rondoSuccess;
}

void host_action_fini(struct host_action *action)
{
    if (action->kind == HOST_KERNEL)
        free(action->argument);
}
