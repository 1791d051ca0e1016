#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t length = 0, room = 1 << 16;
    char *text = file ? malloc(room) : NULL;
    while (text) {
        length += fread(text + length, 1, room - length - 1, file);
        if (length < room - 1)
            break;
        char *more = realloc(text, room *= 2);
        if (!more)
            free(text);
        text = more;
    }
    if (!text || ferror(file))
        fprintf(stderr, "rondo-trace: %s: %s\n", path, strerror(errno));
    else
        text[length] = 0;
    if (file)
        fclose(file);
    return text;
}

static bool split(struct rank *rank)
{
    size_t lines = 1;
    for (const char *at = rank->text; *at; at++)
        lines += *at == '\n';
    rank->lines = malloc(lines * sizeof *rank->lines);
    rank->records = malloc(lines * sizeof *rank->records);
    if (!rank->lines || !rank->records)
        return false;
    for (char *at = rank->text, *end; at; at = end) {
        end = strchr(at, '\n');
        if (end)
            *end++ = 0;
        rank->lines[rank->line_count++] = at;
    }
    return true;
}

/* What follows "key": in the line; a string's first character. NULL: it is not there. */
static const char *value_of(const char *line, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    return *at == '"' ? at + 1 : at;
}

static int64_t number_of(const char *line, const char *key)
{
    const char *at = value_of(line, key);
    return at ? (int64_t)strtoull(at, NULL, 10) : 0;
}

static void read_record(const char *line, struct rank *rank)
{
    struct record *record = &rank->records[rank->record_count];
    *record = (struct record){
        .name = value_of(line, "name"),
        .lane = (unsigned)number_of(line, "tid"),
        .epoch = (unsigned)number_of(line, "epoch"),
        .meets = number_of(line, "meets") != 0,
        .arrival = number_of(line, "arrival"),
        .first = number_of(line, "first"),
        .done = number_of(line, "done"),
    };
    if (!record->name || !record->arrival)
        return;
    record->name_bytes = strcspn(record->name, "\"");
    rank->record_count++;
}

static int by_place(const void *a, const void *b)
{
    const struct record *x = a, *y = b;
    return x->lane != y->lane     ? (x->lane < y->lane ? -1 : 1)
           : x->epoch != y->epoch ? (x->epoch < y->epoch ? -1 : 1)
           : x->meets != y->meets ? (x->meets ? -1 : 1)
                                  : 0;
}

bool trace_read(const char *path, struct rank *rank)
{
    *rank = (struct rank){.path = path, .text = read_all(path)};
    if (!rank->text)
        return false;
    if (!split(rank)) {
        fprintf(stderr, "rondo-trace: out of memory\n");
        return false;
    }
    const char *head = rank->lines[0], *comm = value_of(head, "comm"), *clock = value_of(head, "clock");
    if (!strstr(head, "\"trace\": \"rondo 1\"") || !comm || !clock) {
        fprintf(stderr, "rondo-trace: %s: no trace as rondoCommTrace writes it\n", path);
        return false;
    }
    snprintf(rank->comm, sizeof rank->comm, "%.16s", comm);
    rank->host_clock = strncmp(clock, "host", 4) == 0;
    rank->rank = (int)number_of(head, "rank");
    rank->ranks = (int)number_of(head, "ranks");
    rank->base = number_of(head, "base");
    for (size_t i = 1; i < rank->line_count; i++)
        if (strstr(rank->lines[i], "\"cat\": \"op\""))
            read_record(rank->lines[i], rank);
    qsort(rank->records, rank->record_count, sizeof *rank->records, by_place);
    return true;
}

void trace_free(struct merged *merged)
{
    for (int r = 0; r < merged->count; r++) {
        free(merged->ranks[r].text);
        free(merged->ranks[r].lines);
        free(merged->ranks[r].records);
    }
    free(merged->ops);
}
