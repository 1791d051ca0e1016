/* rondo-doctor's kernel against partners that do what broken links do. */
#include "doctor/pingpong_body.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

enum { ROUNDS = 8, LITMUS = 4 };

struct table {
    struct pingpong_box boxes[2];
    struct pingpong_report reports[2];
    struct pingpong_args args[2];
};

static struct table table;

static void lay(uint64_t limit_ns)
{
    memset(&table, 0, sizeof table);
    for (uint32_t role = 0; role < 2; role++)
        table.args[role] = (struct pingpong_args){
            .mine = &table.boxes[role],
            .theirs = &table.boxes[1 - role],
            .report = &table.reports[role],
            .limit_ns = limit_ns,
            .role = role,
            .rounds = ROUNDS,
            .litmus = LITMUS,
        };
}

static void *play(void *args)
{
    pingpong_body(args);
    return NULL;
}

/* Runs the kernel as role 1 beside a partner that answers as `partner` does. */
static void play_with(void (*partner)(void))
{
    pthread_t thread;
    table.reports[1].go = 1;
    cr_assert_eq(pthread_create(&thread, NULL, play, &table.args[1]), 0);
    partner();
    pthread_join(thread, NULL);
}

static void honest(void)
{
    table.reports[0].go = 1;
    pingpong_body(&table.args[0]);
}

Test(pingpong, plays_all_rounds_with_an_honest_partner_and_takes_the_time)
{
    lay(10000000000u);
    play_with(honest);
    for (int role = 0; role < 2; role++) {
        cr_expect_eq(table.reports[role].rounds, ROUNDS);
        cr_expect_eq(table.reports[role].wrong, 0);
        cr_expect_eq(table.reports[role].started, 1);
        cr_expect(table.reports[role].ns[0] || table.reports[role].ns[1]);
    }
}

static void flag_before_payload(void)
{
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        if (round != 2) /* the payload of this one is still on its way */
            for (uint32_t i = 0; i < PINGPONG_WORDS; i++)
                rondo_word_store(&table.boxes[1].payload[i], pingpong_word(0, round, i));
        rondo_word_store(&table.boxes[1].flag, round);
        if (!pingpong_await(&table.boxes[0].flag, round, 10000000000u))
            return;
    }
}

Test(pingpong, counts_the_words_that_come_behind_their_flag)
{
    lay(10000000000u);
    play_with(flag_before_payload);
    cr_expect_eq(table.reports[1].rounds, ROUNDS);
    cr_expect_eq(table.reports[1].wrong, PINGPONG_WORDS);
}

static void one_round_then_nothing(void)
{
    for (uint32_t i = 0; i < PINGPONG_WORDS; i++)
        rondo_word_store(&table.boxes[1].payload[i], pingpong_word(0, 1, i));
    rondo_word_store(&table.boxes[1].flag, 1);
}

Test(pingpong, ends_when_a_store_does_not_become_visible)
{
    lay(50000000);
    play_with(one_round_then_nothing);
    cr_expect_eq(table.reports[1].rounds, 1);
    cr_expect_eq(table.reports[1].wrong, 0);
}

Test(pingpong, leaves_when_it_is_never_told_to_go)
{
    lay(50000000);
    pingpong_body(&table.args[1]);
    cr_expect_eq(table.reports[1].started, PINGPONG_LEFT);
    cr_expect_eq(table.reports[1].rounds, 0);
}
