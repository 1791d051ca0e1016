/* NCCL's config, of any of its versions, as Rondo's. */
#ifndef RONDO_NCCL_CONFIG_H
#define RONDO_NCCL_CONFIG_H

#include "nccl/types.h"

/* What the caller's struct does not have, or its version did not, is undefined. NULL: all of it. NCCL_* parameters win over
 * fields, as in NCCL. *config borrows the texts of `user`. rondoInvalidArgument: bad magic, size or value. */
ncclResult_t rondo_nccl_config(const ncclConfig_t *user, rondoConfig_t *config);

#endif
