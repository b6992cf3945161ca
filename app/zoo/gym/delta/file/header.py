"""The JSON header of a delta file: base, terms, recipe, privacy, quality, and their checks.

Version 2 has parents, a privacy record and more measurements; version 1 has none of them.
"""

import math
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from zoo.gym.delta.file.privacy import Privacy
from zoo.gym.delta.file.refusals import REFUSALS_KEY, Refusals
from zoo.gym.delta.file.terms import Model, TensorTerms
from zoo.gym.terminal import one_line

FORMAT = "zoo-gym-delta"
Version: TypeAlias = Literal["1", "2"]
VERSIONS: tuple[Version, ...] = ("1", "2")

Form: TypeAlias = Literal["lowrank", "dense"]
Hex64: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

ROUNDING = 1e-4
"""How many nats a non-negative number may be below 0, because of float32 sums."""

SAME_SHARE = 1e-6
"""The tolerance between `recovered` and its losses: relative, or absolute below 1."""

Nats: TypeAlias = Annotated[Finite, Field(ge=-ROUNDING)]


def _on_one_line(text: str) -> str:
    if one_line(text) != text:
        raise ValueError(f"expected text without control characters, got {text!r:.80}")
    return text


Line: TypeAlias = Annotated[str, AfterValidator(_on_one_line)]
"""Text without control characters, so that it cannot imitate our output when printed."""


class Base(Model):
    """The model that the delta belongs to."""

    identity: Hex64 = Field(description="hash over the base tensors that are listed")
    id: Line = Field(description="the name under which the base was used")
    revision: Line | None = Field(description="its revision, where it has one")


WHOLE_BASE_KEY = "whole_base"
"""A recipe key: the rest of the base's identity. Readers of before it accept any recipe."""


ROUND_TOOL = "zoo-gym round 1"
"""What stands for the program in files of rounds: not its version, which says more than needed.

A round fixes the tensors that it changes and not the rest of its base, which its files leave out.
"""


class WholeBase(Model):
    """What a base has besides the tensors that a delta lists."""

    untouched: Hex64 = Field(description="hash over the base tensors that are not listed")
    settings: dict[str, JsonValue] = Field(description="what its config computes with, by name")


class Control(Model):
    """The loss of a control on the same examples: a delta that should be no good."""

    kind: Annotated[Line, Field(min_length=1)] = Field(description="such as random-signs")
    loss: Nats = Field(description="its loss")


_MEASURED_IN_2 = ("top1", "drift", "controls", "right", "kept")


class Quality(Model):
    """The quality of the delta on held-out examples; losses in nats per learned token.

    `recovered` = (base - delta) / (base - tuned), None if tuned is not better than base;
    `kl` = KL(tuned || delta). Without a tuned model, `tuned`, `recovered` and `kl` are None.
    The fields from `top1` on are of version 2, None where they were not measured.
    """

    rows: PositiveInt = Field(description="held-out examples")
    tokens: PositiveInt = Field(description="learned tokens in them")
    base: Nats = Field(description="loss of the base")
    tuned: Nats | None = Field(description="loss of the fine-tune")
    delta: Nats = Field(description="loss of base plus delta")
    recovered: Finite | None = Field(description="share of the fine-tune's gain that is kept")
    kl: Nats | None = Field(description="KL(tuned || delta), nats per learned token")
    top1: Annotated[Finite, Field(ge=0, le=1)] | None = Field(
        default=None, description="share of learned tokens of which both find the same most likely"
    )
    drift: Finite | None = Field(
        default=None, description="loss of the delta minus that of the base on other text"
    )
    controls: tuple[Control, ...] | None = Field(
        default=None, min_length=1, description="losses of controls, sorted by kind"
    )
    right: PositiveInt | None = Field(
        default=None, description="general questions that the base answers right"
    )
    kept: NonNegativeInt | None = Field(
        default=None, description="those of them that base plus delta still answers right"
    )

    @model_validator(mode="after")
    def _figures_agree(self) -> Self:
        if self.tokens < self.rows:
            raise ValueError(f"tokens: expected at least {self.rows}, the rows, got {self.tokens}")
        if (self.kl is None) != (self.tuned is None):
            raise ValueError(f"kl: expected it only with the loss of a fine-tune, got {self.kl}")
        share = recovered(self.base, self.tuned, self.delta)
        got = self.recovered
        agree = share is got if share is None or got is None else _same_share(share, got)
        if not agree:
            raise ValueError(f"recovered: expected {share} by the three losses, got {got}")
        if self.top1 is not None and self.tuned is None:
            raise ValueError(f"top1: expected it only with a fine-tune, got {self.top1}")
        if (self.right is None) != (self.kept is None) or (self.kept or 0) > (self.right or 0):
            raise ValueError(
                f"kept: expected at most {self.right}, which were right, got {self.kept}"
            )
        kinds = [control.kind for control in self.controls or ()]
        if kinds != sorted(set(kinds)):
            raise ValueError("controls: expected each kind once, in sorted order")
        return self

    def content(self) -> dict[str, Any]:
        """Returns the block as the file has it: without unmeasured fields of version 2."""
        unknown = {name for name in _MEASURED_IN_2 if getattr(self, name) is None}
        return self.model_dump(mode="json", exclude=unknown)


def recovered(base: float, tuned: float | None, delta: float) -> float | None:
    """Returns the share of the fine-tune's gain that the delta keeps.

    None if there is no fine-tune, or if it is not better than the base.

    >>> recovered(2.0, 1.0, 1.25)
    0.75
    """
    if tuned is None or not tuned < base:
        return None
    return (base - delta) / (base - tuned)


def _same_share(expected: float, got: float) -> bool:
    return math.isclose(expected, got, rel_tol=SAME_SHARE, abs_tol=SAME_SHARE)


ROWS_KEY = "quality_rows"
"""A recipe key, present if the measured rows may be part of the known training data."""

ROWS_DIGEST_KEY = "quality_rows_digest"
"""A recipe key: the digest of the measured rows. Readers of before it accept any recipe."""


FORM_KEY = "base"
"""A recipe key: digests of the tokenizer and the chat template of the base of training."""

DISTILLED_KEY = "distilled"
"""A recipe key: how the delta was trained after it was made, and on what."""

RECORDS = frozenset(
    {ROWS_KEY, ROWS_DIGEST_KEY, WHOLE_BASE_KEY, FORM_KEY, DISTILLED_KEY, REFUSALS_KEY}
)
"""The recipe keys that are no settings of a fine-tune."""


class DeltaHeader(Model):
    """The header of a delta file: everything but its digest."""

    form: Form = Field(description="lowrank: all terms are; dense: any others too")
    base: Base
    tensors: tuple[TensorTerms, ...] = Field(min_length=1, description="sorted by name")
    recipe: dict[str, JsonValue] = Field(description="the settings that made the fine-tune")
    seed: int | None = Field(
        ge=-(2**63), lt=2**63, description="the seed of the run, or of a control's random signs"
    )
    data: Hex64 | None = Field(description="fingerprint of the training data")
    privacy: Privacy | None = Field(description="what a private sum promises; version 2")
    parents: tuple[Hex64, ...] = Field(
        default=(), max_length=1000, description="deltas that its base contains; version 2"
    )
    tool: Line = Field(description="the program that wrote the file, and its version")
    quality: Quality | None = Field(description="measured, never typed")

    @model_validator(mode="after")
    def _tensors_fit(self) -> Self:
        names = [tensor.name for tensor in self.tensors]
        if names != sorted(set(names)):
            raise ValueError("tensors: expected each name once, in sorted order")
        if not any(tensor.terms for tensor in self.tensors):
            raise ValueError("tensors: expected at least one term, got none")
        kinds = {term.kind for tensor in self.tensors for term in tensor.terms}
        form = "lowrank" if kinds == {"lowrank"} else "dense"
        if self.form != form:
            raise ValueError(
                f"form: expected {form!r} for terms {sorted(kinds)}, got {self.form!r}"
            )
        if len(set(self.parents)) != len(self.parents):
            raise ValueError("parents: expected each once")
        return self

    @model_validator(mode="after")
    def _records_are_whole(self) -> Self:
        _ = self.whole_base, self.refusals
        return self

    @property
    def whole_base(self) -> WholeBase | None:
        """The rest of the base's identity, None in an older file.

        Raises:
            ValueError: the record is malformed.
        """
        record = self.recipe.get(WHOLE_BASE_KEY)
        return None if record is None else WholeBase.model_validate(record)

    @property
    def refusals(self) -> Refusals | None:
        """What base, fine-tune and delta refuse, None if that was not measured.

        Raises:
            ValueError: the record is malformed.
        """
        record = self.recipe.get(REFUSALS_KEY)
        return None if record is None else Refusals.model_validate(record)

    @property
    def version(self) -> Version:
        """The oldest version of the format that can say this."""
        measured = self.quality is not None and any(
            getattr(self.quality, name) is not None for name in _MEASURED_IN_2
        )
        return "2" if self.privacy or self.parents or measured else "1"

    def content(self) -> dict[str, Any]:
        """Returns the header as the file has it."""
        fields = self.model_dump(mode="json")
        if self.version == "1":
            del fields["parents"]
        if self.quality is not None:
            fields["quality"] = self.quality.content()
        return fields


def check_version(header: DeltaHeader, version: Version) -> None:
    """Refuses a header that was read with fields of another version.

    Raises:
        ValueError: a field is missing, null or not of this version; identified.
    """
    stated = header.quality.model_fields_set if header.quality else set[str]()
    measured = [name for name in _MEASURED_IN_2 if name in stated]
    if version == "1":
        more = [f"quality.{name}" for name in measured]
        later = {"parents": "parents" in header.model_fields_set, "privacy": header.privacy}
        more += [name for name, value in later.items() if value]
        if more:
            raise ValueError(f"{more[0]}: expected none in version 1")
        return
    if "parents" not in header.model_fields_set:
        raise ValueError("parents: expected a list in version 2, got none")
    for name in measured:
        if getattr(header.quality, name) is None:
            raise ValueError(f"quality.{name}: expected a value or no field, got null")


def measured_header(
    header: DeltaHeader, quality: Quality, held_out: bool | None, rows_digest: str
) -> DeltaHeader:
    """Returns the header with its quality and, in its recipe, what is known of the rows.

    Args:
        header: the header.
        quality: the measurement.
        held_out: as in `QualityInput`.
        rows_digest: of the rows that were measured.
    """
    recipe = header.recipe | {ROWS_DIGEST_KEY: rows_digest}
    if header.data is not None and not held_out:
        recipe = recipe | {ROWS_KEY: "not known" if held_out is None else "learned"}
    return header.model_copy(update={"quality": quality, "recipe": recipe})


def was_held_out(header: DeltaHeader) -> bool | None:
    """Returns whether the measured rows were held out; None if that is not known."""
    if header.data is None or header.recipe.get(ROWS_KEY) == "not known":
        return None
    return ROWS_KEY not in header.recipe
