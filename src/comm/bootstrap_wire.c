#include "comm/bootstrap_wire.h"

#include <netinet/in.h>
#include <string.h>

void rondo_id_set_address(struct rondo_id *id, const struct sockaddr_storage *address)
{
    id->magic = RONDO_WIRE_MAGIC;
    id->version = RONDO_WIRE_VERSION;
    id->family = address->ss_family;
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
        id->port = six->sin6_port;
        id->scope = six->sin6_scope_id;
        memcpy(id->address, &six->sin6_addr, 16);
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        id->port = four->sin_port;
        memcpy(id->address, &four->sin_addr, 4);
    }
}

void rondo_id_get_address(const struct rondo_id *id, struct sockaddr_storage *address)
{
    memset(address, 0, sizeof(*address));
    address->ss_family = id->family;
    if (id->family == AF_INET6) {
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
        six->sin6_port = id->port;
        six->sin6_scope_id = id->scope;
        memcpy(&six->sin6_addr, id->address, 16);
    } else {
        struct sockaddr_in *four = (struct sockaddr_in *)address;
        four->sin_port = id->port;
        memcpy(&four->sin_addr, id->address, 4);
    }
}

int rondo_id_valid(const struct rondo_id *id)
{
    return id->magic == RONDO_WIRE_MAGIC && id->version == RONDO_WIRE_VERSION &&
           (id->family == AF_INET || id->family == AF_INET6);
}

size_t rondo_note_make(uint8_t note[RONDO_NOTE_BYTES], enum rondo_frame_type type, const char *text)
{
    size_t bytes = type == RONDO_FRAME_ABORTED ? strnlen(text ? text : "", RONDO_WIRE_TEXT_BYTES - 1) + 1 : 0;
    struct rondo_frame frame = {RONDO_FRAME_MAGIC, (uint16_t)type, 0, bytes};
    memcpy(note, &frame, sizeof(frame));
    if (bytes) {
        memcpy(note + sizeof(frame), text ? text : "", bytes - 1);
        note[sizeof(frame) + bytes - 1] = 0;
    }
    return sizeof(frame) + bytes;
}
