/* A rank's trace for people: what it alone knows, by op. */
#include "enqueue/trace.h"

#include <stdlib.h>
#include <string.h>

#define PRINT(...) rondo_describe_print(text, __VA_ARGS__)

static uint64_t wait_of(const struct rondo_trace_entry *entry)
{
    return entry->first > entry->arrival ? entry->first - entry->arrival : 0;
}

static uint64_t time_of(const struct rondo_trace_entry *entry)
{
    return entry->done > entry->arrival ? entry->done - entry->arrival : 0;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Mean and 99th percentile, in us; sorts. */
static void print_numbers(uint64_t *numbers, size_t count, struct rondo_describe_text *text)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)numbers[i];
    qsort(numbers, count, sizeof *numbers, by_number);
    PRINT(" %11.3f %11.3f", sum / (double)count * 1e-3, (double)numbers[(count * 99 + 99) / 100 - 1] * 1e-3);
}

/* The records of the op that `first` is of. Those that were told are marked by lane RONDO_MAX_LANES. */
static void print_op(const struct rondo_trace_view *view, size_t first, unsigned *lanes, uint64_t *times,
                     uint64_t *waits, struct rondo_describe_text *text)
{
    char name[RONDO_TRACE_NAME_BYTES], other[RONDO_TRACE_NAME_BYTES];
    size_t count = 0;
    rondo_trace_name(&view->records[first], name);
    for (size_t i = first; i < view->count; i++) {
        rondo_trace_name(&view->records[i], other);
        if (lanes[i] == RONDO_MAX_LANES || strcmp(name, other) != 0)
            continue;
        lanes[i] = RONDO_MAX_LANES;
        times[count] = time_of(&view->records[i].entry);
        waits[count++] = wait_of(&view->records[i].entry);
    }
    PRINT("  %-44s %7zu", name, count);
    print_numbers(times, count, text);
    print_numbers(waits, count, text);
    PRINT("\n");
}

void rondo_trace_text(const struct rondo_trace_view *view, struct rondo_describe_text *text)
{
    const struct rondoComm *comm = view->comm;
    uint64_t *numbers = malloc((2 * view->count + 1) * sizeof *numbers);
    unsigned *lanes = calloc(view->count + 1, sizeof *lanes);
    uint64_t launches = 0;
    text->failed |= !numbers || !lanes;
    for (unsigned lane = 0; lane < comm->anchor->lanes; lane++)
        launches += view->launches[lane];
    PRINT(
        "rank %d of %d: %zu launches of %llu; us from arrival until done, and of that until the first data had come\n",
        comm->rank, comm->ranks, view->count, (unsigned long long)launches);
    PRINT("  %-44s %7s %11s %11s %11s %11s\n", "op", "count", "mean", "p99", "wait mean", "wait p99");
    for (size_t i = 0; i < view->count && !text->failed; i++)
        if (lanes[i] != RONDO_MAX_LANES)
            print_op(view, i, lanes, numbers, numbers + view->count, text);
    free(numbers);
    free(lanes);
}
