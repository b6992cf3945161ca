"""Tensors of safetensors files that are mapped into memory, and can be released again.

A mapped tensor has its values in the file: the system reads a page when it is first used. Releasing
gives the memory of a tensor back; its next use reads it again. So a release is never wrong, only
early or late. The memory is read-only: a change, which a release would lose, is a fault.
"""

import mmap
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from zoo.core import read_header
from zoo.core.errors import NotAvailableError

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
RELEASE = getattr(mmap, "MADV_DONTNEED", None)
PREFETCH = getattr(mmap, "MADV_WILLNEED", None)


@dataclass(frozen=True)
class Range:
    """Bytes `start` to `stop` of a mapped file, whole pages."""

    file: mmap.mmap
    start: int
    stop: int

    def release(self) -> None:
        """Gives the memory back; the values stay in the file."""
        self.file.madvise(RELEASE or 0, self.start, self.stop - self.start)

    def prefetch(self) -> None:
        """Starts to read the values from the disk."""
        self.file.madvise(PREFETCH or 0, self.start, self.stop - self.start)


class MappedFiles:
    """The tensors of a model's files.

    Args:
        files: safetensors files.

    Raises:
        NotAvailableError: this system cannot release mapped memory.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        if RELEASE is None or PREFETCH is None:
            raise NotAvailableError(
                "stream_layers: not available on this system", code="torch.no_streaming"
            )
        self.tensors: dict[str, Tensor] = {}
        self._places: dict[int, tuple[mmap.mmap, int, int]] = {}
        for path in files:
            self._map(path)

    def _map(self, path: Path) -> None:
        header = read_header(path)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for name, info in header.tensors.items():
            dtype = TYPES.get(info.dtype)
            start, stop = info.start, info.stop
            if dtype is None or stop == start:
                continue
            count = (stop - start) // dtype.itemsize
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that it cannot be written to
                flat = torch.frombuffer(mapped, dtype=dtype, count=count, offset=start)
            self.tensors[name] = flat.view(tuple(info.shape))
            self._places[flat.data_ptr()] = (mapped, start, stop)

    def contains(self, tensor: Tensor) -> bool:
        """Returns whether a tensor is one of the mapped ones, not a copy."""
        return tensor.data_ptr() in self._places

    def ranges(self, tensors: Iterable[Tensor]) -> list[Range]:
        """Returns the whole pages of those tensors that are mapped; neighbours are joined."""
        places = {self._places[t.data_ptr()] for t in tensors if self.contains(t)}
        ranges: list[Range] = []
        for file, start, stop in sorted(places, key=lambda span: (id(span[0]), span[1])):
            first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            last = stop // mmap.PAGESIZE * mmap.PAGESIZE
            if ranges and ranges[-1].file is file and first - ranges[-1].stop <= mmap.PAGESIZE:
                first = ranges.pop().start
            if last > first:
                ranges.append(Range(file, first, last))
        return ranges
