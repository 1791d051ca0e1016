#include "talk.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

static bool send_one(int socket, const void *message, size_t bytes, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {(void *)(uintptr_t)message, bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool receive_one(int socket, void *message, size_t bytes, int *fd, uint64_t limit_ns)
{
    char control[CMSG_SPACE(sizeof *fd)];
    struct iovec part = {message, bytes};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    if (poll(&ready, 1, (int)(limit_ns / 1000000)) != 1)
        return false;
    if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != (ssize_t)bytes)
        return false;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    if (fd)
        *fd = -1;
    if (fd && c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return true;
}

bool talk_swap(const struct probe *probe, const void *mine, void *theirs, size_t bytes, int fd, int *their_fd)
{
    /* The other may have much to do before it comes here: copies, and waits of kernels. */
    return send_one(probe->socket, mine, bytes, fd) &&
           receive_one(probe->socket, theirs, bytes, their_fd, 4 * probe->limit_ns);
}

bool talk_agree(const struct probe *probe, bool well, bool *lost)
{
    char mine = well, theirs = 0;
    if (probe->socket < 0)
        return well;
    if (!talk_swap(probe, &mine, &theirs, 1, -1, NULL)) {
        *lost = true;
        return false;
    }
    return mine && theirs;
}
