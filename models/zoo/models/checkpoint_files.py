"""Which files of a model folder hold its weights; only safetensors count.

Looks at names, the shard index and the first bytes. What is inside a file is for the header reader
of `zoo.core`.
"""

import json
from pathlib import Path

from zoo.core.errors import InputError, NotAvailableError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
ADAPTER_FILE = "adapter_model.safetensors"
PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})
LFS_START = b"version https://git-lfs.github.com/spec/"


def checkpoint_files(folder: Path) -> list[Path]:
    """Returns the safetensors files of a model folder, in the order of their names.

    Raises:
        NotAvailableError: the folder is absent.
        InputError: a shard is missing, is only a Git LFS pointer, or the folder holds no weights
            that can be loaded safely.
    """
    if not folder.is_dir():
        msg = f"no such model folder: '{folder}'"
        raise NotAvailableError(msg)
    if (folder / INDEX_FILE).is_file():
        files = _indexed_files(folder / INDEX_FILE)
    elif (folder / SINGLE_FILE).is_file():
        files = [folder / SINGLE_FILE]
    else:
        raise _no_weights(folder)
    for file in files:
        _refuse_pointer(file)
    return files


def _indexed_files(index: Path) -> list[Path]:
    names = sorted(set(_weight_map(index).values()))
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        msg = (
            f"incomplete model in '{index.parent}': the index names '{missing[0]}', which is absent"
        )
        raise InputError(msg, hint="copy or download the folder again")
    return [index.parent / name for name in names]


def _weight_map(index: Path) -> dict[str, str]:
    """Returns tensor name -> file name; a file name never leaves the folder."""
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        msg = f"'{index}' is no shard index: expected JSON, got {type(error).__name__}: {error}"
        raise InputError(msg) from error
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        msg = f"'{index}' is no shard index: expected tensor names under 'weight_map'"
        raise InputError(msg)
    for name in weight_map.values():
        if not _is_plain_shard(name):
            msg = f"'{index}': expected the name of a .safetensors file in its folder, got {name!r}"
            raise InputError(msg)
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
        msg = f"'{file}' is a Git LFS pointer: expected weights, got {size} bytes that name them"
        raise InputError(msg, hint=f"git -C '{file.parent}' lfs pull")


def _no_weights(folder: Path) -> InputError:
    """Returns the error that says what the folder holds instead of weights."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    pickles = [name for name in names if Path(name).suffix in PICKLE_SUFFIXES]
    if ADAPTER_FILE in names:
        msg = f"'{folder}' is an adapter: expected a whole model, got '{ADAPTER_FILE}'"
        return InputError(msg, hint="--model its base, --adapter_name_or_path this folder")
    if pickles:
        listed = ", ".join(f"'{name}'" for name in pickles)
        msg = f"only pickled weights in '{folder}': expected safetensors, got {listed}"
        return InputError(msg, hint="loading a pickle can run any program; save it as safetensors")
    msg = f"no weights in '{folder}': expected '{SINGLE_FILE}' or '{INDEX_FILE}'"
    return InputError(msg)
