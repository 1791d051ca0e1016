/* Faults of the C library below rondo-doctor on the host device, whose memory is memfds: preloaded, DOCTOR_FAULT says which.
 *   none     memfds cannot be had
 *   private  mappings of files are copies: what a process stores in one is not visible to others
 *   shrink   files have no bytes: a touch of them is SIGBUS
 *   hang     a call does not return */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static int is(const char *fault)
{
    const char *wanted = getenv("DOCTOR_FAULT");
    return wanted && !strcmp(wanted, fault);
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

SHOWN int memfd_create(const char *name, unsigned flags)
{
    int (*real)(const char *, unsigned);
    *(void **)&real = next("memfd_create");
    while (is("hang"))
        pause();
    if (is("none")) {
        errno = ENOSYS;
        return -1;
    }
    return real(name, flags);
}

SHOWN int ftruncate(int fd, off_t bytes)
{
    int (*real)(int, off_t);
    *(void **)&real = next("ftruncate");
    return real(fd, is("shrink") ? 0 : bytes);
}

SHOWN void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t);
    *(void **)&real = next("mmap");
    if (fd >= 0 && flags & MAP_SHARED && is("private"))
        flags = (flags & ~MAP_SHARED) | MAP_PRIVATE;
    return real(address, bytes, protection, flags, fd, offset);
}
