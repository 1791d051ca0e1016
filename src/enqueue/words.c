#include "enqueue/words.h"

#include <stdbool.h>

#include "kernels/types.h"

#include <stddef.h>

const char *rondo_word_collective(unsigned collective)
{
    static const char *const words[RONDO_COLLECTIVE_COUNT] = {
        [RONDO_ALL_REDUCE] = "all_reduce", [RONDO_REDUCE_SCATTER] = "reduce_scatter", [RONDO_REDUCE] = "reduce",
        [RONDO_ALL_GATHER] = "all_gather", [RONDO_ALL_TO_ALL] = "all_to_all",         [RONDO_BROADCAST] = "broadcast",
    };
    return collective < RONDO_COLLECTIVE_COUNT ? words[collective] : "unknown";
}

const char *rondo_word_transfer(unsigned kind)
{
    return kind == RONDO_SEND ? "send" : kind == RONDO_RECV ? "recv" : "copy";
}

const char *rondo_word_type(unsigned dtype)
{
    static const char *const words[RONDO_DTYPE_COUNT] = {
        [RONDO_I8] = "int8",     [RONDO_U8] = "uint8",      [RONDO_I32] = "int32",       [RONDO_U32] = "uint32",
        [RONDO_I64] = "int64",   [RONDO_U64] = "uint64",    [RONDO_F16] = "float16",     [RONDO_F32] = "float32",
        [RONDO_F64] = "float64", [RONDO_BF16] = "bfloat16", [RONDO_E4M3] = "float8e4m3", [RONDO_E5M2] = "float8e5m2",
    };
    return dtype < RONDO_DTYPE_COUNT ? words[dtype] : "unknown";
}

const char *rondo_word_redop(unsigned redop)
{
    static const char *const words[RONDO_REDOP_COUNT] = {
        [RONDO_SUM] = "sum", [RONDO_PROD] = "prod", [RONDO_MAX] = "max", [RONDO_MIN] = "min", [RONDO_AVG] = "avg",
    };
    return redop < RONDO_REDOP_COUNT ? words[redop] : "unknown";
}

static const char *protocol(bool direct, bool copied, bool bulk, int line_bytes)
{
    if (copied)
        return bulk ? "copy/bulk" : line_bytes == 16 ? "copy/line16" : "copy/line8";
    if (bulk)
        return direct ? "direct/bulk" : "bulk";
    if (line_bytes == 16)
        return direct ? "direct/line16" : "line16";
    return direct ? "direct/line8" : "line8";
}

const char *rondo_word_protocol(const struct rondo_work *work, int line_bytes)
{
    return protocol(work && work->direct, work && work->copied, work && work->bulk, line_bytes);
}

const char *rondo_word_transfer_protocol(const struct rondo_transfer *transfer, int line_bytes)
{
    return protocol(transfer->direct, transfer->copied, false, line_bytes);
}
