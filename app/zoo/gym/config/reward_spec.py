"""Parses the value of the setting `reward` into the settings of each reward.

A value is a name (`numeric`), the place of a function (`my.py:score`, `my_module:score`), or a
reward model (its folder, `org/name`), several of them separated by commas, a list of names and
mappings (`{kind: numeric, tolerance: 0.01}`), or a mapping from names to weights or options
(`{numeric: 1, exact: {weight: 0.2, part: whole}}`). Python code may pass a function for a name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from zoo.gym.config.report import shown, unknown
from zoo.gym.config.reward import (
    KINDS,
    FunctionSettings,
    LiveSettings,
    ModelSettings,
    RewardSettings,
)
from zoo.gym.errors import InputError

RewardSpec: TypeAlias = "str | list[object] | tuple[object, ...] | Mapping[str, object]"

_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")

HINT = (
    "a reward is a function (my.py:score), a reward model (its folder, org/name), or one of "
    + ", ".join(KINDS)
    + "; zoo-gym experience train also has majority, which needs no answers"
)


def parse_spec(value: object) -> tuple[RewardSettings, ...]:
    """Returns the settings of each reward of a sum, in order.

    Raises:
        InputError: a name is unknown, an option is wrong, or a reward is given twice.
    """
    parts = tuple(_entries(value))
    if not parts:
        raise InputError(
            f"reward: expected the name of a reward, got {shown(value)}",
            hint=HINT,
            code="config.bad_reward",
        )
    labels = [settings.label for settings in parts]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise InputError(
            f"reward: '{twice}' is given twice: expected different names",
            hint="give one of them another name, such as {kind: numeric, name: other}",
            code="config.given_twice",
        )
    if still := next((settings for settings in parts if settings.weight == 0), None):
        raise InputError(
            f"reward: {still.label}: weight: expected another number than 0",
            code="config.bad_reward",
        )
    if any(settings.kind == "auto" for settings in parts) and len(parts) > 1:
        raise InputError(
            "reward: auto chooses the only reward: expected it alone, or rewards by name",
            code="config.bad_reward",
        )
    return parts


def with_places(value: object, change: Callable[[str, str], str]) -> object:
    """Returns a value of `reward` with the places in it changed, and the same names of rewards.

    Args:
        value: the value; one without places is returned as it is.
        change: returns the new place for a setting, such as `model` or `function`, and its place.

    Raises:
        InputError: see `parse_spec`.
    """
    entries: list[dict[str, Any]] = []
    is_changed = False
    for settings in parse_spec(value):
        paths = {key: str(getattr(settings, key)) for key in settings.places}
        places: dict[str, Any] = {k: change(k, path) for k, path in paths.items() if path}
        is_changed |= any(paths[key] != path for key, path in places.items())
        fields: dict[str, Any] = settings.model_dump(mode="json", exclude_defaults=True) | places
        entry = {"kind": settings.kind, **fields}
        if type(settings)(**fields).label != settings.label:
            entry["name"] = _NO_NAME.sub("-", settings.label)[:40]
        entries.append(entry)
    return entries if is_changed else value


def _entries(value: object) -> Iterator[RewardSettings]:
    if isinstance(value, str):
        for name in value.split(","):
            yield _make(name.strip(), {})
    elif callable(value):
        yield LiveSettings(function=value)
    elif isinstance(value, Mapping):
        yield from _from_mapping(cast("Mapping[object, object]", value))
    elif isinstance(value, list | tuple):
        for entry in cast("list[object]", value):
            if isinstance(entry, list | tuple):
                raise InputError(
                    "reward: expected names or mappings in the list, got a list",
                    code="config.bad_reward",
                )
            yield from _entries(entry)
    else:
        raise InputError(
            f"reward: expected a name, a list or a mapping, got {shown(value)}",
            code="config.bad_reward",
        )


def _from_mapping(value: Mapping[object, object]) -> Iterator[RewardSettings]:
    """Yields one reward with its options under `kind`, or one for each name."""
    fields = {str(key): entry for key, entry in value.items()}
    if "kind" in fields:
        kind = fields.pop("kind")
        if not isinstance(kind, str):
            raise InputError(
                f"reward: kind: expected a name, got {shown(kind)}", code="config.bad_reward"
            )
        yield _make(kind, fields)
        return
    for name, entry in fields.items():
        if isinstance(entry, Mapping):
            options = cast("Mapping[object, object]", entry)
            yield _make(name, {str(key): option for key, option in options.items()})
        else:
            yield _make(name, {"weight": entry})


def _make(name: str, options: Mapping[str, Any]) -> RewardSettings:
    if name not in KINDS and (function := _place(name)):
        key, kind = function
        name, options = kind, {key: name, **options}
    if name not in KINDS:
        raise InputError(
            f"reward: '{name}': {unknown('reward', name, KINDS)}",
            hint=HINT,
            code="config.bad_reward",
        )
    try:
        return KINDS[name](**options)
    except InputError as error:
        lines = "\n".join(f"reward: {name}: {line}" for line in error.message.splitlines())
        hint = f"{{kind: {name}, model: MODEL}}" if "model: not given" in lines else error.hint
        raise InputError(lines, hint=hint, code="config.bad_reward") from None


def _place(name: str) -> tuple[str, str] | None:
    """Returns the setting for a place, `function` or `model`, and the kind of reward.

    Raises:
        InputError: it is a file without the name of a function.
    """
    if name and Path(name).is_dir():
        return "model", ModelSettings.kind
    if name.endswith(".py"):
        raise InputError(
            f"reward: expected {name}:function, got no name of a function", code="config.bad_reward"
        )
    if ":" in name:
        return "function", FunctionSettings.kind
    return ("model", ModelSettings.kind) if "/" in name else None
