#include "side.h"

#include "pingpong.h"
#include "talk.h"

#include "common/clock.h"
#include "common/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t side_memory_bytes(const struct probe *probe)
{
    return PINGPONG_BOX_BYTES + probe->bytes;
}

rondoResult_t side_open(const struct probe *probe, struct side *side)
{
    const struct rondo_device_ops *ops = probe->ops;
    side->words = malloc(probe->bytes);
    if (!side->words)
        return rondo_fail(rondoSystemError, "out of memory");
    RONDO_TRY(ops->mem_alloc(side->device, probe->bytes, RONDO_MEM_PRIVATE, &side->stage));
    RONDO_TRY(ops->pinned_alloc(side->device, sizeof(struct pingpong_report), &side->pinned));
    /* Not when the other side's kernel is running already: loading might wait for it. */
    RONDO_TRY(ops->kernel_of(side->device, &pingpong_image, &side->kernel));
    return ops->event_create(side->device, &side->event);
}

void side_close(const struct probe *probe, struct side *side)
{
    const struct rondo_device_ops *ops = probe->ops;
    if (side->event)
        ops->event_destroy(side->device, side->event);
    if (side->pinned.host)
        ops->pinned_free(side->device, &side->pinned);
    if (side->stage.address)
        ops->mem_free(side->device, &side->stage);
    free(side->words);
    memset(side, 0, sizeof *side);
}

static void say(struct result *result, const char *text)
{
    if (!result->why[0])
        snprintf(result->why, sizeof result->why, "%s", text);
}

/* ---- copies ---- */

static uint32_t pattern(int role, size_t i)
{
    return (uint32_t)i * 2654435761u + (uint32_t)role * 0x9e3779b9u + 1;
}

static size_t wrong_words(const struct probe *probe, const struct side *side, int role)
{
    size_t wrong = 0;
    for (size_t i = 0; i < probe->bytes / 4; i++)
        wrong += side->words[i] != pattern(role, i);
    return wrong;
}

static rondoResult_t timed_copies(const struct probe *probe, struct side *side, void *to, const void *from, double *gbs)
{
    RONDO_TRY(probe->ops->copy(side->device, to, from, probe->bytes));
    const uint64_t begin = rondo_now_ns();
    for (int i = 0; i < probe->repeats; i++)
        RONDO_TRY(probe->ops->copy(side->device, to, from, probe->bytes));
    const uint64_t ns = rondo_now_ns() - begin;
    *gbs = ns ? (double)probe->bytes * probe->repeats / (double)ns : 0;
    return rondoSuccess;
}

static rondoResult_t write_there(const struct probe *probe, struct side *side, double *gbs)
{
    for (size_t i = 0; i < probe->bytes / 4; i++)
        side->words[i] = pattern(side->role, i);
    RONDO_TRY(probe->ops->copy(side->device, side->stage.address, side->words, probe->bytes));
    return timed_copies(probe, side, side->theirs + PINGPONG_BOX_BYTES, side->stage.address, gbs);
}

/* What the other wrote here. */
static rondoResult_t look_here(const struct probe *probe, struct side *side, size_t *wrong)
{
    memset(side->words, 0, probe->bytes);
    RONDO_TRY(probe->ops->copy(side->device, side->words, side->mine + PINGPONG_BOX_BYTES, probe->bytes));
    *wrong = wrong_words(probe, side, 1 - side->role);
    return rondoSuccess;
}

/* What this side wrote there, read back. */
static rondoResult_t read_there(const struct probe *probe, struct side *side, double *gbs, size_t *wrong)
{
    RONDO_TRY(probe->ops->fill(side->device, side->stage.address, 4, 0, probe->bytes / 4));
    RONDO_TRY(timed_copies(probe, side, side->stage.address, side->theirs + PINGPONG_BOX_BYTES, gbs));
    memset(side->words, 0, probe->bytes);
    RONDO_TRY(probe->ops->copy(side->device, side->words, side->stage.address, probe->bytes));
    *wrong = wrong_words(probe, side, side->role);
    return rondoSuccess;
}

enum step { WRITE, LOOK, READ };

/* One step of one side. False: it failed, or what arrived is wrong. */
static bool do_step(const struct probe *probe, struct side *side, enum step step, struct result *result)
{
    static const char *const texts[] = {"", "words that the other device's copy wrote", "words that a copy read back"};
    char text[WHY_BYTES];
    size_t wrong = 0;
    rondoResult_t done = step == WRITE  ? write_there(probe, side, &result->write_gbs[side->role])
                         : step == LOOK ? look_here(probe, side, &wrong)
                                        : read_there(probe, side, &result->read_gbs[side->role], &wrong);
    if (done == rondoSuccess && !wrong)
        return true;
    result->wrong = true;
    if (done != rondoSuccess)
        snprintf(text, sizeof text, "a copy failed: %.150s", rondo_last_error());
    else
        snprintf(text, sizeof text, "device %d: %zu of %zu %s are wrong", probe->devices[side->role], wrong,
                 probe->bytes / 4, texts[step]);
    say(result, text);
    return false;
}

/* One device at a time, so that what is measured is its own. */
static bool try_copies(const struct probe *probe, struct side sides[2], struct result *result)
{
    static const enum step steps[] = {WRITE, LOOK, READ};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        for (int role = 0; role < 2; role++) {
            const bool well = !sides[role].here || do_step(probe, &sides[role], steps[s], result);
            if (!talk_agree(probe, well, &result->lost))
                return false;
        }
    }
    result->copies = true;
    return true;
}

/* ---- kernels ---- */

static rondoResult_t launch(const struct probe *probe, struct side *side)
{
    const struct rondo_device_ops *ops = probe->ops;
    struct pingpong_args args = {
        .mine = (struct pingpong_box *)(void *)side->mine,
        .theirs = (struct pingpong_box *)(void *)side->theirs,
        .report = side->pinned.device,
        .limit_ns = probe->limit_ns,
        .role = (uint32_t)side->role,
        .rounds = probe->rounds,
        .litmus = probe->rounds / 4,
    };
    const struct rondo_launch how = {
        .kernel = side->kernel, .blocks = 1, .threads = 1, .args = &args, .args_bytes = sizeof args};
    void *token;
    RONDO_TRY(ops->enter(side->device, &token));
    rondoResult_t result = ops->launch(side->device, &how);
    if (result == rondoSuccess)
        result = ops->event_record(side->device, side->event, NULL);
    ops->leave(side->device, token);
    return result;
}

static bool await_start(const struct probe *probe, const struct side *side)
{
    const struct pingpong_report *report = side->pinned.host;
    const uint64_t end = rondo_now_ns() + probe->limit_ns / 2;
    while (!__atomic_load_n(&report->started, __ATOMIC_ACQUIRE)) {
        if (rondo_now_ns() > end)
            return false;
        rondo_sleep_ns(20000);
    }
    return true;
}

static bool start(const struct probe *probe, struct side *side, struct result *result)
{
    char text[WHY_BYTES];
    const bool launched = launch(probe, side) == rondoSuccess;
    if (launched && await_start(probe, side))
        return true;
    result->lost = true;
    snprintf(text, sizeof text, "device %d: the kernel did not start%s%.120s", probe->devices[side->role],
             launched ? ": is the device busy?" : ": ", launched ? "" : rondo_last_error());
    say(result, text);
    return false;
}

/* Collects what the kernel says. */
static bool finish(const struct probe *probe, struct side *side, struct result *result)
{
    const struct pingpong_report *report = side->pinned.host;
    char text[WHY_BYTES] = "";
    bool done = false;
    /* A kernel that waits in vain waits once. */
    if (probe->ops->event_wait_host(side->device, side->event, 3 * probe->limit_ns, &done) != rondoSuccess || !done) {
        result->lost = true;
        snprintf(text, sizeof text, "device %d: the kernel did not end", probe->devices[side->role]);
    } else if (report->started == PINGPONG_LEFT) {
        result->lost = true;
        snprintf(text, sizeof text, "device %d: the other's kernel did not start", probe->devices[side->role]);
    } else if (report->rounds < probe->rounds) {
        result->wrong = true;
        snprintf(text, sizeof text, "device %d: the other's store of round %u did not become visible within %.1f s",
                 probe->devices[side->role], report->rounds + 1, (double)probe->limit_ns * 1e-9);
    } else if (report->wrong) {
        result->wrong = true;
        snprintf(text, sizeof text, "device %d: %u words came behind the flag that was stored after them",
                 probe->devices[side->role], report->wrong);
    } else if (side->role == 0) {
        const uint64_t ns = report->ns[0] | (uint64_t)report->ns[1] << 32;
        result->latency_us = (double)ns * 1e-3 / (2.0 * (probe->rounds - probe->rounds / 4));
    }
    if (text[0])
        say(result, text);
    return !text[0];
}

static bool try_kernels(const struct probe *probe, struct side sides[2], struct result *result)
{
    bool well = true;
    for (int role = 0; role < 2; role++)
        if (sides[role].here)
            well &=
                probe->ops->fill(sides[role].device, sides[role].mine, 4, 0, PINGPONG_BOX_BYTES / 4) == rondoSuccess;
    if (!talk_agree(probe, well, &result->lost)) /* both boxes are empty */
        return false;
    for (int role = 0; role < 2; role++)
        if (sides[role].here)
            well &= start(probe, &sides[role], result);
    const bool both = talk_agree(probe, well, &result->lost);
    for (int role = 0; role < 2; role++)
        if (sides[role].here && both)
            __atomic_store_n(&((struct pingpong_report *)sides[role].pinned.host)->go, 1, __ATOMIC_RELEASE);
    if (!both)
        return false;
    for (int role = 0; role < 2; role++)
        if (sides[role].here)
            well &= finish(probe, &sides[role], result);
    if (!talk_agree(probe, well, &result->lost))
        return false;
    result->kernels = true;
    return true;
}

void sides_try(const struct probe *probe, struct side sides[2], struct result *result)
{
    if (try_copies(probe, sides, result))
        try_kernels(probe, sides, result);
    if (result->lost)
        say(result, "the process of the other device did not answer");
}
