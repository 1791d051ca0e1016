#include "comm/config.h"

#include "common/env.h"
#include "common/result.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_CTAS = 128,
    FEW_CTAS = 16,
    MIN_BUFFER_KIB = 64,
    MAX_BUFFER_KIB = 65536,
    MAX_TIMEOUT_MS = 86400000,
    BY_DEVICE = -1
};

/* What all ranks must have alike: the user's name, and ours. */
#define ALIKE(X)                   \
    X(minCTAs, min_ctas)           \
    X(maxCTAs, max_ctas)           \
    X(bufferKiB, buffer_kib)       \
    X(sharedDevice, shared_device) \
    X(graphLanes, graph_lanes)     \
    X(ctaPolicy, cta_policy)

#define X(given, own) OPEN_##own,
enum { ALIKE(X) };
#undef X

/* One field: the caller's value if there is one, checked; else the preset. */
static rondoResult_t take(const char *name, int given, int low, int high, long preset, int *value)
{
    if (given == RONDO_CONFIG_UNDEF_INT) {
        *value = (int)preset;
        return rondoSuccess;
    }
    if (given < low || given > high)
        return rondo_fail(rondoInvalidArgument, "config.%s is %d, must be %d to %d", name, given, low, high);
    *value = given;
    return rondoSuccess;
}

rondoResult_t rondo_config_read(const rondoConfig_t *user, struct rondo_config *config)
{
    const struct rondo_env *env = rondo_env();
    rondoConfig_t c = RONDO_CONFIG_INITIALIZER;
    memset(config, 0, sizeof *config);
    if (user) {
        if (user->magic != RONDO_CONFIG_MAGIC || user->size < offsetof(rondoConfig_t, blocking))
            return rondo_fail(rondoInvalidArgument, "config was not set up with RONDO_CONFIG_INITIALIZER");
        memcpy(&c, user, user->size < sizeof c ? user->size : sizeof c);
    }
    const long policy = env->cta_policy < 0 ? RONDO_CTA_POLICY_DEFAULT : env->cta_policy;
    int blocking = 1, shared = 0;
    RONDO_TRY(take("blocking", c.blocking, 0, 1, 1, &blocking));
    config->blocking = blocking;
    RONDO_TRY(take("minCTAs", c.minCTAs, 1, MAX_CTAS, env->min_ctas, &config->min_ctas));
    RONDO_TRY(take("maxCTAs", c.maxCTAs, 1, MAX_CTAS, env->max_ctas, &config->max_ctas));
    RONDO_TRY(take("timeoutMs", c.timeoutMs, 0, MAX_TIMEOUT_MS, env->timeout_ms, &config->timeout_ms));
    RONDO_TRY(take("bufferKiB", c.bufferKiB, MIN_BUFFER_KIB, MAX_BUFFER_KIB, env->buffer_kib, &config->buffer_kib));
    RONDO_TRY(take("sharedDevice", c.sharedDevice, 0, 1, env->shared_device, &shared));
    config->shared_device = shared;
    RONDO_TRY(take("graphLanes", c.graphLanes, 1, RONDO_MAX_GRAPH_LANES, env->graph_lanes, &config->graph_lanes));
    RONDO_TRY(
        take("ctaPolicy", c.ctaPolicy, RONDO_CTA_POLICY_DEFAULT, RONDO_CTA_POLICY_ZERO, policy, &config->cta_policy));
    config->check_pointers = env->check_pointers;
#define X(given, own) config->open |= (unsigned)(c.given == RONDO_CONFIG_UNDEF_INT) << OPEN_##own;
    ALIKE(X)
#undef X
    if (c.commName)
        snprintf(config->name, sizeof config->name, "%s", c.commName);
    return rondoSuccess;
}

void rondo_config_adopt(struct rondo_config *config, const struct rondo_config *other)
{
#define X(given, own) config->own = config->open & 1u << OPEN_##own ? other->own : config->own;
    ALIKE(X)
#undef X
}

rondoResult_t rondo_config_complete(struct rondo_config *config, const struct rondo_device_info *info)
{
    if (config->min_ctas == BY_DEVICE)
        config->min_ctas = 1;
    int most = info->default_ctas;
    if (config->cta_policy != RONDO_CTA_POLICY_DEFAULT && most > FEW_CTAS)
        most = FEW_CTAS;
    if (config->max_ctas == BY_DEVICE)
        config->max_ctas = config->min_ctas > most ? config->min_ctas : most;
    if (config->buffer_kib == BY_DEVICE)
        config->buffer_kib = info->default_buffer_kib;
    if (config->min_ctas > config->max_ctas)
        return rondo_fail(rondoInvalidArgument, "minCTAs is %d, above maxCTAs, which is %d", config->min_ctas,
                          config->max_ctas);
    return rondoSuccess;
}
