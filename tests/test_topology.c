/* Topologies of made-up machines, and their files. */
#include "device/device.h"
#include "rondo/rondo.h"
#include "support/sysfs_tree.h"
#include "transport/topology.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rondo_topology *read_tree(const struct sysfs_tree *tree)
{
    struct rondo_topology *topology;
    cr_assert_eq(rondo_topology_create(&topology), rondoSuccess);
    cr_assert_eq(rondo_topology_read_sysfs(topology, tree->sys, tree->proc), rondoSuccess, "%s",
                 rondoGetLastError(NULL));
    return topology;
}

static void path_is(const struct rondo_topology *topology, const char *a, const char *b, const char *expected)
{
    const int first = rondo_topology_find(topology, a), second = rondo_topology_find(topology, b);
    cr_assert(first >= 0 && second >= 0, "%s or %s is not there", a, b);
    cr_expect_str_eq(rondo_path_name(rondo_topology_path(topology, first, second)), expected, "%s %s", a, b);
    cr_expect_str_eq(rondo_path_name(rondo_topology_path(topology, second, first)), expected, "%s %s", b, a);
}

/* Two sockets; on each a switch with two GPUs, on the first a second switch behind a common one, and a GPU at a root port. */
static void make_dgx(struct sysfs_tree *tree)
{
    tree_create(tree, "GenuineIntel");
    tree_add_numa(tree, 0, "0-3,8-11");
    tree_add_numa(tree, 1, "4-7");
#define TOP   "pci0000:15/0000:15:01.0/0000:16:00.0"
#define LEFT  TOP "/0000:17:00.0/0000:18:00.0"
#define RIGHT TOP "/0000:17:01.0/0000:1c:00.0"
#define FAR   "pci0000:97/0000:97:01.0/0000:98:00.0"
    static const char *const bridges[] = {
        "pci0000:15/0000:15:01.0", TOP,   TOP "/0000:17:00.0",  LEFT, LEFT "/0000:19:00.0", LEFT "/0000:19:01.0",
        TOP "/0000:17:01.0",       RIGHT, RIGHT "/0000:1d:00.0"};
    static const char *const far_bridges[] = {"pci0000:97/0000:97:01.0", FAR, FAR "/0000:99:00.0", FAR "/0000:99:01.0"};
    for (size_t i = 0; i < sizeof bridges / sizeof *bridges; i++)
        tree_add_bridge(tree, bridges[i], 0);
    for (size_t i = 0; i < sizeof far_bridges / sizeof *far_bridges; i++)
        tree_add_bridge(tree, far_bridges[i], 1);
    tree_add_bridge(tree, "pci0000:30/0000:30:01.0", 0);
    tree_add_gpu(tree, LEFT "/0000:19:00.0/0000:1a:00.0", 0);
    tree_add_gpu(tree, LEFT "/0000:19:01.0/0000:1b:00.0", 0);
    tree_add_gpu(tree, RIGHT "/0000:1d:00.0/0000:1e:00.0", 0);
    tree_add_gpu(tree, "pci0000:30/0000:30:01.0/0000:31:00.0", 0);
    tree_add_gpu(tree, FAR "/0000:99:00.0/0000:9a:00.0", 1);
    tree_add_gpu(tree, FAR "/0000:99:01.0/0000:9b:00.0", 1);
}

Test(topology, tells_one_switch_from_several_and_from_host_bridges_and_sockets)
{
    struct sysfs_tree tree;
    make_dgx(&tree);
    struct rondo_topology *topology = read_tree(&tree);
    cr_expect_eq(topology->gpu_count, 6);
    path_is(topology, "0000:1a:00.0", "0000:1a:00.0", "LOC");
    path_is(topology, "0000:1a:00.0", "0000:1b:00.0", "PIX");
    path_is(topology, "0000:1a:00.0", "0000:1e:00.0", "PXB");
    path_is(topology, "0000:1a:00.0", "0000:31:00.0", "PHB");
    path_is(topology, "0000:1a:00.0", "0000:9a:00.0", "SYS");
    path_is(topology, "0000:9A:00.0", "0000:9B:00.0", "PIX");
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, has_numa_nodes_links_and_the_cpu)
{
    struct sysfs_tree tree;
    make_dgx(&tree);
    tree_set(&tree, LEFT "/0000:19:00.0/0000:1a:00.0", "current_link_speed", "2.5 GT/s PCIe");
    tree_set(&tree, LEFT "/0000:19:00.0/0000:1a:00.0", "current_link_width", "8");
    struct rondo_topology *topology = read_tree(&tree);
    const struct rondo_topology_gpu *gpu = &topology->gpus[rondo_topology_find(topology, "0000:1a:00.0")];
    cr_assert_eq(topology->numa_count, 2);
    cr_expect_str_eq(topology->numas[0].cpus, "0-3,8-11");
    cr_expect_eq(topology->numas[1].number, 1);
    cr_expect_str_eq(topology->cpu, "GenuineIntel");
    cr_expect_eq(gpu->numa, 0);
    cr_expect_eq(gpu->link.speed, 25);
    cr_expect_eq(gpu->link.width, 8);
    cr_expect_eq(gpu->link.max_speed, 320);
    cr_expect_eq(gpu->link.max_width, 16);
    cr_expect(gpu->located && !gpu->visible);
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, knows_the_cpus_near_a_gpu)
{
    struct sysfs_tree tree;
    cpu_set_t cpus;
    make_dgx(&tree);
    tree_add_gpu(&tree, "pci0000:f0/0000:f0:01.0", -1);
    struct rondo_topology *topology = read_tree(&tree);
    cr_expect(rondo_topology_cpus(topology, rondo_topology_find(topology, "0000:1a:00.0"), &cpus));
    cr_expect_eq(CPU_COUNT(&cpus), 8);
    cr_expect(CPU_ISSET(0, &cpus) && CPU_ISSET(3, &cpus) && !CPU_ISSET(4, &cpus) && CPU_ISSET(11, &cpus));
    cr_expect_not(rondo_topology_cpus(topology, rondo_topology_find(topology, "0000:f0:01.0"), &cpus));
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, joins_gpus_at_root_ports_of_one_socket_by_its_host_bridge)
{
    struct sysfs_tree tree;
    tree_create(&tree, "AuthenticAMD");
    tree_add_bridge(&tree, "pci0000:00/0000:00:01.0", -1);
    tree_add_bridge(&tree, "pci0000:00/0000:00:02.0", -1);
    tree_add_bridge(&tree, "pci0000:40/0000:40:01.0", -1);
    tree_add_gpu(&tree, "pci0000:00/0000:00:01.0/0000:01:00.0", -1);
    tree_add_gpu(&tree, "pci0000:00/0000:00:02.0/0000:02:00.0", -1);
    tree_add_gpu(&tree, "pci0000:40/0000:40:01.0/0000:41:00.0", -1);
    struct rondo_topology *topology = read_tree(&tree);
    path_is(topology, "0000:01:00.0", "0000:02:00.0", "PHB");
    path_is(topology, "0000:01:00.0", "0000:41:00.0", "PHB"); /* no NUMA nodes: one socket */
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, takes_two_sockets_for_farther_than_host_bridges)
{
    struct sysfs_tree tree;
    tree_create(&tree, "GenuineIntel");
    tree_add_gpu(&tree, "pci0000:17/0000:17:00.0", 0);
    tree_add_gpu(&tree, "pci0000:85/0000:85:00.0", 1);
    struct rondo_topology *topology = read_tree(&tree);
    path_is(topology, "0000:17:00.0", "0000:85:00.0", "SYS");
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, of_a_machine_with_one_gpu_or_none_is_no_error)
{
    struct sysfs_tree tree;
    tree_create(&tree, "GenuineIntel");
    struct rondo_topology *none = read_tree(&tree);
    cr_expect_eq(none->gpu_count, 0);
    tree_add_gpu(&tree, "pci0000:00/0000:00:05.0", -1);
    struct rondo_topology *one = read_tree(&tree);
    cr_expect_eq(one->gpu_count, 1);
    cr_expect_eq(one->bridge_count, 1);
    cr_expect_str_eq(one->bridges[0].bus_id, "pci0000:00");
    rondo_topology_destroy(none);
    rondo_topology_destroy(one);
    tree_destroy(&tree);
    struct rondo_topology *nothing;
    cr_assert_eq(rondo_topology_create(&nothing), rondoSuccess);
    cr_expect_eq(rondo_topology_read_sysfs(nothing, "/nowhere", "/nowhere"), rondoSuccess);
    cr_expect_eq(nothing->gpu_count, 0);
    rondo_topology_destroy(nothing);
}

/* ---- what the driver adds ---- */

static int place(struct rondo_topology *topology, const char *bus_id, int ordinal, bool mig)
{
    uint8_t uuid[16] = {1, (uint8_t)ordinal};
    const struct rondo_topology_device device = {bus_id, uuid, ordinal, 90, mig};
    return rondo_topology_place(topology, &device);
}

static const struct rondo_peer_info nvlink = {.known = true, .access = true, .atomics = true};
static const struct rondo_peer_info pci = {.known = true, .access = true};
static const struct rondo_peer_info unasked = {.known = false};

Test(topology, finds_devices_in_their_places_and_keeps_what_sysfs_hides)
{
    struct sysfs_tree tree;
    make_dgx(&tree);
    struct rondo_topology *topology = read_tree(&tree);
    const int a = place(topology, "0000:1A:00.0", 0, false), hidden = place(topology, "0000:AF:00.0", 1, false);
    cr_expect_eq(a, rondo_topology_find(topology, "0000:1a:00.0"));
    cr_expect(topology->gpus[a].visible && topology->gpus[a].located);
    cr_assert_eq(hidden, 6);
    cr_expect(topology->gpus[hidden].visible && !topology->gpus[hidden].located);
    cr_expect_str_eq(topology->gpus[hidden].bus_id, "0000:af:00.0");
    path_is(topology, "0000:1a:00.0", "0000:af:00.0", "PHB");
    cr_expect_eq(place(topology, "0000:1A:00.0", 0, false), a, "a device is placed once");
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, keeps_instances_of_one_gpu_apart)
{
    struct sysfs_tree tree;
    make_dgx(&tree);
    struct rondo_topology *topology = read_tree(&tree);
    const int a = place(topology, "0000:1A:00.0", 0, true), b = place(topology, "0000:1A:00.0", 1, true);
    cr_expect_neq(a, b);
    cr_expect_eq(topology->gpus[a].parent, topology->gpus[b].parent);
    cr_expect(topology->gpus[a].mig && topology->gpus[b].mig);
    cr_expect_eq(rondo_topology_path(topology, a, b), RONDO_PATH_LOC);
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, takes_native_atomics_between_peers_for_nvlink)
{
    struct sysfs_tree tree;
    make_dgx(&tree);
    struct rondo_topology *topology = read_tree(&tree);
    const int a = place(topology, "0000:1a:00.0", 0, false), b = place(topology, "0000:1b:00.0", 1, false);
    const int c = place(topology, "0000:9a:00.0", 2, false);
    rondo_topology_join(topology, a, b, &pci);
    path_is(topology, "0000:1a:00.0", "0000:1b:00.0", "PIX");
    rondo_topology_join(topology, a, b, &nvlink);
    rondo_topology_join(topology, a, c, &unasked);
    path_is(topology, "0000:1a:00.0", "0000:1b:00.0", "NVL");
    path_is(topology, "0000:1a:00.0", "0000:9a:00.0", "SYS");
    cr_expect_eq(rondo_topology_between(topology, a, c), -1);
    rondo_topology_join(topology, b, c, &nvlink);
    cr_expect_eq(rondo_topology_between(topology, a, c), b);
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, believes_nvswitches_about_gpus_that_the_driver_does_not_show)
{
    struct sysfs_tree tree;
    make_dgx(&tree);
    tree_add_nvswitch(&tree, "pci0000:15/0000:15:02.0");
    struct rondo_topology *topology = read_tree(&tree);
    cr_expect_eq(topology->nvswitches, 1);
    cr_expect_eq(topology->gpu_count, 6);
    rondo_topology_join(topology, 0, 4, &unasked);
    cr_expect_eq(rondo_topology_path(topology, 0, 4), RONDO_PATH_NVL);
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, finds_acs_on_a_bridge_in_between_only)
{
    struct sysfs_tree tree;
    bool unknown;
    make_dgx(&tree);
    tree_set_acs(&tree, LEFT "/0000:19:01.0", 0x1d);
    tree_set_acs(&tree, TOP, 0x1c);                 /* above both */
    tree_set_acs(&tree, FAR "/0000:99:00.0", 0x01); /* source validation redirects nothing */
    tree_cut_config(&tree, FAR "/0000:99:01.0", 64);
    struct rondo_topology *topology = read_tree(&tree);
    const int a = rondo_topology_find(topology, "0000:1a:00.0"), b = rondo_topology_find(topology, "0000:1b:00.0");
    const int c = rondo_topology_find(topology, "0000:1e:00.0"), d = rondo_topology_find(topology, "0000:9a:00.0");
    const int e = rondo_topology_find(topology, "0000:9b:00.0");
    const int found = rondo_topology_acs(topology, a, b, &unknown);
    cr_assert_geq(found, 0);
    cr_expect_str_eq(topology->bridges[found].bus_id, "0000:19:01.0");
    cr_expect_not(unknown);
    cr_expect_eq(rondo_topology_acs(topology, b, a, &unknown), found);
    cr_expect_eq(rondo_topology_acs(topology, a, c, &unknown), -1);
    cr_expect_not(unknown);
    cr_expect_eq(rondo_topology_acs(topology, d, e, &unknown), -1);
    cr_expect(unknown);
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

Test(topology, knows_whether_addresses_are_translated)
{
    struct sysfs_tree tree;
    make_dgx(&tree);
    tree_set(&tree, LEFT "/0000:19:00.0/0000:1a:00.0", "iommu_group/type", "DMA-FQ");
    tree_set(&tree, LEFT "/0000:19:01.0/0000:1b:00.0", "iommu_group/type", "identity");
    struct rondo_topology *topology = read_tree(&tree);
    cr_expect_eq(topology->gpus[0].iommu, RONDO_IOMMU_TRANSLATING);
    cr_expect_eq(topology->gpus[1].iommu, RONDO_IOMMU_IDENTITY);
    cr_expect_eq(topology->gpus[2].iommu, RONDO_IOMMU_NONE);
    rondo_topology_destroy(topology);
    tree_destroy(&tree);
}

/* ---- files ---- */

static rondoResult_t read_string(struct rondo_topology *topology, const char *text)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    cr_assert_not_null(file);
    const rondoResult_t result = rondo_topology_read(topology, file, "made-up");
    fclose(file);
    return result;
}

Test(topology, is_the_same_after_a_round_trip_through_a_file)
{
    struct sysfs_tree tree;
    char *text = NULL, *again = NULL;
    size_t bytes = 0;
    make_dgx(&tree);
    tree_set_acs(&tree, LEFT "/0000:19:01.0", 0x1d);
    tree_cut_config(&tree, FAR "/0000:99:01.0", 64);
    tree_set(&tree, LEFT "/0000:19:00.0/0000:1a:00.0", "iommu_group/type", "DMA");
    struct rondo_topology *topology = read_tree(&tree), *copy;
    place(topology, "0000:1a:00.0", 0, false);
    place(topology, "0000:af:00.0", 1, false);
    topology->nvlinks[0][1] = topology->nvlinks[1][0] = 18;
    topology->nvlinks[0][4] = topology->nvlinks[4][0] = RONDO_NVLINKS_UNKNOWN;
    FILE *file = open_memstream(&text, &bytes);
    cr_assert_eq(rondo_topology_write(topology, file), rondoSuccess);
    fclose(file);
    cr_assert_eq(rondo_topology_create(&copy), rondoSuccess);
    cr_assert_eq(read_string(copy, text), rondoSuccess, "%s", rondoGetLastError(NULL));
    cr_expect(copy->from_file);
    copy->from_file = false;
    cr_expect_arr_eq(copy, topology, sizeof *copy);
    file = open_memstream(&again, &bytes);
    cr_assert_eq(rondo_topology_write(copy, file), rondoSuccess);
    fclose(file);
    cr_expect_str_eq(again, text);
    free(text);
    free(again);
    rondo_topology_destroy(topology);
    rondo_topology_destroy(copy);
    tree_destroy(&tree);
}

Test(topology, of_a_file_has_places_for_other_machines_devices_by_their_order)
{
    struct rondo_topology *topology;
    cr_assert_eq(rondo_topology_create(&topology), rondoSuccess);
    cr_assert_eq(read_string(topology, "rondo-topology 1\n# two\ngpu 0000:01:00.0\n\ngpu 0000:02:00.0 numa=1 # far\n"
                                       "nvlink 0000:01:00.0 0000:02:00.0\n"),
                 rondoSuccess, "%s", rondoGetLastError(NULL));
    cr_expect_eq(place(topology, "", 1, false), 1);
    cr_expect_eq(place(topology, "0000:01:00.0", 1, false), 0);
    cr_expect_eq(place(topology, "", 2, false), -1);
    cr_expect_eq(topology->nvlinks[1][0], RONDO_NVLINKS_UNKNOWN);
    topology->nvlinks[0][1] = topology->nvlinks[1][0] = 0;
    rondo_topology_join(topology, 0, 1, &nvlink);
    cr_expect_eq(topology->nvlinks[0][1], 0, "the driver must not overrule a file");
    rondo_topology_destroy(topology);
}

Test(topology, of_a_malformed_file_is_an_error_that_names_the_line)
{
    static const struct {
        const char *text;
        int line;
    } bad[] = {
        {"", 1},
        {"gpu 0000:01:00.0\n", 1},
        {"rondo-topology 2\n", 1},
        {"rondo-topology 1\nfoo\n", 2},
        {"rondo-topology 1\n\ngpu\n", 3},
        {"rondo-topology 1\ngpu 0000:01:00.0 numa=one\n", 2},
        {"rondo-topology 1\ngpu 0000:01:00.0 numa\n", 2},
        {"rondo-topology 1\ngpu 0000:01:00.0 color=red\n", 2},
        {"rondo-topology 1\ngpu 0000:01:00.0 parent=0000:00:01.0\n", 2},
        {"rondo-topology 1\ngpu 0000:01:00.0 uuid=12\n", 2},
        {"rondo-topology 1\ngpu 0000:01:00.0 visible=perhaps\n", 2},
        {"rondo-topology 1\ngpu 0000:01:00.0 link=fast\n", 2},
        {"rondo-topology 1\ngpu 0000:01:00.0 iommu=on\n", 2},
        {"rondo-topology 1\nbridge 0000:00:01.0 parent=0000:00:01.0\n", 2},
        {"rondo-topology 1\nbridge pci0000:00\nbridge pci0000:00\n", 3},
        {"rondo-topology 1\ngpu 0000:01:00.0\nnvlink 0000:01:00.0 0000:02:00.0\n", 3},
        {"rondo-topology 1\ngpu 0000:01:00.0\nnvlink 0000:01:00.0 0000:01:00.0\n", 3},
        {"rondo-topology 1\ngpu 000000000000000000000000000000:01:00.0\n", 2},
        {"rondo-topology 1\nmachine a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9 j=1 k=2 l=3 m=4 n=5 o=6 p=7\n", 2},
    };
    struct rondo_topology *topology;
    char named[32];
    cr_assert_eq(rondo_topology_create(&topology), rondoSuccess);
    for (size_t i = 1; i < sizeof bad / sizeof *bad; i++) {
        snprintf(named, sizeof named, "made-up:%d: ", bad[i].line);
        cr_expect_eq(read_string(topology, bad[i].text), rondoInvalidArgument, "%s", bad[i].text);
        cr_expect(strstr(rondoGetLastError(NULL), named), "%s: %s", bad[i].text, rondoGetLastError(NULL));
    }
    FILE *empty = fopen("/dev/null", "r");
    cr_expect_eq(rondo_topology_read(topology, empty, "made-up"), rondoInvalidArgument);
    cr_expect(strstr(rondoGetLastError(NULL), "made-up:1: "));
    fclose(empty);
    rondo_topology_destroy(topology);
}

Test(topology, is_read_from_the_file_that_the_environment_names_and_written_to_the_other)
{
    char from[] = "/tmp/rondo-topology-XXXXXX", to[] = "/tmp/rondo-topology-XXXXXX", line[64];
    const char text[] = "rondo-topology 1\ngpu 0000:01:00.0\n";
    struct rondo_topology *topology;
    const int fd = mkstemp(from), other = mkstemp(to);
    cr_assert_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    close(other);
    setenv("RONDO_TOPO_FILE", from, 1);
    setenv("RONDO_TOPO_DUMP_FILE", to, 1);
    cr_assert_eq(rondo_topology_load(&topology), rondoSuccess, "%s", rondoGetLastError(NULL));
    cr_expect_eq(topology->gpu_count, 1);
    rondo_topology_dump(topology);
    FILE *file = fopen(to, "r");
    cr_expect(fgets(line, sizeof line, file) && !strcmp(line, "rondo-topology 1\n"));
    fclose(file);
    rondo_topology_destroy(topology);
    unlink(from);
    unlink(to);
}
