/* How comms come about: in every layout of ranks over threads and processes, with every config, and how they do not. */
#include "comm/card.h"
#include "comm/comm.h"
#include "comm/root.h"
#include "common/clock.h"
#include "support/draw.h"
#include "support/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rig for each of `count` ranks from `first` on, all in the calling thread. */
static void rigs_make(const struct rig *rig, struct rig *rigs, int ranks, int first, int count)
{
    for (int i = 0; i < count; i++) {
        rigs[i] = *rig;
        rigs[i].rank = first + i;
        rigs[i].ranks = ranks;
        rigs[i].comm = NULL;
        rig->machine->set_device(rig_device(rig, first + i));
        rigs[i].stream = rig->machine->stream_create(MACHINE_STREAM_NONBLOCKING);
    }
}

static int rigs_end(struct rig *rigs, int count)
{
    for (int i = 0; i < count; i++) {
        struct rig *rig = &rigs[i];
        RIG_OK(rondoCommDestroy(rig->comm));
        rig->machine->stream_destroy(rig->stream);
    }
    return 0;
}

/* ---- all ranks in one call ---- */

static int init_all(struct rig *rig)
{
    const int ranks = rig_ranks_most(4);
    int devices[4], value;
    rondoComm_t comms[4];
    struct rig rigs[4];
    for (int i = 0; i < ranks; i++)
        devices[i] = ranks - 1 - i;
    for (int listed = 0; listed < 2; listed++) {
        rigs_make(rig, rigs, ranks, 0, 0);
        RIG_OK(rondoCommInitAll(comms, ranks, listed ? devices : NULL));
        for (int i = 0; i < ranks; i++) {
            RIG_OK(rondoCommCount(comms[i], &value));
            RIG_CHECK(value == ranks, "count %d", value);
            RIG_OK(rondoCommRank(comms[i], &value));
            RIG_CHECK(value == i, "rank %d", value);
            RIG_OK(rondoCommDevice(comms[i], &value));
            RIG_CHECK(value == (listed ? devices[i] : i), "device %d", value);
        }
        if (!listed) {
            rigs_make(rig, rigs, ranks, 0, ranks);
            for (int i = 0; i < ranks; i++)
                rigs[i].comm = comms[i];
            if (rig_try(rigs, ranks) || rigs_end(rigs, ranks))
                return 1;
        } else {
            for (int i = 0; i < ranks; i++)
                RIG_OK(rondoCommDestroy(comms[i]));
        }
    }
    return 0;
}

Test(comm, of_all_ranks_is_made_by_one_call)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, init_all), 0);
}

static int init_all_refused(struct rig *rig)
{
    rondoComm_t comms[4] = {0};
    const int twice[] = {0, 1, 0}, negative[] = {0, -1}, roots = rondo_root_count();
    RIG_REFUSED(rondoInvalidArgument, "comms is NULL", rondoCommInitAll(NULL, 2, NULL));
    RIG_REFUSED(rondoInvalidArgument, "ndev is 0", rondoCommInitAll(comms, 0, NULL));
    RIG_REFUSED(rondoInvalidArgument, "ndev is -3", rondoCommInitAll(comms, -3, NULL));
    RIG_REFUSED(rondoInvalidArgument, "65", rondoCommInitAll(comms, 65, NULL));
    RIG_REFUSED(rondoInvalidUsage, "device 0 is twice", rondoCommInitAll(comms, 3, twice));
    RIG_CHECK(strstr(rondoGetLastError(NULL), "RONDO_SHARED_DEVICE"), "the text does not say how to allow it");
    RIG_REFUSED(rondoInvalidArgument, "devlist[1] is -1", rondoCommInitAll(comms, 2, negative));
    /* in a group: with others that were fine, which must not be made then */
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoCommInitAll(comms, 1, NULL));
    rondoCommInitAll(comms + 1, 3, twice);
    RIG_REFUSED(rondoInvalidUsage, "device 0 is twice", rondoGroupEnd());
    RIG_CHECK(!comms[0] && !comms[1], "a comm of a group that failed");
    for (int wait = 0; wait < 200 && rondo_root_count() > roots; wait++)
        usleep(10000);
    RIG_CHECK(rondo_root_count() == roots, "%d roots more", rondo_root_count() - roots);
    return 0;
}

Test(comm, of_a_bad_list_of_devices_is_refused_and_leaves_no_root)
{
    unsetenv("RONDO_SHARED_DEVICE");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, init_all_refused), 0);
}

static int init_all_shared(struct rig *rig)
{
    const int devices[] = {0, 0, 0};
    rondoComm_t comms[3];
    struct rig rigs[3];
    RIG_OK(rondoCommInitAll(comms, 3, devices));
    if (!rig_on_host()) { /* one thread cannot keep three ranks of one GPU running at once; see test_all_reduce */
        for (int i = 0; i < 3; i++)
            RIG_OK(rondoCommDestroy(comms[i]));
        return 0;
    }
    rigs_make(rig, rigs, 3, 0, 3);
    for (int i = 0; i < 3; i++)
        rigs[i].comm = comms[i];
    return rig_try(rigs, 3) || rigs_end(rigs, 3);
}

Test(comm, may_have_ranks_that_share_a_device_if_allowed)
{
    setenv("RONDO_SHARED_DEVICE", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, init_all_shared), 0);
}

static int same_device(struct rig *rig)
{
    rondoComm_t comm;
    rig->machine->set_device(0);
    RIG_REFUSED(rondoInvalidUsage, "RONDO_SHARED_DEVICE", rondoCommInitRank(&comm, rig->ranks, rig->ids[1], rig->rank));
    RIG_CHECK(strstr(rondoGetLastError(NULL), "ranks 0 and 1"), "the text names no ranks");
    RIG_CHECK(!comm, "a handle");
    return 0;
}

Test(comm, of_two_ranks_on_one_gpu_is_refused)
{
    unsetenv("RONDO_SHARED_DEVICE");
    if (rig_on_host())
        cr_skip_test("host devices are a rank's own"); /* the check itself: the next test */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, same_device), 0);
}

Test(comm, cards_that_clash_are_told_by_ranks)
{
    struct rondo_card cards[4], fine[4];
    memset(cards, 0, sizeof cards);
    for (int r = 0; r < 4; r++) {
        cards[r].uuid[3] = (uint8_t)r;
        strcpy(cards[r].device, "cuda");
        strcpy(cards[r].bus_id, "0000:18:00.0");
    }
    memcpy(fine, cards, sizeof cards);
    cr_assert_eq(rondo_cards_check(cards, 4), rondoSuccess);
    cards[3].uuid[3] = 1;
    cr_assert_eq(rondo_cards_check(cards, 4), rondoInvalidUsage);
    cr_assert(strstr(rondoGetLastError(NULL), "ranks 1 and 3 are on the same GPU (0000:18:00.0)"), "%s",
              rondoGetLastError(NULL));
    for (int r = 0; r < 4; r++)
        cards[r].shared_device = 1;
    cr_assert_eq(rondo_cards_check(cards, 4), rondoSuccess);
    memcpy(cards, fine, sizeof cards);
#define DIFFERS(field, value, word)                                                                         \
    do {                                                                                                    \
        __typeof__(cards[2].field) before_ = cards[2].field;                                                \
        cards[2].field = (value);                                                                           \
        cr_assert_eq(rondo_cards_check(cards, 4), rondoInvalidArgument, "%s", word);                        \
        cr_assert(strstr(rondoGetLastError(NULL), word) && strstr(rondoGetLastError(NULL), "rank 2"), "%s", \
                  rondoGetLastError(NULL));                                                                 \
        cards[2].field = before_;                                                                           \
    } while (0)
    DIFFERS(version, 7, "version");
    DIFFERS(device[0], 'x', "device");
    DIFFERS(line_bytes, 5, "line size");
    DIFFERS(min_ctas, 5, "minCTAs");
    DIFFERS(max_ctas, 5, "maxCTAs");
    DIFFERS(buffer_kib, 5, "bufferKiB");
    DIFFERS(shared_device, 1, "sharedDevice");
    DIFFERS(graph_lanes, 5, "graphLanes");
    DIFFERS(forced, 5, "RONDO_ALGO");
}

/* ---- one thread, many ranks; several processes of several ranks ---- */

/* This process is number rig->rank of rig->ranks, and joins `each` ranks in one group. */
static int join_in_group(struct rig *rig, int each)
{
    const int ranks = rig->ranks * each;
    struct rig rigs[8];
    rigs_make(rig, rigs, ranks, rig->rank * each, each);
    RIG_OK(rondoGroupStart());
    for (int i = 0; i < each; i++) {
        rig->machine->set_device(rig_device(rig, rigs[i].rank));
        RIG_OK(rondoCommInitRank(&rigs[i].comm, ranks, rig->ids[1], rigs[i].rank));
        RIG_CHECK(!rigs[i].comm, "a handle before the group's end");
    }
    RIG_OK(rondoGroupEnd());
    for (int i = 0; i < each; i++) {
        int device;
        RIG_OK(rondoCommDevice(rigs[i].comm, &device));
        RIG_CHECK(device == rig_device(rig, rigs[i].rank), "device %d of rank %d", device, rigs[i].rank);
    }
    return rig_try(rigs, each) || rigs_end(rigs, each);
}

static int join_two(struct rig *rig)
{
    return join_in_group(rig, 2);
}

static int join_all(struct rig *rig)
{
    return join_in_group(rig, rig_ranks(4));
}

Test(comm, is_joined_by_one_thread_in_a_group)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, join_all), 0);
}

Test(comm, is_joined_by_two_processes_with_a_group_of_two_ranks_each)
{
    if (rig_ranks(4) < 4)
        cr_skip_test("needs four devices");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true, .apart = true}, join_two), 0);
}

static int nothing_but_try(struct rig *rig)
{
    return rig_try(rig, 1);
}

Test(comm, is_joined_by_two_processes_of_two_threads_each)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .layout = RIG_PAIRS}, nothing_but_try), 0);
}

Test(comm, is_joined_by_threads_and_by_processes_without_direct_pointers)
{
    setenv("RONDO_P2P_DIRECT_DISABLE", "1", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(4), .layout = RIG_PAIRS}, nothing_but_try), 0);
}

/* ---- configs ---- */

#define READ(code, ...)                                                                        \
    do {                                                                                       \
        rondoConfig_t user = RONDO_CONFIG_INITIALIZER;                                         \
        struct rondo_config read_;                                                             \
        __VA_ARGS__;                                                                           \
        cr_assert_eq(rondo_config_read(&user, &read_), (code), "%s", rondoGetLastError(NULL)); \
        config = read_;                                                                        \
        (void)config.name;                                                                     \
    } while (0)

Test(comm, config_of_an_older_caller_lacks_fields_and_a_newer_ones_are_ignored)
{
    struct rondo_config config;
    struct {
        rondoConfig_t known;
        int unknown[16];
    } newer = {RONDO_CONFIG_INITIALIZER, {0}};
    READ(rondoSuccess, user.timeoutMs = 77; user.bufferKiB = 1; user.size = offsetof(rondoConfig_t, bufferKiB));
    cr_assert_eq(config.timeout_ms, 77);
    cr_assert_eq(config.buffer_kib, -1, "a field beyond the caller's struct was read");
    READ(rondoSuccess, user.timeoutMs = 77; user.blocking = 9; user.size = offsetof(rondoConfig_t, blocking));
    cr_assert_eq(config.timeout_ms, 0);
    newer.known.size = sizeof newer;
    newer.known.version = 990000;
    newer.known.timeoutMs = 78;
    newer.known.commName = "a name that is far longer than the room that the library has for names of comms, by much";
    memset(newer.unknown, 0xa5, sizeof newer.unknown);
    cr_assert_eq(rondo_config_read(&newer.known, &config), rondoSuccess);
    cr_assert_eq(config.timeout_ms, 78);
    cr_assert_eq(strlen(config.name), sizeof config.name - 1);
    cr_assert_eq(rondo_config_read(NULL, &config), rondoSuccess);
    cr_assert_eq(config.name[0], 0);
}

/* As it was before ctaPolicy: what the compiler left behind its last field is none of the library's business. */
Test(comm, config_of_an_older_caller_may_hold_anything_behind_its_last_field)
{
    struct {
        size_t size;
        unsigned magic, version;
        int blocking, minCTAs, maxCTAs, timeoutMs, bufferKiB, sharedDevice;
        const char *commName;
        int graphLanes;
    } older;
    struct rondo_config config;
    memset(&older, 0xa5, sizeof older);
    older.size = sizeof older;
    older.magic = RONDO_CONFIG_MAGIC;
    older.version = RONDO_VERSION_CODE;
    older.blocking = older.minCTAs = older.maxCTAs = older.timeoutMs = older.bufferKiB = older.sharedDevice =
        RONDO_CONFIG_UNDEF_INT;
    older.commName = NULL;
    older.graphLanes = 2;
    cr_assert_eq(rondo_config_read((const rondoConfig_t *)(const void *)&older, &config), rondoSuccess, "%s",
                 rondoGetLastError(NULL));
    cr_expect_eq(config.graph_lanes, 2);
    cr_expect_eq(config.cta_policy, RONDO_CTA_POLICY_DEFAULT);
}

Test(comm, config_that_is_none_or_out_of_bounds_is_refused_by_name)
{
    struct rondo_config config;
    READ(rondoInvalidArgument, user.magic = 0);
    READ(rondoInvalidArgument, user.magic ^= 1);
    READ(rondoInvalidArgument, user.size = offsetof(rondoConfig_t, blocking) - 1);
    READ(rondoInvalidArgument, user.size = 0);
#define BOUNDS(field, ...)                                                                               \
    do {                                                                                                 \
        static const int bad[] = {__VA_ARGS__};                                                          \
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {                                          \
            READ(rondoInvalidArgument, user.field = bad[i]);                                             \
            cr_assert(strstr(rondoGetLastError(NULL), "config." #field), "%s", rondoGetLastError(NULL)); \
        }                                                                                                \
        READ(rondoSuccess, user.field = RONDO_CONFIG_UNDEF_INT);                                         \
    } while (0)
    BOUNDS(blocking, -1, 2);
    BOUNDS(minCTAs, 0, -1, 129);
    BOUNDS(maxCTAs, 0, -1, 129);
    BOUNDS(timeoutMs, -1, 86400001);
    BOUNDS(bufferKiB, 63, 65537, -1, INT_MAX);
    BOUNDS(sharedDevice, -1, 2);
    BOUNDS(graphLanes, 0, -1, 17);
    BOUNDS(ctaPolicy, -1, 3);
}

/* On a device that would take 128 blocks. */
static int most_ctas(rondoConfig_t user)
{
    const struct rondo_device_info info = {.default_ctas = 128, .default_buffer_kib = 64};
    struct rondo_config config;
    cr_assert_eq(rondo_config_read(&user, &config), rondoSuccess);
    cr_assert_eq(rondo_config_complete(&config, &info), rondoSuccess);
    return config.max_ctas;
}

Test(comm, policy_of_blocks_gives_way_to_numbers_of_blocks)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    cr_expect_eq(most_ctas(config), 128);
    config.ctaPolicy = RONDO_CTA_POLICY_ZERO;
    cr_expect_eq(most_ctas(config), 16);
    config.ctaPolicy = RONDO_CTA_POLICY_EFFICIENCY;
    cr_expect_eq(most_ctas(config), 16);
    config.minCTAs = 24;
    cr_expect_eq(most_ctas(config), 24);
    config.maxCTAs = 40;
    cr_expect_eq(most_ctas(config), 40);
}

Test(comm, policy_of_blocks_comes_from_the_environment_too)
{
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    setenv("RONDO_CTA_POLICY", "1", 1);
    cr_expect_eq(most_ctas(config), 16);
    config.ctaPolicy = RONDO_CTA_POLICY_DEFAULT;
    cr_expect_eq(most_ctas(config), 128);
}

static int configured(struct rig *rig)
{
    rondoComm_t comm;
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    RIG_OK(rondoCommInitRankConfig(&comm, rig->ranks, rig->ids[1], rig->rank, NULL));
    RIG_OK(rondoCommDestroy(comm));
    config.minCTAs = 3;
    config.maxCTAs = 5;
    config.timeoutMs = 12345;
    config.bufferKiB = 64;
    config.commName = "tested";
    RIG_OK(rondoCommInitRankConfig(&comm, rig->ranks, rig->ids[2], rig->rank, &config));
    RIG_CHECK(comm->limits.min_channels == 3 && comm->limits.max_channels == 5, "CTAs");
    RIG_CHECK(comm->config.timeout_ms == 12345 && !strcmp(comm->config.name, "tested"), "timeout or name");
    RIG_CHECK(comm->limits.half_lines * comm->limits.line_bytes == 64 << 10, "%u lines", comm->limits.half_lines);
    struct rig other = *rig;
    other.comm = comm;
    if (rig_try(&other, 1))
        return 1;
    RIG_OK(rondoCommDestroy(comm));
    config.minCTAs = 6; /* above maxCTAs */
    RIG_REFUSED(rondoInvalidArgument, "minCTAs", rondoCommInitRankConfig(&comm, 1, rig->ids[3], 0, &config));
    RIG_CHECK(!comm, "a handle");
    return 0;
}

Test(comm, is_made_as_its_config_says)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2), .no_comm = true}, configured), 0);
}

static int disagreeing(struct rig *rig)
{
    rondoComm_t comm;
    rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
    config.bufferKiB = rig->rank == 1 ? 128 : 256;
    RIG_REFUSED(rondoInvalidArgument, "bufferKiB: 128 on rank 1, 256 on rank 0",
                rondoCommInitRankConfig(&comm, rig->ranks, rig->ids[1], rig->rank, &config));
    RIG_CHECK(!comm, "a handle");
    config.minCTAs = rig->rank == 2 ? 4 : 1; /* one rank alone finds that its config cannot be */
    config.maxCTAs = 2;
    const rondoResult_t result = rondoCommInitRankConfig(&comm, rig->ranks, rig->ids[2], rig->rank, &config);
    RIG_CHECK(result == (rig->rank == 2 ? rondoInvalidArgument : rondoRemoteError), "gave %d", result);
    RIG_CHECK(rig->rank == 2 || strstr(rondoGetLastError(NULL), "rank 2"), "the text names no rank");
    return 0;
}

Test(comm, of_ranks_whose_configs_disagree_fails_on_all)
{
    if (rig_ranks(3) < 3)
        cr_skip_test("needs three devices");
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3), .no_comm = true}, disagreeing), 0);
}

/* Rank 0's environment is the test's, which has made the ids. */
static int disagreeing_protocols(struct rig *rig)
{
    if (rig->rank)
        setenv("RONDO_PROTO", "direct", 1);
    RIG_REFUSED(rondoInvalidArgument, "RONDO_PROTO", rondoCommInitRank(&rig->comm, rig->ranks, rig->ids[2], rig->rank));
    return 0;
}

Test(comm, of_ranks_whose_protocols_disagree_fails_on_all)
{
    setenv("RONDO_PROTO", "line", 1);
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true, .apart = true}, disagreeing_protocols), 0);
}

/* ---- ranks that cannot be ---- */

static int impossible_ranks(struct rig *rig)
{
    rondoComm_t comm = (rondoComm_t)(uintptr_t)16;
    /* 0 and 0 of 2; then 2 ranks and 3 */
    RIG_REFUSED(rondoInvalidArgument, "joins twice", rondoCommInitRank(&comm, 2, rig->ids[1], 0));
    RIG_CHECK(!comm, "a handle");
    RIG_REFUSED(rondoInvalidArgument, "ranks", rondoCommInitRank(&comm, 2 + rig->rank, rig->ids[2], rig->rank));
    RIG_CHECK(!comm, "a handle");
    return 0;
}

Test(comm, of_a_rank_that_is_there_twice_or_counts_otherwise_fails_on_all)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, impossible_ranks), 0);
}

static int bad_arguments(struct rig *rig)
{
    rondoComm_t comm = NULL;
    rondoUniqueId none;
    memset(&none, 0, sizeof none);
    RIG_REFUSED(rondoInvalidArgument, "id is NULL", rondoGetUniqueId(NULL));
    RIG_REFUSED(rondoInvalidArgument, "version is NULL", rondoGetVersion(NULL));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommInitRank(NULL, 1, rig->ids[1], 0));
    RIG_REFUSED(rondoInvalidArgument, "comm is NULL", rondoCommInitRankConfig(NULL, 1, rig->ids[1], 0, NULL));
    RIG_REFUSED(rondoInvalidArgument, "rank is 2, must be 0 to 1", rondoCommInitRank(&comm, 2, rig->ids[1], 2));
    RIG_REFUSED(rondoInvalidArgument, "rank is -1", rondoCommInitRank(&comm, 2, rig->ids[1], -1));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 0", rondoCommInitRank(&comm, 0, rig->ids[1], 0));
    RIG_REFUSED(rondoInvalidArgument, "nranks is -1", rondoCommInitRank(&comm, -1, rig->ids[1], 0));
    RIG_REFUSED(rondoInvalidArgument, "nranks is 65", rondoCommInitRank(&comm, 65, rig->ids[1], 0));
    RIG_REFUSED(rondoInvalidArgument, "unique id", rondoCommInitRank(&comm, 2, none, 0));
    RIG_CHECK(!comm, "a handle");
    return 0;
}

Test(comm, is_refused_for_bad_arguments)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, bad_arguments), 0);
}

/* Every call on a handle that is none. */
static int dead_handle(struct rig *rig, rondoComm_t comm, bool null_may_end)
{
    int value;
    rondoResult_t error;
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    float *a = rig->machine->alloc(4096);
#define DEAD(call) RIG_CHECK((call) == rondoInvalidArgument, "accepted")
    DEAD(rondoCommCount(comm, &value));
    DEAD(rondoCommRank(comm, &value));
    DEAD(rondoCommDevice(comm, &value));
    DEAD(rondoCommGetAsyncError(comm, &error));
    DEAD(rondoCommExplain(comm, "all_reduce", 4, rondoFloat, rondoSum, &choice));
    DEAD(rondoAllReduce(a, a, 4, rondoFloat, rondoSum, comm, rig->stream));
    RIG_OK(rondoGroupStart());
    DEAD(rondoAllReduce(a, a, 4, rondoFloat, rondoSum, comm, rig->stream));
    DEAD(rondoGroupEnd());
    if (null_may_end) {
        RIG_OK(rondoCommFinalize(comm));
        RIG_OK(rondoCommDestroy(comm));
        RIG_OK(rondoCommAbort(comm));
    } else {
        DEAD(rondoCommFinalize(comm));
        DEAD(rondoCommDestroy(comm));
        DEAD(rondoCommAbort(comm));
    }
    RIG_CHECK(*rondoGetLastError(comm), "no text");
    rig->machine->free(a);
    return 0;
}

static int dead_handles(struct rig *rig)
{
    rondoComm_t comm = NULL;
    static uint64_t no_comm[256];
    RIG_OK(rondoCommInitRank(&comm, 1, rig->ids[1], 0));
    DEAD(rondoCommCount(comm, NULL));
    DEAD(rondoCommRank(comm, NULL));
    DEAD(rondoCommDevice(comm, NULL));
    DEAD(rondoCommGetAsyncError(comm, NULL));
    RIG_OK(rondoCommDestroy(comm));
    if (dead_handle(rig, comm, false) || dead_handle(rig, (rondoComm_t)(void *)no_comm, false))
        return 1;
    RIG_CHECK(rondoCommInitRank(&comm, 2, (rondoUniqueId){{0}}, 0) != rondoSuccess, "made");
    return dead_handle(rig, comm, true);
}

Test(comm, handle_that_is_dead_or_never_was_is_refused_by_every_call)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, dead_handles), 0);
}

static int finalized(struct rig *rig)
{
    float *a = rig->machine->alloc(4096);
    int value;
    rondoResult_t error;
    if (rig_try(rig, 1))
        return 1;
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommFinalize(rig->comm));
    RIG_REFUSED(rondoInvalidUsage, "finalized", rondoAllReduce(a, a, 4, rondoFloat, rondoSum, rig->comm, rig->stream));
    RIG_REFUSED(rondoInvalidUsage, "finalized", rondoCommFinalize(rig->comm));
    RIG_OK(rondoCommCount(rig->comm, &value));
    RIG_OK(rondoCommGetAsyncError(rig->comm, &error));
    RIG_CHECK(error == rondoSuccess, "error %d", error);
    rig->machine->free(a);
    return 0;
}

Test(comm, that_was_finalized_takes_no_ops_but_still_answers)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(2)}, finalized), 0);
}

/* One rank after the other, each when all have surely heard of those before. */
static int finalized_in_turn(struct rig *rig)
{
    for (int rank = 0; rank < rig->ranks; rank++) {
        if (rig->rank == rank)
            RIG_OK(rondoCommFinalize(rig->comm));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        for (int wait = 0;
             wait < 500 && rig->rank > rank && __atomic_load_n(&rig->comm->left_rank, __ATOMIC_ACQUIRE) < 0; wait++)
            usleep(10000);
        RIG_CHECK(rig->rank <= rank || __atomic_load_n(&rig->comm->left_rank, __ATOMIC_ACQUIRE) >= 0, "not told");
    }
    return 0;
}

Test(comm, is_finalized_by_ranks_that_heard_of_others_that_were_faster)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, finalized_in_turn), 0);
}

/* ---- ranks that do not come ---- */

static int absent(struct rig *rig)
{
    rondoComm_t comm;
    const uint64_t start = rondo_now_ns(); /* before anybody calls: whoever waited longest ends it for all */
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_REFUSED(rondoTimeout, "timed out: rank ", rondoCommInitRank(&comm, 3, rig->ids[1], rig->rank));
    RIG_CHECK(rondo_now_ns() - start > 2990000000 && since_ms(start) < 5000, "%f ms", since_ms(start));
    RIG_CHECK(!comm, "a handle");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    RIG_OK(rondoCommInitRank(&comm, 2, rig->ids[2], rig->rank));
    return rondoCommDestroy(comm) != rondoSuccess;
}

Test(comm, init_waits_for_an_absent_rank_no_longer_than_configured)
{
    setenv("RONDO_INIT_TIMEOUT_MS", "3000", 1); /* the second comm is to be made within this too */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, absent), 0);
}

struct joiner {
    struct rig *rig;
    rondoComm_t comm;
    int id;
    rondoResult_t result; /* atomic */
    char text[256];
};

static void *join(void *argument)
{
    struct joiner *j = argument;
    j->rig->machine->set_device(rig_device(j->rig, j->rig->rank));
    rondoResult_t result = rondoCommInitRank(&j->comm, 3, j->rig->ids[j->id], j->rig->rank);
    __atomic_store_n(&j->result, result, __ATOMIC_RELAXED);
    snprintf(j->text, sizeof j->text, "%s", rondoGetLastError(NULL));
    return NULL;
}

/* Ranks 0 and 1 join, rank 2 never will; rank 0 is aborted by another thread, which rank 1 hears of. */
static int abort_join(struct rig *rig)
{
    struct joiner joiner = {.rig = rig, .id = 1};
    pthread_t thread;
    pthread_create(&thread, NULL, join, &joiner);
    const uint64_t start = rondo_now_ns();
    rondoComm_t handle = NULL;
    while (!handle && since_ms(start) < 5000)
        handle = __atomic_load_n(&joiner.comm, __ATOMIC_SEQ_CST);
    RIG_CHECK(handle, "no handle while it joins");
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* else the abort may end the other's join before its look */
    for (int i = 0; i < 100; i++)
        usleep(5000); /* deep inside the join, on most runs, and also if this process stands still meanwhile */
    if (rig->rank == 0) {
        rondoResult_t error;
        int value;
        RIG_OK(rondoCommGetAsyncError(handle, &error));
        RIG_CHECK(error == rondoInProgress, "error %d", error);
        RIG_CHECK(rondoCommCount(handle, &value) != rondoSuccess, "count of a comm that is not yet");
        RIG_CHECK(rondoCommDestroy(handle) == rondoInvalidArgument, "destroyed while it joins");
        const uint64_t abort_start = rondo_now_ns();
        RIG_OK(rondoCommAbort(handle));
        RIG_CHECK(since_ms(abort_start) < 2000, "%f ms", since_ms(abort_start));
    }
    pthread_join(thread, NULL);
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing"); /* rank 0's process has the root */
    RIG_CHECK(since_ms(start) < 5000, "%f ms", since_ms(start));
    RIG_CHECK(joiner.result == (rig->rank == 0 ? rondoInvalidUsage : rondoRemoteError), "result %d: %s", joiner.result,
              joiner.text);
    RIG_CHECK(rig->rank == 0 || strstr(joiner.text, "rank 0"), "%s", joiner.text);
    RIG_CHECK(!joiner.comm, "a handle");
    RIG_CHECK(rondoCommAbort(handle) == rondoInvalidArgument, "twice");
    return 0;
}

Test(comm, init_ends_when_another_thread_aborts_it)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 2, .no_comm = true}, abort_join), 0);
}

/* Many aborts at all moments of a join of two ranks that both come: it either comes about or not, but on nobody hangs. */
static int abort_at_random(struct rig *rig)
{
    for (int round = 0; round < 25; round++) {
        rondoComm_t own = NULL;
        struct draw dice = {(unsigned)round};
        if (rig->rank == 0)
            RIG_OK(rondoGetUniqueId(&rig->ids[1]));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
        struct rig three = *rig;
        struct joiner joiner = {.rig = &three, .id = 1};
        pthread_t thread;
        pthread_create(&thread, NULL, join, &joiner);
        while (rig->rank == 0 && !own && !__atomic_load_n(&joiner.result, __ATOMIC_RELAXED))
            own = __atomic_load_n(&joiner.comm, __ATOMIC_SEQ_CST);
        usleep((useconds_t)(draw_below(&dice, 6000)));
        const uint64_t start = rondo_now_ns();
        if (own)
            rondoCommAbort(own);
        RIG_CHECK(since_ms(start) < 2000, "%f ms", since_ms(start));
        pthread_join(thread, NULL);
        if (rig->rank != 0 && joiner.result == rondoSuccess)
            RIG_OK(rondoCommDestroy(joiner.comm));
        RIG_CHECK(since_ms(start) < 5000, "round %d took %f ms", round, since_ms(start));
        RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    }
    return 0;
}

Test(comm, init_can_be_aborted_at_any_moment)
{
    setenv("RONDO_INIT_TIMEOUT_MS", "2000",
           1); /* an abort before the root has heard of the rank leaves the others to it */
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 3, .no_comm = true}, abort_at_random), 0);
}

/* A group with a rank that waits for others which never come, one that is well, and one that fails at once. */
static int group_with_a_failure(struct rig *rig)
{
    struct rondoComm *comms[3];
    rondoUniqueId broken = rig->ids[3];
    broken.internal[60] ^= 1; /* in the secret */
    const uint64_t start = rondo_now_ns();
    RIG_OK(rondoGroupStart());
    RIG_OK(rondoCommInitRank(&comms[0], 2, rig->ids[1], 0));
    RIG_OK(rondoCommInitRank(&comms[1], 1, rig->ids[2], 0));
    RIG_OK(rondoCommInitRank(&comms[2], 2, broken, 0));
    const rondoResult_t result = rondoGroupEnd();
    RIG_CHECK(result == rondoInvalidArgument, "gave %d", result);
    RIG_CHECK(strstr(rondoGetLastError(NULL), "does not know this id"), "another text");
    RIG_CHECK(since_ms(start) < 5000, "%f ms", since_ms(start));
    for (int i = 0; i < 3; i++)
        RIG_CHECK(!comms[i], "comm %d was made", i);
    return 0;
}

Test(comm, group_of_inits_fails_as_a_whole_and_at_once)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, group_with_a_failure), 0);
}

/* ---- several comms and graphs in one thread ---- */

enum { COMMS = 3, COUNT = 2000 };

static int comms_and_graphs(struct rig *rig)
{
    const struct machine *m = rig->machine;
    struct machine_graph *graphs[COMMS];
    struct CUstream_st *streams[COMMS];
    float *recv[COMMS], *eager[COMMS], *send = m->alloc(COUNT * sizeof *send);
    rondoComm_t comms[COMMS] = {rig->comm};
    rig_input(rig, send, COUNT, rondoFloat, rondoSum);
    for (int c = 0; c < COMMS; c++) {
        if (c)
            RIG_OK(rondoCommInitRank(&comms[c], rig->ranks, rig->ids[c], rig->rank));
        streams[c] = m->stream_create(MACHINE_STREAM_NONBLOCKING);
        recv[c] = m->alloc(COUNT * sizeof *send);
        eager[c] = m->alloc(COUNT * sizeof *send);
        m->capture_begin(streams[c], MACHINE_CAPTURE_THREAD_LOCAL);
        for (int i = 0; i < 3; i++)
            RIG_OK(rondoAllReduce(send, recv[c], COUNT, rondoFloat, rondoSum, comms[c], streams[c]));
        graphs[c] = m->capture_end(streams[c]);
    }
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < COMMS; i++) { /* each rank in an order of its own */
            const int c = (i * (1 + rig->rank % 2) + rig->rank + round) % COMMS;
            m->graph_launch(graphs[c], streams[c]);
            RIG_OK(rondoAllReduce(send, eager[c], COUNT, rondoFloat, rondoSum, comms[c], streams[c]));
        }
    }
    for (int c = 0; c < COMMS; c++) {
        rondoResult_t error;
        m->stream_sync(streams[c]);
        RIG_OK(rondoCommGetAsyncError(comms[c], &error));
        RIG_CHECK(error == rondoSuccess, "error %d", error);
        RIG_CHECK(rig_wrong(rig, recv[c], COUNT, rondoFloat, rondoSum) == 0, "graph %d", c);
        RIG_CHECK(rig_wrong(rig, eager[c], COUNT, rondoFloat, rondoSum) == 0, "eager %d", c);
    }
    RIG_CHECK(rig_barrier(rig) == 0, "a rank is missing");
    for (int i = 0; i < COMMS; i++) { /* comms and graphs end in any order too */
        const int c = (i + rig->rank) % COMMS;
        if (c && i % 2)
            RIG_OK(rondoCommDestroy(comms[c]));
        m->graph_destroy(graphs[c]);
        if (c && i % 2 == 0)
            RIG_OK(rondoCommDestroy(comms[c]));
        m->stream_destroy(streams[c]);
        m->free(recv[c]);
        m->free(eager[c]);
    }
    m->free(send);
    return 0;
}

Test(comm, lives_beside_others_in_one_thread_with_launches_in_any_order)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = rig_ranks(3)}, comms_and_graphs), 0);
}

static int together_alone(struct rig *rig)
{
    struct rig rigs[6];
    const int ranks = rig_ranks_most(3);
    rigs_make(rig, rigs, ranks, 0, ranks);
    rigs_make(rig, rigs + ranks, ranks, 0, ranks);
    RIG_OK(rondoGroupStart()); /* two comms of three ranks each, by one thread */
    for (int i = 0; i < 2 * ranks; i++) {
        rig->machine->set_device(rig_device(rig, rigs[i].rank));
        RIG_OK(rondoCommInitRank(&rigs[i].comm, ranks, rig->ids[1 + i / ranks], rigs[i].rank));
    }
    RIG_OK(rondoGroupEnd());
    return rig_try(rigs, 2 * ranks) || rigs_end(rigs, 2 * ranks);
}

Test(comm, lives_beside_another_with_all_ranks_in_one_thread)
{
    cr_assert_eq(rig_run(&(struct rig_options){.ranks = 1, .no_comm = true}, together_alone), 0);
}
