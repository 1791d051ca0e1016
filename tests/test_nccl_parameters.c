/* NCCL's parameters: what they mean to Rondo's, and how programs read them. Each test is a process of its own, so its environment
 * is read anew. */
#include "common/env.h"
#include "nccl/config.h"
#include "nccl/parameter.h"
#include "nccl/reading.h"

#include <criterion/criterion.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(nccl_parameters, stand_for_rondos_where_these_are_not_set)
{
    setenv("NCCL_MIN_CTAS", "3", 1);
    setenv("NCCL_MAX_CTAS", "9", 1);
    setenv("RONDO_MAX_CTAS", "8", 1);
    setenv("NCCL_BUFFSIZE", "4194304", 1);
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("NCCL_CUMEM_ENABLE", "0", 1);
    setenv("NCCL_NTHREADS", "256", 1);
    setenv("NCCL_P2P_DIRECT_DISABLE", "1", 1);
    setenv("NCCL_DEBUG_FILE", "/tmp/%h", 1);
    const struct rondo_env *env = rondo_env();
    cr_expect_eq(env->min_ctas, 3);
    cr_expect_eq(env->max_ctas, 8);
    cr_expect_eq(env->buffer_kib, 4096);
    cr_expect_eq(env->shared_device, 1);
    cr_expect_eq(env->cumem_enable, 0);
    cr_expect_eq(env->threads, 256);
    cr_expect_eq(env->p2p_direct_disable, 1);
    cr_expect_str_eq(env->debug_file, "/tmp/%h");
}

Test(nccl_parameters, have_their_older_names)
{
    setenv("NCCL_MIN_NCHANNELS", "4", 1);
    setenv("NCCL_MAX_NCHANNELS", "1000", 1);
    cr_expect_eq(rondo_env()->min_ctas, 4);
    cr_expect_eq(rondo_env()->max_ctas, 128);
}

Test(nccl_parameters, that_make_no_sense_are_ignored)
{
    setenv("NCCL_MIN_CTAS", "many", 1);
    setenv("NCCL_BUFFSIZE", "12", 1);
    setenv("NCCL_CUMEM_ENABLE", "-2", 1);
    setenv("NCCL_ALGO", "Ring", 1);
    setenv("NCCL_PROTO", "LL,Simple", 1);
    setenv("NCCL_DEBUG", "VERSION", 1);
    setenv("NCCL_SOCKET_IFNAME", "nosuchinterface", 1);
    setenv("NCCL_VERSION", "2.28.9-1", 1); /* containers have it */
    const struct rondo_env *env = rondo_env();
    int version;
    cr_expect_eq(env->min_ctas, -1);
    cr_expect_eq(env->buffer_kib, -1);
    cr_expect_eq(env->cumem_enable, 1);
    cr_expect_null(env->algo);
    cr_expect_null(env->proto);
    cr_expect_null(env->debug);
    cr_expect_null(env->socket_ifname);
    cr_assert_eq(ncclGetVersion(&version), rondoSuccess);
    cr_expect_eq(version, 22809);
    cr_expect_eq(ncclGetVersion(NULL), rondoInvalidArgument);
}

Test(nccl_parameters, name_another_version)
{
    int version;
    setenv("RONDO_NCCL_VERSION", "23007", 1);
    cr_assert_eq(ncclGetVersion(&version), rondoSuccess);
    cr_expect_eq(version, 23007);
}

Test(nccl_parameters, are_hints_where_rondo_has_the_like)
{
    setenv("NCCL_ALGO", "twoshot", 1);
    setenv("NCCL_PROTO", "Simple", 1);
    setenv("NCCL_DEBUG", "abort", 1);
    cr_expect_str_eq(rondo_env()->algo, "twoshot");
    cr_expect_str_eq(rondo_env()->proto, "bulk");
    cr_expect_str_eq(rondo_env()->debug, "INFO");
}

Test(nccl_parameters, win_over_a_config)
{
    ncclConfig_t config = {.size = sizeof config, .magic = NCCL_MAGIC, .version = 21400, .blocking = 1};
    rondoConfig_t read;
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    setenv("NCCL_MAX_CTAS", "5", 1);
    cr_assert_eq(rondo_nccl_config(&config, &read), rondoSuccess);
    cr_expect_eq(read.blocking, 0);
    cr_expect_eq(read.maxCTAs, 5);
    cr_assert_eq(rondo_nccl_config(NULL, &read), rondoSuccess);
    cr_expect_eq(read.blocking, 0);
}

/* ---- interfaces ---- */

static const char *interface(const char *text)
{
    static char room[256];
    for (size_t i = 0; i < rondo_nccl_parameter_count; i++)
        if (strcmp(rondo_nccl_parameters[i].name, "NCCL_SOCKET_IFNAME") == 0)
            return rondo_nccl_parameters[i].reading(text, room);
    return NULL;
}

Test(nccl_parameters, choose_interfaces_by_prefixes_exactly_or_by_what_they_are_not)
{
    if (!if_nametoindex("lo"))
        cr_skip_test("no interface lo");
    cr_expect_str_eq(interface("lo"), "lo");
    cr_expect_str_eq(interface("l"), "lo");
    cr_expect_str_eq(interface("nothing,lo"), "lo");
    cr_expect_str_eq(interface("=lo"), "lo");
    cr_expect_null(interface("=l"));
    cr_expect_null(interface("nothing"));
    const char *other = interface("^nothing");
    cr_expect(!other || strcmp(other, "lo") != 0);
}

/* ---- reading them ---- */

Test(nccl_parameters, are_read_by_programs)
{
    ncclParamHandle_t handle, again, text;
    const char **keys, *value;
    int count, length, found = 0;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    char bytes[64];
    setenv("NCCL_MAX_CTAS", "100", 1);
    setenv("NCCL_BUFFSIZE", "1048576", 1);
    setenv("NCCL_DEBUG_FILE", "/tmp/x", 1);
    cr_assert_eq(ncclParamBind(&handle, "NCCL_MAX_CTAS"), rondoSuccess);
    cr_assert_eq(ncclParamBind(&again, "MAX_CTAS"), rondoSuccess);
    cr_expect_eq(handle, again);
    cr_expect(ncclParamGetI8(handle, &i8) == rondoSuccess && i8 == 100);
    cr_expect(ncclParamGetI16(handle, &i16) == rondoSuccess && i16 == 100);
    cr_expect(ncclParamGetI32(handle, &i32) == rondoSuccess && i32 == 100);
    cr_expect(ncclParamGetI64(handle, &i64) == rondoSuccess && i64 == 100);
    cr_expect(ncclParamGetU8(handle, &u8) == rondoSuccess && u8 == 100);
    cr_expect(ncclParamGetU16(handle, &u16) == rondoSuccess && u16 == 100);
    cr_expect(ncclParamGetU32(handle, &u32) == rondoSuccess && u32 == 100);
    cr_expect(ncclParamGetU64(handle, &u64) == rondoSuccess && u64 == 100);
    cr_expect(ncclParamGet(handle, &i64, sizeof i64, &length) == rondoSuccess && i64 == 100 && length == 8);
    cr_expect_eq(ncclParamGet(handle, &i64, 4, NULL), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetStr(handle, &value), rondoInvalidArgument);
    cr_assert_eq(ncclParamBind(&handle, "BUFFSIZE"), rondoSuccess);
    cr_expect_eq(ncclParamGetI8(handle, &i8), rondoInvalidArgument); /* 1024 does not fit */
    cr_assert_eq(ncclParamBind(&handle, "MIN_CTAS"), rondoSuccess);
    cr_expect_eq(ncclParamGetU32(handle, &u32), rondoInvalidArgument); /* -1, not set */
    cr_assert_eq(ncclParamBind(&text, "DEBUG_FILE"), rondoSuccess);
    cr_expect(ncclParamGetStr(text, &value) == rondoSuccess && strcmp(value, "/tmp/x") == 0);
    cr_expect_eq(ncclParamGetI64(text, &i64), rondoInvalidArgument);
    cr_expect(ncclParamGet(text, bytes, sizeof bytes, &length) == rondoSuccess && length == 7);
    cr_expect(ncclParamGetParameter("NCCL_MAX_CTAS", &value, &length) == rondoSuccess && length == 3);
    cr_expect_str_eq(value, "100");
    cr_assert_eq(ncclParamGetAllParameterKeys(&keys, &count), rondoSuccess);
    for (int i = 0; i < count; i++) {
        found += strcmp(keys[i], "NCCL_MAX_CTAS") == 0;
        cr_expect_eq(ncclParamBind(&handle, keys[i]), rondoSuccess);
    }
    cr_expect_eq(found, 1);
}

Test(nccl_parameters, that_are_unknown_or_asked_for_with_null_are_refused)
{
    ncclParamHandle_t handle = NULL;
    const char **keys, *value;
    int number;
    cr_expect_eq(ncclParamBind(&handle, "NCCL_NO_SUCH"), rondoInvalidArgument);
    cr_expect_null(handle);
    cr_expect_eq(ncclParamBind(&handle, NULL), rondoInvalidArgument);
    cr_expect_eq(ncclParamBind(NULL, "DEBUG"), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetI32(NULL, &number), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetStr(NULL, &value), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetParameter("DEBUG", NULL, &number), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetParameter("DEBUG", &value, NULL), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetParameter(NULL, &value, &number), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetAllParameterKeys(NULL, &number), rondoInvalidArgument);
    cr_expect_eq(ncclParamGetAllParameterKeys(&keys, NULL), rondoInvalidArgument);
    cr_assert_eq(ncclParamBind(&handle, "MAX_CTAS"), rondoSuccess);
    cr_expect_eq(ncclParamGetI32(handle, NULL), rondoInvalidArgument);
}
