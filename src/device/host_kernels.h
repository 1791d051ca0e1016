/* The host device's kernels, as src/kernels/kernels.c makes them, and what a launch tells them. */
#ifndef RONDO_DEVICE_HOST_KERNELS_H
#define RONDO_DEVICE_HOST_KERNELS_H

/* By kernel number; the argument is the launch's. The address of an entry is the host device's struct rondo_kernel. */
extern void (*const rondo_host_kernels[])(const void *args);
extern const unsigned rondo_host_kernel_count;

/* The block that the calling thread runs, and how many there are. */
extern _Thread_local unsigned rondo_host_block, rondo_host_blocks;

#endif
