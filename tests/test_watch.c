#include "comm/watch.h"

#include "comm/bootstrap.h"
#include "common/clock.h"
#include "common/result.h"
#include "support/forks.h"
#include "support/rank_group.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 20000 };

/* What a rank's client saw. All atomic: written by the watch thread. */
struct seen {
    int events[GROUP_RANKS]; /* per peer */
    enum rondo_watch_event last[GROUP_RANKS];
    char text[GROUP_RANKS][RONDO_WATCH_TEXT_BYTES];
    int total, ticks;
    struct rondo_watch *tell; /* abort on this at the first event, if set */
};

static void on_event(void *context, int rank, enum rondo_watch_event event, const char *text)
{
    struct seen *seen = context;
    seen->last[rank] = event;
    snprintf(seen->text[rank], sizeof(seen->text[rank]), "%s", text);
    __atomic_add_fetch(&seen->events[rank], 1, __ATOMIC_RELEASE);
    struct rondo_watch *tell = __atomic_load_n(&seen->tell, __ATOMIC_ACQUIRE);
    if (tell)
        rondo_watch_tell(tell, RONDO_WATCH_ABORTED, "told from a callback");
    __atomic_add_fetch(&seen->total, 1, __ATOMIC_RELEASE);
}

static void on_tick(void *context)
{
    __atomic_add_fetch(&((struct seen *)context)->ticks, 1, __ATOMIC_RELEASE);
}

struct side {
    struct rondo_bootstrap *bootstrap;
    struct rondo_watch *watch;
    struct seen seen;
};

static rondoResult_t join(struct group *group, int rank, struct side *side)
{
    memset(side, 0, sizeof(*side));
    return rondo_bootstrap_join(&group->id, rank, group->nranks, LONG_MS, NULL, &side->bootstrap);
}

static rondoResult_t watch(struct group *group, int rank, struct side *side)
{
    struct rondo_watch_client client = {.context = &side->seen, .on_event = on_event, .on_tick = on_tick};
    return rondo_watch_add(side->bootstrap, rank, group->nranks, &client, &side->watch);
}

static rondoResult_t enter(struct group *group, int rank, struct side *side)
{
    RONDO_TRY(join(group, rank, side));
    return watch(group, rank, side);
}

static void leave(struct side *side)
{
    rondo_watch_remove(side->watch);
    rondo_bootstrap_close(side->bootstrap);
}

static rondoResult_t expect_event(struct side *side, int peer, enum rondo_watch_event event, const char *text)
{
    group_await(&side->seen.events[peer], 1);
    if (__atomic_load_n(&side->seen.events[peer], __ATOMIC_ACQUIRE) != 1)
        return rondo_fail(rondoInternalError, "%d events of rank %d", side->seen.events[peer], peer);
    if (side->seen.last[peer] != event || !strstr(side->seen.text[peer], text))
        return rondo_fail(rondoInternalError, "rank %d: event %d, \"%s\"", peer, side->seen.last[peer],
                          side->seen.text[peer]);
    return rondoSuccess;
}

/* Ranks meet here, in any process. */
static void meet(struct group *group, int which)
{
    int *count = (int *)(void *)group->scratch + which;
    __atomic_add_fetch(count, 1, __ATOMIC_ACQ_REL);
    group_await(count, group->nranks);
}

static void run(int nranks, enum layout layout, rank_function function)
{
    struct group *group = group_run(nranks, layout, function, NULL);
    for (int rank = 0; rank < nranks; rank++)
        cr_expect(group->outcomes[rank].result == rondoSuccess, "layout %d, rank %d: %d %s", layout, rank,
                  group->outcomes[rank].result, group->outcomes[rank].text);
    cr_expect(settled_threads(0) == 0);
    group_free(group);
}

static void run_all_layouts(int nranks, rank_function function)
{
    for (enum layout layout = THREADS; layout <= MIXED; layout++)
        run(nranks, layout, function);
}

/* ---- letters ---- */

enum { LETTERS = 40 };

/* What came of one peer: letters in their order, and an end. */
struct mail {
    struct seen seen; /* on_event's */
    int letters, wrong, ended;
};

static void on_post(void *context, int rank, const void *bytes, size_t count)
{
    struct mail *mail = context;
    unsigned char letter[RONDO_WATCH_TEXT_BYTES];
    (void)rank;
    if (!bytes) {
        __atomic_add_fetch(&mail->ended, 1, __ATOMIC_RELEASE);
        return;
    }
    memset(letter, mail->letters, sizeof(letter));
    mail->wrong += count != 1 + 12 * (size_t)mail->letters || memcmp(bytes, letter, count) != 0;
    __atomic_add_fetch(&mail->letters, 1, __ATOMIC_RELEASE);
}

/* Letters of all sizes; in the midst of them rank 0 aborts, after them it goes. */
static rondoResult_t send_letters(struct group *group, int rank)
{
    struct side side;
    struct mail mail;
    unsigned char letter[RONDO_WATCH_TEXT_BYTES];
    memset(&mail, 0, sizeof(mail));
    RONDO_TRY(join(group, rank, &side));
    struct rondo_watch_client client = {.context = &mail, .on_event = on_event, .on_tick = on_tick, .on_post = on_post};
    RONDO_TRY(rondo_watch_add(side.bootstrap, rank, group->nranks, &client, &side.watch));
    for (int i = 0; i < LETTERS; i++) {
        memset(letter, i, sizeof(letter));
        RONDO_TRY(rondo_watch_post(side.watch, 1 - rank, letter, 1 + 12 * (size_t)i));
        if (i == LETTERS / 2 && rank == 0)
            rondo_watch_tell(side.watch, RONDO_WATCH_ABORTED, "between letters");
    }
    group_await(&mail.letters, LETTERS);
    meet(group, 0);
    if (rank == 0)
        leave(&side);
    rondoResult_t result = rondoSuccess;
    if (rank == 1) {
        group_await(&mail.ended, 1);
        usleep(60000); /* neither end comes twice */
        if (__atomic_load_n(&mail.ended, __ATOMIC_ACQUIRE) != 1)
            result = rondo_fail(rondoInternalError, "%d ends", mail.ended);
        else if (__atomic_load_n(&mail.seen.total, __ATOMIC_ACQUIRE) != 1 || mail.seen.last[0] != RONDO_WATCH_ABORTED)
            result = rondo_fail(rondoInternalError, "%d events, the last %d", mail.seen.total, mail.seen.last[0]);
        leave(&side);
    }
    if (mail.letters != LETTERS || mail.wrong)
        result = rondo_fail(rondoInternalError, "%d letters, %d wrong", mail.letters, mail.wrong);
    return result;
}

Test(watch, brings_letters_in_order_also_of_a_rank_that_has_aborted)
{
    run_all_layouts(2, send_letters);
}

/* Rank 0 leaves, rank 1 aborts, rank 2 closes without a word; each hears the two others. Nobody closes early. */
static rondoResult_t part_in_different_ways(struct group *group, int rank)
{
    static const enum rondo_watch_event events[] = {RONDO_WATCH_LEFT, RONDO_WATCH_ABORTED, RONDO_WATCH_DIED};
    static const char *texts[] = {"", "out of luck", "without a word"};
    struct side side;
    RONDO_TRY(enter(group, rank, &side));
    meet(group, 0);
    if (rank < 2)
        rondo_watch_tell(side.watch, events[rank], rank == 1 ? texts[1] : NULL);
    if (rank == 1)
        rondo_watch_tell(side.watch, RONDO_WATCH_LEFT, NULL); /* too late */
    rondoResult_t result = rondoSuccess;
    for (int peer = 0; peer < 2 && result == rondoSuccess; peer++) {
        if (peer != rank)
            result = expect_event(&side, peer, events[peer], texts[peer]);
    }
    meet(group, 1);
    if (rank == 2) {
        leave(&side);
        meet(group, 2);
        return result;
    }
    if (result == rondoSuccess)
        result = expect_event(&side, 2, events[2], texts[2]);
    meet(group, 2);
    usleep(60000); /* no second event comes */
    if (result == rondoSuccess && __atomic_load_n(&side.seen.total, __ATOMIC_ACQUIRE) != 2)
        result = rondo_fail(rondoInternalError, "%d events", side.seen.total);
    leave(&side);
    return result;
}

Test(watch, tells_leaving_aborting_and_dying_apart)
{
    run_all_layouts(3, part_in_different_ways);
}

/* Rank 0 says its word and closes before rank 1 begins to watch. */
static rondoResult_t leave_before_the_other_watches(struct group *group, int rank)
{
    struct side side;
    RONDO_TRY(join(group, rank, &side));
    if (rank == 0) {
        RONDO_TRY(watch(group, rank, &side));
        rondo_watch_tell(side.watch, RONDO_WATCH_LEFT, NULL);
        leave(&side);
        meet(group, 0);
        return rondoSuccess;
    }
    meet(group, 0);
    usleep(20000);
    RONDO_TRY(watch(group, rank, &side));
    rondoResult_t result = expect_event(&side, 0, RONDO_WATCH_LEFT, "");
    leave(&side);
    return result;
}

Test(watch, hears_who_left_before_it_began)
{
    run_all_layouts(2, leave_before_the_other_watches);
}

static rondoResult_t send_a_long_text(struct group *group, int rank)
{
    char text[2000], expected[RONDO_WATCH_TEXT_BYTES];
    struct side side;
    memset(text, 'y', sizeof(text));
    memset(expected, 'y', sizeof(expected));
    text[sizeof(text) - 1] = expected[sizeof(expected) - 1] = 0;
    RONDO_TRY(enter(group, rank, &side));
    if (rank == 0)
        rondo_watch_tell(side.watch, RONDO_WATCH_ABORTED, text);
    rondoResult_t result = rank == 0 ? rondoSuccess : expect_event(&side, 0, RONDO_WATCH_ABORTED, expected);
    meet(group, 0);
    leave(&side);
    return result;
}

Test(watch, cuts_a_long_text)
{
    run_all_layouts(2, send_a_long_text);
}

/* Rank 1 answers rank 0's abort from its callback; rank 2 hears both. */
static rondoResult_t tell_from_a_callback(struct group *group, int rank)
{
    struct side side;
    RONDO_TRY(join(group, rank, &side));
    meet(group, 0);
    RONDO_TRY(watch(group, rank, &side));
    if (rank == 1)
        __atomic_store_n(&side.seen.tell, side.watch, __ATOMIC_RELEASE); /* before anybody speaks */
    meet(group, 1);
    if (rank == 0)
        rondo_watch_tell(side.watch, RONDO_WATCH_ABORTED, "first");
    rondoResult_t result = rondoSuccess;
    if (rank != 0)
        result = expect_event(&side, 0, RONDO_WATCH_ABORTED, "first");
    if (rank != 1 && result == rondoSuccess)
        result = expect_event(&side, 1, RONDO_WATCH_ABORTED, "told from a callback");
    meet(group, 2);
    leave(&side);
    return result;
}

Test(watch, can_tell_from_a_callback)
{
    run_all_layouts(3, tell_from_a_callback);
}

static rondoResult_t count_ticks(struct group *group, int rank)
{
    struct side side;
    const uint64_t start = rondo_now_ns();
    RONDO_TRY(enter(group, rank, &side));
    group_await(&side.seen.ticks, 3);
    usleep(100000);
    int ticks = __atomic_load_n(&side.seen.ticks, __ATOMIC_ACQUIRE);
    const double ms = (double)(rondo_now_ns() - start) / 1e6;
    meet(group, 0);
    leave(&side);
    return ticks >= 3 && ticks <= 3 + ms / 10 ? rondoSuccess
                                              : rondo_fail(rondoInternalError, "%d ticks in %.0f ms", ticks, ms);
}

Test(watch, ticks)
{
    run(1, THREADS, count_ticks);
    run(3, MIXED, count_ticks);
}

/* ---- death: rank 1 is killed, with or without a child that keeps its sockets open ---- */

static rondoResult_t watch_a_death(struct group *group, int rank, int with_child)
{
    struct side side;
    int *dead = (int *)(void *)group->scratch + 8;
    RONDO_TRY(enter(group, rank, &side));
    meet(group, 0);
    if (rank == 1) {
        if (with_child && fork() == 0) {
            group_await(&group->go, 2);
            _exit(0);
        }
        __atomic_store_n(dead, 1, __ATOMIC_RELEASE);
        kill(getpid(), SIGKILL);
    }
    group_await(dead, 1);
    uint64_t start = rondo_now_ns();
    rondoResult_t result = expect_event(&side, 1, RONDO_WATCH_DIED, "process");
    double ms = (double)(rondo_now_ns() - start) / 1e6;
    if (result == rondoSuccess && ms > 5000) /* all the others wait for 10 s */
        result = rondo_fail(rondoInternalError, "it took %.0f ms", ms);
    int *survivors = (int *)(void *)group->scratch + 9;
    __atomic_add_fetch(survivors, 1, __ATOMIC_ACQ_REL);
    group_await(survivors, group->nranks - 1);
    leave(&side);
    return result;
}

static rondoResult_t watch_a_plain_death(struct group *group, int rank)
{
    return watch_a_death(group, rank, 0);
}

static rondoResult_t watch_a_death_with_a_child(struct group *group, int rank)
{
    return watch_a_death(group, rank, 1);
}

static void run_death(rank_function function)
{
    for (enum layout layout = PROCESSES; layout <= MIXED; layout++) {
        struct group *group = group_run(3, layout, function, NULL);
        for (int rank = 0; rank < 3; rank += 2)
            cr_expect(group->outcomes[rank].result == rondoSuccess, "layout %d, rank %d: %s", layout, rank,
                      group->outcomes[rank].text);
        __atomic_store_n(&group->go, 2, __ATOMIC_RELEASE);
        usleep(20000); /* for the child to see it */
        group_free(group);
    }
}

Test(watch, notices_a_killed_process)
{
    run_death(watch_a_plain_death);
}

Test(watch, notices_a_killed_process_whose_child_keeps_its_sockets)
{
    run_death(watch_a_death_with_a_child);
}

/* ---- the thread's life ---- */

static rondoResult_t come_and_go(struct group *group, int rank)
{
    for (int i = 0; i < 50; i++) {
        struct side side;
        if (i == 0) {
            RONDO_TRY(join(group, rank, &side));
        } else {
            /* A comm of its own, whose watch starts and ends beside those of other threads. */
            rondoUniqueId id;
            memset(&side, 0, sizeof(side));
            RONDO_TRY(rondo_bootstrap_id(&id));
            RONDO_TRY(rondo_bootstrap_join(&id, 0, 1, LONG_MS, NULL, &side.bootstrap));
        }
        struct rondo_watch_client client = {.context = &side.seen, .on_event = on_event, .on_tick = on_tick};
        RONDO_TRY(rondo_watch_add(side.bootstrap, i == 0 ? rank : 0, i == 0 ? group->nranks : 1, &client, &side.watch));
        if (i % 10 == 3)
            usleep(3000);
        rondo_watch_tell(side.watch, RONDO_WATCH_LEFT, NULL);
        leave(&side);
    }
    return rondoSuccess;
}

Test(watch, leaves_no_thread_and_no_descriptor)
{
    run(4, THREADS, come_and_go); /* what is made once is made now */
    int fds = count_fds();
    run(4, THREADS, come_and_go);
    cr_expect(count_fds() == fds, "%d descriptors, %d before", count_fds(), fds);
}

static int has_run; /* by the watch thread and the test, atomic */

static void slow_tick(void *context)
{
    int *inside = context;
    __atomic_store_n(inside, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&has_run, 1, __ATOMIC_SEQ_CST);
    usleep(100000);
    __atomic_store_n(inside, 0, __ATOMIC_SEQ_CST);
}

static rondoResult_t remove_during_a_callback(struct group *group, int rank)
{
    int inside = 0;
    struct side side;
    RONDO_TRY(join(group, rank, &side));
    struct rondo_watch_client client = {.context = &inside, .on_event = on_event, .on_tick = slow_tick};
    RONDO_TRY(rondo_watch_add(side.bootstrap, rank, group->nranks, &client, &side.watch));
    group_await(&has_run, 1);
    uint64_t start = rondo_now_ns();
    rondo_watch_remove(side.watch);
    if (rondo_now_ns() - start > 5000000000) /* one callback, not many */
        return rondo_fail(rondoInternalError, "removing took long");
    int still = __atomic_load_n(&inside, __ATOMIC_SEQ_CST);
    rondo_bootstrap_close(side.bootstrap);
    return still ? rondo_fail(rondoInternalError, "removed under a callback") : rondoSuccess;
}

Test(watch, removing_waits_for_a_callback)
{
    run(1, THREADS, remove_during_a_callback);
}

/* A forked child removes the watch that it inherited and uses one of its own; the parent's peers hear nothing. */
static rondoResult_t fork_while_watching(struct group *group, int rank)
{
    struct side side;
    RONDO_TRY(enter(group, rank, &side));
    meet(group, 0);
    rondoResult_t result = rondoSuccess;
    if (rank == 0) {
        pid_t child = fork();
        if (child == 0) {
            struct group own = {.nranks = 1};
            struct side fresh;
            rondo_watch_tell(side.watch, RONDO_WATCH_LEFT, NULL);
            leave(&side);
            if (rondo_bootstrap_id(&own.id) != rondoSuccess || enter(&own, 0, &fresh) != rondoSuccess)
                _exit(1);
            group_await(&fresh.seen.ticks, 1);
            int ticks = __atomic_load_n(&fresh.seen.ticks, __ATOMIC_ACQUIRE);
            leave(&fresh);
            _exit(ticks >= 1 && settled_threads(0) == 0 ? 0 : 2);
        }
        int status;
        waitpid(child, &status, 0);
        if (status != 0)
            result = rondo_fail(rondoInternalError, "the child ended with %x", status);
    }
    meet(group, 1);
    usleep(50000);
    if (result == rondoSuccess && __atomic_load_n(&side.seen.total, __ATOMIC_ACQUIRE) != 0)
        result = rondo_fail(rondoInternalError, "the child spoke for its parent");
    meet(group, 2);
    leave(&side);
    return result;
}

Test(watch, a_forked_child_has_a_watch_of_its_own)
{
    if (!FORKED_CHILDREN_WORK)
        cr_skip_test("the heap of a sanitizer does not survive a fork");
    run(2, PROCESSES, fork_while_watching);
}
