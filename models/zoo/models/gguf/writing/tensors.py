"""Which tensors a GGUF file has for the weights of a transformers folder, and how they change.

Every tensor of the folder is used, or the export is refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from zoo.core.errors import InputError
from zoo.models.gguf.writing.settings import Config, Family, head_width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float32]

_EXPERT = re.compile(r"(?P<experts>.*\.experts)\.(?P<number>\d+)\.(?P<matrix>\w+)\.weight")
_FUSED = re.compile(r".*\.experts\.(gate_up_proj|down_proj)(\.weight)?")
_ENDINGS = (".weight", ".bias")


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file.

    Attributes:
        name: its name there.
        shape: its shape in NumPy's order.
        parts: the names of the weights that it is made of: mostly one, or those of all experts.
        arrange: returns the values in the file's order, of one part.
    """

    name: str
    shape: tuple[int, ...]
    parts: tuple[str, ...]
    arrange: "Callable[[Array], Array]"

    def values(self, read: "Callable[[str], Array]") -> "Array":
        """Returns its values, where `read` returns those of a weight."""
        import numpy as np

        if len(self.parts) == 1:
            return self.arrange(read(self.parts[0])).reshape(self.shape)
        stacked = np.empty(self.shape, np.float32)
        for index, part in enumerate(self.parts):
            stacked[index] = self.arrange(read(part))
        return stacked


def plan_tensors(
    shapes: Mapping[str, tuple[int, ...]], config: Config, family: Family
) -> list[Tensor]:
    """Returns the tensors of a file, in the order of the layers.

    Args:
        shapes: the shape of each weight by its name in the folder, without a tied head.
        config: the model's config.
        family: how it is written.

    Raises:
        InputError: a weight has no name in the file, or two have the same.
    """
    names = _names(config, family)
    experts: dict[str, dict[int, str]] = {}
    tensors: dict[str, Tensor] = {}
    for weight, shape in shapes.items():
        if match := _EXPERT.fullmatch(weight):
            group = f"{match['experts']}.{match['matrix']}.weight"
            experts.setdefault(group, {})[int(match["number"])] = weight
            continue
        if _FUSED.fullmatch(weight):
            raise InputError(
                f"weight {weight!r}: expected a tensor for each expert, got all in one",
                hint="save the model with transformers' save_pretrained, which divides them",
                code="models.weights_not_for_gguf",
            )
        _check_heads(weight, shape, config)
        _add(tensors, _named(weight, names), shape, (weight,), _arrangement(weight, config, family))
    for group, numbered in experts.items():
        if sorted(numbered) != list(range(len(numbered))):
            raise InputError(
                f"weights {group!r}: expected those of all experts, got some",
                code="models.weights_not_for_gguf",
            )
        parts = tuple(numbered[number] for number in range(len(numbered)))
        shape = (len(parts), *shapes[parts[0]])
        _add(tensors, _named(group, names), shape, parts, _same)
    return sorted(tensors.values(), key=_place)


def _check_heads(weight: str, shape: tuple[int, ...], config: Config) -> None:
    """Refuses queries or keys of other heads than the config's.

    Raises:
        InputError: the numbers differ.
    """
    counts = {".q_proj.": config.num_attention_heads, ".k_proj.": config.num_key_value_heads}
    for part, heads in counts.items():
        if part in weight and shape[0] != heads * head_width(config):
            raise InputError(
                f"weight {weight!r}: expected {heads} heads of {head_width(config)} rows, got "
                f"{shape[0]:,} rows",
                code="models.weights_not_for_gguf",
            )


def _names(config: Config, family: Family) -> Any:  # noqa: ANN401
    from gguf import MODEL_ARCH, get_tensor_name_map

    kind = next(arch for arch in MODEL_ARCH if arch.name.lower() == family.architecture)
    return get_tensor_name_map(kind, config.num_hidden_layers)


def _named(weight: str, names: Any) -> str:  # noqa: ANN401
    name: str | None = names.get_name(weight, try_suffixes=_ENDINGS)
    if name is None:
        raise InputError(
            f"weight {weight!r}: expected one that a GGUF file of this architecture has",
            hint="--format hf writes a folder that transformers loads",
            code="models.weights_not_for_gguf",
        )
    return name


def _add(
    tensors: dict[str, Tensor],
    name: str,
    shape: tuple[int, ...],
    parts: tuple[str, ...],
    arrange: "Callable[[Array], Array]",
) -> None:
    if name in tensors:
        raise InputError(
            f"weights {tensors[name].parts[0]!r} and {parts[0]!r} are both {name!r}",
            code="models.weights_not_for_gguf",
        )
    tensors[name] = Tensor(name, shape, parts, arrange)


def _arrangement(weight: str, config: Config, family: Family) -> "Callable[[Array], Array]":
    if family.permutes and ".q_proj." in weight:
        return interleaved(config.num_attention_heads)
    if family.permutes and ".k_proj." in weight:
        return interleaved(config.num_key_value_heads)
    if family.adds_one and weight.endswith("norm.weight"):
        return lambda values: values + 1
    return _same


def interleaved(heads: int) -> "Callable[[Array], Array]":
    """Returns what reorders the rows of queries or keys, so that rotated pairs are neighbours."""

    def reorder(values: "Array") -> "Array":
        rows = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
        return rows.swapaxes(1, 2).reshape(values.shape)

    return reorder


def _same(values: "Array") -> "Array":
    return values


def _place(tensor: Tensor) -> tuple[int, int, str]:
    """Returns the order: the embedding, the layers, the rest."""
    if tensor.name.startswith("blk."):
        return 1, int(tensor.name.split(".")[1]), tensor.name
    return (0 if tensor.name.startswith("token_embd") else 2), 0, tensor.name
