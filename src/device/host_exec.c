/* Executable graphs: which program they run, and in which order their runs happen. */
#include "device/host_graph.h"
#include "device/host_program.h"

#include "common/result.h"

#include <stdlib.h>

#define EXEC_MAGIC 0x6365786574736f68ull

struct rondoHostGraphExec {
    uint64_t magic;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct host_program *program; /* of later launches; those before have theirs */
    unsigned references;
    uint64_t launched, finished; /* runs so far: they happen in the order in which they were asked for */
};

static void drop(rondoHostGraphExec_t exec)
{
    pthread_mutex_lock(&exec->lock);
    bool last = --exec->references == 0;
    pthread_mutex_unlock(&exec->lock);
    if (!last)
        return;
    host_program_drop(exec->program);
    pthread_cond_destroy(&exec->changed);
    pthread_mutex_destroy(&exec->lock);
    free(exec);
}

rondoResult_t rondoHostGraphInstantiate(rondoHostGraphExec_t *out, rondoHostGraph_t graph)
{
    if (!out)
        return rondo_fail(rondoInvalidArgument, "exec is NULL");
    RONDO_TRY(host_graph_check(graph));
    rondoHostGraphExec_t exec = calloc(1, sizeof *exec);
    if (!exec)
        return rondo_fail(rondoSystemError, "out of memory");
    rondoResult_t result = host_program_create(graph, &exec->program);
    if (result != rondoSuccess) {
        free(exec);
        return result;
    }
    exec->magic = EXEC_MAGIC;
    exec->references = 1;
    pthread_mutex_init(&exec->lock, NULL);
    pthread_cond_init(&exec->changed, NULL);
    *out = exec;
    return rondoSuccess;
}

static rondoResult_t check(rondoHostGraphExec_t exec)
{
    if (!exec || exec->magic != EXEC_MAGIC)
        return rondo_fail(rondoInvalidArgument, "exec is %s", exec ? "not an executable graph" : "NULL");
    return rondoSuccess;
}

rondoResult_t rondoHostGraphExecUpdate(rondoHostGraphExec_t exec, rondoHostGraph_t graph)
{
    struct host_program *program, *old;
    RONDO_TRY(check(exec));
    RONDO_TRY(host_graph_check(graph));
    RONDO_TRY(host_program_create(graph, &program));
    pthread_mutex_lock(&exec->lock);
    old = exec->program;
    const bool alike = host_program_is_like(old, program);
    if (alike)
        exec->program = program;
    pthread_mutex_unlock(&exec->lock);
    host_program_drop(alike ? old : program);
    return alike ? rondoSuccess
                 : rondo_fail(rondoInvalidUsage, "the graph has other nodes or edges than the executable one");
}

static struct host_program *program_of(rondoHostGraphExec_t exec)
{
    pthread_mutex_lock(&exec->lock);
    struct host_program *program = exec->program;
    host_program_hold(program);
    pthread_mutex_unlock(&exec->lock);
    return program;
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
    struct host_program *program = program_of(exec);
    rondoResult_t result = host_pool_reserve(&stream->pool, host_program_blocks(program));
    /* Number and place in the stream's queue are taken together: else two threads that launch to one stream could get
     * them in different orders, and the worker would wait for a run that is behind it. */
    pthread_mutex_lock(&exec->lock);
    if (result == rondoSuccess)
        result = host_stream_enqueue_graph(stream, exec, program, exec->launched + 1);
    if (result == rondoSuccess) {
        exec->references++;
        exec->launched++;
    }
    pthread_mutex_unlock(&exec->lock);
    if (result != rondoSuccess)
        host_program_drop(program);
    return result;
}

void host_exec_run(rondoHostGraphExec_t exec, struct host_program *program, uint64_t run, struct host_pool *pool)
{
    pthread_mutex_lock(&exec->lock);
    while (exec->finished + 1 != run)
        pthread_cond_wait(&exec->changed, &exec->lock);
    pthread_mutex_unlock(&exec->lock);
    host_program_run(program, pool);
    pthread_mutex_lock(&exec->lock);
    exec->finished = run;
    pthread_cond_broadcast(&exec->changed);
    pthread_mutex_unlock(&exec->lock);
    host_program_drop(program);
    drop(exec);
}

rondoResult_t rondoHostGraphExecDestroy(rondoHostGraphExec_t exec)
{
    RONDO_TRY(check(exec));
    exec->magic = 0;
    drop(exec);
    return rondoSuccess;
}
