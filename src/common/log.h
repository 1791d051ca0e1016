/* Log lines, silent by default. RONDO_DEBUG=WARN|INFO|TRACE turns them on, RONDO_DEBUG_FILE sends them to a file (%h host, %p pid),
 * else they go to standard error. Nothing is logged per op. */
#ifndef RONDO_COMMON_LOG_H
#define RONDO_COMMON_LOG_H

/* What a line of level INFO is about; RONDO_DEBUG_SUBSYS chooses. */
enum rondo_log_part { RONDO_LOG_INIT, RONDO_LOG_BOOTSTRAP, RONDO_LOG_ENV };

enum rondo_log_level { RONDO_LOG_NONE, RONDO_LOG_WARN, RONDO_LOG_INFO, RONDO_LOG_TRACE };

/* One line, without the newline. Thread-safe; lines are written whole. */
__attribute__((format(printf, 2, 3))) void rondo_log(enum rondo_log_level level, const char *format, ...);

/* The same at level INFO, if its part is asked for. */
__attribute__((format(printf, 2, 3))) void rondo_log_info(enum rondo_log_part part, const char *format, ...);

/* The device that lines of the calling thread name, in the drop-in. 0 at first. */
void rondo_log_device(int ordinal);

/* Whether a line of this level would be written, for callers whose arguments cost something. */
int rondo_log_enabled(enum rondo_log_level level);

#endif
