"""Keys of the user's own: a file that names actions and the keys that do them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from textual.binding import Binding
from textual.keys import Keys

from zoo.gym.errors import InputError
from zoo.gym.paths import folders

KEYS = {key.value for key in Keys}
USED = {"tab", "shift+tab", "enter", "escape", "up", "down", "left", "right", "ctrl+c", "ctrl+q"}
"""Keys that every screen needs as they are."""


def keys_file() -> Path:
    """Returns where the keys are kept; the file need not exist."""
    return folders().config / "keys.json"


def read_keymap(usual: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys by the name of their action, empty without a file.

    Args:
        usual: the key of each action, by its name.

    Raises:
        InputError: the file is no object of names and keys, has an unknown name or key, or one of
            them twice.
    """
    path = keys_file()
    try:
        text = path.read_text(encoding="utf-8")
        pairs: Any = json.loads(text, object_pairs_hook=list[tuple[str, object]])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: expected names and keys in JSON, got: {error}",
            hint='{"pause": "p", "start": "t"}, or delete the file',
            code="tui.bad_keys",
        ) from None
    keymap: dict[str, str] = {}
    for name, key in pairs if text.lstrip().startswith("{") else [("", None)]:
        if name not in usual or not isinstance(key, str) or not _is_free(key):
            raise InputError(
                f"{path}: expected the name of an action and a free key, got {name!r}: {key!r}",
                hint=f"the names are {', '.join(sorted(usual))}; a key is p, P, ctrl+r, f5 ...",
                code="tui.bad_keys",
            )
        same = [other for other, its in keymap.items() if its == key]
        if name in keymap or any(usual[other] != usual[name] for other in same):
            raise InputError(
                f"{path}: expected each name and each key once, got {name!r}: {key!r} again",
                code="tui.bad_keys",
            )
        keymap[name] = key
    for name, key in keymap.items():
        if other := [each for each in usual if each not in keymap and usual[each] == key]:
            raise InputError(
                f"{path}: expected a free key for {name!r}, got {key!r}, the key of {other[0]!r}",
                hint=f"give {other[0]!r} another key as well",
                code="tui.bad_keys",
            )
    return keymap


def _is_free(key: str) -> bool:
    """Returns whether a key exists and may have another use."""
    return key not in USED and (key in KEYS or (len(key) == 1 and key.isalnum()))


def keys_in(bindings: Iterable[object]) -> dict[str, str]:
    """Returns the keys of bindings that can have another one, by name."""
    return {each.id: each.key for each in bindings if isinstance(each, Binding) and each.id}
