/* Executable graphs. The nodes are cut into chains, each of which runs on a thread: the first on the launching stream's
 * worker, the others on threads of the executable. So branches run at the same time, as they must when the ops in them
 * wait for peers; a graph that is one chain runs without any hand-over. */
#include "device/host_device.h"

#include "common/result.h"

#include <stdlib.h>
#include <string.h>

#define EXEC_MAGIC 0x6365786574736f68ull

struct step {
    struct host_action action;
    size_t *needs; /* steps of other chains that must be done before */
    size_t need_count;
    size_t chain;
};

struct chain {
    rondoHostGraphExec_t exec;
    pthread_t thread;
    struct host_pool pool;
    unsigned long generation; /* of the last run it took part in; its thread */
};

struct rondoHostGraphExec {
    uint64_t magic;
    struct host_owners owners;
    struct step *steps;
    size_t step_count;
    struct chain *chains; /* chains[0] has no thread */
    size_t chain_count;
    unsigned blocks; /* most of a launch in chains[0] */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    unsigned references;
    bool closing;
    uint64_t launched, finished; /* runs so far: they happen in the order in which they were asked for */
    unsigned long generation;    /* runs begun */
    size_t chains_left;          /* of this run */
    bool *done;                  /* steps of this run */
};

/* Puts each step on the chain of the first step that it needs and that no other step has continued yet, else on a new
 * one. So each step of a chain needs the one before it, and chains hold up nothing that the graph does not. */
static void cut(rondoHostGraphExec_t exec, bool *continued)
{
    for (size_t i = 0; i < exec->step_count; i++) {
        struct step *step = &exec->steps[i];
        size_t kept = 0;
        step->chain = SIZE_MAX;
        for (size_t n = 0; n < step->need_count && step->chain == SIZE_MAX; n++)
            if (!continued[step->needs[n]]) {
                continued[step->needs[n]] = true;
                step->chain = exec->steps[step->needs[n]].chain;
            }
        if (step->chain == SIZE_MAX)
            step->chain = exec->chain_count++;
        for (size_t n = 0; n < step->need_count; n++)
            if (exec->steps[step->needs[n]].chain != step->chain)
                step->needs[kept++] = step->needs[n];
        step->need_count = kept;
    }
}

static void run_chain(rondoHostGraphExec_t exec, size_t chain, struct host_pool *pool)
{
    for (size_t i = 0; i < exec->step_count; i++) {
        struct step *step = &exec->steps[i];
        if (step->chain != chain)
            continue;
        if (step->need_count) {
            pthread_mutex_lock(&exec->lock);
            for (size_t n = 0; n < step->need_count; n++)
                while (!exec->done[step->needs[n]])
                    pthread_cond_wait(&exec->changed, &exec->lock);
            pthread_mutex_unlock(&exec->lock);
        }
        host_action_run(&step->action, pool);
        if (exec->chain_count > 1) {
            pthread_mutex_lock(&exec->lock);
            exec->done[i] = true;
            pthread_cond_broadcast(&exec->changed);
            pthread_mutex_unlock(&exec->lock);
        }
    }
}

static void *run_chains(void *argument)
{
    struct chain *chain = argument;
    rondoHostGraphExec_t exec = chain->exec;
    pthread_mutex_lock(&exec->lock);
    for (;;) {
        while (!exec->closing && exec->generation == chain->generation)
            pthread_cond_wait(&exec->changed, &exec->lock);
        if (exec->closing)
            break;
        chain->generation = exec->generation;
        pthread_mutex_unlock(&exec->lock);
        run_chain(exec, (size_t)(chain - exec->chains), &chain->pool);
        pthread_mutex_lock(&exec->lock);
        exec->chains_left--;
        pthread_cond_broadcast(&exec->changed);
    }
    pthread_mutex_unlock(&exec->lock);
    return NULL;
}

static void exec_free(rondoHostGraphExec_t exec, size_t threads)
{
    pthread_mutex_lock(&exec->lock);
    exec->closing = true;
    pthread_cond_broadcast(&exec->changed);
    pthread_mutex_unlock(&exec->lock);
    for (size_t c = 1; c < threads; c++) {
        pthread_join(exec->chains[c].thread, NULL);
        host_pool_fini(&exec->chains[c].pool);
    }
    for (size_t i = 0; i < exec->step_count; i++) {
        host_action_fini(&exec->steps[i].action);
        free(exec->steps[i].needs);
    }
    host_owners_drop(&exec->owners);
    pthread_cond_destroy(&exec->changed);
    pthread_mutex_destroy(&exec->lock);
    free(exec->steps);
    free(exec->chains);
    free(exec->done);
    free(exec);
}

static void drop(rondoHostGraphExec_t exec)
{
    pthread_mutex_lock(&exec->lock);
    bool last = --exec->references == 0;
    pthread_mutex_unlock(&exec->lock);
    if (last)
        exec_free(exec, exec->chain_count);
}

static rondoResult_t copy_graph(rondoHostGraphExec_t exec, rondoHostGraph_t graph)
{
    size_t count = 0;
    RONDO_TRY(rondoHostGraphGetNodes(graph, NULL, &count));
    exec->steps = calloc(count + 1, sizeof *exec->steps);
    exec->done = calloc(count + 1, sizeof *exec->done);
    bool *continued = calloc(count + 1, sizeof *continued);
    rondoResult_t result =
        exec->steps && exec->done && continued ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
    while (exec->step_count < count && result == rondoSuccess) {
        const size_t i = exec->step_count++; /* counted first: a step that was copied in part is freed too */
        struct step *step = &exec->steps[i];
        result = host_graph_copy_node(graph, i, &step->action, &step->needs, &step->need_count);
    }
    if (result == rondoSuccess)
        cut(exec, continued);
    free(continued);
    if (result != rondoSuccess)
        return result;
    exec->chains = calloc(exec->chain_count + 1, sizeof *exec->chains);
    if (!exec->chains)
        return rondo_fail(rondoSystemError, "out of memory");
    return host_graph_share_owners(graph, &exec->owners);
}

/* The most blocks that a launch of the chain has. */
static unsigned blocks_of(rondoHostGraphExec_t exec, size_t chain)
{
    unsigned most = 1;
    for (size_t i = 0; i < exec->step_count; i++)
        if (exec->steps[i].chain == chain && exec->steps[i].action.kind == HOST_KERNEL &&
            exec->steps[i].action.blocks > most)
            most = exec->steps[i].action.blocks;
    return most;
}

static rondoResult_t start_chain(rondoHostGraphExec_t exec, struct chain *chain)
{
    chain->exec = exec;
    host_pool_init(&chain->pool);
    rondoResult_t result = host_pool_reserve(&chain->pool, blocks_of(exec, (size_t)(chain - exec->chains)));
    if (result == rondoSuccess && pthread_create(&chain->thread, NULL, run_chains, chain) != 0)
        result = rondo_fail(rondoSystemError, "no thread for a branch of the graph");
    if (result != rondoSuccess)
        host_pool_fini(&chain->pool);
    return result;
}

rondoResult_t rondoHostGraphInstantiate(rondoHostGraphExec_t *out, rondoHostGraph_t graph)
{
    if (!out)
        return rondo_fail(rondoInvalidArgument, "exec is NULL");
    rondoHostGraphExec_t exec = calloc(1, sizeof *exec);
    if (!exec)
        return rondo_fail(rondoSystemError, "out of memory");
    exec->magic = EXEC_MAGIC;
    exec->references = 1;
    pthread_mutex_init(&exec->lock, NULL);
    pthread_cond_init(&exec->changed, NULL);
    rondoResult_t result = copy_graph(exec, graph);
    if (result == rondoSuccess)
        exec->blocks = blocks_of(exec, 0);
    size_t threads = 1; /* the end of the chains that have one */
    while (result == rondoSuccess && threads < exec->chain_count) {
        result = start_chain(exec, &exec->chains[threads]);
        if (result == rondoSuccess)
            threads++;
    }
    if (result != rondoSuccess)
        exec_free(exec, threads);
    else
        *out = exec;
    return result;
}

static rondoResult_t check(rondoHostGraphExec_t exec)
{
    if (!exec || exec->magic != EXEC_MAGIC)
        return rondo_fail(rondoInvalidArgument, "exec is %s", exec ? "not an executable graph" : "NULL");
    return rondoSuccess;
}

rondoResult_t rondoHostGraphLaunch(rondoHostGraphExec_t exec, rondoHostStream_t handle)
{
    struct CUstream_st *stream;
    RONDO_TRY(check(exec));
    RONDO_TRY(host_stream_find(handle, &stream));
    pthread_mutex_lock(&host_graph_lock);
    bool capturing = stream->capture != NULL;
    pthread_mutex_unlock(&host_graph_lock);
    if (capturing)
        return rondo_fail(rondoInvalidUsage, "an executable graph cannot be launched into a capture");
    RONDO_TRY(host_pool_reserve(&stream->pool, exec->blocks));
    /* Number and place in the stream's queue are taken together: else two threads that launch to one stream could get
     * them in different orders, and the worker would wait for a run that is behind it. */
    pthread_mutex_lock(&exec->lock);
    exec->references++;
    exec->launched++;
    rondoResult_t result = host_stream_enqueue_graph(stream, exec, exec->launched);
    if (result != rondoSuccess) {
        exec->references--; /* not the last: the caller has one */
        exec->launched--;
    }
    pthread_mutex_unlock(&exec->lock);
    return result;
}

void host_exec_run(rondoHostGraphExec_t exec, uint64_t run, struct host_pool *pool)
{
    pthread_mutex_lock(&exec->lock);
    while (exec->finished + 1 != run)
        pthread_cond_wait(&exec->changed, &exec->lock);
    memset(exec->done, 0, exec->step_count * sizeof *exec->done);
    exec->chains_left = exec->chain_count ? exec->chain_count - 1 : 0;
    exec->generation++;
    if (exec->chains_left)
        pthread_cond_broadcast(&exec->changed);
    pthread_mutex_unlock(&exec->lock);

    run_chain(exec, 0, pool);

    pthread_mutex_lock(&exec->lock);
    while (exec->chains_left)
        pthread_cond_wait(&exec->changed, &exec->lock);
    exec->finished = run;
    pthread_cond_broadcast(&exec->changed);
    pthread_mutex_unlock(&exec->lock);
    drop(exec);
}

rondoResult_t rondoHostGraphExecDestroy(rondoHostGraphExec_t exec)
{
    RONDO_TRY(check(exec));
    exec->magic = 0;
    drop(exec);
    return rondoSuccess;
}
