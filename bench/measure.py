"""Measures CPU seconds and the additional peak of resident memory."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

MB = 1e6


@dataclass(frozen=True)
class Case:
    """One measured figure.

    Attributes:
        name: what was measured.
        value: the figure, in `unit`.
        unit: `CPU-s`, `MB`, `relative` ...
        against: the plain alternative.
        ratio: the figure divided by the alternative's, or the error itself.
        bar: the target for the ratio, such as `<= 0.7`; empty if there is none.
    """

    name: str
    value: float
    unit: str
    against: str
    ratio: float
    bar: str

    def keeps_its_bar(self) -> bool:
        """Returns whether the ratio meets the target."""
        if not self.bar:
            return True
        sign, limit = self.bar.split()
        return self.ratio <= float(limit) if sign == "<=" else self.ratio >= float(limit)


@dataclass(frozen=True)
class Skipped:
    """A case that could not be measured here.

    Attributes:
        name: the case.
        reason: why not, such as `this processor has no avx512`.
    """

    name: str
    reason: str


def line(case: Case) -> str:
    """Returns one row of the table."""
    missed = "" if case.keeps_its_bar() else "   MISSED"
    return (
        f"{case.name:40} {case.value:>11.4g} {case.unit:10} {case.ratio:>9.3g} "
        f"of {case.against:22} {case.bar:9}{missed}"
    )


def alternated(
    works: Mapping[str, Callable[[], object]], rounds: int = 15, *, warm: bool = True
) -> list[dict[str, float]]:
    """Returns the CPU seconds of each work item, measured alternately in rounds.

    So a temporary disturbance affects all of them: compare within a round, and take the median over
    the rounds (`median_ratio`). Unless `warm` is off, each runs once first.
    """
    for work in works.values() if warm else ():
        work()
    return [{name: _seconds(work) for name, work in works.items()} for _ in range(rounds)]


def median_ratio(rounds: Sequence[Mapping[str, float]], name: str, against: str) -> float:
    """Returns the median over the rounds of one work's time divided by another's."""
    return median(times[name] / times[against] for times in rounds)


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@dataclass(frozen=True)
class Cost:
    """Medians over the repeats: CPU seconds, and megabytes above the initial resident size."""

    cpu_s: float
    peak_mb: float


def cost(work: Callable[[], object], repeats: int = 3) -> Cost:
    """Runs `work` once to warm up and `repeats` times measured; Linux only."""
    work()
    runs = [_once(work) for _ in range(repeats)]
    return Cost(median(r.cpu_s for r in runs), median(r.peak_mb for r in runs))


def _once(work: Callable[[], object]) -> Cost:
    gc.collect()
    before = reset_peak_bytes()
    started = time.process_time()
    work()
    return Cost(time.process_time() - started, (status_bytes("VmHWM") - before) / MB)


def reset_peak_bytes() -> int:
    """Resets the peak and returns the resident size."""
    Path("/proc/self/clear_refs").write_text("5")
    return status_bytes("VmRSS")


def status_bytes(field: str, process: int | str = "self") -> int:
    """Returns one field of /proc/PROCESS/status in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{process}/status: no field {field}")
