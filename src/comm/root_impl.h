/* A root from inside: root.c has its life (thread, fork, start and stop), root_serve.c what it does with those who
 * connect. All functions are called with roots_lock held. */
#ifndef RONDO_COMM_ROOT_IMPL_H
#define RONDO_COMM_ROOT_IMPL_H

#include "rondo/rondo.h"

#include "comm/bootstrap_wire.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

enum rondo_root_stage {
    RONDO_ROOT_STRANGER, /* has not proven that it knows the secret */
    RONDO_ROOT_MEMBER,   /* has; waits for the others */
    RONDO_ROOT_LEAVING,  /* was told the end and is to close */
};

struct rondo_root_connection {
    int fd;    /* -1: to be swept */
    int pidfd; /* of a member whose process we can see, else -1: a forked child may keep a dead rank's socket open */
    enum rondo_root_stage stage;
    uint64_t deadline_ns; /* of RONDO_ROOT_STRANGER and RONDO_ROOT_LEAVING */
    size_t have;          /* bytes of the hello */
    struct rondo_hello hello;
    uint8_t *out; /* what is to be sent */
    size_t out_bytes, out_sent;
};

/* Everything in a root is under roots_lock, which its thread holds but while it is in poll(). So the fork handlers,
 * which take the lock, find every root whole. */
struct rondo_root {
    struct rondo_root *next;
    struct rondo_id id;
    struct rondo_host host;
    uint8_t token[RONDO_TOKEN_BYTES];
    int listener, wake;
    int stop;
    uint64_t accept_ns; /* not before */
    int nranks;         /* 0 until the first hello */
    int first;          /* the rank that said nranks */
    int joined, complete;
    int hellos, expected;                   /* valid hellos so far; the most ranks that any of them spoke of */
    struct rondo_root_connection **members; /* nranks; entries are owned by `connections` */
    rondoResult_t failed;
    uint64_t failed_end_ns;
    char failure[RONDO_WIRE_TEXT_BYTES];
    struct rondo_root_connection **connections; /* in order of arrival */
    size_t count, capacity;
    struct pollfd *polls; /* capacity for 2 + 2 * capacity; the thread's own while it polls */
};

/* Makes room for one more connection, also in `polls`; 0 if there is no memory. */
int rondo_root_room(struct rondo_root *root);

/* After what is there has been served: fills `polls` and returns how many ms to wait, or -1 when the root is done. */
int rondo_root_prepare(struct rondo_root *root, nfds_t *polled);

/* After a poll() that found something. */
void rondo_root_serve(struct rondo_root *root);

/* Forgets closed connections and those whose time is over. */
void rondo_root_sweep(struct rondo_root *root);

/* The comm cannot be: tells all that have joined, and then those that do. */
void rondo_root_give_up(struct rondo_root *root, int others, rondoResult_t result, const char *text);

/* Closes and frees everything; accepts a partly built root. */
void rondo_root_free(struct rondo_root *root);

#endif
