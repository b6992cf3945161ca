"""Measures what base, fine-tune and delta refuse; no rows are needed for it."""

from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.data.own_tokenizer import own_in
from zoo.gym.delta.file.reader import Delta
from zoo.gym.delta.file.refusals import Refusals
from zoo.gym.delta.loadable import Loadable, Role, delta_model, dtype_of, tuned_model
from zoo.gym.refusals import PromptCounts, Unmeasured, measure, prompt_counts, prompts_digest

if TYPE_CHECKING:
    from zoo.backends.base import Backend, Policy


class RefusalCounter:
    """Asks base, delta and fine-tune the same prompts while they are loaded, the base first.

    Prompts have the form in which each is used: fine-tune and delta by their own chat template.

    Args:
        base: the base's model folder.
        delta: the delta.
        probes: ask a base that refuses none of the first prompts no others.
    """

    def __init__(self, base: Path, delta: Delta, *, probes: bool) -> None:
        self._base, self._own, self._probes = base, own_in(delta.header.recipe), probes
        self._counts: dict[Role, PromptCounts | Unmeasured] = {}

    @property
    def measurable(self) -> bool:
        """Whether the base, which was visited, refuses something."""
        return isinstance(self._counts["base"], PromptCounts)

    def visit(self, role: Role, policy: "Policy") -> None:
        """Asks a model, if the base could be asked."""
        if role == "base":
            self._counts[role] = measure(policy, self._base, is_base=True, probes=self._probes)
        elif self.measurable:
            self._counts[role] = measure(policy, self._base, self._own)

    def result(self) -> Refusals | Unmeasured:
        """Returns the counts of the models that were visited, or why there are none."""
        base, tuned = self._counts["base"], self._counts.get("tuned")
        delta = self._counts.get("delta", Unmeasured.UNREADABLE)
        if isinstance(base, Unmeasured):
            return base
        if isinstance(delta, Unmeasured):
            return delta
        return Refusals(
            prompts=prompts_digest(),
            asked=prompt_counts(),
            base=base,
            tuned=tuned if isinstance(tuned, PromptCounts) else None,
            delta=delta,
        )


def measure_refusals(
    base: Path,
    tuned: Path | None,
    delta: Delta,
    backend: "Backend | None" = None,
    *,
    probes: bool = True,
) -> Refusals | Unmeasured:
    """Loads base, delta and fine-tune, one after the other, and asks them.

    Args:
        base: the base's model folder.
        tuned: the fine-tune, or None.
        delta: the delta.
        backend: the engine; by default the best of this machine.
        probes: see `RefusalCounter`.

    Raises:
        InputError: a model cannot be loaded.
        StorageError: the disk is too full for a rebuilt model.
    """
    counter, dtype = RefusalCounter(base, delta, probes=probes), dtype_of(delta)
    counter.visit("base", Loadable(base, None).load(backend, dtype))
    if not counter.measurable:
        return counter.result()
    with delta_model(delta, base) as rebuilt:
        counter.visit("delta", rebuilt.load(backend, dtype))
    if tuned is not None:
        with tuned_model(tuned, base) as original:
            counter.visit("tuned", original.load(backend, dtype))
    return counter.result()
