/* The examples as a user runs them: on the host device, and on GPUs where there are two. */
#include "support/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 20]; /* what the last run printed, both streams */

static int run(const char *device, const char *name, int ranks)
{
    char here[4096], command[8192];
    snprintf(command, sizeof command, "RONDO_DEVICE=%s timeout 300 '%s/example-%s' %d 2>&1", device,
             program_beside("", here, sizeof here), name, ranks);
    return program_run(command, text, sizeof text);
}

/* Every one of these must be in what was printed. */
static void runs(const char *name, const char *const *said)
{
    static const int ranks[] = {1, 2, 3};
#ifdef RONDO_WITH_CUDA
    const int gpus = access("/dev/nvidia1", F_OK) == 0;
#else
    const int gpus = 0;
#endif
    for (int cuda = 0; cuda <= gpus; cuda++)
        for (int i = 0; i < 3 - cuda; i++) {
            cr_assert_eq(run(cuda ? "cuda" : "host", name, ranks[i]), 0, "%s on %d ranks:\n%s", name, ranks[i], text);
            cr_expect(strstr(text, "\nall results are right\n"), "%s", text);
            for (int s = 0; said[s]; s++)
                cr_expect(strstr(text, said[s]), "no \"%s\" in\n%s", said[s], text);
        }
}

Test(examples, decode_loop_writes_texts_by_one_launch_each)
{
    runs("decode_loop",
         (const char *[]){"10 kernels of Rondo's with 10 ops", "by one launch per text", "tokens are the same", NULL});
}

Test(examples, train_step_reduces_buckets_beside_the_backward_pass)
{
    runs("train_step",
         (const char *[]){"8 kernels of Rondo's with 8 ops", "all_reduce avg 65536 float32", "by replays", NULL});
}

Test(examples, batched_group_is_one_launch)
{
    runs("batched_group", (const char *[]){"1 kernel of Rondo's with 64 ops", ", 64 times\n", "a plan", NULL});
}

Test(examples, refuse_what_is_no_number_of_ranks)
{
    cr_expect_eq(run("host", "batched_group", 0), 1);
    cr_expect(strstr(text, "usage: "), "%s", text);
}
