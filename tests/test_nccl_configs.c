/* NCCL's configs, of all its versions, as the drop-in reads them. */
#include "comm/config.h"
#include "common/env.h"
#include "common/face.h"
#include "nccl/config.h"
#include "nccl/reading.h"
#include "support/nccl_config.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    unsigned version;
    size_t size;
} versions[] = {
    {21400, offsetof(ncclConfig_t, cgaClusterSize)}, {21700, offsetof(ncclConfig_t, splitShare)},
    {21805, offsetof(ncclConfig_t, trafficClass)},   {22705, offsetof(ncclConfig_t, nChannelsPerNetPeer)},
    {22809, offsetof(ncclConfig_t, graphUsageMode)}, {23007, sizeof(ncclConfig_t)},
};
enum { VERSIONS = sizeof versions / sizeof *versions };

Test(nccl_configs, of_every_version_are_taken)
{
    for (size_t v = 0; v < VERSIONS; v++) {
        ncclConfig_t config = config_of(versions[v].version, versions[v].size);
        rondoConfig_t read;
        cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess, "%u: %s", versions[v].version,
                     rondoGetLastError(NULL));
        cr_expect_eq(read.blocking, NCCL_CONFIG_UNDEF_INT);
        cr_expect_eq(read.minCTAs, NCCL_CONFIG_UNDEF_INT);
        cr_expect_eq(read.maxCTAs, NCCL_CONFIG_UNDEF_INT);
        cr_expect_null(read.commName);
        config.blocking = 0;
        cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess);
        cr_expect_eq(read.blocking, 0);
        config.blocking = 2;
        cr_expect_eq(rondo_nccl_config(&config, &read), rondoInvalidArgument);
    }
}

Test(nccl_configs, say_what_they_say_but_for_what_their_version_did_not_have)
{
    ncclConfig_t config = config_of(22809, offsetof(ncclConfig_t, graphUsageMode));
    rondoConfig_t read;
    config.minCTAs = 2;
    config.maxCTAs = 500;
    config.commName = "name";
    cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess);
    cr_expect_eq(read.minCTAs, 2);
    cr_expect_eq(read.maxCTAs, 128);
    cr_expect_str_eq(read.commName, "name");
    for (int policy = 0; policy <= 3; policy++) { /* as many blocks as are fastest, few, none, the last two */
        config.CTAPolicy = policy;
        cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess);
        cr_expect_eq(read.ctaPolicy, policy >= 2   ? RONDO_CTA_POLICY_ZERO
                                     : policy == 1 ? RONDO_CTA_POLICY_EFFICIENCY
                                                   : RONDO_CTA_POLICY_DEFAULT);
    }
    config.version = 21700; /* a larger struct than the version's */
    config.commName = (const char *)8;
    config.CTAPolicy = 77;
    cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess);
    cr_expect_null(read.commName);
    config = config_of(24000, sizeof config);
    config.size += 64; /* a later version's */
    cr_expect_eq(rondo_nccl_config(&config, &read), rondoSuccess);
}

Test(nccl_configs, give_way_to_the_environments_policy_of_blocks)
{
    ncclConfig_t config = config_of(22809, sizeof config);
    rondoConfig_t read;
    config.CTAPolicy = 0;
    setenv("NCCL_CTA_POLICY", "EFFICIENCY", 1);
    cr_assert_eq(rondo_env()->cta_policy, 1);
    cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess);
    cr_expect_eq(read.ctaPolicy, RONDO_CONFIG_UNDEF_INT, "the environment's is taken then");
}

Test(nccl_configs, give_way_to_the_environments_policy_of_most_blocks_too)
{
    ncclConfig_t config = config_of(22809, sizeof config);
    struct rondo_config settled;
    rondoConfig_t read;
    config.CTAPolicy = 1;
    setenv("NCCL_CTA_POLICY", "DEFAULT", 1);
    cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess);
    cr_assert_eq(rondo_config_read(&read, &settled), rondoSuccess);
    cr_expect_eq(settled.cta_policy, RONDO_CTA_POLICY_DEFAULT);
}

Test(nccl_configs, policies_of_blocks_are_read_by_name_and_by_number)
{
    static const struct {
        const char *text;
        long policy;
    } cases[] = {{"0", 0},          {"1", 1},
                 {"2", 2},          {"3", 2},
                 {"default", 0},    {"NCCL_CTA_POLICY_ZERO", 2},
                 {"EFFICIENCY", 1}, {"efficiency|zero", 2}};
    const size_t n = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < rondo_nccl_parameter_count; i++) {
        char room[RONDO_FACE_ROOM];
        const struct rondo_nccl_parameter *p = &rondo_nccl_parameters[i];
        if (strcmp(p->name, "NCCL_CTA_POLICY"))
            continue;
        for (size_t c = 0; c < n; c++)
            cr_expect_eq(strtol(p->reading(cases[c].text, room), NULL, 10), cases[c].policy, "%s", cases[c].text);
        cr_expect_str_eq(p->reading("efficient", room), "efficient", "what it cannot read is left to be refused");
    }
}

Test(nccl_configs, that_are_none_are_refused)
{
    ncclConfig_t config = config_of(22809, sizeof config);
    rondoConfig_t read;
    config.magic = 0xdeadbeef;
    cr_expect_eq(rondo_nccl_config(&config, &read), rondoInvalidArgument);
    cr_expect(strstr(rondoGetLastError(NULL), "NCCL_CONFIG_INITIALIZER"));
    config = config_of(22809, sizeof config);
    config.size = 4;
    cr_expect_eq(rondo_nccl_config(&config, &read), rondoInvalidArgument);
    config = config_of(22809, sizeof config);
    config.cgaClusterSize = 9;
    cr_expect_eq(rondo_nccl_config(&config, &read), rondoInvalidArgument);
    config = config_of(22809, sizeof config);
    config.minCTAs = 0;
    cr_expect_eq(rondo_nccl_config(&config, &read), rondoInvalidArgument);
}
