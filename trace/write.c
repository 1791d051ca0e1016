#include "trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An event's line with its time counted from `base` of the first file's clock, in ns. */
static void write_event(const struct rank *rank, const char *line, int64_t base, FILE *out)
{
    static const char key[] = "\"ts\": ";
    size_t length = strlen(line);
    const char *at = strstr(line, key);
    while (length && (line[length - 1] == ',' || line[length - 1] == '\r'))
        length--;
    if (!at) {
        fprintf(out, ",\n%.*s", (int)length, line);
        return;
    }
    at += sizeof key - 1;
    char *end;
    const long long us = strtoll(at, &end, 10), ns = *end == '.' ? strtoll(end + 1, &end, 10) : 0;
    const int64_t ts = us * 1000 + ns + rank->base - rank->offset - base;
    fprintf(out, ",\n%.*s%s%" PRId64 ".%03d%.*s", (int)(at - line), line, ts < 0 ? "-" : "", (int64_t)llabs(ts) / 1000,
            (int)(llabs(ts) % 1000), (int)(line + length - end), end);
}

bool trace_write(const struct merged *merged, FILE *out)
{
    int64_t base = INT64_MAX;
    for (int r = 0; r < merged->count; r++)
        if (merged->ranks[r].base - merged->ranks[r].offset < base)
            base = merged->ranks[r].base - merged->ranks[r].offset;
    fprintf(out,
            "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"trace\": \"rondo merged\", \"comm\": \"%s\"}, "
            "\"traceEvents\": [\n",
            merged->ranks[0].comm);
    fprintf(out, "{\"ph\": \"M\", \"name\": \"trace\", \"args\": {\"ranks\": %d}}", merged->count);
    for (int r = 0; r < merged->count; r++)
        for (size_t i = 1; i < merged->ranks[r].line_count; i++)
            if (merged->ranks[r].lines[i][0] == '{')
                write_event(&merged->ranks[r], merged->ranks[r].lines[i], base, out);
    fprintf(out, "\n]}\n");
    return fflush(out) == 0 && !ferror(out);
}
