"""Connects the processes of a run through torch.distributed: gloo, and NCCL between GPUs.

Only tensors of known sizes are exchanged: torch's own exchange of objects pickles them.
"""

import os
import sys
from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from zoo.backends.launched import PATIENCE, on_one_machine
from zoo.backends.machine.detect import require_gpus
from zoo.backends.ranks import FROM_ENVIRONMENT, LostProcessError, Place, Ranks, one_process_only

GPU_PATIENCE = timedelta(minutes=10)
"""The same for GPUs, which add up gradients as soon as all processes are there: NCCL may not notice
that one has ended, and ends its own process after this time."""

LOOPBACK = {"linux": "lo", "darwin": "lo0"}
"""The network interface of processes on one machine."""


EXCHANGES = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
"""Words of errors of exchanges between processes, in the versions of torch that we know."""


class TorchRanks(Ranks):
    """Processes that also add up tensors."""

    @abstractmethod
    def add_up(self, tensor: torch.Tensor) -> None:
        """Replaces a tensor by its sum over all processes. Collective."""


class Group(TorchRanks):
    """The default process group of torch, for host memory, and a second one for tensors on GPUs.

    Args:
        place: where this process is among the others.
        device: the device of the tensors that are added up.
    """

    def __init__(self, rank: Place, device: str) -> None:
        super().__init__(rank.rank, rank.size)
        gpus = device == "cuda"
        self.tensors = dist.new_group(backend="nccl", timeout=GPU_PATIENCE) if gpus else None

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replaces a tensor by its sum over all processes."""
        with lost_process(self):
            dist.all_reduce(tensor, group=self.tensors)

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Returns what each process gave, by rank."""
        with lost_process(self):
            lengths = self._gathered(torch.tensor([len(data)]))
            longest = int(lengths.max())
            if not longest:
                return [b""] * self.size
            padded = bytearray(data.ljust(longest, b"\0"))
            parts = self._gathered(torch.frombuffer(padded, dtype=torch.uint8))
        return [
            row[: int(length)].numpy().tobytes() for row, length in zip(parts, lengths, strict=True)
        ]

    def _gathered(self, local: torch.Tensor) -> torch.Tensor:
        parts = [torch.empty_like(local) for _ in range(self.size)]
        dist.all_gather(parts, local)
        return torch.stack(parts)


@contextmanager
def lost_process(ranks: Ranks | Place) -> Generator[None]:
    """Converts an error of an exchange with other processes, or of connecting to them.

    Raises:
        LostProcessError: another process is gone.
    """
    try:
        yield
    except RuntimeError as error:  # that of gloo has no class of its own
        reason = next(iter(str(error).splitlines()), "")
        raise LostProcessError(
            f"process {ranks.rank + 1} of {ranks.size} lost the connection to the others: {reason}",
            code="torch.lost_process",
        ) from error


@contextmanager
def lost_in_a_pass(ranks: Ranks) -> Generator[None]:
    """Converts an error of the exchanges inside a pass; other errors of the pass stay.

    Raises:
        LostProcessError: another process is gone.
    """
    try:
        yield
    except RuntimeError as error:  # one that memory is missing is another kind of it
        exchange = isinstance(error, dist.DistError) or any(m in str(error) for m in EXCHANGES)
        if isinstance(error, torch.OutOfMemoryError) or not exchange:
            raise
        with lost_process(ranks):
            raise


@contextmanager
def connect(rank: Place, device: str) -> Generator[Ranks]:
    """Connects this process with the others for the duration of a `with` block.

    Args:
        rank: where this process is among them.
        device: the device of the run; GPU number `local_rank` becomes this process's.

    Raises:
        InputError: processes on this device cannot be connected.
        NotAvailableError: this process has no GPU of its own.
        LostProcessError: another process ended before all were connected.
    """
    _choose_gpu(rank, device)
    with _loopback(rank):
        with lost_process(rank):
            _join_others(rank)
        try:
            with lost_process(rank):
                ranks = Group(rank, device)
            ranks.meet()  # the connections are made by the first exchange
            yield ranks
        finally:
            dist.destroy_process_group()


def _join_others(rank: Place) -> None:
    options: dict[str, Any] = {"backend": "gloo", "timeout": PATIENCE}
    if rank.meeting == FROM_ENVIRONMENT:
        dist.init_process_group(init_method=FROM_ENVIRONMENT, **options)
        return
    store = FileStore(rank.meeting, rank.size)
    dist.init_process_group(store=store, rank=rank.rank, world_size=rank.size, **options)


def _choose_gpu(rank: Place, device: str) -> None:
    if device == "cpu":
        return
    if device != "cuda":
        raise one_process_only(device, rank.size)
    # of a launcher's processes, each knows only those before it on this machine
    launched = rank.meeting == FROM_ENVIRONMENT
    require_gpus(rank.local_rank + 1 if launched else rank.size)
    torch.cuda.set_device(rank.local_rank)


@contextmanager
def _loopback(rank: Place) -> Generator[None]:
    """Lets processes of one machine listen on its own interface only, unless one is chosen."""
    name, interface = "GLOO_SOCKET_IFNAME", LOOPBACK.get(sys.platform)
    elsewhere = rank.meeting == FROM_ENVIRONMENT and not on_one_machine()
    if elsewhere or name in os.environ or interface is None:
        yield
        return
    os.environ[name] = interface
    try:
        yield
    finally:
        del os.environ[name]
