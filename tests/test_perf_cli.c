/* rondo-perf as a user runs it, on the host device. RONDO_PERF names another program than the one beside this test. */
#include "support/program.h"

#include <criterion/criterion.h>
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
    return given ? given : program_beside("rondo-perf", path, sizeof path);
}

static const char *command(const char *arguments, char *line, size_t room)
{
    snprintf(line, room, "RONDO_DEVICE=host timeout 120 '%s' %s 2>&1", program(), arguments);
    return line;
}

/* Returns the exit status. */
static int run(const char *arguments)
{
    char line[8192];
    return program_run(command(arguments, line, sizeof line), text, sizeof text);
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

static const char *const ops[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                  "all_to_all", "gather",     "scatter",        "send_recv", "all_to_allv"};
enum { OP_COUNT = sizeof ops / sizeof *ops };

/* Runs all ops, and looks whether each has `rows` rows of each mode, all of them verified. */
static void all_ops_are_right(const char *more, int rows)
{
    char arguments[512];
    char found[64];
    snprintf(arguments, sizeof arguments, "--op all -n 2 -w 1 -k 2 -G 2 --json - %s", more);
    runs_well(arguments);
    for (int op = 0; op < OP_COUNT; op++) {
        snprintf(found, sizeof found, "\"op\": \"%s\"", ops[op]);
        cr_expect_eq(occurrences(found), 2 * rows, "%s: %s:\n%s", more, ops[op], text);
    }
    cr_expect_eq(occurrences("\"op\": \"barrier\""), 2, "%s", more);
    cr_expect_eq(occurrences("\"wrong\": 0,"), 2 * (OP_COUNT * rows + 1), "%s", more);
    cr_expect_eq(occurrences("\"algo\": \"\""), 0, "%s", more);
    cr_expect_eq(occurrences("\"proto\": \"line8\", \"channels\": ") +
                     occurrences("\"proto\": \"bulk\", \"channels\": ") + occurrences("\"proto\": \"direct/"),
                 2 * (OP_COUNT * rows + 1), "%s", more);
}

Test(perf_cli, verifies_every_op_on_1_to_4_ranks)
{
    for (int ranks = 1; ranks <= 4; ranks++) {
        char more[128];
        snprintf(more, sizeof more, "-g %d -r %d -b 1 -e 300K -f 547", ranks, ranks - 1);
        all_ops_are_right(more, 3);
    }
}

Test(perf_cli, verifies_every_op_in_groups_in_place_and_by_threads)
{
    all_ops_are_right("-g 3 -r 1 -b 10000 -e 10000 --group 4", 1);
    all_ops_are_right("-g 3 -r 1 -b 10000 -e 10000 --inplace", 1);
    all_ops_are_right("-g 2 -r 1 -b 10000 -e 10000 --inplace --group 3 -d half", 1);
    all_ops_are_right("-g 4 -b 10000 -e 10000 --threads", 1);
    all_ops_are_right("-g 2 -b 1M -e 1M --compute 20", 1);
}

Test(perf_cli, verifies_moves_of_every_type)
{
    runs_well(
        "--op all_gather,broadcast,all_to_all,gather,scatter,send_recv,all_to_allv -d all -o all -b 999 -e 999 -n 2 "
        "-k 2 -G 2 -g 3 --json -");
    cr_expect_eq(occurrences("\"wrong\": 0,"), 7 * 12 * 2);
    cr_expect_eq(occurrences("\"redop\": \"none\""), 7 * 12 * 2);
}

/* 1000 bytes are 250 floats, of which 3 ranks share 249. */
Test(perf_cli, counts_sizes_and_bandwidths_as_nccl_tests_does)
{
    static const struct {
        const char *op;
        int bytes, count;
        double factor;
        int rooted;
    } rows[] = {{"all_reduce", 1000, 250, 4.0 / 3, 0},
                {"all_gather", 996, 83, 2.0 / 3, 0},
                {"reduce_scatter", 996, 83, 2.0 / 3, 0},
                {"broadcast", 1000, 250, 1, 1},
                {"reduce", 1000, 250, 1, 1},
                {"all_to_all", 996, 83, 2.0 / 3, 0},
                {"gather", 996, 83, 2.0 / 3, 1},
                {"scatter", 996, 83, 2.0 / 3, 1},
                {"send_recv", 1000, 250, 1, 0},
                {"all_to_allv", 1000, 250, 5.0 / 6, 0}};
    runs_well("--op all -b 1000 -e 1000 -g 3 -r 2 -n 0 -G 3 -k 3 --json -");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char start[128];
        double us, algbw, busbw;
        snprintf(start, sizeof start, "\"op\": \"%s\", \"bytes\": %d, \"count\": %d, \"type\": \"float\"", rows[i].op,
                 rows[i].bytes, rows[i].count);
        const char *row = strstr(text, start);
        cr_assert(row, "no %s in\n%s", start, text);
        cr_assert_eq(sscanf(strstr(row, "\"us\":"), "\"us\": %lf", &us), 1);
        cr_assert_eq(sscanf(strstr(row, "\"algbw\":"), "\"algbw\": %lf, \"busbw\": %lf", &algbw, &busbw), 2);
        cr_expect_float_eq(algbw * us * 1e3 / rows[i].bytes, 1, 1e-6, "%s", rows[i].op);
        cr_expect_float_eq(busbw / algbw, rows[i].factor, 1e-6, "%s", rows[i].op);
        const char *root = strstr(row, "\"root\": 2}");
        cr_expect_eq(root && root < strchr(row, '\n'), rows[i].rooted, "%s", rows[i].op);
    }
}

Test(perf_cli, prints_a_block_for_each_op)
{
    runs_well("--op all -b 1K -e 1K -n 2 -G 2 -k 2 --inplace");
    for (int op = 0; op < OP_COUNT; op++) {
        char head[64];
        snprintf(head, sizeof head, "\n#\n# %s", ops[op]);
        cr_expect(strstr(text, head), "no %s in\n%s", ops[op], text);
    }
    cr_expect_eq(occurrences("(elements)"), OP_COUNT + 1);
    cr_expect_eq(occurrences(", root 0; size: "), 4);
    cr_expect_eq(occurrences("out of place, it knows no other way"), 2);
}

/* ---- another library ---- */

/* With FAKE_NCCL_FAULT=fault, or without. Returns the exit status. */
static int run_fake(const char *fault, const char *arguments)
{
    char path[4096];
    char all[8000];
    if (fault)
        setenv("FAKE_NCCL_FAULT", fault, 1);
    snprintf(all, sizeof all, "-n 2 -w 1 -k 2 -G 2 --lib '%s' %s", program_beside("libfake.so", path, sizeof path),
             arguments);
    int status = run(all);
    unsetenv("FAKE_NCCL_FAULT");
    return status;
}

Test(perf_cli, measures_every_op_of_another_library)
{
    cr_assert_eq(run_fake(NULL, "--op all -b 1 -e 300K -f 547 -g 3 -r 1 --json -"), 0, "%s", text);
    cr_expect_eq(occurrences("{\"lib\": \"fake\", \"version\": \"2.28.9\""), OP_COUNT * 3 * 2, "%s", text);
    cr_expect_eq(occurrences("# fake 2.28.9 has no barrier"), 1, "%s", text);
    cr_expect_eq(occurrences("\"algo\": \"\", \"proto\": \"\", \"channels\": 0"), OP_COUNT * 3 * 2, "%s", text);
    cr_assert_eq(run_fake(NULL, "--op all -b 10000 -e 10000 -g 2 --inplace --group 2"), 0, "%s", text);
    cr_expect_eq(occurrences("has no all_to_all in place"), 1, "%s", text);
    cr_expect_eq(occurrences(" fake 2.28.9 "), OP_COUNT - 1 + 2, "%s", text); /* rows, and what it lacks */
}

/* Every op is wrong with the fault, eagerly and replayed, and only in the library that has it. */
static void sees(const char *fault, const char *op, const char *more)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "--op %s -b 1000 -e 1000 -g 3 --json - %s", op, more);
    cr_expect_eq(run_fake(fault, arguments), 1, "%s %s: %s", fault, op, text);
    cr_expect_eq(occurrences("\"wrong\": 0,"), 2, "%s %s %s: %s", fault, op, more, text);
    cr_expect(strstr(text, "FAILED") && strstr(text, ", eager: ") && strstr(text, ", graph: "), "%s", text);
}

Test(perf_cli, sees_faults_of_every_op)
{
    for (int op = 0; op < OP_COUNT; op++) {
        sees("short", ops[op], "");
        sees("shift", ops[op], "");
    }
    static const char *const in_place[] = {"all_reduce", "broadcast", "reduce", "gather", "scatter"};
    for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++)
        sees("short", in_place[i], "--inplace --group 2");
    sees("root", "broadcast", "");
    sees("root", "broadcast", "--inplace");
    sees("root", "reduce", "");
    sees("spill", "reduce", "");
}

Test(perf_cli, measures_launches_of_plans)
{
    runs_well("--op all -b 1K -e 64K -n 3 -G 2 -g 3 --plan --group 2 --csv -");
    cr_expect(strstr(text, ",plan,") && !strstr(text, ",eager,") && strstr(text, ",graph,"), "%s", text);
    runs_well("-b 1K -e 1K -n 3 -G 0 --plan --inplace --json -");
    cr_expect(strstr(text, "\"mode\": \"plan\"") && strstr(text, "\"host_us\""), "%s", text);
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

Test(perf_cli, explains_every_op_without_measuring)
{
    cr_assert_eq(run("--op all -b 1 -e 300K -f 547 -g 3 --explain"), 0, "%s", text);
    cr_expect_eq(occurrences(", at most "), 6 * 3, "%s", text);
    cr_expect(strstr(text, "one-shot, two-shot from ") && strstr(text, " fifo "), "%s", text);
}

/* How often a text is in a file; -1: there is none. */
static int in_file(const char *path, const char *of)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return occurrences(of);
}

Test(perf_cli, tunes_and_uses_the_table_that_comes_out)
{
    char path[] = "/tmp/rondo-perf-XXXXXX", arguments[512];
    close(mkstemp(path));
    for (int ranks = 2; ranks <= 3; ranks++) {
        snprintf(arguments, sizeof arguments,
                 "--tune %s -g %d --op all_reduce,all_gather,send_recv -b 1K -e 64K -f 8 -k 2 -G 2", path, ranks);
        cr_assert_eq(run(arguments), 0, "%s", text);
        cr_expect(strstr(text, "holds the table"), "%s", text);
    }
    cr_expect_eq(in_file(path, "\nall_reduce 2 two-shot "), 1);
    cr_expect_eq(in_file(path, "\nall_gather 2 direct "), 1, "the table of 2 ranks is gone");
    cr_expect_eq(in_file(path, "\nall_gather 3 bulk "), 1);
    cr_expect_eq(in_file(path, "rondo-tune 1\n"), 1);
    setenv("RONDO_TUNE_FILE", path, 1);
    cr_assert_eq(run("--explain -b 1K -e 1M -g 2"), 0, "%s", text);
    cr_expect(strstr(text, "(table)"), "%s", text);
    runs_well("--op all -b 1K -e 64K -f 8 -g 2 -n 2 -k 2 -G 2");
    unsetenv("RONDO_TUNE_FILE");
    unlink(path);
}

static void plots(const char *more, int charts)
{
    char path[] = "/tmp/rondo-perf-XXXXXX";
    close(mkstemp(path));
    char arguments[256];
    snprintf(arguments, sizeof arguments, "-b 1K -e 64K -f 4 -n 3 -G 3 --svg %s %s", path, more);
    runs_well(arguments);
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    cr_expect_eq(occurrences("<polyline"), charts);
    cr_expect_eq(occurrences("<circle"), 4 * charts);
    cr_expect_eq(occurrences(">64K<"), charts);
    cr_expect(strstr(text, "</svg>"));
}

Test(perf_cli, writes_a_plot)
{
    plots("", 1);
}

Test(perf_cli, plots_each_op_that_has_a_size)
{
    plots("--op all -g 3", OP_COUNT);
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
                                      "--op all_reduce,",
                                      "-r -1",
                                      "-r x",
                                      "-g 2 -r 2",
                                      "--root 64",
                                      "-c 2",
                                      "--lib /no/lib",
                                      "--tune /no/where",
                                      "--tune /tmp/x --json -",
                                      "--tune /tmp/x -G 0",
                                      "--tune /tmp/x -d half,float",
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
    char line[8192];
    FILE *output = popen(command(arguments, line, sizeof line), "r");
    cr_assert(output != NULL);
    int pid = 0;
    while (fgets(line, sizeof line, output) && !strstr(line, "rank  1  pid"))
        continue;
    cr_assert_eq(sscanf(line, "# rank 1 pid %d", &pid), 1, "%s", line);
    usleep(200000);
    cr_assert_eq(kill(pid, SIGKILL), 0);
    alarm(60); /* ends the test if the run does not end */
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
