"""Checks a delta: the file is intact, belongs to the base, and has the figures that it states."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.arguments import StrPath, instance_of, model_folder, path_of, path_or_none, text_of
from zoo.gym.delta.controls import OTHER
from zoo.gym.delta.file.header import ROWS_DIGEST_KEY, DeltaHeader, Quality
from zoo.gym.delta.file.reader import (
    Delta,
    open_delta,
    parse,
    read_container,
    verify_digest,
    verify_whole,
)
from zoo.gym.delta.file.refusals import KINDS, Refusals
from zoo.gym.delta.origin.digests import warn_of_other_form
from zoo.gym.delta.quality import QualityInput, measure_quality, rows_digest, rows_in_words
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.delta.reading.weights import open_weights
from zoo.gym.delta.refusals import measure_refusals
from zoo.gym.delta.sanity import warn_of_worse_delta
from zoo.gym.errors import InputError
from zoo.gym.humanize import counted
from zoo.gym.refusals import Unmeasured, prompt_counts, prompts_digest

if TYPE_CHECKING:
    from zoo.backends.base import Backend
    from zoo.core import Header, OpenFile

SAME_LOSS = 0.01
"""Nats per token by which a new loss on the same rows may differ from the stored one.

Another processor, or other products of bfloat16, change the mean loss of a model by less.
"""

SAME_TOP1 = 0.02
"""By which a share of equal tokens may differ, for the same reasons."""

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
    """Checks format, digest, header, finite values, identity, quality and refusals, in this order.

    The list ends with the first failed check, because later ones would not be reliable.

    Args:
        path: the delta file.
        base: the base's model folder; None skips identity, quality and refusals.
        base_id: the name of the base in error messages.
        tuned: the fine-tune, to measure its gain again.
        quality: held-out examples; None skips quality.

    Raises:
        InputError: an argument has the wrong type.
        NotAvailableError: a file or folder is missing.

    Warns:
        GymWarning: the delta is worse than its base on the examples, or the base has another
            tokenizer or chat template than in training.
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
    if base is not None:
        warn_of_other_form(subject.delta.header.recipe, base)
    if base is None:
        checks.append(Check("identity", ok=None, detail="no base was given"))
    checks.append(_quality(subject, tuned, quality))
    if checks[-1].ok is not False and subject.delta.header.refusals is not None:
        backend = quality.backend if quality else None
        checks.append(_refusals(subject, tuned, backend))
    return checks


def _quality(subject: "_Subject", tuned: Path | None, quality: QualityInput | None) -> Check:
    if subject.base is None or quality is None:
        return Check("quality", ok=None, detail="no data was given")
    measured = measure_quality(subject.base, tuned, subject.delta, quality)
    warn_of_worse_delta(measured)
    judged = judge_quality(subject.delta.header, measured, rows_digest(quality.examples))
    if not quality.held_out:
        rows = rows_in_words(measured.rows, quality.held_out)
        judged = replace(judged, detail=f"{judged.detail}; on {rows}")
    return judged


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
        has_whole_base = self.delta.header.whole_base is not None
        checked = (
            "its config and all tensors" if has_whole_base else "only the tensors that it lists"
        )
        return f"{stated.id} ({stated.identity[:12]}): {checked}"


def _refusals(subject: "_Subject", tuned: Path | None, backend: "Backend | None") -> Check:
    stored = subject.delta.header.refusals
    assert stored is not None
    if subject.base is None:
        return Check("refusals", ok=None, detail="no base was given")
    if (stored.prompts, stored.asked) != (prompts_digest(), prompt_counts()):
        return Check("refusals", ok=None, detail="the file's measurement is on other prompts")
    return judge_refusals(stored, measure_refusals(subject.base, tuned, subject.delta, backend))


def judge_refusals(stored: Refusals, measured: Refusals | Unmeasured) -> Check:
    """Compares what is refused with what the file says."""
    says = f"the file says: {'; '.join(stored.sentences())}"
    if isinstance(measured, Unmeasured):
        return Check("refusals", ok=False, detail=f"{measured}; {says}")
    claims = stored.models()
    ok = all(
        abs(getattr(counts, kind) - getattr(claims[name], kind)) <= SAME_ANSWERS
        for name, counts in measured.models().items()
        if name in claims
        for kind in KINDS
    )
    return Check("refusals", ok=ok, detail=f"{'; '.join(measured.sentences())}; {says}")


def judge_quality(stored: DeltaHeader, measured: Quality, rows_digest: str) -> Check:
    """Compares a measurement with the one in the file, if both are on the same examples.

    `ok` is None if that is not known: an older file has no digest of its rows, as many rows and
    tokens, and another loss of the base.
    """
    figures, digest = stored.quality, stored.recipe.get(ROWS_DIGEST_KEY)
    detail = f"base {measured.base:.4f}, delta {measured.delta:.4f} nats per token"
    controls = measured.controls or ()
    detail += "".join(f"; {control.kind} {control.loss:.4f}" for control in controls)
    if figures is None:
        return Check("quality", ok=True, detail=f"{detail}; the file has no measurement")
    same_counts = (figures.rows, figures.tokens) == (measured.rows, measured.tokens)
    if not same_counts if digest is None else digest != rows_digest:
        detail += "; the file's measurement is on other examples"
        return Check("quality", ok=True, detail=detail)
    says = f"the file says base {figures.base:.4f}, delta {figures.delta:.4f}"
    if digest is None and not _same_loss(figures.base, measured.base):
        detail += f"; {says}, and not on which examples"
        return Check("quality", ok=None, detail=detail)
    ok = same_counts and all(
        _same_loss(getattr(figures, name), getattr(measured, name)) for name in _LOSSES
    )
    detail += f"; {says}"
    ok = ok and _same_loss(figures.drift, measured.drift)
    if figures.top1 is not None and measured.top1 is not None:
        ok = ok and abs(figures.top1 - measured.top1) <= SAME_TOP1
    stored_losses = {control.kind: control.loss for control in figures.controls or ()}
    for control in controls:
        if control.kind != OTHER:  # the file does not say whose delta it was
            ok = ok and _same_loss(stored_losses.get(control.kind), control.loss)
    if figures.tuned is not None and measured.tuned is None:
        detail += "; what needs the fine-tune was not measured again"
    if figures.kept is not None and measured.kept is not None:
        ok = ok and abs(figures.kept - measured.kept) <= SAME_ANSWERS
        detail += f"; kept {measured.kept} of {measured.right} answers, it says {figures.kept}"
    return Check("quality", ok=ok, detail=detail)


_LOSSES = ("base", "tuned", "delta", "kl")


def _same_loss(stored: float | None, measured: float | None) -> bool:
    """Returns whether two losses agree; one that was not measured agrees with any."""
    return stored is None or measured is None or abs(stored - measured) <= SAME_LOSS
