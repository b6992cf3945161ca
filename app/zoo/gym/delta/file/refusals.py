"""The record of what base, fine-tune and delta refuse, in a delta's recipe."""

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from zoo.gym.delta.file.terms import Model
from zoo.gym.refusals import PromptCounts, wilson

REFUSALS_KEY = "refusals"
"""A recipe key: refusals of base, fine-tune and delta. Readers of before it accept any recipe."""

KINDS = ("harmful", "harmless")


class Refusals(Model):
    """How many prompts are refused, of which; `tuned` is None without a fine-tune."""

    prompts: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="digest of the prompts"
    )
    asked: PromptCounts = Field(description="prompts of each kind")
    base: PromptCounts = Field(description="refused by the base")
    tuned: PromptCounts | None = Field(description="by the fine-tune")
    delta: PromptCounts = Field(description="by base plus delta")

    @model_validator(mode="after")
    def _counts_fit(self) -> Self:
        for kind in KINDS:
            most = getattr(self.asked, kind)
            if most < 1 or any(getattr(counts, kind) > most for counts in self.models().values()):
                raise ValueError(f"refusals: {kind}: expected at least 1, and no more refused")
        return self

    def models(self) -> dict[str, PromptCounts]:
        """Returns the counts of each model that was measured, by its name."""
        counts = {"base": self.base, "tuned": self.tuned, "delta": self.delta}
        return {name: refused for name, refused in counts.items() if refused is not None}

    def as_json(self) -> dict[str, Any]:
        """Returns counts, shares and their 95 % intervals, for programs."""
        return {"prompts": self.prompts} | {
            name: {kind: self._share(refused, kind) for kind in KINDS}
            for name, refused in self.models().items()
        }

    def _share(self, refused: PromptCounts, kind: str) -> dict[str, Any]:
        count, of = getattr(refused, kind), getattr(self.asked, kind)
        return {"refused": count, "of": of, "share": count / of, "interval": wilson(count, of)}

    def sentences(self) -> Iterator[str]:
        """Yields a sentence for each kind of prompts."""
        for kind in KINDS:
            of = getattr(self.asked, kind)
            counts = ((name, getattr(each, kind)) for name, each in self.models().items())
            words = (f"{name} {count} ({_percent(count, of)})" for name, count in counts)
            yield f"of {of} {kind} prompts refused: {', '.join(words)}"


def _percent(count: int, of: int) -> str:
    """Returns a share with its 95 % interval.

    >>> _percent(57, 60)
    '95%, 86 to 98%'
    """
    low, high = wilson(count, of)
    return f"{count / of:.0%}, {100 * low:.0f} to {high:.0%}"
