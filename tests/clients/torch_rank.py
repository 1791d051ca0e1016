"""What the scripts that use PyTorch share: the device, the process group, comparing."""
import datetime
import itertools
import os

import torch
import torch.distributed as dist

from ranks import Failed, library_of_process


times = itertools.count()


def setup(rank, **options):
    """The rank's device and the default process group: NCCL's where there is a GPU. (Else Gloo's: the scripts can be tried out.)"""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", rank.number) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        options.setdefault("device_id", device)
    timeout = datetime.timedelta(seconds=rank.options.timeout)
    # A file of its own for each time: with a TCP store on one port, a rank may meet the server of the time before.
    store = dist.FileStore(os.path.join(os.environ["CLIENT_REPORTS"], f"store{next(times)}"), rank.count)
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank.number, world_size=rank.count, timeout=timeout,
                            **options)
    if rank.number == 0:
        version = ".".join(map(str, torch.cuda.nccl.version())) if cuda else "no GPU: gloo"
        preloaded = os.environ.get("LD_PRELOAD", "")
        print(f"# torch {torch.__version__}, NCCL {version}, {library_of_process()}"
              f"{', preloaded ' + preloaded if preloaded else ''}, {rank.count} ranks", flush=True)
    return device


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def expect_equal(got, expected, what):
    got, expected = got.detach().cpu(), expected.detach().cpu()
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise Failed(f"{what}: {got.dtype} {tuple(got.shape)} instead of {expected.dtype} {tuple(expected.shape)}")
    wrong = (got.view(torch.uint8) != expected.view(torch.uint8)) if got.element_size() == 1 else (got != expected)
    count = int(wrong.sum())
    if count:
        first = int(wrong.flatten().nonzero()[0])
        raise Failed(f"{what}: {count} of {got.numel()} are wrong, the first at {first}: "
                     f"{got.flatten()[first].item()} instead of {expected.flatten()[first].item()}")


def expect_close(got, expected, what, relative=1e-2, absolute=1e-2):
    got, expected = got.detach().float().cpu(), expected.detach().float().cpu()
    if not torch.allclose(got, expected, rtol=relative, atol=absolute):
        raise Failed(f"{what}: off by {float((got - expected).abs().max())}")
