#!/usr/bin/env python3
"""DistributedDataParallel for 200 steps; writes its losses to a file, so that those of two libraries can be compared.

    ddp.py --losses FILE           trains
    ddp.py --compare FILE FILE     exits with 1 if the losses differ by more than rounding
"""
import json
import math
import sys

STEPS, BATCH, WIDTH, RELATIVE = 200, 32, 512, 2e-3


def compare(first, second):
    a, b = json.load(open(first)), json.load(open(second))
    if len(a) != len(b) or not a:
        sys.exit(f"{len(a)} and {len(b)} losses")
    worst = max(abs(x - y) / max(abs(x), abs(y), 1e-9) for x, y in zip(a, b))
    equal = sum(x == y for x, y in zip(a, b))
    print(f"{len(a)} losses, {equal} equal bit for bit, largest relative difference {worst:.2e}, last {a[-1]:.6f} {b[-1]:.6f}")
    sys.exit(0 if worst < RELATIVE and all(map(math.isfinite, a + b)) else 1)


if "--compare" in sys.argv:
    at = sys.argv.index("--compare")
    compare(sys.argv[at + 1], sys.argv[at + 2])

import torch
import torch.distributed as dist
from torch import nn

from ranks import Failed, main
from torch_rank import expect_equal, setup


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def model_of(device):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, WIDTH), *[Block(WIDTH) for _ in range(6)], nn.Linear(WIDTH, 8)).to(device)


def batch_of(rank, step, device):
    made = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(BATCH, 64, generator=made)
    y = torch.tanh(x[:, :8] * 2 + x[:, 8:16])
    return x.to(device), y.to(device)


def train(rank, device, losses):
    model = model_of(device)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None,
                                                bucket_cap_mb=1, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        x, y = batch_of(rank.number, step, device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(float(total) / rank.count)
    if not losses[-1] < losses[0] / 2:
        raise Failed(f"it does not learn: {losses[0]} to {losses[-1]}")
    for name, parameter in model.named_parameters():
        everyone = [torch.empty_like(parameter) for _ in range(rank.count)]
        dist.all_gather(everyone, parameter.detach().contiguous())
        for other in everyone:
            expect_equal(other, everyone[0], f"{name} on all ranks")


def body(rank):
    device, losses = [None], []

    def init():
        device[0] = setup(rank)

    rank.step("init_process_group", init)
    rank.step(f"{STEPS} steps", lambda: train(rank, device[0], losses), rank.options.timeout * 3)
    if rank.number == 0 and rank.options.losses:
        with open(rank.options.losses, "w") as file:
            json.dump(losses, file)
    rank.step("destroy_process_group", dist.destroy_process_group)


main(body, __doc__, lambda parser: parser.add_argument("--losses", help="file for the losses"))
