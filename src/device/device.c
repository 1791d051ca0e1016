#include "device/device.h"

#include "common/env.h"
#include "common/result.h"

#include <pthread.h>
#include <string.h>

/* In order of preference. */
static const struct rondo_device_ops *const rows[] = {
#ifdef RONDO_WITH_CUDA
    &rondo_device_cuda,
#endif
    &rondo_device_host,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct rondo_device_ops *chosen;
static const char *reason; /* why the row asked for cannot be used */

const struct rondo_device_ops *(*rondo_device_wrap)(const struct rondo_device_ops *row);

static void choose(void)
{
    const char *wanted = rondo_env()->device;
    reason = "it is not built in, or unknown";
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !chosen; i++) {
        if (wanted && strcmp(wanted, rows[i]->name))
            continue;
        reason = rows[i]->unusable();
        if (!reason)
            chosen = rondo_device_wrap ? rondo_device_wrap(rows[i]) : rows[i];
    }
}

rondoResult_t rondo_device_row(const struct rondo_device_ops **ops)
{
    pthread_once(&once, choose);
    if (!chosen)
        return rondo_fail(rondoInvalidUsage, "RONDO_DEVICE=%s cannot be used: %s", rondo_env()->device, reason);
    *ops = chosen;
    return rondoSuccess;
}
