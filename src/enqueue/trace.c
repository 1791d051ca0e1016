#include "enqueue/trace.h"

#include "common/result.h"
#include "enqueue/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rondo_trace_name(const struct rondo_trace_record *record, char name[RONDO_TRACE_NAME_BYTES])
{
    const struct rondo_traced *what = &record->what;
    const unsigned long long bytes = what->bytes;
    const unsigned ops = what->works + what->messages + (what->barrier ? 1 : 0);
    size_t at = 0;
    if (!record->known)
        at = (size_t)snprintf(name, RONDO_TRACE_NAME_BYTES, "unknown");
    else if (what->works)
        at = (size_t)snprintf(name, RONDO_TRACE_NAME_BYTES, "%s%s%s %s %llu B", rondo_word_collective(what->collective),
                              what->collective <= RONDO_REDUCE ? " " : "",
                              what->collective <= RONDO_REDUCE ? rondo_word_redop(what->redop) : "",
                              rondo_word_type(what->dtype), bytes);
    else if (what->barrier)
        at = (size_t)snprintf(name, RONDO_TRACE_NAME_BYTES, "barrier");
    else
        at = (size_t)snprintf(name, RONDO_TRACE_NAME_BYTES, "%s %llu B", rondo_word_transfer(what->kind), bytes);
    const bool rooted = what->works && (what->collective == RONDO_REDUCE || what->collective == RONDO_BROADCAST);
    if (rooted || (!what->works && what->messages && what->kind != RONDO_COPY && !what->barrier))
        at += (size_t)snprintf(name + at, RONDO_TRACE_NAME_BYTES - at, " %s %u",
                               rooted                     ? "root"
                               : what->kind == RONDO_SEND ? "to"
                                                          : "from",
                               what->peer);
    if (ops > 1)
        snprintf(name + at, RONDO_TRACE_NAME_BYTES - at, " and %u more", ops - 1);
}

/* What is whole in a lane's ring, in order. */
static void take(struct rondoComm *comm, unsigned lane, uint32_t launches, const struct rondo_trace_entry *entries,
                 struct rondo_trace_view *view)
{
    const uint32_t room = rondo_tracer_entries(comm->tracer);
    view->launches[lane] = launches;
    for (uint32_t n = launches - room; n != launches; n++) {
        const struct rondo_trace_entry *entry = &entries[n & (room - 1)];
        if (entry->number != n + 1 || entry->ended != entry->number || !entry->number)
            continue;
        struct rondo_trace_record *record = &view->records[view->count++];
        *record = (struct rondo_trace_record){.lane = lane, .entry = *entry};
        record->known = rondo_tracer_find(comm->tracer, entry->what, &record->what);
        if (view->count == 1 || entry->arrival < view->base)
            view->base = entry->arrival;
    }
}

static rondoResult_t look(struct rondoComm *comm, struct rondo_trace_view *view)
{
    const size_t room = rondo_tracer_entries(comm->tracer);
    struct rondo_trace_entry *entries = malloc(room * sizeof *entries);
    rondoResult_t result = rondoSuccess;
    view->comm = comm;
    view->records = malloc(comm->anchor->lanes * room * sizeof *view->records);
    if (!entries || !view->records)
        result = rondo_fail(rondoSystemError, "out of memory");
    for (unsigned lane = 0; lane < comm->anchor->lanes && result == rondoSuccess; lane++) {
        uint32_t launches = 0;
        result = rondo_lane_trace_read(comm->anchor, lane, &launches, entries);
        if (result == rondoSuccess)
            take(comm, lane, launches, entries, view);
    }
    free(entries);
    return result;
}

static rondoResult_t tell(struct rondoComm *comm, rondoDescribeFormat_t format, struct rondo_describe_text *text)
{
    struct rondo_trace_view view = {.count = 0};
    if (!comm->tracer)
        return rondo_fail(rondoInvalidUsage, "the comm was made without RONDO_TRACE, so there is no trace");
    rondoResult_t result = look(comm, &view);
    if (result == rondoSuccess)
        (format == rondoDescribeText ? rondo_trace_text : rondo_trace_json)(&view, text);
    if (text->failed)
        result = rondo_fail(rondoSystemError, "out of memory");
    free(view.records);
    return result;
}

rondoResult_t rondoCommTrace(rondoComm_t comm, rondoDescribeFormat_t format, char *buffer, size_t *bytes)
{
    struct rondo_describe_text text = {0};
    if (!bytes)
        return rondo_fail(rondoInvalidArgument, "bytes is NULL");
    if (format != rondoDescribeText && format != rondoDescribeJson)
        return rondo_fail(rondoInvalidArgument, "format %d is not a rondoDescribeFormat_t", (int)format);
    RONDO_TRY(rondo_comm_enter_ended(comm));
    rondoResult_t result = tell(comm, format, &text);
    rondo_comm_leave(comm);
    if (result == rondoSuccess)
        result = rondo_describe_give(&text, buffer, bytes);
    free(text.at);
    return result;
}
