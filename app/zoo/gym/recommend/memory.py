"""Which of the rules on memory a run needs, by the estimate that decides whether it would start.

Without the model's files the estimate is that of its shape, as in `zoo-gym doctor`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zoo.gym.engine import open_engine
from zoo.gym.errors import DoesNotFitError, InputError, NotAvailableError
from zoo.gym.recommend.rules import Case, Rule, rules_of
from zoo.gym.train.plan import Choice
from zoo.gym.train.planning.memory import check_fit
from zoo.gym.train.planning.shape import need_for

if TYPE_CHECKING:
    from zoo.gym.config.train import TrainConfig
    from zoo.models import Geometry, Resolved

SMALLER_MODEL = "smaller_model"
"""The last rule, which this module leaves to its caller."""

_OF_SHAPE = frozenset({"quantization_bit", "stream_layers"})
"""Settings that the estimate of a shape follows."""


@dataclass(frozen=True)
class Fit:
    """What a run needs on this machine.

    Attributes:
        needs_bytes: the expected peak; None for a model of unknown shape.
        free_bytes: the memory that is free on the device.
        device: `cuda`, `mlx`, `mps` or `cpu`.
        source: `formula`, `measured` by an earlier run, or `shape`: for 2,048 tokens at a time.
        fits: whether it would start.
        rules: the rules that make it fit, in their order.
        settings: what they set.
        choices: what the run would choose itself; empty without the model's files.
    """

    needs_bytes: int | None
    free_bytes: int
    device: str
    source: str
    fits: bool
    rules: tuple[Rule, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    choices: tuple[Choice, ...] = ()


Estimate = Callable[[Mapping[str, object]], Fit]
"""Returns what a run with these settings more needs."""


def fitted(case: Case, estimate: Estimate, keys: frozenset[str] | None = None) -> Fit:
    """Returns the run with the fewest rules on memory that make it fit; the last one if none do.

    A rule that the model, the engine or the other settings refuse is skipped.

    Args:
        case: the run.
        estimate: what it needs.
        keys: the settings that the estimate follows; None for all.
    """
    fit = estimate({})
    rules, settings = tuple[Rule, ...](), dict[str, object]()
    for rule in () if fit.fits else _possible(case, keys):
        more = {k: v for k, v in (settings | rule.settings(case)).items() if v is not None}
        dropped = tuple(each for each in rules if each.settings(case).keys() <= more.keys())
        try:
            fit = estimate(more)
        except (InputError, NotAvailableError):
            continue
        rules, settings = (*dropped, rule), more
        if fit.fits:
            break
    return replace(fit, rules=rules, settings=settings)


def _possible(case: Case, keys: frozenset[str] | None) -> Iterator[Rule]:
    for rule in rules_of("memory"):
        is_followed = keys is None or rule.settings(case).keys() <= keys
        if rule.name != SMALLER_MODEL and rule.applies(case) and is_followed:
            yield rule


def fit_of_run(config: "TrainConfig", base: "Resolved", free_bytes: int | None) -> Fit:
    """Returns what a run needs, from its settings, rows and model.

    Args:
        free_bytes: the free memory to fit into; None for that of this machine.

    Raises:
        GymError: the run would be refused for another reason than its memory.
    """
    from zoo.gym.train.preview import preview

    seen = preview(config, base)
    free = seen.free_bytes if free_bytes is None else free_bytes
    if seen.memory is None:
        return Fit(None, free, seen.device, "unknown", fits=True, choices=seen.plan.choices)
    try:
        check_fit(seen.memory, seen.device, free, seen.processes)
    except DoesNotFitError:
        fits = False
    else:
        fits = True
    needs = seen.memory.total * seen.processes
    return Fit(needs, free, seen.device, seen.memory.source, fits, choices=seen.plan.choices)


def fit_of_shape(case: Case, geometry: "Geometry", free_bytes: int | None) -> Fit:
    """Returns what 2,048 tokens at a time need of a model that is not on this machine."""
    engine = open_engine()
    free = engine.free_bytes() if free_bytes is None else free_bytes

    def estimate(settings: Mapping[str, object]) -> Fit:
        memory = engine.estimate_memory(need_for(geometry, settings))
        try:
            check_fit(memory, engine.name, free)
        except DoesNotFitError:
            return Fit(memory.total, free, engine.name, "shape", fits=False)
        return Fit(memory.total, free, engine.name, "shape", fits=True)

    return fitted(replace(case, device=engine.name), estimate, _OF_SHAPE)
