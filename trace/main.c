/* rondo-trace: reads, aligns, tells. */
#include "trace.h"

#include <errno.h>
#include <string.h>

static const char usage[] =
    "usage: rondo-trace [-o MERGED.json] FILE...\n"
    "\n"
    "FILE...: what rondoCommTrace wrote as JSON, one file for each rank of one comm. Prints who was waited for,\n"
    "and how long. -o: writes one trace for chrome://tracing or https://ui.perfetto.dev, with all clocks aligned.\n";

static bool write_to(const struct merged *merged, const char *path)
{
    FILE *out = fopen(path, "w");
    bool fine = out && trace_write(merged, out);
    if (out)
        fine &= fclose(out) == 0;
    if (!fine)
        fprintf(stderr, "rondo-trace: %s: %s\n", path, strerror(errno));
    return fine;
}

int main(int argc, char **argv)
{
    static struct merged merged;
    const char *output = NULL;
    bool fine = true;
    for (int i = 1; i < argc && fine; i++) {
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
            fputs(usage, stdout);
            return 0;
        }
        if (!strcmp(argv[i], "-o")) {
            output = i + 1 < argc ? argv[++i] : NULL;
            fine = output != NULL;
        } else if (merged.count == MOST_RANKS) {
            fine = false;
        } else {
            fine = trace_read(argv[i], &merged.ranks[merged.count]);
            merged.count++;
        }
    }
    if (argc < 2 || (fine && !merged.count)) {
        fputs(usage, stderr);
        fine = false;
    }
    fine = fine && trace_match(&merged);
    if (fine)
        trace_summary(&merged, stdout);
    if (fine && output)
        fine = write_to(&merged, output);
    trace_free(&merged);
    return fine ? 0 : 2;
}
