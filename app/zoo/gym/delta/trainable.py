"""The numbers of a delta that can be trained; of a dense one, its scales and plain differences.

Scale distillation (arXiv:2402.10193, section 3) trains nothing else: codes stay. A change is
linear in its scales, so the gradient of a scale is the sum of the weights' gradient times the codes
that it multiplies, and needs no pass of its own.
Legend: R rows and C columns of a tensor as a matrix.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zoo.gym.delta.codecs.tensor import Encoded, apply_rows, decode_rows
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


class TrainableTensor(ABC):
    """One tensor of a delta whose trained numbers can be replaced.

    Attributes:
        tensor: its name, shape and terms.
        trained: the trained numbers by part, float32; changed in place.
        units: what a rate of 1 moves each of them by.
        parameter_names: the parameters of the model that the tensor changes.
    """

    tensor: TensorTerms
    trained: "dict[str, FloatArray]"
    units: "dict[str, FloatArray]"
    parameter_names: tuple[str, ...]

    @abstractmethod
    def parameters(self, parts: "Parts | None" = None) -> "Iterator[tuple[str, FloatArray]]":
        """Yields each of `parameter_names` with its values.

        Args:
            parts: stored parts to compute them from; by default the trained ones.
        """

    @abstractmethod
    def gradients(self, parameter: str, gradient: "FloatArray") -> "dict[str, FloatArray]":
        """Returns the gradient by part that a parameter's gradient gives.

        Args:
            parameter: one that `parameters` yields.
            gradient: in its shape.
        """

    @abstractmethod
    def encoded(self) -> Encoded:
        """Returns the tensor as it is stored."""


class ScaledTensor(TrainableTensor):
    """A tensor of scales and codes, on its base: the scales are trained, and plain differences.

    Args:
        tensor: its name, shape and terms.
        parts: the parts of the terms. Trained ones are float32 here, and rounded to their stored
            type where the change is computed.
        base: reads the base's values; mapped files are not kept open between steps.
        parameter: the parameter of the loaded model.
    """

    def __init__(
        self, tensor: TensorTerms, parts: Parts, base: Callable[[], Values], parameter: str
    ) -> None:
        import numpy as np

        self.tensor, self._parts, self._base = tensor, parts, base
        self.parameter_names = (parameter,)
        self._trainables = list(_trainables(tensor, parts))
        names = [each.part for each in self._trainables]
        self.trained = {name: np.array(parts[name], np.float32) for name in names}
        self.units = {each.part: _unit(self.trained[each.part], each) for each in self._trainables}

    def parameters(self, parts: "Parts | None" = None) -> "Iterator[tuple[str, FloatArray]]":
        """Yields the weight: base plus change, float32 in the tensor's shape."""
        import numpy as np

        R, C = rows_and_columns(self.tensor.shape)
        base, values = self._base(), np.empty((R, C), np.float32)
        arrays = self.encoded().arrays if parts is None else parts
        for rows in _blocks(R, C):
            values[rows] = base.float32(slice(rows.start * C, rows.stop * C)).reshape(-1, C)
            apply_rows(self.tensor, arrays, rows, values[rows])
        yield self.parameter_names[0], values.reshape(self.tensor.shape)

    def gradients(self, parameter: str, gradient: "FloatArray") -> "dict[str, FloatArray]":
        """Returns the sums of the weights' gradient times the codes of each scale."""
        import numpy as np

        del parameter
        R, C = rows_and_columns(self.tensor.shape)
        sums = {name: np.zeros(values.shape, "f8") for name, values in self.trained.items()}
        for rows in _blocks(R, C):
            above = gradient.reshape(R, C)[rows]
            for each in self._trainables:
                _add_gradient(sums[each.part], each, above, rows)
        return {part: total.astype("f4") for part, total in sums.items()}

    def encoded(self) -> Encoded:
        """Returns the tensor with its scales in their stored types."""
        trained = {
            name: values.astype(self._parts[name].dtype) for name, values in self.trained.items()
        }
        return Encoded(self.tensor, {**self._parts, **trained})


def _blocks(R: int, C: int) -> Iterator[slice]:
    """Yields slices of rows with about as many weights as stay in a processor's cache."""
    step = max(1, _WEIGHTS_AT_ONCE // C)
    yield from (slice(start, min(R, start + step)) for start in range(0, R, step))


def _unit(values: "FloatArray", trainable: Trainable) -> "FloatArray":
    """Returns what a rate of 1 moves values by: each scale by itself, differences by their norm.

    A difference may be zero by chance; a row whose scale is zero has not changed.
    """
    import numpy as np

    size = np.abs(values)
    if trainable.sharing != "value":
        return size
    return np.full_like(size, np.sqrt(np.mean(np.square(size))))


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
