/* Programs. The nodes of a graph are cut into chains, each of which runs on a thread: the first on the caller's, the others on
 * threads of the program. So branches run at the same time, as they must when the ops in them wait for peers; a graph that
 * is one chain runs without any hand-over. A node that has graphs of its own runs them where it runs itself, and these
 * have threads for their further chains. */
#include "device/host_program.h"

#include "common/result.h"
#include "device/host_graph.h"

#include <stdlib.h>
#include <string.h>

/* A value that conditional nodes ask for. */
struct condition {
    rondoHostConditional_t handle;
    unsigned first; /* at a run's beginning */
    unsigned value; /* atomic */
};

struct body;

struct step {
    rondoHostNodeType_t type;
    struct host_action action;
    struct body *bodies;
    unsigned body_count;
    rondoHostConditionalType_t conditional;
    rondoHostConditional_t condition;
    size_t *needs; /* steps of other chains that must be done before */
    size_t need_count;
    size_t chain;
};

struct chain {
    struct body *body;
    pthread_t thread;
    struct host_pool pool;
    unsigned long generation; /* of the last run it took part in; its thread */
};

/* The nodes of one graph. */
struct body {
    struct host_program *program;
    struct step *steps;
    size_t step_count;
    struct chain *chains; /* chains[0] has no thread */
    size_t chain_count;
    size_t thread_end; /* chains before it have a thread, but for chains[0] */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool closing;
    unsigned long generation; /* runs begun */
    size_t chains_left;       /* of this run */
    bool *done;               /* steps of this run */
};

struct host_program {
    unsigned references; /* atomic */
    struct host_owners owners;
    struct condition *conditions;
    size_t condition_count;
    struct body root;
};

/* The one that the thread runs a part of. */
static _Thread_local struct host_program *running;

/* ---- runs ---- */

static struct condition *find(struct host_program *program, rondoHostConditional_t handle)
{
    for (size_t i = 0; i < program->condition_count; i++)
        if (program->conditions[i].handle == handle)
            return &program->conditions[i];
    return NULL;
}

static unsigned value_of(struct host_program *program, rondoHostConditional_t handle)
{
    return __atomic_load_n(&find(program, handle)->value, __ATOMIC_RELAXED); /* the graph's edges order it */
}

rondoResult_t rondoHostSetConditional(rondoHostConditional_t handle, unsigned value)
{
    struct condition *condition = running ? find(running, handle) : NULL;
    if (!running)
        return rondo_fail(rondoInvalidUsage, "only what a graph runs can set a conditional's value");
    if (!condition)
        return rondo_fail(rondoInvalidArgument, "the graph that runs has no such handle");
    __atomic_store_n(&condition->value, value, __ATOMIC_RELAXED); /* value_of */
    return rondoSuccess;
}

static void run_body(struct body *body, struct host_pool *pool);

static void run_conditional(struct host_program *program, struct step *step, struct host_pool *pool)
{
    unsigned value = value_of(program, step->condition);
    switch (step->conditional) {
    case rondoHostWhile:
        for (; value; value = value_of(program, step->condition))
            run_body(&step->bodies[0], pool);
        return;
    case rondoHostIf:
        value = !value;
        break;
    case rondoHostSwitch:
        break;
    }
    if (value < step->body_count)
        run_body(&step->bodies[value], pool);
}

static void run_step(struct host_program *program, struct step *step, struct host_pool *pool)
{
    if (step->type == rondoHostNodeConditional)
        run_conditional(program, step, pool);
    else if (step->type == rondoHostNodeGraph)
        run_body(&step->bodies[0], pool);
    else
        host_action_run(&step->action, pool);
}

static void run_chain(struct body *body, size_t chain, struct host_pool *pool)
{
    for (size_t i = 0; i < body->step_count; i++) {
        struct step *step = &body->steps[i];
        if (step->chain != chain)
            continue;
        if (step->need_count) {
            pthread_mutex_lock(&body->lock);
            for (size_t n = 0; n < step->need_count; n++)
                while (!body->done[step->needs[n]])
                    pthread_cond_wait(&body->changed, &body->lock);
            pthread_mutex_unlock(&body->lock);
        }
        run_step(body->program, step, pool);
        if (body->chain_count > 1) {
            pthread_mutex_lock(&body->lock);
            body->done[i] = true;
            pthread_cond_broadcast(&body->changed);
            pthread_mutex_unlock(&body->lock);
        }
    }
}

static void *run_chains(void *argument)
{
    struct chain *chain = argument;
    struct body *body = chain->body;
    running = body->program;
    pthread_mutex_lock(&body->lock);
    for (;;) {
        while (!body->closing && body->generation == chain->generation)
            pthread_cond_wait(&body->changed, &body->lock);
        if (body->closing)
            break;
        chain->generation = body->generation;
        pthread_mutex_unlock(&body->lock);
        run_chain(body, (size_t)(chain - body->chains), &chain->pool);
        pthread_mutex_lock(&body->lock);
        body->chains_left--;
        pthread_cond_broadcast(&body->changed);
    }
    pthread_mutex_unlock(&body->lock);
    return NULL;
}

static void run_body(struct body *body, struct host_pool *pool)
{
    if (body->chain_count <= 1) {
        run_chain(body, 0, pool);
        return;
    }
    pthread_mutex_lock(&body->lock);
    memset(body->done, 0, body->step_count * sizeof *body->done);
    body->chains_left = body->chain_count - 1;
    body->generation++;
    pthread_cond_broadcast(&body->changed);
    pthread_mutex_unlock(&body->lock);

    run_chain(body, 0, pool);

    pthread_mutex_lock(&body->lock);
    while (body->chains_left)
        pthread_cond_wait(&body->changed, &body->lock);
    pthread_mutex_unlock(&body->lock);
}

void host_program_run(struct host_program *program, struct host_pool *pool)
{
    struct host_program *before = running;
    for (size_t i = 0; i < program->condition_count; i++)
        __atomic_store_n(&program->conditions[i].value, program->conditions[i].first, __ATOMIC_RELAXED); /* value_of */
    running = program;
    run_body(&program->root, pool);
    running = before;
}

/* ---- making ---- */

/* Puts each step on the chain of the first step that it needs and that no other step has continued yet, else on a new
 * one. So each step of a chain needs the one before it, and chains hold up nothing that the graph does not. */
static void cut(struct body *body, bool *continued)
{
    for (size_t i = 0; i < body->step_count; i++) {
        struct step *step = &body->steps[i];
        size_t kept = 0;
        step->chain = SIZE_MAX;
        for (size_t n = 0; n < step->need_count && step->chain == SIZE_MAX; n++)
            if (!continued[step->needs[n]]) {
                continued[step->needs[n]] = true;
                step->chain = body->steps[step->needs[n]].chain;
            }
        if (step->chain == SIZE_MAX)
            step->chain = body->chain_count++;
        for (size_t n = 0; n < step->need_count; n++)
            if (body->steps[step->needs[n]].chain != step->chain)
                step->needs[kept++] = step->needs[n];
        step->need_count = kept;
    }
}

/* The most blocks that a launch of the chain has. */
static unsigned blocks_of(const struct body *body, size_t chain)
{
    unsigned most = 1;
    for (size_t i = 0; i < body->step_count; i++) {
        const struct step *step = &body->steps[i];
        if (step->chain != chain)
            continue;
        if (step->type == rondoHostNodeKernel && step->action.blocks > most)
            most = step->action.blocks;
        for (unsigned b = 0; b < step->body_count; b++) {
            const unsigned inside = blocks_of(&step->bodies[b], 0);
            most = inside > most ? inside : most;
        }
    }
    return most;
}

static rondoResult_t start_chain(struct body *body, struct chain *chain)
{
    chain->body = body;
    host_pool_init(&chain->pool);
    rondoResult_t result = host_pool_reserve(&chain->pool, blocks_of(body, (size_t)(chain - body->chains)));
    if (result == rondoSuccess && pthread_create(&chain->thread, NULL, run_chains, chain) != 0)
        result = rondo_fail(rondoSystemError, "no thread for a branch of the graph");
    if (result != rondoSuccess)
        host_pool_fini(&chain->pool);
    return result;
}

static rondoResult_t body_init(struct body *body, struct host_program *program, rondoHostGraph_t graph);

static rondoResult_t step_init(struct step *step, struct host_program *program, const struct rondoHostNode *node)
{
    step->type = node->type;
    step->conditional = node->conditional;
    step->condition = node->condition;
    step->needs = malloc((node->needs.count + 1) * sizeof *step->needs);
    if (node->body_count)
        step->bodies = calloc(node->body_count, sizeof *step->bodies);
    if (!step->needs || (node->body_count && !step->bodies))
        return rondo_fail(rondoSystemError, "out of memory");
    while (step->need_count < node->needs.count) {
        step->needs[step->need_count] = node->needs.nodes[step->need_count]->index;
        step->need_count++;
    }
    while (step->body_count < node->body_count) {
        struct body *body = &step->bodies[step->body_count];
        RONDO_TRY(body_init(body, program, node->bodies[step->body_count]));
        step->body_count++;
    }
    return node->body_count ? rondoSuccess : host_action_copy(&node->action, &step->action);
}

static void body_fini(struct body *body);

/* On an error nothing is left of it. */
static rondoResult_t body_init(struct body *body, struct host_program *program, rondoHostGraph_t graph)
{
    bool *continued = calloc(graph->count + 1, sizeof *continued);
    body->program = program;
    body->thread_end = 1;
    pthread_mutex_init(&body->lock, NULL);
    pthread_cond_init(&body->changed, NULL);
    body->steps = calloc(graph->count + 1, sizeof *body->steps);
    body->done = calloc(graph->count + 1, sizeof *body->done);
    rondoResult_t result =
        body->steps && body->done && continued ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
    while (body->step_count < graph->count && result == rondoSuccess) {
        const size_t i = body->step_count++; /* counted first: a step that was copied in part is freed too */
        result = step_init(&body->steps[i], program, graph->nodes[i]);
    }
    if (result == rondoSuccess) {
        cut(body, continued);
        body->chains = calloc(body->chain_count + 1, sizeof *body->chains);
        result = body->chains ? rondoSuccess : rondo_fail(rondoSystemError, "out of memory");
    }
    free(continued);
    while (result == rondoSuccess && body->thread_end < body->chain_count) {
        result = start_chain(body, &body->chains[body->thread_end]);
        if (result == rondoSuccess)
            body->thread_end++;
    }
    if (result != rondoSuccess)
        body_fini(body);
    return result;
}

static void body_fini(struct body *body)
{
    pthread_mutex_lock(&body->lock);
    body->closing = true;
    pthread_cond_broadcast(&body->changed);
    pthread_mutex_unlock(&body->lock);
    for (size_t c = 1; c < body->thread_end; c++) {
        pthread_join(body->chains[c].thread, NULL);
        host_pool_fini(&body->chains[c].pool);
    }
    for (size_t i = 0; i < body->step_count; i++) {
        struct step *step = &body->steps[i];
        for (unsigned b = 0; b < step->body_count; b++)
            body_fini(&step->bodies[b]);
        free(step->bodies);
        host_action_fini(&step->action);
        free(step->needs);
    }
    pthread_cond_destroy(&body->changed);
    pthread_mutex_destroy(&body->lock);
    free(body->steps);
    free(body->chains);
    free(body->done);
}

/* Conditions of the graph and of all graphs in it. */
static rondoResult_t copy_conditions(struct host_program *program, rondoHostGraph_t graph)
{
    struct condition *conditions = realloc(
        program->conditions, (program->condition_count + graph->condition_count + 1) * sizeof *program->conditions);
    if (!conditions)
        return rondo_fail(rondoSystemError, "out of memory");
    program->conditions = conditions;
    for (size_t i = 0; i < graph->condition_count; i++)
        conditions[program->condition_count++] =
            (struct condition){graph->conditions[i].handle, graph->conditions[i].value, 0};
    for (size_t i = 0; i < graph->count; i++)
        for (unsigned b = 0; b < graph->nodes[i]->body_count; b++)
            RONDO_TRY(copy_conditions(program, graph->nodes[i]->bodies[b]));
    return rondoSuccess;
}

static void program_free(struct host_program *program)
{
    host_owners_drop(&program->owners);
    free(program->conditions);
    free(program);
}

rondoResult_t host_program_create(rondoHostGraph_t graph, struct host_program **out)
{
    struct host_program *program = calloc(1, sizeof *program);
    if (!program)
        return rondo_fail(rondoSystemError, "out of memory");
    program->references = 1;
    rondoResult_t result = copy_conditions(program, graph);
    if (result == rondoSuccess)
        result = host_owners_share(graph, &program->owners);
    if (result == rondoSuccess)
        result = body_init(&program->root, program, graph);
    if (result != rondoSuccess)
        program_free(program);
    else
        *out = program;
    return result;
}

void host_program_hold(struct host_program *program)
{
    __atomic_add_fetch(&program->references, 1, __ATOMIC_RELAXED);
}

void host_program_drop(struct host_program *program)
{
    if (__atomic_sub_fetch(&program->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    body_fini(&program->root);
    program_free(program);
}

unsigned host_program_blocks(const struct host_program *program)
{
    return blocks_of(&program->root, 0);
}

static bool bodies_are_like(const struct body *one, const struct body *other)
{
    if (one->step_count != other->step_count)
        return false;
    for (size_t i = 0; i < one->step_count; i++) {
        const struct step *a = &one->steps[i], *b = &other->steps[i];
        if (a->type != b->type || a->conditional != b->conditional || a->body_count != b->body_count ||
            a->chain != b->chain || a->need_count != b->need_count ||
            memcmp(a->needs, b->needs, a->need_count * sizeof *a->needs))
            return false;
        for (unsigned c = 0; c < a->body_count; c++)
            if (!bodies_are_like(&a->bodies[c], &b->bodies[c]))
                return false;
    }
    return true;
}

bool host_program_is_like(const struct host_program *one, const struct host_program *other)
{
    return bodies_are_like(&one->root, &other->root);
}
