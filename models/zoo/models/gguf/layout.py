"""Which tensors of a GGUF file make up each weight of the transformers model, and how.

Names and permutations are those of transformers' reader, which converts a whole model in memory;
here one weight at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo.core.errors import InputError
from zoo.models.gguf.architecture import architecture_of
from zoo.models.gguf.parts import Source
from zoo.models.gguf.rope import FACTORS
from zoo.models.refusals import refusals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Weight:
    """A weight of the transformers model.

    Attributes:
        name: its name there.
        shape: its shape there.
        tensors: the tensors of the file that it is made of, mostly one.
    """

    name: str
    shape: tuple[int, ...]
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A model's weights, and transformers' code that rearranges them.

    Attributes:
        weights: in the order of the model.
        class_name: the model's class.
        processor: transformers' tensor processor of the architecture.
        names: the names in transformers by those in the file.
    """

    weights: tuple[Weight, ...]
    class_name: str
    processor: Any
    names: Mapping[str, str]

    def arrange(
        self, weight: Weight, values: "Mapping[str, NDArray[np.float32]]"
    ) -> "NDArray[np.float32]":
        """Returns a weight in transformers' order.

        Args:
            weight: what to return.
            values: the dequantised values of its tensors by name in the file.
        """
        import numpy as np

        gathered: dict[str, Any] = {"tensors": {}}
        for name in weight.tensors:
            result = self.processor.process(
                weights=values[name],
                name=name,
                tensor_key_mapping=self.names,
                parsed_parameters=gathered,
            )
            if result.name is not None:
                gathered["tensors"][weight.name] = result.weights
        return np.ascontiguousarray(gathered["tensors"][weight.name], dtype=np.float32)


def read_layout(source: Source, config: Any) -> Layout:  # noqa: ANN401
    """Returns the weights that a file has for a config.

    Raises:
        InputError: a weight has no tensor, a tensor no weight, or the config makes no model.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    architecture = architecture_of(source)
    processors: Mapping[str, Any] = TENSOR_PROCESSORS
    processor = processors.get(architecture, TensorProcessor)(config=config.to_dict())
    with refusals(f"'{source.path}': these settings make no model"), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        names = dict(get_gguf_hf_weights_map(_Names(model), processor))
    tied = set(model._tied_weights_keys or ()) if config.tie_word_embeddings else set()
    shapes = {
        name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name not in tied
    }
    names = {key: name for key, name in names.items() if name in shapes}
    weights = _weights(source, shapes, names)
    return Layout(weights, type(model).__name__, processor, names)


class _Names:
    """The names of a model's weights and of its backbone's, for transformers' mapping.

    That function builds its table of names once more for each module below the one that it is
    given: 16 s for 30 layers. Only the backbone can have names that the whole model has not.
    """

    def __init__(self, model: Any, *, is_backbone: bool = False) -> None:  # noqa: ANN401
        self.config = model.config
        self._model, self._is_backbone = model, is_backbone

    def state_dict(self) -> Mapping[str, Any]:
        """Returns the weights by name."""
        weights: Mapping[str, Any] = self._model.state_dict()
        return weights

    def named_children(self) -> list[tuple[str, "_Names"]]:
        """Returns the backbone of a whole model."""
        prefix = self._model.base_model_prefix
        backbone = getattr(self._model, prefix, None)
        if self._is_backbone or backbone is None:
            return []
        return [(prefix, _Names(backbone, is_backbone=True))]


def _weights(
    source: Source, shapes: Mapping[str, tuple[int, ...]], names: Mapping[str, str]
) -> tuple[Weight, ...]:
    tensors: dict[str, list[str]] = {}
    for key, name in names.items():
        stored = [each for each in (key, f"{key}.weight") if each in source.tensors]
        if stored:
            tensors.setdefault(name, []).extend(stored)
        elif key not in source.tensors:
            tensors.setdefault(name, [])
    _refuse_missing(source, shapes, names, tensors)
    used = {each for group in tensors.values() for each in group}
    settings = {FACTORS} if architecture_of(source) == "llama" else set[str]()
    extra = sorted(set(source.tensors) - used - settings)
    if extra:
        raise InputError(
            f"'{source.path}': unexpected tensor '{extra[0]}'"
            + (f" and {len(extra) - 1} more" if len(extra) > 1 else "")
            + f": expected those of a model of architecture {architecture_of(source)} alone",
            code="models.gguf_unexpected_tensor",
        )
    return tuple(Weight(name, shapes[name], tuple(tensors[name])) for name in shapes)


def _refuse_missing(
    source: Source,
    shapes: Mapping[str, tuple[int, ...]],
    names: Mapping[str, str],
    tensors: Mapping[str, list[str]],
) -> None:
    """Refuses a file without all tensors of a weight."""
    for name in shapes:
        keys = [key for key, target in names.items() if target == name]
        if keys and len(tensors.get(name, [])) == len(keys):
            continue
        present = tensors.get(name, [])
        absent = [key for key in keys if key not in present and f"{key}.weight" not in present]
        what = f"'{absent[0]}'" if absent else f"one for '{name}'"
        raise InputError(
            f"'{source.path}': expected a tensor {what}, got none",
            code="models.gguf_missing_tensor",
        )
