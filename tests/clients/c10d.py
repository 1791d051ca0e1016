#!/usr/bin/env python3
"""Every collective of torch.distributed on its NCCL backend, with all results looked at."""
import torch
import torch.distributed as dist

from ranks import main
from torch_rank import expect_close, expect_equal, setup, synchronize

COUNTS = (1, 7, 1024, 100003, 3 << 20)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int32, torch.int64, torch.uint8, torch.int8)


def given(rank, count, dtype, device, salt=0):
    """A rank's data: small whole numbers, so that every sum is exact in every type."""
    index = torch.arange(count, dtype=torch.int64)
    return ((index * 7 + rank * 3 + salt) % 5).to(dtype).to(device)


def reduced(ranks, count, dtype, op, salt=0):
    parts = torch.stack([given(r, count, torch.float64, "cpu", salt) for r in ranks])
    if op == "sum":
        return parts.sum(0).to(dtype)
    if op == "avg":
        return (parts.sum(0) / len(parts)).to(dtype)
    if op == "product":
        return parts.prod(0).to(dtype)
    return (parts.amax(0) if op == "max" else parts.amin(0)).to(dtype)


OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX,
       "avg": dist.ReduceOp.AVG}


class Steps:
    def __init__(self, rank, device):
        self.rank, self.device = rank, device
        self.me, self.count = rank.number, rank.count
        self.all = range(rank.count)
        self.nccl = device.type == "cuda"

    def given(self, count, dtype=torch.float32, salt=0, rank=None):
        return given(self.me if rank is None else rank, count, dtype, self.device, salt)

    # ---- reductions ----

    def all_reduce(self, dtype):
        for count in COUNTS:
            for name, op in OPS.items():
                if name == "avg" and (not self.nccl or dtype in INTEGERS):
                    continue
                if name == "product" and dtype.itemsize <= 2 and 4 ** self.count > (127 if dtype.itemsize == 1 else 256):
                    continue
                tensor = self.given(count, dtype)
                dist.all_reduce(tensor, op)
                what = f"{name} of {count} {dtype}"
                if name == "avg":
                    expect_close(tensor, reduced(self.all, count, dtype, name), what)
                else:
                    expect_equal(tensor, reduced(self.all, count, dtype, name), what)

    def premul_sum(self):
        if not self.nccl:
            return
        for factor in (2.0, torch.tensor([2.0], device=self.device)):
            tensor = self.given(1000)
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            expect_equal(tensor, 2 * reduced(self.all, 1000, torch.float32, "sum"), f"premul sum by {factor}")

    def all_reduce_bool(self):
        tensor = self.given(1000, torch.int64) > 2
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        any_rank = torch.stack([given(r, 1000, torch.int64, "cpu") > 2 for r in self.all]).any(0)
        expect_equal(tensor.to(torch.uint8), any_rank.to(torch.uint8), "max of bool")

    def reduce(self):
        for root in self.all:
            for count in COUNTS:
                tensor = self.given(count, salt=root)
                dist.reduce(tensor, root)
                if self.me == root:
                    expect_equal(tensor, reduced(self.all, count, torch.float32, "sum", root), f"reduce to {root}")

    def reduce_scatter(self):
        for count in COUNTS:
            parts = [self.given(count, salt=p) for p in self.all]
            out = torch.empty(count, device=self.device)
            dist.reduce_scatter(out, parts)
            expect_equal(out, reduced(self.all, count, torch.float32, "sum", self.me), "reduce_scatter")

    def reduce_scatter_tensor(self):
        for dtype in FLOATS:
            for count in COUNTS:
                whole = torch.cat([self.given(count, dtype, salt=p) for p in self.all])
                out = torch.empty(count, device=self.device, dtype=dtype)
                dist.reduce_scatter_tensor(out, whole)
                expect_equal(out, reduced(self.all, count, dtype, "sum", self.me), f"reduce_scatter_tensor {dtype}")

    # ---- moves ----

    def broadcast(self):
        for dtype in FLOATS + INTEGERS + ((torch.float8_e4m3fn, torch.float8_e5m2) if self.nccl else ()):
            for root in self.all:
                tensor = self.given(5001, torch.float32).to(dtype)
                dist.broadcast(tensor, root)
                expect_equal(tensor, given(root, 5001, torch.float32, "cpu").to(dtype), f"broadcast {dtype} from {root}")

    def all_gather(self):
        for count in COUNTS:
            parts = [torch.empty(count, device=self.device) for _ in self.all]
            dist.all_gather(parts, self.given(count))
            for r in self.all:
                expect_equal(parts[r], given(r, count, torch.float32, "cpu"), "all_gather")

    def all_gather_uneven(self):
        parts = [torch.empty(1000 + r, device=self.device) for r in self.all]
        if not self.nccl:
            return
        dist.all_gather(parts, self.given(1000 + self.me))
        for r in self.all:
            expect_equal(parts[r], given(r, 1000 + r, torch.float32, "cpu"), "all_gather, uneven")

    def all_gather_into_tensor(self):
        for dtype in FLOATS + INTEGERS:
            for count in COUNTS:
                whole = torch.empty(count * self.count, device=self.device, dtype=dtype)
                dist.all_gather_into_tensor(whole, self.given(count, dtype))
                expected = torch.cat([given(r, count, dtype, "cpu") for r in self.all])
                expect_equal(whole, expected, f"all_gather_into_tensor {dtype}")

    def all_to_all_single(self):
        for count in COUNTS:
            send = torch.cat([self.given(count, salt=to) for to in self.all])
            recv = torch.empty_like(send)
            dist.all_to_all_single(recv, send)
            expected = torch.cat([given(r, count, torch.float32, "cpu", self.me) for r in self.all])
            expect_equal(recv, expected, "all_to_all_single")

    def all_to_all_uneven(self):
        for base in (0, 1, 1000):
            size = lambda source, to: base * (to + 1) + 3 * source * to
            sends, recvs = [size(self.me, to) for to in self.all], [size(r, self.me) for r in self.all]
            send = torch.cat([self.given(n, salt=to) for to, n in enumerate(sends)])
            recv = torch.empty(sum(recvs), device=self.device)
            dist.all_to_all_single(recv, send, recvs, sends)
            expected = torch.cat([given(r, n, torch.float32, "cpu", self.me) for r, n in enumerate(recvs)])
            expect_equal(recv, expected, f"all_to_all_single, uneven from {base}")

    def all_to_all(self):
        if not self.nccl:
            return
        send = [self.given(100 * (to + 1), salt=to) for to in self.all]
        recv = [torch.empty(100 * (self.me + 1), device=self.device) for _ in self.all]
        dist.all_to_all(recv, send)
        for r in self.all:
            expect_equal(recv[r], given(r, 100 * (self.me + 1), torch.float32, "cpu", self.me), "all_to_all")

    def gather(self):
        for root in self.all:
            parts = [torch.empty(3001, device=self.device) for _ in self.all] if self.me == root else None
            dist.gather(self.given(3001), parts, root)
            for r in self.all if self.me == root else ():
                expect_equal(parts[r], given(r, 3001, torch.float32, "cpu"), f"gather to {root}")

    def scatter(self):
        for root in self.all:
            parts = [self.given(3001, salt=to) for to in self.all] if self.me == root else None
            out = torch.empty(3001, device=self.device)
            dist.scatter(out, parts, root)
            expect_equal(out, given(root, 3001, torch.float32, "cpu", self.me), f"scatter from {root}")

    # ---- messages ----

    def pipeline(self):
        """Each rank adds one and passes on, a hundred times round."""
        tensor = torch.zeros(5000, device=self.device)
        following, before = (self.me + 1) % self.count, (self.me - 1) % self.count
        for lap in range(100):
            if lap or self.me:
                dist.recv(tensor, before)
            tensor += 1
            if lap < 99 or self.me < self.count - 1:
                dist.send(tensor, following)
        expect_equal(tensor, torch.full((5000,), float(99 * self.count + self.me + 1)), "pipeline")

    def batch_isend_irecv(self):
        for count in COUNTS:
            sends = [self.given(count, salt=to) for to in self.all]
            recvs = [torch.empty(count, device=self.device) for _ in self.all]
            others = [r for r in self.all if r != self.me]
            ops = [dist.P2POp(dist.isend, sends[r], r) for r in others]
            ops += [dist.P2POp(dist.irecv, recvs[r], r) for r in others]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
            for r in others:
                expect_equal(recvs[r], given(r, count, torch.float32, "cpu", self.me), "batch_isend_irecv")

    def exchange_with_async(self):
        """Sends and receives between neighbours, each waited for by its work."""
        following, before = (self.me + 1) % self.count, (self.me - 1) % self.count
        for round_ in range(20):
            recv = torch.empty(4096, device=self.device)
            ops = [dist.P2POp(dist.isend, self.given(4096, salt=round_), following), dist.P2POp(dist.irecv, recv, before)]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
            expect_equal(recv, given(before, 4096, torch.float32, "cpu", round_), "neighbours")

    # ---- ways to call ----

    def async_ops(self):
        tensors = [self.given(10000, salt=i) for i in range(50)]
        works = [dist.all_reduce(t, async_op=True) for t in tensors]
        for work in works:
            work.wait()
        for i, tensor in enumerate(tensors):
            expect_equal(tensor, reduced(self.all, 10000, torch.float32, "sum", i), f"async {i}")

    def side_streams(self):
        if not self.nccl:
            return
        streams = [torch.cuda.Stream() for _ in range(3)]
        tensors = []
        for i in range(30):
            with torch.cuda.stream(streams[i % 3]):
                tensors.append(self.given(20000, salt=i))
                dist.all_reduce(tensors[-1])
        synchronize(self.device)
        for i, tensor in enumerate(tensors):
            expect_equal(tensor, reduced(self.all, 20000, torch.float32, "sum", i), f"stream {i % 3}")

    def coalesced(self):
        if not self.nccl:
            return
        manager = dist.distributed_c10d._coalescing_manager
        for kind in ("all_reduce", "all_gather", "reduce_scatter"):
            outs = [torch.empty(777 * (self.count if kind == "all_gather" else 1), device=self.device) for _ in range(8)]
            with manager(async_ops=True) as cm:
                for i, out in enumerate(outs):
                    if kind == "all_reduce":
                        out.copy_(self.given(777, salt=i))
                        dist.all_reduce(out)
                    elif kind == "all_gather":
                        dist.all_gather_into_tensor(out, self.given(777, salt=i))
                    else:
                        dist.reduce_scatter_tensor(out, torch.cat([self.given(777, salt=i + p) for p in self.all]))
            cm.wait()
            for i, out in enumerate(outs):
                if kind == "all_gather":
                    expected = torch.cat([given(r, 777, torch.float32, "cpu", i) for r in self.all])
                else:
                    expected = reduced(self.all, 777, torch.float32, "sum", i + (kind == "reduce_scatter") * self.me)
                expect_equal(out, expected, f"coalesced {kind} {i}")

    def barriers(self):
        for _ in range(200):
            dist.barrier()
        synchronize(self.device)

    def new_groups(self):
        """Of every other rank, of one rank, of all in another order; used beside each other and destroyed."""
        halves = [[r for r in self.all if r % 2 == half] for half in range(2)]
        groups = [(ranks, dist.new_group(ranks)) for ranks in halves if ranks]
        groups += [([r], dist.new_group([r])) for r in self.all]
        groups.append((list(self.all), dist.new_group(list(self.all))))
        for i, (ranks, group) in enumerate(groups):
            if self.me in ranks:
                tensor = self.given(5000, salt=i)
                dist.all_reduce(tensor, group=group)
                expect_equal(tensor, reduced(ranks, 5000, torch.float32, "sum", i), f"group {ranks}")
        for ranks, group in groups:
            if self.me in ranks:
                dist.destroy_process_group(group)

    def graph(self):
        """Captured and replayed, with an eager op of the same group between replays."""
        if not self.nccl:
            return
        tensor, out = self.given(30000), torch.empty(30000 * self.count, device=self.device)
        source = self.given(30000)
        for _ in range(3):
            dist.all_reduce(self.given(30000))
        synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tensor.copy_(source)
            dist.all_reduce(tensor)
            dist.all_gather_into_tensor(out, tensor)
        for i in range(100):
            graph.replay()
            eager = self.given(1000, salt=i)
            synchronize(self.device)
            dist.all_reduce(eager)
            expect_equal(eager, reduced(self.all, 1000, torch.float32, "sum", i), f"eager {i}")
        synchronize(self.device)
        expect_equal(tensor, reduced(self.all, 30000, torch.float32, "sum"), "replayed all_reduce")
        expect_equal(out, reduced(self.all, 30000, torch.float32, "sum").repeat(self.count), "replayed all_gather")
        del graph

    def objects(self):
        """Gathered by the library's own collectives, of sizes that differ."""
        everyone = [None] * self.count
        dist.all_gather_object(everyone, {"rank": self.me, "text": "x" * (self.me * 1000)})
        if [one["rank"] for one in everyone] != list(self.all):
            raise AssertionError(f"{everyone}")


def body(rank):
    device = [None]

    def init():
        device[0] = setup(rank)

    rank.step("init_process_group", init)
    steps = Steps(rank, device[0])
    for dtype in FLOATS + INTEGERS:
        rank.step(f"all_reduce {str(dtype)[6:]}", lambda: steps.all_reduce(dtype))
    for name in ("all_reduce_bool", "premul_sum", "reduce", "reduce_scatter", "reduce_scatter_tensor", "broadcast", "all_gather",
                 "all_gather_uneven", "all_gather_into_tensor", "all_to_all_single", "all_to_all_uneven", "all_to_all",
                 "gather", "scatter", "pipeline", "batch_isend_irecv", "exchange_with_async", "async_ops", "side_streams",
                 "coalesced", "barriers", "new_groups", "graph", "objects"):
        rank.step(name, getattr(steps, name))
    rank.step("destroy_process_group", dist.destroy_process_group)
    # Without a device PyTorch makes comms at their first op, blocking ones; with one, above, at once and non-blocking ones.
    rank.step("init_process_group, lazy", lambda: setup(rank, device_id=None))
    rank.step("all_reduce, lazy", lambda: steps.all_reduce(torch.float32))
    for name in ("pipeline", "batch_isend_irecv", "new_groups", "graph"):
        rank.step(f"{name}, lazy", getattr(steps, name))
    rank.step("destroy_process_group, lazy", dist.destroy_process_group)


main(body, __doc__)
