"""Merges the settings of a run: default < YAML < command line, with the origin of each.

A later file wins over an earlier one; two values of one level for one setting are refused.

All errors of all sources are collected and reported together, each on its own line.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from pydantic import ValidationError

from zoo.gym.config import foreign, report
from zoo.gym.config.conflicts import PAIRS
from zoo.gym.config.keys import distributed
from zoo.gym.config.keys.optimizer import optimizer_name
from zoo.gym.config.keys.quantization import CONTRIBUTING, WHY_NOT_CONTRIBUTING, meaning
from zoo.gym.config.keys.unread import ROWS_IN_MEMORY
from zoo.gym.config.report import nearest
from zoo.gym.config.rollouts import LIVE_REWARD, has_function
from zoo.gym.config.stages import DEFAULT, METHODS, all_fields, config_class, place_of, stages_with
from zoo.gym.config.train import TrainConfig
from zoo.gym.config.values import are_rows, listed
from zoo.gym.errors import InputError
from zoo.gym.files.yaml_entries import parse_value, read_entries
from zoo.gym.paths import HOME_VARIABLE
from zoo.gym.wiring import wired


@dataclass(frozen=True)
class Setting:
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
    items = [_from_item(override) for override in overrides]
    named = [Setting(key, value, f"--{key}", "flag") for key, value in flags.items()]
    loaded = _load([*(_from_file(path) for path in files), [*items, *named]])
    idle = (Ignored(name, "environment", reason) for name, reason in idle_variables())
    return replace(loaded, ignored=(*loaded.ignored, *idle))


def load_values(values: Mapping[str, object]) -> Loaded:
    """Reads settings that Python code gives by name, in any published spelling.

    Args:
        values: the settings; `dataset` may contain rows, as in `TrainConfig`.

    Raises:
        InputError: something is wrong; the message has one line per error.
    """
    live: dict[str, object] = {}
    layer: list[Setting] = []
    for key, value in values.items():
        stated = listed(value) if ours(key) == "dataset" else value
        if ours(key) == "dataset" and are_rows(stated):
            live["dataset"], stated = stated, (ROWS_IN_MEMORY,)
        elif ours(key) == "reward" and has_function(stated):
            live["reward"], stated = stated, LIVE_REWARD
        layer.append(Setting(key, stated, key, "Python"))
    loaded = _load([layer])
    return replace(loaded, config=loaded.config.model_copy(update=live))


def ours(key: str) -> str:
    """Returns our name of a setting."""
    return foreign.ALIASES.get(key, key)


def _load(layers: Sequence[list[Setting]]) -> Loaded:
    """Merges the layers, later ones winning."""
    faults: dict[str, str] = {}
    ignored: list[Ignored] = []
    merged: dict[str, Setting] = {}
    context = _context_of(layers)
    for layer in _with_round([_rewritten(layer, context, faults, ignored) for layer in layers]):
        settings = _sort_out(layer, faults, ignored)
        faults |= _given_twice(settings)
        # a stronger layer overrides a setting under its other key too
        values = {setting.key: setting.value for setting in settings if setting.value is not None}
        for winner, loser in PAIRS:
            if loser in values and winner not in values:
                merged.pop(winner, None)
        ignored += _switch_off(merged, settings)
        merged |= {
            setting.key: _over(merged.get(setting.key), setting) for setting in _values(settings)
        }
    _use_stage_of_loss(merged)
    hints: list[str] = []
    config = _check(merged, faults, hints)
    if config is None or faults:
        order = [setting.label for layer in layers for setting in layer]
        raise _as_error(faults, order, hints)
    ignored += [Ignored(key, merged[key].origin, why) for key, why in config.idle_settings()]
    origins = {
        key: merged[key].origin if key in merged else "default" for key in type(config).model_fields
    }
    return Loaded(config, origins, tuple(ignored))


def _over(weaker: Setting | None, setting: Setting) -> Setting:
    """Returns a value whose origin also names what it wins over."""
    if weaker is None or weaker.value == setting.value:
        return setting
    lost = f"{report.shown(weaker.value)} of {weaker.origin}"
    return replace(setting, origin=f"{setting.origin}, over {lost}")


def dump_config(config: TrainConfig) -> str:
    """Returns the YAML that `load_config` reads back as an equal config."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def extend_config(config: TrainConfig, values: Mapping[str, object]) -> TrainConfig:
    """Returns the config with additional values, checked against the existing ones.

    Raises:
        InputError: a value contradicts a setting; the message has one line for each.
    """
    faults: dict[str, str] = {}
    stated = config.model_dump(exclude_unset=True) | {"stage": config.stage}
    settings = {**stated, **values}
    merged = {key: Setting(key, value, key, "chosen") for key, value in settings.items()}
    hints: list[str] = []
    extended = _check(merged, faults, hints)
    if extended is None:
        raise _as_error(faults, list(merged), hints)
    return extended.with_values_of(config)


def _from_file(path: Path) -> list[Setting]:
    return [
        Setting(entry.key, entry.value, f"{path}:{entry.line}: {entry.key}", f"{path}:{entry.line}")
        for entry in read_entries(path)
    ]


def _from_item(words: str) -> Setting:
    key, _, text = words.partition("=")
    return Setting(key.strip(), parse_value(text), words, "key=value")


def _sort_out(
    layer: Iterable[Setting], faults: dict[str, str], ignored: list[Ignored]
) -> list[Setting]:
    """Returns the settings of a layer under our names; separates ignored and wrong ones."""
    settings = [ours for setting in layer for ours in _ours(setting, faults, ignored)]
    return _without_plain_optimizer(settings, ignored)


def _ours(given: Setting, faults: dict[str, str], ignored: list[Ignored]) -> Iterator[Setting]:
    """Yields a setting under our name; nothing for one that is wrong or has no effect."""
    key, value = ours(given.key), given.value
    is_ours = key in all_fields()
    text = foreign.MISSING_VALUES.get((key, value)) if isinstance(value, str) else None
    if not is_ours:
        text = text or foreign.refusal(key)
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


def _context_of(layers: Sequence[list[Setting]]) -> _Context:
    settings = [setting for layer in layers for setting in layer]
    stages = [setting.value for setting in settings if ours(setting.key) == "stage"]
    return _Context(frozenset(setting.key for setting in settings), stages[-1] if stages else None)


def _divided(setting: Setting, _: _Context) -> list[Setting | Ignored]:
    """Returns the settings that a published `distributed` stands for."""
    if foreign.switched_off(setting.value):
        return [Ignored(distributed.KEY, setting.origin, "switched off")]
    parts: list[Setting | Ignored] = [
        replace(setting, key=key, value=value)
        for key, value in distributed.meaning(setting.value).items()
    ]
    if isinstance(setting.value, Mapping) and "backend" in setting.value:
        reason = distributed.WHY_NO_BACKEND
        parts.append(Ignored("distributed: backend", setting.origin, reason))
    return parts


def _thinking(setting: Setting, _: _Context) -> list[Setting | Ignored]:
    """Returns our setting for a published switch of thinking, which means something off as well."""
    think = foreign.THINK.get(str(setting.value).lower())
    if think is None:
        got = report.shown(setting.value)
        raise InputError(
            f"expected true or false, or think template, keep or drop, got {got}",
            code="config.bad_value",
        )
    return [replace(setting, key="think", value=think)]


def _length(setting: Setting, context: _Context) -> list[Setting | Ignored]:
    """Returns LLaMA-Factory's length of answers under our name, if the stage samples answers."""
    samples = context.stage is not None and (
        "max_completion_length" in config_class(context.stage).model_fields
    )
    return [replace(setting, key="max_completion_length") if samples else setting]


def _quantization(setting: Setting, context: _Context) -> list[Setting | Ignored]:
    """Returns our settings for a published one that quantises the base, or the adapter."""
    settings = meaning(setting.key, setting.value, bits_given="quantization_bit" in context.keys)
    if settings is None:
        return [setting]
    parts: list[Setting | Ignored] = [
        replace(setting, key=key, value=value) for key, value in settings.items()
    ]
    if isinstance(setting.value, Mapping) and setting.value.get(CONTRIBUTING):
        reason = WHY_NOT_CONTRIBUTING
        parts.append(Ignored(f"quantization: {CONTRIBUTING}", setting.origin, reason))
    return parts


REWRITES: Mapping[str, Callable[[Setting, _Context], list[Setting | Ignored]]] = {
    distributed.KEY: _divided,
    foreign.THINKING: _thinking,
    "max_new_tokens": _length,
    "finetuning_type": _quantization,
    "quantization": _quantization,
}
"""Published keys whose values mean other settings of ours, or several."""


def _rewritten(
    layer: Iterable[Setting], context: _Context, faults: dict[str, str], ignored: list[Ignored]
) -> list[Setting]:
    """Returns a layer with its published keys rewritten as in `REWRITES`."""
    settings: list[Setting] = []
    for setting in layer:
        rewrite = REWRITES.get(setting.key)
        try:
            parts = [setting] if rewrite is None else rewrite(setting, context)
        except InputError as error:
            faults[setting.label] = error.message
            continue
        settings += [part for part in parts if isinstance(part, Setting)]
        ignored += [part for part in parts if isinstance(part, Ignored)]
    return settings


def _with_round(layers: Sequence[list[Setting]]) -> Sequence[list[Setting]]:
    """Returns the layers with the settings of a private round below them, in place of its name.

    Raises:
        InputError: another value was given for one of them, a round twice, or it is no private
            one.
        NotAvailableError: there is no such round.
    """
    named = [setting for layer in layers for setting in layer if setting.key == "round"]
    if not named:
        return layers
    for layer in layers:
        twice = [setting.label for setting in layer if setting.key == "round"]
        if len(twice) > 1:
            raise InputError(
                f"{twice[1]}: already given as '{twice[0]}'", code="config.given_twice"
            )
    last = named[-1]
    fixed = wired("settings of a round")(str(last.value))
    rest = [[setting for setting in layer if setting.key != "round"] for layer in layers]
    for setting in (setting for layer in rest for setting in layer):
        key = ours(setting.key)
        if key in fixed and key != "model_name_or_path" and not _alike(setting.value, fixed[key]):
            raise InputError(
                f"{setting.label}: expected {fixed[key]}, as the round has it, got {setting.value}",
                hint="leave it out",
                code="config.fixed_by_round",
            )
    return [[Setting(key, value, last.label, "round") for key, value in fixed.items()], *rest]


def _alike(first_value: object, second_value: object) -> bool:
    """Says whether two values are the same as text, names in any order."""
    first, second = (
        {part.strip() for part in str(value).split(",")} for value in (first_value, second_value)
    )
    return first == second


def _switch_off(merged: dict[str, Setting], layer: Iterable[Setting]) -> list[Ignored]:
    """Removes what weaker layers switched on and this one off; returns idle switches."""
    idle: list[Ignored] = []
    for setting in layer:
        if isinstance(setting.value, _Switch) and not setting.value.on:
            if setting.key in merged and merged[setting.key].value == setting.value.value:
                del merged[setting.key]
            else:
                idle.append(Ignored(setting.value.name, setting.origin, "switched off"))
    return idle


def _values(layer: Iterable[Setting]) -> list[Setting]:
    """Returns the settings of a layer with the values that switches mean."""
    return [
        replace(setting, value=setting.value.value)
        if isinstance(setting.value, _Switch)
        else setting
        for setting in layer
        if not isinstance(setting.value, _Switch) or setting.value.on
    ]


def _without_plain_optimizer(layer: list[Setting], ignored: list[Ignored]) -> list[Setting]:
    """Removes LLaMA-Factory's `optim: adamw_torch` beside a switch that chooses the optimizer.

    There it is what computes the steps of the other one, as it is here.
    """
    switches = [
        setting.value.name
        for setting in layer
        if setting.key == "optim" and isinstance(setting.value, _Switch) and setting.value.on
    ]
    settings: list[Setting] = []
    for setting in layer:
        if switches and setting.key == "optim" and optimizer_name(setting.value) == "adamw":
            ignored.append(Ignored("optim", setting.origin, f"{switches[0]} chooses the optimizer"))
        else:
            settings.append(setting)
    return settings


def _use_stage_of_loss(merged: dict[str, Setting]) -> None:
    """Turns a loss of LLaMA-Factory's stage dpo that is a method here into that method."""
    loss, stage = merged.get("pref_loss"), merged.get("stage")
    if loss is None or stage is None or stage.value != "dpo" or not isinstance(loss.value, str):
        return
    if loss.value in foreign.STAGE_OF_LOSS:
        merged["stage"] = replace(loss, key="stage", value=foreign.STAGE_OF_LOSS[loss.value])
        del merged["pref_loss"]


def _given_twice(layer: Iterable[Setting]) -> dict[str, str]:
    first: dict[str, str] = {}
    return {
        setting.label: f"already given as '{first[setting.key]}'"
        for setting in _values(layer)
        if first.setdefault(setting.key, setting.label) != setting.label
    }


def _check(
    merged: Mapping[str, Setting], faults: dict[str, str], hints: list[str]
) -> TrainConfig | None:
    """Returns the config, or None after adding what was found to the faults and the hints."""
    values = {key: setting.value for key, setting in merged.items()}
    stage = values.get("stage", DEFAULT)
    if not isinstance(stage, str) or place_of(stage) is None:
        near = report.nearest(stage, METHODS) if isinstance(stage, str) else None
        suggestion = f". Did you mean '{near}'?" if near else ""
        got = f"{', '.join(METHODS)}, got {report.shown(stage)}{suggestion}"
        faults[merged["stage"].label] = f"expected {got}"
        stage = values["stage"] = DEFAULT
    model = config_class(stage)
    for key in [key for key in values if key not in model.model_fields]:
        stages = " or ".join(stages_with(key))
        faults[merged[key].label] = f"has no effect with stage {stage}: expected stage {stages}"
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
    position = {label: index for index, label in enumerate(order)}
    labels = sorted(faults, key=lambda label: position.get(label, len(position)))
    hint = next(iter(hints), None)
    if faults.get("model_name_or_path") == report.NOT_GIVEN:
        hint = "specify a base model: --model smollm2, or zen-nano"
    elif faults.get("dataset") == report.NOT_GIVEN:
        hint = "give a file of examples: zoo-gym train my.jsonl"
    return InputError(
        "\n".join(f"{label}: {faults[label]}" for label in labels), hint=hint, code="config.invalid"
    )


PREFIX = "ZOO_GYM_"
"""What a run does is in its command and its files, and can be repeated: only the home is read."""


def idle_variables() -> Iterator[tuple[str, str]]:
    """Yields each variable `ZOO_GYM_...` that has no effect, with the reason."""
    for variable in sorted(os.environ):
        if not variable.startswith(PREFIX) or variable == HOME_VARIABLE:
            continue
        key = nearest(variable.removeprefix(PREFIX).lower(), all_fields())
        reason = "settings are not read from the environment"
        yield variable, reason + (f": expected {key}=VALUE" if key else "")
