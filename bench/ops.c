#include "ops.h"

#include "calls.h"
#include "library.h"

/* ---- sizes ---- */

static size_t whole(size_t elements, int nranks)
{
    (void)nranks;
    return elements;
}

static size_t at_least_one(size_t elements, int nranks)
{
    (void)nranks;
    return elements ? elements : 1;
}

/* Every rank's part, where the buffer holds one of each. */
static size_t share(size_t elements, int nranks)
{
    return at_least_one(elements / (size_t)nranks, nranks);
}

static size_t all_shares(size_t count, int nranks)
{
    return count * (size_t)nranks;
}

static size_t nothing(size_t elements, int nranks)
{
    (void)elements;
    (void)nranks;
    return 0;
}

static size_t same_count(const struct bench_place *place)
{
    return place->count;
}

/* The parts as if they were even. */
static size_t mean_part(const struct bench_place *place)
{
    return share(place->count, place->nranks);
}

/* ---- where data lie ---- */

static void layout_message(const struct bench_place *place, struct bench_layout *layout)
{
    *layout = (struct bench_layout){0, place->count, 0, place->count};
}

static void layout_reduce(const struct bench_place *place, struct bench_layout *layout)
{
    *layout = (struct bench_layout){0, place->count, 0, place->rank == place->root ? place->count : 0};
}

static void layout_all_gather(const struct bench_place *place, struct bench_layout *layout)
{
    size_t all = all_shares(place->count, place->nranks);
    *layout = (struct bench_layout){place->in_place ? (size_t)place->rank * place->count : 0, place->count, 0, all};
}

static void layout_reduce_scatter(const struct bench_place *place, struct bench_layout *layout)
{
    size_t all = all_shares(place->count, place->nranks);
    *layout = (struct bench_layout){0, all, place->in_place ? (size_t)place->rank * place->count : 0, place->count};
}

static void layout_all_to_all(const struct bench_place *place, struct bench_layout *layout)
{
    size_t all = all_shares(place->count, place->nranks);
    *layout = (struct bench_layout){0, all, 0, all};
}

static void layout_gather(const struct bench_place *place, struct bench_layout *layout)
{
    int is_root = place->rank == place->root;
    layout_all_gather(place, layout);
    layout->send_at = is_root ? layout->send_at : 0;
    layout->recv_count = is_root ? layout->recv_count : 0;
}

static void layout_scatter(const struct bench_place *place, struct bench_layout *layout)
{
    layout_reduce_scatter(place, layout);
    layout->recv_at = place->rank == place->root ? layout->recv_at : 0;
}

static void layout_nothing(const struct bench_place *place, struct bench_layout *layout)
{
    (void)place;
    *layout = (struct bench_layout){0, 0, 0, 0};
}

/* ---- what must come out ---- */

/* All that is received is one piece. */
static void one_part(int number, int from, size_t index, size_t count, struct bench_part *part)
{
    *part = (struct bench_part){from, index, 0, number == 0 ? count : 0};
}

static void part_all_reduce(const struct bench_place *place, int number, struct bench_part *part)
{
    one_part(number, BENCH_REDUCED, 0, place->count, part);
}

static void part_reduce(const struct bench_place *place, int number, struct bench_part *part)
{
    one_part(number, BENCH_REDUCED, 0, place->rank == place->root ? place->count : 0, part);
}

static void part_reduce_scatter(const struct bench_place *place, int number, struct bench_part *part)
{
    one_part(number, BENCH_REDUCED, (size_t)place->rank * place->count, place->count, part);
}

static void part_broadcast(const struct bench_place *place, int number, struct bench_part *part)
{
    one_part(number, place->root, 0, place->count, part);
}

static void part_scatter(const struct bench_place *place, int number, struct bench_part *part)
{
    one_part(number, place->root, (size_t)place->rank * place->count, place->count, part);
}

static void part_send_recv(const struct bench_place *place, int number, struct bench_part *part)
{
    one_part(number, (place->rank + place->nranks - 1) % place->nranks, 0, place->count, part);
}

static void part_all_gather(const struct bench_place *place, int number, struct bench_part *part)
{
    *part = (struct bench_part){number, 0, (size_t)number * place->count, place->count};
}

static void part_gather(const struct bench_place *place, int number, struct bench_part *part)
{
    part_all_gather(place, number, part);
    part->count = place->rank == place->root ? part->count : 0;
}

static void part_all_to_all(const struct bench_place *place, int number, struct bench_part *part)
{
    part_all_gather(place, number, part);
    part->index = (size_t)place->rank * place->count;
}

static void part_all_to_allv(const struct bench_place *place, int number, struct bench_part *part)
{
    struct uneven here, there;
    struct bench_place sender = *place;
    sender.rank = number;
    calls_uneven(place, &here);
    calls_uneven(&sender, &there);
    *part = (struct bench_part){number, there.send_at[place->rank], here.recv_at[number], here.recv_count[number]};
}

static void part_nothing(const struct bench_place *place, int number, struct bench_part *part)
{
    (void)place;
    one_part(number, 0, 0, 0, part);
}

/* ---- bus bandwidth ---- */

static double bus_both_ways(int nranks)
{
    return 2.0 * (nranks - 1) / nranks;
}

/* A rank's own part stays where it is. */
static double bus_others(int nranks)
{
    return (nranks - 1.0) / nranks;
}

static double bus_all(int nranks)
{
    (void)nranks;
    return 1;
}

/* The own part is the smallest: one of n (n + 1) / 2. */
static double bus_uneven(int nranks)
{
    return 1 - 2.0 / (nranks * (nranks + 1.0));
}

/* ---- the table ---- */

static const char the_message[] = "the message";
static const char all_parts[] = "the parts of all ranks together";

const struct bench_op bench_ops[] = {
    {.name = "all_reduce",
     .function = "AllReduce",
     .size = the_message,
     .reduces = 1,
     .in_place = 1,
     .has_data = 1,
     .count = at_least_one,
     .elements = whole,
     .layout = layout_message,
     .part = part_all_reduce,
     .explain_count = same_count,
     .issue = call_all_reduce,
     .bus_factor = bus_both_ways},
    {.name = "all_gather",
     .function = "AllGather",
     .size = all_parts,
     .in_place = 1,
     .has_data = 1,
     .count = share,
     .elements = all_shares,
     .layout = layout_all_gather,
     .part = part_all_gather,
     .explain_count = same_count,
     .issue = call_all_gather,
     .bus_factor = bus_others},
    {.name = "reduce_scatter",
     .function = "ReduceScatter",
     .size = all_parts,
     .reduces = 1,
     .in_place = 1,
     .has_data = 1,
     .count = share,
     .elements = all_shares,
     .layout = layout_reduce_scatter,
     .part = part_reduce_scatter,
     .explain_count = same_count,
     .issue = call_reduce_scatter,
     .bus_factor = bus_others},
    {.name = "broadcast",
     .function = "Broadcast",
     .size = the_message,
     .rooted = 1,
     .in_place = 1,
     .has_data = 1,
     .count = at_least_one,
     .elements = whole,
     .layout = layout_message,
     .part = part_broadcast,
     .explain_count = same_count,
     .issue = call_broadcast,
     .bus_factor = bus_all},
    {.name = "reduce",
     .function = "Reduce",
     .size = the_message,
     .reduces = 1,
     .rooted = 1,
     .in_place = 1,
     .has_data = 1,
     .count = at_least_one,
     .elements = whole,
     .layout = layout_reduce,
     .part = part_reduce,
     .explain_count = same_count,
     .issue = call_reduce,
     .bus_factor = bus_all},
    {.name = "all_to_all",
     .function = "AllToAll",
     .size = all_parts,
     .in_place = 1,
     .has_data = 1,
     .count = share,
     .elements = all_shares,
     .layout = layout_all_to_all,
     .part = part_all_to_all,
     .explain_count = same_count,
     .issue = call_all_to_all,
     .bus_factor = bus_others},
    {.name = "gather",
     .function = "Gather",
     .size = all_parts,
     .rooted = 1,
     .in_place = 1,
     .has_data = 1,
     .count = share,
     .elements = all_shares,
     .layout = layout_gather,
     .part = part_gather,
     .explain_count = same_count,
     .issue = call_gather,
     .bus_factor = bus_others},
    {.name = "scatter",
     .function = "Scatter",
     .size = all_parts,
     .rooted = 1,
     .in_place = 1,
     .has_data = 1,
     .count = share,
     .elements = all_shares,
     .layout = layout_scatter,
     .part = part_scatter,
     .explain_count = same_count,
     .issue = call_scatter,
     .bus_factor = bus_others},
    {.name = "send_recv",
     .function = "Send and Recv",
     .size = "the message, to the next rank and from the one before",
     .has_data = 1,
     .count = at_least_one,
     .elements = whole,
     .layout = layout_message,
     .part = part_send_recv,
     .explain_count = same_count,
     .issue = call_send_recv,
     .bus_factor = bus_all},
    {.name = "all_to_allv",
     .function = "AllToAllv",
     .size = "all that a rank sends, in uneven parts",
     .has_data = 1,
     .count = at_least_one,
     .elements = whole,
     .layout = layout_message,
     .part = part_all_to_allv,
     .explain_count = mean_part,
     .issue = call_all_to_allv,
     .bus_factor = bus_uneven},
    {.name = "barrier",
     .function = "Barrier",
     .size = "nothing",
     .count = nothing,
     .elements = nothing,
     .layout = layout_nothing,
     .part = part_nothing,
     .explain_count = same_count,
     .issue = call_barrier,
     .bus_factor = bus_all},
};
const int bench_op_count = sizeof bench_ops / sizeof *bench_ops;

const char *bench_op_lacks(const struct bench_op *op, const struct bench_lib *lib, int in_place)
{
    if (op->issue == call_barrier && !lib->barrier)
        return "has no barrier";
    if (op->issue == call_all_to_all && in_place && !lib->all_to_all_in_place)
        return "has no all_to_all in place";
    return NULL;
}

const char *const bench_redops[rondoNumOps] = {
    [rondoSum] = "sum", [rondoProd] = "prod", [rondoMax] = "max", [rondoMin] = "min", [rondoAvg] = "avg",
};
