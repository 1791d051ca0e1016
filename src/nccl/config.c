#include "nccl/config.h"

#include "common/env.h"
#include "common/result.h"

#include <limits.h>
#include <string.h>

enum { MOST_CTAS = 128 };

/* Numbers of the struct: since which version it has them, and what they may be. Of those whose feature Rondo lacks the
 * values are checked and make no difference. */
static const struct field {
    const char *name;
    size_t at;
    unsigned since;
    int low, high;
} fields[] = {
    {"blocking", offsetof(ncclConfig_t, blocking), 21400, 0, 1},
    {"cgaClusterSize", offsetof(ncclConfig_t, cgaClusterSize), 21700, 0, 8},
    {"minCTAs", offsetof(ncclConfig_t, minCTAs), 21700, 1, INT_MAX},
    {"maxCTAs", offsetof(ncclConfig_t, maxCTAs), 21700, 1, INT_MAX},
    {"splitShare", offsetof(ncclConfig_t, splitShare), 21800, 0, 1},
    {"collnetEnable", offsetof(ncclConfig_t, collnetEnable), 22700, 0, 1},
    {"CTAPolicy", offsetof(ncclConfig_t, CTAPolicy), 22700, 0, 3},
    {"shrinkShare", offsetof(ncclConfig_t, shrinkShare), 22700, 0, 1},
    {"nvlsCTAs", offsetof(ncclConfig_t, nvlsCTAs), 22700, 1, INT_MAX},
    {"nChannelsPerNetPeer", offsetof(ncclConfig_t, nChannelsPerNetPeer), 22800, 1, INT_MAX},
    {"nvlinkCentricSched", offsetof(ncclConfig_t, nvlinkCentricSched), 22800, 0, 1},
    {"graphUsageMode", offsetof(ncclConfig_t, graphUsageMode), 22900, 0, 2},
    {"graphStreamOrdering", offsetof(ncclConfig_t, graphStreamOrdering), 23000, 0, 1},
};

enum { NAME_SINCE = 22700 };

/* Whether the caller's struct has the bytes of a field, and its version the field. */
static bool has(const ncclConfig_t *user, size_t at, size_t bytes, unsigned since)
{
    return user->version >= since && user->size >= at + bytes;
}

static rondoResult_t check(const ncclConfig_t *user)
{
    if (user->magic != NCCL_MAGIC || user->size < offsetof(ncclConfig_t, blocking))
        return rondo_fail(rondoInvalidArgument, "config was not set up with NCCL_CONFIG_INITIALIZER");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const struct field *f = &fields[i];
        int value = NCCL_CONFIG_UNDEF_INT;
        if (has(user, f->at, sizeof value, f->since))
            memcpy(&value, (const char *)user + f->at, sizeof value);
        if (value != NCCL_CONFIG_UNDEF_INT && (value < f->low || value > f->high))
            return rondo_fail(rondoInvalidArgument, "config.%s is %d, must be %d to %d", f->name, value, f->low,
                              f->high);
    }
    return rondoSuccess;
}

static int number(const ncclConfig_t *user, size_t at, unsigned since)
{
    int value = NCCL_CONFIG_UNDEF_INT;
    if (has(user, at, sizeof value, since))
        memcpy(&value, (const char *)user + at, sizeof value);
    return value;
}

static int most(int ctas)
{
    return ctas > MOST_CTAS ? MOST_CTAS : ctas;
}

ncclResult_t rondo_nccl_config(const ncclConfig_t *user, rondoConfig_t *config)
{
    const struct rondo_env *env = rondo_env();
    int policy = NCCL_CONFIG_UNDEF_INT;
    *config = (rondoConfig_t)RONDO_CONFIG_INITIALIZER;
    if (user) {
        RONDO_TRY(check(user));
        config->blocking = number(user, offsetof(ncclConfig_t, blocking), 21400);
        config->minCTAs = most(number(user, offsetof(ncclConfig_t, minCTAs), 21700));
        config->maxCTAs = most(number(user, offsetof(ncclConfig_t, maxCTAs), 21700));
        policy = number(user, offsetof(ncclConfig_t, CTAPolicy), 22700);
        if (has(user, offsetof(ncclConfig_t, commName), sizeof config->commName, NAME_SINCE))
            config->commName = user->commName;
    }
    if (policy != NCCL_CONFIG_UNDEF_INT && env->cta_policy < 0) /* bits there; the second says more than the first */
        config->ctaPolicy = policy & RONDO_CTA_POLICY_ZERO ? RONDO_CTA_POLICY_ZERO : policy;
    if (env->comm_blocking >= 0)
        config->blocking = (int)env->comm_blocking;
    if (env->min_ctas >= 0)
        config->minCTAs = (int)env->min_ctas;
    if (env->max_ctas >= 0)
        config->maxCTAs = (int)env->max_ctas;
    return rondoSuccess;
}
