/* Memory that users get from Rondo, and buffers that they register. */
#include "comm/comm.h"
#include "device/device.h"
#include "support/child.h"
#include "support/faults.h"
#include "support/rank_group.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 5001 };

static int memory_of_ours(struct rig *rig)
{
    const struct machine *m = rig->machine;
    void *send, *recv;
    char zeros[64] = {0}, bytes[64];
    RIG_OK(rondoMemAlloc(&send, COUNT * 4));
    RIG_OK(rondoMemAlloc(&recv, COUNT * 4));
    RIG_CHECK(send != recv && (uintptr_t)send % 256 == 0, "%p and %p", send, recv);
    m->download(bytes, (char *)send + COUNT * 4 - sizeof bytes, sizeof bytes);
    RIG_CHECK(!memcmp(bytes, zeros, sizeof bytes), "it is not zero");
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    for (int captured = 0; captured < 2; captured++) {
        void *more;
        struct machine_graph *graph = NULL;
        if (captured)
            m->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
        RIG_OK(rondoMemAlloc(&more, 100)); /* legal during a capture */
        RIG_OK(rondoAllReduce(send, recv, COUNT, rondoFloat, rondoSum, rig->comm, rig->stream));
        RIG_OK(rondoMemFree(more));
        if (captured) {
            graph = m->capture_end(rig->stream);
            m->fill(recv, 0, COUNT * 4);
            m->graph_launch(graph, rig->stream);
        }
        m->stream_sync(rig->stream);
        RIG_CHECK(rig_wrong(rig, recv, COUNT, rondoFloat, rondoSum) == 0, "captured %d", captured);
        if (captured)
            m->graph_destroy(graph);
    }
    RIG_OK(rondoMemFree(send));
    RIG_OK(rondoMemFree(recv));
    return 0;
}

Test(memory, of_ours_is_good_for_ops)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, memory_of_ours), 0);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .layout = RIG_THREADS}, memory_of_ours), 0);
}

/* Fault: who asked where a buffer lies, as large ops do, waited for another thread's rondoMemAlloc or rondoMemFree, which may in turn
 * wait for the device: for a kernel, say, that waits for that op. */
static void *known;
static int asked, answered; /* the latter atomic */

static void *ask(void *unused)
{
    struct rondo_range range;
    __atomic_store_n(&answered, 1 + rondo_user_memory_find(known, &range), __ATOMIC_SEQ_CST);
    return unused;
}

static void ask_meanwhile(void)
{
    pthread_t thread;
    if (!known || pthread_create(&thread, NULL, ask, NULL) != 0)
        return;
    pthread_detach(thread);
    for (int i = 0; i < 5000 && !__atomic_load_n(&answered, __ATOMIC_SEQ_CST); i++)
        usleep(1000);
    asked++;
}

static int is_known(struct rig *rig)
{
    void *memory;
    faults_install();
    faults.in_memory = ask_meanwhile;
    RIG_OK(rondoMemAlloc(&known, 100));
    for (int step = 0; step < 2; step++) {
        __atomic_store_n(&answered, 0, __ATOMIC_SEQ_CST);
        RIG_OK(step ? rondoMemFree(memory) : rondoMemAlloc(&memory, 100));
        const int answer = __atomic_load_n(&answered, __ATOMIC_SEQ_CST);
        RIG_CHECK(asked == 1 + step && answer == 2, "%d while memory was %s", answer, step ? "freed" : "allocated");
    }
    faults.in_memory = NULL;
    return rondoMemFree(known) != rondoSuccess;
}

Test(memory, can_be_asked_about_while_other_is_allocated_or_freed)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, is_known), 0);
}

/* On each device, from one thread; freed in another order, with another device current. */
static int many(struct rig *rig)
{
    enum { MANY = 60 };
    void *all[MANY];
    const int fds = count_fds();
    const int devices = rig_ranks(4);
    for (int i = 0; i < MANY; i++) {
        rig->machine->set_device(i % devices);
        RIG_OK(rondoMemAlloc(&all[i], 1 + 1000 * (size_t)i));
        rig->machine->fill(all[i], i, 1 + 1000 * (size_t)i);
    }
    for (int i = 0; i < MANY; i++) {
        unsigned char last;
        const int k = i * 7 % MANY;
        rig->machine->download(&last, (char *)all[k] + 1000 * (size_t)k, 1);
        RIG_CHECK(last == k, "%d in allocation %d", last, k);
        RIG_OK(rondoMemFree(all[k]));
        RIG_REFUSED(rondoInvalidArgument, "freed before", rondoMemFree(all[k]));
    }
    RIG_CHECK(!rig_on_host() || count_fds() == fds, "%d fds, were %d", count_fds(), fds);
    return 0;
}

Test(memory, is_given_back_in_any_order)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, many), 0);
}

static int refused(struct rig *rig)
{
    void *p = rig, *own = NULL;
    RIG_REFUSED(rondoInvalidArgument, "ptr is NULL", rondoMemAlloc(NULL, 4));
    RIG_REFUSED(rondoInvalidArgument, "bytes is 0", rondoMemAlloc(&p, 0));
    RIG_CHECK(!p, "a pointer");
    RIG_REFUSED(rondoInvalidArgument, "bytes is", rondoMemAlloc(&p, SIZE_MAX));
    RIG_CHECK(rondoMemAlloc(&p, PTRDIFF_MAX) != rondoSuccess && !p, "half of the address space");
    RIG_OK(rondoMemFree(NULL));
    RIG_REFUSED(rondoInvalidArgument, "not memory of rondoMemAlloc", rondoMemFree(&p));
    RIG_OK(rondoMemAlloc(&own, 100));
    RIG_REFUSED(rondoInvalidArgument, "not memory of rondoMemAlloc", rondoMemFree((char *)own + 4));
    RIG_OK(rondoMemFree(own));
    return 0;
}

Test(memory, is_refused_for_bad_arguments)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, refused), 0);
}

/* ---- registration ---- */

static int registers(struct rig *rig)
{
    enum { MANY = 50 };
    const struct machine *m = rig->machine;
    void *handles[MANY], *other, *p = rig;
    rondoComm_t child;
    float *a = m->alloc(COUNT * 4);
    RIG_REFUSED(rondoInvalidArgument, "handle is NULL", rondoCommRegister(rig->comm, a, 4, NULL));
    RIG_REFUSED(rondoInvalidArgument, "buff is NULL", rondoCommRegister(rig->comm, NULL, 4, &p));
    RIG_CHECK(!p, "a handle");
    RIG_REFUSED(rondoInvalidArgument, "size is 0", rondoCommRegister(rig->comm, a, 0, &p));
    RIG_REFUSED(rondoInvalidArgument, "address space", rondoCommRegister(rig->comm, a, SIZE_MAX, &p));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommRegister(NULL, a, 4, &p));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommDeregister(NULL, &p));
    RIG_OK(rondoCommSplit(rig->comm, 0, 0, &child, NULL));
    RIG_OK(rondoCommRegister(child, a, COUNT * 4, &other));
    for (int i = 0; i < MANY; i++) /* the same, and overlapping */
        RIG_OK(rondoCommRegister(rig->comm, (char *)a + i / 2, 100, &handles[i]));
    RIG_CHECK(handles[0] && handles[0] != handles[1], "handles %p and %p", handles[0], handles[1]);
    RIG_REFUSED(rondoInvalidArgument, "not a registration of this comm", rondoCommDeregister(rig->comm, other));
    RIG_REFUSED(rondoInvalidArgument, "not a registration of this comm", rondoCommDeregister(child, handles[0]));
    RIG_REFUSED(rondoInvalidArgument, "not a registration of this comm", rondoCommDeregister(rig->comm, a));
    if (child_try(rig, child, rig->rank, rig->ranks))
        return 1;
    for (int i = 1; i < MANY; i++) { /* the first is the comm's to free */
        RIG_OK(rondoCommDeregister(rig->comm, handles[i * 7 % MANY]));
        RIG_REFUSED(rondoInvalidArgument, "not a registration", rondoCommDeregister(rig->comm, handles[i * 7 % MANY]));
    }
    RIG_OK(rondoCommDeregister(rig->comm, NULL));
    RIG_CHECK(rig->comm->registry.count == 1, "%zu left", rig->comm->registry.count);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommFinalize(child));
    RIG_REFUSED(rondoInvalidUsage, "finalized", rondoCommRegister(child, a, 4, &p));
    RIG_OK(rondoCommDeregister(child, other));
    RIG_OK(rondoCommDestroy(child));
    RIG_REFUSED(rondoInvalidArgument, "destroyed", rondoCommDeregister(child, other));
    m->free(a);
    return 0;
}

Test(memory, of_anybody_is_registered_with_a_comm)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, registers), 0);
}
