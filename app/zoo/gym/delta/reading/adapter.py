"""Reads and writes LoRA adapters as peft stores them.

Linear layers and stacked experts are read, with alpha/r (alpha/sqrt r for rsLoRA, arXiv:2312.03732)
folded into B. Anything else in an adapter (DoRA, biases, whole modules, embeddings) is refused,
because a delta without it would be another model.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.gym.delta.codecs.floats import refuse_not_finite
from zoo.gym.delta.file.writer import Entry, write_safetensors
from zoo.gym.delta.reading.experts import (
    Factors,
    Piece,
    beside_experts,
    joined,
    pieces,
    stack_shape,
    targeted_parameters,
    wrappers,
)
from zoo.gym.delta.reading.weights import (
    Weights,
    check_places,
    open_weights,
    parts_of,
    read_float32,
    tensors_of,
    transposed,
)
from zoo.gym.errors import InputError
from zoo.gym.files import storage_errors
from zoo.models.adapters import (
    CONFIG_FILE,
    WEIGHT,
    WEIGHTS_FILE,
    pattern_values,
    read_adapter_config,
    refuse_strays,
)
from zoo.models.checkpoint_files import SINGLE_FILE
from zoo.models.folder import IN_BY_OUT, holds_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Parts

_FACTOR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_REFUSED = {
    "use_dora": "DoRA's magnitudes",
    "modules_to_save": "whole modules",
    "loftq_config": "an adapter for a quantised base (LoftQ), which is another base",
    "trainable_token_indices": "trained token rows",
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
        pieces: where base tensors are in the stacks that `factors` are of.
        stacks: the factors of the stacks that were read last.
    """

    weights: Weights
    scales: Mapping[str, float]
    factors: Mapping[str, tuple[str, str]]
    transposed: frozenset[str] = frozenset()
    pieces: Mapping[str, Piece] = field(default_factory=dict[str, Piece])
    stacks: "dict[str, Factors]" = field(default_factory=dict[str, "Factors"])

    @property
    def rank(self) -> int:
        """The highest rank of its factors."""
        return max(
            self.weights.shape(A_name)[0] // self.experts(name)
            for name, (A_name, _) in self.factors.items()
        )

    def experts(self, name: str) -> int:
        """Returns how many experts the factors of a tensor are for; 1 if they are its alone."""
        return self.pieces[name].experts if name in self.pieces else 1

    def shape(self, name: str) -> tuple[int, int]:
        """Returns the shape of the change of a tensor."""
        A, B = map(self.weights.shape, self.factors[name])
        rows = range(B[0]) if name not in self.pieces else range(B[0])[self.pieces[name].rows]
        return (A[1], len(rows)) if name in self.transposed else (len(rows), A[1])

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


def padded(factor: "NDArray[np.float32]", rank: int) -> "NDArray[np.float32]":
    """Returns a factor `[r, n]` with rows of zeros up to a rank, which change no product."""
    import numpy as np

    return np.pad(factor, ((0, rank - len(factor)), (0, 0)))


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
    layers = _modules(weights)
    parameters = targeted_parameters(config, base, str(config_file))
    wrapped = wrappers(parameters)
    modules = sorted(layers.keys() - wrapped.keys())
    check_places(config, modules, base, file, config_file)
    refuse_strays(str(file), [], sorted(wrapped.keys() - layers.keys()))
    pairs = {wrapped.get(layer, layer): pair for layer, pair in layers.items()}
    names = tensors_of(modules, base)
    turned = frozenset(name for name in names.values() if transposed(name, base))
    if config.get("fan_in_fan_out") and not turned:
        raise InputError(
            f"{config_file}: fan_in_fan_out: weights stored as [in, out] are supported only for "
            f"{', '.join(sorted(IN_BY_OUT))}",
            code="delta.adapter_not_supported",
        )
    owners = {names[module]: module for module in modules}
    located: dict[str, Piece] = {}
    for parameter, parts in parameters.items():
        _check_stack(weights, pairs[parameter], parts, base)
        inside = dict(pieces(parts, base))
        if twice := sorted(inside.keys() & owners.keys()):
            raise InputError(
                f"{file}: {parameter!r}: expected factors of {twice[0]!r} once, got them twice",
                code="delta.tensor_twice",
            )
        located |= inside
        owners |= dict.fromkeys(inside, parameter)
    ranks = {
        owner: weights.shape(A_name)[0] // len(parameters.get(owner, ((),)))
        for owner, (A_name, _) in pairs.items()
    }
    scales = _scales(config, ranks, file, config_file)
    return Adapter(
        weights,
        {name: scales[owner] for name, owner in owners.items()},
        {name: pairs[owners[name]] for name in sorted(owners)},
        turned,
        located,
    )


def read_factors(adapter: Adapter, name: str) -> Factors:
    """Returns A as [r, in] and the folded B, transposed, as [r, out].

    The two are swapped if the base stores [in, out]: A always belongs to the columns.

    Raises:
        InputError: the shapes do not fit each other, or a value is not finite.
    """
    import numpy as np

    piece, (A_name, _) = adapter.pieces.get(name), adapter.factors[name]
    if piece is None:
        A, folded = _read_pair(adapter, name)
        return (folded, A) if name in adapter.transposed else (A, folded)
    if A_name not in adapter.stacks:
        while len(adapter.stacks) > 1:  # a layer has two, which its experts alternate between
            del adapter.stacks[next(iter(adapter.stacks))]
        adapter.stacks[A_name] = _read_pair(adapter, name)
    stacked_A, stacked_B = adapter.stacks[A_name]
    A_ERI = stacked_A.reshape(piece.experts, -1, stacked_A.shape[1])
    B_REO = stacked_B.reshape(-1, piece.experts, stacked_B.shape[1])
    return A_ERI[piece.expert], np.ascontiguousarray(B_REO[:, piece.expert, piece.rows])


def _read_pair(adapter: Adapter, name: str) -> Factors:
    """Returns A and the folded B, transposed, as they are in the file."""
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
    *,
    base: Weights | None = None,
) -> None:
    """Writes factors as a peft folder in float32, with alpha = `scaled` times the rank.

    Args:
        folder: an existing folder.
        factors: base tensor name, A as [r, columns], B transposed as [r, rows].
        base_id: the name of the base in the config.
        scaled: the factor for the product.
        base: the base's files; without them, layers have the names of their tensors.

    Raises:
        InputError: a value is not finite.
        StorageError: the folder cannot be written.
    """
    import numpy as np

    from zoo.backends.base import only_tensor

    parts = {} if base is None else parts_of(base)
    beside = beside_experts(parts)
    owners = {name: owner for owner, experts in beside.items() for name in chain(*experts)}
    names = {only_tensor(tensors) or "": parameter for parameter, tensors in parts.items()}
    layers: dict[str, Factors] = {}
    stacked: dict[str, dict[str, Factors]] = {}
    ranks: dict[str, int] = {}
    turned = False
    for name, first, second in factors:
        if name in owners:
            stacked.setdefault(owners[name], {})[name] = (first, second)
            continue
        turns = base is not None and transposed(name, base)
        turned |= turns
        A, B = (second, first) if turns else (first, second)
        module = names.get(name, name).removesuffix(WEIGHT)
        ranks[module] = len(A)
        layers[module] = A, B.T
    for layer, parameter in wrappers(name for name in beside if name in stacked).items():
        assert base is not None
        layers[layer] = joined(beside[parameter], base, stacked[parameter])
        ranks[parameter] = len(layers[layer][0]) // len(beside[parameter])
    sides = [
        (f"base_model.model.{layer}.lora_{side}.weight", np.ascontiguousarray(array))
        for layer, pair in layers.items()
        for side, array in zip("AB", pair, strict=True)
    ]
    for key, array in sides:
        refuse_not_finite(array, f"{folder}: tensor {key!r}")
    entries = [Entry(key, "F32", array.shape) for key, array in sides]
    arrays = [array for _, array in sides]
    write_safetensors(folder / WEIGHTS_FILE, entries, {"format": "pt"}, arrays)
    with storage_errors(folder):
        settings = _peft_config(ranks, base_id, scaled) | {
            "fan_in_fan_out": turned,
            "target_modules": sorted(ranks.keys() - stacked.keys()),
            "target_parameters": sorted(stacked),
        }
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


def _check_stack(weights: Weights, pair: tuple[str, str], parts: "Parts", base: Weights) -> None:
    A, B = map(weights.shape, pair)
    experts, (rows, columns) = len(parts), stack_shape(parts, base)
    if A[0] % experts or A[1] != columns or B[0] != rows:
        expected = f"expected [{experts} r, {columns}] and [{rows}, {experts} r]"
        raise InputError(
            f"{weights.source}: tensors {pair[0]!r} and {pair[1]!r}: {expected} as in the base, "
            f"got {list(A)} and {list(B)}",
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
