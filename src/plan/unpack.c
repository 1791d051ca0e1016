#include "plan/unpack.h"

#include "kernels/instances.h"

void rondo_unpack(unsigned kernel, void *args, struct rondo_unpacked *unpacked)
{
    char *const start = args;
    *unpacked = (struct rondo_unpacked){.lane = args};
    if (kernel == RONDO_KERNEL_SELFTEST)
        return;
    if (kernel == RONDO_KERNEL_BARRIER) {
        unpacked->barrier = true;
        return;
    }
    if (kernel < RONDO_KERNEL_GROUPS) {
        unpacked->works = &((struct rondo_single_args *)args)->work;
        unpacked->exports = &((struct rondo_single_args *)args)->exports;
        unpacked->work_count = 1;
        return;
    }
    const struct rondo_batch_head *head = args;
    unpacked->works = (struct rondo_work *)(start + head->works_at);
    unpacked->work_count = (size_t)(head->channels_at - head->works_at) / sizeof(struct rondo_work);
    unpacked->barrier = head->exchange_blocks && !unpacked->work_count;
    if (!head->ends_at)
        return;
    unpacked->transfers = (struct rondo_transfer *)(start + head->transfers_at);
    unpacked->transfer_count = (size_t)(head->ends_at - head->transfers_at) / sizeof(struct rondo_transfer);
    unpacked->ends = (struct rondo_end *)(start + head->ends_at);
    for (size_t done = 0; done < unpacked->transfer_count; unpacked->end_count++)
        done = unpacked->ends[unpacked->end_count].end;
}
