/* Small non-blocking socket verbs of the bootstrap: every descriptor is close-on-exec and non-blocking, no call raises
 * SIGPIPE, and waiting is done in one place, rondo_wait_poll. */
#ifndef RONDO_COMM_SOCKET_H
#define RONDO_COMM_SOCKET_H

#include "rondo/rondo.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum {
    RONDO_WAIT_SLICE_MS = 25,   /* the cancel flag is looked at this often */
    RONDO_UNIX_NAME_BYTES = 40, /* an abstract socket's name with its end, without the leading zero */
    RONDO_ADDRESS_TEXT_BYTES = 80,
    RONDO_SOCKET_CLOSED_ERROR = 10000, /* "errno" of an orderly end of stream */
};

/* What bounds a wait. `cancel` may be NULL; whoever sets it uses an atomic store. */
struct rondo_wait {
    uint64_t deadline_ns;
    const volatile int *cancel;
};

/* poll() until a descriptor is ready, `at_most_ms` is over (-1: no such bound; *ready is then 0), the deadline is over
 * (rondoTimeout, without a text: the caller knows what it waited for) or *cancel is set (rondoInvalidUsage). */
rondoResult_t rondo_wait_poll(const struct rondo_wait *wait, struct pollfd *fds, size_t count, int at_most_ms,
                              int *ready);

/* Whole milliseconds until `deadline_ns`, rounded up, 0 if it is over. */
int rondo_wait_left_ms(uint64_t deadline_ns, int at_most_ms);

rondoResult_t rondo_random(void *bytes, size_t count);

/* Takes equal time whatever differs. */
int rondo_secret_equal(const void *a, const void *b, size_t count);

/* The address of the interface `name`, IPv4 if it has one, or of loopback if `name` is NULL or empty; port 0.
 * rondoInvalidUsage: no such interface, or it has no address; the text lists those there are. */
rondoResult_t rondo_socket_interface(const char *name, struct sockaddr_storage *address);

socklen_t rondo_socket_address_bytes(const struct sockaddr_storage *address);

/* Whether only this host can reach it. */
int rondo_socket_is_loopback(const struct sockaddr_storage *address);

/* "127.0.0.1:4000", "[::1]:4000". */
void rondo_socket_address_text(const struct sockaddr_storage *address, char text[RONDO_ADDRESS_TEXT_BYTES]);

/* Listens at `address`, port 0 is replaced by the one that the kernel chose. */
rondoResult_t rondo_socket_listen_tcp(struct sockaddr_storage *address, int *fd);

/* Listens on an abstract Unix socket of a new random name. */
rondoResult_t rondo_socket_listen_unix(char name[RONDO_UNIX_NAME_BYTES], int *fd);

/* Starts a TCP connection; *fd becomes writable when it stands or failed. Returns 0 or an errno (*fd is then -1). */
int rondo_socket_connect_tcp(const struct sockaddr_storage *address, int *fd);

/* How a started TCP connection went: 0 or an errno. Also refuses a connection of a socket with itself, which loopback
 * makes when nobody listens at a port that the kernel hands out. */
int rondo_socket_connected(int fd);

/* Connects to an abstract Unix socket at once. Returns 0, EAGAIN (its queue is full) or another errno. */
int rondo_socket_connect_unix(const char *name, int *fd);

/* Accepts one connection. Returns 0, EAGAIN or another errno. */
int rondo_socket_accept(int listener, int *fd);

/* One step of sending or receiving: bytes done (> 0), 0 if it would block, or minus an errno;
 * minus RONDO_SOCKET_CLOSED_ERROR at the end of the stream. */
ssize_t rondo_socket_send(int fd, const void *bytes, size_t count);
ssize_t rondo_socket_recv(int fd, void *bytes, size_t count);

/* The same over a Unix socket, with a descriptor. Send: `passed` goes with the first byte; -1: none. Recv: *passed is what came
 * along, close-on-exec and the caller's, -1: none; one at most, for a step ends behind what brought one. */
ssize_t rondo_socket_send_fd(int fd, const void *bytes, size_t count, int passed);
ssize_t rondo_socket_recv_fd(int fd, void *bytes, size_t count, int *passed);

/* What `error` (an errno or RONDO_SOCKET_CLOSED_ERROR) means; `text` is used where the text is not constant. */
const char *rondo_socket_error_text(int error, char text[64]);

/* A descriptor that becomes readable when the process ends: >= 0; -1: none can be had (old kernel, not allowed, the own
 * process, a process of another namespace); -2: there is no such process any more. */
int rondo_pidfd_open(pid_t pid);

/* Closes *fd if it is one, and sets it to -1. */
void rondo_close(int *fd);

#endif
