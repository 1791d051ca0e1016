/* The host device: streams, events and memory, by rondo/host.h as its users call it and by the row that the library
 * calls. */
#include "support/forks.h"
#include "support/host_work.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(host_device, .timeout = 60);

/* ---- streams ---- */

Test(host_device, work_on_a_stream_runs_in_order_and_asynchronously)
{
    rondoHostStream_t s = new_stream();
    struct list list = {0};
    struct entry entries[40];
    int word = 0;
    OK(rondoHostLaunch(gate, &word, s));
    for (int i = 0; i < 40; i++) {
        entries[i] = (struct entry){&list, i};
        OK(rondoHostLaunch(append, &entries[i], s));
    }
    cr_expect(rondoHostStreamQuery(s) == rondoInProgress);
    cr_expect(__atomic_load_n(&list.count, __ATOMIC_ACQUIRE) == 0);
    open_gate(&word);
    OK(rondoHostStreamSynchronize(s));
    cr_expect(rondoHostStreamQuery(s) == rondoSuccess);
    cr_assert(list.count == 40);
    for (int i = 0; i < 40; i++)
        cr_expect(list.numbers[i] == i);
    OK(rondoHostStreamDestroy(s));
}

Test(host_device, copies_and_fills_run_in_stream_order)
{
    rondoHostStream_t s = new_stream();
    char *a, *b;
    OK(rondoHostMalloc((void **)&a, 1000));
    OK(rondoHostMalloc((void **)&b, 1000));
    cr_expect((uintptr_t)a % 256 == 0);
    OK(rondoHostMemsetAsync(a, 7, 1000, s));
    OK(rondoHostMemsetAsync(a, 9, 500, s));
    OK(rondoHostMemcpyAsync(b, a, 1000, s));
    OK(rondoHostMemsetAsync(a, 1, 1000, s));
    OK(rondoHostMemcpyAsync(NULL, NULL, 0, s));
    OK(rondoHostStreamSynchronize(s));
    cr_expect(b[0] == 9 && b[499] == 9 && b[500] == 7 && b[999] == 7 && a[0] == 1);
    OK(rondoHostFree(a));
    OK(rondoHostFree(b));
    OK(rondoHostFree(NULL));
    OK(rondoHostStreamDestroy(s));
}

Test(host_device, a_destroyed_stream_runs_what_it_holds)
{
    rondoHostStream_t s = new_stream();
    int word = 0, count = 0;
    OK(rondoHostLaunch(gate, &word, s));
    for (int i = 0; i < 100; i++)
        OK(rondoHostLaunch(count_up, &count, s));
    OK(rondoHostStreamDestroy(s));
    open_gate(&word);
    await(&count, 100);
}

Test(host_device, synchronize_waits_for_what_was_enqueued_before_it_only)
{
    rondoHostStream_t s = new_stream();
    int first = 0, second = 0, count = 0;
    OK(rondoHostLaunch(gate, &first, s));
    OK(rondoHostLaunch(count_up, &count, s));
    OK(rondoHostLaunch(gate, &second, s));
    rondoHostEvent_t e = new_event();
    OK(rondoHostEventRecord(e, s));
    open_gate(&first);
    await(&count, 1);
    cr_expect(rondoHostEventQuery(e) == rondoInProgress);
    open_gate(&second);
    OK(rondoHostStreamSynchronize(s));
    OK(rondoHostEventQuery(e));
    OK(rondoHostEventDestroy(e));
    OK(rondoHostStreamDestroy(s));
}

Test(host_device, each_device_has_a_default_stream)
{
    uint64_t id[3];
    struct rondo_device *device;
    int now, count = 0;
    OK(row->open(0, &device));
    const int devices[] = {0, 5000, 0};
    for (int i = 0; i < 3; i++) {
        OK(rondoHostSetDevice(devices[i]));
        OK(row->stream_id(device, NULL, &id[i]));
        OK(rondoHostLaunch(count_up, &count, NULL));
        OK(rondoHostStreamSynchronize(NULL));
        cr_expect(count == i + 1);
    }
    cr_expect(id[0] != id[1] && id[0] == id[2]);
    OK(rondoHostGetDevice(&now));
    cr_expect(now == 0);
    REFUSED(rondoInvalidArgument, rondoHostSetDevice(-1));
    REFUSED(rondoInvalidArgument, rondoHostStreamDestroy(NULL));
    row->close(device);
}

Test(host_device, bad_handles_and_arguments_are_refused)
{
    char memory[64] = {0};
    rondoHostStream_t s = new_stream(), bad = (rondoHostStream_t)(void *)(((uintptr_t)memory + 7) & ~(uintptr_t)7);
    rondoHostGraph_t graph;
    rondoHostGraphExec_t exec;
    int capturing;
    REFUSED(rondoInvalidArgument, rondoHostStreamCreate(NULL));
    REFUSED(rondoInvalidArgument, rondoHostStreamSynchronize(bad));
    REFUSED(rondoInvalidArgument, rondoHostStreamSynchronize((rondoHostStream_t)1)); /* CUDA's legacy default stream */
    REFUSED(rondoInvalidArgument, rondoHostStreamDestroy((rondoHostStream_t)2));
    REFUSED(rondoInvalidArgument, rondoHostStreamIsCapturing(bad, &capturing));
    REFUSED(rondoInvalidArgument, rondoHostLaunch(NULL, NULL, s));
    REFUSED(rondoInvalidArgument, rondoHostMemcpyAsync(memory, NULL, 1, s));
    REFUSED(rondoInvalidArgument, rondoHostMemsetAsync(NULL, 0, 1, s));
    REFUSED(rondoInvalidArgument, rondoHostEventRecord(NULL, s));
    REFUSED(rondoInvalidArgument, rondoHostStreamWaitEvent(s, (rondoHostEvent_t)(void *)bad));
    REFUSED(rondoInvalidArgument, rondoHostStreamBeginCapture(s, (rondoHostCaptureMode_t)3));
    REFUSED(rondoInvalidUsage, rondoHostStreamBeginCapture(NULL, rondoHostCaptureGlobal));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(s, &graph));
    REFUSED(rondoInvalidArgument, rondoHostGraphInstantiate(&exec, (rondoHostGraph_t)(void *)bad));
    REFUSED(rondoInvalidArgument, rondoHostGraphInstantiate(&exec, NULL));
    REFUSED(rondoInvalidArgument, rondoHostGraphLaunch((rondoHostGraphExec_t)(void *)bad, s));
    REFUSED(rondoInvalidArgument, rondoHostGraphDestroy(NULL));
    OK(rondoHostStreamDestroy(s));
}

static void *hammer(void *stream)
{
    for (int i = 0; i < 200; i++)
        if (rondoHostLaunch(count_up_plainly, ((void **)stream)[1], ((rondoHostStream_t *)stream)[0]) != rondoSuccess)
            return stream;
    return NULL;
}

Test(host_device, several_threads_may_use_one_stream)
{
    long count = 0;
    void *both[2] = {new_stream(), &count};
    pthread_t threads[4];
    for (int t = 0; t < 4; t++)
        cr_assert(pthread_create(&threads[t], NULL, hammer, both) == 0);
    for (int t = 0; t < 4; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        cr_expect(!failed);
    }
    OK(rondoHostStreamSynchronize(both[0]));
    cr_expect(count == 800);
    OK(rondoHostStreamDestroy(both[0]));
}

/* ---- events ---- */

Test(host_device, an_event_orders_streams)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    rondoHostEvent_t e = new_event();
    long count = 0;
    for (int i = 0; i < 200; i++) { /* plain increments by turns: nothing else keeps them apart */
        OK(rondoHostLaunch(count_up_plainly, &count, i % 2 ? a : b));
        OK(rondoHostEventRecord(e, i % 2 ? a : b));
        OK(rondoHostStreamWaitEvent(i % 2 ? b : a, e));
    }
    OK(rondoHostStreamSynchronize(a));
    OK(rondoHostStreamSynchronize(b));
    cr_expect(count == 200);
    OK(rondoHostEventDestroy(e));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

Test(host_device, a_wait_is_for_the_record_before_it_though_another_stream_records_the_event_later)
{
    rondoHostStream_t slow = new_stream(), quick = new_stream(), waiting = new_stream();
    rondoHostEvent_t e = new_event();
    int word = 0, count = 0;
    OK(rondoHostLaunch(gate, &word, slow));
    OK(rondoHostEventRecord(e, slow));
    OK(rondoHostStreamWaitEvent(waiting, e));
    OK(rondoHostEventRecord(e, quick)); /* happens at once; `waiting` still waits for `slow` */
    OK(rondoHostEventSynchronize(e));
    OK(rondoHostLaunch(count_up, &count, waiting));
    for (int i = 0; i < 5; i++)
        nap();
    cr_expect(__atomic_load_n(&count, __ATOMIC_ACQUIRE) == 0);
    cr_expect(rondoHostStreamQuery(waiting) == rondoInProgress);
    open_gate(&word);
    OK(rondoHostStreamSynchronize(waiting));
    cr_expect(count == 1);
    OK(rondoHostEventDestroy(e));
    OK(rondoHostStreamDestroy(slow));
    OK(rondoHostStreamDestroy(quick));
    OK(rondoHostStreamDestroy(waiting));
}

Test(host_device, events_tell_what_happened_and_when)
{
    rondoHostStream_t s = new_stream();
    rondoHostEvent_t first = new_event(), last = new_event();
    int word = 0;
    float ms = -1;
    OK(rondoHostEventQuery(first)); /* never recorded */
    OK(rondoHostEventSynchronize(first));
    REFUSED(rondoInvalidUsage, rondoHostEventElapsed(&ms, first, last));
    OK(rondoHostEventRecord(first, s));
    OK(rondoHostLaunch(gate, &word, s));
    OK(rondoHostEventRecord(last, s));
    OK(rondoHostEventSynchronize(first));
    cr_expect(rondoHostEventQuery(last) == rondoInProgress);
    REFUSED(rondoInvalidUsage, rondoHostEventElapsed(&ms, first, last));
    nap();
    open_gate(&word);
    OK(rondoHostEventSynchronize(last));
    OK(rondoHostEventElapsed(&ms, first, last));
    cr_expect(ms > 1, "%f", (double)ms);
    OK(rondoHostEventElapsed(&ms, last, first));
    cr_expect(ms < -1, "%f", (double)ms);
    OK(rondoHostEventDestroy(first));
    OK(rondoHostEventDestroy(last));
    OK(rondoHostStreamDestroy(s));
}

Test(host_device, an_event_may_be_destroyed_while_streams_are_to_record_it_and_wait_for_it)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    int word = 0, count = 0;
    OK(rondoHostLaunch(gate, &word, a));
    follow(b, a);
    OK(rondoHostLaunch(count_up, &count, b));
    open_gate(&word);
    OK(rondoHostStreamSynchronize(b));
    cr_expect(count == 1);
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

/* ---- the row ---- */

Test(host_device, each_opened_device_is_one_of_its_own)
{
    struct rondo_device *a, *b;
    struct rondo_device_info ia, ib;
    const struct rondo_device_ops *chosen;
    int ordinal;
    void *token;
    cr_expect(!row->unusable());
    setenv("RONDO_DEVICE", "host", 1);
    OK(rondo_device_row(&chosen));
    cr_expect(chosen == row);
    OK(rondoHostSetDevice(3));
    OK(row->current(&ordinal));
    cr_expect(ordinal == 3);
    OK(row->open(-1, &a));
    OK(row->open(3, &b));
    row->info(a, &ia);
    row->info(b, &ib);
    cr_expect(ia.ordinal == 3 && ib.ordinal == 3);
    cr_expect(memcmp(ia.uuid, ib.uuid, sizeof ia.uuid) != 0);
    cr_expect_str_eq(ia.name, "host CPU");
    cr_expect(ia.line_bytes == 8 && ia.default_threads == 1 && ia.default_ctas == 2 && ia.processors >= 1);
    cr_expect(ia.shareable && ia.legacy_ipc && !ia.programmatic);
    OK(rondoHostSetDevice(1));
    OK(row->enter(a, &token));
    OK(row->current(&ordinal));
    cr_expect(ordinal == 3);
    row->leave(a, token);
    OK(row->current(&ordinal));
    cr_expect(ordinal == 1);
    row->close(a);
    row->close(b);
    row->close(NULL);
}

Test(host_device, a_device_that_is_not_there_is_refused_with_a_reason)
{
    const struct rondo_device_ops *chosen;
    setenv("RONDO_DEVICE", "abacus", 1);
    REFUSED(rondoInvalidUsage, rondo_device_row(&chosen));
    cr_expect(strstr(rondoGetLastError(NULL), "abacus") != NULL, "%s", rondoGetLastError(NULL));
}

Test(host_device, memory_is_zeroed_written_read_and_filled)
{
    struct rondo_device *d = open_device();
    uint32_t words[8], out[8];
    for (uint32_t i = 0; i < 8; i++)
        words[i] = i * 0x01010101u;
    for (int kind = RONDO_MEM_PRIVATE; kind <= RONDO_MEM_LEGACY; kind++) {
        struct rondo_mem mem;
        OK(row->mem_alloc(d, 10000, (enum rondo_mem_kind)kind, &mem));
        char *bytes = mem.address;
        for (int i = 0; i < 10000; i++)
            cr_assert(bytes[i] == 0);
        for (size_t shift = 0; shift < 4; shift++) { /* aligned and not */
            OK(row->write(d, bytes + shift, words, sizeof words - 1));
            OK(row->read(d, out, bytes + shift, sizeof words - 1));
            cr_expect(memcmp(out, words, sizeof words - 1) == 0);
        }
        OK(row->fill(d, bytes, 4, 0, 16));
        OK(row->fill(d, bytes, 12, 5, 3));
        OK(row->read(d, out, bytes, sizeof out));
        cr_expect(out[0] == 5 && out[1] == 0 && out[2] == 0 && out[3] == 5 && out[6] == 5 && out[7] == 0);
        OK(row->mem_attach(d, d, &mem));
        row->mem_free(d, &mem);
        cr_expect(!mem.address);
        row->mem_free(d, &mem);
    }
    struct rondo_mem mem;
    struct rondo_mem_handle handle;
    struct rondo_mem mapped;
    OK(row->mem_alloc(d, 100, RONDO_MEM_LEGACY, &mem));
    OK(row->mem_export(d, &mem, &handle));
    cr_expect(handle.fd == -1);
    OK(row->mem_import(d, &handle, 100, RONDO_MEM_LEGACY, &mapped));
    *(char *)mem.address = 5;
    cr_expect(*(char *)mapped.address == 5);
    REFUSED(rondoSystemError, row->mem_import(d, &handle, 101, RONDO_MEM_LEGACY, &(struct rondo_mem){0}));
    row->mem_free(d, &mapped);
    row->mem_free(d, &mem);
    REFUSED(rondoSystemError, row->mem_import(d, &handle, 100, RONDO_MEM_LEGACY, &(struct rondo_mem){0}));
    OK(row->mem_alloc(d, 100, RONDO_MEM_PRIVATE, &mem));
    REFUSED(rondoInternalError, row->mem_export(d, &mem, &handle));
    cr_expect(handle.fd == -1);
    REFUSED(rondoInternalError, row->mem_import(d, &handle, 100, RONDO_MEM_SHAREABLE, &(struct rondo_mem){0}));
    row->mem_free(d, &mem);

    struct rondo_pinned pinned = {0};
    row->pinned_free(d, &pinned);
    OK(row->pinned_alloc(d, 100, &pinned));
    cr_expect(pinned.host && pinned.device && ((char *)pinned.host)[99] == 0);
    row->pinned_free(d, &pinned);
    cr_expect(!pinned.host);
    row->close(d);
}

static void send_fd(int socket, int fd)
{
    char byte = 0;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    cr_assert(sendmsg(socket, &message, 0) == 1);
}

static int receive_fd(int socket)
{
    char byte;
    int fd = -1;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Answers 42 in the second word to 41 in the first; the exit status. */
static int import_and_answer(int socket)
{
    struct rondo_device *d;
    struct rondo_mem mem;
    struct rondo_mem_handle handle = {.fd = receive_fd(socket)};
    if (row->open(0, &d) != rondoSuccess)
        return 1;
    if (row->mem_import(d, &handle, 1 << 20, RONDO_MEM_SHAREABLE, &mem) == rondoSuccess)
        return 2; /* more than there is */
    if (row->mem_import(d, &handle, 8192, RONDO_MEM_SHAREABLE, &mem) != rondoSuccess || !mem.imported)
        return 3;
    close(handle.fd);
    await((int *)mem.address, 41);
    __atomic_store_n((int *)mem.address + 1, 42, __ATOMIC_RELEASE);
    row->mem_free(d, &mem);
    row->close(d);
    return 0;
}

Test(host_device, exported_memory_is_shared_with_another_process)
{
    if (!FORKED_CHILDREN_WORK)
        cr_skip_test("the heap of a sanitizer does not survive a fork");
    struct rondo_mem mem;
    struct rondo_mem_handle handle;
    uint32_t word = 41;
    int pair[2], status = -1;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        alarm(30);
        _exit(import_and_answer(pair[1]));
    }
    struct rondo_device *d = open_device();
    OK(row->mem_alloc(d, 8192, RONDO_MEM_SHAREABLE, &mem)); /* after the fork: only the descriptor makes it shared */
    OK(row->mem_export(d, &mem, &handle));
    send_fd(pair[0], handle.fd);
    close(handle.fd);
    OK(row->write(d, mem.address, &word, sizeof word));
    cr_assert(waitpid(child, &status, 0) == child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    OK(row->read(d, &word, (char *)mem.address + 4, sizeof word));
    cr_expect(word == 42);
    row->mem_free(d, &mem);
    row->close(d);
}

/* Exit status of a child that was forked while its parent had streams. */
static int use_own_streams(rondoHostStream_t inherited)
{
    rondoHostStream_t s;
    int count = 0;
    if (rondoHostStreamSynchronize(inherited) != rondoInvalidUsage || rondoHostStreamCreate(&s) != rondoSuccess)
        return 1;
    if (rondoHostLaunch(count_up, &count, s) != rondoSuccess || rondoHostLaunch(count_up, &count, NULL) != rondoSuccess)
        return 2;
    if (rondoHostStreamSynchronize(s) != rondoSuccess || rondoHostStreamSynchronize(NULL) != rondoSuccess)
        return 3;
    return count == 2 ? 0 : 4;
}

static int stop_hammering; /* atomic */

static void *capture_often(void *stream)
{
    rondoHostGraph_t graph;
    while (!__atomic_load_n(&stop_hammering, __ATOMIC_ACQUIRE))
        if (rondoHostStreamBeginCapture(stream, rondoHostCaptureRelaxed) != rondoSuccess ||
            rondoHostStreamEndCapture(stream, &graph) != rondoSuccess || rondoHostGraphDestroy(graph) != rondoSuccess)
            return stream;
    return NULL;
}

enum { FORKS = FORKED_CHILDREN_WORK ? 50 : 0 };

Test(host_device, a_forked_child_makes_streams_of_its_own)
{
    rondoHostStream_t s = new_stream();
    pthread_t thread;
    void *failed;
    OK(rondoHostStreamSynchronize(NULL));
    cr_assert(pthread_create(&thread, NULL, capture_often, s) == 0); /* holds locks at the time of the fork */
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        pid_t child = fork();
        cr_assert(child >= 0);
        if (child == 0) {
            alarm(30);
            _exit(use_own_streams(s));
        }
        cr_assert(waitpid(child, &status, 0) == child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    }
    __atomic_store_n(&stop_hammering, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &failed);
    cr_expect(!failed);
    OK(rondoHostStreamDestroy(s));
}

/* ---- launches ---- */

Test(host_device, all_blocks_of_a_launch_run_at_the_same_time)
{
    struct rondo_device *d = open_device();
    rondoHostStream_t s = new_stream();
    int expected = 0, arrived[9] = {0}, sum = 0;
    for (int i = 0; i < 200; i++) {
        struct rally r = {&arrived[i * 5 % 8 + 1], &sum, (unsigned)(i * 5 % 8 + 1)}; /* 1 to 8 blocks, up and down */
        launch_rally(d, &r, s);
        expected += (int)(r.blocks * (r.blocks - 1) / 2);
    }
    OK(rondoHostStreamSynchronize(s));
    cr_expect(sum == expected, "%d, not %d", sum, expected);
    OK(rondoHostStreamDestroy(s));
    row->close(d);
}

Test(host_device, kernels_come_from_the_table)
{
    struct rondo_device *d = open_device();
    const struct rondo_kernel *kernel;
    unsigned found = 0;
    for (unsigned k = 0; k < rondo_host_kernel_count; k++)
        if (rondo_host_kernels[k]) {
            OK(row->kernel(d, k, &kernel));
            cr_expect(*(void (*const *)(const void *))(const void *)kernel == rondo_host_kernels[k]);
            found++;
        } else {
            REFUSED(rondoInternalError, row->kernel(d, k, &kernel));
        }
    cr_expect(found > 0);
    REFUSED(rondoInternalError, row->kernel(d, rondo_host_kernel_count, &kernel));
    row->close(d);
}

Test(host_device, the_hosts_wait_for_an_event_has_a_time_limit)
{
    struct rondo_device *d = open_device();
    rondoHostStream_t a = new_stream(), b = new_stream();
    struct rondo_event *e;
    int word = 0;
    bool done = false;
    OK(row->event_create(d, &e));
    OK(row->event_wait_host(d, e, 0, &done));
    cr_expect(done); /* never recorded */
    OK(rondoHostLaunch(gate, &word, a));
    OK(row->event_record(d, e, a));
    OK(row->event_wait(d, e, b));
    OK(row->event_wait_host(d, e, 0, &done));
    cr_expect(!done);
    OK(row->event_wait_host(d, e, 3000000, &done));
    cr_expect(!done);
    cr_expect(rondoHostStreamQuery(b) == rondoInProgress);
    open_gate(&word);
    OK(row->event_wait_host(d, e, UINT64_MAX, &done));
    cr_expect(done);
    OK(rondoHostStreamSynchronize(b));
    row->event_destroy(d, e);
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
    row->close(d);
}

Test(host_device, no_two_streams_have_the_same_number)
{
    struct rondo_device *d = open_device();
    uint64_t last = 0, id, again;
    for (int i = 0; i < 50; i++) {
        rondoHostStream_t s = new_stream();
        OK(row->stream_id(d, s, &id));
        OK(row->stream_id(d, s, &again));
        cr_expect(id > last && again == id);
        last = id;
        OK(rondoHostStreamDestroy(s));
    }
    REFUSED(rondoInvalidArgument, row->stream_id(d, (rondoHostStream_t)1, &id));
    row->close(d);
}
