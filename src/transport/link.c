#include "transport/link.h"

#include "common/result.h"

#include <stdio.h>
#include <string.h>

/* ---- direct: the peer is in this process, its pointer is ours ---- */

static const char *direct_refuses(const struct rondo_link_peer *peer)
{
    return peer->same_process ? NULL : "another process";
}

static rondoResult_t direct_open(struct rondo_anchor *anchor, const struct rondo_link_peer *peer,
                                 struct rondo_link *link)
{
    /* A peer whose init is aborted, or fails for other reasons of its own, waits for nobody. */
    struct rondo_anchor *theirs = rondo_anchor_find(peer->offer.anchor_id);
    if (!theirs)
        return rondo_fail(rondoRemoteError, "the peer has given up");
    const struct rondo_mem *memory = &theirs->areas[peer->area];
    rondoResult_t result = anchor->ops->mem_attach(anchor->device, theirs->device, memory);
    if (result != rondoSuccess) {
        rondo_anchor_drop(theirs);
        return result;
    }
    link->held = theirs;
    link->address = memory->address;
    link->host = memory->host;
    return rondoSuccess;
}

static void direct_close(struct rondo_anchor *anchor, struct rondo_link *link)
{
    (void)anchor;
    rondo_anchor_drop(link->held);
}

/* ---- imports: the peer's memory is mapped from a handle ---- */

static rondoResult_t import_open(struct rondo_anchor *anchor, const struct rondo_link_peer *peer,
                                 struct rondo_link *link)
{
    struct rondo_mem_handle handle = {.fd = peer->fd};
    memcpy(handle.bytes, peer->offer.handle, sizeof handle.bytes);
    RONDO_TRY(anchor->ops->mem_import(anchor->device, &handle, peer->offer.bytes, (enum rondo_mem_kind)peer->offer.kind,
                                      &link->mapping));
    link->address = link->mapping.address;
    link->host = link->mapping.host;
    return rondoSuccess;
}

static void import_close(struct rondo_anchor *anchor, struct rondo_link *link)
{
    anchor->ops->mem_free(anchor->device, &link->mapping);
}

static const char *shareable_refuses(const struct rondo_link_peer *peer)
{
    if (peer->offer.kind != RONDO_MEM_SHAREABLE)
        return "not shareable memory";
    return peer->fd < 0 ? "no descriptor came" : NULL;
}

static const char *host_refuses(const struct rondo_link_peer *peer)
{
    if (peer->offer.kind != RONDO_MEM_HOST)
        return "not host memory";
    return peer->fd < 0 ? "no descriptor came" : NULL;
}

static const char *legacy_refuses(const struct rondo_link_peer *peer)
{
    return peer->offer.kind == RONDO_MEM_LEGACY ? NULL : "not legacy IPC memory";
}

static const struct rondo_link_ops ways[] = {
    {"direct pointer", direct_refuses, direct_open, direct_close},
    {"CUMEM", shareable_refuses, import_open, import_close},
    {"IPC", legacy_refuses, import_open, import_close},
    {"SHM", host_refuses, import_open, import_close},
};
enum { WAYS = sizeof ways / sizeof *ways };

rondoResult_t rondo_link_open(struct rondo_anchor *anchor, const struct rondo_link_peer *peer, struct rondo_link *link)
{
    char reasons[256] = "";
    size_t used = 0;
    for (int i = 0; i < WAYS; i++) {
        const char *reason = ways[i].refuses(peer);
        if (reason) {
            used += (size_t)snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", used ? ", " : "",
                                     ways[i].mapping, reason);
            used = used < sizeof reasons ? used : sizeof reasons - 1;
            continue;
        }
        memset(link, 0, sizeof *link);
        RONDO_TRY(ways[i].open(anchor, peer, link));
        link->ops = &ways[i];
        return rondoSuccess;
    }
    return rondo_fail(rondoSystemError, "no way to the peer's memory (%s)", reasons);
}

void rondo_link_close(struct rondo_anchor *anchor, struct rondo_link *link)
{
    if (link->ops)
        link->ops->close(anchor, link);
    memset(link, 0, sizeof *link);
}
