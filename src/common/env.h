/* The process's parameters, from the environment. */
#ifndef RONDO_COMMON_ENV_H
#define RONDO_COMMON_ENV_H

#include <stddef.h>

typedef long rondo_env_INT;
typedef const char *rondo_env_TEXT;

struct rondo_env {
#define RONDO_ENV(field, kind, name, preset, low, high, help) rondo_env_##kind field;
#include "common/env.def"
#undef RONDO_ENV
};

/* Read at the first call, constant afterwards. A value that does not parse or lies outside its bounds is reported once at
 * level WARN and replaced by the default (-1 presets mean "not set" and are always accepted). */
const struct rondo_env *rondo_env(void);

/* The same without the report: for the log, through which the report goes. */
const struct rondo_env *rondo_env_unreported(void);

#endif
