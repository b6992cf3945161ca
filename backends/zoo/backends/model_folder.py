"""Reads a model folder without an engine: its config, and the names and types of its tensors."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from zoo.core import read_header
from zoo.core.errors import GymWarning, InputError, NotAvailableError
from zoo.models import checkpoint_files
from zoo.models.adapters import CONFIG_FILE
from zoo.models.folder import is_reward_model, read_object
from zoo.models.refusals import refusals

PLAIN_DTYPES = ("F64", "F32", "F16", "BF16")
"""Types whose values are the weights themselves."""

CODE_DTYPES = ("I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4")
"""Types of quantised codes, which need a scale to become weights."""

CONSTANTS = (".attn.bias", ".attention.bias", ".masked_bias", ".causal_mask", ".inv_freq")
"""Suffixes of constants in old checkpoints: masks and rotary frequencies."""


def read_config(folder: Path) -> Any:  # noqa: ANN401
    """Returns the folder's transformers config.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: the config is missing or damaged, or its architecture is unknown or not a
            causal language model; a reward model is none.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    path, config = folder / "config.json", read_config_of(folder)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        kind = config.model_type
        raise InputError(
            f"{path}: model_type: expected a causal language model, got {kind!r}",
            code="backends.not_causal",
        )
    if is_reward_model(folder):
        raise InputError(
            f"{path}: architectures: expected a causal language model, got "
            f"{config.architectures[0]}",
            hint=f"a reward model scores answers: reward={folder}",
            code="backends.not_causal",
        )
    with refusals(f"{path}: this config cannot be used"):
        layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    if isinstance(layers, int) and layers < 1:
        raise InputError(
            f"{path}: number of layers: expected at least 1, got {layers}",
            code="backends.bad_config",
        )
    return config


def read_config_of(folder: Path) -> Any:  # noqa: ANN401
    """Returns the folder's transformers config, of whatever kind of model.

    Raises:
        NotAvailableError: there is no such folder.
        InputError: the config is missing or damaged, or its architecture is unknown.
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    path = folder / "config.json"
    if not folder.is_dir():
        raise NotAvailableError(f"{folder}: no such model folder", code="models.no_such_folder")
    if not path.is_file():
        raise InputError(
            f"{folder}: no config.json there: expected a Hugging Face model folder",
            code="models.no_config",
        )
    kind = read_object(path).get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise InputError(
            f"{path}: model_type: unknown architecture {kind!r}",
            hint="it needs a newer transformers, or custom code, which is never run",
            code="backends.unknown_architecture",
        )
    with refusals(f"{path}: this config cannot be used", folder):
        return AutoConfig.from_pretrained(folder, local_files_only=True)


def tensor_names(folder: Path) -> set[str]:
    """Returns the names of the tensors in a model folder's files."""
    return {name for file in checkpoint_files(folder) for name in read_header(file).tensors}


def refuse_codes(folder: Path, files: list[Path]) -> None:
    """Refuses quantised codes without a scale: read as weights, they give a broken model.

    Integers in place of weights are codes; elsewhere they are masks and indices.

    Raises:
        InputError: a tensor has the type of codes.
    """
    for file in files:
        for name, info in read_header(file).tensors.items():
            odd = name.endswith(".weight") and info.dtype not in PLAIN_DTYPES
            if odd or info.dtype in CODE_DTYPES:
                raise InputError(
                    f"{folder}: {name}: expected weights in {', '.join(PLAIN_DTYPES)}, "
                    f"got {info.dtype}",
                    hint="the checkpoint is quantised, but its config does not say how: use the "
                    "original model",
                    code="backends.weight_type",
                )


def warn_of_unused(folder: Path, names: Iterable[str]) -> None:
    """Warns of unused tensors: a layer may be misnamed, or missing in the config.

    Args:
        folder: the model's folder.
        names: the tensors of its files that are not part of the model.
    """
    unused = sorted(name for name in names if not name.endswith(CONSTANTS))
    if unused:
        warnings.warn(
            f"{folder}: {_tensors_are(len(unused))} not part of this model and not used, "
            f"the first is {unused[0]!r}",
            GymWarning,
            stacklevel=3,
        )


def refuse_holes(
    folder: Path,
    missing: Iterable[str],
    mismatched: Iterable[tuple[str, Sequence[int], Sequence[int]]],
) -> None:
    """Refuses a model with missing weights: they would be random, without any error.

    Args:
        folder: the model's folder.
        missing: the tensors of the model that its files lack.
        mismatched: name, shape in the files, and shape in the model.

    Raises:
        InputError: there is one.
    """
    for name, got, expected in sorted(mismatched):
        raise InputError(
            f"{folder}: {name}: shape mismatch: expected {tuple(expected)}, got {tuple(got)}",
            hint="config.json and the weights belong to different models",
            code="backends.weights_do_not_fit",
        )
    names = sorted(missing)
    if names:
        raise InputError(
            f"{folder}: {_tensors_are(len(names))} missing, the first is {names[0]!r}",
            hint="config.json and the weights belong to different models",
            code="backends.weights_do_not_fit",
        )


def _tensors_are(count: int) -> str:
    return "1 tensor is" if count == 1 else f"{count} tensors are"


def warn_of_unused_adapter(folder: Path, adapter: Path | None) -> None:
    """Warns of an adapter in a model's folder that is not the one to load."""
    if not (folder / CONFIG_FILE).is_file():
        return
    if adapter is not None and adapter.resolve() == folder.resolve():
        return
    warnings.warn(
        f"{folder}: the {CONFIG_FILE} in this model's folder is not used: the model is loaded "
        f"without an adapter (--adapter_name_or_path {folder} loads it)",
        GymWarning,
        stacklevel=3,
    )
