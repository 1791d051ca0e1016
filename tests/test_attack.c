/* Faults that an adversarial review found: each test failed before its fix. */
#include "support/mailbox.h"
#include "support/rig.h"

#include "comm/comm.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A broadcast of three steps whose last has lines for one block only: the other blocks of the root hear of no peer between
 * the first and the last token that they send it, and both lie in the same half. */
static int broadcasts_of_three_steps(struct rig *rig)
{
    const struct rondo_limits *limits = &rig->comm->limits;
    const size_t room = limits->half_lines / (2 * (limits->ranks - 1));
    const size_t stride = (size_t)limits->max_channels * limits->max_threads, step = room / stride * stride;
    const size_t bytes = (2 * step + 1) * limits->ranks * limits->line_bytes;
    char *buffer = rig->machine->alloc(bytes);
    for (int round = 0; round < 300; round++) {
        RIG_OK(rondoBcast(buffer, bytes, rondoInt8, round % rig->ranks, rig->comm, rig->stream));
        if (round % 20 == 0)
            rig->machine->stream_sync(rig->stream);
    }
    rig->machine->stream_sync(rig->stream);
    rondoResult_t error;
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "error %d", error);
    rig->machine->free(buffer);
    return mailboxes_check(rig);
}

Test(attack, a_broadcast_keeps_its_first_and_last_tokens_apart, .timeout = 120)
{
    setenv("RONDO_ALGO", "twoshot", 1);
    setenv("RONDO_BUFFER_KIB", "64", 1);
    setenv("RONDO_TIMEOUT_MS", "20000", 1);
    setenv("RONDO_MAX_CTAS", "4", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, broadcasts_of_three_steps), 0);
}
