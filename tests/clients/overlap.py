#!/usr/bin/env python3
"""Compute and communication at the same time: a graph of matrix products on one stream and of all-reduces on another, against each
alone. How many multiprocessors the all-reduce takes is the library's to say: RONDO_MAX_CTAS, NCCL_MAX_CTAS.

Prints a JSON line: µs of the products alone, of the all-reduces alone, and of both together.
"""
import json
import os
import time

import torch
import torch.distributed as dist

from ranks import Failed, library_of_process, main
from torch_rank import setup

REPLAYS = 20


def captured(function):
    """A graph of what the function puts on the current stream and on those that it forks."""
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        function()
    return graph


def microseconds(graph):
    for _ in range(3):
        graph.replay()
        torch.cuda.synchronize()
        time.sleep(0.005) # a library may go on with what the capture began
    dist.barrier()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    slowest = torch.tensor([start.elapsed_time(end) * 1e3 / REPLAYS], device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.item()


def measure(rank):
    options = rank.options
    a, b = (torch.randn(options.matrix, options.matrix, device="cuda").to(torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    data = torch.ones(options.bytes // 2, device="cuda", dtype=torch.bfloat16)
    other = torch.cuda.Stream()

    def products():
        for _ in range(options.products):
            torch.matmul(a, b, out=c)

    def reduces():
        for _ in range(options.reduces):
            dist.all_reduce(data, dist.ReduceOp.AVG)

    def both():
        here = torch.cuda.current_stream()
        other.wait_stream(here)
        with torch.cuda.stream(other):
            reduces()
        products()
        here.wait_stream(other)

    alone, reduced, together = (microseconds(captured(part)) for part in (products, reduces, both))
    if data.min().item() != 1 or data.max().item() != 1:
        raise Failed("the average of ones is not one")
    if rank.number == 0:
        print(json.dumps({"library": library_of_process(), "ranks": rank.count,
                          "max_ctas": os.environ.get("NCCL_MAX_CTAS", "default"), "bytes": options.bytes,
                          "matrix": options.matrix, "products_us": round(alone, 1), "reduces_us": round(reduced, 1),
                          "together_us": round(together, 1)}), flush=True)


def body(rank):
    if not torch.cuda.is_available():
        rank.say(skip="overlap", why="no GPU")
        rank.step("nothing", lambda: None)
        return
    rank.step("init_process_group", lambda: setup(rank))
    rank.step("overlap", lambda: measure(rank))
    rank.step("destroy_process_group", dist.destroy_process_group)


def arguments(parser):
    parser.add_argument("--matrix", type=int, default=8192, help="rows and columns of the matrices")
    parser.add_argument("--products", type=int, default=4)
    parser.add_argument("--reduces", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=64 << 20, help="of each all-reduce")


main(body, __doc__, arguments)
