#!/usr/bin/env python3
"""An NCCL library bound by ctypes, as inference engines do it: the path is in VLLM_NCCL_SO_PATH, every function is resolved at load,
and ops of PyTorch's tensors are run eagerly and in CUDA graphs.

    --lib PATH      the library, instead of VLLM_NCCL_SO_PATH's; else the libnccl.so.2 that the process has
"""
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

import torch
import torch.distributed as dist

from ranks import Failed, main
from torch_rank import expect_equal

SUM, MAX = 0, 2
TYPES = {torch.int8: 0, torch.uint8: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6, torch.float32: 7, torch.float64: 8,
         torch.bfloat16: 9}


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Config(ctypes.Structure):
    """Of 2.28.9."""
    _fields_ = [("size", c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint)] + [
        (name, c_int) for name in ("blocking", "cgaClusterSize", "minCTAs", "maxCTAs")] + [("netName", c_char_p)] + [
        (name, c_int) for name in ("splitShare", "trafficClass")] + [("commName", c_char_p)] + [
        (name, c_int) for name in ("collnetEnable", "CTAPolicy", "shrinkShare", "nvlsCTAs", "nChannelsPerNetPeer",
                                   "nvlinkCentricSched")]

    def __init__(self):
        super().__init__(ctypes.sizeof(Config), 0xcafebeef, 22809)
        for name, kind in self._fields_[3:]:
            if kind is c_int:
                setattr(self, name, -2 ** 31)


BUFFERS = [c_void_p, c_void_p, c_size_t, c_int]
FUNCTIONS = {
    "ncclGetErrorString": (c_char_p, [c_int]),
    "ncclGetVersion": (c_int, [POINTER(c_int)]),
    "ncclGetUniqueId": (c_int, [POINTER(UniqueId)]),
    "ncclCommInitRank": (c_int, [POINTER(c_void_p), c_int, UniqueId, c_int]),
    "ncclCommInitRankConfig": (c_int, [POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(Config)]),
    "ncclAllReduce": (c_int, BUFFERS + [c_int, c_void_p, c_void_p]),
    "ncclReduce": (c_int, BUFFERS + [c_int, c_int, c_void_p, c_void_p]),
    "ncclAllGather": (c_int, BUFFERS + [c_void_p, c_void_p]),
    "ncclReduceScatter": (c_int, BUFFERS + [c_int, c_void_p, c_void_p]),
    "ncclSend": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "ncclRecv": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "ncclBroadcast": (c_int, BUFFERS + [c_int, c_void_p, c_void_p]),
    "ncclCommDestroy": (c_int, [c_void_p]),
    "ncclCommAbort": (c_int, [c_void_p]),
    "ncclGroupStart": (c_int, []),
    "ncclGroupEnd": (c_int, []),
    "ncclCommWindowRegister": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(c_void_p), c_int]),
    "ncclCommWindowDeregister": (c_int, [c_void_p, c_void_p]),
    "ncclGetLastError": (c_char_p, [c_void_p]),
    "ncclCommGetAsyncError": (c_int, [c_void_p, POINTER(c_int)]),
}


class Library:
    """`call` in place of a function's name; an error code is an exception."""

    def __init__(self, path):
        self.handle = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.handle, name) # a missing one raises
            function.restype, function.argtypes = result, arguments

    def call(self, name, *arguments):
        result = getattr(self.handle, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {self.handle.ncclGetErrorString(result).decode()}: "
                               f"{self.handle.ncclGetLastError(None).decode()}")


class Wrapper:
    def __init__(self, rank):
        self.rank, self.me, self.count, self.comm = rank, rank.number, rank.count, c_void_p()
        self.device = torch.device("cuda", self.me)
        torch.cuda.set_device(self.device)
        path = rank.options.lib or os.environ.get("VLLM_NCCL_SO_PATH") or "libnccl.so.2"
        self.library = Library(path)
        dist.init_process_group("gloo", rank=self.me, world_size=self.count)

    def stream(self):
        return torch.cuda.current_stream().cuda_stream

    def given(self, count, dtype=torch.float32, rank=None):
        r = self.me if rank is None else rank
        return ((torch.arange(count) * 7 + 3 * r) % 5).to(dtype).to(self.device)

    def total(self, count, dtype=torch.float32):
        return torch.stack([self.given(count, torch.float64, r) for r in range(self.count)]).sum(0).to(dtype)

    def version(self):
        version = c_int()
        self.library.call("ncclGetVersion", byref(version))
        text = str(version.value)
        if len(text) != 5:
            raise Failed(f"version {text}")
        if self.me == 0:
            print(f"# {text[0]}.{int(text[1:3])}.{int(text[3:])}, {self.library.handle._name}, {self.count} ranks", flush=True)

    def unique_id(self):
        unique_id = UniqueId()
        if self.me == 0:
            self.library.call("ncclGetUniqueId", byref(unique_id))
        carrier = torch.tensor(list(bytes(unique_id)), dtype=torch.uint8)
        dist.broadcast(carrier, 0)
        return UniqueId.from_buffer_copy(bytes(carrier.tolist()))

    def init(self):
        self.library.call("ncclCommInitRank", byref(self.comm), self.count, self.unique_id(), self.me)

    def init_config(self):
        config = Config()
        config.blocking = 1
        self.library.call("ncclCommInitRankConfig", byref(self.comm), self.count, self.unique_id(), self.me, byref(config))

    def destroy(self):
        torch.cuda.synchronize()
        self.library.call("ncclCommDestroy", self.comm)
        self.comm = c_void_p()

    def abort(self):
        self.init()
        dist.barrier()
        if self.me == 0:
            self.library.call("ncclCommAbort", self.comm)
        dist.barrier()
        if self.me != 0:
            self.library.call("ncclCommAbort", self.comm)
        self.comm = c_void_p()

    # ---- ops ----

    def all_reduce_into(self, out, tensor):
        self.library.call("ncclAllReduce", tensor.data_ptr(), out.data_ptr(), tensor.numel(), TYPES[tensor.dtype], SUM, self.comm,
                          self.stream())

    def all_reduce(self):
        for dtype in TYPES:
            for count in (1, 1000, 1 << 20):
                tensor = self.given(count, dtype)
                out = torch.empty_like(tensor)
                self.all_reduce_into(out, tensor)
                expect_equal(out, self.total(count, dtype), f"{count} {dtype}")

    def reduce(self):
        for root in range(self.count):
            tensor = self.given(5000)
            out = torch.zeros_like(tensor)
            self.library.call("ncclReduce", tensor.data_ptr(), out.data_ptr() if self.me == root else None, 5000, 7, SUM, root,
                              self.comm, self.stream())
            expect_equal(out, self.total(5000) if self.me == root else torch.zeros(5000), f"root {root}")

    def all_gather(self):
        tensor, out = self.given(5000, torch.bfloat16), torch.empty(5000 * self.count, dtype=torch.bfloat16, device=self.device)
        self.library.call("ncclAllGather", tensor.data_ptr(), out.data_ptr(), 5000, 9, self.comm, self.stream())
        expect_equal(out, torch.cat([self.given(5000, torch.bfloat16, r) for r in range(self.count)]), "all_gather")

    def reduce_scatter(self):
        tensor, out = self.given(5000 * self.count), torch.empty(5000, device=self.device)
        self.library.call("ncclReduceScatter", tensor.data_ptr(), out.data_ptr(), 5000, 7, SUM, self.comm, self.stream())
        expect_equal(out, self.total(5000 * self.count)[5000 * self.me:][:5000], "reduce_scatter")

    def broadcast(self):
        for root in range(self.count):
            out = torch.zeros(5000, device=self.device)
            tensor = self.given(5000)
            self.library.call("ncclBroadcast", tensor.data_ptr() if self.me == root else None, out.data_ptr(), 5000, 7, root,
                              self.comm, self.stream())
            expect_equal(out, self.given(5000, rank=root), f"root {root}")

    def send_recv(self):
        following, before = (self.me + 1) % self.count, (self.me - 1) % self.count
        tensor, out = self.given(5000), torch.empty(5000, device=self.device)
        self.library.call("ncclGroupStart")
        self.library.call("ncclSend", tensor.data_ptr(), 5000, 7, following, self.comm, self.stream())
        self.library.call("ncclRecv", out.data_ptr(), 5000, 7, before, self.comm, self.stream())
        self.library.call("ncclGroupEnd")
        expect_equal(out, self.given(5000, rank=before), "ring")

    def window(self):
        """A NULL window is an answer too."""
        memory = torch.empty(1 << 22, dtype=torch.uint8, device=self.device)
        address = (memory.data_ptr() + 4095) // 4096 * 4096
        window = c_void_p()
        self.library.call("ncclCommWindowRegister", self.comm, address, 1 << 20, byref(window), 1)
        dist.barrier()
        self.library.call("ncclCommWindowDeregister", self.comm, window)

    def capture(self):
        """Graphs of several sizes share the comm; each is replayed with fresh data, and an eager op runs between replays."""
        graphs = []
        side = torch.cuda.Stream()
        for count in (256, 4096, 1 << 18):
            tensor, out = self.given(count, torch.float16), torch.empty(count, dtype=torch.float16, device=self.device)
            with torch.cuda.stream(side):
                self.all_reduce_into(out, tensor)
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(4):
                    self.all_reduce_into(out, tensor)
            graphs.append((graph, tensor, out, count))
        for round_ in range(300):
            graph, tensor, out, count = graphs[round_ % len(graphs)]
            tensor.copy_(self.given(count, torch.float16))
            out.zero_()
            graph.replay()
            eager = self.given(100)
            result = torch.empty_like(eager)
            self.all_reduce_into(result, eager)
            if round_ % 10 < 3:
                expect_equal(out, self.total(count, torch.float16), f"replay {round_} of {count}")
                expect_equal(result, self.total(100), f"eager op {round_}")
        torch.cuda.synchronize()

    def async_error(self):
        error = c_int(-1)
        self.library.call("ncclCommGetAsyncError", self.comm, byref(error))
        if error.value != 0:
            raise Failed(f"error {error.value}")


def body(rank):
    if not torch.cuda.is_available():
        Library(rank.options.lib or os.environ.get("VLLM_NCCL_SO_PATH") or "libnccl.so.2")
        rank.step("bind every function", lambda: None)
        rank.say(skip="the rest", why="no GPU")
        return
    made = []
    rank.step("bind every function", lambda: made.append(Wrapper(rank)))
    wrapper = made[0]
    rank.step("version", wrapper.version)
    for name in ("init", "all_reduce", "reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv", "window", "capture",
                 "async_error", "destroy", "init_config"):
        rank.step(name, getattr(wrapper, name))
    rank.step("all_reduce again", wrapper.all_reduce)
    rank.step("destroy again", wrapper.destroy)
    rank.step("abort", wrapper.abort)


main(body, __doc__, lambda parser: parser.add_argument("--lib"))
