"""The numbers of a dense delta that are trained while its codes stay: scales and plain differences.

Scale distillation (arXiv:2402.10193, section 3) trains nothing else. A change is linear in its
scales, so the gradient of a scale is the sum of the weights' gradient times the codes that it
multiplies, and needs no pass of its own.
Legend: R rows and C columns of a tensor as a matrix.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.gym.delta.codecs.tensor import apply_rows, decode_rows
from zoo.gym.delta.codecs.values import Parts, Values
from zoo.gym.delta.file.terms import (
    GROUP,
    IntTerm,
    RawTerm,
    SignTerm,
    TensorTerms,
    TernaryTerm,
    plane_names,
    rows_and_columns,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray: TypeAlias = NDArray[np.float32]

Sharing: TypeAlias = Literal["row", "matrix", "column", "group", "value"]
"""What one trained number belongs to; `value` is a plain difference."""

_WEIGHTS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Trainable:
    """A part of a tensor's terms that can be trained.

    Attributes:
        part: its name without the tensor's, such as `scale`.
        sharing: what each of its numbers belongs to.
        codes: a tensor of one term, and its parts, whose change with a scale of 1 is what the
            scale multiplies; None for a plain difference.
    """

    part: str
    sharing: Sharing
    codes: tuple[TensorTerms, Parts] | None


@dataclass
class TrainableTensor:
    """One tensor of a delta, on its base, with numbers that can be replaced.

    Attributes:
        tensor: its name, shape and terms.
        parts: the parts of the terms; trained ones are float32, and rounded to their stored type
            where the change is computed.
        base: reads the base's values; mapped files are not kept open between steps.
        trainables: what is trained.
    """

    tensor: TensorTerms
    parts: dict[str, "NDArray[Any]"]
    base: Callable[[], Values]
    trainables: list[Trainable] = field(init=False)
    _stored: dict[str, "np.dtype[Any]"] = field(init=False)

    def __post_init__(self) -> None:
        import numpy as np

        self.trainables = list(_trainables(self.tensor, self.parts))
        self._stored = {each.part: self.parts[each.part].dtype for each in self.trainables}
        for name in self._stored:
            self.parts[name] = np.array(self.parts[name], np.float32)

    def stored(self) -> Parts:
        """Returns the parts in their stored types."""
        return {
            name: values.astype(self._stored.get(name, values.dtype), copy=False)
            for name, values in self.parts.items()
        }

    def weights(self) -> "FloatArray":
        """Returns base plus change, float32 in the tensor's shape."""
        R, C = rows_and_columns(self.tensor.shape)
        values = self.base().float32(slice(0, R * C)).reshape(R, C)
        apply_rows(self.tensor, self.stored(), slice(0, R), values)
        return values.reshape(self.tensor.shape)

    def gradients(self, gradient: "FloatArray") -> "dict[str, FloatArray]":
        """Returns the gradient of each trained part, float32 in its shape.

        Args:
            gradient: that of the weights, in the tensor's shape.
        """
        import numpy as np

        R, C = rows_and_columns(self.tensor.shape)
        by_part = {
            each.part: np.zeros(self.parts[each.part].shape, "f8") for each in self.trainables
        }
        step = max(1, _WEIGHTS_AT_ONCE // C)
        for rows in (slice(start, min(R, start + step)) for start in range(0, R, step)):
            above = gradient.reshape(R, C)[rows]
            for each in self.trainables:
                _add_gradient(by_part[each.part], each, above, rows)
        return {part: total.astype("f4") for part, total in by_part.items()}


def _trainables(tensor: TensorTerms, parts: Mapping[str, "NDArray[Any]"]) -> Iterator[Trainable]:
    """Yields what can be trained; nothing of a sparse term, which has the exact values."""
    for term in tensor.terms:
        match term:
            case RawTerm():
                yield Trainable("raw", "value", None)
            case SignTerm():
                plane_of_one = term.model_copy(
                    update={"scale": "matrix", "planes": 1, "group": None}
                )
                for plane in plane_names(term):
                    shared = {"sign": parts[f"sign{plane}"]} | (
                        {"mask": parts["mask"]} if term.zero == "mask" else {}
                    )
                    codes = _of_one(tensor, plane_of_one, shared, "scale", (1,), "f4")
                    yield Trainable(f"scale{plane}", term.scale, codes)
            case TernaryTerm() | IntTerm():
                name = f"{term.kind}.scale"
                shared = {f"{term.kind}.codes": parts[f"{term.kind}.codes"]}
                codes = _of_one(tensor, term, shared, name, parts[name].shape, "f2")
                yield Trainable(name, "group", codes)
            case _:
                pass


def _of_one(
    tensor: TensorTerms,
    term: SignTerm | TernaryTerm | IntTerm,
    shared: Parts,
    name: str,
    shape: tuple[int, ...],
    kind: str,
) -> tuple[TensorTerms, Parts]:
    """Returns a tensor of one term whose scales are 1."""
    import numpy as np

    return tensor.model_copy(update={"terms": (term,)}), {**shared, name: np.ones(shape, kind)}


def _add_gradient(
    total: "NDArray[np.float64]", trainable: Trainable, above: "FloatArray", rows: slice
) -> None:
    """Adds what some rows contribute to the gradient of a part."""
    import numpy as np

    if trainable.codes is None:
        total.reshape(-1, above.shape[1])[rows] += above
        return
    product = decode_rows(*trainable.codes, rows)
    product *= above
    match trainable.sharing:
        case "row":
            total[rows] += product.sum(axis=1, dtype="f8")
        case "column":
            total += product.sum(axis=0, dtype="f8")
        case "matrix":
            total += product.sum(dtype="f8")
        case _:
            starts = np.arange(0, product.shape[1], GROUP)
            total[rows] += np.add.reduceat(product, starts, axis=1, dtype="f8")
