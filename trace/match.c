#include "trace.h"

#include <stdlib.h>
#include <string.h>

static int by_rank(const void *a, const void *b)
{
    return ((const struct rank *)a)->rank - ((const struct rank *)b)->rank;
}

static bool same_comm(const struct merged *merged)
{
    for (int r = 1; r < merged->count; r++) {
        const struct rank *one = &merged->ranks[r - 1], *other = &merged->ranks[r];
        if (strcmp(one->comm, other->comm) != 0)
            fprintf(stderr, "rondo-trace: %s and %s are of different comms\n", one->path, other->path);
        else if (one->rank == other->rank)
            fprintf(stderr, "rondo-trace: %s and %s are of the same rank\n", one->path, other->path);
        else
            continue;
        return false;
    }
    return true;
}

static const struct record *find(const struct rank *rank, const struct record *like)
{
    size_t low = 0, high = rank->record_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct record *at = &rank->records[middle];
        if (at->lane < like->lane || (at->lane == like->lane && at->epoch < like->epoch))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == rank->record_count)
        return NULL;
    const struct record *at = &rank->records[low]; /* those in which ranks meet come first */
    return at->meets && at->lane == like->lane && at->epoch == like->epoch ? at : NULL;
}

static bool find_ops(struct merged *merged)
{
    const struct rank *first = &merged->ranks[0];
    merged->ops = malloc((first->record_count + 1) * sizeof *merged->ops);
    if (!merged->ops) {
        fprintf(stderr, "rondo-trace: out of memory\n");
        return false;
    }
    for (size_t i = 0; i < first->record_count; i++) {
        struct op *op = &merged->ops[merged->op_count];
        bool all = first->records[i].meets;
        for (int r = 0; r < merged->count && all; r++) {
            op->records[r] = find(&merged->ranks[r], &first->records[i]);
            all = op->records[r] != NULL;
        }
        merged->op_count += all;
    }
    return true;
}

/* No rank is done with an op before every other one has come to it. So of two clocks, one is not so far ahead that
 * one rank would be done before the other came, and not so far behind that the other would be. */
static void align(struct merged *merged, int r)
{
    struct rank *rank = &merged->ranks[r];
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (size_t i = 0; i < merged->op_count; i++) {
        const struct record *mine = merged->ops[i].records[0], *theirs = merged->ops[i].records[r];
        if (theirs->arrival - mine->done > low)
            low = theirs->arrival - mine->done;
        if (theirs->done - mine->arrival < high)
            high = theirs->done - mine->arrival;
    }
    if (merged->op_count == 0)
        return;
    rank->offset = low + (high - low) / 2;
    rank->error = (high - low + 1) / 2;
}

bool trace_match(struct merged *merged)
{
    bool one_clock = true;
    qsort(merged->ranks, (size_t)merged->count, sizeof *merged->ranks, by_rank);
    if (!same_comm(merged) || !find_ops(merged))
        return false;
    for (int r = 0; r < merged->count; r++)
        one_clock &= merged->ranks[r].host_clock; /* a comm's ranks are on one machine */
    for (int r = 1; r < merged->count && !one_clock; r++)
        align(merged, r);
    return true;
}
