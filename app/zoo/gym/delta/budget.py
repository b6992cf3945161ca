"""Chooses the coding of a delta that may have so many bytes, by measuring what fits.

Every coding is made. Of each codec of factors the highest rank that fits is measured, of full
weights the largest codings that fit: a divergence is a number of the model, and no formula of bits
and ranks gives it.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from zoo.gym.config.delta import DeltaConfig
from zoo.gym.delta.create import Origin, create_delta
from zoo.gym.delta.file.reader import load_delta
from zoo.gym.delta.quality import QualityInput, measure_quality
from zoo.gym.delta.reading.adapter import is_adapter, read_adapter
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.errors import GymWarning, InputError

RESERVED = 1536
"""Bytes of the header for what is known after the choice: the measurements, how it was trained."""

MEASURED = 6
"""The most codings that are measured: the largest that fit."""

DENSE = (
    DeltaConfig(codec="sparse"),
    DeltaConfig(bits=8),
    DeltaConfig(bits=4),
    DeltaConfig(planes=3),
    DeltaConfig(bits=2),
    DeltaConfig(planes=2),
    DeltaConfig(codec="ternary"),
    DeltaConfig(scale="group"),
    DeltaConfig(),
    DeltaConfig(scale="matrix"),
)
FACTORS = (
    DeltaConfig(codec="bf16"),
    DeltaConfig(bits=8),
    DeltaConfig(bits=4),
    DeltaConfig(bits=2),
    DeltaConfig(bits=1),
)


@dataclass(frozen=True)
class Candidate:
    """A coding, the bytes of its file, and its divergence from the fine-tune.

    Attributes:
        config: the coding.
        file_bytes: the most bytes that the delta will have.
        kl: KL(fine-tune || delta) in nats per token; None if it was not measured.
    """

    config: DeltaConfig
    file_bytes: int
    kl: float | None = None

    @property
    def options(self) -> str:
        """The options of `delta create` for it."""
        return options_of(self.config)


def options_of(config: DeltaConfig) -> str:
    """Returns the options of `delta create` for a coding."""
    values = config.model_dump(exclude_defaults=True)
    return " ".join(f"--{key} {value}" for key, value in values.items()) or "(defaults)"


def choose_within(
    source: Path,
    base: Path,
    max_bytes: int,
    quality: QualityInput,
    *,
    base_id: str | None = None,
    base_revision: str | None = None,
    origin: Origin | None = None,
    watch: Callable[[Candidate], None] = lambda _: None,
) -> tuple[DeltaConfig, list[Candidate]]:
    """Returns the coding with the lowest divergence, and what it was compared with.

    Args:
        source: the fine-tune.
        base: its base.
        max_bytes: the most bytes of the file.
        quality: the rows to measure on.
        base_id: see `create_delta`, as the next two: the header counts.
        base_revision: see `create_delta`.
        origin: see `create_delta`.
        watch: called with each coding as soon as it is measured.

    Raises:
        InputError: no coding fits; the message has the smallest.
    """
    make = partial(
        create_delta,
        source,
        base=base,
        base_id=base_id,
        base_revision=base_revision,
        origin=origin,
        force=True,
    )
    with tempfile.TemporaryDirectory(prefix="zoo-gym-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", GymWarning)  # the delta that is chosen warns once
        file = Path(folder) / "candidate.safetensors"
        sized = [
            Candidate(config, make(out=file, config=config).file_bytes + RESERVED)
            for config in candidates(source, base)
        ]
        fitting = sorted(
            (each for each in sized if each.file_bytes <= max_bytes),
            key=lambda each: -each.file_bytes,
        )
        if not fitting:
            smallest = min(sized, key=lambda each: each.file_bytes)
            other = "" if is_adapter(source) else "; an adapter's delta is far smaller"
            raise InputError(
                f"max_bytes: expected at least {smallest.file_bytes:,}, the smallest delta of this "
                f"fine-tune ({smallest.options}), got {max_bytes:,}",
                hint=f"--max-bytes {smallest.file_bytes}{other}",
                code="delta.over_budget",
            )
        measured: list[Candidate] = []
        for each in _of_highest_rank(fitting)[:MEASURED]:
            make(out=file, config=each.config)
            kl = measure_quality(base, source, load_delta(file), quality, with_controls=False).kl
            measured.append(Candidate(each.config, each.file_bytes, kl))
            watch(measured[-1])
    best = min(measured, key=lambda each: (each.kl is None, each.kl, each.file_bytes))
    return best.config, measured


def _of_highest_rank(fitting: Sequence[Candidate]) -> list[Candidate]:
    """Returns the first of each codec, where the largest are first; all of full weights."""
    firsts: dict[DeltaConfig, Candidate] = {}
    for each in fitting:
        firsts.setdefault(each.config.model_copy(update={"rank": None}), each)
    return list(firsts.values())


def candidates(source: Path, base: Path) -> Iterator[DeltaConfig]:
    """Yields the codings of a fine-tune: of an adapter also of lower ranks, down to 1."""
    if not is_adapter(source):
        yield from DENSE
        return
    adapter = read_adapter(source, open_weights(base))
    for config in FACTORS:
        yield config
        for rank in lower_ranks(adapter.rank):
            yield config.model_copy(update={"rank": rank})


def lower_ranks(rank: int) -> list[int]:
    """Returns the ranks that factors are cut to: by a quarter, and by a half again and again.

    >>> lower_ranks(16)
    [12, 8, 6, 4, 3, 2, 1]
    """
    halves = [rank // 2**n for n in range(rank.bit_length()) if rank // 2**n]
    return sorted(
        {r for half in halves for r in (half, half * 3 // 4) if 0 < r < rank}, reverse=True
    )
