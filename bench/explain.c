#include "explain.h"

#include "number.h"

#include <stdio.h>

void explain_header(struct report *report)
{
    fprintf(report->text, "#%10s %13s %9s %-9s %-9s %8s %7s %6s  %s\n", "size", "count", "type", "exchange", "protocol",
            "channels", "threads", "steps", "why");
}

void explain_row(struct report *report, rondoComm_t comm, const struct bench_case *what)
{
    rondoChoice_t choice = RONDO_CHOICE_INITIALIZER;
    const struct bench_op *op = what->op;
    rondoResult_t result =
        rondoCommExplain(comm, op->name, op->explain_count(&what->place), what->data.type, what->data.redop, &choice);
    if (result != rondoSuccess)
        bench_fail(0, "CommExplain: %s", rondoGetLastError(comm));
    fprintf(report->text, " %10zu %13zu %9s %-9s %-9s %8d %7d %6zu  %s\n", what->bytes, what->place.count,
            op->has_data ? number_types[what->data.type].name : "none", choice.algorithm, choice.protocol,
            choice.channels, choice.threads, choice.steps, choice.why);
    fflush(report->text);
}
