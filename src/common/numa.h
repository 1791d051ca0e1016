/* Where memory and threads are near a device. Nothing here fails: what the machine does not tell is left to the kernel. */
#ifndef RONDO_COMMON_NUMA_H
#define RONDO_COMMON_NUMA_H

#include <stddef.h>

/* The NUMA node of a PCI device ("0000:18:00.0"), -1: not known, or there is only one. */
int rondo_numa_node_of(const char *bus_id);

/* Asks for pages that were not touched yet to be on a node; -1: does nothing. */
void rondo_numa_place(void *address, size_t bytes, int node);

/* Keeps the calling thread to those of its CPUs that are of a node; -1, or none of them is: does nothing. */
void rondo_numa_stay(int node);

#endif
