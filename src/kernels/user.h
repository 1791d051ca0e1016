/* Lines of the user's buffers: line i holds the bytes from i * RONDO_LINE_BYTES on, whatever the pointer's alignment, so
 * that all ranks cut a message alike. Nothing outside [0, bytes) is read or written; what lies beyond the end reads as
 * zero. `element` is the element's size: pointers are aligned to it. */
#ifndef RONDO_KERNELS_USER_H
#define RONDO_KERNELS_USER_H

#include "kernels/dialect.h"

RONDO_FN struct rondo_line rondo_user_load_ragged(unsigned element, const char *from, uint64_t room)
{
    struct rondo_line line;
    RONDO_UNROLL
    for (unsigned w = 0; w < RONDO_LINE_WORDS; w++) {
        uint32_t word = 0;
        if (element >= 4) {
            if (w * 4 < room)
                word = *(const uint32_t *)(from + w * 4);
        } else if (element == 2) {
            if (w * 4 < room)
                word = *(const uint16_t *)(from + w * 4);
            if (w * 4 + 2 < room)
                word |= (uint32_t) * (const uint16_t *)(from + w * 4 + 2) << 16;
        } else {
            RONDO_UNROLL
            for (unsigned b = 0; b < 4; b++)
                if (w * 4 + b < room)
                    word |= (uint32_t) * (const uint8_t *)(from + w * 4 + b) << 8 * b;
        }
        line.w[w] = word;
    }
    return line;
}

RONDO_FN void rondo_user_store_ragged(unsigned element, char *to, uint64_t room, struct rondo_line line)
{
    RONDO_UNROLL
    for (unsigned w = 0; w < RONDO_LINE_WORDS; w++) {
        if (element >= 4) {
            if (w * 4 < room)
                *(uint32_t *)(to + w * 4) = line.w[w];
        } else if (element == 2) {
            if (w * 4 < room)
                *(uint16_t *)(to + w * 4) = (uint16_t)line.w[w];
            if (w * 4 + 2 < room)
                *(uint16_t *)(to + w * 4 + 2) = (uint16_t)(line.w[w] >> 16);
        } else {
            RONDO_UNROLL
            for (unsigned b = 0; b < 4; b++)
                if (w * 4 + b < room)
                    *(uint8_t *)(to + w * 4 + b) = (uint8_t)(line.w[w] >> 8 * b);
        }
    }
}

/* Out of line, for a whole line is what nearly every thread has. */
RONDO_CALL struct rondo_line rondo_user_load_slow(unsigned element, const char *from, uint64_t room)
{
    return element >= 4   ? rondo_user_load_ragged(4, from, room)
           : element == 2 ? rondo_user_load_ragged(2, from, room)
                          : rondo_user_load_ragged(1, from, room);
}

RONDO_CALL void rondo_user_store_slow(unsigned element, char *to, uint64_t room, struct rondo_line line)
{
    if (element >= 4)
        rondo_user_store_ragged(4, to, room, line);
    else if (element == 2)
        rondo_user_store_ragged(2, to, room, line);
    else
        rondo_user_store_ragged(1, to, room, line);
}

/* Line i of a message of `bytes` bytes. `aligned`: its pointer is a line's. */
RONDO_FN struct rondo_line rondo_user_load(unsigned element, bool aligned, const void *message, uint64_t bytes,
                                           uint64_t i)
{
    const uint64_t at = i * RONDO_LINE_BYTES;
    const char *from = (const char *)message + at;
    if (aligned && at + RONDO_LINE_BYTES <= bytes)
        return *(const struct rondo_line *)from;
    return rondo_user_load_slow(element, from, bytes - at);
}

RONDO_FN void rondo_user_store(unsigned element, bool aligned, void *message, uint64_t bytes, uint64_t i,
                               struct rondo_line line)
{
    const uint64_t at = i * RONDO_LINE_BYTES;
    char *to = (char *)message + at;
    if (aligned && at + RONDO_LINE_BYTES <= bytes)
        *(struct rondo_line *)to = line;
    else
        rondo_user_store_slow(element, to, bytes - at, line);
}

#endif
