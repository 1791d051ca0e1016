/* Many small all-reduces, in four ways: call by call; in a group, which makes one launch of them; in a persistent plan of that group,
 * which is planned once; and in a graph of it.
 *
 *     example-batched_group [RANKS] */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

enum { TENSORS = 64, ELEMENTS = 256, ROUNDS = 100, WARMUP = 10 };

struct batch {
    struct rank *rank;
    struct CUstream_st *stream;
    float *in, *out;
    rondoPlan_t plan;
    struct graph graph;
};

static void call_all(struct batch *batch)
{
    for (size_t t = 0; t < TENSORS; t++)
        RONDO(rondoAllReduce(batch->in + t * ELEMENTS, batch->out + t * ELEMENTS, ELEMENTS, rondoFloat, rondoSum,
                             batch->rank->comm, batch->stream));
}

static void call_in_group(struct batch *batch)
{
    RONDO(rondoGroupStart());
    call_all(batch);
    RONDO(rondoGroupEnd());
}

static void launch_plan(struct batch *batch)
{
    RONDO(rondoPlanLaunch(batch->plan, batch->stream));
}

static void replay(struct batch *batch)
{
    device->launch(&batch->graph, batch->stream);
}

static const struct way {
    const char *name;
    void (*issue)(struct batch *batch);
} ways[] = {
    {"one by one", call_all},
    {"a group", call_in_group},
    {"a plan", launch_plan},
    {"a graph", replay},
};

static float input(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 64);
}

/* Results that are not the sum over the ranks; small integers, so it is exact. The buffer is cleared. */
static size_t wrong(struct batch *batch)
{
    static float out[TENSORS * ELEMENTS];
    size_t count = 0;
    device->read(out, batch->out, sizeof out);
    for (size_t i = 0; i < TENSORS * ELEMENTS; i++) {
        float sum = 0;
        for (int r = 0; r < batch->rank->ranks; r++)
            sum += input(r, i);
        count += out[i] != sum;
        out[i] = -1;
    }
    device->write(batch->out, out, sizeof out);
    return count;
}

/* Microseconds per round, and of those in the calls. */
static double measure(struct batch *batch, const struct way *way, double *host)
{
    double start = 0;
    for (int round = -WARMUP; round < ROUNDS; round++) {
        if (round == 0) {
            meet(batch->rank, batch->stream);
            *host = 0;
            start = now_us();
        }
        const double called = now_us();
        way->issue(batch);
        *host += now_us() - called;
    }
    device->wait(batch->stream);
    *host /= ROUNDS;
    return (now_us() - start) / ROUNDS;
}

static int run(struct rank *rank)
{
    static float in[TENSORS * ELEMENTS];
    struct batch batch = {.rank = rank, .stream = device->stream()};
    size_t errors = 0;
    batch.in = device->alloc(sizeof in);
    batch.out = device->alloc(sizeof in);
    for (size_t i = 0; i < TENSORS * ELEMENTS; i++)
        in[i] = input(rank->rank, i);
    device->write(batch.in, in, sizeof in);

    RONDO(rondoPlanBegin());
    call_in_group(&batch);
    RONDO(rondoPlanEnd(&batch.plan));
    device->capture(batch.stream);
    call_in_group(&batch);
    device->captured(batch.stream, &batch.graph);
    if (rank->rank == 0) {
        describe(&batch.graph, "the group in a graph");
        printf("%d all-reduces of %d bytes      us per round   in the calls\n", TENSORS,
               (int)(ELEMENTS * sizeof(float)));
    }
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        double host;
        const double us = measure(&batch, &ways[w], &host);
        const size_t bad = wrong(&batch);
        errors += bad;
        if (rank->rank == 0)
            printf("  %-32s %12.2f   %12.2f%s\n", ways[w].name, us, host, bad ? "  WRONG" : "");
    }
    meet(rank, batch.stream); /* nobody ends what a peer's replay may still talk to */
    device->graph_end(&batch.graph);
    RONDO(rondoPlanDestroy(batch.plan));
    device->free(batch.in);
    device->free(batch.out);
    device->stream_end(batch.stream);
    return errors != 0;
}

int main(int argc, char **argv)
{
    return run_ranks(argc, argv, "batched_group", run);
}
