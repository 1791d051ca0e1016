#include "device/memfd.h"

#include "common/numa.h"
#include "common/result.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static rondoResult_t map(int fd, size_t bytes, void **address)
{
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return rondo_fail(rondoSystemError, "mmap of %zu bytes: %s", bytes, strerror(errno));
    *address = mapped;
    return rondoSuccess;
}

rondoResult_t rondo_memfd_create(size_t bytes, int node, void **address, int *fd)
{
    rondoResult_t result;
    *fd = memfd_create("rondo", MFD_CLOEXEC);
    if (*fd < 0)
        return rondo_fail(rondoSystemError, "memfd_create: %s", strerror(errno));
    if (ftruncate(*fd, (off_t)bytes) != 0)
        result = rondo_fail(rondoSystemError, "memfd of %zu bytes: %s", bytes, strerror(errno));
    else
        result = map(*fd, bytes, address);
    if (result == rondoSuccess) {
        rondo_numa_place(*address, bytes, node);
    } else {
        close(*fd);
        *fd = -1;
    }
    return result;
}

rondoResult_t rondo_memfd_map(int fd, size_t bytes, void **address)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || (uint64_t)status.st_size < bytes)
        return rondo_fail(rondoSystemError, "a peer's memory is not the %zu bytes that it should be", bytes);
    return map(fd, bytes, address);
}
