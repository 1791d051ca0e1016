#include "support/copied.h"

#include "comm/comm.h"
#include "common/clock.h"
#include "support/mappable.h"
#include "transport/mover.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 8000, MORE_ROUNDS = 3 };

static _Thread_local struct machine shared;
static _Thread_local const struct machine *before;

void copied_init(void)
{
    if (!rig_on_host()) /* GPUs make no copies yet: docs/decisions/0010 */
        cr_skip_test("on the host device only");
    setenv("RONDO_CTA_POLICY", "2", 1);
    setenv("RONDO_PROTO", "direct", 1);
    setenv("RONDO_ALGO", "twoshot", 1);
}

void copied_begin(struct rig *rig)
{
    before = rig->machine;
    shared = mappable_machine(before);
    rig->machine = &shared;
}

void copied_end(struct rig *rig)
{
    rig->machine = before;
}

uint64_t copied_count(const struct rig *rig)
{
    return rondo_mover_copies(rig->comm->mover);
}

static uint64_t messages(const struct item *item)
{
    uint64_t count = 0;
    for (size_t m = 0; m < item->messages; m++)
        count += item->lengths[m] != 0 && item->from[m] != item->to[m];
    return count;
}

static uint64_t parts(const struct item *item, int ranks)
{
    uint64_t count = 0;
    for (int s = 0; s < ranks; s++)
        for (int r = 0; r < ranks; r++)
            if (s != r)
                count += item->counts[s][item->kind == ITEM_ALL_TO_ALLV ? r : 0] != 0;
    return count;
}

uint64_t copied_expected(const struct item *item, int ranks)
{
    const uint64_t n = (uint64_t)ranks;
    switch (item->kind) {
    case ITEM_ALL_GATHER:
        return n * (n - 1);
    case ITEM_ALL_TO_ALL:
        return item->in_place ? 0 : n * (n - 1);
    case ITEM_BROADCAST:
        return n - 1 + (n - 1) * (n - 2);
    case ITEM_GATHER:
    case ITEM_SCATTER:
        return n - 1;
    case ITEM_MESSAGES:
        return messages(item);
    case ITEM_ALL_TO_ALLV:
    case ITEM_ALL_GATHERV:
        return parts(item, ranks);
    default:
        return 0;
    }
}

int copied_round(struct item *item, struct rig *rig, struct machine_graph *graph, uint64_t *copies)
{
    uint64_t *all = (uint64_t *)(void *)rig->scratch;
    const uint64_t count = copied_count(rig);
    if (rig->rank == 0)
        __atomic_store_n(all, 0, __ATOMIC_SEQ_CST);
    item_fill(item, rig);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    if (graph)
        rig->machine->graph_launch(graph, rig->stream);
    else
        RIG_OK(item_issue(item, rig, rig->comm, rig->stream));
    rig->machine->stream_sync(rig->stream);
    __atomic_add_fetch(all, copied_count(rig) - count, __ATOMIC_SEQ_CST);
    const int failed = item_check(item, rig);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    *copies = __atomic_load_n(all, __ATOMIC_SEQ_CST);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    return failed;
}

int copied_rounds(struct item *item, struct rig *rig, struct machine_graph *graph)
{
    const uint64_t start = rondo_now_ns();
    uint64_t copies = 0, *root = (uint64_t *)(void *)(rig->scratch + 128);
    char what[160];
    int late = 0, *over = (int *)(void *)(rig->scratch + 64);
    item_describe(item, what, sizeof what);
    if (rig->rank == item->root) /* who has both buffers knows whether it is in place */
        __atomic_store_n(root, copied_expected(item, rig->ranks), __ATOMIC_SEQ_CST);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    const uint64_t expected = __atomic_load_n(root, __ATOMIC_SEQ_CST);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone");
    for (int round = 0; copies != expected && !late; round++) {
        if (copied_round(item, rig, graph, &copies))
            return 1;
        if (rig->rank == 0)
            __atomic_store_n(over, since_ms(start) > WAIT_MS, __ATOMIC_SEQ_CST);
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is gone"); /* all ranks do the same rounds */
        late = __atomic_load_n(over, __ATOMIC_SEQ_CST);
    }
    RIG_CHECK(copies == expected, "%llu copies, not %llu: %s", (unsigned long long)copies, (unsigned long long)expected,
              what);
    for (int round = 0; round < MORE_ROUNDS; round++) {
        if (copied_round(item, rig, graph, &copies))
            return 1;
        RIG_CHECK(copies == expected, "then %llu copies, not %llu: %s", (unsigned long long)copies,
                  (unsigned long long)expected, what);
    }
    return 0;
}

struct machine_graph *copied_capture(const struct item *item, struct rig *rig)
{
    rig->machine->capture_begin(rig->stream, MACHINE_CAPTURE_THREAD_LOCAL);
    if (item_issue(item, rig, rig->comm, rig->stream) != rondoSuccess)
        fprintf(stderr, "rank %d: %s\n", rig->rank, rondoGetLastError(NULL));
    return rig->machine->capture_end(rig->stream);
}
