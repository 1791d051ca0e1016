#include "comm/tune.h"

#include "common/arena.h"
#include "common/log.h"
#include "common/result.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, MOST_RULES = 512, MOST_WORDS = 8, LINE_BYTES = 256 };

struct rule {
    uint8_t ranks, collective, key, unused;
    uint16_t threads, channels; /* of a shape; 0: any */
    uint64_t from;              /* UINT64_MAX: never */
};

struct rondo_tune {
    unsigned count;
    struct rule rules[MOST_RULES];
};

/* Where the reader is. `fault`: what is wrong with the line. */
struct reader {
    struct rondo_tune *tune;
    const char *words[MOST_WORDS];
    unsigned word_count, line;
    bool versioned;
    char fault[160];
};

static const char *const collectives[RONDO_COLLECTIVE_COUNT] = {
    [RONDO_ALL_REDUCE] = "all_reduce", [RONDO_REDUCE_SCATTER] = "reduce_scatter", [RONDO_REDUCE] = "reduce",
    [RONDO_ALL_GATHER] = "all_gather", [RONDO_ALL_TO_ALL] = "all_to_all",         [RONDO_BROADCAST] = "broadcast",
};

static const char *const keys[RONDO_TUNE_KEY_COUNT] = {
    [RONDO_TUNE_TWO_SHOT] = "two-shot", [RONDO_TUNE_BULK] = "bulk",   [RONDO_TUNE_DIRECT] = "direct",
    [RONDO_TUNE_RING] = "ring",         [RONDO_TUNE_SHAPE] = "shape",
};

/* Returns false, for the caller to return. */
__attribute__((format(printf, 2, 3))) static bool fault(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->fault, sizeof reader->fault, format, arguments);
    va_end(arguments);
    return false;
}

/* The index of a word in a list; `count`: it is not there. */
static unsigned index_of(const char *const *list, unsigned count, const char *word)
{
    unsigned i = 0;
    while (i < count && strcmp(list[i], word))
        i++;
    return i;
}

static bool read_number(struct reader *reader, const char *word, unsigned long low, unsigned long high,
                        unsigned long *value)
{
    char *end;
    errno = 0;
    *value = strtoul(word, &end, 10);
    if (word[0] < '0' || word[0] > '9' || *end || errno || *value < low || *value > high)
        return fault(reader, "\"%s\" is no number from %lu to %lu", word, low, high);
    return true;
}

/* "0", "4096", "64K", "2M", "1G" or "never". */
static bool read_size(struct reader *reader, const char *word, uint64_t *size)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    if (strcmp(word, "never") == 0) {
        *size = UINT64_MAX;
        return true;
    }
    const unsigned long long value = strtoull(word, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    end += unit ? 1 : 0;
    if (word[0] < '0' || word[0] > '9' || *end || errno || value > UINT64_MAX >> shift >> 1)
        return fault(reader, "\"%s\" is no size such as 4096, 64K, 2M or 1G, nor never", word);
    *size = (uint64_t)value << shift;
    return true;
}

/* "threads N channels N": either may be "any". */
static bool read_shape(struct reader *reader, struct rule *rule)
{
    unsigned long threads = 0, channels = 0;
    const char *const *words = reader->words;
    if (reader->word_count != 8 || strcmp(words[4], "threads") || strcmp(words[6], "channels"))
        return fault(reader, "a shape is: COLLECTIVE RANKS shape SIZE threads NUMBER channels NUMBER");
    if (strcmp(words[5], "any") && !read_number(reader, words[5], 32, RONDO_MAX_THREADS, &threads))
        return false;
    if (strcmp(words[7], "any") && !read_number(reader, words[7], 1, RONDO_MAX_CHANNELS, &channels))
        return false;
    if (rule->from == UINT64_MAX)
        return fault(reader, "a shape has a size to begin with, not never");
    rule->threads = (uint16_t)threads;
    rule->channels = (uint16_t)channels;
    return true;
}

static bool has_key(const struct rule *rule, unsigned ranks, unsigned collective, unsigned key)
{
    return rule->ranks == ranks && rule->collective == collective && rule->key == key;
}

/* Shapes may be many, by ascending size; all else is said once. */
static bool add_rule(struct reader *reader, const struct rule *rule)
{
    struct rondo_tune *tune = reader->tune;
    unsigned same = 0;
    for (unsigned i = 0; i < tune->count; i++) {
        if (!has_key(&tune->rules[i], rule->ranks, rule->collective, rule->key))
            continue;
        same++;
        if (rule->key != RONDO_TUNE_SHAPE)
            return fault(reader, "%s of %u ranks had its %s before", collectives[rule->collective], rule->ranks,
                         keys[rule->key]);
        if (tune->rules[i].from >= rule->from)
            return fault(reader, "sizes of shapes are to ascend");
    }
    if (same == RONDO_SHAPE_RULES)
        return fault(reader, "more than %d shapes", RONDO_SHAPE_RULES);
    if (tune->count == MOST_RULES)
        return fault(reader, "more than %d rules", MOST_RULES);
    tune->rules[tune->count++] = *rule;
    return true;
}

static bool has_shards(unsigned collective)
{
    return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE || collective == RONDO_BROADCAST;
}

/* COLLECTIVE RANKS KEY SIZE, and what a shape has besides. */
static bool read_rule(struct reader *reader)
{
    const char *const *words = reader->words;
    struct rule rule = {0};
    unsigned long ranks;
    rule.collective = (uint8_t)index_of(collectives, RONDO_COLLECTIVE_COUNT, words[0]);
    if (rule.collective == RONDO_COLLECTIVE_COUNT)
        return fault(reader, "\"%s\" is no collective that can be tuned", words[0]);
    if (reader->word_count < 4)
        return fault(reader, "a rule is: COLLECTIVE RANKS KEY SIZE");
    if (!read_number(reader, words[1], 2, RONDO_MAX_RANKS, &ranks))
        return false;
    rule.ranks = (uint8_t)ranks;
    rule.key = (uint8_t)index_of(keys, RONDO_TUNE_KEY_COUNT, words[2]);
    if (rule.key == RONDO_TUNE_KEY_COUNT)
        return fault(reader, "\"%s\" is none of two-shot, bulk, direct, ring and shape", words[2]);
    if (rule.key == RONDO_TUNE_TWO_SHOT && !has_shards(rule.collective))
        return fault(reader, "%s has no two-shot exchange", words[0]);
    if (rule.key == RONDO_TUNE_RING && rule.collective == RONDO_ALL_TO_ALL)
        return fault(reader, "all_to_all does not go round a ring");
    if (!read_size(reader, words[3], &rule.from))
        return false;
    if (rule.key == RONDO_TUNE_SHAPE && !read_shape(reader, &rule))
        return false;
    if (rule.key != RONDO_TUNE_SHAPE && reader->word_count > 4)
        return fault(reader, "\"%s\" is too much", words[4]);
    return add_rule(reader, &rule);
}

/* A line without its end, which is cut into words. */
static bool read_line(struct reader *reader, char *line)
{
    static const char blanks[] = " \t\r";
    char *rest = line;
    line[strcspn(line, "#")] = '\0';
    reader->word_count = 0;
    for (char *word = strtok_r(line, blanks, &rest); word; word = strtok_r(NULL, blanks, &rest)) {
        if (reader->word_count == MOST_WORDS)
            return fault(reader, "\"%s\" is too much", word);
        reader->words[reader->word_count++] = word;
    }
    if (reader->word_count == 0)
        return true;
    if (reader->versioned)
        return read_rule(reader);
    unsigned long version;
    if (reader->word_count != 2 || strcmp(reader->words[0], "rondo-tune"))
        return fault(reader, "a table begins with: rondo-tune %d", VERSION);
    reader->versioned = true;
    return read_number(reader, reader->words[1], VERSION, VERSION, &version);
}

static bool read_file(struct reader *reader, FILE *file)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, file)) {
        reader->line++;
        size_t length = strcspn(line, "\n");
        if (!line[length] && !feof(file) && !strchr(line, '#'))
            return fault(reader, "the line is longer than %d bytes", LINE_BYTES - 2);
        while (!line[length] && !feof(file)) { /* a comment may be of any length */
            const int c = fgetc(file);
            if (c == '\n' || c == EOF)
                break;
        }
        line[length] = '\0';
        if (!read_line(reader, line))
            return false;
    }
    reader->line += !reader->versioned;
    return reader->versioned || fault(reader, "a table begins with: rondo-tune %d", VERSION);
}

rondoResult_t rondo_tune_load(const char *path, struct rondo_arena *arena, struct rondo_tune **out)
{
    void *memory;
    *out = NULL;
    if (!path || !*path)
        return rondoSuccess;
    FILE *file = fopen(path, "re");
    if (!file)
        return rondo_fail(rondoInvalidArgument, "RONDO_TUNE_FILE %s: %s", path, strerror(errno));
    rondoResult_t result = rondo_arena_alloc(arena, sizeof(struct rondo_tune), &memory);
    if (result == rondoSuccess) {
        struct reader reader = {.tune = memory};
        *out = memory;
        if (!read_file(&reader, file))
            result =
                rondo_fail(rondoInvalidArgument, "RONDO_TUNE_FILE %s, line %u: %s", path, reader.line, reader.fault);
        else if (ferror(file))
            result = rondo_fail(rondoInvalidArgument, "RONDO_TUNE_FILE %s cannot be read", path);
        else
            rondo_log_info(RONDO_LOG_INIT, "%u rules of %s are used", reader.tune->count, path);
    }
    fclose(file);
    return result;
}

uint64_t rondo_tune_hash(const struct rondo_tune *tune)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    if (!tune)
        return 0;
    const unsigned char *bytes = (const unsigned char *)tune->rules;
    for (size_t i = 0; i < tune->count * sizeof *tune->rules; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash ? hash : 1;
}

bool rondo_tune_find(const struct rondo_tune *tune, unsigned ranks, unsigned collective, enum rondo_tune_key key,
                     uint64_t *from)
{
    for (unsigned i = 0; tune && i < tune->count; i++)
        if (has_key(&tune->rules[i], ranks, collective, key)) {
            *from = tune->rules[i].from;
            return true;
        }
    return false;
}

unsigned rondo_tune_shapes(const struct rondo_tune *tune, unsigned ranks, unsigned collective,
                           struct rondo_shape_rule *rules)
{
    unsigned count = 0;
    for (unsigned i = 0; tune && i < tune->count; i++)
        if (has_key(&tune->rules[i], ranks, collective, RONDO_TUNE_SHAPE))
            rules[count++] =
                (struct rondo_shape_rule){tune->rules[i].from, tune->rules[i].threads, tune->rules[i].channels};
    return count;
}
