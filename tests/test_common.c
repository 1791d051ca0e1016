#include "common/arena.h"
#include "common/clock.h"
#include "common/env.h"
#include "common/log.h"
#include "common/result.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parameters and the log are read once per process; Criterion gives each test a process of its own. */

/* ---- results ---- */

Test(result, texts_name_every_code)
{
    for (int code = 0; code < rondoNumResults; code++)
        cr_expect(strcmp(rondo_result_text((rondoResult_t)code), "unknown result code") != 0, "code %d", code);
    cr_expect_str_eq(rondoGetErrorString(rondoNumResults), "unknown result code");
    cr_expect_str_eq(rondoGetErrorString((rondoResult_t)-1), "unknown result code");
}

Test(result, an_error_text_may_quote_the_one_before)
{
    cr_expect_str_eq(rondo_last_error(), "");
    cr_expect(rondo_fail(rondoSystemError, "first") == rondoSystemError);
    cr_expect(rondo_repeat(rondoRemoteError, "second, after %s", rondo_last_error()) == rondoRemoteError);
    cr_expect_str_eq(rondoGetLastError(NULL), "second, after first");
}

static void *text_of_thread(void *first)
{
    *(char *)first = rondo_last_error()[0];
    rondo_repeat(rondoInternalError, "another thread's");
    return NULL;
}

Test(result, an_error_text_is_the_threads_own)
{
    pthread_t thread;
    char first = 'x';
    rondo_repeat(rondoInternalError, "mine");
    cr_assert(pthread_create(&thread, NULL, text_of_thread, &first) == 0);
    pthread_join(thread, NULL);
    cr_expect(first == 0);
    cr_expect_str_eq(rondo_last_error(), "mine");
}

/* ---- parameters and log ---- */

Test(env, takes_values_within_bounds_and_defaults_for_others)
{
    setenv("RONDO_BUFFER_KIB", "128", 1);
    setenv("RONDO_MIN_CTAS", "-1", 1);  /* the default, although below the bounds */
    setenv("RONDO_MAX_CTAS", "500", 1); /* out of bounds */
    setenv("RONDO_THREADS", "64x", 1);
    setenv("RONDO_TIMEOUT_MS", "", 1);
    setenv("RONDO_DEVICE", "host", 1);
    unsetenv("RONDO_ALGO");
    const struct rondo_env *env = rondo_env();
    cr_expect(env->buffer_kib == 128);
    cr_expect(env->min_ctas == -1);
    cr_expect(env->max_ctas == -1);
    cr_expect(env->threads == -1);
    cr_expect(env->timeout_ms == 0);
    cr_expect_str_eq(env->device, "host");
    cr_expect(env->algo == NULL);
}

/* The log's whole text, which goes to `name` with %h and %p filled in. */
static char *log_to(char *name, const char *level)
{
    setenv("RONDO_DEBUG", level, 1);
    setenv("RONDO_DEBUG_FILE", "/tmp/rondo-test-log-%p", 1);
    sprintf(name, "/tmp/rondo-test-log-%d", (int)getpid());
    return name;
}

static void read_log(const char *name, char *text, size_t room)
{
    FILE *file = fopen(name, "r");
    cr_assert(file != NULL, "there is no %s", name);
    text[fread(text, 1, room - 1, file)] = 0;
    fclose(file);
    remove(name);
}

/* The log asks for its own parameters when it is first used; the report of a bad one goes through the log. */
Test(env, reports_a_bad_value_once_also_if_the_log_is_used_first, .timeout = 20)
{
    char name[64], text[4096];
    log_to(name, "WARN");
    setenv("RONDO_BUFFER_KIB", "much", 1);
    rondo_fail(rondoInvalidArgument, "before any parameter was read");
    rondo_env();
    rondo_env();
    read_log(name, text, sizeof text);
    char *report = strstr(text, "RONDO_BUFFER_KIB=much");
    cr_assert(report != NULL, "the log says: %s", text);
    cr_expect(strstr(report + 1, "RONDO_BUFFER_KIB") == NULL, "more than once: %s", text);
    cr_expect(strstr(text, "before any parameter was read") != NULL);
}

Test(log, writes_lines_of_its_level_and_above_in_the_format_of_nccl)
{
    char name[64], text[4096], expected[128], host[64] = "";
    log_to(name, "info");
    gethostname(host, sizeof host - 1);
    cr_expect(rondo_log_enabled(RONDO_LOG_WARN) && rondo_log_enabled(RONDO_LOG_INFO));
    cr_expect(!rondo_log_enabled(RONDO_LOG_TRACE));
    rondo_log(RONDO_LOG_INFO, "shown %d", 1);
    rondo_log(RONDO_LOG_TRACE, "hidden");
    read_log(name, text, sizeof text);
    snprintf(expected, sizeof expected, "%s:%d:%d RONDO INFO shown 1\n", host, (int)getpid(), (int)gettid());
    cr_expect_str_eq(text, expected);
}

Test(log, a_long_line_is_cut_and_still_ends)
{
    char name[64], text[4096], *long_text = malloc(3000);
    log_to(name, "WARN");
    memset(long_text, 'x', 2999);
    long_text[2999] = 0;
    rondo_log(RONDO_LOG_WARN, "%s", long_text);
    free(long_text);
    read_log(name, text, sizeof text);
    cr_expect(strlen(text) > 1000 && strlen(text) < 2000);
    cr_expect(text[strlen(text) - 1] == '\n');
}

Test(log, is_silent_by_default)
{
    unsetenv("RONDO_DEBUG");
    cr_expect(!rondo_log_enabled(RONDO_LOG_WARN));
}

/* ---- time ---- */

Test(clock, sleeps_at_least_as_long_as_asked)
{
    uint64_t before = rondo_now_ns();
    rondo_sleep_ns(3000000);
    cr_expect(rondo_now_ns() - before >= 3000000);
}

/* ---- arenas ---- */

Test(arena, gives_zeroed_aligned_memory_and_counts_it)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4096, 3000000};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct rondo_arena *arena;
    size_t sum = 0;
    cr_assert(rondo_arena_create(&arena) == rondoSuccess);
    for (int round = 0; round < 2; round++) { /* the second on memory that was used */
        void *pointers[COUNT];
        for (int i = 0; i < COUNT; i++) {
            cr_assert(rondo_arena_alloc(arena, sizes[i], &pointers[i]) == rondoSuccess);
            cr_expect((uintptr_t)pointers[i] % 16 == 0);
            for (size_t k = 0; k < sizes[i]; k++)
                cr_assert(((char *)pointers[i])[k] == 0);
            memset(pointers[i], 0x5a, sizes[i]);
            sum += sizes[i];
            cr_expect(rondo_arena_bytes(arena) == sum);
        }
        for (int i = 0; i < COUNT; i += round + 1) { /* some in the second round are left to destroy */
            rondo_arena_free(arena, pointers[i]);
            sum -= sizes[i];
        }
        cr_expect(rondo_arena_bytes(arena) == sum);
    }
    rondo_arena_free(arena, NULL);
    cr_expect(sum > 0 && rondo_arena_total_bytes() == sum);
    rondo_arena_destroy(arena);
    rondo_arena_destroy(NULL);
    cr_expect(rondo_arena_total_bytes() == 0);
}

Test(arena, says_what_it_could_not_give)
{
    struct rondo_arena *arena;
    void *pointer;
    cr_assert(rondo_arena_create(&arena) == rondoSuccess);
    cr_expect(rondo_arena_alloc(arena, SIZE_MAX, &pointer) == rondoSystemError);
    cr_expect(strstr(rondo_last_error(), "18446744073709551615 bytes") != NULL);
    cr_expect(rondo_arena_alloc(arena, SIZE_MAX - 8, &pointer) == rondoSystemError);
    cr_expect(rondo_arena_bytes(arena) == 0);
    rondo_arena_destroy(arena);
}

static void *use_arena(void *arena)
{
    for (int i = 0; i < 2000; i++) {
        void *pointer;
        cr_assert(rondo_arena_alloc(arena, (size_t)(i % 300), &pointer) == rondoSuccess);
        if (i % 3)
            rondo_arena_free(arena, pointer);
    }
    return NULL;
}

Test(arena, serves_threads_at_once)
{
    struct rondo_arena *arena;
    pthread_t threads[4];
    cr_assert(rondo_arena_create(&arena) == rondoSuccess);
    for (int i = 0; i < 4; i++)
        cr_assert(pthread_create(&threads[i], NULL, use_arena, arena) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rondo_arena_destroy(arena);
    cr_expect(rondo_arena_total_bytes() == 0);
}

/* jemalloc has a bounded number of arenas: they must be given back. */
Test(arena, many_may_come_and_go)
{
    for (int i = 0; i < 10000; i++) {
        struct rondo_arena *arena;
        void *pointer;
        cr_assert(rondo_arena_create(&arena) == rondoSuccess);
        cr_assert(rondo_arena_alloc(arena, 100, &pointer) == rondoSuccess);
        rondo_arena_destroy(arena);
    }
    cr_expect(rondo_arena_total_bytes() == 0);
}
