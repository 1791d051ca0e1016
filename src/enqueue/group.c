#include "enqueue/group.h"

#include "comm/bootstrap.h"
#include "common/range.h"
#include "common/result.h"
#include "enqueue/explain.h"
#include "enqueue/persistent.h"
#include "graph/launch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exactly one of task and message is meant. */
struct op {
    struct rondoComm *comm; /* NULL once prepared */
    struct CUstream_st *stream;
    bool is_message;
    union {
        struct rondo_task task;
        struct rondo_message message;
    } what;
};

struct making {
    struct rondo_comm_request request;
    rondoComm_t *out;
    struct rondoComm *comm; /* constant once threads run; NULL: nothing is to be made */
    rondoResult_t result;
    pthread_t thread;
    bool running;
    bool over; /* atomic: comm is made, or gone */
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
    if (!group.depth)
        return rondo_plan_error(result);
    if (result != rondoSuccess && group.error == rondoSuccess) {
        group.error = result;
        snprintf(group.text, sizeof group.text, "%s", rondo_last_error());
    }
    return result;
}

/* Launches a comm's ops, now or whenever the plan that the thread makes is launched. */
static rondoResult_t launch(struct rondoComm *comm, const struct rondo_launch_request *request)
{
    return rondo_plan_making() ? rondo_plan_add(comm, request) : rondo_launch_group(comm, request);
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

static rondoResult_t add(const struct op *op)
{
    RONDO_TRY(grow((void **)&group.ops, group.op_count, &group.op_room, sizeof *group.ops));
    group.ops[group.op_count++] = *op;
    return rondoSuccess;
}

rondoResult_t rondo_group_add(struct rondoComm *comm, const struct rondo_task *task, struct CUstream_st *stream)
{
    struct CUstream_st *streams[] = {stream};
    const struct rondo_launch_request request = {.tasks = task, .task_count = 1, .streams = streams, .stream_count = 1};
    if (!group.depth)
        return launch(comm, &request);
    return add(&(struct op){.comm = comm, .stream = stream, .what.task = *task});
}

rondoResult_t rondo_group_add_message(struct rondoComm *comm, const struct rondo_message *message,
                                      struct CUstream_st *stream)
{
    struct CUstream_st *streams[] = {stream};
    struct rondo_message one = *message;
    const struct rondo_launch_request request = {
        .messages = &one, .message_count = 1, .streams = streams, .stream_count = 1};
    if (group.depth)
        return add(&(struct op){.comm = comm, .stream = stream, .is_message = true, .what.message = *message});
    if (message->peer == comm->rank && message->kind != RONDO_COPY)
        return rondo_fail(rondoInvalidUsage, "a %s rank %d itself needs its other half in the same group",
                          message->kind == RONDO_SEND ? "send to" : "receive from", comm->rank);
    return launch(comm, &request);
}

rondoResult_t rondo_group_add_comm(const struct rondo_comm_request *request, rondoComm_t *comm)
{
    if (rondo_plan_making())
        return rondo_fail(rondoInvalidUsage, "a comm cannot be made while the thread makes a plan");
    if (!group.depth) {
        const rondoResult_t result = rondo_comm_create(request, comm);
        if (result == rondoSuccess && *comm) /* a split may have made nothing */
            rondo_choices_log(*comm);
        return result;
    }
    if (group.making_count && group.makings[0].request.config.blocking != request->config.blocking)
        return rondo_fail(rondoInvalidArgument, "a group makes blocking and non-blocking comms");
    RONDO_TRY(grow((void **)&group.makings, group.making_count, &group.making_room, sizeof *group.makings));
    __atomic_store_n(comm, NULL, __ATOMIC_RELAXED);
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
        if (other->comm && !__atomic_load_n(&other->over, __ATOMIC_SEQ_CST))
            rondo_comm_cancel(other->comm);
    }
}

static void *make_comm(void *argument)
{
    struct making *m = argument;
    m->result = rondo_comm_make(m->comm, m->out);
    if (m->result == rondoSuccess)
        rondo_choices_log(m->comm);
    snprintf(m->text, sizeof m->text, "%s", rondo_last_error());
    __atomic_store_n(&m->over, true, __ATOMIC_SEQ_CST);
    if (m->result != rondoSuccess)
        making_failed(m);
    return NULL;
}

/* What a thread does not do: either there is nothing to do, or it failed. */
static void without_thread(struct making *m, rondoResult_t result)
{
    m->result = result;
    snprintf(m->text, sizeof m->text, "%s", rondo_last_error());
    __atomic_store_n(&m->over, true, __ATOMIC_SEQ_CST);
}

static void start_making(struct making *m)
{
    if (!m->comm)
        return;
    if (!m->request.config.blocking) {
        without_thread(m, rondo_comm_make_later(m->comm));
        __atomic_store_n(m->out, m->result == rondoSuccess ? m->comm : NULL, __ATOMIC_SEQ_CST);
        return;
    }
    __atomic_store_n(m->out, m->comm, __ATOMIC_SEQ_CST); /* who is to abort it may read it from here on */
    m->running = pthread_create(&m->thread, NULL, make_comm, m) == 0;
    if (!m->running) { /* then in this thread, where it ends at once */
        rondo_comm_cancel(m->comm);
        make_comm(m);
    }
}

/* Ranks of one comm wait for each other: each is made by a thread of its own. */
static rondoResult_t make_comms(void)
{
    struct makings all = {group.makings, group.making_count, NULL};
    for (size_t i = 0; i < all.count; i++) { /* in this order on all ranks of a parent */
        struct making *m = &all.list[i];
        m->all = &all;
        rondoResult_t result = rondo_comm_begin(&m->request, &m->comm);
        if (!m->comm)
            without_thread(m, result);
    }
    for (size_t i = 0; i < all.count; i++)
        start_making(&all.list[i]);
    for (size_t i = 0; i < all.count; i++) {
        if (all.list[i].running)
            pthread_join(all.list[i].thread, NULL);
        else if (all.list[i].result != rondoSuccess)
            making_failed(&all.list[i]);
    }
    if (!all.failed)
        return all.count && !all.list[0].request.config.blocking ? rondoInProgress : rondoSuccess;
    for (size_t i = 0; i < all.count; i++) {
        struct making *m = &all.list[i];
        if (m->result == rondoSuccess && m->comm)
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

/* What one comm is to issue. */
struct batch {
    struct rondoComm *comm;
    struct rondo_launch_request request;
};

/* Memory for a group's batches: each takes its share of these. */
struct room {
    struct batch *batches;
    struct rondo_task *tasks;
    struct rondo_message *messages;
    struct CUstream_st **streams;
};

static const struct rondo_message *next_of_self(const struct batch *batch, size_t *at, enum rondo_transfer_kind kind)
{
    for (; *at < batch->request.message_count; ++*at) {
        const struct rondo_message *m = &batch->request.messages[*at];
        if (m->kind == kind && m->peer == batch->comm->rank)
            return &batch->request.messages[(*at)++];
    }
    return NULL;
}

/* The i-th send of a rank to itself and its i-th receive from itself become a copy. */
static rondoResult_t match_self(struct batch *batch)
{
    size_t sent = 0, received = 0, kept = 0;
    struct rondo_message *messages = batch->request.messages;
    for (;;) {
        const struct rondo_message *send = next_of_self(batch, &sent, RONDO_SEND);
        const struct rondo_message *recv = next_of_self(batch, &received, RONDO_RECV);
        if (!send && !recv)
            break;
        if (!send || !recv)
            return rondo_fail(rondoInvalidUsage, "a group has a %s rank %d itself without its other half",
                              send ? "send to" : "receive from", batch->comm->rank);
        if (send->bytes != recv->bytes)
            return rondo_fail(rondoInvalidUsage, "rank %d sends itself %llu bytes and receives %llu", batch->comm->rank,
                              (unsigned long long)send->bytes, (unsigned long long)recv->bytes);
        struct rondo_message *copy = &messages[send - messages];
        copy->from = send->buffer;
        copy->buffer = recv->buffer;
        copy->element = send->element < recv->element ? send->element : recv->element;
        copy->kind = RONDO_COPY;
        sent = (size_t)(send - messages) + 1;
    }
    for (size_t i = 0; i < batch->request.message_count; i++)
        if (messages[i].kind != RONDO_RECV || messages[i].peer != batch->comm->rank)
            messages[kept++] = messages[i];
    batch->request.message_count = kept;
    return rondoSuccess;
}

/* Collects the ops of the comm of ops[first], from there on, in their order. */
static rondoResult_t prepare(size_t first, struct batch *batch, struct room *room)
{
    size_t tasks = 0, messages = 0, streams = 0;
    batch->comm = group.ops[first].comm;
    for (size_t i = first; i < group.op_count; i++) {
        struct op *op = &group.ops[i];
        if (op->comm != batch->comm)
            continue;
        if (op->is_message)
            room->messages[messages++] = op->what.message;
        else
            room->tasks[tasks++] = op->what.task;
        streams = add_stream(room->streams, streams, op->stream);
        op->comm = NULL;
    }
    batch->request = (struct rondo_launch_request){.tasks = room->tasks,
                                                   .task_count = tasks,
                                                   .messages = room->messages,
                                                   .message_count = messages,
                                                   .streams = room->streams,
                                                   .stream_count = streams};
    room->tasks += tasks;
    room->messages += messages;
    room->streams += streams;
    return match_self(batch);
}

static rondoResult_t issue_batch(struct batch *batch)
{
    RONDO_TRY(rondo_comm_enter(batch->comm));
    rondoResult_t result = launch(batch->comm, &batch->request);
    rondo_comm_leave(batch->comm);
    return result;
}

/* All ranks issue their comms in one order, whichever op of a group comes first with each: the launches of two comms that wait for
 * each other's streams would else wait for each other's ranks too. */
static void sort_by_key(struct batch *batches, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct batch batch = batches[i];
        size_t j = i;
        for (; j > 0 && batches[j - 1].comm->key > batch.comm->key; j--)
            batches[j] = batches[j - 1];
        batches[j] = batch;
    }
}

/* All comms are issued even if one fails: the others' peers wait for them. */
static rondoResult_t issue_all(struct room room)
{
    struct batch *const batches = room.batches;
    size_t count = 0;
    rondoResult_t result = rondoSuccess;
    char text[512] = "";
    for (size_t i = 0; i < group.op_count; i++)
        if (group.ops[i].comm)
            RONDO_TRY(prepare(i, &batches[count++], &room));
    sort_by_key(batches, count);
    for (size_t b = 0; b < count; b++) {
        rondoResult_t one = issue_batch(&batches[b]);
        if (one != rondoSuccess && result == rondoSuccess) {
            result = one;
            snprintf(text, sizeof text, "%s", rondo_last_error());
        }
    }
    return result == rondoSuccess ? result : rondo_repeat(result, "%s", text);
}

static rondoResult_t issue(void)
{
    const size_t count = group.op_count;
    if (!count)
        return rondoSuccess;
    struct room room = {malloc(count * sizeof *room.batches), malloc(count * sizeof *room.tasks),
                        malloc(count * sizeof *room.messages), malloc(count * sizeof *room.streams)};
    rondoResult_t result = room.batches && room.tasks && room.messages && room.streams
                               ? issue_all(room)
                               : rondo_fail(rondoSystemError, "out of memory");
    free(room.batches);
    free(room.tasks);
    free(room.messages);
    free(room.streams);
    return result;
}

bool rondo_group_mixes_blocking(void)
{
    for (size_t i = 1; i < group.op_count; i++)
        if (group.ops[i].comm->config.blocking != group.ops[0].comm->config.blocking)
            return true;
    return false;
}

/* What is not to be made has no use for its id. */
static void forget_ids(void)
{
    for (size_t i = 0; i < group.making_count; i++)
        if (group.makings[i].request.own_id)
            rondo_bootstrap_forget(&group.makings[i].request.id);
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

/* Ends the innermost group, but for what is left to the outermost. */
static rondoResult_t end(bool *outermost)
{
    if (group.depth == 0)
        return rondo_fail(rondoInvalidUsage, "rondoGroupEnd without rondoGroupStart");
    *outermost = group.depth == 1;
    if (group.depth > 1)
        group.depth--;
    return rondoSuccess;
}

rondoResult_t rondoGroupEnd(void)
{
    RONDO_RANGE("rondoGroupEnd", 0);
    bool outermost;
    RONDO_TRY(end(&outermost));
    if (!outermost)
        return rondoSuccess;
    rondoResult_t result = group.error;
    if (result != rondoSuccess) {
        forget_ids();
        rondo_repeat(result, "%s", group.text);
    } else if ((result = make_comms()) == rondoSuccess || result == rondoInProgress) {
        const rondoResult_t issued = issue();
        result = issued == rondoSuccess ? result : issued;
    }
    clear();
    return rondo_plan_error(result);
}

rondoResult_t rondo_group_discard(void)
{
    bool outermost;
    RONDO_TRY(end(&outermost));
    if (!outermost)
        return rondoSuccess;
    rondoResult_t result = group.error;
    forget_ids();
    if (result != rondoSuccess)
        rondo_repeat(result, "%s", group.text);
    clear();
    return result;
}
