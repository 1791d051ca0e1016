/* Who may use P2P, on made-up machines. */
#include "device/device.h"
#include "rondo/rondo.h"
#include "transport/eligibility.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GPUs of all distances: 0 and 1 by NVLink, 0 and 2 one switch, 0 and 3 two, 0 and 4 a host bridge, 0 and 5 sockets. */
static const char machine[] = "rondo-topology 1\n"
                              "machine arch=x86_64 cpu=GenuineIntel\n"
                              "bridge pci0000:00 numa=0\n"
                              "bridge 0000:00:01.0 parent=pci0000:00\n"
                              "bridge 0000:01:00.0 parent=0000:00:01.0\n"
                              "bridge 0000:02:00.0 parent=0000:01:00.0\n"
                              "bridge 0000:02:01.0 parent=0000:01:00.0\n"
                              "bridge 0000:02:02.0 parent=0000:01:00.0\n"
                              "bridge 0000:05:00.0 parent=0000:02:02.0\n"
                              "bridge 0000:06:00.0 parent=0000:05:00.0\n"
                              "bridge pci0000:40 numa=0\n"
                              "bridge pci0000:80 numa=1\n"
                              "gpu 0000:03:00.0 parent=0000:02:00.0 numa=0 capability=80\n"
                              "gpu 0000:90:00.0 parent=pci0000:80 numa=1 capability=80\n"
                              "gpu 0000:04:00.0 parent=0000:02:01.0 numa=0 capability=80\n"
                              "gpu 0000:07:00.0 parent=0000:06:00.0 numa=0 capability=80\n"
                              "gpu 0000:41:00.0 parent=pci0000:40 numa=0 capability=80\n"
                              "gpu 0000:81:00.0 parent=pci0000:80 numa=1 capability=80\n"
                              "nvlink 0000:03:00.0 0000:90:00.0 links=12\n";

static struct rondo_topology *topology;

static void set_up(void)
{
    FILE *file = fmemopen((void *)(uintptr_t)machine, sizeof machine - 1, "r");
    cr_assert_eq(rondo_topology_create(&topology), rondoSuccess);
    cr_assert_eq(rondo_topology_read(topology, file, "machine"), rondoSuccess, "%s", rondoGetLastError(NULL));
    fclose(file);
}

static void tear_down(void)
{
    rondo_topology_destroy(topology);
}

TestSuite(eligibility, .init = set_up, .fini = tear_down);

static const struct rondo_peer_info yes = {.known = true, .access = true};
static const struct rondo_peer_info no = {.known = true};
static const struct rondo_peer_info unasked = {.known = false};

static struct rondo_p2p_verdict judge_with(int b, const struct rondo_peer_info *peer)
{
    struct rondo_p2p_rules rules;
    struct rondo_p2p_verdict verdict;
    rondo_p2p_rules_read(topology, &rules);
    rondo_p2p_judge(&rules, topology, 0, b, peer, &verdict);
    cr_expect_eq(verdict.allowed, verdict.why == NULL);
    return verdict;
}

static struct rondo_p2p_verdict judge(int b)
{
    return judge_with(b, &yes);
}

Test(eligibility, stops_at_host_bridges_by_default)
{
    cr_expect(judge(0).allowed);
    cr_expect(judge(1).allowed);
    cr_expect(judge(2).allowed);
    cr_expect(judge(3).allowed);
    cr_expect_not(judge(4).allowed);
    cr_expect_not(judge(5).allowed);
    cr_expect_eq(judge(3).path, RONDO_PATH_PXB);
    cr_expect(strstr(judge(4).why, "by default"));
}

Test(eligibility, crosses_sockets_by_default_between_two_gpus_of_an_amd_machine)
{
    struct rondo_p2p_rules rules;
    snprintf(topology->cpu, sizeof topology->cpu, "AuthenticAMD");
    rondo_p2p_rules_read(topology, &rules);
    cr_expect_eq(rules.level, RONDO_PATH_PXB);
    topology->gpu_count = 2;
    rondo_p2p_rules_read(topology, &rules);
    cr_expect_eq(rules.level, RONDO_PATH_SYS);
}

static void farthest_allowed(int last)
{
    for (int b = 0; b < topology->gpu_count; b++)
        cr_expect_eq(judge(b).allowed, b <= last, "GPU %d", b);
}

Test(eligibility, of_level_loc_is_for_one_gpu_only)
{
    setenv("RONDO_P2P_LEVEL", "LOC", 1);
    farthest_allowed(0);
    cr_expect_str_eq(judge(1).why, "the GPUs are farther apart than RONDO_P2P_LEVEL");
}

Test(eligibility, of_level_nvl_is_for_nvlink)
{
    setenv("RONDO_P2P_LEVEL", "NVL", 1);
    farthest_allowed(1);
}

Test(eligibility, of_level_pix_is_for_one_switch)
{
    setenv("RONDO_P2P_LEVEL", "PIX", 1);
    farthest_allowed(2);
}

Test(eligibility, of_level_phb_is_for_host_bridges)
{
    setenv("RONDO_P2P_LEVEL", "PHB", 1);
    farthest_allowed(4);
}

Test(eligibility, of_level_sys_is_for_all)
{
    setenv("RONDO_P2P_LEVEL", "SYS", 1);
    farthest_allowed(5);
}

Test(eligibility, of_a_level_that_is_none_is_the_defaults)
{
    setenv("RONDO_P2P_LEVEL", "NEAR", 1);
    farthest_allowed(3);
}

Test(eligibility, reads_nccls_numbers_as_nccl_does)
{
    static const char *const texts[] = {"0", "1", "2", "3", "4", "5", "17"};
    static const enum rondo_path_type levels[] = {RONDO_PATH_LOC, RONDO_PATH_PIX, RONDO_PATH_PXB, RONDO_PATH_PHB,
                                                  RONDO_PATH_SYS, RONDO_PATH_SYS, RONDO_PATH_SYS};
    enum rondo_path_type level;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_assert(rondo_p2p_level_parse(texts[i], &level), "%s", texts[i]);
        cr_expect_eq(level, levels[i], "%s", texts[i]);
    }
    cr_expect_not(rondo_p2p_level_parse("", &level));
    cr_expect_not(rondo_p2p_level_parse("-1", &level));
    cr_expect_not(rondo_p2p_level_parse("2x", &level));
    cr_expect_not(rondo_p2p_level_parse("pix", &level));
}

Test(eligibility, is_nobodys_when_p2p_is_disabled)
{
    setenv("RONDO_P2P_DISABLE", "1", 1);
    setenv("RONDO_P2P_LEVEL", "SYS", 1);
    farthest_allowed(-1);
    cr_expect_str_eq(judge(1).why, "RONDO_P2P_DISABLE is set");
}

Test(eligibility, ends_where_the_driver_says_no)
{
    cr_expect_not(judge_with(1, &no).allowed);
    cr_expect_str_eq(judge_with(1, &no).why, "the driver gives no peer access");
    cr_expect(judge_with(1, &unasked).allowed);
    cr_expect_eq(judge_with(1, &unasked).warnings, RONDO_P2P_UNASKED);
    cr_expect_eq(judge(1).warnings, 0);
}

Test(eligibility, is_not_for_mig_instances_unless_the_driver_says_so)
{
    topology->gpus[1].mig = true;
    cr_expect_str_eq(judge_with(1, &no).why, "MIG instances have no peer access");
    cr_expect_str_eq(judge_with(1, &unasked).why, "MIG instances have no peer access");
    cr_expect(judge_with(1, &yes).allowed);
}

Test(eligibility, only_warns_of_acs_iommu_and_hidden_pci_devices)
{
    topology->bridges[3].acs = 0x1d;
    topology->gpus[2].iommu = RONDO_IOMMU_TRANSLATING;
    topology->gpus[2].located = false;
    struct rondo_p2p_verdict verdict = judge(2);
    cr_expect(verdict.allowed);
    cr_expect_eq(verdict.warnings, RONDO_P2P_ACS | RONDO_P2P_IOMMU | RONDO_P2P_UNLOCATED);
    cr_expect_eq(verdict.bridge, 3);
    topology->bridges[3].acs = RONDO_ACS_UNKNOWN;
    cr_expect_eq(judge(2).warnings, RONDO_P2P_ACS_UNKNOWN | RONDO_P2P_IOMMU | RONDO_P2P_UNLOCATED);
    cr_expect_eq(judge(1).warnings, 0, "NVLink passes no bridge");
}

Test(eligibility, reads_between_a100s_joined_by_nvlink)
{
    cr_expect(judge(1).read);
    cr_expect_not(judge(2).read);
    topology->gpus[1].capability = 90;
    cr_expect_not(judge(1).read);
}

Test(eligibility, reads_wherever_that_is_asked_for)
{
    setenv("RONDO_P2P_READ_ENABLE", "1", 1);
    cr_expect(judge(2).read);
    cr_expect_not(judge(5).read, "no P2P, no reads");
}

Test(eligibility, reads_nowhere_where_that_is_asked_for)
{
    setenv("RONDO_P2P_READ_ENABLE", "0", 1);
    cr_expect_not(judge(1).read);
}
