#include "nccl/parameter.h"

#include "common/env.h"
#include "common/result.h"
#include "nccl/reading.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A row of the environment's table. */
struct row {
    const char *name;
    bool is_text;
    size_t at; /* in struct rondo_env */
};

enum { INT, TEXT };
#define RONDO_ENV(field, kind, name, preset, low, high, help) {#name, kind == TEXT, offsetof(struct rondo_env, field)},
static const struct row rows[] = {
#include "common/env.def"
};
#undef RONDO_ENV

/* A key, and its value. */
struct ncclParam {
    const char *key;
    bool is_text;
    int64_t number;
    const char *text; /* of numbers too */
    char digits[24];
};

enum { MOST = 64 };
static struct ncclParam params[MOST]; /* constant after `once`, as are the next two */
static const char *keys[MOST];
static int count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static void collect(void)
{
    const char *env = (const char *)rondo_env();
    for (size_t i = 0; i < rondo_nccl_parameter_count && count < MOST; i++) {
        const struct row *row = find_row(rondo_nccl_parameters[i].row);
        struct ncclParam *param = &params[count];
        if (!row)
            continue;
        *param = (struct ncclParam){.key = rondo_nccl_parameters[i].name, .is_text = row->is_text};
        if (row->is_text) {
            const char *text = *(const rondo_env_TEXT *)(const void *)(env + row->at);
            param->text = text ? text : "";
        } else {
            param->number = *(const rondo_env_INT *)(const void *)(env + row->at);
            snprintf(param->digits, sizeof param->digits, "%" PRId64, param->number);
            param->text = param->digits;
        }
        keys[count++] = param->key;
    }
}

static ncclResult_t find(const char *key, const struct ncclParam **out)
{
    static const char prefix[] = "NCCL_";
    const size_t skipped = sizeof prefix - 1;
    pthread_once(&once, collect);
    if (!key)
        return rondo_fail(rondoInvalidArgument, "key is NULL");
    const char *name = strncmp(key, prefix, skipped) == 0 ? key + skipped : key;
    for (int i = 0; i < count; i++) {
        if (strcmp(keys[i] + skipped, name) != 0)
            continue;
        *out = &params[i];
        return rondoSuccess;
    }
    return rondo_fail(rondoInvalidArgument, "%s is not a parameter that Rondo has", key);
}

ncclResult_t pncclParamBind(ncclParamHandle_t *handle, const char *key)
{
    const struct ncclParam *found;
    if (!handle)
        return rondo_fail(rondoInvalidArgument, "handle is NULL");
    *handle = NULL;
    RONDO_TRY(find(key, &found));
    *handle = &params[found - params];
    return rondoSuccess;
}

/* ---- values ---- */

static ncclResult_t number(const struct ncclParam *param, const void *out, int64_t low, int64_t high, int64_t *value)
{
    if (!param || !out)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", param ? "out" : "handle");
    if (param->is_text || param->number < low || param->number > high)
        return rondo_fail(rondoInvalidArgument, "%s is %s, not a number from %" PRId64 " to %" PRId64, param->key,
                          param->text, low, high);
    *value = param->number;
    return rondoSuccess;
}

ncclResult_t pncclParamGetI8(ncclParamHandle_t handle, int8_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, INT8_MIN, INT8_MAX, &value));
    *out = (int8_t)value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetI16(ncclParamHandle_t handle, int16_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, INT16_MIN, INT16_MAX, &value));
    *out = (int16_t)value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetI32(ncclParamHandle_t handle, int32_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, INT32_MIN, INT32_MAX, &value));
    *out = (int32_t)value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetI64(ncclParamHandle_t handle, int64_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, INT64_MIN, INT64_MAX, &value));
    *out = value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetU8(ncclParamHandle_t handle, uint8_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, 0, UINT8_MAX, &value));
    *out = (uint8_t)value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetU16(ncclParamHandle_t handle, uint16_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, 0, UINT16_MAX, &value));
    *out = (uint16_t)value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetU32(ncclParamHandle_t handle, uint32_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, 0, UINT32_MAX, &value));
    *out = (uint32_t)value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetU64(ncclParamHandle_t handle, uint64_t *out)
{
    int64_t value;
    RONDO_TRY(number(handle, out, 0, INT64_MAX, &value));
    *out = (uint64_t)value;
    return rondoSuccess;
}

ncclResult_t pncclParamGetStr(ncclParamHandle_t handle, const char **out)
{
    if (!handle || !out)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", handle ? "out" : "handle");
    if (!handle->is_text)
        return rondo_fail(rondoInvalidArgument, "%s is a number", handle->key);
    *out = handle->text;
    return rondoSuccess;
}

ncclResult_t pncclParamGet(ncclParamHandle_t handle, void *out, int room, int *length)
{
    if (!handle || !out)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", handle ? "out" : "handle");
    const void *from = handle->is_text ? (const void *)handle->text : &handle->number;
    const size_t bytes = handle->is_text ? strlen(handle->text) + 1 : sizeof handle->number;
    if (room < 0 || (size_t)room < bytes)
        return rondo_fail(rondoInvalidArgument, "%s has %zu bytes, and there is room for %d", handle->key, bytes, room);
    memcpy(out, from, bytes);
    if (length)
        *length = (int)bytes;
    return rondoSuccess;
}

ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *length)
{
    const struct ncclParam *found;
    if (!value || !length)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", value ? "valueLen" : "value");
    RONDO_TRY(find(key, &found));
    *value = found->text;
    *length = (int)strlen(found->text);
    return rondoSuccess;
}

ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *table_count)
{
    if (!table || !table_count)
        return rondo_fail(rondoInvalidArgument, "%s is NULL", table ? "tableLen" : "table");
    pthread_once(&once, collect);
    *table = keys;
    *table_count = count;
    return rondoSuccess;
}

void pncclParamDumpAll(void)
{
    pthread_once(&once, collect);
    for (int i = 0; i < count; i++)
        printf("%s=%s\n", params[i].key, params[i].text);
    fflush(stdout);
}

NCCL_ALIAS(ParamBind);
NCCL_ALIAS(ParamGetI8);
NCCL_ALIAS(ParamGetI16);
NCCL_ALIAS(ParamGetI32);
NCCL_ALIAS(ParamGetI64);
NCCL_ALIAS(ParamGetU8);
NCCL_ALIAS(ParamGetU16);
NCCL_ALIAS(ParamGetU32);
NCCL_ALIAS(ParamGetU64);
NCCL_ALIAS(ParamGetStr);
NCCL_ALIAS(ParamGet);
NCCL_ALIAS(ParamGetParameter);
NCCL_ALIAS(ParamGetAllParameterKeys);
NCCL_ALIAS(ParamDumpAll);
