#!/usr/bin/env python3
"""PyTorch's all-reduces on symmetric memory, measured as rondo-perf measures a library: the same JSON lines, on standard output.

    bench/peers/torch_symmetric.py -g 4 -b 1K -e 1M

lib is "torch-one-shot" (one_shot_all_reduce_out) and "torch-two-shot" (two_shot_all_reduce_, in place: PyTorch has no faster one).
Inputs lie in symmetric memory. NVLink multicast is not used. Eager times are those of calls from Python, as PyTorch's users make
them.

What cannot be measured is a line with "unavailable", the reason, instead of times; that is no error. Exit status: 1 if a result
was wrong, 2 if the options were."""
import argparse
import json
import math
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback

LIBS = ("torch-one-shot", "torch-two-shot")
TYPES = {"float": 4, "bfloat16": 2}  # what the kernels know, by rondo-perf's names
LARGE = 16 << 20  # from here on, fewer ops and replays
GRAPH_WARMUP, SETTLE = 3, 0.005
PERIOD = 4099  # of the data: a prime
WORDS = 8  # of a rank in the memory where ranks meet: a cache line
GRACE = 10  # seconds in which ranks may end after one has failed


def size_of(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1].upper()] if text[-1:].isalpha() else int(text)


def sizes(options):
    size = options.minbytes
    while size <= options.maxbytes:
        yield size
        size *= options.factor


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-b", "--minbytes", type=size_of, default=1 << 10)
    parser.add_argument("-e", "--maxbytes", type=size_of, default=1 << 20)
    parser.add_argument("-f", "--factor", type=int, default=4)
    parser.add_argument("-g", "--ngpus", type=int, default=2)
    parser.add_argument("-d", "--datatype", default="float", help="a list of float and bfloat16")
    parser.add_argument("-n", type=int, default=20, help="eager ops; 0: none")
    parser.add_argument("-w", type=int, default=5, help="eager ops before that")
    parser.add_argument("-k", type=int, default=0, help="ops in a graph (20; 4 from 16M on)")
    parser.add_argument("-G", type=int, default=-1, help="replays of it (50; 10 from 16M on)")
    parser.add_argument("--timeout", type=int, default=600, help="seconds in all (600)")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.types = options.datatype.split(",")
    if any(name not in TYPES for name in options.types):
        parser.error("-d knows %s" % ", ".join(TYPES))
    if options.factor < 2 or options.minbytes < 1 or options.ngpus < 1:
        parser.error("-f is 2 at least, -b and -g are 1 at least")
    return options


def say(**record):
    print(json.dumps(record), flush=True)


def unavailable(options, lib, reason, **more):
    say(lib=lib, op="all_reduce", ranks=options.ngpus, device="cuda", **more, unavailable=reason)


# ---- a rank ----

class Meeting:
    """A barrier that spins, as rondo-perf's does: ranks leave it within a microsecond or so."""

    def __init__(self, path, rank, count):
        with open(path, "r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 8 * WORDS * count)).cast("Q")  # of 8 bytes, read and written whole
        self.rank, self.count, self.times = rank, count, 0

    def __call__(self):
        self.times += 1
        self.words[WORDS * self.rank] = self.times
        for peer in range(self.count):
            while self.words[WORDS * peer] < self.times:
                pass


class Rank:
    """One GPU's side: its buffers of the largest size, and how long ops on their first part take."""

    def __init__(self, options):
        import torch
        import torch.distributed as dist
        import torch.distributed._symmetric_memory as symm_mem

        self.torch, self.dist, self.options = torch, dist, options
        self.rank, self.count = options.rank, options.ngpus
        if not torch.cuda.is_available():
            raise RuntimeError("PyTorch %s finds no GPU" % torch.__version__)
        if torch.cuda.device_count() < self.count:
            raise RuntimeError("%d GPUs for %d ranks" % (torch.cuda.device_count(), self.count))
        self.device = torch.device("cuda", self.rank)
        torch.cuda.set_device(self.device)
        # Gloo, on the loopback: the group is for the host's side. Symmetric memory needs no NCCL.
        dist.init_process_group("gloo", store=dist.FileStore(os.path.join(options.folder, "store"), self.count),
                                rank=self.rank, world_size=self.count)
        self.group = dist.group.WORLD.group_name
        self.meet = Meeting(os.path.join(options.folder, "meeting"), self.rank, self.count)
        room = (options.maxbytes + 15) // 16 * 16
        self.symmetric = symm_mem.empty(room, dtype=torch.uint8, device=self.device)
        symm_mem.rendezvous(self.symmetric, group=self.group)
        self.out = torch.empty(room, dtype=torch.uint8, device=self.device)
        self.stream = torch.cuda.Stream(self.device)
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def slowest(self, values):
        """Of each, the largest of all ranks'."""
        tensor = self.torch.tensor(values, dtype=self.torch.float64)
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MAX)
        return tensor.tolist()

    def set_row(self, lib, name, size):
        """The op of a library on so many bytes: its input, the place of its result, the call."""
        torch = self.torch
        dtype = {"float": torch.float32, "bfloat16": torch.bfloat16}[name]
        elements = size // TYPES[name]
        self.input = self.symmetric.view(dtype)[:elements]
        index = torch.arange(elements, device=self.device, dtype=torch.int32).remainder_(PERIOD)
        given = lambda rank: (index * (2 * rank + 3)).remainder_(31).sub_(15)  # sums are exact in 8 bits, of 17 ranks
        self.given = given(self.rank).to(dtype)
        self.expected = sum(given(rank) for rank in range(self.count)).to(dtype)
        ops = torch.ops.symm_mem
        if lib == LIBS[0]:
            self.result = self.out.view(dtype)[:elements]
            self.call = lambda: ops.one_shot_all_reduce_out(self.input, "sum", self.group, self.result)
        else:
            self.result = self.input
            self.call = lambda: ops.two_shot_all_reduce_(self.input, "sum", self.group)

    def restore(self):
        """The input, for an op that destroys it; no peer can be in it: an op ends on all ranks together."""
        self.input.copy_(self.given)

    def prepare(self):
        """Input and a result that is wrong, on all ranks."""
        self.out.fill_(0x77)
        self.restore()
        self.stream.synchronize()
        self.meet()

    def wrong(self):
        self.stream.synchronize()
        count = self.torch.tensor([int((self.result != self.expected).sum())])
        self.dist.all_reduce(count)
        return int(count)

    def sampled(self, count, per, run):
        """min, p50, p99 and max of single runs that start together; of each the slowest rank counts."""
        samples = []
        for _ in range(count):
            self.meet()
            self.start.record(self.stream)
            run()
            self.end.record(self.stream)
            self.stream.synchronize()
            samples.append(self.start.elapsed_time(self.end) * 1e3 / per)
        samples = sorted(self.slowest(samples))
        return {"us_min": samples[0], "us_p50": samples[(count - 1) // 2],
                "us_p99": samples[math.ceil(0.99 * count) - 1], "us_max": samples[-1]}

    def eager(self):
        count, host = self.options.n, 0.0
        self.prepare()
        for _ in range(self.options.w):
            self.call()
        self.stream.synchronize()
        self.meet()
        begun = time.perf_counter()
        for _ in range(count):
            before = time.perf_counter()
            self.call()
            host += time.perf_counter() - before
        self.stream.synchronize()
        us, host_us = self.slowest([(time.perf_counter() - begun) / count * 1e6, host / count * 1e6])
        times = dict(us=us, **self.sampled(count, 1, self.call), host_us=host_us)
        self.prepare()
        self.call()
        return times, self.wrong()

    def capture(self, ops, restoring=False):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            for _ in range(ops):
                if restoring:
                    self.restore()
                self.call()
        return graph

    def replays(self, ops, replays):
        self.prepare()
        self.call()  # whatever a first call does must not happen in a capture
        self.stream.synchronize()
        self.meet()
        graph = self.capture(ops)
        for _ in range(GRAPH_WARMUP):
            graph.replay()
            self.stream.synchronize()
            time.sleep(SETTLE)
        self.meet()
        self.start.record(self.stream)
        for _ in range(replays):
            graph.replay()
        self.end.record(self.stream)
        self.stream.synchronize()
        (us,) = self.slowest([self.start.elapsed_time(self.end) * 1e3 / replays / ops])
        times = dict(us=us, **self.sampled(replays, ops, graph.replay))
        wrong = 0
        if self.result is not self.input:
            wrong += self.wrong()
            checked = graph
        else:
            checked = self.capture(ops, restoring=True)
        self.prepare()
        checked.replay()
        wrong += self.wrong()
        self.meet()
        return times, wrong

    def row(self, lib, name, size):
        """The wrong elements of one row, in both modes."""
        large, total = size >= LARGE, 0
        ops = self.options.k or (4 if large else 20)
        replays = self.options.G if self.options.G >= 0 else 10 if large else 50
        self.set_row(lib, name, size)
        for mode in ("eager", "graph"):
            if (self.options.n if mode == "eager" else replays) == 0:
                continue
            times, wrong = self.eager() if mode == "eager" else self.replays(ops, replays)
            total += wrong
            elements = size // TYPES[name]
            algbw = elements * TYPES[name] / times["us"] * 1e-3 if times["us"] > 0 else 0
            if self.rank == 0:
                host = {"host_us": times.pop("host_us")} if "host_us" in times else {}
                say(lib=lib, version=self.torch.__version__, op="all_reduce", bytes=elements * TYPES[name],
                    count=elements, type=name, redop="sum", ranks=self.count, device="cuda", mode=mode,
                    **{key: round(value, 4) for key, value in times.items()}, algbw=algbw,
                    busbw=algbw * 2 * (self.count - 1) / self.count, wrong=wrong,
                    algo="one-shot" if lib == LIBS[0] else "two-shot", proto="symmetric", channels=0, **host)
        return total

    def run(self):
        wrong = 0
        with self.torch.cuda.stream(self.stream), self.torch.no_grad():
            for name in self.options.types:
                for size in sizes(self.options):
                    for lib in LIBS:
                        # The kernels take multiples of 4 bytes.
                        reason = "needs a multiple of 4 bytes" if size // TYPES[name] * TYPES[name] % 4 or size < 4 else ""
                        if not reason:
                            wrong += self.row(lib, name, size)
                        elif self.rank == 0:
                            unavailable(self.options, lib, reason, bytes=size, type=name)
        self.dist.barrier()
        return wrong


def rank_main(options):
    """Ends with the rank's status; why it failed is left in a file. What PyTorch does at exit is of no interest."""
    status = 3
    try:
        status = 1 if Rank(options).run() else 0
    except BaseException as error:  # whatever it is: PyTorch's interface is in motion
        traceback.print_exc()
        reason = (str(error).strip().splitlines() or [""])[0][:200]
        pathlib.Path(options.folder, "reason%d" % options.rank).write_text("%s: %s" % (type(error).__name__, reason))
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(status)


# ---- their supervisor ----

def supervise(ranks, timeout):
    """Waits for all; once one has failed, the others have a while to say why."""
    end = time.monotonic() + timeout
    failed = False
    while any(rank.poll() is None for rank in ranks):
        if not failed and any(rank.poll() not in (None, 0, 1) for rank in ranks):
            failed, end = True, min(end, time.monotonic() + GRACE)
        if time.monotonic() > end:
            return "did not end within %d s" % timeout if not failed else None
        time.sleep(0.02)
    return None


def main():
    options = parse()
    # Multicast must not be used, and both read this when they are loaded.
    os.environ.update(TORCH_SYMM_MEM_DISABLE_MULTICAST="1", NCCL_NVLS_ENABLE="0")
    if options.rank is not None:
        rank_main(options)
    environment = dict(os.environ)
    for name, value in (("TORCH_SYMMMEM", "CUDA"), ("GLOO_SOCKET_IFNAME", "lo")):
        environment.setdefault(name, value)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="rondo-torch-") as folder:
        pathlib.Path(folder, "meeting").write_bytes(bytes(8 * WORDS * options.ngpus))
        logs = [open(os.path.join(folder, "log%d" % rank), "w+") for rank in range(options.ngpus)]
        ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--rank", str(rank),
                                   "--folder", folder], stdout=None if rank == 0 else log, stderr=log, env=environment)
                 for rank, log in enumerate(logs)]
        try:
            reason = supervise(ranks, options.timeout)
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
            statuses = [rank.wait() for rank in ranks]
        said = [pathlib.Path(folder, "reason%d" % rank) for rank in range(options.ngpus)]
        reasons = [path.read_text() for path in said if path.exists()]
        if set(statuses) - {0, 1}:
            reason = reason or (reasons or ["ranks ended with %s" % statuses])[0]
            logs[0].seek(0)
            sys.stderr.write(logs[0].read())
            for lib in LIBS:
                unavailable(options, lib, reason)
            return 0
        return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
