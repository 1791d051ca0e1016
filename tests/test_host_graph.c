/* Captures and graphs of the host device. */
#include "support/host_work.h"

#include <pthread.h>

TestSuite(host_graph, .timeout = 60);

/* ---- capture ---- */

Test(host_graph, captured_work_becomes_a_chain_of_nodes_and_does_not_run)
{
    rondoHostStream_t s = new_stream();
    int count = 0, capturing;
    begin(s);
    OK(rondoHostStreamIsCapturing(s, &capturing));
    cr_expect(capturing == 1);
    for (int i = 0; i < 5; i++)
        OK(rondoHostLaunch(count_up, &count, s));
    rondoHostGraph_t graph = end(s);
    OK(rondoHostStreamIsCapturing(s, &capturing));
    cr_expect(capturing == 0);
    OK(rondoHostStreamSynchronize(s));
    cr_expect(count == 0);

    rondoHostNode_t nodes[5], from[4], to[4];
    size_t node_count = 5, edge_count = 4;
    OK(rondoHostGraphGetNodes(graph, nodes, &node_count));
    OK(rondoHostGraphGetEdges(graph, from, to, &edge_count));
    cr_assert(node_count == 5 && edge_count == 4);
    for (int i = 0; i < 4; i++)
        cr_expect(from[i] == nodes[i] && to[i] == nodes[i + 1]);

    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphLaunch(exec, s));
    OK(rondoHostStreamSynchronize(s));
    cr_expect(count == 5);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(s));
}

Test(host_graph, an_empty_capture_makes_an_empty_graph_that_runs)
{
    rondoHostStream_t s = new_stream();
    begin(s);
    rondoHostGraph_t graph = end(s);
    cr_expect(nodes_of(graph) == 0 && edges_of(graph) == 0);
    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphLaunch(exec, s));
    OK(rondoHostStreamSynchronize(s));
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(s));
}

Test(host_graph, a_fork_and_join_makes_a_diamond_whose_edges_are_kept_at_every_replay)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    struct list list = {0};
    struct entry entries[4] = {{&list, 0}, {&list, 1}, {&list, 2}, {&list, 3}};
    int capturing;
    begin(a);
    OK(rondoHostLaunch(slow_append, &entries[0], a));
    follow(b, a);
    OK(rondoHostStreamIsCapturing(b, &capturing));
    cr_expect(capturing == 1);
    OK(rondoHostLaunch(append, &entries[1], a));
    OK(rondoHostLaunch(slow_append, &entries[2], b));
    follow(a, b);
    OK(rondoHostLaunch(append, &entries[3], a));
    rondoHostGraph_t graph = end(a);
    OK(rondoHostStreamIsCapturing(b, &capturing));
    cr_expect(capturing == 0);
    cr_expect(nodes_of(graph) == 4 && edges_of(graph) == 4);
    rondoHostGraphExec_t exec = instantiate(graph);
    for (int i = 0; i < 20; i++) {
        list.count = 0;
        OK(rondoHostGraphLaunch(exec, i % 2 ? a : b));
        OK(rondoHostStreamSynchronize(i % 2 ? a : b));
        cr_assert(list.count == 4);
        cr_expect(place_of(&list, 0) == 0 && place_of(&list, 3) == 3);
    }
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

/* Random graphs over 4 streams. */
Test(host_graph, every_edge_of_random_graphs_is_kept)
{
    rondoHostStream_t s[4];
    unsigned seed = 7;
    for (int i = 0; i < 4; i++)
        s[i] = new_stream();
    for (int round = 0; round < 30; round++) {
        struct list list = {0};
        struct entry entries[40];
        rondoHostNode_t nodes[40], from[400], to[400];
        size_t node_count = 40, edge_count = 400;
        begin(s[0]);
        for (int i = 1; i < 4; i++)
            follow(s[i], s[0]);
        for (int i = 0; i < 40; i++) {
            seed = seed * 1103515245u + 12345u;
            entries[i] = (struct entry){&list, i};
            OK(rondoHostLaunch(append, &entries[i], s[seed >> 16 & 3]));
            if (seed >> 20 & 1)
                follow(s[seed >> 22 & 3], s[seed >> 24 & 3]);
        }
        for (int i = 1; i < 4; i++)
            follow(s[0], s[i]);
        rondoHostGraph_t graph = end(s[0]);
        OK(rondoHostGraphGetNodes(graph, nodes, &node_count));
        OK(rondoHostGraphGetEdges(graph, from, to, &edge_count));
        cr_assert(node_count == 40 && edge_count <= 400);
        rondoHostGraphExec_t exec = instantiate(graph);
        for (int replay = 0; replay < 5; replay++) {
            list.count = 0;
            OK(rondoHostGraphLaunch(exec, s[1]));
            OK(rondoHostStreamSynchronize(s[1]));
            cr_assert(list.count == 40);
            for (size_t e = 0; e < edge_count; e++) {
                int before = 0, after = 0;
                while (nodes[before] != from[e])
                    before++;
                while (nodes[after] != to[e])
                    after++;
                cr_expect(place_of(&list, before) < place_of(&list, after));
            }
        }
        OK(rondoHostGraphExecDestroy(exec));
        OK(rondoHostGraphDestroy(graph));
    }
    for (int i = 0; i < 4; i++)
        OK(rondoHostStreamDestroy(s[i]));
}

/* A stream captures and its work runs: what every refused capture must leave behind. */
static void expect_usable(rondoHostStream_t s)
{
    int count = 0, capturing = -1;
    OK(rondoHostStreamIsCapturing(s, &capturing));
    cr_expect(capturing == 0);
    OK(rondoHostLaunch(count_up, &count, s));
    begin(s);
    OK(rondoHostLaunch(count_up, &count, s));
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphLaunch(exec, s));
    OK(rondoHostStreamSynchronize(s));
    cr_expect(count == 2);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
}

Test(host_graph, a_fork_that_is_not_joined_is_refused_and_leaves_all_streams_usable)
{
    rondoHostStream_t a = new_stream(), b = new_stream(), c = new_stream();
    rondoHostGraph_t graph = (rondoHostGraph_t)(void *)a;
    int count = 0;
    begin(a);
    follow(b, a);
    follow(c, b);
    OK(rondoHostLaunch(count_up, &count, c)); /* two forks away from where it began */
    follow(a, b);
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &graph));
    cr_expect(!graph);
    expect_usable(a);
    expect_usable(b);
    expect_usable(c);
    cr_expect(count == 0);

    begin(a); /* work after the join is a fork again */
    follow(b, a);
    OK(rondoHostLaunch(count_up, &count, b));
    follow(a, b);
    OK(rondoHostLaunch(count_up, &count, b));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &graph));
    expect_usable(a);
    expect_usable(b);
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
    OK(rondoHostStreamDestroy(c));
}

Test(host_graph, what_a_capture_must_not_do_makes_it_void_until_it_is_ended)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    rondoHostEvent_t outside = new_event(), inside = new_event();
    rondoHostGraph_t graph;
    int count = 0;
    OK(rondoHostEventRecord(outside, b));

    begin(a);
    REFUSED(rondoInvalidUsage, rondoHostStreamSynchronize(a));
    REFUSED(rondoInvalidUsage, rondoHostLaunch(count_up, &count, a));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &graph));
    expect_usable(a);

    begin(a);
    REFUSED(rondoInvalidUsage, rondoHostStreamWaitEvent(a, outside));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &graph));
    expect_usable(a);

    begin(a); /* captures must not be joined: both are void */
    begin(b);
    OK(rondoHostEventRecord(inside, a));
    REFUSED(rondoInvalidUsage, rondoHostEventSynchronize(inside));
    REFUSED(rondoInvalidUsage, rondoHostEventQuery(inside));
    REFUSED(rondoInvalidUsage, rondoHostStreamWaitEvent(b, inside));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &graph));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(b, &graph));
    expect_usable(a);
    expect_usable(b);
    REFUSED(rondoInvalidUsage, rondoHostStreamWaitEvent(b, inside)); /* of a capture that has ended */
    OK(rondoHostEventRecord(inside, a));
    OK(rondoHostStreamWaitEvent(b, inside));
    OK(rondoHostEventSynchronize(inside));

    begin(a); /* these are refused and do no harm */
    follow(b, a);
    REFUSED(rondoInvalidUsage, rondoHostStreamBeginCapture(a, rondoHostCaptureGlobal));
    REFUSED(rondoInvalidUsage, rondoHostStreamBeginCapture(b, rondoHostCaptureGlobal));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(b, &graph));
    OK(rondoHostGraphDestroy(end(a)));
    OK(rondoHostEventDestroy(outside));
    OK(rondoHostEventDestroy(inside));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

Test(host_graph, destroying_a_capturing_stream_makes_the_capture_void)
{
    rondoHostStream_t a = new_stream(), b = new_stream(), c = new_stream();
    rondoHostGraph_t graph;
    int count = 0;
    begin(a); /* a forked one */
    follow(b, a);
    follow(c, a);
    OK(rondoHostLaunch(count_up, &count, b));
    follow(a, b);
    follow(a, c);
    OK(rondoHostStreamDestroy(b));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &graph));
    expect_usable(a);
    expect_usable(c);

    begin(a); /* the one where it began */
    OK(rondoHostLaunch(count_up, &count, a));
    follow(c, a);
    OK(rondoHostStreamDestroy(a));
    expect_usable(c);
    cr_expect(count == 0);
    OK(rondoHostStreamDestroy(c));
}

/* ---- graphs ---- */

Test(host_graph, a_graph_is_replayed_many_times_between_eager_work)
{
    rondoHostStream_t s = new_stream();
    long count = 0;
    begin(s);
    for (int i = 0; i < 3; i++)
        OK(rondoHostLaunch(count_up_plainly, &count, s));
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t exec = instantiate(graph);
    for (int i = 0; i < 5000; i++) {
        OK(rondoHostGraphLaunch(exec, s));
        OK(rondoHostLaunch(count_up_plainly, &count, s));
    }
    OK(rondoHostStreamSynchronize(s));
    cr_expect(count == 20000);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(s));
}

Test(host_graph, executables_outlive_the_graph_and_each_other)
{
    rondoHostStream_t s = new_stream();
    int count = 0;
    begin(s);
    OK(rondoHostLaunch(count_up, &count, s));
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t first = instantiate(graph), second = instantiate(graph);
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostGraphLaunch(first, s));
    OK(rondoHostGraphExecDestroy(first));
    OK(rondoHostGraphLaunch(second, s));
    OK(rondoHostStreamSynchronize(s));
    cr_expect(count == 2);
    OK(rondoHostGraphExecDestroy(second));
    OK(rondoHostStreamDestroy(s));
}

Test(host_graph, an_executable_and_its_stream_may_be_destroyed_while_it_runs)
{
    for (int i = 0; i < 20; i++) {
        rondoHostStream_t a = new_stream(), b = new_stream();
        int word = 0, count = 0;
        begin(a);
        OK(rondoHostLaunch(gate, &word, a));
        follow(b, a);
        OK(rondoHostLaunch(count_up, &count, a));
        OK(rondoHostLaunch(count_up, &count, b));
        follow(a, b);
        OK(rondoHostLaunch(count_up, &count, a));
        rondoHostGraph_t graph = end(a);
        rondoHostGraphExec_t exec = instantiate(graph);
        OK(rondoHostGraphDestroy(graph));
        OK(rondoHostGraphLaunch(exec, a));
        OK(rondoHostGraphExecDestroy(exec));
        OK(rondoHostStreamDestroy(a));
        OK(rondoHostStreamDestroy(b));
        open_gate(&word);
        await(&count, 3);
    }
}

Test(host_graph, branches_that_wait_for_each_other_run_at_the_same_time)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    int arrived[2] = {0}, count = 0;
    struct meeting sides[2] = {{arrived, 0}, {arrived, 1}};
    begin(a);
    follow(b, a); /* before any node: both branches have no dependency */
    for (int i = 0; i < 3; i++) {
        OK(rondoHostLaunch(meet, &sides[0], a));
        OK(rondoHostLaunch(meet, &sides[1], b));
    }
    follow(a, b);
    OK(rondoHostLaunch(count_up, &count, a));
    rondoHostGraph_t graph = end(a);
    rondoHostGraphExec_t exec = instantiate(graph);
    for (int i = 0; i < 300; i++)
        OK(rondoHostGraphLaunch(exec, a));
    OK(rondoHostStreamSynchronize(a));
    cr_expect(count == 300 && arrived[0] == 900 && arrived[1] == 900);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

Test(host_graph, runs_of_one_executable_on_several_streams_keep_the_order_of_their_launches)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    int word = 0, before = 0;
    long count = 0;
    begin(a);
    for (int i = 0; i < 2; i++)
        OK(rondoHostLaunch(count_up_plainly, &count, a));
    rondoHostGraph_t graph = end(a);
    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostLaunch(gate, &word, a));
    OK(rondoHostGraphLaunch(exec, a));
    OK(rondoHostGraphLaunch(exec, b)); /* after the one that the gate holds up */
    OK(rondoHostLaunch(count_up, &before, b));
    for (int i = 0; i < 5; i++)
        nap();
    cr_expect(__atomic_load_n(&before, __ATOMIC_ACQUIRE) == 0);
    open_gate(&word);
    for (int i = 0; i < 500; i++)
        OK(rondoHostGraphLaunch(exec, i % 2 ? a : b));
    OK(rondoHostStreamSynchronize(a));
    OK(rondoHostStreamSynchronize(b));
    cr_expect(count == 1004);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

static rondoHostGraphExec_t shared_exec;

static void *launch_often(void *streams)
{
    for (int i = 0; i < 300; i++)
        if (rondoHostGraphLaunch(shared_exec, ((rondoHostStream_t *)streams)[i % 2]) != rondoSuccess)
            return streams;
    return NULL;
}

Test(host_graph, several_threads_may_launch_one_executable_to_the_same_streams)
{
    rondoHostStream_t s[2] = {new_stream(), new_stream()};
    pthread_t threads[3];
    long count = 0;
    begin(s[0]);
    OK(rondoHostLaunch(count_up_plainly, &count, s[0]));
    rondoHostGraph_t graph = end(s[0]);
    shared_exec = instantiate(graph);
    for (int t = 0; t < 3; t++)
        cr_assert(pthread_create(&threads[t], NULL, launch_often, s) == 0);
    for (int t = 0; t < 3; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        cr_expect(!failed);
    }
    OK(rondoHostStreamSynchronize(s[0]));
    OK(rondoHostStreamSynchronize(s[1]));
    cr_expect(count == 900);
    OK(rondoHostGraphExecDestroy(shared_exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(s[0]));
    OK(rondoHostStreamDestroy(s[1]));
}

Test(host_graph, a_launch_of_an_executable_into_a_capture_is_refused)
{
    rondoHostStream_t s = new_stream();
    begin(s);
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t exec = instantiate(graph);
    begin(s);
    REFUSED(rondoInvalidUsage, rondoHostGraphLaunch(exec, s));
    OK(rondoHostGraphDestroy(end(s)));
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(s));
}

/* ---- through the row ---- */

Test(host_graph, blocks_run_at_the_same_time_in_every_branch_of_a_graph)
{
    struct rondo_device *d = open_device();
    rondoHostStream_t a = new_stream(), b = new_stream();
    int arrived[2] = {0}, meetings[2] = {0}, sum = 0;
    struct rally in_a = {&arrived[0], &sum, 3}, in_b = {&arrived[1], &sum, 4};
    struct meeting sides[2] = {{meetings, 0}, {meetings, 1}};
    begin(a);
    follow(b, a);
    launch_rally(d, &in_a, a);
    launch_rally(d, &in_b, b);
    OK(rondoHostLaunch(meet, &sides[0], a));
    OK(rondoHostLaunch(meet, &sides[1], b));
    follow(a, b);
    rondoHostGraph_t graph = end(a);
    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphDestroy(graph));
    for (int i = 0; i < 100; i++)
        OK(rondoHostGraphLaunch(exec, b));
    OK(rondoHostStreamSynchronize(b));
    cr_expect(sum == 100 * (3 + 6), "%d", sum);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
    row->close(d);
}

static const void *only_tail(struct rondo_device *d, rondoHostStream_t s)
{
    struct rondo_capture capture;
    OK(row->stream_capture(d, s, &capture));
    cr_assert(capture.active && capture.tail_count == 1);
    return capture.tails[0];
}

static bool follows(struct rondo_device *d, rondoHostStream_t s, const void *node)
{
    struct rondo_capture capture;
    bool does;
    OK(row->stream_capture(d, s, &capture));
    OK(row->capture_follows(d, &capture, &node, 1, &does));
    return does;
}

Test(host_graph, a_capture_tells_what_follows_what_and_takes_further_dependencies)
{
    struct rondo_device *d = open_device();
    rondoHostStream_t a = new_stream(), b = new_stream();
    struct rondo_capture capture, other;
    int count = 0;
    OK(row->stream_capture(d, a, &capture));
    cr_expect(!capture.active);
    begin(a);
    OK(row->stream_capture(d, a, &capture));
    cr_expect(capture.active && capture.id != 0 && capture.graph && capture.tail_count == 0);
    OK(rondoHostLaunch(count_up, &count, a));
    const void *first = only_tail(d, a);
    cr_expect(follows(d, a, first));
    follow(b, a);
    OK(row->stream_capture(d, b, &other));
    cr_expect(other.active && other.id == capture.id && other.graph == capture.graph);
    OK(rondoHostLaunch(count_up, &count, a));
    OK(rondoHostLaunch(count_up, &count, a));
    const void *in_a = only_tail(d, a);
    OK(rondoHostLaunch(count_up, &count, b));
    const void *in_b = only_tail(d, b);
    cr_expect(follows(d, a, first) && follows(d, a, in_a) && !follows(d, a, in_b));
    cr_expect(follows(d, b, first) && !follows(d, b, in_a) && follows(d, b, in_b));

    OK(row->capture_depend(d, b, in_a)); /* b's next node comes after a's: no join is needed for that */
    OK(row->capture_depend(d, b, in_a));
    OK(row->stream_capture(d, b, &other));
    cr_expect(other.tail_count == 2);
    cr_expect(follows(d, b, in_a));
    OK(rondoHostLaunch(count_up, &count, b));
    cr_expect(only_tail(d, b) != in_b && follows(d, b, in_a) && follows(d, b, in_b) && !follows(d, a, in_b));
    follow(a, b);
    rondoHostGraph_t graph = end(a);
    cr_expect(nodes_of(graph) == 5 && edges_of(graph) == 5);
    REFUSED(rondoInvalidUsage, row->capture_depend(d, a, in_a));

    begin(a);
    OK(row->stream_capture(d, a, &other));
    cr_expect(other.id != capture.id);
    REFUSED(rondoInvalidUsage, rondoHostStreamQuery(a));
    REFUSED(rondoInvalidUsage, row->stream_capture(d, a, &other)); /* void */
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &(rondoHostGraph_t){NULL}));

    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphLaunch(exec, a));
    OK(rondoHostStreamSynchronize(a));
    cr_expect(count == 5);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
    row->close(d);
}

Test(host_graph, what_a_graph_owns_is_released_once_when_the_last_executable_has_gone)
{
    struct rondo_device *d = open_device();
    rondoHostStream_t s = new_stream();
    struct rondo_capture capture;
    int released = 0, also_released = 0, word = 0;
    begin(s);
    OK(rondoHostLaunch(gate, &word, s));
    OK(row->stream_capture(d, s, &capture));
    OK(row->graph_own(d, capture.graph, count_up, &released));
    OK(row->graph_own(d, capture.graph, count_up, &also_released));
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t first = instantiate(graph), second = instantiate(graph);
    OK(rondoHostGraphExecDestroy(first));
    OK(rondoHostGraphLaunch(second, s));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostGraphExecDestroy(second));
    cr_expect(__atomic_load_n(&released, __ATOMIC_ACQUIRE) == 0); /* it still runs */
    open_gate(&word);
    OK(rondoHostStreamSynchronize(s));
    cr_expect(released == 1 && also_released == 1);

    begin(s); /* no executable */
    OK(row->stream_capture(d, s, &capture));
    OK(row->graph_own(d, capture.graph, count_up, &released));
    graph = end(s);
    cr_expect(released == 1);
    OK(rondoHostGraphDestroy(graph));
    cr_expect(released == 2);

    begin(s); /* no graph */
    OK(row->stream_capture(d, s, &capture));
    OK(row->graph_own(d, capture.graph, count_up, &released));
    REFUSED(rondoInvalidUsage, rondoHostStreamSynchronize(s));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(s, &graph));
    cr_expect(released == 3);

    begin(s); /* nor a stream */
    OK(row->stream_capture(d, s, &capture));
    OK(row->graph_own(d, capture.graph, count_up, &released));
    OK(rondoHostStreamDestroy(s));
    cr_expect(released == 4);
    row->close(d);
}
