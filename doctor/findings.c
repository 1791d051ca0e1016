#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *severity_name(enum severity severity)
{
    static const char *const names[] = {"note", "warning", "fault"};
    return names[severity];
}

void findings_add(struct findings *findings, enum severity severity, const char *advice, const char *format, ...)
{
    struct finding made = {.severity = severity};
    va_list list;
    va_start(list, format);
    vsnprintf(made.text, sizeof made.text, format, list);
    va_end(list);
    snprintf(made.advice, sizeof made.advice, "%s", advice);
    for (int i = 0; i < findings->count; i++)
        if (!strcmp(findings->list[i].text, made.text))
            return;
    if (findings->count == FINDINGS_MOST)
        findings->left_out++;
    else
        findings->list[findings->count++] = made;
}
