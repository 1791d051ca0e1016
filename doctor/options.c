#include "options.h"

#include "rondo/rondo.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: rondo-doctor [--quick] [--json] [--svg FILE] [--timeout SECONDS]\n"
    "\n"
    "Shows the machine's topology and what stands in the way of fast communication, and tries every mechanism\n"
    "between every two GPUs. Without a GPU, or with RONDO_DEVICE=host, it reports the host device.\n"
    "\n"
    "  --quick            small copies, few rounds, several pairs at a time\n"
    "  --json             the report as JSON on standard output\n"
    "  --svg FILE         the matrix of paths and verdicts as a picture\n"
    "  --timeout SECONDS  longest duration of the run (300; with --quick 60); what was not reached is INCONCLUSIVE\n"
    "  --version, --help\n"
    "\n"
    "Exit status: 0 all pairs are OK, 1 one is BROKEN, 2 one is INCONCLUSIVE, 3 wrong usage. Bandwidth never "
    "decides.\n";

static int wrong(const char *text, const char *value)
{
    fprintf(stderr, "rondo-doctor: %s%s (see rondo-doctor --help)\n", text, value);
    return EXIT_USAGE;
}

int options_parse(struct options *options, int argc, char **argv)
{
    static const struct option known[] = {{"quick", no_argument, NULL, 'q'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"svg", required_argument, NULL, 's'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"version", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;
    char *end;
    *options = (struct options){.seconds = 0};
    opterr = 0;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        switch (option) {
        case 'q':
            options->quick = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 's':
            options->svg = optarg;
            break;
        case 't':
            options->seconds = (int)strtol(optarg, &end, 10);
            if (*end || options->seconds < 1 || options->seconds > 86400)
                return wrong("--timeout takes seconds, 1 to 86400, not ", optarg);
            break;
        case 'v':
            printf("rondo-doctor %d.%d.%d\n", RONDO_MAJOR, RONDO_MINOR, RONDO_PATCH);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            return wrong("unknown or incomplete option ", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return wrong("unexpected argument ", argv[optind]);
    if (!options->seconds)
        options->seconds = options->quick ? 60 : 300;
    return -1;
}
