#include "transport/path.h"

#include "common/env.h"
#include "common/result.h"

#include <stdio.h>
#include <string.h>

void rondo_path_wish_fill(struct rondo_path_wish *wish)
{
    const struct rondo_env *env = rondo_env();
    memset(wish, 0, sizeof *wish);
    wish->p2p_copies = env->p2p_use_copies != 0;
    wish->shm_disable = env->shm_disable != 0;
    wish->shm_locality = (uint8_t)env->shm_locality;
    wish->shm_copy_mode = env->shm_use_copies ? (uint8_t)env->shm_copy_mode : 0;
}

const char *rondo_pair_verdict_text(unsigned verdict)
{
    static const char *const texts[] = {
        [RONDO_PAIR_FINE] = "it works",
        [RONDO_PAIR_READS] = "it works",
        [RONDO_PAIR_REFUSED] = "the log of a rank says why",
        [RONDO_PAIR_NOT_MAPPED] = "memory could not be mapped",
        [RONDO_PAIR_NOT_SEEN] = "what one stored was not seen by the other's running kernel",
        [RONDO_PAIR_NOT_RELAYED] =
            "what one stored was not seen by the other's running kernel, nor through a third GPU",
    };
    return verdict < sizeof texts / sizeof *texts ? texts[verdict] : "unknown";
}

rondoResult_t rondo_path_choose(const struct rondo_path_wish *sender, const struct rondo_path_wish *receiver,
                                enum rondo_pair_verdict senders, enum rondo_pair_verdict receivers,
                                struct rondo_path *path)
{
    const enum rondo_pair_verdict worse = senders > receivers ? senders : receivers;
    memset(path, 0, sizeof *path);
    if (worse <= RONDO_PAIR_READS) {
        path->sender_copies = sender->p2p_copies;
        path->at_sender = !path->sender_copies && senders == RONDO_PAIR_READS && receivers == RONDO_PAIR_READS;
        return rondoSuccess;
    }
    if (sender->shm_disable || receiver->shm_disable)
        return rondo_fail(rondoInvalidUsage, "P2P cannot be used (%s), and SHM_DISABLE forbids host memory",
                          rondo_pair_verdict_text(worse));
    path->host = true;
    path->at_sender = sender->shm_locality == 1;
    path->sender_copies = (sender->shm_copy_mode & 1) != 0;
    path->receiver_copies = (sender->shm_copy_mode & 2) != 0;
    return rondoSuccess;
}

bool rondo_path_may_relay(uint8_t pair_found, const uint8_t found[4])
{
    for (int i = 0; i < 4; i++)
        if (!(found[i] & RONDO_PAIR_NVLINK) || (found[i] & ~RONDO_PAIR_NVLINK) > RONDO_PAIR_READS)
            return false;
    return (pair_found & ~RONDO_PAIR_NVLINK) < RONDO_PAIR_NOT_RELAYED;
}

void rondo_path_text(const struct rondo_path *path, const char *mapping, char *text, size_t room)
{
    if (path->relay)
        snprintf(text, room, "P2P/indirect/%u", path->relay - 1u);
    else if (path->host)
        snprintf(text, room, "SHM/%s/%s", path->sender_copies ? "CE" : "direct",
                 path->receiver_copies ? "CE" : "direct");
    else
        snprintf(text, room, "P2P/%s%s", mapping, path->sender_copies ? "/CE" : path->at_sender ? "/read" : "");
}
