/* Whether JSON is well formed, as far as what is written by hand goes wrong. */
#ifndef RONDO_TESTS_JSON_H
#define RONDO_TESTS_JSON_H

#include "support/rig.h"

#include <stdio.h>
#include <string.h>

/* 0: brackets close what they open, and strings end: what hand-written JSON gets wrong. */
static inline int json_is_wrong(struct rig *rig, const char *json)
{
    char open[64];
    size_t depth = 0;
    bool string = false;
    for (const char *c = json; *c; c++) {
        if (*c == '\\' && string)
            c++;
        else if (*c == '"')
            string = !string;
        else if (!string && (*c == '{' || *c == '['))
            open[depth++ % sizeof open] = *c;
        else if (!string && (*c == '}' || *c == ']'))
            RIG_CHECK(depth && open[--depth] == (*c == '}' ? '{' : '['), "at %.40s", c);
        RIG_CHECK(string || !strchr(",[{", *c) || !strchr(",]}", c[1]) || c[1] == (*c == '[' ? ']' : 0), "at %.40s", c);
    }
    RIG_CHECK(depth == 0 && !string, "%zu open", depth);
    return 0;
}

#endif
