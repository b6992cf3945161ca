"""Merges the settings of a run: default < YAML < command line, with the origin of each.

A later file wins over an earlier one; two values of one level for one setting are refused.

All errors of all sources are collected and reported together, each on its own line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from pydantic import ValidationError

from zoo.gym.config import foreign, report
from zoo.gym.config.conflicts import PAIRS
from zoo.gym.config.keys import distributed
from zoo.gym.config.keys.optimizer import optimizer_name
from zoo.gym.config.keys.quantization import meaning
from zoo.gym.config.keys.unread import ROWS_IN_MEMORY
from zoo.gym.config.rollouts import LIVE_REWARD, has_function
from zoo.gym.config.stages import (
    DEFAULT,
    METHODS,
    all_fields,
    config_class,
    place_of,
    stages_with,
)
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import are_rows, listed
from zoo.gym.errors import InputError
from zoo.gym.files.yaml_entries import parse_value, read_entries
from zoo.gym.wiring import wired


@dataclass(frozen=True)
class Given:
    """A value from the user.

    Attributes:
        key: our name of the setting, whatever the spelling.
        value: the value parsed as YAML, or a flag's text.
        label: its label in errors: `train.yaml:6: lr`, `lr=3`, `--lr`.
        origin: its label in `--print-config`: `train.yaml:6`, `key=value`, `flag`.
    """

    key: str
    value: object
    label: str
    origin: str


@dataclass(frozen=True)
class _Switch:
    """A published switch that is a value of a setting; off, it removes that of a weaker layer."""

    name: str
    value: str
    on: bool


@dataclass(frozen=True)
class Ignored:
    """A published key that was recognised and has no effect here."""

    key: str
    origin: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """A checked config, the origin of each key, and the keys that have no effect."""

    config: TrainConfig
    origins: dict[str, str]
    ignored: tuple[Ignored, ...]


def load_config(
    files: Sequence[Path], overrides: Sequence[str], flags: Mapping[str, object]
) -> Loaded:
    """Reads settings from files, and from `key=value` items and flags, which win over files.

    Args:
        files: YAML files; a later one wins over an earlier one.
        overrides: `key=value` items, their values read as YAML.
        flags: values of the flags that were given, by key.

    Raises:
        InputError: something is wrong, such as an item and a flag for one setting; the message
            has one line per error.
        NotAvailableError: a file is missing.
    """
    items = [_from_item(item) for item in overrides]
    named = [Given(key, value, f"--{key}", "flag") for key, value in flags.items()]
    return _load([*(_from_file(path) for path in files), [*items, *named]])


def load_values(values: Mapping[str, object]) -> Loaded:
    """Reads settings that Python code gives by name, in any published spelling.

    Args:
        values: the settings; `dataset` may contain rows, as in `TrainConfig`.

    Raises:
        InputError: something is wrong; the message has one line per error.
    """
    live: dict[str, object] = {}
    layer: list[Given] = []
    for key, value in values.items():
        given = listed(value) if ours(key) == "dataset" else value
        if ours(key) == "dataset" and are_rows(given):
            live["dataset"], given = given, (ROWS_IN_MEMORY,)
        elif ours(key) == "reward" and has_function(given):
            live["reward"], given = given, LIVE_REWARD
        layer.append(Given(key, given, key, "Python"))
    loaded = _load([layer])
    return replace(loaded, config=loaded.config.model_copy(update=live))


def ours(key: str) -> str:
    """Returns our name of a setting."""
    return foreign.ALIASES.get(key, key)


def _load(layers: Sequence[list[Given]]) -> Loaded:
    """Merges the layers, later ones winning."""
    faults: dict[str, str] = {}
    ignored: list[Ignored] = []
    merged: dict[str, Given] = {}
    context = _context_of(layers)
    for layer in _with_round(layers):
        known = _sort_out(layer, context, faults, ignored)
        faults |= _given_twice(known)
        _drop_overruled(merged, known)
        ignored += _switch_off(merged, known)
        merged |= {given.key: _over(merged.get(given.key), given) for given in _values(known)}
    _use_stage_of_loss(merged)
    hints: list[str] = []
    config = _check(merged, faults, hints)
    if config is None or faults:
        order = [given.label for layer in layers for given in layer]
        raise _as_error(faults, order, hints)
    ignored += [Ignored(key, merged[key].origin, why) for key, why in config.idle_settings()]
    origins = {
        key: merged[key].origin if key in merged else "default" for key in type(config).model_fields
    }
    return Loaded(config, origins, tuple(ignored))


def _over(weaker: Given | None, given: Given) -> Given:
    """Returns a value whose origin also names what it wins over."""
    if weaker is None or weaker.value == given.value:
        return given
    lost = f"{report.shown(weaker.value)} of {weaker.origin}"
    return replace(given, origin=f"{given.origin}, over {lost}")


def dump_config(config: TrainConfig) -> str:
    """Returns the YAML that `load_config` reads back as an equal config."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def extend_config(config: TrainConfig, values: Mapping[str, object]) -> TrainConfig:
    """Returns the config with additional values, checked against the existing ones.

    Raises:
        InputError: a value contradicts a setting; the message has one line for each.
    """
    faults: dict[str, str] = {}
    own = config.model_dump(exclude_unset=True) | {"stage": config.stage}
    settings = {**own, **values}
    given = {key: Given(key, value, key, "chosen") for key, value in settings.items()}
    hints: list[str] = []
    extended = _check(given, faults, hints)
    if extended is None:
        raise _as_error(faults, list(given), hints)
    return extended.with_values_of(config)


def _from_file(path: Path) -> list[Given]:
    return [
        Given(entry.key, entry.value, f"{path}:{entry.line}: {entry.key}", f"{path}:{entry.line}")
        for entry in read_entries(path)
    ]


def _from_item(item: str) -> Given:
    key, _, text = item.partition("=")
    return Given(key.strip(), parse_value(text), item, "key=value")


def _sort_out(
    layer: Iterable[Given], context: "_Context", faults: dict[str, str], ignored: list[Ignored]
) -> list[Given]:
    """Returns the settings of a layer under our names; separates ignored and wrong ones."""
    settings: list[Given] = []
    for given in layer:
        try:
            rewritten = _rewritten(given, context)
        except InputError as error:
            faults[given.label] = error.message
            continue
        for part in rewritten:
            if isinstance(part, Ignored):
                ignored.append(part)
            else:
                settings += _ours(part, faults, ignored)
    return _without_plain_optimizer(settings, ignored)


def _ours(given: Given, faults: dict[str, str], ignored: list[Ignored]) -> Iterator[Given]:
    """Yields a setting under our name; nothing for one that is wrong or has no effect."""
    key, value = ours(given.key), given.value
    is_ours = key in all_fields()
    text = foreign.MISSING_VALUES.get((key, value)) if isinstance(value, str) else None
    if not is_ours:
        text = text or foreign.refusal(key, value)
    idle = foreign.without_effect(key, value)
    if text and foreign.switched_off(value):
        ignored.append(Ignored(key, given.origin, "switched off"))
    elif text:
        faults[given.label] = text
    elif idle is not None:
        ignored.append(Ignored(key, given.origin, idle))
    elif key in foreign.VALUES_OF_SWITCHES:
        if not foreign.switched_off(value) and value is not True:
            faults[given.label] = f"expected true or false, got {report.shown(value)}"
            return
        setting, meant = foreign.VALUES_OF_SWITCHES[key]
        yield replace(given, key=setting, value=_Switch(key, meant, on=value is True))
    elif is_ours:
        yield replace(given, key=key)
    else:
        faults[given.label] = report.unknown("setting", key, all_fields())


@dataclass(frozen=True)
class _Context:
    """What the meaning of a published key may depend on.

    Attributes:
        keys: the names of all settings that are given.
        stage: the method that is given; None for the default one.
    """

    keys: frozenset[str]
    stage: object


def _context_of(layers: Sequence[list[Given]]) -> _Context:
    settings = [given for layer in layers for given in layer]
    stages = [given.value for given in settings if ours(given.key) == "stage"]
    return _Context(frozenset(given.key for given in settings), stages[-1] if stages else None)


def _divided(given: Given, _: _Context) -> list[Given | Ignored]:
    """Returns the settings that a published `distributed` stands for."""
    if foreign.switched_off(given.value):
        return [Ignored(distributed.KEY, given.origin, "switched off")]
    parts: list[Given | Ignored] = [
        replace(given, key=key, value=value)
        for key, value in distributed.meaning(given.value).items()
    ]
    if isinstance(given.value, Mapping) and "backend" in given.value:
        reason = distributed.WHY_NO_BACKEND
        parts.append(Ignored("distributed: backend", given.origin, reason))
    return parts


def _thinking(given: Given, _: _Context) -> list[Given | Ignored]:
    """Returns our setting for a published switch of thinking, which means something off as well."""
    think = foreign.THINK.get(str(given.value).lower())
    if think is None:
        got = report.shown(given.value)
        raise InputError(f"expected true or false, or think template, keep or drop, got {got}")
    return [replace(given, key="think", value=think)]


def _length(given: Given, context: _Context) -> list[Given | Ignored]:
    """Returns LLaMA-Factory's length of sampled answers under our name, where answers are."""
    samples = context.stage is not None and (
        "max_completion_length" in config_class(context.stage).model_fields
    )
    return [replace(given, key="max_completion_length") if samples else given]


def _quantization(given: Given, context: _Context) -> list[Given | Ignored]:
    """Returns the settings that published values of a quantised base stand for."""
    settings = meaning(given.key, given.value, bits_given="quantization_bit" in context.keys)
    if settings is None:
        return [given]
    return [replace(given, key=key, value=value) for key, value in settings.items()]


REWRITES: Mapping[str, Callable[[Given, _Context], list[Given | Ignored]]] = {
    distributed.KEY: _divided,
    foreign.THINKING: _thinking,
    "max_new_tokens": _length,
    "finetuning_type": _quantization,
    "quantization": _quantization,
}
"""Published keys with values that stand for other settings of ours, or for several."""


def _rewritten(given: Given, context: _Context) -> list[Given | Ignored]:
    rewrite = REWRITES.get(given.key)
    return [given] if rewrite is None else rewrite(given, context)


def _with_round(layers: Sequence[list[Given]]) -> Sequence[list[Given]]:
    """Returns the layers with the settings of a private round below them, in place of its name.

    Raises:
        InputError: another value was given for one of them, a round twice, or it is no private
            one.
        NotAvailableError: there is no such round.
    """
    named = [one for layer in layers for one in layer if one.key == "round"]
    if not named:
        return layers
    for layer in layers:
        twice = [one.label for one in layer if one.key == "round"]
        if len(twice) > 1:
            raise InputError(f"{twice[1]}: already given as '{twice[0]}'")
    last = named[-1]
    found = wired("settings of a round")(str(last.value))
    others = [[one for one in layer if one.key != "round"] for layer in layers]
    for one in (one for layer in others for one in layer):
        key = ours(one.key)
        if key in found and key != "model_name_or_path" and not _alike(one.value, found[key]):
            raise InputError(
                f"{one.label}: expected {found[key]}, as the round has it, got {one.value}",
                hint="leave it out",
            )
    return [[Given(key, value, last.label, "round") for key, value in found.items()], *others]


def _alike(given: object, found: object) -> bool:
    """Says whether two values are the same as text, names in any order."""
    first, second = ({part.strip() for part in str(value).split(",")} for value in (given, found))
    return first == second


def _drop_overruled(merged: dict[str, Given], layer: Iterable[Given]) -> None:
    """Removes settings that a stronger layer overrides under another key."""
    given = {one.key: one.value for one in layer if one.value is not None}
    for winner, loser in PAIRS:
        if loser in given and winner not in given:
            merged.pop(winner, None)


def _switch_off(merged: dict[str, Given], layer: Iterable[Given]) -> list[Ignored]:
    """Removes what weaker layers switched on and this one off; returns idle switches."""
    idle: list[Ignored] = []
    for one in layer:
        if isinstance(one.value, _Switch) and not one.value.on:
            if one.key in merged and merged[one.key].value == one.value.value:
                del merged[one.key]
            else:
                idle.append(Ignored(one.value.name, one.origin, "switched off"))
    return idle


def _values(layer: Iterable[Given]) -> list[Given]:
    """Returns the settings of a layer with the values that switches mean."""
    return [
        replace(one, value=one.value.value) if isinstance(one.value, _Switch) else one
        for one in layer
        if not isinstance(one.value, _Switch) or one.value.on
    ]


def _without_plain_optimizer(layer: list[Given], ignored: list[Ignored]) -> list[Given]:
    """Removes LLaMA-Factory's `optim: adamw_torch` beside a switch that chooses the optimizer.

    There it is what computes the steps of the other one, as it is here.
    """
    switches = [
        one.value.name
        for one in layer
        if one.key == "optim" and isinstance(one.value, _Switch) and one.value.on
    ]
    kept: list[Given] = []
    for one in layer:
        if switches and one.key == "optim" and optimizer_name(one.value) == "adamw":
            ignored.append(Ignored("optim", one.origin, f"{switches[0]} chooses the optimizer"))
        else:
            kept.append(one)
    return kept


def _use_stage_of_loss(merged: dict[str, Given]) -> None:
    """Turns a loss of LLaMA-Factory's stage dpo that is a method here into that method."""
    loss, stage = merged.get("pref_loss"), merged.get("stage")
    if loss is None or stage is None or stage.value != "dpo" or not isinstance(loss.value, str):
        return
    if loss.value in foreign.STAGE_OF_LOSS:
        merged["stage"] = replace(loss, key="stage", value=foreign.STAGE_OF_LOSS[loss.value])
        del merged["pref_loss"]


def _given_twice(layer: Iterable[Given]) -> dict[str, str]:
    first: dict[str, str] = {}
    return {
        given.label: f"already given as '{first[given.key]}'"
        for given in _values(layer)
        if first.setdefault(given.key, given.label) != given.label
    }


def _check(
    merged: Mapping[str, Given], faults: dict[str, str], hints: list[str]
) -> TrainConfig | None:
    """Returns the config, or None after adding what was found to the faults and the hints."""
    values = {key: given.value for key, given in merged.items()}
    stage = values.get("stage", DEFAULT)
    if not isinstance(stage, str) or place_of(stage) is None:
        near = report.nearest(stage, METHODS) if isinstance(stage, str) else None
        meant = f". Did you mean '{near}'?" if near else ""
        got = f"{', '.join(METHODS)}, got {report.shown(stage)}{meant}"
        faults[merged["stage"].label] = f"expected {got}"
        stage = values["stage"] = DEFAULT
    model = config_class(stage)
    for key in [key for key in values if key not in model.model_fields]:
        others = " or ".join(stages_with(key))
        faults[merged[key].label] = f"has no effect with stage {stage}: expected stage {others}"
        del values[key]
    try:
        return model.from_text(values)
    except ValidationError as error:
        for key, text in report.sentences(error, model):
            faults[merged[key].label if key in merged else key] = text
        hints += filter(None, [report.hint_of(error)])
        return None


def _as_error(faults: Mapping[str, str], order: Sequence[str], hints: Sequence[str]) -> InputError:
    """Returns one error with one line per fault, in the order of the files."""
    place = {label: index for index, label in enumerate(order)}
    labels = sorted(faults, key=lambda label: place.get(label, len(place)))
    hint = next(iter(hints), None)
    if faults.get("model_name_or_path") == report.NOT_GIVEN:
        hint = "specify a base model: --model smollm2, or zen-nano"
    elif faults.get("dataset") == report.NOT_GIVEN:
        hint = "give a file of examples: zoo-gym train my.jsonl"
    return InputError("\n".join(f"{label}: {faults[label]}" for label in labels), hint=hint)
