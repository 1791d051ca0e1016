/* What the tests of the host device enqueue, and short words for its calls. What must run at the same time waits for
 * each other here: a device that does not do that hangs, and Criterion's timeout says so. */
#ifndef RONDO_TESTS_HOST_WORK_H
#define RONDO_TESTS_HOST_WORK_H

#include "device/device.h"
#include "device/host_kernels.h"
#include "rondo/host.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define OK(call) cr_assert((call) == rondoSuccess, "%s: %s", #call, rondoGetLastError(NULL))
#define REFUSED(code, call)                                        \
    do {                                                           \
        rondoResult_t got_ = (call);                               \
        cr_expect(got_ == (code), "%s gave %d", #call, (int)got_); \
        cr_expect(rondoGetLastError(NULL)[0] != 0);                \
    } while (0)

static const struct rondo_device_ops *const row = &rondo_device_host;

static inline void nap(void)
{
    nanosleep(&(struct timespec){0, 2000000}, NULL);
}

/* ---- things to enqueue ---- */

/* Appends its number to a list. */
struct entry {
    struct list *list;
    int number;
};
struct list {
    int numbers[64];
    int count; /* atomic */
};

static inline void append(void *argument)
{
    const struct entry *entry = argument;
    int place = __atomic_fetch_add(&entry->list->count, 1, __ATOMIC_ACQ_REL);
    __atomic_store_n(&entry->list->numbers[place % 64], entry->number, __ATOMIC_RELAXED);
}

static inline void slow_append(void *argument)
{
    nap();
    append(argument);
}

static inline void count_up(void *counter)
{
    __atomic_fetch_add((int *)counter, 1, __ATOMIC_ACQ_REL);
}

/* Only ordered by the streams, so that ThreadSanitizer sees where they do not order. */
static inline void count_up_plainly(void *counter)
{
    ++*(long *)counter;
}

static inline void await(int *word, int value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        sched_yield();
}

/* Holds its stream up until the word becomes 1. */
static inline void gate(void *word)
{
    await(word, 1);
}

static inline void open_gate(int *word)
{
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

/* Two of these, one for each side, end only if they run at the same time. */
struct meeting {
    int *arrived; /* of both sides */
    int side;
};

static inline void meet(void *argument)
{
    const struct meeting *m = argument;
    int turn = __atomic_add_fetch(&m->arrived[m->side], 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&m->arrived[1 - m->side], __ATOMIC_ACQUIRE) < turn)
        sched_yield();
}

static inline rondoHostStream_t new_stream(void)
{
    rondoHostStream_t stream;
    OK(rondoHostStreamCreate(&stream));
    return stream;
}

static inline rondoHostEvent_t new_event(void)
{
    rondoHostEvent_t event;
    OK(rondoHostEventCreate(&event));
    return event;
}

static inline void begin(rondoHostStream_t stream)
{
    OK(rondoHostStreamBeginCapture(stream, rondoHostCaptureThreadLocal));
}

static inline rondoHostGraph_t end(rondoHostStream_t stream)
{
    rondoHostGraph_t graph;
    OK(rondoHostStreamEndCapture(stream, &graph));
    return graph;
}

static inline rondoHostGraphExec_t instantiate(rondoHostGraph_t graph)
{
    rondoHostGraphExec_t exec;
    OK(rondoHostGraphInstantiate(&exec, graph));
    return exec;
}

/* `to` waits for what `from` holds. */
static inline void follow(rondoHostStream_t to, rondoHostStream_t from)
{
    rondoHostEvent_t event = new_event();
    OK(rondoHostEventRecord(event, from));
    OK(rondoHostStreamWaitEvent(to, event));
    OK(rondoHostEventDestroy(event));
}

static inline size_t nodes_of(rondoHostGraph_t graph)
{
    size_t count = 0;
    OK(rondoHostGraphGetNodes(graph, NULL, &count));
    return count;
}

static inline size_t edges_of(rondoHostGraph_t graph)
{
    size_t count = 0;
    OK(rondoHostGraphGetEdges(graph, NULL, NULL, &count));
    return count;
}

static inline int place_of(const struct list *list, int number)
{
    for (int i = 0; i < list->count; i++)
        if (list->numbers[i] == number)
            return i;
    cr_assert_fail("%d is not in the list", number);
    return -1;
}

/* ---- the row ---- */

static inline struct rondo_device *open_device(void)
{
    struct rondo_device *device;
    OK(row->open(-1, &device));
    return device;
}

struct rally {
    int *arrived; /* blocks so far, of all runs */
    int *sum;     /* of the blocks' numbers */
    unsigned blocks;
};

/* Ends only if all blocks of the launch run at the same time. */
static inline void rally_kernel(const void *args)
{
    const struct rally *r = args;
    if (rondo_host_blocks != r->blocks)
        return;
    int until = __atomic_fetch_add(r->arrived, 1, __ATOMIC_ACQ_REL);
    until = until - until % (int)r->blocks + (int)r->blocks;
    while (__atomic_load_n(r->arrived, __ATOMIC_ACQUIRE) < until)
        sched_yield();
    __atomic_fetch_add(r->sum, (int)rondo_host_block, __ATOMIC_ACQ_REL);
}
static void (*const rally_entry)(const void *) = rally_kernel;

/* The arguments are wiped after the call: a launch has its own copy. */
static inline void launch_rally(struct rondo_device *d, struct rally *rally, rondoHostStream_t stream)
{
    struct rally args = *rally;
    const struct rondo_launch launch = {
        .kernel = (const struct rondo_kernel *)(const void *)&rally_entry,
        .blocks = rally->blocks,
        .threads = 1,
        .args = &args,
        .args_bytes = sizeof args,
        .stream = stream,
    };
    OK(row->launch(d, &launch));
    memset(&args, 0xff, sizeof args);
}

#endif
