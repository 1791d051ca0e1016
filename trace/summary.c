#include "trace.h"

#include <stdlib.h>
#include <string.h>

/* What was waited, in ns: numbers are kept for their percentiles. */
struct waits {
    double *numbers;
    size_t count;
    double sum;
};

struct tally {
    struct waits all, by_rank[MOST_RANKS];
    size_t ops, last[MOST_RANKS]; /* by the place of the file */
    double caused[MOST_RANKS];    /* waiting of all others, in all */
};

static void tally_free(struct tally *tally)
{
    free(tally->all.numbers);
    for (int r = 0; r < MOST_RANKS; r++)
        free(tally->by_rank[r].numbers);
}

static bool tally_init(struct tally *tally, const struct merged *merged)
{
    bool fine = true;
    memset(tally, 0, sizeof *tally);
    tally->all.numbers = malloc((merged->op_count * (size_t)merged->count + 1) * sizeof(double));
    for (int r = 0; r < merged->count; r++) {
        tally->by_rank[r].numbers = malloc((merged->op_count + 1) * sizeof(double));
        fine &= tally->by_rank[r].numbers != NULL;
    }
    return fine && tally->all.numbers;
}

static void add(struct waits *waits, double wait)
{
    waits->numbers[waits->count++] = wait;
    waits->sum += wait;
}

static int64_t arrival(const struct merged *merged, const struct op *op, int r)
{
    return op->records[r]->arrival - merged->ranks[r].offset;
}

static void tally_op(struct tally *tally, const struct merged *merged, const struct op *op)
{
    int last = 0;
    for (int r = 1; r < merged->count; r++)
        if (arrival(merged, op, r) > arrival(merged, op, last))
            last = r;
    tally->ops++;
    tally->last[last]++;
    for (int r = 0; r < merged->count; r++) {
        const double wait = (double)(arrival(merged, op, last) - arrival(merged, op, r));
        add(&tally->by_rank[r], wait);
        if (r == last)
            continue;
        add(&tally->all, wait);
        tally->caused[last] += wait;
    }
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double mean_us(const struct waits *waits)
{
    return waits->count ? waits->sum / (double)waits->count * 1e-3 : 0;
}

static double p99_us(struct waits *waits)
{
    qsort(waits->numbers, waits->count, sizeof *waits->numbers, by_number);
    return waits->count ? waits->numbers[(waits->count * 99 + 99) / 100 - 1] * 1e-3 : 0;
}

static int most_waited_for(const struct tally *tally, const struct merged *merged)
{
    int most = 0;
    for (int r = 1; r < merged->count; r++)
        if (tally->caused[r] > tally->caused[most])
            most = r;
    return most;
}

static void print_clocks(const struct merged *merged, FILE *out)
{
    int64_t error = 0;
    for (int r = 1; r < merged->count; r++)
        error = merged->ranks[r].error > error ? merged->ranks[r].error : error;
    if (merged->count < 2 || merged->op_count == 0)
        return;
    if (error == 0)
        fprintf(out, "clocks: all ranks have the same\n");
    else
        fprintf(out, "clocks: aligned within about %.3f us\n", (double)error * 1e-3);
}

static void print_straggler(const struct tally *tally, const struct merged *merged, FILE *out)
{
    const int most = most_waited_for(tally, merged);
    const double mean =
        tally->last[most] ? tally->caused[most] / (double)tally->last[most] / (double)(merged->count - 1) * 1e-3 : 0;
    const int64_t error = most ? merged->ranks[most].error : merged->count > 1 ? merged->ranks[1].error : 0;
    fprintf(out,
            "straggler: rank %d: last in %zu of %zu ops, each other rank then waited %.3f us in the mean; %.3f ms in "
            "all%s\n",
            merged->ranks[most].rank, tally->last[most], tally->ops, mean, tally->caused[most] * 1e-6,
            mean * 1e3 < (double)error ? "; less than the clocks can tell" : "");
}

static void print_ranks(struct tally *tally, const struct merged *merged, FILE *out)
{
    fprintf(out, "%-8s %9s %14s %14s %22s\n", "rank", "last in", "waits mean us", "waits p99 us",
            "waited for, all, ms");
    for (int r = 0; r < merged->count; r++)
        fprintf(out, "%-8d %9zu %14.3f %14.3f %22.3f\n", merged->ranks[r].rank, tally->last[r],
                mean_us(&tally->by_rank[r]), p99_us(&tally->by_rank[r]), tally->caused[r] * 1e-6);
}

static bool same_name(const struct record *a, const struct record *b)
{
    return a->name_bytes == b->name_bytes && memcmp(a->name, b->name, a->name_bytes) == 0;
}

/* The ops of one name; `told` says which ops have had their turn. */
static void print_op(const struct merged *merged, size_t first, bool *told, FILE *out)
{
    const struct record *record = merged->ops[first].records[0];
    struct tally tally;
    if (tally_init(&tally, merged)) {
        for (size_t i = first; i < merged->op_count; i++)
            if (!told[i] && same_name(record, merged->ops[i].records[0])) {
                told[i] = true;
                tally_op(&tally, merged, &merged->ops[i]);
            }
        const int most = most_waited_for(&tally, merged);
        fprintf(out, "%-44.*s %7zu %14.3f %14.3f   rank %d (last in %zu)\n", (int)record->name_bytes, record->name,
                tally.ops, mean_us(&tally.all), p99_us(&tally.all), merged->ranks[most].rank, tally.last[most]);
    }
    tally_free(&tally);
}

void trace_summary(const struct merged *merged, FILE *out)
{
    struct tally tally;
    bool *told = calloc(merged->op_count + 1, sizeof *told);
    fprintf(out, "%d of %d ranks; %zu ops that all of these have recorded\n", merged->count, merged->ranks[0].ranks,
            merged->op_count);
    print_clocks(merged, out);
    if (tally_init(&tally, merged) && told && merged->op_count && merged->count > 1) {
        for (size_t i = 0; i < merged->op_count; i++)
            tally_op(&tally, merged, &merged->ops[i]);
        print_straggler(&tally, merged, out);
        print_ranks(&tally, merged, out);
        fprintf(out, "%-44s %7s %14s %14s   %s\n", "op", "count", "wait mean us", "wait p99 us", "waited for most");
        for (size_t i = 0; i < merged->op_count; i++)
            if (!told[i])
                print_op(merged, i, told, out);
    }
    tally_free(&tally);
    free(told);
}
