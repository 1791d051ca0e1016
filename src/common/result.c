#include "common/result.h"

#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES = 1024 };

static _Thread_local char text[TEXT_BYTES];
static _Thread_local bool soft;

static void set_text(const char *format, va_list list)
{
    char fresh[TEXT_BYTES]; /* the arguments may point into the old text */
    vsnprintf(fresh, sizeof fresh, format, list);
    snprintf(text, sizeof text, "%s", fresh);
}

rondoResult_t rondo_fail(rondoResult_t result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    set_text(format, list);
    va_end(list);
    rondo_log(soft ? RONDO_LOG_INFO : RONDO_LOG_WARN, "%s: %s", rondo_result_text(result), text);
    return result;
}

bool rondo_fail_softly(bool on)
{
    const bool before = soft;
    soft = on;
    return before;
}

rondoResult_t rondo_repeat(rondoResult_t result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    set_text(format, list);
    va_end(list);
    return result;
}

const char *rondo_last_error(void)
{
    return text;
}

const char *rondo_result_text(rondoResult_t result)
{
    static const char *const texts[] = {
        [rondoSuccess] = "no error",
        [rondoUnhandledCudaError] = "a call of the CUDA driver failed",
        [rondoSystemError] = "a system call failed",
        [rondoInternalError] = "internal error",
        [rondoInvalidArgument] = "invalid argument",
        [rondoInvalidUsage] = "invalid usage",
        [rondoRemoteError] = "another rank failed or left",
        [rondoInProgress] = "in progress",
        [rondoTimeout] = "a rank did not arrive in time",
    };
    return (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}

void rondo_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "rondo: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

rondoResult_t rondoGetVersion(int *version)
{
    if (!version)
        return rondo_fail(rondoInvalidArgument, "version is NULL");
    *version = RONDO_VERSION_CODE;
    return rondoSuccess;
}

const char *rondoGetErrorString(rondoResult_t result)
{
    return rondo_result_text(result);
}

const char *rondoGetLastError(rondoComm_t comm)
{
    (void)comm;
    return rondo_last_error();
}
