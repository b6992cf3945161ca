"""Reads and writes LoRA adapters as peft stores them.

Read: linear layers only, alpha/r folded into B (alpha/sqrt r for rsLoRA, arXiv:2312.03732).
Whatever else an adapter may hold (DoRA, biases, whole modules, embeddings) is refused in a
sentence, because a delta that left it out would be another model.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.safetensors import Entry, write_safetensors
from zoo.gym.delta.weights import Weights, open_weights, read_float32, refuse_not_finite
from zoo.gym.errors import InputError
from zoo.gym.files import storage_errors
from zoo.models.checkpoint_files import SINGLE_FILE
from zoo.models.folder import holds_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIG = "adapter_config.json"
FILE = "adapter_model.safetensors"

_FACTOR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_REFUSED = {
    "use_dora": "DoRA's magnitudes",
    "fan_in_fan_out": "weights stored as [in, out]",
    "modules_to_save": "whole modules",
    "trainable_token_indices": "trained token rows",
    "target_parameters": "parameters that are no module's weight",
    "layer_replication": "replicated layers",
    "lora_bias": "a bias in B",
    "use_qalora": "QALoRA",
    "use_bdlora": "block-diagonal LoRA",
    "alora_invocation_tokens": "activated LoRA",
    "arrow_config": "Arrow routing",
    "kasa_config": "KaSA",
    "monteclora_config": "MonteCLoRA",
}
_CHANGES_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")  # starts that alter the base


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter on disk.

    Attributes:
        weights: its tensors.
        scales: by base tensor name, what B is multiplied by.
        factors: by base tensor name, the names of A and B in `weights`.
    """

    weights: Weights
    scales: Mapping[str, float]
    factors: Mapping[str, tuple[str, str]]


def is_adapter(source: Path) -> bool:
    """Says whether `source` is a peft folder or a file of LoRA factors.

    Raises:
        InputError: a folder holds a whole model and an adapter.
    """
    if source.is_dir():
        if not holds_model(source):
            return (source / CONFIG).is_file()
        if (source / CONFIG).is_file() and (source / FILE).is_file():
            raise InputError(
                f"{source}: expected a model or an adapter, got both",
                hint=f"name the file that is meant: {source / FILE} or {source / SINGLE_FILE}",
            )
        return False
    return source.is_file() and any(".lora_" in name for name in open_weights(source).tensors)


def read_adapter(source: Path) -> Adapter:
    """Reads the config and the tensor headers of an adapter.

    Args:
        source: a peft folder, or its safetensors file with adapter_config.json beside.

    Raises:
        InputError: a part is absent, or the adapter holds what a delta cannot carry.
    """
    file = source / FILE if source.is_dir() else source
    config = _read_config(file.parent / CONFIG)
    if not file.is_file():
        pickled = (source / "adapter_model.bin").is_file()
        got = "pickled weights only, which can run any program" if pickled else "none"
        raise InputError(f"{source}: expected {FILE!r} beside {CONFIG!r}, got {got}")
    weights = open_weights(file)
    modules = _modules(weights)
    factors = {f"{module}.weight": pair for module, pair in sorted(modules.items())}
    ranks = {module: weights.shape(pair[0])[0] for module, pair in modules.items()}
    scales = {f"{name}.weight": _scale(config, name, rank, file) for name, rank in ranks.items()}
    return Adapter(weights, scales, factors)


def read_factors(adapter: Adapter, name: str) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Returns A as [r, in] and the folded B, transposed, as [r, out].

    Raises:
        InputError: the shapes do not fit each other, or a value is not finite.
    """
    import numpy as np

    A_name, B_name = adapter.factors[name]
    A = read_float32(adapter.weights, A_name)
    B = read_float32(adapter.weights, B_name)
    where = f"{adapter.weights.source}: tensor"
    refuse_not_finite(A, f"{where} {A_name!r}")
    refuse_not_finite(B, f"{where} {B_name!r}")
    folded = np.ascontiguousarray(B.T) * np.float32(adapter.scales[name])
    refuse_not_finite(folded, f"{where} {B_name!r} times {adapter.scales[name]}, transposed")
    return A, folded


def write_adapter(
    folder: Path,
    factors: "Iterator[tuple[str, NDArray[np.float32], NDArray[np.float32]]]",
    base_id: str,
    scaled: float,
) -> None:
    """Writes factors as a peft folder in float32, with alpha = `scaled` times the rank.

    Args:
        folder: an existing folder.
        factors: base tensor name, A as [r, in], B transposed as [r, out].
        base_id: what the config names as the base.
        scaled: what the product of the factors is multiplied by.
    """
    import numpy as np

    entries: list[Entry] = []
    arrays: list[NDArray[Any]] = []
    ranks: dict[str, int] = {}
    for name, A, B in factors:
        module = name.removesuffix(".weight")
        ranks[module] = len(A)
        for side, array in (("A", A), ("B", np.ascontiguousarray(B.T))):
            key = f"base_model.model.{module}.lora_{side}.weight"
            entries.append(Entry(key, "F32", array.shape))
            arrays.append(array)
    write_safetensors(folder / FILE, entries, {"format": "pt"}, arrays)
    with storage_errors(folder):
        text = json.dumps(_peft_config(ranks, base_id, scaled), indent=2) + "\n"
        (folder / CONFIG).write_text(text, encoding="utf-8")


def _peft_config(ranks: Mapping[str, int], base_id: str, scaled: float) -> dict[str, Any]:
    largest = max(ranks.values())
    smaller = {f"^{re.escape(name)}": rank for name, rank in ranks.items() if rank < largest}
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_id,
        "r": largest,
        "lora_alpha": scaled * largest,
        "rank_pattern": smaller,
        "alpha_pattern": {pattern: scaled * rank for pattern, rank in smaller.items()},
        "target_modules": sorted(ranks),
        "inference_mode": True,
    }


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path.parent}: LoRA factors need {CONFIG!r} beside, got none") from error
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        kind = config.get("peft_type") if isinstance(config, dict) else config
        raise InputError(f"{path}: peft_type: expected 'LORA', got {kind!r}")
    _refuse_unsupported(config, path)
    return config


def _refuse_unsupported(config: Mapping[str, Any], path: Path) -> None:
    for key, what in _REFUSED.items():
        if config.get(key):
            raise InputError(f"{path}: {key}: a low-rank delta cannot carry {what}")
    if config.get("bias", "none") != "none":
        raise InputError(f"{path}: bias: expected 'none', got {config['bias']!r}")
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
        hint = "save the adapter with peft's path_initial_model_for_weight_conversion"
        message = f"{path}: init_lora_weights: {start!r} changes the base, so the adapter alone"
        raise InputError(f"{message} is not the fine-tune", hint=hint)


def _modules(weights: Weights) -> dict[str, tuple[str, str]]:
    sides: dict[str, dict[str, str]] = {}
    for name in weights.tensors:
        match = _FACTOR.fullmatch(name)
        if match is None:
            where = f"{weights.source}: tensor {name!r}"
            raise InputError(f"{where}: expected the lora_A or lora_B of a linear layer")
        sides.setdefault(match["module"], {})[match["side"]] = name
    for module, pair in sides.items():
        if len(pair) != 2:
            raise InputError(f"{weights.source}: {module!r}: expected lora_A and lora_B, got one")
        _check_ranks(weights, pair["A"], pair["B"])
    return {module: (pair["A"], pair["B"]) for module, pair in sides.items()}


def _check_ranks(weights: Weights, A_name: str, B_name: str) -> None:
    A, B = weights.shape(A_name), weights.shape(B_name)
    if len(A) != 2 or len(B) != 2 or A[0] != B[1]:
        message = f"expected [r, in] and [out, r], got {list(A)} and {list(B)}"
        raise InputError(f"{weights.source}: tensors {A_name!r} and {B_name!r}: {message}")


def _scale(config: Mapping[str, Any], module: str, rank: int, file: Path) -> float:
    alpha = _pattern_value(config.get("alpha_pattern") or {}, module, config.get("lora_alpha", 8))
    told = _pattern_value(config.get("rank_pattern") or {}, module, config.get("r", 8))
    if told != rank:
        raise InputError(f"{file}: {module!r}: expected rank {told!r} by {CONFIG!r}, got {rank}")
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _pattern_value(patterns: Mapping[str, Any], module: str, default: Any) -> Any:  # noqa: ANN401
    """The value of the first pattern that ends the module's path, as peft reads them."""
    for pattern, value in patterns.items():
        if re.match(rf"(.*\.)?({pattern})$", module):
            return value
    return default
