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

/* One more thread. It has no part in the launch that may be running: that one has all of its threads. */
static rondoResult_t grow(struct host_pool *pool)
{
    pthread_t *threads = realloc(pool->threads, (pool->thread_count + 1) * sizeof *threads);
    if (!threads)
        return rondo_fail(rondoSystemError, "out of memory");
    pool->threads = threads;
    struct helper *helper = malloc(sizeof *helper);
    if (!helper)
        return rondo_fail(rondoSystemError, "out of memory");
    *helper = (struct helper){pool, pool->thread_count + 1, pool->generation};
    int error = pthread_create(&threads[pool->thread_count], NULL, help, helper);
    if (error) {
        free(helper);
        return rondo_fail(rondoSystemError, "no thread for block %u of a launch: %s", pool->thread_count + 1,
                          strerror(error));
    }
    pool->thread_count++;
    return rondoSuccess;
}

rondoResult_t host_pool_reserve(struct host_pool *pool, unsigned blocks)
{
    rondoResult_t result = rondoSuccess;
    pthread_mutex_lock(&pool->lock);
    while (result == rondoSuccess && pool->thread_count + 1 < blocks)
        result = grow(pool);
    pthread_mutex_unlock(&pool->lock);
    return result;
}

static void start_helpers(struct host_pool *pool, void (*kernel)(const void *), const void *args, unsigned blocks)
{
    pthread_mutex_lock(&pool->lock);
    RONDO_ASSERT(blocks <= pool->thread_count + 1);
    pool->kernel = kernel;
    pool->args = args;
    pool->blocks = blocks;
    pool->left = blocks - 1;
    pool->generation++;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

static void await_helpers(struct host_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->left)
        pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void host_pool_run(struct host_pool *pool, void (*kernel)(const void *), const void *args, unsigned blocks)
{
    if (blocks > 1)
        start_helpers(pool, kernel, args, blocks);
    rondo_host_block = 0;
    rondo_host_blocks = blocks;
    kernel(args);
    if (blocks > 1)
        await_helpers(pool);
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
        if (action->bytes) /* else the pointers may be NULL */
            memmove(action->to, action->from, action->bytes);
        break;
    case HOST_SET:
        if (action->bytes)
            memset(action->to, action->byte, action->bytes);
        break;
    }
}

rondoResult_t host_action_copy(const struct host_action *from, struct host_action *to)
{
    *to = *from;
    if (from->kind != HOST_KERNEL)
        return rondoSuccess;
    to->argument = malloc(from->bytes ? from->bytes : 1);
    if (!to->argument)
        return rondo_fail(rondoSystemError, "out of memory");
    if (from->bytes)
        memcpy(to->argument, from->argument, from->bytes);
    return rondoSuccess;
}

void host_action_fini(struct host_action *action)
{
    if (action->kind == HOST_KERNEL)
        free(action->argument);
}
