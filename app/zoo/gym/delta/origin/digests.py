"""Digests of the parts of a base, and a warning about a base that reads text otherwise."""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY
from zoo.gym.errors import GymWarning
from zoo.models.checkpoint_files import checkpoint_files

BASE_KEY = "base"
"""In `env.json` of a run: a digest of each part of the base; in a result: of the weights only."""

FORM_PARTS = ("tokenizer", "chat template")
"""The parts that prompts depend on."""

WEIGHTS_PART = "weights"
"""The part that an adapter depends on."""

_CONFIG = "tokenizer_config.json"
_TEMPLATE = "chat_template"
_PARTS = {
    "config": ("config.json",),
    "tokenizer": (
        "tokenizer.json",
        "tokenizer.model",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
    ),
    "chat template": (
        "chat_template.jinja",
        "chat_template.json",
        "additional_chat_templates/*.jinja",
    ),
}
_Stamp = tuple[Path, int, int]
_known: dict[_Stamp, str] = {}


def base_digests(folder: Path) -> dict[str, str]:
    """Returns a digest of each part of a model: weights, config, tokenizer and chat template.

    Digests of weight files are cached while the program runs, by path, size and modification time.

    Raises:
        GymError: the folder contains no weights.
    """
    return {WEIGHTS_PART: weights_digest(folder), **_digests(folder)}


def _digests(folder: Path) -> dict[str, str]:
    """Returns a digest of each part of a model but its weights."""
    found = {part: _digest(_contents(folder, names)) for part, names in _PARTS.items()}
    settings, template = _tokenizer_config(folder / _CONFIG)
    found["tokenizer"] = _digest([(_CONFIG, settings), ("", found["tokenizer"].encode())])
    found["chat template"] = _digest([(_CONFIG, template), ("", found["chat template"].encode())])
    return found


def form_in(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns the digests of a base's tokenizer and chat template; none of older records.

    Args:
        record: of a run, a result or a delta.
    """
    base: Any = record.get(BASE_KEY)
    found = ((part, base.get(part)) for part in FORM_PARTS) if isinstance(base, dict) else ()
    return {part: digest for part, digest in found if isinstance(digest, str)}


def warn_of_other_form(record: Mapping[str, Any], folder: Path) -> None:
    """Warns if a base reads text otherwise than the one that a fine-tune was trained on.

    Args:
        record: of a result or a delta.
        folder: the base that it is used on.

    Warns:
        GymWarning: the base has another tokenizer or chat template.
    """
    stored = form_in(record)
    if TOKENIZER_KEY in record:  # it has a template of its own
        stored.pop("chat template", None)
    here = _digests(folder) if stored else {}
    if others := [part for part, digest in stored.items() if here[part] != digest]:
        warnings.warn(
            f"{folder} has another {' and '.join(others)} than the base of training: prompts are "
            "not those that the fine-tune has learned",
            GymWarning,
            stacklevel=2,
        )


def weights_digest(folder: Path) -> str:
    """Returns a digest of a model's weight files, cached as in `base_digests`.

    Raises:
        GymError: the folder contains no weights.
    """
    return _digest((file.name, _file_digest(file).encode()) for file in checkpoint_files(folder))


def stored_weights_digest(stored: Mapping[str, Any]) -> str | None:
    """Returns the digest of the base's weights in an `env.json` or a result, None if absent."""
    base: Any = stored.get(BASE_KEY)
    found = base.get(WEIGHTS_PART) if isinstance(base, dict) else None
    return found if isinstance(found, str) else None


def _contents(folder: Path, patterns: Iterable[str]) -> list[tuple[str, bytes]]:
    files = (file for pattern in patterns for file in sorted(folder.glob(pattern)))
    return [(file.name, file.read_bytes()) for file in files if file.is_file()]


def _tokenizer_config(file: Path) -> tuple[bytes, bytes]:
    """Returns the settings of a tokenizer, and separately the chat template among them."""
    content = file.read_bytes() if file.is_file() else b""
    try:
        found: object = json.loads(content)
    except (ValueError, RecursionError):
        return content, b""
    if not isinstance(found, dict):
        return content, b""
    settings = cast("dict[str, Any]", found)
    template = settings.pop(_TEMPLATE, None)
    return json.dumps(settings, sort_keys=True).encode(), json.dumps(template).encode()


def _digest(contents: Iterable[tuple[str, bytes]]) -> str:
    whole = hashlib.sha256()
    for name, content in contents:
        whole.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return whole.hexdigest()


def _file_digest(file: Path) -> str:
    from zoo.core import file_digest

    status = file.stat()
    stamp = (file.absolute(), status.st_size, status.st_mtime_ns)
    if stamp not in _known:
        _known[stamp] = file_digest(file, zero_at=0, zero_len=0)
    return _known[stamp]
