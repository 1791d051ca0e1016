#!/usr/bin/env python3
"""FSDP2: a model with fully_shard trains as the same model does whole, in bf16 and in float32."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from ranks import Failed, main
from torch_rank import setup

STEPS, BATCH, WIDTH, LAYERS = 30, 16, 512, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def model_of(device):
    torch.manual_seed(2)
    return nn.Sequential(*[Block() for _ in range(LAYERS)], nn.Linear(WIDTH, 8)).to(device)


def batch_of(rank, step, device):
    made = torch.Generator().manual_seed(7000 * step + rank)
    x = torch.randn(BATCH, WIDTH, generator=made)
    return x.to(device), torch.tanh(x[:, :8]).to(device)


def whole_losses(rank, device):
    """What one process with everyone's data sees."""
    model = model_of(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        parts = [batch_of(r, step, device) for r in range(rank.count)]
        loss = nn.functional.mse_loss(model(torch.cat([x for x, _ in parts])), torch.cat([y for _, y in parts]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def sharded_losses(rank, device, policy):
    model = model_of(device)
    for layer in list(model)[:-1]:
        fully_shard(layer, **policy)
    fully_shard(model, **policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        x, y = batch_of(rank.number, step, device)
        loss = nn.functional.mse_loss(model(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(float(total) / rank.count)
    return losses


def compare(rank, device, policy, relative):
    whole, sharded = whole_losses(rank, device), sharded_losses(rank, device, policy)
    worst = max(abs(a - b) / max(abs(a), 1e-6) for a, b in zip(whole, sharded))
    if not worst < relative or not sharded[-1] < sharded[0]:
        raise Failed(f"losses differ by {worst:.2e}: {whole[-1]} and {sharded[-1]}, the first {whole[0]} and {sharded[0]}")


def body(rank):
    device = [None]

    def init():
        device[0] = setup(rank)

    rank.step("init_process_group", init)
    rank.step("fully_shard float32", lambda: compare(rank, device[0], {}, 1e-3), rank.options.timeout * 2)
    bf16 = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    rank.step("fully_shard bfloat16", lambda: compare(rank, device[0], bf16, 5e-2), rank.options.timeout * 2)
    rank.step("destroy_process_group", dist.destroy_process_group)


main(body, __doc__)
