"""The flags of `zoo-gym train`, made from the settings themselves: every key is a flag.

A flag's value is checked in the same way as a key in a file, so that both give the same message.
"""

import inspect
from collections.abc import Callable, Mapping
from operator import getitem
from typing import Annotated, Optional, TypeVar, cast

from cyclopts import Group, Parameter
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from zoo.gym.config import report
from zoo.gym.config.describe import describe_settings, is_switch
from zoo.gym.config.foreign import ALIASES, SWITCHES, THINKING, VALUES_OF_SWITCHES, WITHOUT_EFFECT
from zoo.gym.config.settings import Settings
from zoo.gym.errors import InputError

SETTINGS = Group("Settings, also as KEY=VALUE or in a file", sort_key=10)
SHORT = {"model_name_or_path": ("model", "base_model"), "dataset": ("data",)}
"""Other spellings that the help also shows."""

Command = TypeVar("Command", bound=Callable[..., object])
Model = TypeVar("Model", bound=Settings)


def with_setting_flags(command: Command) -> Command:
    """Adds one flag per setting to a command with `**settings`, plus those of other trainers."""
    signature = inspect.signature(command)
    named = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    # a setting with the name of a parameter of the command is given as KEY=VALUE
    every = [*_setting_flags(), *_foreign_flags()]
    flags = [flag for flag in every if flag.name not in signature.parameters]
    vars(command)["__signature__"] = signature.replace(parameters=[*named, *flags])
    command.__annotations__.pop("settings")
    command.__annotations__.update({flag.name: flag.annotation for flag in flags})
    return command


def with_model_flags(model: type[BaseModel]) -> Callable[[Command], Command]:
    """Adds one flag per field of a model to a command with `**settings`, checked by its type."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        named = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        flags = [_field_flag(key, field) for key, field in model.model_fields.items()]
        vars(command)["__signature__"] = signature.replace(parameters=[*named, *flags])
        command.__annotations__.pop("settings")
        command.__annotations__.update({flag.name: flag.annotation for flag in flags})
        return command

    return decorate


def read_flags(model: type[Model], settings: Mapping[str, object]) -> Model:
    """Returns the model built from the flags of `with_model_flags`.

    Raises:
        InputError: one line for each flag with a value out of range.
    """
    try:
        return model.from_text(settings)
    except ValidationError as error:
        faults = report.sentences(error, model)
        raise InputError(
            "\n".join(f"--{key}: {text}" for key, text in faults), code="cli.bad_value"
        ) from error


def _field_flag(key: str, field: FieldInfo) -> inspect.Parameter:
    parameter = Parameter(help=field.description, negative=())
    # one that must be given is None until it is: the command then says so in our words
    is_required = field.is_required()
    kind: object = field.annotation
    if is_required:
        kind = getitem(cast("dict[object, object]", Optional), kind)
    annotation: object = getitem(cast("dict[object, object]", Annotated), (kind, parameter))
    default = None if is_required else field.default
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def switch_names() -> set[str]:
    """Returns the flags of `train` that need no value, with underscores for dashes."""
    keys = [setting.key for setting in describe_settings() if is_switch(setting.key)]
    return {f"__{key}" for key in (*keys, *SWITCHES)}


def _setting_flags() -> list[inspect.Parameter]:
    flags: list[inspect.Parameter] = []
    for setting in describe_settings():
        aliases = [name for name, key in ALIASES.items() if key == setting.key]
        names = [
            setting.key,
            *sorted(aliases, key=lambda name: name not in SHORT.get(setting.key, ())),
        ]
        text = f"{setting.text} ({setting.note})"
        kind: type = (
            bool if is_switch(setting.key) else list[str] if setting.kind == "files" else str
        )
        flags.append(_flag(setting.key, names, kind, text, _metavar(setting.kind)))
    return flags


def _foreign_flags() -> list[inspect.Parameter]:
    keys = [*WITHOUT_EFFECT, *VALUES_OF_SWITCHES, THINKING]
    return [_flag(key, [key], bool if key in SWITCHES else str) for key in keys]


def _metavar(kind: str) -> str:
    return (
        "|".join(kind.split(" | ")) if "|" in kind else kind.partition(",")[0].split()[-1].upper()
    )


def _flag(
    key: str, names: list[str], kind: type, text: str = "", metavar: str = ""
) -> inspect.Parameter:
    parameter = Parameter(
        name=[f"--{name}" for name in names],
        metavar=metavar or None,
        negative=f"--no_{key}" if kind is bool else (),
        help=text,
        show=bool(text),
        show_default=False,
        group=SETTINGS,
    )
    annotation: object = getitem(cast("dict[object, object]", Annotated), (kind | None, parameter))
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
