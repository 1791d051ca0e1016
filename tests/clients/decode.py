#!/usr/bin/env python3
"""A tensor-parallel decode loop: transformer blocks in bf16, one CUDA graph for each batch size, all graphs on one comm.

Each graph is replayed many times, in turn with the others; every result of a graph must have the bits of its first one, and be
what the same step gives eagerly. Prints a JSON line for each batch size: tokens/s and µs for each step.
"""
import json
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8") # before CUDA is: for bits that do not depend on the run

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from ranks import Failed, library_of_process, main
from torch_rank import expect_close, setup, synchronize

CONTEXT, HEAD = 128, 128


class Block(nn.Module):
    """Attention and a gated MLP, each with its output summed over the ranks."""

    def __init__(self, hidden, ranks, device, seed):
        super().__init__()
        self.hidden, self.heads = hidden, hidden // HEAD // ranks
        self.made = torch.Generator(device=device).manual_seed(seed)
        inner = hidden * 8 // 3 // 256 * 256 // ranks
        self.qkv = self.weights(3 * self.heads * HEAD, hidden, device)
        self.out = self.weights(hidden, self.heads * HEAD, device)
        self.gate, self.up = self.weights(inner, hidden, device), self.weights(inner, hidden, device)
        self.down = self.weights(hidden, inner, device)

    def weights(self, rows, columns, device):
        made = torch.randn(rows, columns, device=device, generator=self.made) * columns ** -0.5
        return made.to(torch.bfloat16)

    def cache(self, batch, device):
        shape = (2, batch, self.heads, CONTEXT, HEAD)
        return torch.randn(shape, device=device, generator=self.made).to(torch.bfloat16)

    def forward(self, x, cache):
        batch = x.shape[0]
        query, key, value = (rms_norm(x, (self.hidden,)) @ self.qkv.t()).view(batch, 3, self.heads, 1, HEAD).unbind(1)
        keys, values = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        attended = scaled_dot_product_attention(query, keys, values).reshape(batch, self.heads * HEAD) @ self.out.t()
        dist.all_reduce(attended)
        x = x + attended
        normed = rms_norm(x, (self.hidden,))
        mixed = (silu(normed @ self.gate.t()) * (normed @ self.up.t())) @ self.down.t()
        dist.all_reduce(mixed)
        return x + mixed


class Graph:
    """One step for one batch size."""

    def __init__(self, blocks, hidden, batch, device):
        made = torch.Generator(device=device).manual_seed(batch) # the same on all ranks
        self.batch = batch
        self.inputs = [torch.randn(batch, hidden, device=device, generator=made).to(torch.bfloat16) for _ in range(3)]
        self.caches = [block.cache(batch, device) for block in blocks]
        self.x = self.inputs[0].clone()
        self.blocks = blocks
        self.wrong = torch.zeros((), dtype=torch.int64, device=device)
        self.eager = [self.run(x).clone() for x in self.inputs]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.run(self.x)
        torch.cuda.current_stream().wait_stream(side)
        synchronize(device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.run(self.x)
        self.first = [None] * len(self.inputs)

    @torch.no_grad()
    def run(self, x):
        for block, cache in zip(self.blocks, self.caches):
            x = block(x, cache)
        return x

    def replay(self, number):
        which = number % len(self.inputs)
        self.x.copy_(self.inputs[which])
        self.graph.replay()
        if self.first[which] is None:
            self.first[which] = self.y.clone()
        else:
            self.wrong += (self.y != self.first[which]).any()

    def check(self, replays):
        if int(self.wrong):
            raise Failed(f"batch {self.batch}: {int(self.wrong)} of {replays} replays differ from the first")
        for which, (first, eager) in enumerate(zip(self.first, self.eager)):
            expect_close(first, eager, f"batch {self.batch}, input {which}: replayed and eager", 2e-2, 2e-2)

    def time(self, replays):
        for _ in range(20):
            self.graph.replay()
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(replays):
            self.graph.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / replays


class Decode:
    def __init__(self, rank, device):
        self.rank, self.device, self.options = rank, device, rank.options
        self.graphs = []
        # Graphs of several batch sizes share cuBLAS's workspace, and its split sums come in any order unless they must not.
        torch.use_deterministic_algorithms(True)

    def build(self, hidden):
        self.graphs = []
        blocks = [Block(hidden, self.rank.count, self.device, 100 * layer + self.rank.number)
                  for layer in range(self.options.layers)]
        self.graphs = [Graph(blocks, hidden, batch, self.device) for batch in self.options.batches]

    def replay(self):
        replays = self.options.replays
        for number in range(replays):
            for graph in self.graphs:
                graph.replay(number)
            if number % 200 == 199:
                synchronize(self.device)
        synchronize(self.device)
        for graph in self.graphs:
            graph.check(replays)

    def time(self, hidden):
        for graph in self.graphs:
            best = min(graph.time(self.options.timed) for _ in range(5))
            if self.rank.number == 0:
                print(json.dumps({"hidden": hidden, "layers": self.options.layers, "ranks": self.rank.count,
                                  "batch": graph.batch, "us_per_step": round(best * 1e6, 2),
                                  "tokens_per_s": round(graph.batch / best, 1), "library": library_of_process()}), flush=True)

    def drop(self):
        self.graphs = []
        torch.cuda.empty_cache()


def body(rank):
    if not torch.cuda.is_available():
        rank.say(skip="decode", why="no GPU")
        rank.step("nothing", lambda: None)
        return
    device = [None]

    def init():
        device[0] = setup(rank)

    rank.step("init_process_group", init)
    decode = Decode(rank, device[0])
    for hidden in rank.options.hidden:
        rank.step(f"hidden {hidden}: capture", lambda: decode.build(hidden))
        rank.step(f"hidden {hidden}: {rank.options.replays} replays of each", decode.replay, rank.options.timeout * 5)
        rank.step(f"hidden {hidden}: time", lambda: decode.time(hidden), rank.options.timeout * 2)
        rank.step(f"hidden {hidden}: drop", decode.drop)
    rank.step("destroy_process_group", dist.destroy_process_group)


def arguments(parser):
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser.add_argument("--hidden", type=numbers, default=[4096, 8192])
    parser.add_argument("--batches", type=numbers, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--replays", type=int, default=10000)
    parser.add_argument("--timed", type=int, default=200)


main(body, __doc__, arguments)
