/* The one error type, and the thread's text that goes with it. Who detects an error says it once, with rondo_fail;
 * who passes it on uses RONDO_TRY and is silent. */
#ifndef RONDO_COMMON_RESULT_H
#define RONDO_COMMON_RESULT_H

#include "rondo/rondo.h"

#include <stdbool.h>

/* Sets the calling thread's error text, logs it at level WARN and returns `result`. */
__attribute__((format(printf, 2, 3))) rondoResult_t rondo_fail(rondoResult_t result, const char *format, ...);

/* While it is on, what fails in the calling thread is logged at level INFO: for tries that have an alternative, whose caller warns.
 * Gives what was before. */
bool rondo_fail_softly(bool on);

/* Sets the text without logging: for errors that are detected in another thread and only handed over here. */
__attribute__((format(printf, 2, 3))) rondoResult_t rondo_repeat(rondoResult_t result, const char *format, ...);

/* The calling thread's text, "" at first. Owned by the thread. */
const char *rondo_last_error(void);

/* A constant text for a result code. */
const char *rondo_result_text(rondoResult_t result);

#define RONDO_TRY(call)                 \
    do {                                \
        rondoResult_t result_ = (call); \
        if (result_ != rondoSuccess)    \
            return result_;             \
    } while (0)

#define RONDO_TRY_GOTO(result, label, call) \
    do {                                    \
        (result) = (call);                  \
        if ((result) != rondoSuccess)       \
            goto label;                     \
    } while (0)

/* An invariant of our own; stays on in release builds, ends the process with file and line. */
#define RONDO_ASSERT(condition) ((condition) ? (void)0 : rondo_assert_failed(#condition, __FILE__, __LINE__))

_Noreturn void rondo_assert_failed(const char *condition, const char *file, int line);

#endif
