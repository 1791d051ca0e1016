#include "transport/path.h"

#include "common/env.h"
#include "common/result.h"

#include <stdio.h>
#include <string.h>

void rondo_path_wish_fill(struct rondo_path_wish *wish, int capability)
{
    const struct rondo_env *env = rondo_env();
    memset(wish, 0, sizeof *wish);
    wish->p2p_disable = env->p2p_disable != 0;
    wish->p2p_read = env->p2p_read_enable < 0 ? 2 : env->p2p_read_enable != 0;
    wish->p2p_copies = env->p2p_use_copies != 0;
    wish->shm_disable = env->shm_disable != 0;
    wish->shm_locality = (uint8_t)env->shm_locality;
    wish->shm_copy_mode = env->shm_use_copies ? (uint8_t)env->shm_copy_mode : 0;
    wish->reads_well = capability >= 80 && capability < 90;
}

const char *rondo_p2p_text(unsigned verdict)
{
    static const char *const texts[] = {
        [RONDO_P2P_FINE] = "it works",
        [RONDO_P2P_UNREACHABLE] = "the driver says that one cannot access the other",
        [RONDO_P2P_NOT_MAPPED] = "the peer's memory could not be mapped",
        [RONDO_P2P_NOT_SEEN] = "what one stored was not seen by the other's running kernel",
        [RONDO_P2P_TOO_FAR] = "they are further apart than P2P_LEVEL allows",
    };
    return verdict < sizeof texts / sizeof *texts ? texts[verdict] : "unknown";
}

rondoResult_t rondo_path_choose(const struct rondo_path_wish *sender, const struct rondo_path_wish *receiver,
                                unsigned verdict, struct rondo_path *path)
{
    memset(path, 0, sizeof *path);
    if (verdict == RONDO_P2P_FINE && !sender->p2p_disable && !receiver->p2p_disable) {
        path->sender_copies = sender->p2p_copies;
        path->at_sender =
            !path->sender_copies &&
            (sender->p2p_read == 1 || (sender->p2p_read == 2 && sender->reads_well && receiver->reads_well));
        return rondoSuccess;
    }
    if (sender->shm_disable || receiver->shm_disable)
        return rondo_fail(rondoInvalidUsage, "P2P cannot be used (%s), and SHM_DISABLE forbids host memory",
                          sender->p2p_disable || receiver->p2p_disable ? "P2P_DISABLE" : rondo_p2p_text(verdict));
    path->host = true;
    path->at_sender = sender->shm_locality == 1;
    path->sender_copies = (sender->shm_copy_mode & 1) != 0;
    path->receiver_copies = (sender->shm_copy_mode & 2) != 0;
    return rondoSuccess;
}

void rondo_path_text(const struct rondo_path *path, const char *mapping, char *text, size_t room)
{
    if (path->host)
        snprintf(text, room, "SHM/%s/%s", path->sender_copies ? "CE" : "direct",
                 path->receiver_copies ? "CE" : "direct");
    else
        snprintf(text, room, "P2P/%s%s", mapping, path->sender_copies ? "/CE" : path->at_sender ? "/read" : "");
}
