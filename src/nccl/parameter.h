/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's parameters, as 2.30.7 lets programs read them. A key is a NCCL_* name, with or without that prefix, of which Rondo has
 * the like; its value is what this process uses. rondoInvalidArgument: NULL, an unknown key, or a value that is not of
 * the type or does not fit. */
#ifndef RONDO_NCCL_PARAMETER_H
#define RONDO_NCCL_PARAMETER_H

#include "nccl/nccl.h"

#include <stdint.h>

/* The same handle each time; it is never freed. */
NCCL_DECLARE(ncclResult_t, ParamBind, ncclParamHandle_t *handle, const char *key);
NCCL_DECLARE(ncclResult_t, ParamGetI8, ncclParamHandle_t handle, int8_t *out);
NCCL_DECLARE(ncclResult_t, ParamGetI16, ncclParamHandle_t handle, int16_t *out);
NCCL_DECLARE(ncclResult_t, ParamGetI32, ncclParamHandle_t handle, int32_t *out);
NCCL_DECLARE(ncclResult_t, ParamGetI64, ncclParamHandle_t handle, int64_t *out);
NCCL_DECLARE(ncclResult_t, ParamGetU8, ncclParamHandle_t handle, uint8_t *out);
NCCL_DECLARE(ncclResult_t, ParamGetU16, ncclParamHandle_t handle, uint16_t *out);
NCCL_DECLARE(ncclResult_t, ParamGetU32, ncclParamHandle_t handle, uint32_t *out);
NCCL_DECLARE(ncclResult_t, ParamGetU64, ncclParamHandle_t handle, uint64_t *out);
/* A text that is not set is "". */
NCCL_DECLARE(ncclResult_t, ParamGetStr, ncclParamHandle_t handle, const char **out);
/* The value's bytes: an int64_t, or a text with its end. *length: how many; may be NULL. */
NCCL_DECLARE(ncclResult_t, ParamGet, ncclParamHandle_t handle, void *out, int room, int *length);
/* As text; *length is without its end. Lives as long as the process, as do the keys. */
NCCL_DECLARE(ncclResult_t, ParamGetParameter, const char *key, const char **value, int *length);
NCCL_DECLARE(ncclResult_t, ParamGetAllParameterKeys, const char ***keys, int *count);
/* Onto standard output, a line each. */
NCCL_DECLARE(void, ParamDumpAll, void);

#endif
