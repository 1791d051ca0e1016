#include "comm/limits.h"

/* FIFOs for sends and receives: as many to and from each peer as blocks of a launch can serve at once, in a quarter of the memory
 * that a half of the mailbox has. Three quarters of a FIFO hold more than a warp sends: lanes that have room for their lines wait for
 * those that have none (the compiler joins them before they store), and these wait for the receiver, which must not need the
 * lines of the former. */
static void set_fifos(struct rondo_limits *limits)
{
    enum { MOST_CHANNELS = 32, FEWEST_LINES = 64 };
    const unsigned peers = limits->ranks > 1 ? limits->ranks - 1 : 1;
    limits->fifo_channels = 1;
    while (limits->fifo_channels < MOST_CHANNELS && 2 * limits->fifo_channels * (2 * peers + 1) <= limits->max_channels)
        limits->fifo_channels *= 2;
    limits->fifo_lines = FEWEST_LINES;
    while (2ull * limits->fifo_lines * peers * limits->fifo_channels <= limits->half_lines / 4)
        limits->fifo_lines *= 2;
}

/* Two-shot pays a second trip over the link; one-shot sends (n-1) - 2(n-1)/n times the message more: in an all-reduce all
 * ranks do, in a broadcast the root does, in a reduce it receives so much more. And two-shot has no lean kernels: where one-shot has,
 * these are 0.7 to 1.0 us faster (two H200s). They cost the same where the two times the bandwidth equal that surplus: 467 KB for 4 ranks,
 * 133 KB for 8, 32 KB for 16. That was reckoned, not measured: docs/eight-gpus.md. With 2 ranks there is no surplus, but each rank
 * loads and reduces all: of 4 MiB in 17.0 us and two-shot in 19.5, of 8 MiB in 39.5 and 30.2 (two H200s). */
void rondo_limits_preset(struct rondo_limits *limits)
{
    enum { TRIP_BYTES = 420 * 1000, LEAN_BYTES = 280 * 1000 }; /* 1.2 and 0.8 us at 350 GB/s */
    const uint64_t n = limits->ranks, lead = TRIP_BYTES + (rondo_limits_lean(limits->ranks) ? LEAN_BYTES : 0);
    const uint64_t most = n <= 2 ? 4u << 20 : lead * n / ((n - 1) * (n - 2));
    for (unsigned c = 0; c < RONDO_COLLECTIVE_COUNT; c++)
        limits->two_shot_from[c] = most + 1;
}

/* Direct works have two more trips over the link, and no mailboxes: what fits into one step of lines is faster by these, what takes two is
 * not. Between two H200s lines take 16.3 us for parts of 4 MiB, which are one step, and 40.8 for 8 MiB; direct works 20.7 and 33.7
 * (docs/decisions/0007). With more ranks a step holds what half a mailbox holds for each of the others (docs/eight-gpus.md). */
uint64_t rondo_limits_direct_parts(unsigned ranks)
{
    enum { PARTS_OF_TWO = 6 << 20, PARTS = 8 << 20 };
    return ranks <= 2 ? PARTS_OF_TWO : PARTS / (ranks - 1) + 1;
}

/* Each with all registers that its kernel may have: an eager one and a replay, or those of two comms. Else each rank might run another
 * one first, and all would wait for ever. Launches that let the next one in at once come in pairs: two of these are to fit as well. A step has as many lines as with full blocks. On two H200s, where this gives 128 blocks 256
 * threads (lean ones 512), all-reduce of 2 MiB takes 10.6 us, with 512 9.7; of 4 MiB 17.0 and 16.4, of 8 MiB 30.4 and 29.8. */
void rondo_limits_share(struct rondo_limits *limits, unsigned processors)
{
    enum { FEWEST = 64, LINES = 4 };
    const unsigned full = limits->max_threads;
    limits->room = processors * RONDO_MAX_THREADS / 2;
    limits->large = limits->room / 2 < RONDO_LARGE_LAUNCH_THREADS ? limits->room / 2 : RONDO_LARGE_LAUNCH_THREADS;
    while (limits->max_threads > FEWEST && limits->max_threads * limits->max_channels > limits->room)
        limits->max_threads /= 2;
    limits->max_per_thread = LINES * full / limits->max_threads;
    limits->lean_threads = full;
    while (limits->lean_threads > limits->max_threads &&
           limits->lean_threads * limits->max_channels > limits->room * RONDO_MAX_REGISTERS / RONDO_LEAN_REGISTERS)
        limits->lean_threads /= 2;
}

void rondo_limits_fit(struct rondo_limits *limits, uint64_t bytes)
{
    const uint32_t fewest = 2 * limits->ranks * limits->ranks; /* plan_steps: a step has a line for each rank */
    limits->half_lines = (uint32_t)(bytes / limits->line_bytes);
    limits->bulk_lines = (uint32_t)(bytes / 4 * 3 / limits->line_bytes);
    limits->bulk_lines = limits->bulk_lines < fewest ? fewest : limits->bulk_lines;
    limits->half_lines = limits->half_lines < fewest ? fewest : limits->half_lines;
    set_fifos(limits);
}
