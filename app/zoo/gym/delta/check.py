"""Checks a delta: the file is intact, belongs to the base, and has the quality that it states."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.arguments import StrPath, instance_of, model_folder, path_of, path_or_none, text_of
from zoo.gym.delta.file.header import Quality
from zoo.gym.delta.file.reader import (
    Delta,
    open_delta,
    parse,
    read_container,
    verify_digest,
    verify_whole,
)
from zoo.gym.delta.quality import QualityInput, measure_quality, rows_in_words
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.delta.sanity import warn_of_worse_delta
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted

if TYPE_CHECKING:
    from zoo.core import Header, OpenFile

SAME_EXAMPLES = 1e-3
"""Relative difference of the base's loss up to which two measurements count as on the same rows."""

SAME_LOSS = 0.01
"""Nats per token by which a new measurement on the same rows may differ from the stored one."""

SAME_ANSWERS = 2
"""Answers by which a new count may differ from the stored one: rounding decides near ties."""


@dataclass(frozen=True)
class Check:
    """One check of a delta: `ok` is None if it was skipped."""

    name: str
    ok: bool | None
    detail: str

    def as_json(self) -> dict[str, str | bool | None]:
        """Returns the check as the command prints it."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


def check_delta(
    path: StrPath,
    *,
    base: StrPath | None = None,
    base_id: str | None = None,
    tuned: StrPath | None = None,
    quality: QualityInput | None = None,
) -> list[Check]:
    """Checks format, digest, header, finite values, identity and quality, in this order.

    The list ends with the first failed check, because later ones would not be reliable.

    Args:
        path: the delta file.
        base: the base's model folder; None skips identity and quality.
        base_id: the name of the base in error messages.
        tuned: the fine-tune, to measure its gain again.
        quality: held-out examples; None skips quality.

    Raises:
        InputError: an argument has the wrong type.
        NotAvailableError: a file or folder is missing.

    Warns:
        GymWarning: the delta is worse than its base on the examples.
    """
    path, base, tuned = (
        path_of("path", path),
        None if base is None else model_folder("base", base),
        path_or_none("tuned", tuned),
    )
    base_id = None if base_id is None else text_of("base_id", base_id)
    quality = None if quality is None else instance_of("quality", quality, QualityInput)
    subject = _Subject(path, base, base_id)
    steps = [subject.format, subject.digest, subject.header, subject.finite]
    steps += [subject.identity] if base else []
    checks: list[Check] = []
    for step in steps:
        try:
            checks.append(Check(step.__name__, ok=True, detail=step()))
        except InputError as error:
            return [*checks, Check(step.__name__, ok=False, detail=error.message)]
    if base is None:
        checks.append(Check("identity", ok=None, detail="no base was given"))
    if base is None or quality is None:
        return [*checks, Check("quality", ok=None, detail="no data was given")]
    measured = measure_quality(base, tuned, subject.delta, quality)
    warn_of_worse_delta(measured)
    judged = judge_quality(subject.delta.header.quality, measured)
    if not quality.held_out:
        rows = rows_in_words(measured.rows, quality.held_out)
        judged = replace(judged, detail=f"{judged.detail}; on {rows}")
    return [*checks, judged]


class _Subject:
    """The delta being checked; each check returns what it found, or raises InputError."""

    delta: Delta
    container: "Header"
    file: "OpenFile"

    def __init__(self, path: Path, base: Path | None, base_id: str | None) -> None:
        self.path, self.base, self.base_id = path, base, base_id

    def format(self) -> str:
        self.file = open_delta(self.path)
        self.container = read_container(self.path, self.file)
        return f"a delta of version {self.container.metadata['version']}"

    def digest(self) -> str:
        verify_digest(self.path, self.file, self.container)
        return self.container.metadata["digest"]

    def header(self) -> str:
        self.delta = parse(self.path, self.file, self.container)
        changed = len(self.delta.header.tensors)
        return f"{counted(changed, 'tensor')}, {self.delta.payload_bytes} payload bytes"

    def finite(self) -> str:
        verify_whole(self.file)
        return "every scale, value and code"

    def identity(self) -> str:
        assert self.base is not None
        verify_base(self.delta, open_weights(self.base), self.base_id)
        stated = self.delta.header.base
        return f"{stated.id} ({stated.identity[:12]})"


def judge_quality(stored: Quality | None, measured: Quality) -> Check:
    """Compares a measurement with the one in the file, if both are on the same examples."""
    detail = f"base {measured.base:.4f}, delta {measured.delta:.4f} nats per token"
    if stored is None:
        return Check("quality", ok=True, detail=f"{detail}; the file has no measurement")
    same_rows = (stored.rows, stored.tokens) == (measured.rows, measured.tokens)
    if not same_rows or abs(stored.base - measured.base) > SAME_EXAMPLES * abs(stored.base):
        detail += "; the file's measurement is on other examples"
        return Check("quality", ok=True, detail=detail)
    ok = abs(stored.delta - measured.delta) <= SAME_LOSS
    detail += f"; the file says {stored.delta:.4f}"
    if stored.kept is not None and measured.kept is not None:
        ok = ok and abs(stored.kept - measured.kept) <= SAME_ANSWERS
        ok = ok and abs((stored.drift or 0.0) - (measured.drift or 0.0)) <= SAME_LOSS
        detail += f"; kept {measured.kept} of {measured.right} answers, it says {stored.kept}"
    return Check("quality", ok=ok, detail=detail)
