#include "comm/split.h"

#include "comm/bootstrap.h"
#include "comm/bootstrap_host.h"
#include "comm/bootstrap_wire.h"
#include "comm/comm.h"
#include "comm/failure.h"
#include "comm/inbox.h"
#include "comm/socket.h"
#include "comm/watch.h"
#include "common/clock.h"
#include "common/env.h"
#include "common/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 10,  /* how often a wait looks whether it is to end */
    DRAIN_MS = 40, /* of one look at the parent's ops; below what its end allows a call to get out */
};

/* Sent between processes of one build. */
struct letter {
    int32_t kind;
    int32_t result; /* not rondoSuccess: the rank cannot take part */
    int32_t color, key;
    uint64_t excluded;
    uint8_t secret[RONDO_SECRET_BYTES]; /* that of the child's rank 0 counts */
    struct rondo_member member;
    int32_t ranks, has_id;
    rondoUniqueId id;
};
_Static_assert(sizeof(struct letter) <= RONDO_WATCH_TEXT_BYTES, "a letter fits into a note");

struct rondo_split {
    struct rondo_split_request request;
    struct rondoComm *parent; /* held inside a call until all letters are here; NULL then */
    int rank, ranks;          /* of the parent */
    int listener;
    bool expected[RONDO_MAX_RANKS]; /* a letter is: not here yet, and to be forgotten in the end */
    uint32_t numbers[RONDO_MAX_RANKS];
    struct letter letters[RONDO_MAX_RANKS]; /* own included */
};

static bool takes_part(const struct rondo_split_request *request, int rank)
{
    return request->kind == RONDO_SPLIT || !(request->excluded >> rank & 1);
}

static const char *kind_text(int kind)
{
    switch (kind) {
    case RONDO_SPLIT:
        return "a split";
    case RONDO_SHRINK:
        return "a shrink";
    case RONDO_SHRINK_ABORTING:
        return "a shrink with abort";
    default:
        return "a grow";
    }
}

rondoResult_t rondo_split_enter(const struct rondo_split_request *request)
{
    /* A rank that has left may have taken part before. */
    return rondo_comm_enter_parent(request->parent, request->kind == RONDO_SHRINK_ABORTING);
}

/* ---- sending ---- */

static bool wants_comm(const struct rondo_split_request *request)
{
    return request->kind != RONDO_SPLIT || request->color != RONDO_SPLIT_NOCOLOR;
}

static rondoResult_t fill_letter(struct rondo_split *split)
{
    const struct rondo_split_request *request = &split->request;
    struct letter *own = &split->letters[split->rank];
    own->kind = (int32_t)request->kind;
    own->color = request->color;
    own->key = request->key;
    own->excluded = request->excluded;
    own->ranks = request->ranks;
    own->has_id = request->gives_id;
    own->id = request->id;
    if (request->kind == RONDO_GROW || !wants_comm(request))
        return rondoSuccess;
    RONDO_TRY(rondo_random(own->secret, sizeof own->secret));
    return rondo_bootstrap_listen(&own->member, &split->listener);
}

/* All are sent to even if one fails: who is not told waits. */
static rondoResult_t send_letters(struct rondo_split *split, rondoResult_t so_far)
{
    struct rondo_inbox *inbox = &split->parent->inbox;
    rondoResult_t result = so_far;
    split->letters[split->rank].result = (int32_t)so_far;
    pthread_mutex_lock(&inbox->order);
    for (int r = 0; r < split->ranks; r++) {
        if (r == split->rank || !takes_part(&split->request, r))
            continue;
        split->numbers[r] = rondo_inbox_ask(inbox, r);
        split->expected[r] = true;
        rondoResult_t one =
            rondo_watch_post(split->parent->watch, r, &split->letters[split->rank], sizeof split->letters[0]);
        if (result == rondoSuccess)
            result = one;
    }
    pthread_mutex_unlock(&inbox->order);
    return result;
}

/* Those who join a grow by the id that this rank was given wait in vain; the thread's text says why. */
static void refuse_new_ranks(const struct rondo_split *split)
{
    const struct rondo_split_request *request = &split->request;
    char text[RONDO_WATCH_TEXT_BYTES];
    if (!request->gives_id)
        return;
    snprintf(text, sizeof text, "rank %d cannot grow its comm: %s", split->rank, rondo_last_error());
    rondo_bootstrap_refuse(&request->id, request->ranks - split->ranks, text);
}

rondoResult_t rondo_split_begin(const struct rondo_split_request *request, struct rondo_split **out)
{
    struct rondoComm *parent = request->parent;
    *out = NULL;
    RONDO_TRY(rondo_split_enter(request));
    struct rondo_split *split = calloc(1, sizeof *split);
    if (!split) {
        rondo_comm_leave(parent);
        return rondo_fail(rondoSystemError, "out of memory");
    }
    *split = (struct rondo_split){
        .request = *request, .parent = parent, .rank = parent->rank, .ranks = parent->ranks, .listener = -1};
    if (request->kind == RONDO_SHRINK_ABORTING) {
        rondo_comm_failed(parent, rondoInvalidUsage, "rank %d shrank the comm and aborted its ops", parent->rank);
        rondo_watch_tell(parent->watch, RONDO_WATCH_ABORTED, "it shrank the comm and aborted its ops");
    }
    rondoResult_t result = send_letters(split, fill_letter(split));
    if (result != rondoSuccess)
        refuse_new_ranks(split);
    if (result == rondoSuccess && wants_comm(request))
        *out = split;
    else
        rondo_split_free(split);
    return result;
}

/* ---- receiving ---- */

static void let_go_of_parent(struct rondo_split *split)
{
    struct rondoComm *parent = split->parent;
    if (!parent)
        return;
    for (int r = 0; r < split->ranks; r++)
        if (split->expected[r])
            rondo_inbox_forget(&parent->inbox, r, split->numbers[r]);
    split->parent = NULL;
    rondo_comm_leave(parent);
}

void rondo_split_free(struct rondo_split *split)
{
    if (!split)
        return;
    let_go_of_parent(split);
    rondo_close(&split->listener);
    free(split);
}

/* Whether the wait is to go on. Of a parent that has failed the ranks wait for each other only: if one of them ends, the inbox
 * tells. */
static rondoResult_t look_around(struct rondo_split *split, const struct rondoComm *child)
{
    if (__atomic_load_n(&child->cancelled, __ATOMIC_SEQ_CST))
        return rondo_fail(rondoInvalidUsage, "rank %d was aborted while it waited for the parent's other ranks",
                          split->rank);
    if (__atomic_load_n(&split->parent->state, __ATOMIC_SEQ_CST) == RONDO_COMM_RETIRED)
        return rondo_fail(rondoInvalidUsage, "the parent comm was destroyed or aborted during %s",
                          kind_text((int)split->request.kind));
    if (split->request.kind == RONDO_SHRINK_ABORTING || rondo_comm_is_revoked(split->parent))
        return rondoSuccess;
    return rondo_comm_failure(split->parent);
}

/* Takes the letters that are here; *left tells how many are not. */
static rondoResult_t take_letters(struct rondo_split *split, int *left)
{
    *left = 0;
    for (int r = 0; r < split->ranks; r++) {
        if (!split->expected[r])
            continue;
        switch (rondo_inbox_take(&split->parent->inbox, r, split->numbers[r], &split->letters[r],
                                 sizeof split->letters[r])) {
        case RONDO_INBOX_HERE:
            split->expected[r] = false;
            break;
        case RONDO_INBOX_NOT_YET:
            ++*left;
            break;
        case RONDO_INBOX_NEVER:
            return rondo_fail(rondoRemoteError, "rank %d ended or left before it took part in %s", r,
                              kind_text((int)split->request.kind));
        }
    }
    return rondoSuccess;
}

static rondoResult_t timed_out(const struct rondo_split *split, int timeout_ms)
{
    unsigned char missing[RONDO_MAX_RANKS];
    char list[256];
    for (int r = 0; r < split->ranks; r++)
        missing[r] = split->expected[r];
    rondo_rank_list(missing, split->ranks, list, sizeof list);
    return rondo_fail(rondoTimeout, "timed out: %s did not take part in %s within %d ms", list,
                      kind_text((int)split->request.kind), timeout_ms);
}

static rondoResult_t await_letters(struct rondo_split *split, const struct rondoComm *child, int timeout_ms)
{
    const uint64_t end = rondo_now_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        int left;
        const unsigned seen = rondo_inbox_changes(&split->parent->inbox);
        RONDO_TRY(take_letters(split, &left));
        if (!left)
            return rondoSuccess;
        RONDO_TRY(look_around(split, child));
        if (rondo_now_ns() > end)
            return timed_out(split, timeout_ms);
        rondo_inbox_wait(&split->parent->inbox, seen, LOOK_MS);
    }
}

static rondoResult_t check_letters(const struct rondo_split *split)
{
    const struct rondo_split_request *own = &split->request;
    for (int r = 0; r < split->ranks; r++) {
        const struct letter *letter = &split->letters[r];
        if (r == split->rank || !takes_part(own, r))
            continue;
        if (letter->kind != (int32_t)own->kind)
            return rondo_fail(rondoInvalidUsage, "ranks ask for different things: rank %d for %s, rank %d for %s",
                              split->rank, kind_text((int)own->kind), r, kind_text(letter->kind));
        if (letter->excluded != own->excluded)
            return rondo_fail(rondoInvalidArgument, "ranks %d and %d exclude different ranks from a shrink",
                              split->rank, r);
        if (letter->ranks != own->ranks)
            return rondo_fail(rondoInvalidArgument,
                              "ranks grow to different numbers: rank %d to %d ranks, rank %d to %d", split->rank,
                              own->ranks, r, letter->ranks);
        if (letter->result != rondoSuccess)
            return rondo_fail(rondoRemoteError, "rank %d failed in %s: %s", r, kind_text((int)own->kind),
                              rondo_result_text(letter->result));
    }
    return rondoSuccess;
}

/* What the parent was given to do is done, on this rank. */
static rondoResult_t await_ops(struct rondo_split *split, const struct rondoComm *child, int timeout_ms)
{
    const uint64_t end = rondo_now_ns() + (uint64_t)timeout_ms * 1000000;
    while (!rondo_comm_drain(split->parent, DRAIN_MS)) {
        RONDO_TRY(look_around(split, child));
        if (rondo_now_ns() > end)
            return rondo_fail(rondoTimeout,
                              "timed out: ops of the parent still run on rank %d after %d ms; RONDO_SHRINK_ABORT "
                              "would end them",
                              split->rank, timeout_ms);
    }
    return rondoSuccess;
}

/* ---- the child ---- */

/* The parent's ranks that become the child's, in the order that they have there. */
static int child_ranks(const struct rondo_split *split, int *members)
{
    const struct letter *own = &split->letters[split->rank];
    int count = 0;
    for (int r = 0; r < split->ranks; r++) {
        const struct letter *letter = &split->letters[r];
        if (!takes_part(&split->request, r) || letter->color != own->color)
            continue;
        int at = count++;
        for (; at > 0 && split->letters[members[at - 1]].key > letter->key; at--)
            members[at] = members[at - 1];
        members[at] = r;
    }
    return count;
}

static rondoResult_t meet_child(struct rondo_split *split, struct rondoComm *child, int timeout_ms)
{
    int members[RONDO_MAX_RANKS];
    struct rondo_member table[RONDO_MAX_RANKS];
    child->ranks = child_ranks(split, members);
    for (int r = 0; r < child->ranks; r++) {
        table[r] = split->letters[members[r]].member;
        if (members[r] == split->rank)
            child->rank = r;
    }
    const uint8_t *secret = split->letters[members[0]].secret;
    child->key = rondo_comm_key(secret, RONDO_SECRET_BYTES);
    const struct rondo_meeting meeting = {.rank = child->rank,
                                          .nranks = child->ranks,
                                          .timeout_ms = timeout_ms,
                                          .cancel = &child->cancelled,
                                          .listener = split->listener,
                                          .table = table,
                                          .secret = secret};
    return rondo_bootstrap_meet(&meeting, &child->bootstrap);
}

/* ---- growing ---- */

/* The one id that ranks were given; all that were must have the same. */
static rondoResult_t find_id(const struct rondo_split *split, const rondoUniqueId **id)
{
    int giver = -1;
    for (int r = 0; r < split->ranks; r++) {
        const struct letter *letter = &split->letters[r];
        if (!letter->has_id)
            continue;
        if (giver >= 0 && memcmp(&letter->id, *id, sizeof letter->id))
            return rondo_fail(rondoInvalidArgument, "ranks %d and %d give different ids to a grow", giver, r);
        giver = giver < 0 ? r : giver;
        *id = &split->letters[giver].id;
    }
    return giver >= 0 ? rondoSuccess
                      : rondo_fail(rondoInvalidArgument, "no rank gives an id to a grow: the one that made it must");
}

static rondoResult_t agree_on_grow(struct rondo_split *split, const struct rondoComm *child, int timeout_ms,
                                   const rondoUniqueId **id)
{
    RONDO_TRY(await_letters(split, child, timeout_ms));
    RONDO_TRY(check_letters(split));
    return find_id(split, id);
}

/* All ranks of the child, old and new ones, meet at the id's root. */
static rondoResult_t meet_grown(struct rondo_split *split, struct rondoComm *child, int timeout_ms)
{
    const rondoUniqueId *id;
    child->rank = split->rank;
    child->ranks = split->request.ranks;
    rondoResult_t result = agree_on_grow(split, child, timeout_ms, &id);
    if (result != rondoSuccess) {
        refuse_new_ranks(split);
        return result;
    }
    let_go_of_parent(split);
    child->key = rondo_comm_key(id, sizeof *id);
    return rondo_bootstrap_join(id, child->rank, child->ranks, timeout_ms, &child->cancelled, &child->bootstrap);
}

rondoResult_t rondo_split_meet(struct rondo_split *split, struct rondoComm *child, rondoResult_t *ready)
{
    const int timeout_ms = (int)rondo_env()->init_timeout_ms;
    *ready = rondoSuccess;
    if (split->request.kind == RONDO_GROW)
        return meet_grown(split, child, timeout_ms);
    RONDO_TRY(await_letters(split, child, timeout_ms));
    RONDO_TRY(check_letters(split));
    if (split->request.kind == RONDO_SHRINK && !rondo_comm_is_revoked(split->parent)) /* else they have ended */
        *ready = await_ops(split, child, timeout_ms);
    let_go_of_parent(split);
    rondoResult_t result = meet_child(split, child, timeout_ms);
    rondo_close(&split->listener); /* who still knocks is to find nobody */
    return result;
}
