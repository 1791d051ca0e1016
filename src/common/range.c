#include "common/range.h"

#include "common/env.h"
#include "common/log.h"

#include <pthread.h>

int rondo_ranges;

#ifdef RONDO_WITH_NVTX

#include <nvtx3/nvToolsExt.h>

static nvtxDomainHandle_t domain; /* constant once rondo_ranges is 1 */

static bool open_domain(void)
{
    domain = nvtxDomainCreateA("rondo");
    return true;
}

void rondo_range_push(const char *name, uint64_t bytes)
{
    nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
                                        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                        .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                        .messageType = NVTX_MESSAGE_TYPE_ASCII};
    attributes.payload.ullValue = bytes;
    attributes.message.ascii = name;
    nvtxDomainRangePushEx(domain, &attributes);
}

void rondo_range_pop(void)
{
    nvtxDomainRangePop(domain);
}

#else

static bool open_domain(void)
{
    rondo_log(RONDO_LOG_WARN, "RONDO_NVTX=1, but this library was built without NVTX's headers; ignored");
    return false;
}

void rondo_range_push(const char *name, uint64_t bytes)
{
    (void)name;
    (void)bytes;
}

void rondo_range_pop(void) {}

#endif

static void open_once(void)
{
    if (rondo_env()->nvtx && open_domain())
        __atomic_store_n(&rondo_ranges, 1, __ATOMIC_RELEASE); /* rondo_range_begin */
}

void rondo_ranges_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
}
