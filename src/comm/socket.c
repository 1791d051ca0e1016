#include "comm/socket.h"

#include "common/clock.h"
#include "common/result.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { IDLE_MS = 60000 };

int rondo_wait_left_ms(uint64_t deadline_ns, int at_most_ms)
{
    uint64_t now = rondo_now_ns();
    uint64_t left = now < deadline_ns ? (deadline_ns - now + 999999) / 1000000 : 0;
    return left < (uint64_t)at_most_ms ? (int)left : at_most_ms;
}

rondoResult_t rondo_wait_poll(const struct rondo_wait *wait, struct pollfd *fds, size_t count, int at_most_ms,
                              int *ready)
{
    uint64_t until = at_most_ms < 0 ? UINT64_MAX : rondo_now_ns() + (uint64_t)at_most_ms * 1000000;
    for (;;) {
        if (wait->cancel && __atomic_load_n(wait->cancel, __ATOMIC_RELAXED))
            return rondo_fail(rondoInvalidUsage, "aborted by this process while waiting for other ranks");
        uint64_t end = until < wait->deadline_ns ? until : wait->deadline_ns;
        /* Without a flag to look at, the kernel may keep us for as long as it likes. */
        int slice = rondo_wait_left_ms(end, wait->cancel ? RONDO_WAIT_SLICE_MS : IDLE_MS);
        *ready = poll(fds, count, slice);
        if (*ready > 0)
            return rondoSuccess;
        if (*ready < 0 && errno != EINTR)
            return rondo_fail(rondoSystemError, "poll of %zu descriptors: %s", count, strerror(errno));
        *ready = 0;
        uint64_t now = rondo_now_ns();
        if (now >= wait->deadline_ns)
            return rondoTimeout;
        if (now >= until)
            return rondoSuccess;
    }
}

rondoResult_t rondo_random(void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = getrandom((char *)bytes + done, count - done, 0);
        if (got < 0 && errno != EINTR)
            return rondo_fail(rondoSystemError, "getrandom: %s", strerror(errno));
        if (got > 0)
            done += (size_t)got;
    }
    return rondoSuccess;
}

int rondo_secret_equal(const void *a, const void *b, size_t count)
{
    const volatile unsigned char *left = a, *right = b;
    unsigned difference = 0;
    for (size_t i = 0; i < count; i++)
        difference |= (unsigned)(left[i] ^ right[i]);
    return difference == 0;
}

/* An address that an id can hold; of two, the better one. IPv6 link-local addresses come last: they need a scope. */
static int address_rank(const struct sockaddr *address)
{
    if (!address)
        return 0;
    if (address->sa_family == AF_INET)
        return 3;
    if (address->sa_family != AF_INET6)
        return 0;
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr) ? 1 : 2;
}

static rondoResult_t named_interface(const char *name, struct sockaddr_storage *address)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return rondo_fail(rondoSystemError, "getifaddrs: %s", strerror(errno));
    char names[256] = "";
    int best = 0;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        int rank = address_rank(one->ifa_addr);
        if (rank == 0 || !(one->ifa_flags & IFF_UP))
            continue;
        if (!strstr(names, one->ifa_name) && strlen(names) + strlen(one->ifa_name) + 2 < sizeof(names))
            strcat(strcat(names, " "), one->ifa_name);
        if (strcmp(one->ifa_name, name) == 0 && rank > best) {
            best = rank;
            size_t bytes = rank == 3 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
            memcpy(address, one->ifa_addr, bytes);
        }
    }
    freeifaddrs(all);
    if (best == 0)
        return rondo_fail(rondoInvalidUsage,
                          "RONDO_SOCKET_IFNAME is \"%s\", but no interface of that name is up with an address; "
                          "there are:%s",
                          name, names);
    return rondoSuccess;
}

rondoResult_t rondo_socket_interface(const char *name, struct sockaddr_storage *address)
{
    memset(address, 0, sizeof(*address));
    if (name && name[0])
        return named_interface(name, address);
    struct sockaddr_in *loopback = (struct sockaddr_in *)address;
    loopback->sin_family = AF_INET;
    loopback->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return rondoSuccess;
}

socklen_t rondo_socket_address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

int rondo_socket_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

void rondo_socket_address_text(const struct sockaddr_storage *address, char text[RONDO_ADDRESS_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(text, RONDO_ADDRESS_TEXT_BYTES, "[%s]:%d", host, ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(text, RONDO_ADDRESS_TEXT_BYTES, "%s:%d", host, ntohs(four->sin_port));
    }
}

rondoResult_t rondo_socket_listen_tcp(struct sockaddr_storage *address, int *fd)
{
    char text[RONDO_ADDRESS_TEXT_BYTES];
    rondo_socket_address_text(address, text);
    *fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return rondo_fail(rondoSystemError, "socket for the root at %s: %s", text, strerror(errno));
    socklen_t bytes = rondo_socket_address_bytes(address);
    if (bind(*fd, (struct sockaddr *)address, bytes) == 0 && listen(*fd, SOMAXCONN) == 0 &&
        getsockname(*fd, (struct sockaddr *)address, &bytes) == 0)
        return rondoSuccess;
    int error = errno;
    rondo_close(fd);
    return rondo_fail(rondoSystemError, "the root cannot listen at %s: %s", text, strerror(error));
}

static socklen_t unix_address(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    size_t bytes = strnlen(name, RONDO_UNIX_NAME_BYTES - 1);
    memcpy(address->sun_path + 1, name, bytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}

rondoResult_t rondo_socket_listen_unix(char name[RONDO_UNIX_NAME_BYTES], int *fd)
{
    uint64_t random[2];
    *fd = -1;
    RONDO_TRY(rondo_random(random, sizeof(random)));
    snprintf(name, RONDO_UNIX_NAME_BYTES, "rondo-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    struct sockaddr_un address;
    socklen_t bytes = unix_address(name, &address);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd >= 0 && bind(*fd, (struct sockaddr *)&address, bytes) == 0 && listen(*fd, SOMAXCONN) == 0)
        return rondoSuccess;
    int error = errno;
    rondo_close(fd);
    return rondo_fail(rondoSystemError, "cannot make a Unix socket to listen on: %s", strerror(error));
}

int rondo_socket_connect_tcp(const struct sockaddr_storage *address, int *fd)
{
    *fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return errno;
    int one = 1;
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(*fd, (const struct sockaddr *)address, rondo_socket_address_bytes(address)) == 0 ||
        errno == EINPROGRESS || errno == EINTR)
        return 0;
    int error = errno;
    rondo_close(fd);
    return error;
}

int rondo_socket_connected(int fd)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        return errno;
    if (error != 0)
        return error;
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_bytes = sizeof(own), peer_bytes = sizeof(peer);
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) != 0)
        return errno;
    return own_bytes == peer_bytes && memcmp(&own, &peer, own_bytes) == 0 ? ECONNREFUSED : 0;
}

int rondo_socket_connect_unix(const char *name, int *fd)
{
    struct sockaddr_un address;
    socklen_t bytes = unix_address(name, &address);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return errno;
    int status;
    do {
        status = connect(*fd, (struct sockaddr *)&address, bytes);
    } while (status != 0 && errno == EINTR);
    if (status == 0)
        return 0;
    int error = errno;
    rondo_close(fd);
    return error;
}

int rondo_socket_accept(int listener, int *fd)
{
    do {
        *fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (*fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (*fd < 0)
        return errno == EWOULDBLOCK ? EAGAIN : errno;
    int one = 1;
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails on Unix sockets, which need it not */
    return 0;
}

ssize_t rondo_socket_send(int fd, const void *bytes, size_t count)
{
    for (;;) {
        ssize_t done = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done >= 0)
            return done;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t rondo_socket_recv(int fd, void *bytes, size_t count)
{
    for (;;) {
        ssize_t done = recv(fd, bytes, count, MSG_DONTWAIT);
        if (done > 0)
            return done;
        if (done == 0)
            return count == 0 ? 0 : -RONDO_SOCKET_CLOSED_ERROR;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t rondo_socket_send_fd(int fd, const void *bytes, size_t count, int passed)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    ssize_t done;
    if (passed < 0)
        return rondo_socket_send(fd, bytes, count);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &passed, sizeof(int));
    do
        done = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (done < 0 && errno == EINTR);
    if (done >= 0)
        return done;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS ? 0 : -errno;
}

ssize_t rondo_socket_recv_fd(int fd, void *bytes, size_t count, int *passed)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {bytes, count};
    struct msghdr message;
    ssize_t done;
    *passed = -1;
    do {
        message = (struct msghdr){
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
        done = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (done < 0 && errno == EINTR);
    if (done < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(passed, CMSG_DATA(header), sizeof(int));
    return done ? done : -RONDO_SOCKET_CLOSED_ERROR;
}

const char *rondo_socket_error_text(int error, char text[64])
{
    if (error == RONDO_SOCKET_CLOSED_ERROR)
        return "connection closed";
    return strerror_r(error, text, 64);
}

int rondo_pidfd_open(pid_t pid)
{
    if (pid <= 0 || pid == getpid())
        return -1;
#ifdef SYS_pidfd_open
    int fd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by definition */
    if (fd >= 0)
        return fd;
    return errno == ESRCH ? -2 : -1;
#else
    return -1;
#endif
}

void rondo_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
