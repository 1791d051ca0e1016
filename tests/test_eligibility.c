/* Who may use P2P, on made-up machines. */
#include "device/device.h"
#include "rondo/rondo.h"
#include "transport/eligibility.h"
#include "transport/survey.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    rondo_p2p_rules_read(topology, topology->gpu_count, &rules);
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

Test(eligibility, crosses_sockets_by_default_between_two_gpus_on_an_amd_machine)
{
    struct rondo_p2p_rules rules;
    snprintf(topology->cpu, sizeof topology->cpu, "AuthenticAMD");
    rondo_p2p_rules_read(topology, 3, &rules);
    cr_expect_eq(rules.level, RONDO_PATH_PXB);
    rondo_p2p_rules_read(topology, 2, &rules);
    cr_expect_eq(rules.level, RONDO_PATH_SYS);
    snprintf(topology->cpu, sizeof topology->cpu, "GenuineIntel");
    rondo_p2p_rules_read(topology, 2, &rules);
    cr_expect_eq(rules.level, RONDO_PATH_PXB);
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
    topology->bridges[3].acs = 0x1d;
    cr_expect_eq(judge(4).warnings, 0, "it leads over the host bridge anyway");
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

/* ---- all of a rank's pairs, on the host device ---- */

static struct rondo_survey survey_of(int ranks, int rank)
{
    static uint8_t uuids[8][16];
    struct rondo_topology_device devices[8];
    struct rondo_device *device;
    struct rondo_survey survey;
    for (int r = 0; r < ranks; r++) {
        uuids[r][0] = (uint8_t)(r + 1);
        devices[r] = (struct rondo_topology_device){"", uuids[r], r, 0, false};
    }
    cr_assert_eq(rondo_device_host.open(rank, &device), rondoSuccess);
    cr_assert_eq(rondo_survey_init(&survey, &rondo_device_host, device, devices, ranks, rank), rondoSuccess, "%s",
                 rondoGetLastError(NULL));
    rondo_device_host.close(device);
    return survey;
}

Test(eligibility, of_host_devices_is_as_if_nvlink_joined_them)
{
    struct rondo_survey survey = survey_of(4, 1);
    char text[128];
    for (int r = 0; r < 4; r++) {
        cr_expect(survey.verdicts[r].allowed, "rank %d", r);
        cr_expect_eq(survey.verdicts[r].path, r == 1 ? RONDO_PATH_LOC : RONDO_PATH_NVL, "rank %d", r);
    }
    rondo_survey_describe(&survey, 0, text, sizeof text);
    cr_expect_str_eq(text, "NVL, P2P, writes");
    rondo_survey_fini(&survey);
    rondo_survey_fini(&survey);
}

Test(eligibility, of_host_devices_of_level_loc_is_nobodys)
{
    setenv("RONDO_P2P_LEVEL", "LOC", 1);
    struct rondo_survey survey = survey_of(3, 0);
    cr_expect_not(survey.verdicts[1].allowed);
    cr_expect_not(survey.verdicts[2].allowed);
    rondo_survey_fini(&survey);
}

Test(eligibility, of_host_devices_is_that_of_a_files_gpus)
{
    char path[] = "/tmp/rondo-topology-XXXXXX", text[128];
    const int fd = mkstemp(path);
    cr_assert_eq(write(fd, machine, sizeof machine - 1), (ssize_t)sizeof machine - 1);
    close(fd);
    setenv("RONDO_TOPO_FILE", path, 1);
    struct rondo_survey survey = survey_of(7, 0);
    static const bool allowed[] = {true, true, true, true, false, false, false};
    for (int r = 0; r < 7; r++)
        cr_expect_eq(survey.verdicts[r].allowed, allowed[r], "rank %d", r);
    cr_expect(survey.verdicts[1].read, "A100s joined by NVLink");
    rondo_survey_describe(&survey, 6, text, sizeof text);
    cr_expect_str_eq(text, "SYS, no P2P: a GPU has no place in the topology");
    rondo_survey_fini(&survey);
    unlink(path);
}

Test(eligibility, of_a_missing_file_is_an_error_that_leaves_nothing)
{
    struct rondo_device *device;
    struct rondo_survey survey;
    const uint8_t uuid[16] = {1};
    const struct rondo_topology_device devices[] = {{"", uuid, 0, 0, false}};
    setenv("RONDO_TOPO_FILE", "/nowhere/topology", 1);
    cr_assert_eq(rondo_device_host.open(0, &device), rondoSuccess);
    cr_expect_eq(rondo_survey_init(&survey, &rondo_device_host, device, devices, 1, 0), rondoInvalidUsage);
    cr_expect(strstr(rondoGetLastError(NULL), "/nowhere/topology"));
    cr_expect_null(survey.topology);
    rondo_device_host.close(device);
}
