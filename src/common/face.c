#include "common/face.h"

#include <stddef.h>

static const char *no_alias(const char *row, const char **name, char *room)
{
    (void)row, (void)name, (void)room;
    return NULL;
}

__attribute__((weak)) const struct rondo_face *rondo_face(void)
{
    static const struct rondo_face face = {.tag = "RONDO", .alias = no_alias};
    return &face;
}
