"""Puts a recommendation together: method, recipe, settings, memory, notes, and the command."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.gym.engine import open_engine
from zoo.gym.errors import DoesNotFitError, NotAvailableError
from zoo.gym.humanize import human_bytes
from zoo.gym.recommend.memory import SMALLER_MODEL, Fit, fit_of_run, fit_of_shape, fitted
from zoo.gym.recommend.method import Chosen, choose
from zoo.gym.recommend.rows import read_file
from zoo.gym.recommend.rules import EXPERIENCE, Rule, Use, rules_of
from zoo.gym.recommend.settings import MODEL, command, config_of, recipe_of
from zoo.models import PICO, registry, resolve

if TYPE_CHECKING:
    from zoo.gym.train.plan import Choice
    from zoo.models import Entry, Resolved

MOST_BYTES = 32_000_000
"""Larger data is not read whole: memory is then estimated from the model's shape."""


@dataclass(frozen=True)
class Setting:
    """A setting that differs from its default, and why."""

    key: str
    value: object
    reason: str


@dataclass(frozen=True)
class Advice:
    """A recommendation.

    Attributes:
        want: what the user wants, given or likely from the rows.
        uses: the rows that are learned, by what they are.
        method: a stage, or `experience`; `rule` is the name of the rule, `reason` its sentence.
        recipe: the file of settings; None for lessons in text.
        rows: the number of rows that are learned.
        tokens: of these rows; None if the model's tokenizer is not on this machine.
        settings: those that differ from the defaults.
        choices: what the run would choose itself; empty where the data is not read whole.
        memory: what it needs; None where that is not estimated.
        notes: what else to know, in sentences.
        command: the words of what to run.
    """

    want: str
    uses: Mapping[Use, int]
    method: str
    rule: str
    reason: str
    recipe: str | None
    model: str
    rows: int
    tokens: int | None
    settings: tuple[Setting, ...]
    choices: "tuple[Choice, ...]"
    memory: Fit | None
    notes: tuple[str, ...]
    command: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Returns it as the JSON object of the command."""
        fields: dict[str, object] = asdict(replace(self, memory=None))
        fields["command"] = shlex.join(self.command)
        if self.memory is not None:
            keys = ("needs_bytes", "free_bytes", "device", "source", "fits")
            fields["memory"] = {key: getattr(self.memory, key) for key in keys}
        return fields


def advise(
    paths: Sequence[Path],
    model: str = MODEL,
    want: str | None = None,
    free_bytes: int | None = None,
) -> Advice:
    """Returns the way to train on files; stays offline.

    Args:
        paths: files of examples.
        model: the base.
        want: what to train for; None for what such rows are usually made for.
        free_bytes: the free memory to fit into; None for that of this machine.

    Raises:
        NotAvailableError: a file is missing, or the model is neither listed nor on this machine.
        InputError: no method for that aim learns from such rows.
        DoesNotFitError: neither the model nor a smaller one of the list fits.
    """
    base = _base(model)
    chosen = choose([read_file(path) for path in paths], want, base)
    if chosen.rule.method == EXPERIENCE:
        return _advice(chosen, model, None)
    fit = _fit(chosen, model, base, free_bytes)
    if fit is None or fit.fits:
        return _advice(chosen, model, fit)
    smaller = next(_smaller(chosen, model, free_bytes), None)
    if smaller is not None:
        return _advice(chosen, *smaller, instead_of=model)
    raise DoesNotFitError(
        f"{chosen.rule.method} of {model} does not fit into memory: expected at most "
        f"{human_bytes(fit.free_bytes)} on {fit.device}, got {human_bytes(fit.needs_bytes or 0)}",
        hint="close other programs; zoo-gym doctor compares the memory of other ways to train",
        code="recommend.does_not_fit",
    )


def _base(model: str) -> "Resolved | None":
    """Returns the model if it is on this machine; None for a listed one that is not."""
    try:
        return resolve(model, offline=True)
    except NotAvailableError:
        if _entry(model) is None:
            raise
        return None


def _entry(model: str) -> "Entry | None":
    """Returns a listed model by any of its names."""
    entries = registry()
    return next((e for e in entries if model in (e.alias, e.hub_id, *e.published)), None)


def _fit(chosen: Chosen, model: str, base: "Resolved | None", free_bytes: int | None) -> Fit | None:
    """Returns what the run needs with the rules on memory; None where that is not known."""
    is_large = sum(path.stat().st_size for path in chosen.files) > MOST_BYTES
    entry = _entry(model)
    if base is None or is_large:
        return fit_of_shape(chosen.case, entry.geometry, free_bytes) if entry else None
    own = {setting.key: setting.value for setting in _settings(chosen, None)}

    def estimate(more: Mapping[str, object]) -> Fit:
        config = config_of(chosen.rule, model, chosen.files, own | dict(more))
        return fit_of_run(config, base, free_bytes)

    return fitted(replace(chosen.case, device=open_engine().name), estimate)


def _smaller(chosen: Chosen, model: str, free_bytes: int | None) -> "Iterator[tuple[str, Fit]]":
    """Yields the smaller listed models that fit, the largest first."""
    entry = _entry(model)
    most = entry.parameters if entry is not None else float("inf")
    for other in reversed(registry()):
        if other.alias == PICO or other.parameters >= most:
            continue
        fit = _fit(chosen, other.alias, _base(other.alias), free_bytes)
        if fit is not None and fit.fits:
            yield other.alias, fit


def _advice(chosen: Chosen, model: str, fit: Fit | None, instead_of: str | None = None) -> Advice:
    rule, case = chosen.rule, chosen.case
    settings = _settings(chosen, fit)
    values = {setting.key: setting.value for setting in settings}
    notes = [each for each in rules_of("note") if each.applies(case)]
    swapped = [each for each in rules_of("memory") if each.name == SMALLER_MODEL and instead_of]
    reasons = (_reason(each, chosen, instead_of) for each in (*swapped, *notes))
    return Advice(
        want=case.want,
        uses=case.uses,
        method=rule.method,
        rule=rule.name,
        reason=rule.reason,
        recipe=None if rule.method == EXPERIENCE else recipe_of(rule, model).name,
        model=model,
        rows=case.rows,
        tokens=chosen.tokens,
        settings=settings,
        choices=() if fit is None else fit.choices,
        memory=fit,
        notes=(*chosen.notes, *reasons),
        command=command(rule, model, chosen.files, values),
    )


def _settings(chosen: Chosen, fit: Fit | None) -> tuple[Setting, ...]:
    """Returns what the rules set, a later one in place of an earlier one."""
    case = chosen.case
    needed = [rule for rule in rules_of("setting") if rule.applies(case)]
    rules = (chosen.rule, *needed, *(() if fit is None else fit.rules))
    settings = {
        key: Setting(key, value, _reason(rule, chosen, None))
        for rule in rules
        for key, value in rule.settings(case).items()
        if value is not None
    }
    return tuple(settings.values())


def _reason(rule: Rule, chosen: Chosen, instead_of: str | None) -> str:
    return rule.reason.format_map(asdict(chosen.case) | {"model": instead_of})
