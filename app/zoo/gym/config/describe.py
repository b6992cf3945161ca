"""Describes each setting: for `--help`, the reference page, and later the app's forms."""

from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from zoo.gym.config.report import shown
from zoo.gym.config.stages import METHODS, all_fields, config_class, stages_with
from zoo.gym.config.train import is_chosen


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
        Description(key, _kind(key, field), _limits(field), _defaults(key), _text(key))
        for key, field in all_fields().items()
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


def is_switch(key: str) -> bool:
    """Returns whether a setting is boolean, so that its flag needs no value."""
    return bool in _types(all_fields()[key].annotation)


def _kind(key: str, field: FieldInfo) -> str:
    if key == "stage":
        return " | ".join(METHODS)
    kinds = _types(field.annotation)
    for kind in kinds:
        if get_origin(kind) is Literal:
            return " | ".join(get_args(kind))
        if get_origin(kind) is tuple:
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
        name: getattr(item, name)
        for item in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if hasattr(item, name)
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
    stages: dict[str, list[str]] = {}
    for stage in stages_with(key):
        stages.setdefault(_default(config_class(stage).model_fields[key]), []).append(stage)
    if key == "stage" or len(stages) == 1:
        return next(iter(stages))
    each = (f"{value} for {' and '.join(names)}" for value, names in stages.items())
    return f"default {', '.join(each)}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default is None:
        return "chosen at the start" if is_chosen(field) else "none"
    return str(field.default) if isinstance(field.default, str) else shown(field.default)
