"""`delta create` on two models of 1.2 GB each, from a cold disk: rate against the limit, memory.

zen-nano's geometry with random bf16 weights, and the same with noise on top. The limit is the rate
of plain reads of the same two files, or that of memcpy, whichever is lower; a disk's rate drifts by
a factor of two, so both are measured alternately, and their medians and best rounds are compared.
Private memory is memory without a file (RssAnon), so the page cache does not count.
Linux only.

usage: python -m bench.stream BASE TUNED OUT       one measured `delta create`, as JSON
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.measure import MB, Case, status_bytes

ROUNDS = 9
PIECE_BYTES = 4 << 20
COPY_BYTES = 256 << 20
GB = 1e9


@dataclass(frozen=True)
class Created:
    """One run: its seconds, and its peak of private memory above the start, in bytes."""

    seconds: float
    private_bytes: int


def run() -> Iterator[Case]:
    """Yields the cases."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        base, tuned = write_pair(Path(name))
        total = sum(file.stat().st_size for file in weight_files(base, tuned))
        out = Path(name) / "out.delta.safetensors"
        copied = median(memcpy_rate() / GB for _ in range(ROUNDS))
        reads, creates, private = list[float](), list[float](), list[int]()
        for _ in range(ROUNDS):
            reads.append(read_seconds(base, tuned))
            forget(base, tuned)
            created = measured(base, tuned, out)
            creates.append(created.seconds)
            private.append(created.private_bytes)
        warm = total / measured(base, tuned, out).seconds / GB
    disk, rate = (total / median(seconds) / GB for seconds in (reads, creates))
    share = rate / min(disk, copied)
    quickest, best = (total / min(seconds) / GB for seconds in (reads, creates))
    best_share = best / min(quickest, copied)
    yield Case("disk, plain cold reads", disk, "GB/s", "memcpy", disk / copied, "")
    yield Case("create: cold", rate, "GB/s", "the lower limit", share, ">= 0.6")
    yield Case("create: cold, the best of each", best, "GB/s", "its limit", best_share, ">= 0.6")
    yield Case("create: from the page cache", warm, "GB/s", "memcpy", warm / copied, "")
    peak = max(private) / MB
    yield Case("create: private memory", peak, "MB", "300 MB", peak / 300, "<= 1.0")


def write_pair(folder: Path) -> tuple[Path, Path]:
    """Writes the base and a fine-tune of it: the base's weights plus noise a tenth as large."""
    import torch

    from bench.zen_nano import config, specs, values
    from zoo.gym.delta.file.writer import Entry, header_bytes
    from zoo.models.registry import registry

    shape = next(entry.geometry for entry in registry() if entry.alias == "zen-nano")
    tensors = list(specs(shape, repeated_head=False))
    header = header_bytes([Entry(s.name, "BF16", s.shape) for s in tensors], {"format": "pt"})
    folders = folder / "base", folder / "tuned"
    for seed, model in enumerate(folders):
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config(shape)))
        with (model / "model.safetensors").open("wb") as file:
            file.write(header)
            for spec in tensors:
                for piece, noise in zip(values(spec, 0), values(spec, 1), strict=True):
                    weights = piece + seed * 0.1 * noise
                    file.write(weights.bfloat16().view(torch.int16).numpy().data)
            os.fsync(file.fileno())
    return folders


def weight_files(*folders: Path) -> list[Path]:
    """Returns the weight files."""
    return [file for folder in folders for file in sorted(folder.glob("*.safetensors"))]


def read_seconds(*folders: Path) -> float:
    """Returns the seconds of reading all weights from the disk, and nothing else."""
    forget(*folders)
    room = bytearray(PIECE_BYTES)
    started = time.perf_counter()
    for path in weight_files(*folders):
        with path.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass
    return time.perf_counter() - started


def forget(*folders: Path) -> None:
    """Drops the files from the page cache."""
    for path in weight_files(*folders):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def memcpy_rate() -> float:
    """Returns the bytes per second that one thread copies."""
    import numpy as np

    source, target = np.ones(COPY_BYTES, np.uint8), np.zeros(COPY_BYTES, np.uint8)
    started = time.perf_counter()
    np.copyto(target, source)
    return COPY_BYTES / (time.perf_counter() - started)


def measured(base: Path, tuned: Path, out: Path) -> Created:
    """Runs `create` in a separate process."""
    command = [sys.executable, "-m", "bench.stream", str(base), str(tuned), str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Created(**json.loads(done.stdout))


def create(base: Path, tuned: Path, out: Path) -> Created:
    """Creates the delta in this process and monitors its private memory."""
    from zoo.gym.delta import create_delta

    before, done = status_bytes("RssAnon"), threading.Event()
    seen = [before]

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(status_bytes("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    try:
        create_delta(tuned, base=base, base_id="zen-nano", out=out, force=True)
        seconds = time.perf_counter() - started
    finally:
        done.set()
        watcher.join()
    return Created(seconds, max(seen) - before)


if __name__ == "__main__":
    print(json.dumps(asdict(create(*map(Path, sys.argv[1:4])))))
