"""What is wrong with the form of a new training, and which of its fields is to blame."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from zoo.gym.errors import GymError

Field: TypeAlias = Literal["path", "model", "settings", "start"]

FIELDS: tuple[Field, ...] = ("path", "model", "settings", "start")


def settings_problem(text: str, *, typing: bool) -> str:
    """Returns what is wrong with settings, in the config's own sentences; "" if nothing is.

    Args:
        text: the settings as typed, `KEY=VALUE` and files.
        typing: the last word may be unfinished, and is checked only once it has a value.
    """
    from zoo.gym.config import load_config
    from zoo.gym.config.items import sort_items

    words = text.split()
    if typing and words and not text[-1].isspace() and not words[-1].partition("=")[2]:
        words.pop()
    if any(word.startswith("-") for word in words):
        return ""  # options are parsed by the command alone
    try:
        items = sort_items(words)
        flags = {"model_name_or_path": "zen-pico", "dataset": ["rows.jsonl", *items.data]}
        load_config(items.configs, items.overrides, flags)
    except GymError as error:
        return error.message
    except (OSError, RuntimeError, ValueError):  # a word that can be no path: too long, ~nobody
        return ""  # the command itself refuses it
    return ""


def path_problem(path: str) -> str:
    """Returns why nothing can be read at the path, with the nearest name; "" if something can."""
    from zoo.gym.config.items import existing

    try:
        existing(path)
    except GymError as error:
        return error.message
    except (OSError, RuntimeError, ValueError):
        return ""
    return ""


def field_of(error: GymError, path: str, settings: Sequence[str]) -> Field:
    """Returns the field of the form that an error of a command is about.

    Args:
        error: what the command answered; its message begins with what is wrong.
        path: the file of examples as the command got it.
        settings: the words of the settings field.
    """
    message = error.message
    begins = (f"{name}:" for word in settings for name in (word, word.partition("=")[0]))
    if message.startswith(tuple(begins)):
        return "settings"
    if message.startswith((path, Path(path).name)):
        return "path"
    return "model" if message.startswith(("model ", "base model ", "no such model")) else "start"
