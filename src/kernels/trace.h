/* A launch's record for the trace (docs/trace.md), where the comm has one. Thread 0 of block 0 writes it, by plain stores that
 * nobody waits for; nothing of it is loaded, for the record's place comes along with the epoch. One lane runs one launch at a
 * time, so nobody else writes there.
 *
 * Where there is no trace, this is tests of an argument: in the launches that latency is made of, one behind the first
 * sends, when there is nothing to do but to wait for peers, and the others at the end. So the arrival of these is noted when their
 * first data are on their way; others, which may send for long, note it before. On the host device a block may
 * be preempted between its sends and its note, and its peers be done earlier: there it is noted first always. */
#ifndef RONDO_KERNELS_TRACE_H
#define RONDO_KERNELS_TRACE_H

#include "kernels/mailbox.h"

RONDO_FN bool rondo_traces(const struct rondo_run *run)
{
    return run->lane->trace && rondo_thread() == 0 && rondo_block() == 0;
}

RONDO_FN struct rondo_trace_entry *rondo_trace_place(const struct rondo_run *run)
{
    return run->lane->trace + (run->traced & run->lane->trace_mask);
}

/* The launch has come. */
RONDO_FN void rondo_trace_begin(const struct rondo_run *run)
{
    if (rondo_traces(run) && !run->dead) {
        struct rondo_trace_entry *entry = rondo_trace_place(run);
        rondo_pair_store(&entry->arrival, rondo_clock_ns(), (run->traced + 1) | (uint64_t)run->epoch << 32);
        rondo_pair_store(&entry->graph, run->lane->graph | (uint64_t)run->lane->what << 32, 0);
    }
}

/* The thread has what it had to wait for first. */
RONDO_FN void rondo_trace_first(const struct rondo_run *run)
{
    if (rondo_traces(run) && !run->dead)
        rondo_wide_store(&rondo_trace_place(run)->first, rondo_clock_ns());
}

/* The block has done its part. Of a launch that was given up there is no record, and its place is the next one's; but there is none. */
RONDO_FN void rondo_trace_done(const struct rondo_run *run)
{
    if (rondo_traces(run) && !run->dead) {
        rondo_pair_store(&rondo_trace_place(run)->done, rondo_clock_ns(), run->traced + 1);
        rondo_word_store(&run->lane->channels[0].traced, run->traced + 1);
    }
}

#endif
