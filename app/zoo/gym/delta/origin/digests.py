"""Digests of what a fine-tune depends on in its base, and a warning about another base.

What is read is compared, not how it is stored: a base that was saved again, moved or reformatted
counts as the same.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from zoo.gym.data.own_tokenizer import TOKENIZER_KEY, stated_parts
from zoo.gym.errors import GymWarning
from zoo.gym.files import read_json_object
from zoo.models.checkpoint_files import checkpoint_files

BASE_KEY = "base"
"""In `env.json` of a run, a result and a delta's recipe: a digest of each part of the base."""

WEIGHTS_PART = "weights"
"""The part that an adapter depends on."""

FORM_PARTS = {"tokens": "tokenizer", "template": "chat template"}
"""The parts that prompts depend on, and their names for messages."""

_TOKENIZER, _CONFIG = "tokenizer.json", "tokenizer_config.json"
_OTHER_TOKENIZERS = ("tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json")
"""What a tokenizer is read from where there is no `tokenizer.json`."""

_SET_BY_PROGRAMS = ("padding", "truncation")
"""What programs leave in `tokenizer.json`; whoever encodes a prompt sets it anew."""

_ADDED = ("add_bos_token", "add_eos_token", "bos_token", "eos_token")
_SWITCHES = ("add_prefix_space", "do_lower_case", "split_special_tokens")
"""The settings in `tokenizer_config.json` that change tokens; an absent switch is off."""

_Stamp = tuple[Path, int, int]
_digests_of_files: dict[_Stamp, str] = {}


def base_digests(folder: Path) -> dict[str, str]:
    """Returns a digest of the weights, the tokenizer and the chat template of a model.

    Digests of large files are cached while the program runs, by path, size and modification time.

    Raises:
        GymError: the folder contains no weights.
    """
    return {WEIGHTS_PART: weights_digest(folder), **form_digests(folder)}


def form_digests(folder: Path) -> dict[str, str]:
    """Returns a digest of each part of a model that prompts depend on, see `FORM_PARTS`."""
    template = stated_parts(folder).get("chat_template")
    if isinstance(template, dict):
        template = {name: _as_read(text) for name, text in template.items()}
        template = template["default"] if template.keys() == {"default"} else template
    elif template is not None:
        template = _as_read(template)
    return {"tokens": _tokens_digest(folder), "template": _json_digest(template)}


def form_in(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns the digests of a base's tokenizer and chat template; none of older records.

    Args:
        record: of a run, a result or a delta.
    """
    base: Any = record.get(BASE_KEY)
    parts = ((part, base.get(part)) for part in FORM_PARTS) if isinstance(base, dict) else ()
    return {part: digest for part, digest in parts if isinstance(digest, str)}


def other_form(
    record: Mapping[str, Any], folder: Path, *, has_template: bool = False
) -> str | None:
    """Returns how a base reads text differently from the one that a fine-tune was trained on.

    Args:
        record: of a result or a delta.
        folder: the base that it is used on.
        has_template: whether a chat template is used that is not the base's.
    """
    stored, stored_tokenizer = form_in(record), record.get(TOKENIZER_KEY)
    if has_template or (isinstance(stored_tokenizer, dict) and "chat_template" in stored_tokenizer):
        stored.pop("template", None)
    here = form_digests(folder) if stored else {}
    changed = [FORM_PARTS[part] for part, digest in stored.items() if here[part] != digest]
    if not changed:
        return None
    return (
        f"{folder} has another {' and '.join(changed)} than the base of training: prompts are not "
        "those that the fine-tune has learned"
    )


def warn_of_other_form(
    record: Mapping[str, Any], folder: Path, *, has_template: bool = False
) -> None:
    """Warns of what `other_form` returns.

    Warns:
        GymWarning: the base has another tokenizer or chat template.
    """
    if (text := other_form(record, folder, has_template=has_template)) is not None:
        warnings.warn(text, GymWarning, stacklevel=2)


def weights_digest(folder: Path) -> str:
    """Returns a digest of a model's weight files, cached as in `base_digests`.

    Raises:
        GymError: the folder contains no weights.
    """
    return _digest((file.name, _file_digest(file)) for file in checkpoint_files(folder))


def stored_weights_digest(stored: Mapping[str, Any]) -> str | None:
    """Returns the digest of the base's weights in an `env.json` or a result, None if absent."""
    base: Any = stored.get(BASE_KEY)
    digest = base.get(WEIGHTS_PART) if isinstance(base, dict) else None
    return digest if isinstance(digest, str) else None


def _as_read(template: str) -> str:
    """Returns a template as Jinja reads it in transformers.

    One kind of line end; none at the end of the text, and none after a last block.
    """
    text = template.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    return text.removesuffix("\n") if text.endswith("%}\n") else text


def _tokens_digest(folder: Path) -> str:
    settings = read_json_object(folder / _CONFIG) or {}
    stated: dict[str, Any] = {key: settings.get(key) for key in _ADDED}
    for key, value in stated.items():  # a token is text, or a mapping with its text
        if isinstance(value, dict):
            stated[key] = cast("dict[str, Any]", value).get("content")
    stated |= {key: bool(settings.get(key)) for key in _SWITCHES}
    file = folder / _TOKENIZER
    files = [file] if file.is_file() else [folder / name for name in _OTHER_TOKENIZERS]
    contents = ((file.name, _content_digest(file)) for file in files if file.is_file())
    return _digest([*contents, (_CONFIG, _json_digest(stated))])


def _content_digest(file: Path) -> str:
    """Returns the digest of a tokenizer's file: of its values, if it is a JSON object."""
    stamp = _stamp(file)
    if stamp not in _digests_of_files:
        try:
            values: object = json.loads(file.read_bytes())
        except (ValueError, RecursionError):  # another format, or damaged
            return _file_digest(file)
        if not isinstance(values, dict):
            return _file_digest(file)
        values = cast("dict[str, object]", values)
        values = {key: value for key, value in values.items() if key not in _SET_BY_PROGRAMS}
        _digests_of_files[stamp] = _json_digest(values)
    return _digests_of_files[stamp]


def _json_digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _digest(named: Iterable[tuple[str, str]]) -> str:
    total = hashlib.sha256()
    for name, digest in named:
        total.update(f"{name}\0{hashlib.sha256(digest.encode()).hexdigest()}\n".encode())
    return total.hexdigest()


def _file_digest(file: Path) -> str:
    from zoo.core import file_digest

    stamp = _stamp(file)
    if stamp not in _digests_of_files:
        _digests_of_files[stamp] = file_digest(file, zero_at=0, zero_len=0)
    return _digests_of_files[stamp]


def _stamp(file: Path) -> _Stamp:
    status = file.stat()
    return file.absolute(), status.st_size, status.st_mtime_ns
