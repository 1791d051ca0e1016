/* The ping-pong kernel for the host device, and where both are. */
#include "pingpong_body.h"
#include "side.h"

RONDO_KERNEL pingpong(const void *args)
{
    pingpong_body(args);
}

static void (*const entry)(const void *) = pingpong;

#ifdef RONDO_WITH_CUDA
extern const char rondo_fatbin_pingpong[];
#define FATBIN rondo_fatbin_pingpong
#else
#define FATBIN NULL
#endif

const struct rondo_image pingpong_image = {.name = "rondo_pingpong", .fatbin = FATBIN, .host = &entry};
