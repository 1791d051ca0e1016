/* Host memory that processes share by a file descriptor: no name, nothing in /dev/shm, gone with its last user. */
#ifndef RONDO_DEVICE_MEMFD_H
#define RONDO_DEVICE_MEMFD_H

#include "rondo/rondo.h"

#include <stddef.h>

/* Makes and maps such memory, zeroed, its pages near a NUMA node (-1: anywhere). The descriptor is the caller's to close. */
rondoResult_t rondo_memfd_create(size_t bytes, int node, void **address, int *fd);

/* Maps another's. rondoSystemError too where it has fewer bytes than that: a touch of these would be SIGBUS. */
rondoResult_t rondo_memfd_map(int fd, size_t bytes, void **address);

#endif
