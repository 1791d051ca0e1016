#include "usage.h"

#include <stdio.h>

static const char text[] =
    "rondo-perf: how long collectives take, one by one (eager) and replayed from a graph.\n"
    "\n"
    "  rondo-perf -b 1K -e 64M -g 4 --lib /usr/lib/x86_64-linux-gnu/libnccl.so.2 --svg latency.svg\n"
    "\n"
    "Sizes (K, M, G are powers of 1024)\n"
    "  -b BYTES        smallest size (1K)\n"
    "  -e BYTES        largest size (1M)\n"
    "  -f FACTOR       from one size to the next (4)\n"
    "  -i BYTES        or by this step\n"
    "What\n"
    "  --op LIST       all_reduce\n"
    "  -d LIST         types: int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 fp8_e4m3 fp8_e5m2,\n"
    "                  or all (float)\n"
    "  -o LIST         reductions: sum prod max min avg, or all (sum)\n"
    "  --group M       every op is a group of M calls of the size, on buffers of their own (1); times are of the whole\n"
    "                  group, and bandwidths count all M\n"
    "  --inplace       send and receive in one buffer\n"
    "  --compute US    a kernel of that length runs before each op, as in a decode loop; its own time, measured alone,\n"
    "                  is subtracted\n"
    "Where\n"
    "  -g RANKS        one per GPU (all GPUs; 2 on the host device)\n"
    "  --procs         each rank is a process (default)\n"
    "  --threads       each rank is a thread of one process\n"
    "  --device NAME   cuda, or host: CPUs stand in for GPUs (cuda where a GPU is found; also: RONDO_DEVICE)\n"
    "  --lib PATH      measure this library with NCCL's API too, each size in turn with Rondo's; may be repeated\n"
    "How\n"
    "  -n OPS          eager ops (20); 0: none\n"
    "  -w OPS          eager ops before that, to warm up (5)\n"
    "  -k OPS          ops in a graph (20; 4 from 16M on)\n"
    "  -G REPLAYS      replays of it (50; 10 from 16M on); 0: none\n"
    "  -c 0|1          verify results, after eager ops and after replays (1)\n"
    "Output\n"
    "  --json FILE     one object per line; - is standard output, and the table then goes to standard error\n"
    "  --csv FILE      the same as a table\n"
    "  --svg FILE      a plot of latency over size\n"
    "  --help, --version\n"
    "\n"
    "Columns. time: microseconds per op, mean, of the slowest rank: wall time of -n ops until the stream is idle (eager),\n"
    "or device time of -G replays, per op (graph). host: what the call itself takes. min, p99: single ops (eager) or\n"
    "replays (graph) that started together; of each the slowest rank counts. algbw, busbw: as in nccl-tests.\n"
    "ratio: graph time, relative to Rondo's.\n"
    "The exit status is 1 if a result was wrong or a rank failed, 2 if the options were.\n";

void usage_print(void)
{
    fputs(text, stdout);
}
