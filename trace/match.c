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

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* How far rank r's clock is ahead of the first one's: the median over some ops, whose ends are taken for simultaneous. */
static int64_t median_of_ends(const struct merged *merged, int r, size_t from, size_t to, int64_t *numbers)
{
    for (size_t i = from; i < to; i++)
        numbers[i - from] = merged->ops[i].records[r]->done - merged->ops[i].records[0]->done;
    qsort(numbers, to - from, sizeof *numbers, by_number);
    return numbers[(to - from) / 2];
}

/* What an op takes once all have come: that of its last rank. */
static int64_t shortest_op(const struct merged *merged)
{
    int64_t shortest = INT64_MAX;
    for (size_t i = 0; i < merged->op_count; i++)
        for (int r = 0; r < merged->count; r++) {
            const struct record *record = merged->ops[i].records[r];
            if (record->done - record->arrival < shortest)
                shortest = record->done - record->arrival;
        }
    return shortest;
}

/* All ranks end an op within the time that it takes once the last one has come: so their ends show how far a clock is ahead, to that
 * time, whoever was late. (Arrivals show it only if now one is first and now the other.) What is sure is that no rank is done
 * before another one has come. Clocks that drift show in the difference between the older half of the ops and the younger. */
static bool align(struct merged *merged, int r)
{
    struct rank *rank = &merged->ranks[r];
    const size_t count = merged->op_count;
    int64_t low = INT64_MIN, high = INT64_MAX, *numbers = malloc((count + 1) * sizeof *numbers);
    if (!numbers || !count) {
        const bool fine = numbers != NULL;
        free(numbers);
        return fine;
    }
    for (size_t i = 0; i < count; i++) {
        const struct record *mine = merged->ops[i].records[0], *theirs = merged->ops[i].records[r];
        low = theirs->arrival - mine->done > low ? theirs->arrival - mine->done : low;
        high = theirs->done - mine->arrival < high ? theirs->done - mine->arrival : high;
    }
    rank->offset = median_of_ends(merged, r, 0, count, numbers);
    rank->error = shortest_op(merged);
    if (count > 1) {
        const int64_t older = median_of_ends(merged, r, 0, count / 2, numbers),
                      younger = median_of_ends(merged, r, count / 2, count, numbers);
        rank->error += llabs(younger - older) / 2;
    }
    if (low <= high && rank->offset < low)
        rank->offset = low;
    if (low <= high && rank->offset > high)
        rank->offset = high;
    free(numbers);
    return true;
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
        if (!align(merged, r)) {
            fprintf(stderr, "rondo-trace: out of memory\n");
            return false;
        }
    return true;
}
