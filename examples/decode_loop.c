/* An inference engine's decode loop, whole, in one WHILE graph: layers, each with an all-reduce over the ranks of a
 * tensor-parallel model, the choice of the token, and the decision to go on, which the device takes. One launch writes a text;
 * the host only waits for it.
 *
 *     example-decode_loop [RANKS]
 *
 * The same loop is also done by calls, with a look at each token on the host. Both must choose the same tokens: an op's result
 * does not depend on how it was issued, to the last bit. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 4096, LAYERS = 10, TEXTS = 8, WARMUP = 1 };

struct model {
    struct rank *rank;
    struct CUstream_st *stream;
    float *hidden, *partial;
    struct decoding *decoding;
};

/* One token. Every op is followed by what uses its result, so they need no buffers of their own. */
static void decode(struct model *model, unsigned long long condition)
{
    const struct kernel_args share = {
        .out = model->partial, .in = model->hidden, .count = HIDDEN, .factor = 3.9f / (float)model->rank->ranks};
    const struct kernel_args choice = {.in = model->hidden, .decoding = model->decoding, .condition = condition};
    for (int l = 0; l < LAYERS; l++) {
        device->run(LAYER, &share, model->stream);
        RONDO(rondoAllReduce(model->partial, model->hidden, HIDDEN, rondoFloat, rondoSum, model->rank->comm,
                             model->stream));
    }
    device->run(PICK, &choice, model->stream);
}

/* Puts the model at the beginning of a text. */
static void prompt(struct model *model, int number)
{
    float hidden[HIDDEN];
    const struct decoding empty = {.limit = MOST_TOKENS, .go_on = 1};
    for (int i = 0; i < HIDDEN; i++)
        hidden[i] = 0.1f + 0.8f * (float)((i + 97 * number) % HIDDEN) / HIDDEN;
    device->write(model->hidden, hidden, sizeof hidden);
    device->write(model->decoding, &empty, sizeof empty);
}

static void decode_by_calls(struct model *model, struct decoding *text)
{
    do {
        decode(model, 0);
        device->wait(model->stream);
        device->read(text, model->decoding, sizeof *text);
    } while (text->go_on);
}

static void decode_by_graph(struct model *model, const struct graph *graph, struct decoding *text)
{
    device->launch(graph, model->stream);
    device->wait(model->stream);
    device->read(text, model->decoding, sizeof *text);
}

/* Microseconds per token. graph NULL: by calls. */
static double decode_texts(struct model *model, const struct graph *graph, struct decoding *texts)
{
    double spent = 0;
    int tokens = 0;
    for (int t = -WARMUP; t < TEXTS; t++) {
        struct decoding *text = &texts[t < 0 ? 0 : t];
        prompt(model, t < 0 ? 0 : t);
        meet(model->rank, model->stream);
        const double start = now_us();
        if (graph)
            decode_by_graph(model, graph, text);
        else
            decode_by_calls(model, text);
        if (t < 0)
            continue;
        spent += now_us() - start;
        tokens += text->count;
    }
    return spent / tokens;
}

static int run(struct rank *rank)
{
    static struct decoding by_calls[TEXTS], by_graph[TEXTS];
    struct model model = {.rank = rank, .stream = device->stream()};
    struct graph graph = {0};
    model.hidden = device->alloc(HIDDEN * sizeof(float));
    model.partial = device->alloc(HIDDEN * sizeof(float));
    model.decoding = device->alloc(sizeof *model.decoding);

    device->capture_loop(model.stream, &graph);
    decode(&model, graph.condition);
    device->captured(model.stream, &graph);
    if (rank->rank == 0)
        describe(&graph, "the loop's body");

    const double calls = decode_texts(&model, NULL, by_calls), loop = decode_texts(&model, &graph, by_graph);
    int tokens = 0, same = 1;
    for (int t = 0; t < TEXTS; t++) {
        tokens += by_graph[t].count;
        same &= by_calls[t].count == by_graph[t].count &&
                !memcmp(by_calls[t].tokens, by_graph[t].tokens, (size_t)by_graph[t].count * sizeof(int));
    }
    if (rank->rank == 0) {
        printf("%d texts of %d tokens in all; the first begins", TEXTS, tokens);
        for (int i = 0; i < by_graph[0].count && i < 6; i++)
            printf(" %d", by_graph[0].tokens[i]);
        printf("\nby calls, and a look at each token: %8.2f us per token\n", calls);
        printf("by one launch per text:             %8.2f us per token\n", loop);
        printf("tokens are %s\n", same ? "the same" : "DIFFERENT");
    }
    meet(rank, model.stream); /* nobody ends what a peer's loop may still talk to */
    device->graph_end(&graph);
    device->free(model.hidden);
    device->free(model.partial);
    device->free(model.decoding);
    device->stream_end(model.stream);
    return !same;
}

int main(int argc, char **argv)
{
    return run_ranks(argc, argv, "decode_loop", run);
}
