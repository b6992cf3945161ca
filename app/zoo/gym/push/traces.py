"""Finds in text what must not leave this machine: its paths, tokens, and a run's system prompt."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unicodedata import normalize

from zoo.gym.config.values import public_place
from zoo.gym.paths import folders
from zoo.models.resolve import model_of_text

_TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(hf_[A-Za-z0-9]{30}|sk-[A-Za-z0-9_-]{20}|gh[pousr]_[A-Za-z0-9]{30}"
    r"|github_pat_[A-Za-z0-9_]{30}|glpat-[A-Za-z0-9_-]{20}|xox[a-z]-[A-Za-z0-9-]{10}"
    r"|AIza[A-Za-z0-9_-]{35}|A[KS]IA[A-Z0-9]{16}|-----BEGIN [A-Z ]*PRIVATE KEY-----)"
)
_ESCAPE = re.compile(r"\\(?:u([\da-fA-F]{4})|U(00[\da-fA-F]{6})|x([\da-fA-F]{2})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_PATH = re.compile(r"(?:/[^/\n]+/|~[\w.-]*/|file:/|[A-Za-z]:[\\/])[^\n]*")
_NO_PATH = set("{}<>|")
_PATH_KEYS = ("_path", "_file", "_dir", "_folder")
_LEAST_SYSTEM = 8
"""A shorter system prompt, such as `Hi.`, may be anywhere."""

BASE_KEY = "base_model_name_or_path"


def traces_in(text: str, system: str = "", *, paths: bool = True) -> Iterator[str]:
    """Yields in words what of this machine or of a run is in a text.

    Args:
        text: the content of a file.
        system: the system prompt that a run was trained with.
        paths: whether this machine's folders are looked for; a vocabulary may have any word.
    """
    decoded = _decoded(text)
    if _TOKENS.search(text) or _TOKENS.search(decoded):
        yield "an access token"
    if len(" ".join(system.split())) >= _LEAST_SYSTEM and _joined(system) in _joined(decoded):
        yield "the system prompt of the run"
    if paths:
        yield from (f"the path {place}" for place in _places() if place in text or place in decoded)


def _decoded(text: str) -> str:
    """Returns a text without escapes of JSON, YAML or Jinja, one within another, too."""
    before = ""
    while before != text:
        before, text = text, _ESCAPE.sub(_character, text)
    pairs = text.encode("utf-16-le", "surrogatepass")
    return pairs.decode("utf-16-le", "replace")


def _character(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    if digits is None:
        return _NAMED.get(escape[4], escape[4])
    return chr(min(int(digits, 16), 0x10FFFF))


def _joined(text: str) -> str:
    """Returns a text without escapes and white space, which differ between its copies."""
    return "".join(normalize("NFC", _decoded(text)).split())


def _places() -> list[str]:
    """Returns this user's folders, but for those so high up that any text may have them."""
    places = {Path.home(), Path.cwd(), *(folders().runs, folders().runs.parent)}
    return sorted({str(place) for place in places if len(place.parts) > 2 or place == Path.home()})


def without_paths(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns settings of a model without paths under keys for paths, and the keys that changed.

    A base is named instead: by its hub id where its folder is known, else by the folder's name.
    """
    cleaned, changed = dict(settings), list[str]()
    for key, value in settings.items():
        if isinstance(value, Mapping):
            cleaned[key], inner = without_paths(value)
            changed += [f"{key}.{each}" for each in inner]
        elif key.endswith(_PATH_KEYS) and isinstance(value, str) and _is_place(value):
            changed.append(key)
            if key == BASE_KEY:
                cleaned[key] = public_base(value)
            else:
                del cleaned[key]
    return cleaned, changed


def paths_in(settings: object, key: str = "") -> Iterator[str]:
    """Yields the keys of settings whose values are absolute paths, at any depth.

    Text with braces is a template, and text with one slash may be a token, such as `/think`.
    """
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            yield from paths_in(value, f"{key}.{name}" if key else str(name))
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from paths_in(value, key)
    elif isinstance(settings, str) and _PATH.fullmatch(settings) and not _NO_PATH & set(settings):
        yield key


def _is_place(value: str) -> bool:
    return _PATH.fullmatch(value) is not None or value.startswith((".", "~", "/"))


def public_base(name: str) -> str:
    """Returns the name of a base without its place."""
    known = model_of_text(name)
    return known.id if known is not None else public_place(name)
