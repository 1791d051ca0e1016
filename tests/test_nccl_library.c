/* libnccl.so.2 as a file: what it exports and needs, and that programs which know nothing of Rondo can load it. */
#include "nccl/types.h"
#include "nccl_abi/facts.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 18]; /* what the last command printed */

/* Returns the exit status. HERE is the directory of this program, where the libraries lie too, TESTS that of its source. */
static int run(const char *command)
{
    char here[4096], whole[9000], source[4096];
    snprintf(source, sizeof source, "%s", __FILE__);
    snprintf(whole, sizeof whole, "HERE='%s'; TESTS='%s'; %s", program_beside("", here, sizeof here), dirname(source),
             command);
    return program_run(whole, text, sizeof text);
}

Test(nccl_library, exports_every_name_of_the_list_and_no_other)
{
    cr_assert_eq(
        run("nm -D --defined-only \"$HERE/libnccl.so.2\" | awk '{ print $NF }' | sed 's/@.*//' | LC_ALL=C sort | "
            "diff - \"$TESTS/nccl_abi/symbols.txt\""),
        0, "%s", text);
}

Test(nccl_library, lets_profilers_take_the_place_of_every_function)
{
    cr_assert_eq(
        run("nm -D --defined-only \"$HERE/libnccl.so.2\" | awk '$3 ~ /^nccl/ && $2 != \"W\"; $3 ~ /^pnccl/ && $2 != "
            "\"T\"'"),
        0);
    cr_expect_str_eq(text, "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
Test(nccl_library, is_called_libnccl_so_2_and_needs_libc_only)
{
    cr_assert_eq(run("readelf -d \"$HERE/libnccl.so.2\""), 0);
    cr_expect(strstr(text, "[libnccl.so.2]"), "%s", text);
    cr_assert_eq(run("readelf -d \"$HERE/libnccl.so.2\" | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p' | "
                     "grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s)\\.so\\.[0-9]+|ld-linux[^/]*\\.so\\.[0-9]+)$'"),
                 1, "%s", text);
}

Test(nccl_library, serves_a_fresh_python_by_ctypes)
{
    if (run("python3 -c 'import ctypes'") != 0)
        cr_skip_test("no python3");
    cr_assert_eq(run("env -u LD_PRELOAD timeout 100 python3 \"$TESTS/clients/bare.py\" \"$HERE/libnccl.so.2\" 3 2>&1"),
                 0, "%s", text);
    cr_expect_str_eq(text, "ok: NCCL 22809, 3 ranks\n", "%s", text);
}

Test(nccl_library, logs_in_the_format_of_nccl_and_where_it_is_told_to)
{
    if (run("python3 -c 'import ctypes'") != 0)
        cr_skip_test("no python3");
    cr_assert_eq(run("NCCL_DEBUG=INFO timeout 100 python3 \"$TESTS/clients/bare.py\" \"$HERE/libnccl.so.2\" | "
                     "grep -cE '^[^ :]+:[0-9]+:[0-9]+ \\[0\\] NCCL INFO '"),
                 0);
    cr_expect(atoi(text) >= 6, "%s lines", text);
    cr_assert_eq(run("NCCL_DEBUG=INFO NCCL_LAUNCH_MODE=GROUP NCCL_DEBUG_SUBSYS=ENV timeout 100 python3 "
                     "\"$TESTS/clients/bare.py\" \"$HERE/libnccl.so.2\" | sed 's/^[^ ]* //' | grep -v ' RONDO_' | "
                     "LC_ALL=C sort -u"),
                 0);
    cr_expect_str_eq(text,
                     "NCCL 22809, 2 ranks\n"
                     "[0] NCCL INFO NCCL_DEBUG set by environment to INFO\n"
                     "[0] NCCL INFO NCCL_DEBUG_SUBSYS set by environment to ENV\n"
                     "[0] NCCL INFO NCCL_LAUNCH_MODE set by environment to GROUP, which changes nothing\n",
                     "%s", text);
    cr_assert_eq(
        run("d=$(mktemp -d) && NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT NCCL_DEBUG_FILE=$d/log.%p timeout 100 "
            "python3 \"$TESTS/clients/bare.py\" \"$HERE/libnccl.so.2\" && ls $d | wc -l && grep -h joined $d/*; "
            "rm -r $d"),
        0);
    cr_expect_str_eq(text, "ok: NCCL 22809, 2 ranks\n2\n", "%s", text);
}

Test(nccl_library, can_be_measured_on_the_host_device)
{
    if (run("test -x \"$HERE/rondo-perf\"") != 0)
        cr_skip_test("no rondo-perf");
    cr_assert_eq(
        run("RONDO_DEVICE=host LD_PRELOAD=\"$HERE/host/libnccl.so.2\" timeout 100 \"$HERE/rondo-perf\" --op all -g 2 "
            "-n 2 -w 1 -k 2 -G 2 -b 1K -e 1K --lib \"$HERE/host/libnccl.so.2\" 2>&1"),
        0, "%s", text);
    cr_expect(strstr(text, "# wrong elements: 0 OK"), "%s", text);
    cr_assert_eq(
        run("RONDO_DEVICE=host timeout 100 \"$HERE/rondo-perf\" -g 2 -b 1K -e 1K --lib \"$HERE/host/libnccl.so.2\" "
            "2>&1"),
        2, "%s", text);
    cr_expect(strstr(text, "LD_PRELOAD"), "%s", text);
}
#endif

/* The scripts for machines with GPUs are only parsed here; what starts their ranks is tried. */
Test(nccl_library, clients_parse_and_their_launcher_notices_what_goes_wrong)
{
    static const struct {
        const char *mode;
        int status;
    } modes[] = {{"well", 0}, {"wrong", 1}, {"error", 1}, {"hang", 1}, {"death", 1}};
    if (run("python3 -c 'import ctypes'") != 0)
        cr_skip_test("no python3");
    cr_assert_eq(run("python3 -c 'import ast, sys; [ast.parse(open(name).read(), name) for name in sys.argv[1:]]' "
                     "\"$TESTS\"/clients/*.py \"$TESTS/clients/run\" 2>&1"),
                 0, "%s", text);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char command[300];
        snprintf(command, sizeof command,
                 "PYTHONDONTWRITEBYTECODE=1 timeout 100 python3 \"$TESTS/clients/selftest/launcher.py\" --ranks 2 "
                 "--mode %s 2>&1",
                 modes[i].mode);
        cr_expect_eq(run(command), modes[i].status, "%s: %s", modes[i].mode, text);
        cr_expect_eq(strstr(text, "FAILED") != NULL, modes[i].status, "%s: %s", modes[i].mode, text);
    }
}

Test(nccl_library, has_the_layouts_and_numbers_of_nccls_own_header)
{
    if (!nccl_facts_theirs)
        cr_skip_test("NCCL's header was not found");
    size_t i = 0;
    for (; nccl_facts_ours[i].name; i++) {
        cr_assert_str_eq(nccl_facts_ours[i].name, nccl_facts_theirs[i].name);
        cr_expect_eq(nccl_facts_ours[i].value, nccl_facts_theirs[i].value, "%s is %lld, NCCL's %lld",
                     nccl_facts_ours[i].name, nccl_facts_ours[i].value, nccl_facts_theirs[i].value);
    }
    cr_expect_null(nccl_facts_theirs[i].name);
}

/* NCCL 2.28.9's config ends before what 2.30.7 has added. */
Test(nccl_library, has_the_sizes_that_callers_pass)
{
    cr_expect_eq(sizeof(ncclUniqueId), 128);
    cr_expect_eq(sizeof(ncclSimInfo_t), 24);
    cr_expect_eq(offsetof(ncclConfig_t, graphUsageMode), 80);
    cr_expect_eq(sizeof(ncclConfig_t), 96);
    cr_expect_eq(sizeof(ncclTeam_t), 12);
    cr_expect_eq(offsetof(ncclCommProperties_t, deviceApiSupport), 32);
}
