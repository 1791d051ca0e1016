/* What the bootstrap puts into the unique id and onto its sockets. One host only, so numbers are in its byte order
 * (addresses and ports are in network order); `version` guards against two builds that differ. */
#ifndef RONDO_COMM_BOOTSTRAP_WIRE_H
#define RONDO_COMM_BOOTSTRAP_WIRE_H

#include "rondo/rondo.h"

#include "comm/socket.h"

#include <stdint.h>

enum {
    RONDO_WIRE_MAGIC = 0x6f646e72, /* "rndo" */
    RONDO_WIRE_VERSION = 2,
    RONDO_WIRE_TEXT_BYTES = 480, /* longest text of a failure, with its end */
    RONDO_SECRET_BYTES = 32,
    RONDO_TOKEN_BYTES = 16,
    RONDO_BOOTSTRAP_RANKS = 1024, /* most ranks of a comm */
    RONDO_GIVE_UP = 'T',          /* the one byte that a rank may send the root after its hello: its time is over */
};

/* A unique id, read as what it is. */
struct rondo_id {
    uint32_t magic;
    uint32_t version;
    uint16_t family; /* AF_INET or AF_INET6 */
    uint16_t port;
    uint32_t scope; /* of a link-local IPv6 address */
    uint8_t address[16];
    uint8_t secret[RONDO_SECRET_BYTES];
    uint8_t boot[16]; /* of the host where the id was made, as in rondo_host */
    char host[48];    /* its name, cut to what fits */
};
_Static_assert(sizeof(struct rondo_id) == RONDO_UNIQUE_ID_BYTES, "the id has no padding");

/* Where a process runs. `boot` tells hosts apart; abstract Unix sockets also need the same network namespace. */
struct rondo_host {
    uint8_t boot[16]; /* the kernel's boot id; zero if it cannot be read, then the name tells */
    uint64_t network; /* inode of the network namespace, 0 if it cannot be read */
    uint64_t pids;    /* inode of the process id namespace, the same */
    char name[64];
};

/* A rank, as all others get to know it. */
struct rondo_member {
    struct rondo_host host;
    uint8_t token[RONDO_TOKEN_BYTES]; /* random, one per process: process ids alone repeat across namespaces */
    char socket[RONDO_UNIX_NAME_BYTES];
    int32_t pid; /* in its own namespace */
    int32_t unused;
};

/* rank → root, once. */
struct rondo_hello {
    uint32_t magic;
    uint32_t version;
    uint8_t secret[RONDO_SECRET_BYTES];
    int32_t rank;
    int32_t nranks;
    struct rondo_member member;
};

enum rondo_reply_kind {
    RONDO_REPLY_JOINED, /* the hello was accepted; nothing follows */
    RONDO_REPLY_TABLE,  /* all are in: nranks times struct rondo_member */
    RONDO_REPLY_FAILED, /* the comm cannot be: a text with its end */
};

/* root → rank: JOINED, then one of the others. */
struct rondo_reply {
    uint32_t magic;
    uint32_t kind;
    int32_t result;
    uint32_t bytes; /* of what follows */
};

/* rank ↔ rank over a fresh Unix socket, both ways. */
struct rondo_greeting {
    uint32_t magic;
    int32_t rank;
    uint8_t secret[RONDO_SECRET_BYTES];
    uint8_t token[RONDO_TOKEN_BYTES];
};

enum rondo_frame_type {
    RONDO_FRAME_GATHER = 1,  /* bytes of an all_gather */
    RONDO_FRAME_FDS = 2,     /* one byte: 1 if a descriptor comes along */
    RONDO_FRAME_ABORTED = 3, /* the rank failed or aborts: a text with its end, RONDO_WIRE_TEXT_BYTES at most */
    RONDO_FRAME_LEFT = 4,    /* the rank destroyed its comm in order; no bytes */
    RONDO_FRAME_EXPORT = 6,  /* a letter to the peer's exporter, the same */
    RONDO_FRAME_POST = 5,    /* a letter to the peer's inbox, RONDO_WIRE_TEXT_BYTES at most; after the exchanges */
};

/* rank ↔ rank ever after: this and its bytes. */
struct rondo_frame {
    uint16_t magic;
    uint16_t type;
    uint32_t sequence; /* counts the exchanges of a comm; in EXPORT 1 if a descriptor comes along; else 0 */
    uint64_t bytes;
};

enum { RONDO_FRAME_MAGIC = 0x6472 };

/* The address in an id. */
void rondo_id_set_address(struct rondo_id *id, const struct sockaddr_storage *address);
void rondo_id_get_address(const struct rondo_id *id, struct sockaddr_storage *address);

/* Whether these bytes can be an id; says nothing about its root. */
int rondo_id_valid(const struct rondo_id *id);

/* An ABORTED frame (with its text, cut to what fits) or a LEFT frame, made to be sent in one piece. Returns its
 * bytes. */
enum { RONDO_NOTE_BYTES = sizeof(struct rondo_frame) + RONDO_WIRE_TEXT_BYTES };
size_t rondo_note_make(uint8_t note[RONDO_NOTE_BYTES], enum rondo_frame_type type, const char *text);

#endif
