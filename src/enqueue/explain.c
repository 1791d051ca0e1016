/* Plans an op without enqueuing it, and tells what came out. */
#include "enqueue/explain.h"
#include "comm/comm.h"
#include "common/log.h"
#include "common/result.h"
#include "enqueue/check.h"
#include "enqueue/why.h"
#include "enqueue/words.h"
#include "kernels/instances.h"
#include "kernels/types.h"
#include "plan/plan.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What a call consists of: a task, or messages. */
struct explained {
    const char *name;
    bool is_task;
    uint8_t collective;           /* of a task */
    bool sends, receives, to_all; /* of messages: what there is, to and from one rank or to all and the rank itself */
};

static const struct explained ops[] = {
    {"all_reduce", true, RONDO_ALL_REDUCE, false, false, false},
    {"all_gather", true, RONDO_ALL_GATHER, false, false, false},
    {"reduce_scatter", true, RONDO_REDUCE_SCATTER, false, false, false},
    {"broadcast", true, RONDO_BROADCAST, false, false, false},
    {"reduce", true, RONDO_REDUCE, false, false, false},
    {"all_to_all", true, RONDO_ALL_TO_ALL, false, false, false},
    {"barrier", true, RONDO_BARRIER, false, false, false},
    {"gather", false, 0, false, true, true},
    {"scatter", false, 0, true, false, true},
    {"send", false, 0, true, false, false},
    {"recv", false, 0, false, true, false},
    {"send_recv", false, 0, true, true, false},
    {"all_to_allv", false, 0, true, true, true},
    {"all_gatherv", false, 0, true, true, true},
};

static const struct explained *find(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].name, name) == 0)
            return &ops[i];
    return NULL;
}

/* A call's messages, without buffers: these do not matter to the plan's shape. A comm of one rank has itself only. */
static size_t make_messages(const struct rondoComm *comm, const struct explained *op, uint64_t bytes, unsigned element,
                            struct rondo_message *messages)
{
    const struct rondo_message message = {.bytes = bytes, .element = (uint8_t)element};
    size_t count = 0;
    for (int d = 1; d < (op->to_all || comm->ranks == 1 ? comm->ranks : 2); d++) {
        const int to = (comm->rank + d) % comm->ranks, from = (comm->rank - d + comm->ranks) % comm->ranks;
        if (op->sends) {
            messages[count] = message;
            messages[count].kind = RONDO_SEND;
            messages[count++].peer = (uint16_t)to;
        }
        if (op->receives) {
            messages[count] = message;
            messages[count].kind = RONDO_RECV;
            messages[count++].peer = (uint16_t)from;
        }
    }
    if (op->to_all || comm->ranks == 1) {
        messages[count] = message;
        messages[count].kind = RONDO_COPY;
        messages[count++].peer = (uint16_t)comm->rank;
    }
    return count;
}

static void describe(const struct rondoComm *comm, const struct explained *op, const struct rondo_plan_launch *launch,
                     rondoChoice_t *choice)
{
    const struct rondo_batch_head *head = &launch->args.batch.head;
    const struct rondo_work *work = &launch->args.single.work;
    const int line_bytes = (int)comm->limits.line_bytes;
    if (launch->kernel == RONDO_KERNEL_BATCH || launch->kernel == RONDO_KERNEL_LARGE ||
        launch->kernel == RONDO_KERNEL_RING)
        work = (const struct rondo_work *)((const char *)head + head->works_at);
    choice->algorithm = !op->is_task                      ? "fifo"
                        : op->collective == RONDO_BARRIER ? "tokens"
                                                          : rondo_algo_name(work->algo);
    if (op->is_task)
        choice->protocol = rondo_word_protocol(op->collective != RONDO_BARRIER ? work : NULL, line_bytes);
    else
        choice->protocol = rondo_word_transfer_protocol(
            (const struct rondo_transfer *)((const char *)head + head->transfers_at), line_bytes);
    choice->kernel = rondo_kernel_name(launch->kernel);
    choice->channels = (int)launch->blocks;
    choice->threads = (int)launch->threads;
    choice->steps = launch->steps;
    if (op->is_task && op->collective != RONDO_BARRIER)
        rondo_why(&comm->limits, work, launch->threads, choice->why, sizeof choice->why);
    else if (!op->is_task && comm->ranks > 1)
        rondo_why_message(&comm->limits, choice->why, sizeof choice->why);
}

/* One call is one launch: a task never takes more, and of messages there is one to and from each rank. */
static void plan_call(const struct rondoComm *comm, const struct explained *op, const struct rondo_task *task,
                      rondoChoice_t *choice)
{
    const unsigned element = rondo_dtype_bytes(task->dtype);
    struct rondo_message messages[2 * RONDO_MAX_RANKS];
    struct rondo_plan_launch launch;
    struct rondo_group_plan plan = {.limits = &comm->limits, .messages = messages};
    if (op->is_task) {
        plan.tasks = task;
        plan.task_count = 1;
    } else {
        plan.message_count = make_messages(comm, op, (uint64_t)task->count * element, element, messages);
    }
    rondo_plan_begin(&plan);
    rondo_plan_next(&plan, &launch);
    describe(comm, op, &launch, choice);
}

/* What is asked: a call's arguments. */
struct question {
    const char *op;
    size_t count;
    int datatype, redop;
};

static bool reduces(unsigned collective)
{
    return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE_SCATTER || collective == RONDO_REDUCE;
}

static rondoResult_t explain(struct rondoComm *comm, const struct question *asked, rondoChoice_t *choice)
{
    const struct explained *op = find(asked->op);
    if (!op)
        return rondo_fail(rondoInvalidArgument, "there is no op \"%s\" to explain", asked->op);
    struct rondo_task task = {.collective = op->collective};
    if (op->is_task && op->collective == RONDO_BARRIER) {
        plan_call(comm, op, &task, choice);
        return rondoSuccess;
    }
    RONDO_TRY(rondo_check_type(asked->datatype));
    task.dtype = (uint8_t)asked->datatype;
    task.count = asked->count;
    if (op->is_task && reduces(op->collective))
        RONDO_TRY(rondo_check_op(comm, asked->redop, asked->datatype, &task));
    if (task.count > SIZE_MAX / rondo_dtype_bytes(task.dtype) / (unsigned)comm->ranks)
        return rondo_fail(rondoInvalidArgument, "count %zu is beyond the address space", task.count);
    if (task.count)
        plan_call(comm, op, &task, choice);
    return rondoSuccess;
}

/* The size that a power of two of bytes is, as rondo-perf writes sizes. */
static void size_text(unsigned power, char *text, size_t room)
{
    static const char units[] = {0, 'K', 'M', 'G'};
    snprintf(text, room, "%u%s", 1u << power % 10, (char[]){units[power / 10], 0});
}

void rondo_choices_log(struct rondoComm *comm)
{
    enum { FIRST = 2, LAST = 30 };
    if (!rondo_log_enabled(RONDO_LOG_INFO) || rondo_comm_enter(comm) != rondoSuccess)
        return; /* another thread may have aborted it already */
    for (size_t o = 0; o < sizeof ops / sizeof *ops && ops[o].is_task && ops[o].collective != RONDO_BARRIER; o++) {
        char text[256] = "";
        rondoChoice_t last = RONDO_CHOICE_INITIALIZER;
        for (unsigned power = FIRST; power <= LAST; power++) {
            const struct rondo_task task = {
                .collective = ops[o].collective, .dtype = RONDO_F32, .redop = RONDO_SUM, .count = 1ull << power >> 2};
            rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
            char size[8];
            plan_call(comm, &ops[o], &task, &choice);
            if (power > FIRST && !strcmp(choice.algorithm, last.algorithm) && !strcmp(choice.protocol, last.protocol))
                continue;
            size_text(power, size, sizeof size);
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%s %s from %s", used ? ", " : "", choice.algorithm,
                     choice.protocol, size);
            last = choice;
        }
        rondo_log_info(RONDO_LOG_INIT, "rank %d: %s of float: %s", comm->rank, ops[o].name, text);
    }
    rondo_comm_leave(comm);
}

rondoResult_t rondoCommExplain(rondoComm_t comm, const char *op, size_t count, rondoDataType_t datatype,
                               rondoRedOp_t redop, rondoChoice_t *choice)
{
    const struct question question = {op, count, datatype, redop};
    if (!op || !choice)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", op ? "choice" : "op");
    if (choice->size < offsetof(rondoChoice_t, channels))
        return rondo_fail(rondoInvalidArgument, "choice was not set up with RONDO_CHOICE_INITIALIZER");
    rondoChoice_t chosen = {choice->size, "", "", "", 0, 0, 0, ""};
    RONDO_TRY(rondo_comm_enter(comm));
    rondoResult_t result = explain(comm, &question, &chosen);
    rondo_comm_leave(comm);
    if (result == rondoSuccess)
        memcpy(choice, &chosen, choice->size < sizeof chosen ? choice->size : sizeof chosen);
    return result;
}
