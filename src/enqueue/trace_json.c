/* A rank's trace for programs: an array of events as chrome://tracing and Perfetto read them. Each event is a line of its own, for
 * rondo-trace reads no other JSON than this. */
#include "enqueue/trace.h"

#include "enqueue/words.h"
#include "kernels/instances.h"

#include <stdio.h>
#include <string.h>

#define PRINT(...) rondo_describe_print(text, __VA_ARGS__)

/* ts and dur, in us. */
static void print_times(uint64_t from, uint64_t to, struct rondo_describe_text *text)
{
    const unsigned long long ts = from, duration = to > from ? to - from : 0;
    PRINT("\"ts\": %llu.%03llu, \"dur\": %llu.%03llu", ts / 1000, ts % 1000, duration / 1000, duration % 1000);
}

static void print_record(const struct rondo_trace_view *view, const struct rondo_trace_record *record,
                         struct rondo_describe_text *text)
{
    const struct rondo_trace_entry *entry = &record->entry;
    const struct rondo_traced *what = &record->what;
    char name[RONDO_TRACE_NAME_BYTES];
    rondo_trace_name(record, name);
    PRINT(",\n{\"ph\": \"X\", \"cat\": \"op\", \"name\": \"%s\", \"pid\": %d, \"tid\": %u, ", name, view->comm->rank,
          record->lane);
    print_times(entry->arrival - view->base, entry->done - view->base, text);
    /* Times since 1970 in ns have more digits than numbers of JSON are sure to keep. */
    PRINT(", \"args\": {\"arrival\": \"%llu\", \"first\": \"%llu\", \"done\": \"%llu\", \"launch\": %u, \"epoch\": %u, "
          "\"graph\": %u, \"meets\": %d",
          (unsigned long long)entry->arrival, (unsigned long long)entry->first, (unsigned long long)entry->done,
          entry->number - 1, entry->epoch, entry->graph, record->known && (what->works || what->barrier));
    if (record->known)
        PRINT(", \"kernel\": \"%s\", \"works\": %u, \"messages\": %u, \"bytes\": %llu", rondo_kernel_name(what->kernel),
              what->works, what->messages, (unsigned long long)what->total);
    if (what->works)
        PRINT(", \"algorithm\": \"%s\", \"bulk\": %s, \"direct\": %s", rondo_algo_name(what->algo),
              what->bulk ? "true" : "false", what->direct ? "true" : "false");
    PRINT("}}");
    if (entry->first > entry->arrival) {
        PRINT(",\n{\"ph\": \"X\", \"cat\": \"wait\", \"name\": \"wait\", \"pid\": %d, \"tid\": %u, ", view->comm->rank,
              record->lane);
        print_times(entry->arrival - view->base, entry->first - view->base, text);
        PRINT("}");
    }
}

void rondo_trace_json(const struct rondo_trace_view *view, struct rondo_describe_text *text)
{
    const struct rondoComm *comm = view->comm;
    PRINT("{\"displayTimeUnit\": \"ns\", \"otherData\": {\"trace\": \"rondo 1\", \"comm\": \"%016llx\", \"rank\": %d, "
          "\"ranks\": %d, \"clock\": \"%s\", \"base\": \"%llu\"}, \"traceEvents\": [\n",
          (unsigned long long)comm->key, comm->rank, comm->ranks, comm->ops == &rondo_device_host ? "host" : "device",
          (unsigned long long)view->base);
    PRINT("{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": \"rank\"}},\n", comm->rank);
    PRINT("{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": %d, \"args\": {\"sort_index\": %d}}", comm->rank,
          comm->rank);
    for (unsigned lane = 0; lane < comm->anchor->lanes; lane++)
        if (lane == RONDO_LANE_EAGER)
            PRINT(",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %u, \"args\": {\"name\": "
                  "\"eager lane\"}}",
                  comm->rank, lane);
        else
            PRINT(",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %u, \"args\": {\"name\": "
                  "\"graph lane %u\"}}",
                  comm->rank, lane, lane - RONDO_LANE_GRAPH);
    for (size_t i = 0; i < view->count; i++)
        print_record(view, &view->records[i], text);
    PRINT("\n]}\n");
}
