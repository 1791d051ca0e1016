#include "enqueue/group.h"

#include "comm/bootstrap.h"
#include "common/result.h"
#include "graph/launch.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct op {
    struct rondoComm *comm; /* NULL once issued */
    struct CUstream_st *stream;
    struct rondo_task task;
};

struct making {
    struct rondo_comm_request request;
    rondoComm_t *out;
    rondoResult_t result;
    pthread_t thread;
    bool running;
    bool over; /* atomic: *out is what it will be */
    char text[512];
    struct makings *all;
};

/* Comms that are made together come about together or not at all. */
struct makings {
    struct making *list;
    size_t count;
    struct making *failed; /* atomic: the first that failed */
};

static _Thread_local struct {
    unsigned depth;
    rondoResult_t error;
    char text[512]; /* of the error */
    struct op *ops;
    size_t op_count, op_room;
    struct making *makings;
    size_t making_count, making_room;
} group;

bool rondo_group_active(void)
{
    return group.depth > 0;
}

rondoResult_t rondo_group_error(rondoResult_t result)
{
    if (result != rondoSuccess && group.depth && group.error == rondoSuccess) {
        group.error = result;
        snprintf(group.text, sizeof group.text, "%s", rondo_last_error());
    }
    return result;
}

/* Room for one more element. */
static rondoResult_t grow(void **array, size_t count, size_t *room, size_t element)
{
    if (count < *room)
        return rondoSuccess;
    size_t more = *room ? *room * 2 : 16;
    void *bigger = realloc(*array, more * element);
    if (!bigger)
        return rondo_fail(rondoSystemError, "out of memory");
    *array = bigger;
    *room = more;
    return rondoSuccess;
}

static rondoResult_t issue_one(struct rondoComm *comm, const struct rondo_task *task, struct CUstream_st *stream)
{
    struct CUstream_st *streams[] = {stream};
    struct rondo_launch_request request = {task, 1, streams, 1};
    return rondo_launch_group(comm, &request);
}

rondoResult_t rondo_group_add(struct rondoComm *comm, const struct rondo_task *task, struct CUstream_st *stream)
{
    if (!group.depth)
        return issue_one(comm, task, stream);
    RONDO_TRY(grow((void **)&group.ops, group.op_count, &group.op_room, sizeof *group.ops));
    group.ops[group.op_count++] = (struct op){comm, stream, *task};
    return rondoSuccess;
}

rondoResult_t rondo_group_add_comm(const struct rondo_comm_request *request, rondoComm_t *comm)
{
    if (!group.depth)
        return rondo_comm_create(request, comm);
    RONDO_TRY(grow((void **)&group.makings, group.making_count, &group.making_room, sizeof *group.makings));
    *comm = NULL;
    group.makings[group.making_count++] = (struct making){.request = *request, .out = comm};
    return rondoSuccess;
}

/* The others may wait for a rank that will never come now. */
static void making_failed(struct making *m)
{
    struct making *none = NULL;
    if (!__atomic_compare_exchange_n(&m->all->failed, &none, m, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    for (size_t i = 0; i < m->all->count; i++) {
        struct making *other = &m->all->list[i];
        struct rondoComm *comm;
        /* a handle comes soon after its thread has begun */
        while (!(comm = __atomic_load_n(other->out, __ATOMIC_SEQ_CST)) &&
               !__atomic_load_n(&other->over, __ATOMIC_SEQ_CST))
            sched_yield();
        if (comm)
            rondo_comm_cancel(comm);
    }
}

static void *make_comm(void *argument)
{
    struct making *m = argument;
    m->result = rondo_comm_create(&m->request, m->out);
    snprintf(m->text, sizeof m->text, "%s", rondo_last_error());
    __atomic_store_n(&m->over, true, __ATOMIC_SEQ_CST);
    if (m->result != rondoSuccess)
        making_failed(m);
    return NULL;
}

static void start_making(struct making *m, struct makings *all)
{
    m->all = all;
    m->running = pthread_create(&m->thread, NULL, make_comm, m) == 0;
    if (m->running)
        return;
    m->result = rondoSystemError;
    snprintf(m->text, sizeof m->text, "no thread for comm init");
    __atomic_store_n(&m->over, true, __ATOMIC_SEQ_CST);
}

/* Ranks of one comm wait for each other: each is made by a thread of its own. */
static rondoResult_t make_comms(void)
{
    struct makings all = {group.makings, group.making_count, NULL};
    for (size_t i = 0; i < all.count; i++)
        start_making(&all.list[i], &all);
    for (size_t i = 0; i < all.count; i++) {
        if (all.list[i].running)
            pthread_join(all.list[i].thread, NULL);
        else
            making_failed(&all.list[i]);
    }
    if (!all.failed)
        return rondoSuccess;
    for (size_t i = 0; i < all.count; i++) {
        struct making *m = &all.list[i];
        if (m->result == rondoSuccess)
            rondoCommAbort(*m->out);
        *m->out = NULL;
        if (m->request.own_id)
            rondo_bootstrap_forget(&m->request.id);
    }
    return rondo_repeat(all.failed->result, "%s", all.failed->text);
}

/* Adds a stream to a list of distinct ones. */
static size_t add_stream(struct CUstream_st **streams, size_t count, struct CUstream_st *stream)
{
    for (size_t i = 0; i < count; i++)
        if (streams[i] == stream)
            return count;
    streams[count] = stream;
    return count + 1;
}

/* Issues the ops of the comm of ops[first], from there on, in their order. */
static rondoResult_t issue_comm(size_t first, struct rondo_task *tasks, struct CUstream_st **streams)
{
    struct rondoComm *comm = group.ops[first].comm;
    struct rondo_launch_request request = {.tasks = tasks, .streams = streams};
    for (size_t i = first; i < group.op_count; i++) {
        struct op *op = &group.ops[i];
        if (op->comm != comm)
            continue;
        tasks[request.task_count++] = op->task;
        request.stream_count = add_stream(streams, request.stream_count, op->stream);
        op->comm = NULL;
    }
    RONDO_TRY(rondo_comm_enter(comm));
    rondoResult_t result = rondo_launch_group(comm, &request);
    rondo_comm_leave(comm);
    return result;
}

/* All comms are issued even if one fails: the others' peers wait for them. */
static rondoResult_t issue(void)
{
    if (!group.op_count)
        return rondoSuccess;
    struct rondo_task *tasks = malloc(group.op_count * sizeof *tasks);
    struct CUstream_st **streams = malloc(group.op_count * sizeof *streams);
    rondoResult_t result = rondoSuccess;
    char text[512] = "";
    if (!tasks || !streams)
        result = rondo_fail(rondoSystemError, "out of memory");
    for (size_t i = 0; i < group.op_count && tasks && streams; i++) {
        if (!group.ops[i].comm)
            continue;
        rondoResult_t one = issue_comm(i, tasks, streams);
        if (one != rondoSuccess && result == rondoSuccess) {
            result = one;
            snprintf(text, sizeof text, "%s", rondo_last_error());
        }
    }
    free(tasks);
    free(streams);
    return result == rondoSuccess || !*text ? result : rondo_repeat(result, "%s", text);
}

static void clear(void)
{
    free(group.ops);
    free(group.makings);
    memset(&group, 0, sizeof group);
}

rondoResult_t rondoGroupStart(void)
{
    group.depth++;
    return rondoSuccess;
}

rondoResult_t rondoGroupEnd(void)
{
    if (group.depth == 0)
        return rondo_fail(rondoInvalidUsage, "rondoGroupEnd without rondoGroupStart");
    if (group.depth > 1) {
        group.depth--;
        return rondoSuccess;
    }
    rondoResult_t result = group.error;
    if (result != rondoSuccess) {
        for (size_t i = 0; i < group.making_count; i++)
            if (group.makings[i].request.own_id)
                rondo_bootstrap_forget(&group.makings[i].request.id);
        rondo_repeat(result, "%s", group.text);
    } else if ((result = make_comms()) == rondoSuccess)
        result = issue();
    clear();
    return result;
}
