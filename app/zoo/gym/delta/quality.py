"""Measures the quality of a delta: losses of base, fine-tune and delta on held-out examples.

Models are loaded one after the other; only the divergence needs two at once.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from zoo.gym.delta.controls import Make, controls
from zoo.gym.delta.file.header import Control, Quality, recovered
from zoo.gym.delta.file.reader import Delta, load_delta
from zoo.gym.delta.loadable import Loadable, Role, delta_model, dtype_of, tuned_model
from zoo.gym.delta.reading.identity import verify_base
from zoo.gym.errors import InputError
from zoo.gym.measure import Divergence, divergence, held_out
from zoo.gym.retention import Measured, compare, text_loss
from zoo.gym.retention import measure as measure_retention
from zoo.models.folder import SMALL_PARAMETERS

if TYPE_CHECKING:
    from zoo.backends.base import Backend, Policy
    from zoo.gym.data.units import Example
    from zoo.gym.delta.reading.weights import Weights
    from zoo.gym.measure import Score


Visit: TypeAlias = Callable[[Role, "Policy"], None]

TOKENS, TOKENS_OF_A_SMALL_MODEL = 8192, 262_144
"""The number of tokens to measure: one or a few minutes on a CPU.

Each row takes seven passes, two of them for the divergence and two for controls. For zen-nano on
one core, a pass over 8,192 tokens takes half a minute.
"""


_ROWS_LINE = b"zoo-gym measured rows 1\n"
"""The start of the hashed bytes, so that no other digest is one of rows."""


@dataclass(frozen=True)
class QualityInput:
    """The examples to measure on, and the engine.

    Attributes:
        examples: encoded rows; the masked-in tokens are scored.
        held_out: True if the fine-tune was not trained on the rows, False if it was, None if that
            is not known.
        backend: the engine; by default the best of this machine.
        max_batch_tokens: tokens scored at once, padding included.
        other: the delta of another user on the same base, to compare with.
    """

    examples: "Sequence[Example]"
    backend: "Backend | None" = None
    max_batch_tokens: int = 4096
    held_out: bool | None = None
    other: Path | None = None


def rows_in_words(rows: int, held_out: bool | None, files: Sequence[str] = ()) -> str:
    """Returns a phrase for the rows that a number was measured on.

    >>> rows_in_words(5, None, ["a.jsonl"])
    '5 rows of a.jsonl; it is not known whether they were learned'
    """
    if held_out:
        return f"{rows:,} held-out rows"
    of = f" of {', '.join(files)}" if files else ""
    doubt = "; it is not known whether they were learned"
    return f"{rows:,} rows{of}{doubt if held_out is None else ', its training data'}"


def rows_digest(examples: "Sequence[Example]") -> str:
    """Returns the BLAKE3 of the rows that count, by their tokens and which of them are scored.

    `docs/reference/delta-format.md` specifies the bytes.
    """
    from zoo.core import digest

    scored = [example for example in examples if example.mask.any()]
    rows = (
        len(row.ids).to_bytes(8, "little")
        + row.ids.astype("<i8").tobytes()
        + row.mask.astype("u1").tobytes()
        for row in scored
    )
    return digest(b"".join((_ROWS_LINE, *rows)))


def sampled_rows(
    examples: "Sequence[Example]", parameters: int, most: int | None = None
) -> "Sequence[Example]":
    """Returns the rows to measure on: evenly spaced, and the same for the same data.

    Args:
        examples: all held-out rows.
        parameters: the number of parameters of the base.
        most: the largest number of rows; by default as many as fit in the token budget, at
            least one.
    """
    from zoo.gym.measure.rows import spread

    if most is None:
        budget = TOKENS_OF_A_SMALL_MODEL if parameters < SMALL_PARAMETERS else TOKENS
        tokens = sum(len(example.ids) for example in examples)
        most = max(1, budget * len(examples) // max(1, tokens))
    return examples if most >= len(examples) else spread(examples, most)


def check_other(measure: QualityInput | None, base: "Weights", out: Path) -> None:
    """Refuses another user's delta that cannot be compared with, before anything is computed.

    Raises:
        InputError: it is the file to be written, of another base, or no intact delta.
    """
    if measure is None or measure.other is None:
        return
    if out.exists() and measure.other.samefile(out):
        raise InputError(
            f"control: expected another file than the output {str(out)!r}, which replaces it",
            code="delta.bad_control",
        )
    try:
        verify_base(load_delta(measure.other), base)
    except InputError as error:
        raise InputError(f"control: {error.message}", code=error.code) from error


def measure_quality(
    base: Path,
    tuned: Path | None,
    delta: Delta,
    measure: QualityInput,
    *,
    scaled: float = 1.0,
    with_controls: bool = True,
    visit: Visit | None = None,
) -> Quality:
    """Scores base, fine-tune, delta and controls on the same examples.

    Base and delta are also scored on plain text, and if the base answers general questions, so is
    the delta.

    Args:
        base: the base's model folder.
        tuned: the fine-tune; without it, `tuned`, `recovered` and `kl` are None.
        delta: the delta.
        measure: examples and engine.
        scaled: the factor for the delta.
        with_controls: also score what should be no good, see `zoo.gym.delta.controls`; of a scaled
            delta nothing is.
        visit: called with each of base, delta and fine-tune while it is loaded, the base first.

    Raises:
        InputError: the examples contain no learned token, a model cannot be loaded, or a loss is
            not finite.
        StorageError: the disk is too full for a rebuilt model.
    """
    if not any(bool(example.mask.any()) for example in measure.examples):
        raise InputError(
            "quality: expected held-out rows with learned tokens, got none",
            code="delta.no_held_out_rows",
        )
    dtype = dtype_of(delta)
    base_loss, base_retention, base_text = _of_base(base, measure, dtype, visit)
    tuned_loss: float | None = None
    apart: Divergence | None = None
    with delta_model(delta, base, scaled=scaled) as rebuilt, ExitStack() as stack:
        policy = rebuilt.load(measure.backend, dtype)
        delta_loss = _score(policy, measure)
        if visit is not None:
            visit("delta", policy)
        if tuned is not None:
            fine_tune = stack.enter_context(tuned_model(tuned, base))
            original = fine_tune.load(measure.backend, dtype)
            tuned_loss = _score(original, measure).loss
            apart = divergence(
                original, policy, measure.examples, max_batch_tokens=measure.max_batch_tokens
            )
            if visit is not None:
                visit("tuned", original)
            del original
        retained = None
        if base_retention.answers_questions:
            retained = compare(base_retention, measure_retention(policy, base, base_retention))
        text = text_loss(policy, base) if retained is None else retained.loss_after
        del policy
    kl = None if apart is None else apart.kl
    _refuse_not_finite(delta, base_loss.loss, tuned_loss, delta_loss.loss, kl)
    compares = with_controls and scaled == 1.0
    made = controls(delta, base, tuned, measure.other) if compares else ()
    losses = ((kind, _loss_of(make, measure, dtype)) for kind, make in made)
    finite = [Control(kind=kind, loss=loss) for kind, loss in losses if math.isfinite(loss)]
    return Quality(
        rows=sum(bool(example.mask.any()) for example in measure.examples),
        tokens=base_loss.tokens,
        base=base_loss.loss,
        tuned=tuned_loss,
        delta=delta_loss.loss,
        recovered=recovered(base_loss.loss, tuned_loss, delta_loss.loss),
        kl=kl,
        top1=None if apart is None else apart.top1,
        drift=None if text is None or base_text is None else text - base_text,
        controls=tuple(finite) or None,
        right=None if retained is None else retained.right,
        kept=None if retained is None else retained.kept,
    )


def _refuse_not_finite(
    delta: Delta, base: float, tuned: float | None, delta_loss: float, kl: float | None
) -> None:
    losses = {"base": base, "tuned": tuned, "delta": delta_loss, "kl": kl}
    for name, value in losses.items():
        if value is not None and not math.isfinite(value):
            raise InputError(
                f"{delta.path}: quality: {name}: expected a number, got {value}",
                code="delta.not_finite",
            )


def _of_base(
    base: Path, measure: QualityInput, dtype: str, visit: Visit | None
) -> "tuple[Score, Measured, float | None]":
    """Returns the base's score on the rows, its answers and its loss on plain text.

    Its memory is then free.
    """
    policy = Loadable(base, None).load(measure.backend, dtype)
    retention = measure_retention(policy, base)
    if visit is not None:
        visit("base", policy)
    text = text_loss(policy, base) if retention.text_loss is None else retention.text_loss
    return _score(policy, measure), retention, text


def _loss_of(make: Make, measure: QualityInput, dtype: str) -> float:
    """Returns the loss of a control."""
    with make() as model:
        return _score(model.load(measure.backend, dtype), measure).loss


def _score(policy: "Policy", measure: QualityInput) -> "Score":
    return held_out(policy, measure.examples, max_batch_tokens=measure.max_batch_tokens)
