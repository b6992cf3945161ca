"""Measures what base, fine-tune and delta refuse; no rows are needed for it."""

from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.data.own_tokenizer import own_in
from zoo.gym.data.tokenizer import has_tokenizer
from zoo.gym.delta.file.reader import Delta
from zoo.gym.delta.file.refusals import Refusals
from zoo.gym.delta.loadable import Loadable, delta_model, dtype_of, tuned_model
from zoo.gym.refusals import PromptCounts, Unmeasured, measure, prompt_counts, prompts_digest

if TYPE_CHECKING:
    from zoo.backends.base import Backend


def measure_refusals(
    base: Path,
    tuned: Path | None,
    delta: Delta,
    backend: "Backend | None" = None,
    *,
    probes: bool = True,
) -> Refusals | Unmeasured:
    """Asks base, fine-tune and delta the same prompts, one model after the other.

    Prompts have the form in which each is used: fine-tune and delta by their own chat template.

    Args:
        base: the base's model folder.
        tuned: the fine-tune, or None.
        delta: the delta.
        backend: the engine; by default the best of this machine.
        probes: ask a base that refuses none of the first prompts no others.

    Raises:
        InputError: a model cannot be loaded.
        StorageError: the disk is too full for a rebuilt model.
    """
    if not has_tokenizer(base):
        return Unmeasured.UNREADABLE
    dtype, own = dtype_of(delta), own_in(delta.header.recipe)
    policy = Loadable(base, None).load(backend, dtype)
    of_base = measure(policy, base, is_base=True, probes=probes)
    del policy
    if isinstance(of_base, Unmeasured):
        return of_base
    with delta_model(delta, base) as rebuilt:
        of_delta = measure(rebuilt.load(backend, dtype), base, own)
    of_tuned: PromptCounts | Unmeasured | None = None
    if tuned is not None:
        with tuned_model(tuned, base) as original:
            of_tuned = measure(original.load(backend, dtype), base, own)
    if isinstance(of_delta, Unmeasured):
        return of_delta
    return Refusals(
        prompts=prompts_digest(),
        asked=prompt_counts(),
        base=of_base,
        tuned=None if isinstance(of_tuned, Unmeasured) else of_tuned,
        delta=of_delta,
    )
