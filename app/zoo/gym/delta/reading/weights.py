"""Reads a model's tensors one by one from a folder, sharded or not, or one safetensors file.

Arrays are views of mapped files, so a full model is never in memory. Truncating a mapped file would
kill the process, so adapters, which are small and untrusted, are opened once and read instead.
bfloat16 is read as uint16.

Layers of an adapter have the names of the loaded model. Files may omit the prefix of the backbone
(GPT-2, Bloom), and GPT-2 stores its layers as [in, out].
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zoo.gym.delta.codecs.floats import blocks, from_bf16
from zoo.gym.delta.codecs.values import Values
from zoo.gym.errors import InputError, NotAvailableError
from zoo.models.adapters import ALL_LINEAR, WEIGHT, refuse_strays, stored_name, targeted
from zoo.models.folder import read_config, stores_in_by_out
from zoo.models.tied_head import HEAD, head_is_copy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zoo.backends.base import Parts
    from zoo.core import OpenFile, TensorInfo

FLOATS: "Mapping[str, Literal['f32', 'f16', 'bf16']]" = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
"""The types that deltas support, by their names in safetensors and in zoo.core."""

_NUMPY = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_OTHERS = {
    **{f"{kind}{8 * n}": f"<{kind.lower()}{n}" for kind in "IU" for n in (1, 2, 4, 8)},
    "BOOL": "?",
    "F64": "<f8",
}
CONSTANTS = (".attn.bias", ".attention.bias", ".masked_bias", ".causal_mask")
"""Suffixes of masks that old checkpoints store and new ones do not."""

_NO_WEIGHT = ".rotary_emb.inv_freq"  # a constant that old checkpoints stored


@dataclass(frozen=True)
class Weights:
    """The tensors of a model on disk.

    Attributes:
        source: the folder or file, for messages.
        files: the safetensors files.
        tensors: the file of each tensor and its location in it, by name.
        opened: the files that are read, not mapped.
    """

    source: Path
    files: tuple[Path, ...]
    tensors: "Mapping[str, tuple[Path, TensorInfo]]"
    opened: "Mapping[Path, OpenFile]" = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor."""
        return tuple(self.tensors[name][1].shape)

    def nbytes(self, name: str) -> int:
        """Returns the size of a tensor in its file, in bytes."""
        info = self.tensors[name][1]
        return info.stop - info.start

    def dtype(self, name: str) -> str:
        """Returns the type of a tensor by its safetensors name: `F32`, `BF16`, ..."""
        return self.tensors[name][1].dtype


def open_weights(source: Path, *, mapped: bool = True) -> Weights:
    """Reads the headers of a model folder or a safetensors file.

    Args:
        source: the folder or the file.
        mapped: True for views of mapped files; False to read each tensor from files that are opened
            now.

    Raises:
        NotAvailableError: `source` does not exist.
        InputError: it has no safetensors weights, or a malformed file.

    Warns:
        GymWarning: the folder contains a second set of weights, which is not used.
    """
    from zoo.core import OpenFile, read_header
    from zoo.models.checkpoint_files import checkpoint_files, warn_of_unused_weights

    if not source.exists():
        raise NotAvailableError(f"no such file or folder: {str(source)!r}", code="delta.no_weights")
    files = (source,) if source.is_file() else tuple(checkpoint_files(source))
    if source.is_dir():
        warn_of_unused_weights(source)
    tensors: dict[str, tuple[Path, TensorInfo]] = {}
    opened = {} if mapped else {file: OpenFile(file) for file in files}
    for file in files:
        for name, info in read_header(opened.get(file, file)).tensors.items():
            if name in tensors:
                raise InputError(
                    f"{file}: tensor {name!r} is in {tensors[name][0].name!r}, too",
                    code="delta.tensor_twice",
                )
            tensors[name] = (file, info)
    return Weights(source, files, tensors, opened)


def stored_bytes(weights: Weights, name: str) -> "NDArray[np.uint8]":
    """Returns a tensor's stored bytes; those of a mapped file are read when they are used."""
    import numpy as np

    file, info = weights.tensors[name]
    if info.start == info.stop:
        return np.empty(0, np.uint8)
    if file in weights.opened:
        return weights.opened[file].read(info.start, info.stop)
    return np.memmap(file, np.uint8, "r", offset=info.start, shape=(info.stop - info.start,))


def read_stored(weights: Weights, name: str) -> "NDArray[Any]":
    """Returns a float tensor in its stored type and shape; bf16 as uint16.

    Raises:
        InputError: the tensor is not float32, float16 or bfloat16.
    """
    import numpy as np

    dtype = weights.dtype(name)
    if dtype not in FLOATS:
        where = f"{weights.source}: tensor {name!r}"
        raise InputError(
            f"{where}: expected a type of {', '.join(FLOATS)}, got {dtype!r}", code="delta.bad_type"
        )
    array = stored_bytes(weights, name).view(_NUMPY[dtype]).reshape(weights.shape(name))
    return np.require(array, requirements=["C", "A"])


def read_values(weights: Weights, name: str) -> Values:
    """Returns a float tensor of a model; mapped files are read when the values are used.

    Raises:
        InputError: the tensor is not float32, float16 or bfloat16.
    """
    return Values(read_stored(weights, name), FLOATS[weights.dtype(name)], str(weights.source))


def read_float32(weights: Weights, name: str) -> "NDArray[np.float32]":
    """Returns a float tensor as a float32 copy; exact for all supported types."""
    import numpy as np

    stored = read_stored(weights, name)
    if weights.dtype(name) == "BF16":
        return from_bf16(stored)
    return np.array(stored, np.float32)


def read_array(weights: Weights, name: str) -> "NDArray[Any]":
    """Returns a float tensor as a float32 copy, others as they are stored."""
    if dtype := _OTHERS.get(weights.dtype(name)):
        return stored_bytes(weights, name).view(dtype).reshape(weights.shape(name))
    return read_float32(weights, name)


def float_config(folder: Path) -> dict[str, Any]:
    """Returns the config of a model whose weights are floats.

    Raises:
        InputError: it is quantised.
    """
    config = read_config(folder)
    if config.get("quantization_config") or config.get("quantization"):
        raise InputError(
            f"{folder}: expected float weights, got a quantised model", code="delta.quantized"
        )
    return config


def own_tensors(weights: Weights, *, tied: bool) -> set[str]:
    """Returns the names of tensors with their own weights: without a tied head and constants."""
    names = {name for name in weights.tensors if not name.endswith(_NO_WEIGHT)}
    return names - {HEAD} if tied else names


def is_tied(weights: Weights) -> bool:
    """Returns whether the head is tied to the embedding, as in transformers.

    A stored head with other values than the embedding is not tied, whatever the config says.
    Without a stored head, or with the same values, the config decides.
    """
    config = read_config(weights.source) if weights.source.is_dir() else {}
    copy = head_is_copy(weights.tensors)
    if HEAD in weights.tensors and not copy:
        return False
    tied = config.get("tie_word_embeddings")
    return copy if tied is None else bool(tied)


def same_values(first: "NDArray[np.uint8]", second: "NDArray[np.uint8]") -> bool:
    """Returns whether two arrays have the same bytes, comparing them block by block."""
    import numpy as np

    return first.size == second.size and all(
        np.array_equal(first[part], second[part]) for part in blocks(first.size)
    )


_NUMBER = re.compile(r"\.(\d+)\.")


def tensor_of(module: str, base: Weights) -> str:
    """Returns the name of a layer's weight in the base's files, or its own if they lack it."""
    return stored_name(module, base.tensors) or module + WEIGHT


def named_as(tuned: Weights, base: Weights) -> Weights:
    """Returns a fine-tune's tensors under the names of its base.

    transformers writes the backbone's prefix, which old files omit.
    """
    shorter = {name: name.partition(".")[2] for name in tuned.tensors if name not in base.tensors}
    names = {name: short for name, short in shorter.items() if short in base.tensors}
    tensors = {names.get(name, name): tensor for name, tensor in tuned.tensors.items()}
    return replace(tuned, tensors=tensors) if len(tensors) == len(tuned.tensors) else tuned


def tensors_of(modules: Iterable[str], base: Weights) -> dict[str, str]:
    """Returns the names of layers' weights in the base's files, by layer.

    If the files use another name, the renaming rules of transformers are applied.
    """
    names = {module: tensor_of(module, base) for module in modules}
    elsewhere = [module for module, name in names.items() if name not in base.tensors]
    if elsewhere and base.source.is_dir():
        places = {parameter: name for name, parameter in _parameters(base).items()}
        names |= {module: places.get(module + WEIGHT, names[module]) for module in elsewhere}
    return names


def parts_of(base: Weights) -> "dict[str, Parts]":
    """Returns the loaded model's parameters in order, with the tensors that each has in the files.

    Raises:
        InputError: the model cannot be built.
    """
    from zoo.gym.engine import engine_for

    return engine_for(base.source).parameter_parts(base.source)


def _parameters(base: Weights) -> dict[str, str]:
    from zoo.gym.engine import engine_for

    return engine_for(base.source).parameter_names(base.source)


def transposed(name: str, base: Weights) -> bool:
    """Returns whether the base stores this layer's weight as [in, out]."""
    config = read_config(base.source) if base.source.is_dir() else {}
    return stores_in_by_out(config) and not name.startswith("lm_head.")


def check_places(
    config: Mapping[str, Any], modules: Iterable[str], base: Weights, file: Path, config_file: Path
) -> None:
    """Checks that an adapter contains exactly the layers that its config covers.

    Args:
        config: the adapter's settings.
        modules: the layers whose factors it contains.
        base: the base that it belongs to.
        file: the adapter's file, for error messages.
        config_file: the config's file, for error messages.

    Raises:
        InputError: it does not, so peft would omit some or initialise some at random.
    """
    present = set(modules)
    unexpected = present - targeted(config, sorted(present), str(config_file))
    candidates = _siblings(present, base) if config.get("target_modules") != ALL_LINEAR else []
    missing = targeted(config, candidates, str(config_file)) - present
    if missing and base.source.is_dir():  # stacked experts are no longer layers
        missing &= {parameter.removesuffix(WEIGHT) for parameter in _parameters(base).values()}
    refuse_strays(str(file), sorted(unexpected), sorted(missing))


def _siblings(present: set[str], base: Weights) -> list[str]:
    """Returns the base's matrices in the same modules as those of an adapter, in any layer.

    Other matrices (of an image encoder, layers that predict further tokens, experts that the
    loaded model stacks) are not modules of the model that the adapter was made for.
    """
    config = read_config(base.source) if base.source.is_dir() else {}
    layers = config.get("text_config", config).get("num_hidden_layers")
    places = {_place(module)[0] for module in present}
    stored = {module: tensor_of(module, base).removesuffix(WEIGHT) for module in present}
    prefixes = {module.removesuffix(name) for module, name in stored.items()}
    siblings: set[str] = set()
    for name in base.tensors:
        if name.endswith(WEIGHT) and len(base.shape(name)) == 2:
            for module in (prefix + name.removesuffix(WEIGHT) for prefix in prefixes):
                parent, layer = _place(module)
                inside = layer >= 0 and (not isinstance(layers, int) or layer < layers)
                if inside and parent in places:
                    siblings.add(module)
    return sorted(siblings)


def _place(module: str) -> tuple[str, int]:
    """Returns the parent of a module, without the layer number, and the layer number."""
    number = _NUMBER.search(module)
    return _NUMBER.sub(".*.", module.rpartition(".")[0] + "."), int(number[1]) if number else -1
