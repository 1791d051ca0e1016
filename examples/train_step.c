/* A training step, captured into a graph: the backward pass makes gradients bucket by bucket on one stream; each bucket is averaged
 * over the ranks on a second one, while the backward pass goes on; then the weights are updated.
 *
 *     example-train_step [RANKS] */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 8, BUCKET = 1 << 16, STEPS = 50, WARMUP = 5 };

static const float rate = 0.25f;

struct training {
    struct rank *rank;
    struct CUstream_st *compute, *reduce;
    float *weights[BUCKETS], *gradients[BUCKETS];
};

/* Ranks see different data: their gradients differ. */
static struct kernel_args gradient_of(const struct training *training, int bucket)
{
    return (struct kernel_args){.out = training->gradients[bucket],
                                .in = training->weights[bucket],
                                .count = BUCKET,
                                .factor = 0.5f + 0.25f * (float)training->rank->rank,
                                .offset = 0.125f * (float)(bucket + 1)};
}

/* `compute` carries the step; what `reduce` is given branches off from it and comes back. */
static void step(struct training *training)
{
    for (int b = BUCKETS - 1; b >= 0; b--) { /* the last layer's gradients come first */
        const struct kernel_args args = gradient_of(training, b);
        device->run(GRADIENT, &args, training->compute);
        device->join(training->reduce, training->compute);
        RONDO(rondoAllReduce(training->gradients[b], training->gradients[b], BUCKET, rondoFloat, rondoAvg,
                             training->rank->comm, training->reduce));
    }
    device->join(training->compute, training->reduce);
    for (int b = 0; b < BUCKETS; b++) {
        const struct kernel_args args = {
            .out = training->weights[b], .in = training->gradients[b], .count = BUCKET, .factor = rate};
        device->run(UPDATE, &args, training->compute);
    }
}

static float first_weight(int bucket, int i)
{
    return (float)((i * 31 + bucket) % 1000) * 0.001f;
}

static void reset(struct training *training)
{
    static float weights[BUCKET];
    for (int b = 0; b < BUCKETS; b++) {
        for (int i = 0; i < BUCKET; i++)
            weights[i] = first_weight(b, i);
        device->write(training->weights[b], weights, sizeof weights);
    }
}

/* The largest error of a weight after so many steps. */
static double error_after(struct training *training, int steps)
{
    static float weights[BUCKET];
    const double slope = 0.5 + 0.25 * (training->rank->ranks - 1) / 2.0; /* the ranks' mean */
    double worst = 0;
    for (int b = 0; b < BUCKETS; b++) {
        device->read(weights, training->weights[b], sizeof weights);
        for (int i = 0; i < BUCKET; i++) {
            double wanted = first_weight(b, i);
            for (int s = 0; s < steps; s++)
                wanted -= rate * (slope * wanted + 0.125 * (b + 1));
            worst = fmax(worst, fabs(weights[i] - wanted));
        }
    }
    return worst;
}

/* Microseconds per step. graph NULL: by calls. */
static double train(struct training *training, const struct graph *graph)
{
    double start = 0;
    reset(training);
    for (int s = -WARMUP; s < STEPS; s++) {
        if (s == 0) {
            reset(training);
            meet(training->rank, training->compute);
            start = now_us();
        }
        if (graph)
            device->launch(graph, training->compute);
        else
            step(training);
        if (s == -1)
            device->wait(training->compute);
    }
    device->wait(training->compute);
    return (now_us() - start) / STEPS;
}

static int run(struct rank *rank)
{
    struct training training = {.rank = rank, .compute = device->stream(), .reduce = device->stream()};
    struct graph graph = {0};
    for (int b = 0; b < BUCKETS; b++) {
        training.weights[b] = device->alloc(BUCKET * sizeof(float));
        training.gradients[b] = device->alloc(BUCKET * sizeof(float));
    }
    device->capture(training.compute);
    step(&training);
    device->captured(training.compute, &graph);
    if (rank->rank == 0)
        describe(&graph, "the step");

    const double calls = train(&training, NULL), calls_error = error_after(&training, STEPS);
    const double replays = train(&training, &graph), replays_error = error_after(&training, STEPS);
    const int right = calls_error < 1e-4 && replays_error < 1e-4;
    if (rank->rank == 0) {
        printf("%d buckets of %d KiB, %d steps\n", BUCKETS, (int)(BUCKET * sizeof(float) >> 10), STEPS);
        printf("by calls:    %9.2f us per step, weights are off by %.1e\n", calls, calls_error);
        printf("by replays:  %9.2f us per step, weights are off by %.1e\n", replays, replays_error);
    }
    meet(rank, training.compute); /* nobody ends what a peer's replay may still talk to */
    device->graph_end(&graph);
    for (int b = 0; b < BUCKETS; b++) {
        device->free(training.weights[b]);
        device->free(training.gradients[b]);
    }
    device->stream_end(training.compute);
    device->stream_end(training.reduce);
    return !right;
}

int main(int argc, char **argv)
{
    return run_ranks(argc, argv, "train_step", run);
}
