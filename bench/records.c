#include "records.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum kind { TEXT, SIZE, INTEGER, NUMBER };

struct field {
    const char *name;
    enum kind kind;
    size_t offset;
};

#define FIELD(name, kind, member)                         \
    {                                                     \
        name, kind, offsetof(struct bench_result, member) \
    }

static const struct field fields[] = {
    FIELD("lib", TEXT, lib),
    FIELD("version", TEXT, version),
    FIELD("op", TEXT, op),
    FIELD("bytes", SIZE, bytes),
    FIELD("count", SIZE, count),
    FIELD("type", TEXT, type),
    FIELD("redop", TEXT, redop),
    FIELD("ranks", INTEGER, ranks),
    FIELD("device", TEXT, device),
    FIELD("mode", TEXT, mode),
    FIELD("us", NUMBER, times.us),
    FIELD("us_min", NUMBER, times.min),
    FIELD("us_p50", NUMBER, times.p50),
    FIELD("us_p99", NUMBER, times.p99),
    FIELD("us_max", NUMBER, times.max),
    FIELD("algbw", NUMBER, algbw),
    FIELD("busbw", NUMBER, busbw),
    FIELD("wrong", NUMBER, wrong),
    FIELD("algo", TEXT, choice.algo),
    FIELD("proto", TEXT, choice.proto),
    FIELD("channels", INTEGER, choice.channels),
    FIELD("host_us", NUMBER, times.host_us),
    FIELD("group", INTEGER, group),
    FIELD("root", INTEGER, root),
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static int shown(const struct field *field, int group)
{
    return field->offset != offsetof(struct bench_result, group) || group > 1;
}

/* Replays have no call whose time could be told, most ops have no root. */
static int applies(const struct field *field, const struct bench_result *result)
{
    if (field->offset == offsetof(struct bench_result, root))
        return result->root >= 0;
    return field->offset != offsetof(struct bench_result, times.host_us) || strcmp(result->mode, "graph") != 0;
}

static int is_null(const struct field *field, const struct bench_result *result)
{
    return field->offset == offsetof(struct bench_result, wrong) ? !result->checked : !applies(field, result);
}

/* Only a library's name comes from outside, and it is a file's name. */
static void print_text(FILE *file, const char *text, int json)
{
    if (!json && !strpbrk(text, ",\"\n")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) {
        if (json && (unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", (unsigned char)*text);
        else if (*text == '"' || (json && *text == '\\'))
            fprintf(file, "%c%c", json ? '\\' : '"', *text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

static void print_value(FILE *file, const struct field *field, const struct bench_result *result, int json)
{
    const char *at = (const char *)result + field->offset;
    if (is_null(field, result)) {
        fputs(json ? "null" : "", file);
        return;
    }
    switch (field->kind) {
    case TEXT:
        print_text(file, *(const char *const *)(const void *)at, json);
        break;
    case SIZE:
        fprintf(file, "%zu", *(const size_t *)(const void *)at);
        break;
    case INTEGER:
        fprintf(file, "%d", *(const int *)(const void *)at);
        break;
    case NUMBER:
        fprintf(file, "%.10g", *(const double *)(const void *)at);
        break;
    }
}

void records_json(FILE *file, const struct bench_result *result)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (!shown(&fields[i], result->group) || !applies(&fields[i], result))
            continue;
        fprintf(file, "%s\"%s\": ", i ? ", " : "{", fields[i].name);
        print_value(file, &fields[i], result, 1);
    }
    fputs("}\n", file);
    fflush(file);
}

void records_csv_header(FILE *file, int group)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (shown(&fields[i], group))
            fprintf(file, "%s%s", i ? "," : "", fields[i].name);
    fputs("\n", file);
    fflush(file);
}

void records_csv(FILE *file, const struct bench_result *result)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (!shown(&fields[i], result->group))
            continue;
        fputs(i ? "," : "", file);
        print_value(file, &fields[i], result, 0);
    }
    fputs("\n", file);
    fflush(file);
}
