"""Sorts the arguments of `zoo-gym train`: settings files, single settings, files of examples."""

import difflib
import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoo.gym.config.foreign import ALIASES, MISSING_VALUES
from zoo.gym.config.report import nearest
from zoo.gym.config.stages import METHODS, all_fields
from zoo.gym.errors import GymError, InputError, NotAvailableError
from zoo.gym.paths import given_path
from zoo.models.recipe_files import find_recipe, recipes

_OVERRIDE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*=")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
EXAMPLES = "a file of examples"
_STAGES = set(METHODS) | {value for key, value in MISSING_VALUES if key == "stage"}


@dataclass
class Items:
    """The sorted arguments, each kind in the order given."""

    configs: list[Path] = field(default_factory=list[Path])
    overrides: list[str] = field(default_factory=list[str])
    data: list[str] = field(default_factory=list[str])


def sort_items(words: Sequence[str]) -> Items:
    """Returns the arguments sorted by kind.

    Raises:
        NotAvailableError: an argument is of no known kind; suggests the nearest file.
        InputError: an argument is the name of a setting without a value.
    """
    items = Items()
    for word in words:
        if word.lower().endswith((".yaml", ".yml")):
            items.configs.append(settings_file(word))
        elif _is_there(word):
            items.data.append(word)
        elif _OVERRIDE.match(word):
            items.overrides.append(word)
        elif word in _STAGES:
            items.overrides.append(f"stage={word}")
        else:
            raise _unknown_item(word)
    _refuse_data_twice(items)
    return items


def _is_there(word: str) -> bool:
    try:
        return Path(word).expanduser().exists()
    except RuntimeError:  # `~` and a name that is not a user's
        return False
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # a long value, as in KEY=VALUE
            return False
        raise


def _refuse_data_twice(items: Items) -> None:
    keys = {"dataset", *(name for name, key in ALIASES.items() if key == "dataset")}
    for override in items.overrides:
        if items.data and override.partition("=")[0] in keys:
            raise InputError(
                f"{override}: already given as '{items.data[0]}'",
                hint="list all files of examples one after the other",
                code="config.given_twice",
            )


def settings_file(word: str) -> Path:
    """Returns a file of settings: one on disk, or else the recipe of this name.

    Raises:
        NotAvailableError: there is neither; suggests the nearest one.
        InputError: it cannot be a path.
    """
    path = given_path(word)
    if path.exists():
        return path
    if (recipe := find_recipe(word)) is not None:
        return recipe
    names = [path.name for path in recipes()]
    return existing(word, "a YAML file of settings, or a recipe", names)


def existing(word: str, what: str = EXAMPLES, names: Sequence[str] = ()) -> Path:
    """Returns the path, or raises NotAvailableError with the nearest existing file.

    Args:
        word: the path as given.
        what: what is expected there.
        names: names that are accepted besides, to suggest if no file is near.

    Raises:
        InputError: it cannot be a path.
    """
    path = given_path(word)
    if not path.exists():
        near = nearest_file(word) or next(iter(difflib.get_close_matches(word, names)), None)
        mean = f". Did you mean '{near}'?" if near else ""
        raise NotAvailableError(
            f"{word}: no such file: expected {what}{mean}",
            hint=None if near else _of_hub(word, what),
            code="config.no_such_file",
        )
    return path


def nearest_file(word: str) -> str | None:
    """Returns the path in the same folder with the nearest name, or None."""
    path = given_path(word)
    if not path.parent.is_dir():
        return None
    names = [entry.name for entry in path.parent.iterdir()]
    close = difflib.get_close_matches(path.name, names, n=1)
    return str(Path(word).parent / close[0]) if close else None


def _unknown_item(word: str) -> GymError:
    near = nearest_file(word)
    key = nearest(word, all_fields())
    if key and not near:
        return InputError(
            f"{word}: no such file: expected a file of examples, a .yaml file or KEY=VALUE. "
            f"Did you mean '{key}=VALUE'?",
            hint="zoo-gym train --help",
            code="config.unknown_item",
        )
    return NotAvailableError(
        f"{word}: no such file: expected a file of examples, a .yaml file or KEY=VALUE"
        + (f". Did you mean '{near}'?" if near else ""),
        hint=(None if near else _of_hub(word)) or "zoo-gym train --help",
        code="config.no_such_file",
    )


def _of_hub(word: str, what: str = EXAMPLES) -> str | None:
    """Returns how to get a data set of the hub, if a word may be its id."""
    if what != EXAMPLES or not _HUB_ID.fullmatch(word) or Path(word).parent.exists():
        return None
    name = word.partition("/")[2]
    return (
        f"a data set of the hub is read from a folder: hf download --repo-type dataset {word} "
        f"--local-dir {name}; then give {name}"
    )


def value_text(value: object) -> str:
    """Returns a value as it is written after `KEY=`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
