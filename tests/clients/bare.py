#!/usr/bin/env python3
"""Loads the drop-in by ctypes into a fresh Python, as many programs do, and all-reduces on the host device.

    tests/clients/bare.py LIBRARY [RANKS]

Needs no package and no GPU: buffers are Python's, the stream is the default one, and ncclCommFinalize waits for the ops. Exits with 0
if all is well; prints one line.
"""
import _ctypes
import ctypes
import os
import subprocess
import sys

SUM, FLOAT, COUNT = 0, 7, 1000


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def load(path):
    before = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
    library = ctypes.CDLL(path)
    fresh = {os.path.basename(line.split()[-1]) for line in open("/proc/self/maps") if "/" in line} - {
        os.path.basename(name) for name in before}
    if any("stdc++" in name or "jemalloc" in name or "cuda" in name.lower() for name in fresh):
        sys.exit(f"loading it loads {sorted(fresh)}")
    library.ncclGetErrorString.restype = ctypes.c_char_p
    library.ncclGetLastError.restype = ctypes.c_char_p
    return library


def check(library, result, what):
    if result != 0:
        sys.exit(f"{what}: {library.ncclGetErrorString(result).decode()}: {library.ncclGetLastError(None).decode()}")


def rank_main(path, rank, ranks, unique_id):
    library = load(path)
    comm = ctypes.c_void_p()
    check(library, library.ncclCommInitRank(ctypes.byref(comm), ranks, unique_id, rank), "ncclCommInitRank")
    send = (ctypes.c_float * COUNT)(*[rank + i for i in range(COUNT)])
    recv = (ctypes.c_float * COUNT)()
    check(library, library.ncclAllReduce(send, recv, ctypes.c_size_t(COUNT), FLOAT, SUM, comm, None), "ncclAllReduce")
    check(library, library.ncclCommFinalize(comm), "ncclCommFinalize")
    expected = [sum(r + i for r in range(ranks)) for i in range(COUNT)]
    if list(recv) != expected:
        sys.exit(f"rank {rank}: wrong results")
    check(library, library.ncclCommDestroy(comm), "ncclCommDestroy")


def main():
    path, ranks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    if "BARE_RANK" in os.environ:
        unique_id = UniqueId.from_buffer_copy(bytes.fromhex(os.environ["BARE_ID"]))
        rank_main(path, int(os.environ["BARE_RANK"]), ranks, unique_id)
        return
    os.environ.setdefault("RONDO_DEVICE", "host")
    library = load(path)
    version = ctypes.c_int()
    check(library, library.ncclGetVersion(ctypes.byref(version)), "ncclGetVersion")
    if len(str(version.value)) != 5:
        sys.exit(f"version {version.value}")
    unique_id = UniqueId()
    check(library, library.ncclGetUniqueId(ctypes.byref(unique_id)), "ncclGetUniqueId")
    others = [subprocess.Popen([sys.executable, __file__, path, str(ranks)],
                               env=dict(os.environ, BARE_RANK=str(rank), BARE_ID=bytes(unique_id).hex()))
              for rank in range(1, ranks)]
    rank_main(path, 0, ranks, unique_id)
    if any(other.wait(60) for other in others):
        sys.exit("a rank failed")
    # A library that has threads must stay when it is closed. It was opened twice.
    _ctypes.dlclose(library._handle)
    _ctypes.dlclose(library._handle)
    if os.path.realpath(path) not in open("/proc/self/maps").read():
        sys.exit("it went when it was closed")
    print(f"ok: NCCL {version.value}, {ranks} ranks")


main()
