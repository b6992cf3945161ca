"""Models and tokenizers that a Python program has in memory, as folders that a run can load.

A model is written to a folder of zoo-gym, unless its weights are those of the folder that it was
loaded from: then that one is used. The given model itself is never changed. Nothing here imports
an engine: the model writes itself.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from zoo.gym.arguments import path_of
from zoo.gym.errors import InputError, NotAvailableError
from zoo.gym.paths import ensure_folder, folders
from zoo.models import resolve

_OF_THE_FILE = {"_name_or_path", "transformers_version", "dtype", "torch_dtype"}
"""What the settings of equal models may differ in: the types are those of the weights."""

_EXPECTED = "expected a name, a folder or a model of transformers"


def model_name(model: object, tokenizer: Any = None) -> str:  # noqa: ANN401 - transformers' classes
    """Returns the name or folder of a model, which is written to disk if it is in memory.

    Args:
        model: a name, a folder, or a model of transformers.
        tokenizer: one of transformers; None for the model's own.

    Raises:
        InputError: it is something else, has an adapter, or a named model has another tokenizer.
        NotAvailableError: a named model is not on this machine.
    """
    if isinstance(model, str | os.PathLike):
        name = model if isinstance(model, str) else str(path_of("model", model).absolute())
        folder = resolve(name, offline=True).folder
        if tokenizer is not None and not _same_tokenizer(tokenizer, folder):
            raise InputError(
                f"tokenizer: expected the one of {name}, got another",
                hint="leave it out, or save model and tokenizer in one folder and name that",
                code="published.other_tokenizer",
            )
        return name
    live: Any = model
    _check_live("model", live)
    folder = Path(tempfile.mkdtemp(prefix="model-", dir=ensure_folder(folders().data / "models")))
    live.save_pretrained(folder)
    origin = _origin(live)
    if origin is not None and _is_unchanged(folder, tokenizer, origin):
        shutil.rmtree(folder)
        return str(live.config._name_or_path)  # transformers has no other name for it
    if tokenizer is None:
        tokenizer = _own_tokenizer(origin)
    tokenizer.save_pretrained(folder)
    return str(folder)


def is_same_model(name: str, other: object) -> bool:
    """Returns whether another model has the weights of a named one.

    Args:
        name: a name or a folder.
        other: a name, a folder, or a model of transformers.

    Raises:
        InputError: `other` is something else.
        NotAvailableError: a named model is not on this machine.
    """
    folder = resolve(name, offline=True).folder
    if isinstance(other, str | os.PathLike):
        resolved = resolve(other, offline=True).folder
        return resolved.resolve() == folder.resolve() or _same_weights(resolved, folder)
    live: Any = other
    _check_live("ref_model", live)
    with tempfile.TemporaryDirectory(dir=ensure_folder(folders().cache)) as written:
        live.save_pretrained(written)
        return _same_weights(Path(written), folder)


def _check_live(name: str, model: Any) -> None:  # noqa: ANN401
    if not hasattr(model, "save_pretrained") or not hasattr(model, "config"):
        raise InputError(
            f"{name}: {_EXPECTED}, got a value of type {type(model).__name__}",
            code="published.bad_model",
        )
    if getattr(model, "peft_config", None) or getattr(model, "_hf_peft_config_loaded", False):
        raise InputError(
            f"{name}: expected a model without an adapter, got one with an adapter",
            hint="merge it first: model = model.merge_and_unload()",
            code="published.bad_model",
        )


def _is_unchanged(folder: Path, tokenizer: Any, origin: Path) -> bool:  # noqa: ANN401
    is_same = tokenizer is None or _same_tokenizer(tokenizer, origin)
    return is_same and _same_config(folder, origin) and _same_weights(folder, origin)


def _origin(model: Any) -> Path | None:  # noqa: ANN401
    """Returns the folder that a model was loaded from, None if it is not here."""
    name = getattr(model.config, "_name_or_path", "")
    try:
        return resolve(name, offline=True).folder if name else None
    except (NotAvailableError, InputError):
        return None


def _own_tokenizer(origin: Path | None) -> Any:  # noqa: ANN401
    from zoo.gym.data import load_tokenizer

    if origin is None:
        raise InputError(
            "tokenizer: not given, and the model was not loaded from a folder with one",
            code="published.no_tokenizer",
        )
    return load_tokenizer(origin)


def _same_tokenizer(tokenizer: Any, folder: Path) -> bool:  # noqa: ANN401
    from zoo.gym.data import load_tokenizer

    loaded: Any = load_tokenizer(folder)
    same_words = tokenizer.get_vocab() == loaded.get_vocab()
    return bool(same_words and tokenizer.chat_template == loaded.chat_template)


def _same_config(folder: Path, other: Path) -> bool:
    """Returns whether two folders have equal settings of the model, defaults included."""
    from transformers import AutoConfig

    configs = [AutoConfig.from_pretrained(path, local_files_only=True) for path in (folder, other)]
    first, second = (
        {key: value for key, value in path.to_dict().items() if key not in _OF_THE_FILE}
        for path in configs
    )
    return first == second


def _same_weights(folder: Path, other: Path) -> bool:
    """Returns whether two folders have tensors of the same names, types and bytes."""
    from zoo.gym.delta.reading.weights import open_weights, same_values, stored_bytes

    first, second = open_weights(folder), open_weights(other)
    return first.tensors.keys() == second.tensors.keys() and all(
        (first.dtype(name), first.shape(name)) == (second.dtype(name), second.shape(name))
        and same_values(stored_bytes(first, name), stored_bytes(second, name))
        for name in first.tensors
    )
