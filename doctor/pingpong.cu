/* The ping-pong kernel for GPUs. */
#include "pingpong_body.h"

RONDO_KERNEL rondo_pingpong(RONDO_ARGS(struct pingpong_args) args)
{
    pingpong_body(&args);
}
