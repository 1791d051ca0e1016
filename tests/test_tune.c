/* Tables of thresholds: how they are read, that comms follow them, and that ranks with different ones are told so. */
#include "support/rig.h"

#include "comm/comm.h"
#include "comm/tune.h"
#include "common/arena.h"
#include "common/result.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file with this text; its path is the caller's buffer. */
static void write_file(char *path, const char *text)
{
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

struct loaded {
    rondoResult_t result;
    struct rondo_arena *arena;
    struct rondo_tune *tune;
};

static struct loaded load(const char *text)
{
    char path[] = "/tmp/rondo-tune-XXXXXX";
    struct loaded loaded = {rondoSuccess, NULL, NULL};
    write_file(path, text);
    cr_assert_eq(rondo_arena_create(&loaded.arena), rondoSuccess);
    loaded.result = rondo_tune_load(path, loaded.arena, &loaded.tune);
    unlink(path);
    return loaded;
}

static uint64_t hash_of(const char *text)
{
    struct loaded loaded = load(text);
    cr_assert_eq(loaded.result, rondoSuccess, "%s: %s", text, rondo_last_error());
    const uint64_t hash = rondo_tune_hash(loaded.tune);
    rondo_arena_destroy(loaded.arena);
    return hash;
}

#define HEAD "rondo-tune 1\n"

Test(tune, reads_thresholds_and_shapes)
{
    struct rondo_shape_rule shapes[RONDO_SHAPE_RULES];
    uint64_t from = 77;
    struct loaded loaded = load("# a table\n\n" HEAD "all_reduce 4 two-shot 280001 # a comment\n"
                                "  all_gather\t8 bulk never\r\nbroadcast 64 direct 3M\nreduce 4 ring 5K\n"
                                "all_reduce 4 shape 0 threads 256 channels any\n"
                                "all_reduce 4 shape 64K threads any channels 16\n"
                                "all_reduce 2 shape 1G threads 32 channels 128");
    cr_assert_eq(loaded.result, rondoSuccess, "%s", rondo_last_error());
    cr_expect(rondo_tune_find(loaded.tune, 4, RONDO_ALL_REDUCE, RONDO_TUNE_TWO_SHOT, &from) && from == 280001);
    cr_expect(rondo_tune_find(loaded.tune, 8, RONDO_ALL_GATHER, RONDO_TUNE_BULK, &from) && from == UINT64_MAX);
    cr_expect(rondo_tune_find(loaded.tune, 64, RONDO_BROADCAST, RONDO_TUNE_DIRECT, &from) && from == 3u << 20);
    cr_expect(rondo_tune_find(loaded.tune, 4, RONDO_REDUCE, RONDO_TUNE_RING, &from) && from == 5u << 10);
    cr_expect(!rondo_tune_find(loaded.tune, 2, RONDO_ALL_REDUCE, RONDO_TUNE_TWO_SHOT, &from));
    cr_expect(!rondo_tune_find(NULL, 4, RONDO_ALL_REDUCE, RONDO_TUNE_TWO_SHOT, &from));
    cr_assert_eq(rondo_tune_shapes(loaded.tune, 4, RONDO_ALL_REDUCE, shapes), 2);
    cr_expect(shapes[0].from == 0 && shapes[0].threads == 256 && shapes[0].channels == 0);
    cr_expect(shapes[1].from == 64 << 10 && shapes[1].threads == 0 && shapes[1].channels == 16);
    cr_assert_eq(rondo_tune_shapes(loaded.tune, 2, RONDO_ALL_REDUCE, shapes), 1);
    cr_expect(shapes[0].from == 1 << 30 && shapes[0].threads == 32 && shapes[0].channels == 128);
    rondo_arena_destroy(loaded.arena);
}

Test(tune, hashes_what_a_table_says_and_not_how)
{
    const uint64_t one = hash_of(HEAD "all_reduce 4 bulk 64K\n");
    cr_expect_eq(one, hash_of("# the same\n" HEAD "\n all_reduce  4 bulk 65536 #\n"));
    cr_expect_neq(one, hash_of(HEAD "all_reduce 4 bulk 64K\nall_reduce 2 bulk 64K\n"));
    cr_expect_neq(one, hash_of(HEAD "all_reduce 4 bulk 64M\n"));
    cr_expect_neq(hash_of(HEAD), 0);
    cr_expect_eq(rondo_tune_hash(NULL), 0);
}

Test(tune, tells_the_line_that_it_cannot_read)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"", "line 1: a table begins with"},
        {"all_reduce 4 bulk 1M\n", "line 1: a table begins with"},
        {"rondo-tune 2\n", "line 1: \"2\" is no number"},
        {HEAD "\n# x\nfrobnicate 4 bulk 1M\n", "line 4: \"frobnicate\""},
        {HEAD "all_reduce 4 bulk\n", "line 2: a rule is"},
        {HEAD "all_reduce 1 bulk 1M\n", "line 2: \"1\""},
        {HEAD "all_reduce 65 bulk 1M\n", "line 2: \"65\""},
        {HEAD "all_reduce x bulk 1M\n", "line 2: \"x\""},
        {HEAD "all_reduce 4 star 1M\n", "line 2: \"star\" is none of two-shot, bulk, direct, ring and shape"},
        {HEAD "all_reduce 4 bulk 1.5M\n", "line 2: \"1.5M\""},
        {HEAD "all_reduce 4 bulk -1\n", "line 2: \"-1\""},
        {HEAD "all_reduce 4 bulk 99999999999G\n", "line 2: \"99999999999G\""},
        {HEAD "all_reduce 4 bulk 1M 2M\n", "line 2: \"2M\" is too much"},
        {HEAD "all_gather 4 two-shot 1M\n", "line 2: all_gather has no two-shot"},
        {HEAD "all_to_all 4 ring 1M\n", "line 2: all_to_all does not go round a ring"},
        {HEAD "all_reduce 4 bulk 1M\nall_reduce 4 bulk 1M\n", "line 3: all_reduce of 4 ranks had its bulk before"},
        {HEAD "all_reduce 4 shape 1M\n", "line 2: a shape is"},
        {HEAD "all_reduce 4 shape 1M threads 16 channels 4\n", "line 2: \"16\""},
        {HEAD "all_reduce 4 shape 1M threads 64 channels 129\n", "line 2: \"129\""},
        {HEAD "all_reduce 4 shape never threads 64 channels 4\n", "line 2: a shape has a size"},
        {HEAD "all_reduce 4 shape 1M threads 64 channels 4 x\n", "line 2: \"x\" is too much"},
        {HEAD "all_reduce 4 shape 1M threads 64 channels 4\nall_reduce 4 shape 1M threads 32 channels 4\n",
         "line 3: sizes of shapes are to ascend"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct loaded loaded = load(bad[i].text);
        cr_expect_eq(loaded.result, rondoInvalidArgument, "%s", bad[i].text);
        cr_expect(strstr(rondo_last_error(), bad[i].word), "%s: %s", bad[i].text, rondo_last_error());
        rondo_arena_destroy(loaded.arena);
    }
    char text[2048] = HEAD;
    for (int i = 0; i <= RONDO_SHAPE_RULES; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "reduce 3 shape %d threads 64 channels 1\n", i);
    struct loaded loaded = load(text);
    cr_expect(loaded.result == rondoInvalidArgument && strstr(rondo_last_error(), "line 14: more than 12 shapes"), "%s",
              rondo_last_error());
    rondo_arena_destroy(loaded.arena);
    memset(text, 'x', sizeof text);
    memcpy(text, HEAD "#", sizeof HEAD); /* a comment may be as long as it likes */
    text[sizeof text - 1] = '\0';
    loaded = load(text);
    cr_expect_eq(loaded.result, rondoSuccess, "%s", rondo_last_error());
    rondo_arena_destroy(loaded.arena);
    text[sizeof HEAD - 1] = 'x';
    loaded = load(text);
    cr_expect(strstr(rondo_last_error(), "line 2: the line is longer"), "%s", rondo_last_error());
    rondo_arena_destroy(loaded.arena);
}

/* ---- comms ---- */

static int followed(struct rig *rig)
{
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    RIG_OK(rondoCommExplain(rig->comm, "all_reduce", 1023, rondoUint8, rondoSum, &choice));
    RIG_CHECK(!strcmp(choice.algorithm, "one-shot") && strstr(choice.why, "one-shot, two-shot from 1K (table)"), "%s",
              choice.why);
    RIG_CHECK(strstr(choice.protocol, "line") == choice.protocol, "%s", choice.protocol);
    RIG_OK(rondoCommExplain(rig->comm, "all_reduce", 1024, rondoUint8, rondoSum, &choice));
    RIG_CHECK(!strcmp(choice.algorithm, "two-shot") && strstr(choice.why, "two-shot from 1K (table)"), "%s",
              choice.why);
    RIG_OK(rondoCommExplain(rig->comm, "all_reduce", 4096, rondoUint8, rondoSum, &choice));
    RIG_CHECK(!strcmp(choice.protocol, "bulk") && strstr(choice.why, "bulk from 4K (table)"), "%s", choice.why);
    RIG_CHECK(choice.channels > 1, "%d", choice.channels);
    RIG_OK(rondoCommExplain(rig->comm, "all_reduce", 8192, rondoUint8, rondoSum, &choice));
    RIG_CHECK(choice.channels == 1 && strstr(choice.why, "at most 1 channels (table)"), "%s", choice.why);
    RIG_OK(rondoCommExplain(rig->comm, "all_gather", 1 << 24, rondoUint8, rondoSum, &choice));
    RIG_CHECK(!strstr(choice.why, "table"), "%s", choice.why);
    RIG_OK(rondoCommExplain(rig->comm, "broadcast", 2048, rondoUint8, rondoSum, &choice));
    RIG_CHECK(!strcmp(choice.algorithm, "ring") && strstr(choice.why, "ring from 2K (table); "), "%s", choice.why);
    RIG_OK(rondoCommExplain(rig->comm, "broadcast", 2047, rondoUint8, rondoSum, &choice));
    RIG_CHECK(strcmp(choice.algorithm, "ring") && strstr(choice.why, "no ring, from 2K (table); "), "%s", choice.why);
    return rig_try(rig, 1);
}

Test(tune, comms_follow_the_table)
{
    char path[] = "/tmp/rondo-tune-XXXXXX";
    write_file(path, HEAD "all_reduce 2 two-shot 1K\nall_reduce 2 bulk 4K\nall_reduce 2 direct never\n"
                          "all_reduce 2 shape 0 threads 32 channels any\nall_reduce 2 shape 8K threads any channels 1\n"
                          "all_gather 3 bulk 1\nbroadcast 2 ring 2K\n");
    setenv("RONDO_TUNE_FILE", path, 1);
    cr_expect_eq(rig_run(&(struct rig_options){.ranks = 2}, followed), 0);
    unlink(path);
}

static int disagreed(struct rig *rig)
{
    char path[64];
    snprintf(path, sizeof path, "%s-%d", getenv("TEST_TUNE"), rig->rank);
    setenv("RONDO_TUNE_FILE", path, 1);
    RIG_REFUSED(rondoInvalidArgument, "RONDO_TUNE_FILE",
                rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[0], rig->rank));
    return 0;
}

Test(tune, ranks_with_different_tables_are_refused)
{
    char path[] = "/tmp/rondo-tune-XXXXXX", name[64];
    write_file(path, "");
    setenv("TEST_TUNE", path, 1);
    for (int rank = 0; rank < 2; rank++) {
        snprintf(name, sizeof name, "%s-%d", path, rank);
        FILE *file = fopen(name, "w");
        fprintf(file, HEAD "all_reduce 2 two-shot %dK\n", 1 + rank);
        fclose(file);
    }
    cr_expect_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true, .apart = true}, disagreed), 0);
    for (int rank = 0; rank < 2; rank++) {
        snprintf(name, sizeof name, "%s-%d", path, rank);
        unlink(name);
    }
    unlink(path);
}

static int refused(struct rig *rig)
{
    RIG_REFUSED(rondoInvalidArgument, "nowhere.tune",
                rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[0], rig->rank));
    return 0;
}

Test(tune, a_file_that_is_not_there_is_an_error)
{
    setenv("RONDO_TUNE_FILE", "/tmp/nowhere.tune", 1);
    cr_expect_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, refused), 0);
}
