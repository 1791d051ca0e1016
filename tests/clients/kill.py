#!/usr/bin/env python3
"""Kills a rank in the middle of its ops: the others must notice, by an exception or the watchdog's end of the process, in time.

    --within S      how long that may take (60; the process group's timeout is a third of it)
"""
import os
import signal
import sys
import tempfile
import time

import ranks


def body(rank):
    import datetime

    import torch
    import torch.distributed as dist

    from torch_rank import synchronize
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", rank.number) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", rank=rank.number, world_size=rank.count,
                            timeout=datetime.timedelta(seconds=rank.options.within / 3), **({"device_id": device} if cuda else {}))
    tensor = torch.ones(1 << 20, device=device)
    for i in range(1_000_000):
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        if i == 200 and rank.number == rank.count - 1:
            synchronize(device)
            with open(os.path.join(os.environ["CLIENT_REPORTS"], "killed"), "w") as file:
                file.write(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        synchronize(device)
    sys.exit(0) # nobody noticed


def survivors(processes, reports, limit):
    """When each of them ended, in seconds after the kill."""
    path, ended = os.path.join(reports, "killed"), {}
    end = time.monotonic() + limit
    while len(ended) < len(processes) and time.monotonic() < end:
        for i, process in enumerate(processes):
            if i not in ended and process.poll() is not None:
                ended[i] = time.monotonic()
        time.sleep(0.02)
    if not os.path.exists(path) or not open(path).read():
        sys.exit("no rank was killed")
    killed = float(open(path).read())
    return {i: at - killed for i, at in ended.items()}


def main():
    parser = ranks.parser_of(__doc__)
    parser.add_argument("--within", type=float, default=60)
    options = parser.parse_args()
    if "CLIENT_REPORTS" in os.environ:
        body(ranks.Rank(options))
        return
    ranks.end_with_ranks()
    with tempfile.TemporaryDirectory() as reports:
        processes = ranks.start_ranks(options, reports, os.path.abspath(sys.argv[0]))
        try:
            ended = survivors(processes, reports, options.within + 120)
        finally:
            ranks.stop(processes)
    failed = False
    for i, process in enumerate(processes[:-1]):
        noticed = i in ended and ended[i] <= options.within and process.returncode != 0
        failed |= not noticed
        print(f"rank {i} ends, status {process.returncode:<22} {'ok' if noticed else 'FAILED':<6} {ended.get(i, -1):8.2f}")
    print("FAILED" if failed or not processes[1:] else f"{len(processes) - 1} ok")
    sys.exit(1 if failed else 0)


main()
