/* rondo-doctor as a user runs it, on the host device. Faults are put below it by a preloaded library (tests/faults). */
#include "common/clock.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 18 };
enum { OK, BROKEN, INCONCLUSIVE, USAGE };

static char text[TEXT_BYTES]; /* what the last run printed, both streams */

/* Runs it behind `before` (assignments) and before `after` (a pipe, say). Returns the exit status. */
static int run(const char *before, const char *arguments, const char *after)
{
    char program[4096], command[9000];
    snprintf(command, sizeof command, "%s timeout 120 '%s' %s 2>&1 %s", before,
             program_beside("rondo-doctor", program, sizeof program), arguments, after);
    return program_run(command, text, sizeof text);
}

static int run_host(const char *arguments)
{
    return run("RONDO_DEVICE=host", arguments, "");
}

static int occurrences(const char *of)
{
    int count = 0;
    for (const char *at = strstr(text, of); at; at = strstr(at + 1, of))
        count++;
    return count;
}

Test(doctor, finds_that_every_mechanism_of_the_host_device_works)
{
    cr_expect_eq(run_host("--quick"), OK, "%s", text);
    cr_expect_eq(occurrences(" works "), 4, "%s", text);
    cr_expect(strstr(text, "\nOK ("), "%s", text);
}

/* A program that reads the report's JSON, and says what its `check` finds. */
static void json_says(const char *before, const char *arguments, const char *check)
{
    char pipe[2048];
    snprintf(pipe, sizeof pipe, "| python3 -c 'import json, sys; d = json.load(sys.stdin); assert %s, d'", check);
    cr_expect_eq(run(before, arguments, pipe), 0, "%s", text);
}

Test(doctor, writes_json_with_every_pair_and_mechanism)
{
    json_says("RONDO_DEVICE=host", "--quick --json",
              "d[\"verdict\"] == \"OK\" and d[\"device\"] == \"host\" and len(d[\"devices\"]) == 2 and "
              "[m[\"mechanism\"] for m in d[\"pairs\"][0][\"mechanisms\"]] == "
              "[\"direct\", \"cumem\", \"legacy_ipc\", \"host\"] and "
              "all(m[\"result\"] == \"works\" and m[\"copies_verified\"] and m[\"kernels_verified\"] and "
              "m[\"latency_us\"] > 0 and min(m[\"write_gbs\"] + m[\"read_gbs\"]) > 0 "
              "for m in d[\"pairs\"][0][\"mechanisms\"])");
}

Test(doctor, draws_a_picture_that_is_xml)
{
    char path[] = "/tmp/rondo-doctor-XXXXXX", arguments[128], command[256];
    const int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
    snprintf(arguments, sizeof arguments, "--quick --svg %s", path);
    cr_expect_eq(run_host(arguments), OK, "%s", text);
    snprintf(command, sizeof command,
             "python3 -c 'import xml.dom.minidom as m; d = m.parse(\"%s\"); "
             "assert len(d.getElementsByTagName(\"rect\")) == 5'",
             path);
    cr_expect_eq(system(command), 0);
    unlink(path);
}

Test(doctor, refuses_what_it_does_not_know)
{
    cr_expect_eq(run_host("--fast"), USAGE);
    cr_expect(strstr(text, "--fast"), "%s", text);
    cr_expect_eq(run_host("--timeout 0"), USAGE);
    cr_expect_eq(run_host("all"), USAGE);
    cr_expect_eq(run_host("--quick --svg /nowhere/x.svg"), USAGE);
    cr_expect_eq(run_host("--help"), 0);
    cr_expect(strstr(text, "Exit status"));
}

Test(doctor, is_inconclusive_without_a_device)
{
    cr_expect_eq(run("RONDO_DEVICE=nonsense", "--quick", ""), INCONCLUSIVE, "%s", text);
    cr_expect(strstr(text, "No device: RONDO_DEVICE=nonsense cannot be used"), "%s", text);
    json_says("RONDO_DEVICE=nonsense", "--quick --json", "d[\"verdict\"] == \"INCONCLUSIVE\" and d[\"pairs\"] == []");
}

Test(doctor, shows_the_topology_of_a_file_and_what_is_wrong_in_it)
{
    static const char machine[] = "rondo-topology 1\nmachine arch=x86_64 cpu=GenuineIntel\nnuma 0 cpus=0-7\n"
                                  "bridge pci0000:00 numa=0\n"
                                  "bridge 0000:00:01.0 parent=pci0000:00 link=160x8 max=320x16\n"
                                  "bridge 0000:01:00.0 parent=0000:00:01.0 acs=1d\n"
                                  "bridge 0000:01:01.0 parent=0000:00:01.0\n"
                                  "gpu 0000:02:00.0 parent=0000:01:00.0 numa=0 iommu=translating\n"
                                  "gpu 0000:03:00.0 parent=0000:01:01.0 numa=0\n";
    char path[] = "/tmp/rondo-topology-XXXXXX", before[128];
    const int fd = mkstemp(path);
    cr_assert_eq(write(fd, machine, sizeof machine - 1), (ssize_t)sizeof machine - 1);
    close(fd);
    snprintf(before, sizeof before, "RONDO_DEVICE=host RONDO_P2P_LEVEL=NVL RONDO_TOPO_FILE=%s", path);
    cr_expect_eq(run(before, "--quick", ""), OK, "%s", text);
    cr_expect(strstr(text, "GPU0  X      PIX    0-7"), "%s", text);
    cr_expect(strstr(text, "bridge 0000:00:01.0: PCIe link of 8 lanes, it could have 16"), "%s", text);
    cr_expect(strstr(text, "bridge 0000:01:00.0: ACS sends"), "%s", text);
    cr_expect(strstr(text, "GPU 0000:02:00.0: the IOMMU translates"), "%s", text);
    cr_expect(strstr(text, "Rondo will not use P2P: the GPUs are farther apart than RONDO_P2P_LEVEL"), "%s", text);
    unlink(path);
    cr_expect_eq(run(before, "--quick", ""), USAGE, "%s", text);
}

Test(doctor, tries_every_pair_of_many_devices_quickly_or_one_by_one)
{
    char path[] = "/tmp/rondo-topology-XXXXXX", before[128];
    FILE *file = fdopen(mkstemp(path), "w");
    fprintf(file, "rondo-topology 1\n");
    for (int g = 0; g < 5; g++)
        fprintf(file, "gpu 0000:0%d:00.0\n", g);
    fclose(file);
    snprintf(before, sizeof before, "RONDO_DEVICE=host RONDO_TOPO_FILE=%s", path);
    static const char all[] = "[(p[\"a\"], p[\"b\"]) for p in d[\"pairs\"]] == "
                              "[(a, b) for a in range(5) for b in range(a + 1, 5)] and d[\"verdict\"] == \"OK\"";
    json_says(before, "--quick --json", all);
    json_says(before, "--json", all);
    unlink(path);
}

#ifdef RONDO_WITH_CUDA
Test(doctor, finds_that_gpus_reach_each_other_where_the_driver_says_so)
{
    const int status = run("RONDO_DEVICE=cuda", "--quick --json", "");
    if (strstr(text, "\"devices\": [\n  ]"))
        cr_skip("there is no GPU");
    cr_expect_eq(status, OK, "%s", text);
    json_says("RONDO_DEVICE=cuda", "--quick --json",
              "all(m[\"result\"] == \"works\" for p in d[\"pairs\"] if p[\"driver_access\"] "
              "for m in p[\"mechanisms\"] if m[\"mechanism\"] in (\"direct\", \"cumem\", \"host\"))");
}
#endif

/* ---- faults; sanitizers want to come first ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static int run_faulty(const char *fault, const char *arguments)
{
    char before[4400], library[4096];
    snprintf(before, sizeof before, "RONDO_DEVICE=host DOCTOR_FAULT=%s LD_PRELOAD='%s'", fault,
             program_beside("libdoctor_faults.so", library, sizeof library));
    return run(before, arguments, "");
}

Test(doctor, says_why_a_mechanism_is_unavailable_and_is_content_with_the_rest)
{
    cr_expect_eq(run_faulty("none", "--quick"), OK, "%s", text);
    cr_expect_eq(occurrences(" works "), 1, "%s", text);
    cr_expect_eq(occurrences(" unavailable "), 3, "%s", text);
    cr_expect(occurrences("memfd_create: Function not implemented") >= 1, "%s", text);
    cr_expect(strstr(text, "note: devices 0 and 1: no cuMem handle: "), "%s", text);
}

Test(doctor, calls_a_pair_broken_whose_stores_do_not_become_visible)
{
    cr_expect_eq(run_faulty("private", "--quick"), BROKEN, "%s", text);
    cr_expect_eq(occurrences(" BROKEN  "), 3, "%s", text);
    cr_expect(strstr(text, "words that the other device's copy wrote are wrong"), "%s", text);
    cr_expect(strstr(text, "fault: devices 0 and 1: peer access is reported, but does not work"), "%s", text);
}

Test(doctor, outlives_a_process_that_crashes_and_tries_the_rest)
{
    cr_expect_eq(run_faulty("shrink", "--quick"), INCONCLUSIVE, "%s", text);
    cr_expect(strstr(text, "died: Bus error"), "%s", text);
    cr_expect_eq(occurrences(" works "), 1, "%s", text);
}

Test(doctor, ends_in_time_when_a_call_hangs)
{
    const uint64_t begin = rondo_now_ns();
    cr_expect_eq(run_faulty("hang", "--quick --timeout 3"), INCONCLUSIVE, "%s", text);
    cr_expect_lt(rondo_now_ns() - begin, 15000000000u);
    cr_expect(strstr(text, "the run's time was over"), "%s", text);
    cr_expect_eq(occurrences(" works "), 1, "%s", text);
}

#endif
