#!/usr/bin/env python3
"""CuPy's own binding of NCCL (cupy.cuda.nccl), where CuPy is installed."""
import os
import tempfile
import time

from ranks import Failed, main


class Client:
    def __init__(self, rank):
        import cupy
        from cupy.cuda import nccl
        self.cupy, self.nccl, self.rank = cupy, nccl, rank
        cupy.cuda.Device(rank.number).use()
        self.comm = None

    def unique_id(self):
        """Handed round by a file."""
        path = os.path.join(os.environ["CLIENT_REPORTS"], "id")
        if self.rank.number == 0:
            made = self.nccl.get_unique_id()
            with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(path), delete=False) as file:
                file.write(",".join(map(str, made)))
            os.rename(file.name, path)
        while not os.path.exists(path):
            time.sleep(0.01)
        return tuple(int(part) for part in open(path).read().split(","))

    def init(self):
        if self.rank.number == 0:
            print(f"# CuPy {self.cupy.__version__}, NCCL {self.nccl.get_version()}, {self.rank.count} ranks", flush=True)
        self.comm = self.nccl.NcclCommunicator(self.rank.count, self.unique_id(), self.rank.number)
        if self.comm.rank_id() != self.rank.number or self.comm.size() != self.rank.count:
            raise Failed(f"rank {self.comm.rank_id()} of {self.comm.size()}")

    def all_reduce(self):
        cupy, nccl = self.cupy, self.nccl
        for dtype, number in ((cupy.float32, nccl.NCCL_FLOAT32), (cupy.float64, nccl.NCCL_FLOAT64),
                              (cupy.float16, nccl.NCCL_FLOAT16), (cupy.int32, nccl.NCCL_INT32)):
            send = (cupy.arange(10007) % 50 + self.rank.number).astype(dtype)
            recv = cupy.empty_like(send)
            self.comm.allReduce(send.data.ptr, recv.data.ptr, send.size, number, nccl.NCCL_SUM,
                                cupy.cuda.get_current_stream().ptr)
            ranks = self.rank.count
            expected = ((cupy.arange(10007) % 50) * ranks + ranks * (ranks - 1) // 2).astype(dtype)
            if not bool((recv == expected).all()):
                raise Failed(f"{dtype}")

    def broadcast_and_gather(self):
        cupy, nccl = self.cupy, self.nccl
        stream = cupy.cuda.get_current_stream().ptr
        data = cupy.full(1000, self.rank.number, dtype=cupy.float32)
        whole = cupy.empty(1000 * self.rank.count, dtype=cupy.float32)
        self.comm.allGather(data.data.ptr, whole.data.ptr, 1000, nccl.NCCL_FLOAT32, stream)
        if not bool((whole == cupy.repeat(cupy.arange(self.rank.count, dtype=cupy.float32), 1000)).all()):
            raise Failed("allGather")
        self.comm.bcast(data.data.ptr, 1000, nccl.NCCL_FLOAT32, self.rank.count - 1, stream)
        if not bool((data == self.rank.count - 1).all()):
            raise Failed("bcast")

    def destroy(self):
        self.cupy.cuda.Device().synchronize()
        self.comm.destroy()


def body(rank):
    try:
        import cupy.cuda.nccl
    except ImportError as error:
        rank.say(skip="cupy_client", why=str(error).splitlines()[0])
        rank.step("nothing", lambda: None)
        return
    client = Client(rank)
    for name in ("init", "all_reduce", "broadcast_and_gather", "destroy"):
        rank.step(name, getattr(client, name))


main(body, __doc__)
