"""Describes each setting: for `--help`, the reference page, and later the app's forms."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from zoo.gym.config.report import shown
from zoo.gym.config.stages import METHODS, all_fields, config_class, stages_with
from zoo.gym.config.values import is_chosen


@dataclass(frozen=True)
class Description:
    """The description of a setting.

    Attributes:
        key: its name.
        kind: `text`, `number`, `lora | full` ...
        limits: the range of a number, or empty.
        default: the value if it is not given.
        text: its meaning.
    """

    key: str
    kind: str
    limits: str
    default: str
    text: str

    @property
    def note(self) -> str:
        """Limits and default, printed after the text."""
        default = self.default if " " in self.default else f"default {self.default}"
        return f"{self.limits}; {default}" if self.limits else default


def describe_settings() -> list[Description]:
    """Returns the settings of all methods in their order, the common ones first."""
    return [
        Description(key, _kind(key), _all_limits(key), _defaults(key), _text(key))
        for key in all_fields()
    ]


def _text(key: str) -> str:
    """Returns what a setting means, and which methods have it where not all do."""
    if key == "stage":
        methods = (config_class(stage).model_fields[key].description for stage in METHODS)
        return "; ".join(("the method", *filter(None, methods)))
    meanings: dict[str, list[str]] = {}
    for stage in stages_with(key):
        text = config_class(stage).model_fields[key].description or ""
        meanings.setdefault(text, []).append(stage)
    if len(meanings) == 1 and len(stages_with(key)) == len(METHODS):
        return next(iter(meanings))
    return "; ".join(f"{text} (stage {', '.join(names)})" for text, names in meanings.items())


def describe_fields(model: type[BaseModel]) -> list[Description]:
    """Returns the fields of one model of settings, in their order."""
    return [
        Description(
            key, _kind_of([field]), _limits(field), _default(field), field.description or ""
        )
        for key, field in model.model_fields.items()
    ]


def is_switch(key: str) -> bool:
    """Returns whether a setting is boolean, so that its flag needs no value."""
    return bool in _types(all_fields()[key].annotation)


def _kind(key: str) -> str:
    """Returns the type of a setting in words; of names, those of all methods that have it."""
    if key == "stage":
        return " | ".join(METHODS)
    return _kind_of(config_class(stage).model_fields[key] for stage in stages_with(key))


def _kind_of(fields: Iterable[FieldInfo]) -> str:
    """Returns the type of a setting that several models may have, in words."""
    kinds = [kind for field in fields for kind in _types(field.annotation)]
    named = [name for kind in kinds if get_origin(kind) is Literal for name in get_args(kind)]
    if named:
        return " | ".join(dict.fromkeys(map(str, named)))
    if any(get_origin(kind) is tuple for kind in kinds):
        return "files"
    words = {int: "whole number", float: "number", bool: "true | false", str: "text"}
    return next(words[kind] for kind in kinds if kind in words)


def _types(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any type expression
    """Returns the types that a value may have, without None and without annotations."""
    if hasattr(annotation, "__metadata__"):
        return _types(annotation.__origin__)
    if get_origin(annotation) in (Literal, tuple) or not get_args(annotation):
        return () if annotation is NoneType else (annotation,)
    return tuple(kind for part in get_args(annotation) for kind in _types(part))


def _limits(field: FieldInfo) -> str:
    """Returns the bounds of a number in words: `1 or more`, `above 0 to 1`."""
    bounds = {
        name: getattr(limit, name)
        for limit in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if hasattr(limit, name)
    }
    if not bounds:
        return ""
    low = f"above {bounds['gt']:g}" if "gt" in bounds else f"{bounds['ge']:g}"
    if "lt" in bounds:
        return f"{low} to below {bounds['lt']:g}"
    if "le" in bounds and bounds["le"] <= 1_000_000:
        return f"{low} to {bounds['le']:g}"
    return low if "gt" in bounds else f"{low} or more"


def _defaults(key: str) -> str:
    """Returns the default of a setting, with the stages if they have others."""
    by_stage = _by_stage(key, _default)
    if key == "stage" or len(by_stage) == 1:
        return next(iter(by_stage))
    usual = max(by_stage, key=lambda default: len(by_stage[default]))
    if len(by_stage[usual]) > len(METHODS) / 2:
        others = {default: stages for default, stages in by_stage.items() if default != usual}
        return f"default {usual}, but {_each(others)}"
    return f"default {_each(by_stage)}"


def _all_limits(key: str) -> str:
    """Returns the bounds of a setting, with the stages if they have others."""
    by_stage = _by_stage(key, _limits)
    if len(by_stage) == 1:
        return next(iter(by_stage))
    return _each({limits or "any": names for limits, names in by_stage.items()})


def _by_stage(key: str, describe: Callable[[FieldInfo], str]) -> dict[str, list[str]]:
    """Returns what describes a setting, each with the stages that it is true of."""
    stages: dict[str, list[str]] = {}
    for stage in stages_with(key):
        stages.setdefault(describe(config_class(stage).model_fields[key]), []).append(stage)
    return stages


def _each(by_stage: Mapping[str, list[str]]) -> str:
    return ", ".join(f"{text} for {' and '.join(names)}" for text, names in by_stage.items())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default_factory is not None:
        return "a text of ours"
    if field.default is None:
        return "chosen at the start" if is_chosen(field) else "none"
    return (field.default or "none") if isinstance(field.default, str) else shown(field.default)
