/* What a plan hands to the kernels: pure data, copied into the launch's arguments and never changed afterwards, so that
 * a captured launch replays as it is. Whatever changes from run to run lives in struct rondo_channel, in device memory,
 * and is advanced by the kernels. */
#ifndef RONDO_KERNELS_WORK_H
#define RONDO_KERNELS_WORK_H

#include <stdint.h>

enum {
    RONDO_MAX_CHANNELS = 128, /* thread blocks of a launch */
    RONDO_MAX_THREADS = 512,  /* threads of a block */
    RONDO_ARG_PEERS = 8,    /* peers whose mailboxes are named in the arguments; beyond it a table in memory is read */
    RONDO_BATCH_WORKS = 60, /* works of one launch: as many as fit into 4 KiB of kernel arguments */
};

enum rondo_algo {
    RONDO_ONE_SHOT, /* everyone pushes all to all and reduces all */
    RONDO_TWO_SHOT, /* everyone pushes shards to their owners, who reduce and push the results to all */
    RONDO_ALGO_COUNT
};

/* One channel's words in a lane, in the rank's own device memory. Block c of a launch is the only one that uses words
 * congruent to c modulo the number of blocks, and it advances all of these: so every channel has the same epoch after every
 * launch, whatever number of channels the launch used. */
struct rondo_channel {
    uint32_t epoch; /* steps that the lane has run; its parity says which half of the mailbox is next. Wraps freely */
    uint32_t busy;  /* where the block runs that is running, once it has waited for long or has much to do; 0: none */
    uint32_t
        stop; /* not 0: the comm is gone or has failed; a kernel that sees it touches nothing else. Host, kernels */
    uint32_t claim; /* channel 0 only: set by the block that writes the lane's report */
};

/* Why a kernel gave up. The host reads it from pinned memory. */
enum rondo_report_kind {
    RONDO_REPORT_NONE,
    RONDO_REPORT_TIMEOUT, /* waited longer than timeout_ns for `peer` */
    RONDO_REPORT_ABORTED, /* was told to while it waited for `peer` */
    RONDO_REPORT_OVERLAP, /* another launch was running on this lane */
    RONDO_REPORT_STOPPED, /* launched (replayed) although the comm was gone or had failed */
};

/* Pinned host memory, one per lane: written by kernels but for `abort`. The fields after `kind` are valid once it is
 * not RONDO_REPORT_NONE. */
struct rondo_report {
    uint32_t abort; /* host: end all waits */
    uint32_t kind;
    uint32_t peer;
    uint32_t channel;
    uint32_t epoch;
    uint32_t dtype, redop, algo;
    uint64_t bytes;
};

/* What is the same for all launches of a comm on one lane. */
struct rondo_lane_args {
    struct rondo_channel *channels; /* own, device memory */
    struct rondo_report *report;    /* own, pinned memory, as the device sees it */
    char *mailbox;                  /* own: peers write into it */
    char *const *peers;             /* all ranks' mailboxes as this device sees them, in device memory */
    char *peer[RONDO_ARG_PEERS];    /* the same for the first ranks */
    uint64_t timeout_ns;            /* longest wait for a peer; 0: for ever */
    uint32_t half_lines;            /* lines of one half of the mailbox */
    uint16_t rank, ranks;
};

/* One task's share of a launch. A work's lines in the mailbox are `line0 + slot * step_lines + i`, where a slot is one
 * sender's (two-shot: first the senders of shards, then the senders of results). Channels channel0 … channel0 + channels
 * - 1 run it; thread t of the c-th of them handles lines i with i % (channels * threads) == c * threads + t, on every
 * rank alike, which is what makes the flow control of large works a matter between two threads. */
struct rondo_work {
    const void *send;
    void *recv;
    uint64_t bytes;      /* payload */
    uint64_t span;       /* lines of the payload (one-shot) or of a shard (two-shot) */
    uint32_t line0;      /* first mailbox line, within a half */
    uint32_t step_lines; /* lines of the span that one step moves: a multiple of channels * threads */
    uint32_t steps;
    uint16_t channel0, channels;
    uint8_t algo, dtype, redop;
    uint8_t aligned; /* both pointers allow whole-line loads and stores. May differ between ranks */
};

/* Arguments of a launch of one work, and of a batch. */
struct rondo_single_args {
    struct rondo_lane_args lane;
    struct rondo_work work;
};

struct rondo_batch_args {
    struct rondo_lane_args lane;
    uint8_t first[RONDO_MAX_CHANNELS]; /* channel c runs works first[c] … last[c] */
    uint8_t last[RONDO_MAX_CHANNELS];
    struct rondo_work works[RONDO_BATCH_WORKS];
};

/* Mailbox layout, in lines of `line_bytes`: two halves of half_lines lines, then one escape byte for each line. */
static inline uint64_t rondo_mailbox_bytes(uint32_t half_lines, unsigned line_bytes)
{
    return 2ull * half_lines * line_bytes + 2ull * half_lines;
}

/* An empty line is this word over and over: a line's state before anything was written and after it was read. */
#define RONDO_EMPTY_WORD 0xffb5c9e6u

#endif
