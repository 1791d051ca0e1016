/* What a plan hands to the kernels: pure data, copied into the launch's arguments and never changed afterwards, so that
 * a captured launch replays as it is. Whatever changes from run to run (struct rondo_channel, the FIFOs' positions) lives in
 * device memory and is advanced by the kernels. */
#ifndef RONDO_KERNELS_WORK_H
#define RONDO_KERNELS_WORK_H

#include <stdint.h>

enum {
    RONDO_MAX_CHANNELS = 128,  /* thread blocks of a launch that run exchanges */
    RONDO_MAX_THREADS = 512,   /* threads of a block */
    RONDO_MAX_REGISTERS = 128, /* of a thread: all that a multiprocessor has, for that many threads */
    RONDO_LEAN_REGISTERS = 64, /* of a thread of a lean kernel, so that it leaves half of them */
    RONDO_LARGE_LAUNCH_THREADS =
        16384,               /* a launch of more in all is large, whatever the device: see kernels/launch.h */
    RONDO_ARG_PEERS = 8,     /* peers whose mailboxes are named in the arguments; beyond it a table in memory is read */
    RONDO_BATCH_WORKS = 200, /* most works of a launch: their numbers are bytes, and they leave room for transfers */
    RONDO_SMALL_BYTES = 1024,  /* arguments of a launch of transfers alone */
    RONDO_BATCH_BYTES = 4096,  /* arguments of a batch that every driver takes */
    RONDO_LARGE_BYTES = 32000, /* and of one that CUDA 12.1 and later take */
};

/* What a work does. The first three reduce. In all of them rank s may have a part of its send buffer for rank r, the flow
 * s -> r; see exchange.h. */
enum rondo_collective {
    RONDO_ALL_REDUCE,
    RONDO_REDUCE_SCATTER,
    RONDO_REDUCE,
    RONDO_ALL_GATHER,
    RONDO_ALL_TO_ALL,
    RONDO_BROADCAST,
    RONDO_COLLECTIVE_COUNT,
    RONDO_TRANSFERS = RONDO_COLLECTIVE_COUNT, /* in reports: sends and receives */
};

enum rondo_algo {
    RONDO_ONE_SHOT, /* everyone pushes to all whom it concerns; they reduce, or take */
    RONDO_TWO_SHOT, /* everyone pushes shards to their owners, who reduce, or take, and push the results to whom it concerns */
    RONDO_RING, /* it goes from rank to rank: ring.h */
    RONDO_ALGO_COUNT
};

/* One channel's words in a lane, in the rank's own device memory. Block c of a launch is the only one that uses words
 * congruent to c modulo the number of blocks, and it advances all of these: so every channel has the same epoch after every
 * launch, whatever number of channels the launch used. */
struct rondo_channel {
    uint32_t epoch; /* steps that the lane has run; its parity says which half of the mailbox is next. Wraps freely */
    uint32_t
        busy; /* rondo_mark of the launch that is running, once it has waited for long or has much to do; 0: none */
    uint32_t
        stop; /* not 0: the comm is gone or has failed; a kernel that sees it touches nothing else. Host, kernels */
    union {
        uint32_t
            traced; /* channel 0: launches of the lane that have left a record, see struct rondo_trace_entry. Wraps */
        uint32_t claim; /* channel 1: set by the block that writes the lane's report */
    };
};

/* What a launch leaves in its lane's ring where the comm traces: the n-th of the lane (from 0) is in place n modulo the ring's
 * size. One thread writes it, piece by piece, each in a store of 16 bytes; `number` is n + 1 in the first piece and the last, so
 * that a record that is not whole, or of two launches, shows. The times are the device's clock, ns: see docs/trace.md. */
struct rondo_trace_entry {
    uint64_t arrival; /* the launch has come to the op */
    uint32_t number;
    uint32_t epoch; /* of the lane, before the launch */
    uint32_t graph; /* rondo_lane_args.graph */
    uint32_t what;  /* rondo_lane_args.what */
    uint64_t first; /* the first thread has what it waits for first; 0: it waited for nothing */
    uint64_t done;  /* the first block has done its part */
    uint64_t ended; /* number again */
};

/* Why a kernel gave up. The host reads it from pinned memory. */
enum rondo_report_kind {
    RONDO_REPORT_NONE,
    RONDO_REPORT_TIMEOUT,   /* waited longer than timeout_ns for `peer` */
    RONDO_REPORT_ABORTED,   /* was told to while it waited for `peer` */
    RONDO_REPORT_OVERLAP,   /* another launch was running on this lane: one of capture `peer` */
    RONDO_REPORT_STOPPED,   /* launched (replayed) although the comm was gone or had failed */
    RONDO_REPORT_DIFFERENT, /* `peer` runs something else: see mine and theirs */
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
    uint32_t collective; /* enum rondo_collective, or RONDO_TRANSFERS */
    uint32_t graph;      /* rondo_lane_args.graph of the launch */
    uint64_t bytes;
    uint64_t mine, theirs; /* rondo_batch_head.signature */
};

struct rondo_posts;  /* kernels/post.h */
struct rondo_copies; /* kernels/copies.h */

/* Memory of users that all ranks of a comm have mapped is known by numbers, to which the host has the addresses; in device memory.
 * Behind it: where each rank's memory is for this one, a word of 64 bits for each number of each rank. */
enum { RONDO_EXPORTS_MAX = 512, RONDO_EXPORT_NONE = 0x7fff };

struct rondo_exports {
    uint32_t usable[RONDO_EXPORTS_MAX]; /* this rank's memory of that number can be reached by all peers */
    uint32_t ran; /* direct works that block 0 has run, and ends of messages on channel 0, for the log and for tests */
    uint32_t unused; /* what follows is a word of 64 bits */
};

/* A work's buffers, as places in such memory; RONDO_EXPORT_NONE: in none. */
struct rondo_export_args {
    uint64_t send_at, recv_at; /* below 2^48 */
    uint16_t send, recv;
};

/* What is the same for all launches of a comm on one lane. A mailbox for the lines from one rank to another lies where the path
 * between them has it: with the receiver (who then has one for all senders), with the sender, or with each of them, and a
 * progress thread copies from one to the other. */
struct rondo_lane_args {
    struct rondo_channel *channels; /* own, device memory */
    struct rondo_report *report;    /* own, pinned memory, as the device sees it */
    struct rondo_posts
        *posts;         /* own, device memory; NULL: nothing that this rank sends is copied by a progress thread */
    char *const *boxes; /* `to` of all ranks, then `from` of all, in device memory */
    struct rondo_exports *exports; /* own, device memory */
    struct rondo_copies *copies;   /* own, device memory; NULL: no copy engine moves anything between buffers */
    char *to[RONDO_ARG_PEERS];     /* mailbox that this rank fills for a rank, for the first ranks */
    char *from[RONDO_ARG_PEERS];   /* mailbox that a rank fills for this one */
    uint64_t timeout_ns;           /* longest wait for a peer; 0: for ever */
    uint64_t bulk_at;              /* bytes from a mailbox's beginning to its bulk halves */
    uint32_t half_lines;           /* lines of one half of the mailbox */
    uint32_t bulk_lines;           /* and of one bulk half */
    uint16_t rank, ranks;
    uint16_t graph;                  /* number of the comm's capture that the launch is of, for reports; 0: of none */
    uint16_t large;                  /* a launch of more threads is large: see launch.h */
    struct rondo_trace_entry *trace; /* own, device memory: the lane's ring; NULL: launches leave no records */
    uint32_t trace_mask;             /* entries of the ring less 1: they are a power of two */
    uint32_t what;                   /* by which the host knows what the launch is; 0 where there is no trace */
};

/* The same for its FIFOs; only launches that may have transfers carry it. */
struct rondo_fifo_args {
    uint32_t *positions;                          /* own, device memory: rondo_fifo_position */
    uint64_t fifos_at, credits_at, handshakes_at; /* bytes from the mailbox's beginning, the same on all ranks */
    uint32_t lines;                               /* of one FIFO: a power of two */
    uint32_t channels;                            /* FIFOs of a direction between two ranks */
};

/* One task's share of a launch. A work's lines in the mailbox are `line0 + slot * step_lines + i`, where a slot is one
 * sender's (two-shot: first the senders of shards, then the senders of results). Channels channel0 … channel0 + channels
 * - 1 run it; thread t of the c-th of them handles lines i with i % (channels * threads) == c * threads + t, on every
 * rank alike, which is what makes the flow control of large works a matter between two threads. */
struct rondo_work {
    const void *send;
    void *recv;
    uint64_t bytes;      /* of one flow: of the whole message, or of one rank's part of it */
    uint64_t span;       /* lines of that (one-shot) or of a shard of it (two-shot) */
    uint64_t scalar;     /* with `scaling`: what each rank multiplies its own input by */
    uint32_t line0;      /* first mailbox line, within a half */
    uint32_t step_lines; /* lines of the span that one step moves: a multiple of channels * threads */
    uint32_t steps;
    uint16_t channel0, channels;
    uint16_t root;
    uint8_t collective, algo, dtype, redop;
    uint8_t scaling;     /* enum rondo_scaling */
    uint8_t aligned : 1; /* everything that the work loads and stores allows whole lines. May differ between ranks */
    uint8_t words : 1;   /* or whole words of 4 bytes, and its bytes are such. May differ, too */
    uint8_t bulk : 1;    /* by the bulk protocol; the launch is the work's alone */
    uint8_t direct : 1;  /* by the direct one where that can be; the launch has a kernel of its own */
    uint8_t copied : 1;  /* and then by copy engines: copied.h */
};

enum rondo_scaling {
    RONDO_UNSCALED,
    RONDO_SCALED,    /* by the value in `scalar`'s first bytes, of the work's type */
    RONDO_SCALED_BY, /* by the value that lies at this address of the device when the op runs */
};

enum rondo_transfer_kind { RONDO_SEND, RONDO_RECV, RONDO_COPY };

/* One message to or from a peer, or a copy within the rank. */
struct rondo_transfer {
    void *buffer; /* a send's is only read */
    union {
        const void *from; /* of a copy */
        uint64_t at;      /* of a receive that may be direct: the buffer's place, below 2^48, in exported memory */
    };
    uint64_t bytes;
    uint64_t share;  /* lines on each FIFO channel: the c-th has lines c * share … of the message */
    uint8_t element; /* bytes of an element, to which the pointers are aligned */
    uint8_t aligned; /* they allow whole lines */
    uint8_t words;   /* or whole words of 4 bytes, at least */
    uint8_t
        direct; /* the message goes directly if its receiver offers so; by its size, so its ends agree. No copy is */
    uint8_t copied;  /* and then by copy engines */
    uint16_t number; /* of that memory; RONDO_EXPORT_NONE: in none */
};

/* Transfers first … end - 1 of the launch, which all have the same peer and direction. Block block0 + c runs what of them lies
 * on FIFO channel c. */
struct rondo_end {
    uint16_t first, end;
    uint16_t peer;
    uint16_t block0; /* counted from the first block of transfers */
    uint8_t kind, channels;
};

/* Arguments of a launch of one work. */
struct rondo_single_args {
    struct rondo_lane_args lane;
    struct rondo_work work;
    struct rondo_export_args exports; /* of a direct work */
};

/* Works first … last of a launch: a channel's. */
struct rondo_channel_works {
    uint8_t first, last;
};

/* Arguments of a batch: blocks 0 … exchange_blocks - 1 run works, the others ends. The tables lie behind the head, at these
 * distances from its beginning. */
struct rondo_batch_head {
    struct rondo_lane_args lane;
    struct rondo_fifo_args fifos;
    uint64_t
        signature; /* of what the launch's works are, to be compared with the peers'; 0: of nothing. plan/signature.h */
    uint32_t steps; /* of the works, by which the epoch advances: 1 unless there is only one work, 0 if there is none */
    uint16_t exchange_blocks;
    uint16_t channels_at; /* struct rondo_channel_works[exchange_blocks] */
    uint16_t works_at, transfers_at, ends_at;
    uint8_t tokens; /* some ranks hear from some others by nothing but tokens; see mailbox.h */
};

struct rondo_small_args {
    struct rondo_batch_head head;
    uint64_t area[(RONDO_SMALL_BYTES - sizeof(struct rondo_batch_head)) / 8];
};

struct rondo_batch_args {
    struct rondo_batch_head head;
    uint64_t area[(RONDO_BATCH_BYTES - sizeof(struct rondo_batch_head)) / 8];
};

struct rondo_large_args {
    struct rondo_batch_head head;
    uint64_t area[(RONDO_LARGE_BYTES - sizeof(struct rondo_batch_head)) / 8];
};

/* What a rank's kernel heard of a peer in the self-test of comm init; see selftest.h. */
enum rondo_selftest_finding {
    RONDO_SELFTEST_UNHEARD,
    RONDO_SELFTEST_HEARD,
    RONDO_SELFTEST_WRONG,    /* what came is not what was stored */
    RONDO_SELFTEST_UNTESTED, /* a kernel did not get to run; the kernel does not say it */
};

/* Pinned memory. Tests have numbers from 1 on: a kernel that its device ran late may come when the next test is under way, and is
 * to find that its own is over. */
struct rondo_selftest_record {
    uint32_t stop;      /* host: tests up to this one are to end */
    uint32_t begun;     /* kernel: this test's runs */
    uint32_t heard[64]; /* kernel: a finding for each rank but its own. As many as a comm may have */
};

struct rondo_selftest_args {
    struct rondo_lane_args lane;
    struct rondo_selftest_record *record;
    uint32_t number; /* of the test */
};

#ifdef __CUDACC__
#define RONDO_BOTH static __host__ __device__ inline
#else
#define RONDO_BOTH static inline
#endif

/* Rows of tokens, see enum rondo_token_kind; kinds of handshakes, see enum rondo_handshake_kind. */
enum { RONDO_SELFTEST_ROW = 3, RONDO_TOKEN_ROWS = 14, RONDO_HANDSHAKE_KINDS = 2 };

/* A lane's part of the mailbox, in bytes from its beginning: two halves of lines and an escape byte for each line; token
 * lines, RONDO_TOKEN_ROWS for each sender of a line for each of a launch's blocks; FIFOs and an escape byte for each of their lines; credits;
 * handshakes, lines of each kind for each sender of a line for each FIFO channel; two bulk halves. */
RONDO_BOTH uint64_t rondo_mailbox_escapes_at(uint32_t half_lines, unsigned line_bytes)
{
    return 2ull * half_lines * line_bytes;
}
RONDO_BOTH uint64_t rondo_mailbox_tokens_at(uint32_t half_lines, unsigned line_bytes)
{
    return (2ull * half_lines * (line_bytes + 1) + 255) / 256 * 256;
}
RONDO_BOTH uint64_t rondo_mailbox_fifos_at(uint32_t half_lines, unsigned line_bytes, unsigned ranks)
{
    return rondo_mailbox_tokens_at(half_lines, line_bytes) +
           (uint64_t)RONDO_TOKEN_ROWS * RONDO_MAX_CHANNELS * (ranks - 1) * line_bytes;
}
/* `lines`: of all FIFOs of a lane in one rank's mailbox. */
RONDO_BOTH uint64_t rondo_mailbox_credits_at(uint64_t fifos_at, uint64_t lines, unsigned line_bytes)
{
    return (fifos_at + lines * (line_bytes + 1) + 255) / 256 * 256;
}
RONDO_BOTH uint64_t rondo_mailbox_handshakes_at(uint64_t credits_at, unsigned ranks, unsigned fifo_channels)
{
    return (credits_at + 4ull * ranks * fifo_channels + 255) / 256 * 256;
}
/* `lines`: of all handshakes of a lane in one rank's mailbox. */
RONDO_BOTH uint64_t rondo_mailbox_bulk_at(uint64_t handshakes_at, uint64_t lines, unsigned line_bytes)
{
    return (handshakes_at + lines * line_bytes + 4095) / 4096 * 4096;
}
RONDO_BOTH uint64_t rondo_mailbox_bytes(uint64_t bulk_at, uint32_t bulk_lines, unsigned line_bytes)
{
    return (bulk_at + 2ull * bulk_lines * line_bytes + 4095) / 4096 * 4096;
}

/* Lines of a message on each FIFO channel: a function of nothing but the message's size and the comm, so that sender and
 * receiver agree. */
enum { RONDO_FIFO_QUOTA = 128 }; /* lines that a channel is worth */

RONDO_BOTH uint64_t rondo_fifo_share(uint64_t bytes, unsigned line_bytes, unsigned channels)
{
    const uint64_t lines = (bytes + line_bytes - 1) / line_bytes;
    uint64_t used = lines / RONDO_FIFO_QUOTA;
    used = used > channels ? channels : used ? used : 1;
    return (lines + used - 1) / used;
}

/* An empty line is this word over and over: a line's state before anything was written and after it was read. */
#define RONDO_EMPTY_WORD 0xffb5c9e6u

#endif
