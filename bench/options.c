#include "options.h"

#include "number.h"
#include "ops.h"
#include "usage.h"

#include "procs.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TUNE_MAX_BYTES = 256 << 20 };

enum {
    KEY_OP = 256,
    KEY_PROCS,
    KEY_THREADS,
    KEY_DEVICE,
    KEY_GROUP,
    KEY_INPLACE,
    KEY_COMPUTE,
    KEY_PLAN,
    KEY_LIB,
    KEY_JSON,
    KEY_CSV,
    KEY_SVG,
    KEY_EXPLAIN,
    KEY_TUNE,
    KEY_HELP,
    KEY_VERSION,
};

/* nccl-tests' long names too, where the meaning is the same. */
static const struct option names[] = {
    {"minbytes", required_argument, NULL, 'b'},      {"maxbytes", required_argument, NULL, 'e'},
    {"stepfactor", required_argument, NULL, 'f'},    {"stepbytes", required_argument, NULL, 'i'},
    {"iters", required_argument, NULL, 'n'},         {"warmup_iters", required_argument, NULL, 'w'},
    {"check", required_argument, NULL, 'c'},         {"ngpus", required_argument, NULL, 'g'},
    {"datatype", required_argument, NULL, 'd'},      {"redop", required_argument, NULL, 'o'},
    {"root", required_argument, NULL, 'r'},          {"op", required_argument, NULL, KEY_OP},
    {"procs", no_argument, NULL, KEY_PROCS},         {"threads", no_argument, NULL, KEY_THREADS},
    {"device", required_argument, NULL, KEY_DEVICE}, {"group", required_argument, NULL, KEY_GROUP},
    {"inplace", no_argument, NULL, KEY_INPLACE},     {"compute", required_argument, NULL, KEY_COMPUTE},
    {"plan", no_argument, NULL, KEY_PLAN},           {"lib", required_argument, NULL, KEY_LIB},
    {"json", required_argument, NULL, KEY_JSON},     {"csv", required_argument, NULL, KEY_CSV},
    {"svg", required_argument, NULL, KEY_SVG},       {"help", no_argument, NULL, KEY_HELP},
    {"version", no_argument, NULL, KEY_VERSION},     {"explain", no_argument, NULL, KEY_EXPLAIN},
    {"tune", required_argument, NULL, KEY_TUNE},     {NULL, 0, NULL, 0},
};

/* What is being parsed, for messages. */
struct parse {
    struct bench_options *options;
    const char *option; /* "-b", "--group" */
    int bad;
    int max_given;
    int factor_given;
    int ops_given;
};

__attribute__((format(printf, 2, 3))) static void complain(struct parse *parse, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!parse->bad) { /* one line is enough */
        fprintf(stderr, "rondo-perf: ");
        vfprintf(stderr, format, arguments);
        fprintf(stderr, " (see rondo-perf --help)\n");
    }
    va_end(arguments);
    parse->bad = 1;
}

static size_t parse_size(struct parse *parse, const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = 0;
    int good = end != text && errno == 0 && text[0] != '-';
    if (good && *end && *end != 'B') {
        const char *unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
        good = unit != NULL;
        shift = good ? 10 * (int)(unit - units + 1) : 0;
        end += good;
    }
    if (good && (*end == 'i' || *end == 'I'))
        end++;
    if (good && *end == 'B')
        end++;
    if (!good || *end || value > SIZE_MAX >> shift >> 1 || value == 0) {
        complain(parse, "%s wants a size such as 64, 8K, 1M or 2G, not \"%s\"", parse->option, text);
        return 1;
    }
    return (size_t)value << shift;
}

static int parse_count(struct parse *parse, const char *text, int least, int most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most) {
        complain(parse, "%s wants a number from %d to %d, not \"%s\"", parse->option, least, most, text);
        return least;
    }
    return (int)value;
}

static double parse_microseconds(struct parse *parse, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value > 0 && value <= 1e6)) {
        complain(parse, "%s wants microseconds, more than 0 and at most 1000000, not \"%s\"", parse->option, text);
        return 0;
    }
    return value;
}

/* A list of names, or "all", as bits. `name(i)` is NULL behind the last. */
static unsigned parse_list(struct parse *parse, const char *text, const char *(*name)(int))
{
    unsigned chosen = 0;
    char one[32];
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), at);
        int known = 0;
        for (int i = 0; name(i); i++) {
            int meant = length < sizeof one && (strcmp(one, name(i)) == 0 || strcmp(one, "all") == 0);
            chosen |= meant ? 1u << i : 0;
            known |= meant;
        }
        if (!known) {
            char list[256] = "";
            for (int i = 0; name(i); i++)
                snprintf(list + strlen(list), sizeof list - strlen(list), "%s ", name(i));
            complain(parse, "%s does not know \"%s\"; it knows %sall", parse->option, one, list);
            return 1;
        }
        at += length;
        if (!*at)
            return chosen;
    }
}

static const char *type_name(int i)
{
    return i < rondoNumTypes ? number_types[i].name : NULL;
}

static const char *redop_name(int i)
{
    return i < rondoNumOps ? bench_redops[i] : NULL;
}

static const char *op_name(int i)
{
    return i < bench_op_count ? bench_ops[i].name : NULL;
}

static void parse_device(struct parse *parse, const char *text)
{
    parse->options->device = text;
    if (strcmp(text, "cuda") != 0 && strcmp(text, "host") != 0)
        complain(parse, "--device knows cuda and host, not \"%s\"", text);
}

static void add_library(struct parse *parse, const char *path)
{
    if (parse->options->lib_count == LIBRARY_MAX - 1)
        complain(parse, "--lib may be given %d times at most", LIBRARY_MAX - 1);
    else
        parse->options->libs[parse->options->lib_count++] = path;
}

/* nccl-tests' options, and those with a letter. */
static void parse_letter(struct parse *parse, int key)
{
    struct bench_options *options = parse->options;
    switch (key) {
    case 'b':
        options->min_bytes = parse_size(parse, optarg);
        break;
    case 'e':
        options->max_bytes = parse_size(parse, optarg);
        parse->max_given = 1;
        break;
    case 'f':
        options->factor = (size_t)parse_count(parse, optarg, 2, 1 << 20);
        parse->factor_given = 1;
        break;
    case 'i':
        options->step_bytes = parse_size(parse, optarg);
        break;
    case 'n':
        options->iterations = parse_count(parse, optarg, 0, 10000000);
        break;
    case 'w':
        options->warmup = parse_count(parse, optarg, 0, 10000000);
        break;
    case 'c':
        options->check = parse_count(parse, optarg, 0, 1);
        break;
    case 'g':
        options->nranks = parse_count(parse, optarg, 1, PROCS_MAX_RANKS);
        break;
    case 'd':
        options->types = parse_list(parse, optarg, type_name);
        break;
    case 'o':
        options->redops = parse_list(parse, optarg, redop_name);
        break;
    case 'r':
        options->root = parse_count(parse, optarg, 0, PROCS_MAX_RANKS - 1);
        break;
    case 'k':
        options->ops_per_graph = parse_count(parse, optarg, 1, 100000);
        break;
    case 'G':
        options->replays = parse_count(parse, optarg, 0, 10000000);
        break;
    default:
        parse->bad = 1; /* getopt has said why */
    }
}

static void parse_word(struct parse *parse, int key)
{
    struct bench_options *options = parse->options;
    switch (key) {
    case KEY_OP:
        parse->ops_given = 1;
        options->ops = parse_list(parse, optarg, op_name);
        break;
    case KEY_PROCS:
        options->threads = 0;
        break;
    case KEY_THREADS:
        options->threads = 1;
        break;
    case KEY_DEVICE:
        parse_device(parse, optarg);
        break;
    case KEY_GROUP:
        options->group = parse_count(parse, optarg, 1, 65536);
        break;
    case KEY_PLAN:
        options->plan = 1;
        break;
    case KEY_INPLACE:
        options->in_place = 1;
        break;
    case KEY_COMPUTE:
        options->compute_us = parse_microseconds(parse, optarg);
        break;
    case KEY_LIB:
        add_library(parse, optarg);
        break;
    case KEY_JSON:
        options->json = optarg;
        break;
    case KEY_CSV:
        options->csv = optarg;
        break;
    case KEY_SVG:
        options->svg = optarg;
        break;
    case KEY_EXPLAIN:
        options->explain = 1;
        break;
    case KEY_TUNE:
        options->tune = optarg;
        break;
    }
}

static enum options_verdict parse_one(struct parse *parse, int key)
{
    if (key == KEY_HELP) {
        usage_print();
        return OPTIONS_DONE;
    }
    if (key == KEY_VERSION) {
        printf("rondo-perf %d.%d.%d\n", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH);
        return OPTIONS_DONE;
    }
    if (key < KEY_OP)
        parse_letter(parse, key);
    else
        parse_word(parse, key);
    return parse->bad ? OPTIONS_BAD : OPTIONS_RUN;
}

/* Tables are made of graph times of one type; by default, of what a user of large models sends. */
static void prepare_tune(struct parse *parse)
{
    struct bench_options *options = parse->options;
    if (options->explain || options->lib_count || options->json || options->csv || options->svg || options->plan ||
        options->group > 1 || options->in_place || options->compute_us > 0)
        complain(parse, "--tune goes with -b, -e, -f, -g, -d, -k, -G, -c, --op, --device and --threads only");
    if (options->replays == 0)
        complain(parse, "--tune measures graphs: not with -G 0");
    if ((options->types & (options->types - 1)) || (options->redops & (options->redops - 1)))
        complain(parse, "--tune measures one type and one reduction");
    if (!parse->max_given)
        options->max_bytes = TUNE_MAX_BYTES > options->min_bytes ? TUNE_MAX_BYTES : options->min_bytes;
    if (!parse->factor_given && !options->step_bytes)
        options->factor = 2;
    if (!parse->ops_given)
        options->ops = ~0u;
    options->iterations = 0;
}

static void check_together(struct parse *parse)
{
    struct bench_options *options = parse->options;
    if (options->tune)
        prepare_tune(parse);
    if (!parse->max_given && options->max_bytes < options->min_bytes)
        options->max_bytes = options->min_bytes;
    if (options->max_bytes < options->min_bytes)
        complain(parse, "-e is smaller than -b");
    if (options->step_bytes && parse->factor_given)
        complain(parse, "-i and -f exclude each other");
    if (options->iterations == 0 && options->replays == 0 && !options->explain)
        complain(parse, "-n 0 and -G 0 leave nothing to measure");
    if (options->json && options->csv && strcmp(options->json, "-") == 0 && strcmp(options->csv, "-") == 0)
        complain(parse, "--json and --csv cannot both go to standard output");
}

enum options_verdict options_parse(struct bench_options *options, int argc, char **argv)
{
    *options = (struct bench_options){
        .min_bytes = 1 << 10,
        .max_bytes = 1 << 20,
        .factor = 4,
        .iterations = 20,
        .warmup = 5,
        .check = 1,
        .types = 1u << rondoFloat,
        .redops = 1u << rondoSum,
        .ops = 1,
        .replays = -1,
        .group = 1,
    };
    struct parse parse = {.options = options};
    char shown[64];
    for (;;) {
        int index = -1;
        int key = getopt_long(argc, argv, "b:e:f:i:n:w:c:g:d:o:r:k:G:h", names, &index);
        if (key == -1)
            break;
        if (key == 'h')
            key = KEY_HELP;
        if (index >= 0)
            snprintf(shown, sizeof shown, "--%s", names[index].name);
        else
            snprintf(shown, sizeof shown, "-%c", key);
        parse.option = shown;
        enum options_verdict verdict = parse_one(&parse, key);
        if (verdict != OPTIONS_RUN)
            return verdict;
    }
    if (optind < argc)
        complain(&parse, "what is \"%s\"? All arguments are options", argv[optind]);
    check_together(&parse);
    return parse.bad ? OPTIONS_BAD : OPTIONS_RUN;
}

size_t options_next_size(const struct bench_options *options, size_t bytes)
{
    if (options->step_bytes)
        return options->max_bytes - bytes < options->step_bytes ? 0 : bytes + options->step_bytes;
    return bytes > options->max_bytes / options->factor ? 0 : bytes * options->factor;
}

void options_size_text(size_t bytes, char *text, size_t room)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    size_t unit = 0;
    while (bytes && bytes % 1024 == 0 && unit < sizeof units / sizeof *units - 1) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, room, "%zu%s", bytes, units[unit]);
}
