#include "ops.h"

#include "library.h"

static rondoResult_t all_reduce(const struct bench_lib *lib, const struct bench_call *call)
{
    return lib->all_reduce(call->send, call->recv, call->count, call->type, call->redop, call->comm, call->stream);
}

static double all_reduce_bus(int nranks)
{
    return 2.0 * (nranks - 1) / nranks;
}

const struct bench_op bench_ops[] = {
    {"all_reduce", "AllReduce", all_reduce, all_reduce_bus},
};
const int bench_op_count = sizeof bench_ops / sizeof *bench_ops;

const char *const bench_redops[rondoNumOps] = {
    [rondoSum] = "sum", [rondoProd] = "prod", [rondoMax] = "max", [rondoMin] = "min", [rondoAvg] = "avg",
};
