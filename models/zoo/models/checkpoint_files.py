"""Finds the weight files of a model folder: those that transformers loads, safetensors only.

Checks names, the shard index and the first bytes. The header reader of `zoo.core` reads the content
of a file.
"""

import json
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

from zoo.core.errors import GymWarning, InputError, NotAvailableError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
ADAPTER_FILE = "adapter_model.safetensors"
PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})
LFS_START = b"version https://git-lfs.github.com/spec/"

EXPLICIT_KEY = "transformers_weights"
"""Key in `config.json`: the file to load instead of those with the usual names."""

_INDEX_SUFFIX = ".safetensors.index.json"
_PARALLEL_SHARD = re.compile(r"shard-\d{5}-model-\d{5}-of-\d{5}\.safetensors")


def checkpoint_files(folder: Path) -> list[Path]:
    """Returns the safetensors files that transformers loads from a folder, sorted by name.

    As in transformers, a file specified in the config comes first, then the single file, then the
    shards of the index.

    Raises:
        NotAvailableError: the folder is missing.
        InputError: a shard is missing, is only a Git LFS pointer, or the folder contains no
            weights that can be loaded safely.
    """
    if not folder.is_dir():
        msg = f"no such model folder: '{folder}'"
        raise NotAvailableError(msg, code="models.no_such_folder")
    _refuse_parallel(folder)
    entry = _explicit_file(folder) or _usual_file(folder)
    if entry is None:
        raise _no_weights(folder)
    files = _indexed_files(entry) if entry.name.endswith(_INDEX_SUFFIX) else [entry]
    for file in files:
        _refuse_pointer(file)
    return files


def warn_of_unused_weights(folder: Path) -> None:
    """Warns about a folder with a second set of weights under a usual name.

    Warns:
        GymWarning: lists what is loaded and what is not.
    """
    used = set(checkpoint_files(folder))
    entry = _explicit_file(folder) or _usual_file(folder)
    entries = [folder / name for name in (SINGLE_FILE, INDEX_FILE) if (folder / name).is_file()]
    unused = [file.name for file in entries if file != entry and not _files_of(file) <= used]
    if entry is not None and unused:
        warnings.warn(
            f"{folder}: two sets of weights: {entry.name!r} is loaded, as transformers does, and "
            f"{' and '.join(map(repr, unused))} is not used (remove the wrong one)",
            GymWarning,
            stacklevel=3,
        )


def _files_of(entry: Path) -> set[Path]:
    """Returns the files of a single file or an index, as far as it can be read."""
    if entry.name != INDEX_FILE:
        return {entry}
    try:
        return {entry.parent / name for name in _weight_map(entry).values()}
    except InputError:
        return {entry}


def _usual_file(folder: Path) -> Path | None:
    files = (folder / name for name in (SINGLE_FILE, INDEX_FILE))
    return next((file for file in files if file.is_file()), None)


def _explicit_file(folder: Path) -> Path | None:
    """Returns the file specified in the config; checks nothing else in the config."""
    path = folder / "config.json"
    try:
        config: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    name = config.get(EXPLICIT_KEY) if isinstance(config, dict) else None
    if name is None:
        return None
    if "text_config" in config:  # transformers reads the key there or here, by architecture
        msg = f"'{path}': {EXPLICIT_KEY}: expected none together with a text_config, got {name!r}"
        raise InputError(msg, code="models.bad_weights_key")
    shard = name.removesuffix(".index.json") if isinstance(name, str) else ""
    if not _is_plain_shard(shard):
        expected = "the name of a .safetensors file or its index in the folder"
        raise InputError(
            f"'{path}': {EXPLICIT_KEY}: expected {expected}, got {name!r}",
            code="models.bad_weights_key",
        )
    if not (folder / name).is_file():
        msg = f"incomplete model in '{folder}': '{name}' from the config is missing"
        raise InputError(msg, hint="copy or download the folder again", code="models.incomplete")
    return folder / str(name)


def _refuse_parallel(folder: Path) -> None:
    """Refuses files of tensor-parallel training, which transformers would load first."""
    names = sorted(path.name for path in folder.iterdir() if _PARALLEL_SHARD.fullmatch(path.name))
    if names:
        msg = f"'{folder}': expected whole tensors, got parts from a parallel training: "
        raise InputError(
            f"{msg}'{names[0]}'",
            hint="save the whole model, or move these files elsewhere",
            code="models.parallel_parts",
        )


def _indexed_files(index: Path) -> list[Path]:
    names = sorted(set(_weight_map(index).values()))
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        msg = f"incomplete model in '{index.parent}': '{missing[0]}' from the index is missing"
        raise InputError(msg, hint="copy or download the folder again", code="models.incomplete")
    return [index.parent / name for name in names]


def _weight_map(index: Path) -> dict[str, str]:
    """Returns tensor name -> file name; a file name never leaves the folder."""
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        msg = f"'{index}' is not a shard index: expected JSON, got {type(error).__name__}: {error}"
        raise InputError(msg, code="models.bad_index") from error
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        msg = f"'{index}' is not a shard index: expected tensor names under 'weight_map'"
        raise InputError(msg, code="models.bad_index")
    for name in weight_map.values():
        if not _is_plain_shard(name):
            msg = f"'{index}': expected the name of a .safetensors file in its folder, got {name!r}"
            raise InputError(msg, code="models.bad_index")
    return weight_map


def _is_plain_shard(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.endswith(".safetensors")
        and not any(separator in name for separator in "/\\:\0")
    )


def _refuse_pointer(file: Path) -> None:
    with file.open("rb") as stream:
        start = stream.read(len(LFS_START))
    if start == LFS_START:
        size = file.stat().st_size
        msg = f"'{file}' is a Git LFS pointer: expected weights, got {size} bytes of text"
        raise InputError(
            msg, hint=f"git -C {shlex.quote(str(file.parent))} lfs pull", code="models.lfs_pointer"
        )


def _no_weights(folder: Path) -> InputError:
    """Returns the error that says what the folder contains instead of weights."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    pickles = [name for name in names if Path(name).suffix in PICKLE_SUFFIXES]
    if ADAPTER_FILE in names:
        msg = f"'{folder}' is an adapter: expected a whole model, got '{ADAPTER_FILE}'"
        return InputError(
            msg, hint="--model BASE --adapter_name_or_path this folder", code="models.is_adapter"
        )
    if pickles:
        listed = ", ".join(f"'{name}'" for name in pickles)
        msg = f"only pickled weights in '{folder}': expected safetensors, got {listed}"
        return InputError(
            msg,
            hint="loading a pickle can run arbitrary code; save it as safetensors",
            code="models.pickled_weights",
        )
    msg = f"no weights in '{folder}': expected '{SINGLE_FILE}' or '{INDEX_FILE}'"
    return InputError(msg, code="models.no_weights")
