/* Graphs of several parts on the host device: conditional nodes, child graphs, clones and updates. */
#include "support/host_work.h"

#include <pthread.h>

TestSuite(host_conditional, .timeout = 60);

/* ---- things to enqueue ---- */

/* Sets a conditional's value to the next one of a list; the last one for ever. */
struct script {
    rondoHostConditional_t handle;
    const unsigned *values;
    int next, count;
};

static void follow_script(void *argument)
{
    struct script *script = argument;
    OK(rondoHostSetConditional(script->handle, script->values[script->next]));
    if (script->next + 1 < script->count)
        script->next++;
}

/* Counts down, and ends a loop at 0. */
struct countdown {
    rondoHostConditional_t handle;
    long left;
    long *total;
};

static void count_down(void *argument)
{
    struct countdown *c = argument;
    ++*c->total;
    OK(rondoHostSetConditional(c->handle, --c->left > 0));
}

static rondoHostGraph_t graph_of(rondoHostStream_t stream)
{
    rondoHostGraph_t graph;
    OK(rondoHostStreamGetCaptureGraph(stream, &graph));
    return graph;
}

static rondoHostConditional_t condition(rondoHostStream_t stream, unsigned value)
{
    rondoHostConditional_t handle;
    OK(rondoHostConditionalCreate(&handle, graph_of(stream), value));
    return handle;
}

static void begin_in(rondoHostStream_t stream, rondoHostGraph_t graph)
{
    OK(rondoHostStreamBeginCaptureToGraph(stream, graph, NULL, 0, rondoHostCaptureThreadLocal));
}

static void launch_once(rondoHostGraphExec_t exec, rondoHostStream_t stream)
{
    OK(rondoHostGraphLaunch(exec, stream));
    OK(rondoHostStreamSynchronize(stream));
}

/* ---- conditional nodes ---- */

Test(host_conditional, an_if_runs_its_body_or_the_other_one_or_none)
{
    static const unsigned values[] = {1, 0, 7, 0};
    rondoHostStream_t s = new_stream(), inner = new_stream();
    for (unsigned bodies = 1; bodies <= 2; bodies++) {
        long counts[2] = {0}, after = 0;
        rondoHostGraph_t body[2];
        begin(s);
        struct script script = {condition(s, 1), values, 0, 4};
        OK(rondoHostLaunch(follow_script, &script, s));
        OK(rondoHostStreamAddConditional(s, script.handle, rondoHostIf, body, bodies));
        OK(rondoHostLaunch(count_up_plainly, &after, s));
        for (unsigned b = 0; b < bodies; b++) {
            begin_in(inner, body[b]);
            OK(rondoHostLaunch(count_up_plainly, &counts[b], inner));
            cr_expect(end(inner) == body[b]);
        }
        rondoHostGraph_t graph = end(s);
        cr_expect(nodes_of(graph) == 3 && edges_of(graph) == 2);
        rondoHostGraphExec_t exec = instantiate(graph);
        OK(rondoHostGraphDestroy(graph));
        for (int run = 0; run < 4; run++)
            launch_once(exec, s);
        cr_expect(counts[0] == 2 && counts[1] == (bodies == 2 ? 2 : 0) && after == 4);
        OK(rondoHostGraphExecDestroy(exec));
    }
    OK(rondoHostStreamDestroy(s));
    OK(rondoHostStreamDestroy(inner));
}

Test(host_conditional, a_switch_runs_the_body_with_the_values_number)
{
    static const unsigned values[] = {2, 0, 3, 1, 2, 1000};
    rondoHostStream_t s = new_stream(), inner = new_stream();
    long counts[3] = {0}, total = 0;
    rondoHostGraph_t body[3];
    begin(s);
    struct script script = {condition(s, 0), values, 0, 6};
    OK(rondoHostLaunch(follow_script, &script, s));
    OK(rondoHostStreamAddConditional(s, script.handle, rondoHostSwitch, body, 3));
    OK(rondoHostLaunch(count_up_plainly, &total, s));
    for (int b = 0; b < 3; b++) {
        begin_in(inner, body[b]);
        OK(rondoHostLaunch(count_up_plainly, &counts[b], inner));
        OK(rondoHostLaunch(count_up_plainly, &total, inner));
        end(inner);
    }
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t exec = instantiate(graph);
    for (int run = 0; run < 6; run++)
        launch_once(exec, s);
    cr_expect(counts[0] == 1 && counts[1] == 1 && counts[2] == 2 && total == 6 + 4);
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostStreamDestroy(s));
    OK(rondoHostStreamDestroy(inner));
}

Test(host_conditional, a_while_runs_until_its_body_ends_it_and_begins_anew_at_each_launch)
{
    rondoHostStream_t s = new_stream(), inner = new_stream();
    long total = 0, before = 0;
    rondoHostGraph_t body;
    begin(s);
    struct countdown c = {condition(s, 1), 0, &total};
    OK(rondoHostLaunch(count_up_plainly, &before, s));
    OK(rondoHostStreamAddConditional(s, c.handle, rondoHostWhile, &body, 1));
    begin_in(inner, body);
    OK(rondoHostLaunch(count_down, &c, inner));
    end(inner);
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t exec = instantiate(graph), other = instantiate(graph);
    for (long run = 1; run <= 50; run++) {
        c.left = run;
        total = 0;
        launch_once(run % 2 ? exec : other, s);
        cr_expect(total == run && before == run);
    }
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphExecDestroy(other));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(s));
    OK(rondoHostStreamDestroy(inner));
}

/* A loop whose value is 0 at first does not run at all. */
Test(host_conditional, a_while_asks_before_it_runs)
{
    rondoHostStream_t s = new_stream(), inner = new_stream();
    int count = 0;
    rondoHostGraph_t body;
    begin(s);
    OK(rondoHostStreamAddConditional(s, condition(s, 0), rondoHostWhile, &body, 1));
    begin_in(inner, body);
    OK(rondoHostLaunch(count_up, &count, inner));
    end(inner);
    rondoHostGraph_t graph = end(s);
    rondoHostGraphExec_t exec = instantiate(graph);
    launch_once(exec, s);
    cr_expect(count == 0);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(s));
    OK(rondoHostStreamDestroy(inner));
}

/* In a loop of n rounds, one of m rounds in branches that meet, and an if in every second round. */
struct nest {
    struct countdown outer, inner;
    rondoHostConditional_t even;
    long outer_total, inner_total, even_total;
};

static void nest_begin(void *argument)
{
    struct nest *n = argument;
    n->inner.left = 5;
    OK(rondoHostSetConditional(n->inner.handle, 1));
    OK(rondoHostSetConditional(n->even, n->outer_total % 2 == 0));
}

Test(host_conditional, conditional_nodes_stand_in_bodies_of_others_and_bodies_have_branches)
{
    rondoHostStream_t s = new_stream(), in = new_stream(), deep = new_stream(), branch = new_stream();
    rondoHostGraph_t outer, inner, even;
    int arrived[2] = {0};
    struct meeting sides[2] = {{arrived, 0}, {arrived, 1}};
    struct nest n = {.outer.total = &n.outer_total, .inner.total = &n.inner_total};
    begin(s);
    n.outer.handle = condition(s, 1);
    n.even = condition(s, 0); /* for a node further in */
    OK(rondoHostStreamAddConditional(s, n.outer.handle, rondoHostWhile, &outer, 1));
    rondoHostGraph_t graph = end(s);

    begin_in(in, outer);
    n.inner.handle = condition(in, 0);
    OK(rondoHostLaunch(nest_begin, &n, in));
    OK(rondoHostStreamAddConditional(in, n.inner.handle, rondoHostWhile, &inner, 1));
    OK(rondoHostStreamAddConditional(in, n.even, rondoHostIf, &even, 1));
    OK(rondoHostLaunch(count_down, &n.outer, in));
    end(in);

    begin_in(deep, inner);
    follow(branch, deep);
    OK(rondoHostLaunch(meet, &sides[0], deep));
    OK(rondoHostLaunch(meet, &sides[1], branch));
    follow(deep, branch);
    OK(rondoHostLaunch(count_down, &n.inner, deep));
    end(deep);

    begin_in(deep, even);
    OK(rondoHostLaunch(count_up_plainly, &n.even_total, deep));
    end(deep);

    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphDestroy(graph));
    for (int run = 1; run <= 20; run++) {
        n.outer.left = 6;
        n.outer_total = n.inner_total = n.even_total = 0;
        launch_once(exec, s);
        cr_expect(n.outer_total == 6 && n.inner_total == 30 && n.even_total == 3);
        cr_expect(arrived[0] == 30 * run && arrived[1] == 30 * run);
    }
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostStreamDestroy(s));
    OK(rondoHostStreamDestroy(in));
    OK(rondoHostStreamDestroy(deep));
    OK(rondoHostStreamDestroy(branch));
}

/* Two conditional nodes on branches, one of which ends when the other has. */
struct watch {
    rondoHostConditional_t handle;
    int flag; /* atomic */
};

static void look(void *argument)
{
    struct watch *w = argument;
    OK(rondoHostSetConditional(w->handle, __atomic_load_n(&w->flag, __ATOMIC_ACQUIRE) == 0));
}

Test(host_conditional, loops_on_branches_run_at_the_same_time)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    long total = 0;
    rondoHostGraph_t in_a, in_b;
    begin(a);
    struct watch waits = {condition(a, 1), 0};
    struct countdown counts = {condition(a, 1), 100, &total};
    follow(b, a);
    OK(rondoHostStreamAddConditional(a, waits.handle, rondoHostWhile, &in_a, 1));
    OK(rondoHostStreamAddConditional(b, counts.handle, rondoHostWhile, &in_b, 1));
    OK(rondoHostLaunch(count_up, &waits.flag, b));
    follow(a, b);
    rondoHostGraph_t graph = end(a);
    begin_in(a, in_a);
    OK(rondoHostLaunch(look, &waits, a));
    end(a);
    begin_in(b, in_b);
    OK(rondoHostLaunch(count_down, &counts, b));
    end(b);
    rondoHostGraphExec_t exec = instantiate(graph);
    launch_once(exec, a);
    cr_expect(total == 100 && waits.flag == 1);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

static void end_loop(void *argument)
{
    struct watch *w = argument;
    count_up(&w->flag);
    OK(rondoHostSetConditional(w->handle, 0));
}

Test(host_conditional, executables_of_one_graph_have_values_of_their_own)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    int word = 0;
    rondoHostGraph_t body;
    begin(a);
    struct watch w = {condition(a, 1), 0};
    OK(rondoHostLaunch(gate, &word, a));
    OK(rondoHostStreamAddConditional(a, w.handle, rondoHostWhile, &body, 1));
    begin_in(b, body);
    OK(rondoHostLaunch(end_loop, &w, b));
    end(b);
    rondoHostGraph_t graph = end(a);
    rondoHostGraphExec_t one = instantiate(graph), two = instantiate(graph);
    OK(rondoHostGraphLaunch(one, a));
    OK(rondoHostGraphLaunch(two, b)); /* had they one value, the second loop would not run */
    open_gate(&word);
    OK(rondoHostStreamSynchronize(a));
    OK(rondoHostStreamSynchronize(b));
    cr_expect(w.flag == 2);
    OK(rondoHostGraphExecDestroy(one));
    OK(rondoHostGraphExecDestroy(two));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

static void set_foreign(void *argument)
{
    if (rondoHostSetConditional(*(rondoHostConditional_t *)argument, 1) == rondoInvalidArgument)
        *(rondoHostConditional_t *)argument = 0;
}

Test(host_conditional, what_is_no_use_of_a_handle_is_refused)
{
    rondoHostStream_t s = new_stream(), t = new_stream();
    rondoHostGraph_t body[3], graph, other;
    rondoHostConditional_t handle, foreign;
    OK(rondoHostGraphCreate(&other));
    OK(rondoHostConditionalCreate(&foreign, other, 0));
    REFUSED(rondoInvalidArgument, rondoHostConditionalCreate(NULL, other, 0));
    REFUSED(rondoInvalidArgument, rondoHostConditionalCreate(&handle, NULL, 0));
    REFUSED(rondoInvalidUsage, rondoHostSetConditional(foreign, 1)); /* not from a graph */
    REFUSED(rondoInvalidUsage, rondoHostStreamAddConditional(s, foreign, rondoHostIf, body, 1));
    REFUSED(rondoInvalidUsage, rondoHostStreamGetCaptureGraph(s, &graph));
    begin(s);
    handle = condition(s, 0);
    REFUSED(rondoInvalidArgument, rondoHostStreamAddConditional(s, foreign, rondoHostIf, body, 1));
    REFUSED(rondoInvalidArgument, rondoHostStreamAddConditional(s, handle, rondoHostIf, body, 0));
    REFUSED(rondoInvalidArgument, rondoHostStreamAddConditional(s, handle, rondoHostIf, body, 3));
    REFUSED(rondoInvalidArgument, rondoHostStreamAddConditional(s, handle, rondoHostWhile, body, 2));
    REFUSED(rondoInvalidArgument, rondoHostStreamAddConditional(s, handle, (rondoHostConditionalType_t)3, body, 1));
    REFUSED(rondoInvalidArgument, rondoHostStreamAddConditional(s, handle, rondoHostWhile, NULL, 1));
    OK(rondoHostStreamAddConditional(s, handle, rondoHostSwitch, body, 3));
    REFUSED(rondoInvalidArgument, rondoHostStreamAddConditional(s, handle, rondoHostIf, body, 1)); /* it has a node */
    OK(rondoHostLaunch(set_foreign, &foreign, s));
    REFUSED(rondoInvalidUsage, rondoHostGraphDestroy(body[1])); /* the node's */
    REFUSED(rondoInvalidArgument, rondoHostStreamBeginCaptureToGraph(t, NULL, NULL, 0, rondoHostCaptureRelaxed));
    graph = end(s);
    cr_expect(nodes_of(graph) == 2); /* none of these made the capture void */
    rondoHostGraph_t clone;
    REFUSED(rondoInvalidUsage, rondoHostGraphClone(&clone, graph)); /* as in CUDA */
    begin(s);
    REFUSED(rondoInvalidUsage, rondoHostStreamAddGraph(s, graph));
    OK(rondoHostGraphDestroy(end(s)));
    rondoHostGraphExec_t exec = instantiate(graph);
    launch_once(exec, s);
    cr_expect(foreign == 0);
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostGraphDestroy(other));
    OK(rondoHostStreamDestroy(s));
    OK(rondoHostStreamDestroy(t));
}

/* ---- captures into a graph ---- */

Test(host_conditional, a_graph_is_captured_piece_by_piece)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    rondoHostGraph_t graph;
    rondoHostNode_t nodes[4], from[3], to[3];
    size_t node_count = 4, edge_count = 3;
    struct list list = {0};
    struct entry entries[4] = {{&list, 0}, {&list, 1}, {&list, 2}, {&list, 3}};
    OK(rondoHostGraphCreate(&graph));
    begin_in(a, graph);
    OK(rondoHostLaunch(append, &entries[0], a));
    OK(rondoHostLaunch(append, &entries[1], a));
    cr_expect(end(a) == graph);
    OK(rondoHostGraphGetNodes(graph, nodes, &node_count));
    cr_assert(node_count == 2);
    OK(rondoHostStreamBeginCaptureToGraph(b, graph, &nodes[1], 1, rondoHostCaptureRelaxed));
    OK(rondoHostLaunch(append, &entries[2], b));
    end(b);
    begin_in(b, graph); /* behind nothing */
    OK(rondoHostLaunch(append, &entries[3], b));
    end(b);
    node_count = 4;
    OK(rondoHostGraphGetNodes(graph, nodes, &node_count));
    OK(rondoHostGraphGetEdges(graph, from, to, &edge_count));
    cr_assert(node_count == 4 && edge_count == 2);
    cr_expect(from[0] == nodes[0] && to[0] == nodes[1] && from[1] == nodes[1] && to[1] == nodes[2]);
    rondoHostGraphExec_t exec = instantiate(graph);
    launch_once(exec, a);
    cr_expect(list.count == 4 && place_of(&list, 1) < place_of(&list, 2));

    begin_in(a, graph); /* void: what it has added stays, and the graph is good */
    OK(rondoHostLaunch(append, &entries[0], a));
    REFUSED(rondoInvalidUsage, rondoHostStreamQuery(a));
    REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(a, &(rondoHostGraph_t){NULL}));
    cr_expect(nodes_of(graph) == 5);
    rondoHostNode_t stranger = nodes[0];
    rondoHostGraph_t empty;
    OK(rondoHostGraphCreate(&empty));
    REFUSED(rondoInvalidArgument, rondoHostStreamBeginCaptureToGraph(a, empty, &stranger, 1, rondoHostCaptureRelaxed));
    OK(rondoHostGraphDestroy(empty));
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

Test(host_conditional, a_capture_into_a_graph_that_is_destroyed_is_void)
{
    rondoHostStream_t s = new_stream(), inner = new_stream();
    rondoHostGraph_t graph, body, none = NULL;
    int count = 0;
    for (int way = 0; way < 3; way++) {
        begin(s);
        OK(rondoHostStreamAddConditional(s, condition(s, 0), rondoHostIf, &body, 1));
        begin_in(inner, body);
        OK(rondoHostLaunch(count_up, &count, inner));
        if (way == 0) { /* the capture around it is void */
            REFUSED(rondoInvalidUsage, rondoHostStreamSynchronize(s));
            REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(s, &graph));
        } else if (way == 1) {
            OK(rondoHostGraphDestroy(end(s)));
        } else {
            OK(rondoHostStreamDestroy(s));
            s = new_stream();
        }
        REFUSED(rondoInvalidUsage, rondoHostLaunch(count_up, &count, inner));
        REFUSED(rondoInvalidUsage, rondoHostStreamEndCapture(inner, &none));
        cr_expect(!none);
    }
    OK(rondoHostLaunch(count_up, &count, inner));
    OK(rondoHostStreamSynchronize(inner));
    cr_expect(count == 1);
    OK(rondoHostStreamDestroy(s));
    OK(rondoHostStreamDestroy(inner));
}

/* ---- child graphs, clones, updates ---- */

Test(host_conditional, a_child_graph_is_a_copy_that_runs_as_one_node)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    int arrived[2] = {0}, count = 0;
    long before = 0, after = 0;
    struct meeting sides[2] = {{arrived, 0}, {arrived, 1}};
    begin(a); /* two branches that meet */
    follow(b, a);
    OK(rondoHostLaunch(meet, &sides[0], a));
    OK(rondoHostLaunch(meet, &sides[1], b));
    follow(a, b);
    rondoHostGraph_t child = end(a);
    REFUSED(rondoInvalidUsage, rondoHostStreamAddGraph(a, child));
    begin(a);
    OK(rondoHostLaunch(count_up_plainly, &before, a));
    OK(rondoHostStreamAddGraph(a, child));
    OK(rondoHostStreamAddGraph(a, child));
    OK(rondoHostLaunch(count_up_plainly, &after, a));
    rondoHostGraph_t middle = end(a);
    begin_in(a, child); /* the copies do not change */
    OK(rondoHostLaunch(count_up, &count, a));
    end(a);
    OK(rondoHostGraphDestroy(child));
    begin(a);
    OK(rondoHostStreamAddGraph(a, middle));
    rondoHostGraph_t graph = end(a), clone;
    OK(rondoHostGraphDestroy(middle));
    OK(rondoHostGraphClone(&clone, graph));
    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphDestroy(graph));
    rondoHostGraphExec_t of_clone = instantiate(clone);
    rondoHostNode_t nodes[4];
    rondoHostNodeType_t type;
    rondoHostGraph_t part;
    size_t node_count = 1;
    OK(rondoHostGraphGetNodes(clone, nodes, &node_count));
    OK(rondoHostNodeGetType(nodes[0], &type));
    cr_expect(node_count == 1 && type == rondoHostNodeGraph);
    OK(rondoHostNodeGetGraph(nodes[0], 0, &part));
    REFUSED(rondoInvalidArgument, rondoHostNodeGetGraph(nodes[0], 1, &part));
    cr_expect(nodes_of(part) == 4 && edges_of(part) == 3);
    OK(rondoHostGraphDestroy(clone));
    for (int run = 1; run <= 100; run++) {
        launch_once(run % 2 ? exec : of_clone, a);
        cr_expect(before == run && after == run && arrived[0] == 2 * run && arrived[1] == 2 * run && count == 0);
    }
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostGraphExecDestroy(of_clone));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

/* Two nodes on a fork, one of them in a body that runs, that count here. */
static rondoHostGraph_t shape(rondoHostStream_t a, rondoHostStream_t b, int *count, int nodes_in_body)
{
    rondoHostGraph_t body;
    begin(a);
    OK(rondoHostLaunch(count_up, count, a));
    follow(b, a);
    OK(rondoHostStreamAddConditional(b, condition(b, 1), rondoHostIf, &body, 1));
    OK(rondoHostLaunch(count_up, count, a));
    follow(a, b);
    rondoHostGraph_t graph = end(a);
    begin_in(b, body);
    for (int i = 0; i < nodes_in_body; i++)
        OK(rondoHostLaunch(count_up, count, b));
    end(b);
    return graph;
}

Test(host_conditional, an_executable_is_updated_from_a_graph_of_the_same_shape_only)
{
    rondoHostStream_t a = new_stream(), b = new_stream();
    int one = 0, two = 0, word = 0;
    rondoHostGraph_t first = shape(a, b, &one, 2), second = shape(a, b, &two, 2), third = shape(a, b, &two, 3);
    rondoHostGraphExec_t exec = instantiate(first);
    REFUSED(rondoInvalidUsage, rondoHostGraphExecUpdate(exec, third));
    OK(rondoHostLaunch(gate, &word, a));
    OK(rondoHostGraphLaunch(exec, a)); /* runs after the update, and is of before it */
    OK(rondoHostGraphExecUpdate(exec, second));
    OK(rondoHostGraphDestroy(first));
    OK(rondoHostGraphDestroy(second));
    OK(rondoHostGraphLaunch(exec, a));
    open_gate(&word);
    OK(rondoHostStreamSynchronize(a));
    cr_expect(one == 4 && two == 4);
    begin(a); /* the same nodes, in a chain */
    for (int i = 0; i < 3; i++)
        OK(rondoHostLaunch(count_up, &one, a));
    rondoHostGraph_t chain = end(a);
    REFUSED(rondoInvalidUsage, rondoHostGraphExecUpdate(exec, chain));
    launch_once(exec, a);
    cr_expect(two == 8);
    OK(rondoHostGraphDestroy(chain));
    OK(rondoHostGraphDestroy(third));
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostStreamDestroy(a));
    OK(rondoHostStreamDestroy(b));
}

Test(host_conditional, an_update_may_need_more_blocks)
{
    struct rondo_device *d = open_device();
    rondoHostStream_t s = new_stream();
    int arrived[2] = {0}, sum = 0;
    struct rally few = {&arrived[0], &sum, 2}, many = {&arrived[1], &sum, 6};
    begin(s);
    launch_rally(d, &few, s);
    rondoHostGraph_t first = end(s);
    begin(s);
    launch_rally(d, &many, s);
    rondoHostGraph_t second = end(s);
    rondoHostGraphExec_t exec = instantiate(first);
    launch_once(exec, s);
    OK(rondoHostGraphExecUpdate(exec, second));
    launch_once(exec, s);
    cr_expect(sum == 1 + 15, "%d", sum);
    OK(rondoHostGraphDestroy(first));
    OK(rondoHostGraphDestroy(second));
    OK(rondoHostGraphExecDestroy(exec));
    OK(rondoHostStreamDestroy(s));
    row->close(d);
}

/* ---- what they own ---- */

static void own(struct rondo_device *d, rondoHostGraph_t graph, int *released)
{
    OK(row->graph_own(d, graph, count_up, released));
}

Test(host_conditional, what_parts_of_a_graph_own_is_released_once_with_the_last_of_all)
{
    struct rondo_device *d = open_device();
    rondoHostStream_t s = new_stream();
    int in_body = 0, in_child = 0, updated = 0;
    rondoHostGraph_t child, graph, body, clone;
    OK(rondoHostGraphCreate(&child));
    own(d, child, &in_child);
    OK(rondoHostGraphClone(&clone, child));
    begin(s);
    OK(rondoHostStreamAddGraph(s, child));
    OK(rondoHostStreamAddConditional(s, condition(s, 1), rondoHostIf, &body, 1));
    own(d, body, &in_body);
    graph = end(s);
    OK(rondoHostGraphDestroy(child));
    rondoHostGraphExec_t exec = instantiate(graph);
    OK(rondoHostGraphDestroy(graph));
    launch_once(exec, s);
    cr_expect(in_body == 0 && in_child == 0);
    begin(s);
    OK(rondoHostStreamAddGraph(s, clone));
    OK(rondoHostStreamAddConditional(s, condition(s, 1), rondoHostIf, &body, 1));
    own(d, body, &updated);
    graph = end(s);
    OK(rondoHostGraphExecUpdate(exec, graph));
    cr_expect(in_body == 1 && in_child == 0); /* the executable has let go of what it ran before */
    OK(rondoHostGraphDestroy(graph));
    OK(rondoHostGraphDestroy(clone));
    cr_expect(updated == 0 && in_child == 0);
    OK(rondoHostGraphExecDestroy(exec));
    cr_expect(updated == 1 && in_child == 1);
    OK(rondoHostStreamDestroy(s));
    row->close(d);
}
