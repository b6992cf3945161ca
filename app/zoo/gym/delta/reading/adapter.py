"""Reads and writes LoRA adapters as peft stores them.

Only linear layers are read, with alpha/r (alpha/sqrt r for rsLoRA, arXiv:2312.03732) folded into B.
Anything else in an adapter (DoRA, biases, whole modules, embeddings) is refused, because a delta
without it would be another model.
"""

import json
import math
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.codecs.floats import refuse_not_finite
from zoo.gym.delta.file.writer import Entry, write_safetensors
from zoo.gym.delta.reading.weights import (
    Weights,
    check_places,
    open_weights,
    read_float32,
    tensors_of,
    transposed,
)
from zoo.gym.errors import InputError
from zoo.gym.files import storage_errors
from zoo.models.adapters import CONFIG_FILE, WEIGHTS_FILE, pattern_values, read_adapter_config
from zoo.models.checkpoint_files import SINGLE_FILE
from zoo.models.folder import IN_BY_OUT, holds_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FACTOR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_REFUSED = {
    "use_dora": "DoRA's magnitudes",
    "modules_to_save": "whole modules",
    "loftq_config": "an adapter for a quantised base (LoftQ), which is another base",
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
_CHANGES_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")  # these change the base


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter on disk.

    Attributes:
        weights: its tensors.
        scales: the factors for B, by base tensor name.
        factors: the names of A and B in `weights`, by base tensor name.
        transposed: the names of base tensors that are stored as [in, out].
    """

    weights: Weights
    scales: Mapping[str, float]
    factors: Mapping[str, tuple[str, str]]
    transposed: frozenset[str] = frozenset()

    @property
    def rank(self) -> int:
        """The highest rank of its factors."""
        return max(self.weights.shape(names[0])[0] for names in self.factors.values())

    def require_rank(self, cut: int | None) -> None:
        """Refuses a rank to cut to that none of its factors exceeds.

        Raises:
            InputError: the cut would have no effect.
        """
        if cut is not None and cut >= self.rank:
            raise InputError(
                f"rank: expected below {self.rank}, that of the adapter, got {cut}",
                code="delta.bad_rank",
            )


def is_adapter(source: Path) -> bool:
    """Returns whether `source` is a peft folder or a file of LoRA factors.

    Raises:
        InputError: a folder contains both a full model and an adapter.
    """
    if source.is_dir():
        if not holds_model(source):
            return (source / CONFIG_FILE).is_file()
        if (source / CONFIG_FILE).is_file() and (source / WEIGHTS_FILE).is_file():
            raise InputError(
                f"{source}: expected a model or an adapter, got both",
                hint=f"give the path of one file: {source / WEIGHTS_FILE} "
                f"or {source / SINGLE_FILE}",
                code="delta.model_and_adapter",
            )
        return False
    return source.is_file() and any(".lora_" in name for name in open_weights(source).tensors)


def read_adapter(source: Path, base: Weights) -> Adapter:
    """Reads the config and the tensor headers of an adapter.

    Args:
        source: a peft folder, or its safetensors file with adapter_config.json next to it.
        base: the model that it belongs to.

    Raises:
        InputError: a file is missing, the tensors do not match the config, or the adapter contains
            something that a delta cannot store.
    """
    file = source / WEIGHTS_FILE if source.is_dir() else source
    config_file = file.parent / CONFIG_FILE
    config = _read_config(config_file)
    if not file.is_file():
        pickled = (source / "adapter_model.bin").is_file()
        got = "only pickled weights, which can run any program" if pickled else "none"
        raise InputError(
            f"{source}: expected {WEIGHTS_FILE!r} next to {CONFIG_FILE!r}, got {got}",
            code="delta.incomplete_adapter",
        )
    weights = open_weights(file, mapped=False)
    modules = _modules(weights)
    check_places(config, modules, base, file, config_file)
    ranks = {module: weights.shape(pair[0])[0] for module, pair in modules.items()}
    scales = _scales(config, ranks, file, config_file)
    names = tensors_of(modules, base)
    turned = frozenset(name for name in names.values() if transposed(name, base))
    if config.get("fan_in_fan_out") and not turned:
        raise InputError(
            f"{config_file}: fan_in_fan_out: weights stored as [in, out] are supported only for "
            f"{', '.join(sorted(IN_BY_OUT))}",
            code="delta.adapter_not_supported",
        )
    return Adapter(
        weights,
        {names[module]: scale for module, scale in scales.items()},
        {names[module]: modules[module] for module in sorted(modules)},
        turned,
    )


def read_factors(adapter: Adapter, name: str) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
    """Returns A as [r, in] and the folded B, transposed, as [r, out].

    The two are swapped if the base stores [in, out]: A always belongs to the columns.

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
    return (folded, A) if name in adapter.transposed else (A, folded)


def write_adapter(
    folder: Path,
    factors: "Iterator[tuple[str, NDArray[np.float32], NDArray[np.float32]]]",
    base_id: str,
    scaled: float,
    *,
    modules: Mapping[str, str] | None = None,
    transposed: Container[str] = (),
) -> None:
    """Writes factors as a peft folder in float32, with alpha = `scaled` times the rank.

    Args:
        folder: an existing folder.
        factors: base tensor name, A as [r, columns], B transposed as [r, rows].
        base_id: the name of the base in the config.
        scaled: the factor for the product.
        modules: the loaded model's layers by the base's tensor names; by default the same names.
        transposed: the base tensors that are stored as [in, out].

    Raises:
        InputError: a value is not finite.
        StorageError: the folder cannot be written.
    """
    import numpy as np

    entries: list[Entry] = []
    arrays: list[NDArray[Any]] = []
    ranks: dict[str, int] = {}
    turned = False
    for name, first, second in factors:
        A, B = (second, first) if name in transposed else (first, second)
        turned |= name in transposed
        module = (modules or {}).get(name, name.removesuffix(".weight"))
        ranks[module] = len(A)
        for side, array in (("A", A), ("B", np.ascontiguousarray(B.T))):
            key = f"base_model.model.{module}.lora_{side}.weight"
            refuse_not_finite(array, f"{folder}: tensor {key!r}")
            entries.append(Entry(key, "F32", array.shape))
            arrays.append(np.ascontiguousarray(array))
    write_safetensors(folder / WEIGHTS_FILE, entries, {"format": "pt"}, arrays)
    with storage_errors(folder):
        settings = _peft_config(ranks, base_id, scaled) | {"fan_in_fan_out": turned}
        text = json.dumps(settings, indent=2) + "\n"
        (folder / CONFIG_FILE).write_text(text, encoding="utf-8")


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
        config = read_adapter_config(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{path.parent}: expected {CONFIG_FILE!r} next to the LoRA factors, got none",
            code="delta.incomplete_adapter",
        ) from error
    if config["peft_type"] != "LORA":
        raise InputError(
            f"{path}: peft_type: expected 'LORA', got {config['peft_type']!r}, which changes whole "
            "weights: a low-rank delta cannot carry it",
            hint="share the adapter's folder itself, or train with finetuning_type lora or full",
            code="delta.adapter_not_supported",
        )
    _refuse_unsupported(config, path)
    return config


def _refuse_unsupported(config: Mapping[str, Any], path: Path) -> None:
    for key, what in _REFUSED.items():
        if config.get(key):
            raise InputError(
                f"{path}: {key}: a low-rank delta cannot carry {what}",
                code="delta.adapter_not_supported",
            )
    if config.get("bias", "none") != "none":
        raise InputError(
            f"{path}: bias: expected 'none', got {config['bias']!r}",
            code="delta.adapter_not_supported",
        )
    start = config.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_BASE):
        hint = "save the adapter with peft's path_initial_model_for_weight_conversion"
        message = f"{path}: init_lora_weights: {start!r} changes the base, so the adapter alone"
        raise InputError(
            f"{message} is not the fine-tune", hint=hint, code="delta.incomplete_adapter"
        )


def _modules(weights: Weights) -> dict[str, tuple[str, str]]:
    sides: dict[str, dict[str, str]] = {}
    for name in weights.tensors:
        match = _FACTOR.fullmatch(name)
        if match is None:
            where = f"{weights.source}: tensor {name!r}"
            if ".lora_embedding_" in name:
                raise InputError(
                    f"{where}: expected a linear layer, got an embedding",
                    code="delta.adapter_not_supported",
                )
            raise InputError(
                f"{where}: expected the lora_A or lora_B of a linear layer",
                code="delta.adapter_not_supported",
            )
        sides.setdefault(match["module"], {})[match["side"]] = name
    for module, pair in sides.items():
        if len(pair) != 2:
            raise InputError(
                f"{weights.source}: {module!r}: expected lora_A and lora_B, got one",
                code="delta.incomplete_adapter",
            )
        _check_ranks(weights, pair["A"], pair["B"])
    return {module: (pair["A"], pair["B"]) for module, pair in sides.items()}


def _check_ranks(weights: Weights, A_name: str, B_name: str) -> None:
    A, B = weights.shape(A_name), weights.shape(B_name)
    if len(A) != 2 or len(B) != 2 or A[0] != B[1]:
        message = f"expected [r, in] and [out, r], got {list(A)} and {list(B)}"
        raise InputError(
            f"{weights.source}: tensors {A_name!r} and {B_name!r}: {message}",
            code="delta.bad_factors",
        )


def _scales(
    config: Mapping[str, Any], ranks: Mapping[str, int], file: Path, config_file: Path
) -> dict[str, float]:
    """Returns the factor for each module's B."""
    modules = sorted(ranks)
    values = (
        pattern_values(config.get(key) or {}, modules, config.get(default, 8), str(config_file))
        for key, default in (("alpha_pattern", "lora_alpha"), ("rank_pattern", "r"))
    )
    alphas, expected = values
    for module in modules:
        if expected[module] != ranks[module]:
            raise InputError(
                f"{file}: {module!r}: expected rank {expected[module]!r} by {CONFIG_FILE!r}, "
                f"got {ranks[module]}",
                code="delta.bad_adapter_config",
            )
        if not isinstance(alphas[module], int | float):
            got = f"{alphas[module]!r:.80}"
            raise InputError(
                f"{config_file}: lora_alpha: expected a number, got {got}",
                code="delta.bad_adapter_config",
            )
    roots = config.get("use_rslora")
    return {m: float(alphas[m]) / (math.sqrt(ranks[m]) if roots else ranks[m]) for m in modules}
