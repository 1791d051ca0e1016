/* rondo-perf as a user runs it, on the host device. RONDO_PERF names another program than the one beside this test. */
#include <criterion/criterion.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 20 };

static char text[TEXT_BYTES]; /* what the last run printed, both streams */

static const char *program(void)
{
    static char path[4096];
    const char *given = getenv("RONDO_PERF");
    if (given)
        return given;
    char self[4000];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert(length > 0);
    self[length] = '\0';
    snprintf(path, sizeof path, "%s/rondo-perf", dirname(self));
    return path;
}

static FILE *start(const char *arguments)
{
    char command[8192];
    snprintf(command, sizeof command, "RONDO_DEVICE=host timeout 120 '%s' %s 2>&1", program(), arguments);
    FILE *output = popen(command, "r");
    cr_assert(output != NULL);
    return output;
}

/* Returns the exit status. */
static int run(const char *arguments)
{
    FILE *output = start(arguments);
    size_t length = fread(text, 1, sizeof text - 1, output);
    text[length] = '\0';
    int status = pclose(output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int occurrences(const char *of)
{
    int count = 0;
    for (const char *at = strstr(text, of); at; at = strstr(at + 1, of))
        count++;
    return count;
}

static void runs_well(const char *arguments)
{
    cr_assert_eq(run(arguments), 0, "%s:\n%s", arguments, text);
    cr_assert(strstr(text, "# wrong elements: 0 OK"), "%s:\n%s", arguments, text);
}

Test(perf_cli, verifies_every_type_and_reduction)
{
    runs_well("-b 5000 -e 5000 -d all -o all -n 2 -k 2 -G 2 -g 3 --json -");
    cr_expect_eq(occurrences("\"wrong\": 0,"), 12 * 5 * 2);
}

Test(perf_cli, runs_ranks_as_threads_and_ops_in_groups_in_place_and_after_compute)
{
    runs_well("-b 1K -e 16K -n 3 -k 3 -G 3 --threads -g 4");
    runs_well("-b 1K -e 16K -n 3 -k 3 -G 3 --group 5");
    runs_well("-b 1K -e 16K -n 3 -k 3 -G 3 --inplace");
    runs_well("-b 1K -e 16K -n 3 -k 3 -G 3 --inplace --threads --group 3 -d half,int8 -o sum,prod,avg");
    runs_well("-b 1K -e 1K -n 3 -k 3 -G 3 --compute 20");
    runs_well("-g 1 -b 8 -e 8 -n 3 -G 3");
    runs_well("-b 1 -e 3 -i 1 -n 3 -G 3 -d double,uint8");
}

Test(perf_cli, leaves_out_eager_ops_or_replays_or_checks)
{
    runs_well("-b 1K -e 1K -n 0 -G 3 --csv -");
    cr_expect(!strstr(text, ",eager,") && strstr(text, ",graph,"), "%s", text);
    runs_well("-b 1K -e 1K -n 3 -G 0 --csv -");
    cr_expect(strstr(text, ",eager,") && !strstr(text, ",graph,"), "%s", text);
    cr_expect_eq(run("-b 1K -e 1K -n 3 -G 3 -c 0 --json -"), 0);
    cr_expect_eq(occurrences("\"wrong\": null"), 2);
}

Test(perf_cli, prints_json_objects_with_the_documented_fields)
{
    static const char *const fields[] = {"lib",    "version", "op",   "bytes",  "count",    "type",   "redop",  "ranks",
                                         "device", "mode",    "us",   "us_min", "us_p50",   "us_p99", "us_max", "algbw",
                                         "busbw",  "wrong",   "algo", "proto",  "channels", "host_us"};
    runs_well("-b 4K -e 4K -n 3 -G 3 --json -");
    const char *at = strstr(text, "{\"lib\": \"rondo\"");
    cr_assert(at != NULL, "%s", text);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s\"%s\": ", i ? ", " : "{", fields[i]);
        const char *found = strstr(at, key);
        cr_assert(found && found < strchr(at, '\n'), "no %s behind the field before it in\n%s", fields[i], at);
        at = found + 1;
    }
    cr_expect(strstr(text, "\"bytes\": 4096, \"count\": 1024, \"type\": \"float\", \"redop\": \"sum\", \"ranks\": 2, "
                           "\"device\": \"host\", \"mode\": \"eager\""));
}

Test(perf_cli, writes_a_plot)
{
    char path[] = "/tmp/rondo-perf-XXXXXX";
    close(mkstemp(path));
    char arguments[256];
    snprintf(arguments, sizeof arguments, "-b 1K -e 64K -n 3 -G 3 --svg %s", path);
    runs_well(arguments);
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    cr_expect_eq(occurrences("<polyline"), 1);
    cr_expect_eq(occurrences("<circle"), 4);
    cr_expect(strstr(text, ">64K<") && strstr(text, "</svg>"));
}

Test(perf_cli, refuses_bad_options_with_one_line_and_status_2)
{
    static const char *const bad[] = {"-b 1X",
                                      "-b 0",
                                      "-b 2K -e 1K",
                                      "-b",
                                      "--foo",
                                      "-g 0",
                                      "-d float,abc",
                                      "-o sum,",
                                      "hello",
                                      "-f 1",
                                      "-f 2 -i 4",
                                      "--device tpu",
                                      "--json /no/where",
                                      "-n x",
                                      "--compute -1",
                                      "-n 0 -G 0",
                                      "-b 1.5K",
                                      "--op frobnicate",
                                      "-c 2",
                                      "--lib /no/lib",
                                      "-b 99999999999G",
                                      "--lib libm.so.6"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(run(bad[i]), 2, "%s: %s", bad[i], text);
        cr_expect_eq(occurrences("\n"), 1, "%s: %s", bad[i], text);
    }
    cr_expect_eq(run("--help"), 0);
    cr_expect_eq(run("--version"), 0);
}

/* Kills rank 1 of a long run. */
static void ends_when_killed(const char *arguments)
{
    FILE *output = start(arguments);
    char line[512];
    int pid = 0;
    while (fgets(line, sizeof line, output) && !strstr(line, "rank  1  pid"))
        continue;
    cr_assert_eq(sscanf(line, "# rank 1 pid %d", &pid), 1, "%s", line);
    usleep(200000);
    cr_assert_eq(kill(pid, SIGKILL), 0);
    alarm(20); /* ends the test if the run does not end */
    text[fread(text, 1, sizeof text - 1, output)] = '\0';
    int status = pclose(output);
    alarm(0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x", status);
    cr_expect(strstr(text, "was killed by signal 9"), "%s", text);
}

Test(perf_cli, ends_with_a_message_when_a_rank_is_killed)
{
    ends_when_killed("-b 1K -e 64M -n 1000000 -G 1000000 -g 3");
    ends_when_killed("-b 1M -e 64M -n 1 -G 1000000 -k 100 --threads");
}
